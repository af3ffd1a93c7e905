"""NARM: neural attentive recommendation machine (Li, Ren, Chen, Ren, Lian & Ma, CIKM 2017).

Given the clicks of a session so far, rank the next one: a GRU reads the clicks; its latest state tells what the session
is about, and an attention from that state over all the states picks what was meant.

=================  =========================================================================================
global encoder     ``NARM.encode``: the GRU; c^g is its state at the target click
local encoder      ``additive_scores``: a_ij = v . sigmoid(A1 h_i + A2 h_j); c^l is the sum of a_ij h_j
hybrid encoder     ``NARM.encode``: c, which is c^g beside c^l
decoder            ``NARM.forward``: scores emb_i . B c
=================  =========================================================================================

All clicks of a session are answered in one pass. The score of a pair (i, j) sums over dim after a sigmoid, so it is no
matrix product, and all pairs at once would be a (time x time x dim) tensor. ``additive_scores`` goes over distances
i - j instead: (batch x time x dim) at a time, ``length`` times; the backward pass recomputes each part, so neither does
training hold more. The result is exact.

Defaults are the authors': table 50 wide, state 100, dropout 0.25 on clicks and 0.5 on the session, the last 19 clicks.

**Departures.** The authors cut a session to its last 19 clicks before the GRU; here the GRU has read the session from
its start and the attention heeds the latest 19 states, so that one pass serves all steps. Up to 19 clicks there is no
difference. The attention is the paper's, not normalised (the released program takes a softmax, and a piecewise linear
sigmoid); as weights, the shares of |a_ij| are shown. Torch's GRU has two biases and resets after the matrix product.
The table starts normal with deviation 0.1. A batch of 128 sessions stands for the authors' 512 prefixes; dropout on a
click is drawn once a session. Early stopping watches the ranking of the validation data.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ensue.nn.attention import absolute_shares, additive_scores
from ensue.nn.dropout import Dropout
from ensue.nn.item_head import ItemHead, start_normal
from ensue.nn.recurrent import GRULayer
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork
from ensue.tasks.next.settings import NARMSettings


class NARM(ItemNetwork[NARMSettings]):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes, dropouts, loss.
        num_ids: rows of the item table, padding and unknown included.
    """

    def __init__(self, settings: NARMSettings, num_ids: int) -> None:
        super().__init__(settings)
        dim = settings.dim
        self.items = ItemHead(num_ids, settings.table_dim, negatives=settings.drawn)
        self.gru = GRULayer(settings.table_dim, dim, batch_first=True)
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.vector = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))
        self.bilinear = nn.Linear(2 * dim, settings.table_dim, bias=False)
        self.dropout_items = Dropout(settings.dropout_items)
        self.dropout_session = Dropout(settings.dropout_session)
        start_normal(self.items, std=0.1)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return B c of Eqs. 9-10 at the target clicks, (targets, dim), and shares of |a_ij|, (batch, time, time)."""
        states: Tensor = self.gru(self.dropout_items(self.items(batch.ids)))[0]
        scores = additive_scores(self.query(states), self.key(states), self.vector, self.settings.max_length)
        # Global and local encoder of Eq. 8: the last state, and the attention-weighted sum of all states.
        concatenated = torch.cat([states, scores @ states], dim=2)[batch.target_mask]
        sessions: Tensor = self.bilinear(self.dropout_session(concatenated))
        return sessions, absolute_shares(scores, batch.mask)
