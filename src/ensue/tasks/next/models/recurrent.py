"""RNN, LSTM, Att-RNN and Att-LSTM: the recurrent rivals of HiDAN (Wang & Li, IJCAI 2019, section 3.2).

Given who passed a story on so far, rank who passes it on next: a recurrent network reads the users one after the other
and its state is all that is known of them. The attentive ones look back from each state at the states before it
(Luong, Pham & Manning, EMNLP 2015, global attention with dot scores).

==================  =============================================================================================
recurrence          ``Recurrent.states``: h_i = tanh(W x_i + U h_{i-1} + b), or an LSTM (Hochreiter & Schmidhuber 1997)
Luong Eqs. 7-8      ``Recurrent.attention``: softmax over earlier states of h_i . h_k, no parameters
Luong Eq. 5         ``Recurrent.encode``: tanh(W_c [c_i ; h_i] + b_c), c_i the weighted sum of earlier states
output, loss        ``Recurrent.forward``, ``Recurrent.loss``: HiDAN's Eqs. 10 and 11
==================  =============================================================================================

All steps of a cascade are answered in one pass; a weight is a product of two states, so no (time x time x dim) tensor
exists. Rows are padded at their end, which no earlier state ever reads.

Defaults are HiDAN's own for its rivals: 64 units, a user table 32 wide, keep probability 0.8. Numbers of parameters are
those of its Table 3, which fix what the paper leaves open: the cell reads the table itself, with one bias a gate, and
the attention layer is 128 -> 64 with a bias.

**Departures.** The one bias is the weight of an input that is always 1, for torch's cells have two. Dropout falls on
what is read and on what is answered from, not on the way from state to state. The bias of the LSTM's forget gate starts
at 1, as in TensorFlow's cell. The first user has no context: its context vector is 0. Schedule, early stopping and the
start of the weights are those of HiDAN here. The plain cells weigh no events: their weights put 1 on the latest user,
the one the state moved by last.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import band, masked_softmax
from ensue.nn.dropout import Dropout
from ensue.nn.item_head import ItemLayer, ItemTable
from ensue.nn.recurrent import LSTMLayer, RNNLayer
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork, latest_only
from ensue.tasks.next.settings import RecurrentSettings
from ensue.vocabulary import PADDING


def initialise(model: nn.Module) -> None:
    """HiDAN's start: Xavier for matrices, zero for vectors; ``users``, the table, normal with deviation 0.1."""
    for name, parameter in model.named_parameters():
        if name == "users.weight":
            nn.init.normal_(parameter, std=0.1)
            with torch.no_grad():
                parameter[PADDING].zero_()
        elif parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)


def with_one(items: Tensor) -> Tensor:
    """(…, dim + 1) the items, and an input that is always 1: its weights are the one bias of a cell without biases."""
    return functional.pad(items, (0, 1), value=1.0)


class Recurrent(ItemNetwork[RecurrentSettings]):
    """The network over ids; see the module's table.

    Args:
        settings: sizes, cell, attention.
        num_ids: rows of the user table, padding and unknown included.
    """

    def __init__(self, settings: RecurrentSettings, num_ids: int) -> None:
        super().__init__(settings)
        dim = settings.dim
        self.users = ItemTable(num_ids, settings.table_dim, sparse=settings.drawn is not None)
        cell = LSTMLayer if settings.cell == "lstm" else RNNLayer
        self.cell = cell(settings.table_dim + 1, dim, bias=False, batch_first=True)
        if settings.attention:
            self.joined = nn.Linear(2 * dim, dim)
        self.output = ItemLayer(dim, num_ids, settings.drawn)
        self.dropout = Dropout(settings.dropout)
        initialise(self)
        with torch.no_grad():
            # The last input is always 1, so its weights are the biases; they start at 0.
            biases = self.cell.get_parameter("weight_ih_l0")[:, -1].zero_()
            if settings.cell == "lstm":
                biases[dim : 2 * dim] = 1.0  # gates stand in the order input, forget, cell, output

    def states(self, ids: Tensor) -> Tensor:
        """(batch, time, dim) the state after each user of (batch, time) ids."""
        return self.cell(with_one(self.dropout(self.users(ids))))[0]

    def attention(self, states: Tensor, mask: Tensor) -> Tensor:
        """Luong's Eqs. 7-8: row i holds state i's weights over the states before it; the first row is zero.

        Args:
            states: (batch, time, dim).
            mask: (batch, time) True where an event is.

        Returns:
            (batch, time, time) weights.
        """
        # A strictly lower triangle: a state attends to earlier states only.
        visible = band(mask.shape[1], reach=None, own=False, device=mask.device) & mask[:, None, :]
        return masked_softmax(states @ states.transpose(1, 2), visible)

    def encode(self, batch: Batch) -> tuple[Tensor, *tuple[Tensor, ...]]:
        """Return the query of each target step, (targets, dim), and the weights behind it, each (batch, time, time).

        The weights are the attention, as dependency and as influence; plain cells have weights of 1 on the latest user.
        """
        states = self.states(batch.ids)
        if not self.settings.attention:
            latest: Tensor = self.dropout(states[batch.target_mask])
            return latest, latest_only(batch.mask, latest.dtype)
        weights = self.attention(states, batch.mask)
        concatenated = torch.cat([weights @ states, states], dim=2)[batch.target_mask]
        return self.dropout(torch.tanh(self.joined(concatenated))), weights, weights
