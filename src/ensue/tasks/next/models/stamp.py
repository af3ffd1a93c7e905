"""STAMP: short-term attention/memory priority (Liu, Zeng, Mokhosi & Zhang, KDD 2018).

Given the clicks of a session so far, rank the next one: an attention led by the latest click and by the mean of the
session sums up the clicks; that sum and the latest click, each through a cell of its own, are multiplied with each
item.

==================  ================================================================================================
external memory     ``STAMP.encode``: m_s, the mean of the clicks; m_t = x_t, the latest one
attention           ``additive_scores``: a_i = W0 sigmoid(W1 x_i + W2 x_t + W3 m_s + b); m_a is the sum of a_i x_i
cells               ``STAMP.encode``: h_s = tanh(W_s m_a + b_s), h_t = tanh(W_t m_t + b_t)
trilinear product   ``STAMP.forward``: scores <h_s, h_t, x_i>
==================  ================================================================================================

All clicks of a session are answered in one pass and no (time x time x dim) tensor exists; see ``nn.attention``.

Defaults are the authors': 100 wide, Adam with 0.003, the table normal with deviation 0.002, all else with 0.05.

**Departures.** The sigmoid around the trilinear product is left out, as in the released program: a softmax over numbers
in (0, 1) can give no item of a catalogue of n more than e / (e + n - 1), and it changes no ranking. The sum m_a alone
enters the cell, as printed; the released program adds m_s to it, and caps the norms of the table and of the gradient.
The session is its latest ``length`` clicks. As weights, the shares of |a_i| are shown, for the paper's are not
normalised. A batch of 128 sessions stands for the authors' 512 prefixes. Early stopping watches the ranking of the
validation data.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ensue.nn.attention import absolute_shares, additive_scores, band, masked_mean
from ensue.nn.item_head import ItemHead, clear_padding
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork
from ensue.tasks.next.settings import STAMPSettings


class STAMP(ItemNetwork[STAMPSettings]):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes, loss.
        num_ids: rows of the item table, padding and unknown included.
    """

    def __init__(self, settings: STAMPSettings, num_ids: int) -> None:
        super().__init__(settings, reach=settings.max_length - 1)
        dim = settings.dim
        self.items = ItemHead(num_ids, dim, negatives=settings.drawn)
        self.event, self.latest, self.mean = nn.Linear(dim, dim), *(nn.Linear(dim, dim, bias=False) for _ in range(2))
        self.vector = nn.Parameter(torch.empty(dim))
        self.session_cell = nn.Linear(dim, dim)
        self.latest_cell = nn.Linear(dim, dim)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=0.002 if name == "items.weight" else 0.05)
        clear_padding(self.items)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return h_s * h_t at the target clicks, (targets, dim), and the shares of |a_i|, (batch, time, time)."""
        length = self.settings.max_length
        mask = batch.mask
        items = self.items(batch.ids)
        visible = band(mask.shape[1], reach=length, own=True, device=mask.device) & mask[:, None, :]
        # The mean up to each step, by one product with equal weights.
        means = masked_mean(visible, items.dtype) @ items
        # Eq. 7: attention by the event, the latest click and the mean of the session.
        scores = additive_scores(self.latest(items) + self.mean(means), self.event(items), self.vector, length)
        summed = (scores @ items)[batch.target_mask]
        sessions: Tensor = self.session_cell(summed).tanh() * self.latest_cell(items[batch.target_mask]).tanh()
        return sessions, absolute_shares(scores, batch.mask)
