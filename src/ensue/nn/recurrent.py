"""Recurrent layers in float32, and a bidirectional LSTM over padded rows of unequal length, without packing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ensue import kernels
from ensue.nn.autograd import DerivedCache, parameters_of
from ensue.nn.device import is_float32_on_cpu

_State = Tensor | tuple[Tensor, ...]


class _InFloat32(nn.RNNBase):
    """Compute in float32 also under autocast.

    Under autocast cuDNN's recurrent layers compute in float16, whatever type autocast asks for: their gradients would
    underflow without a scaled loss, and their outputs do not mix with those of other layers.
    """

    def forward(self, items: Tensor, state: _State | None = None) -> tuple[Tensor, _State]:
        """Return the states and the last state, as torch's layer does."""
        result: tuple[Tensor, _State]
        if torch.is_autocast_enabled(items.device.type):
            if state is not None:
                state = state.float() if isinstance(state, Tensor) else tuple(tensor.float() for tensor in state)
            with torch.autocast(items.device.type, enabled=False):
                result = super().forward(items.float(), state)
        else:
            result = super().forward(items, state)
        return result


class LSTMLayer(_InFloat32, nn.LSTM):  # type: ignore[misc]  # its signature is wider
    """``torch.nn.LSTM`` in float32."""


class GRULayer(_InFloat32, nn.GRU):  # type: ignore[misc]  # its signature is wider
    """``torch.nn.GRU`` in float32."""


class RNNLayer(_InFloat32, nn.RNN):  # type: ignore[misc]  # its signature is wider
    """``torch.nn.RNN`` in float32."""


class BiLSTM(nn.Module):
    """Two LSTMs, one of which reads each row from its own end (Graves & Schmidhuber 2005).

    Rows are turned round by a gather, so each direction is one call on a padded block. Torch's packed sequences give
    the same states, but on the CPU their gradient takes up to seven times as long where lengths differ; padding costs
    less as long as rows that are read together are of like length.

    Args:
        dim: width of the items.
        hidden: units in each direction.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.forth = LSTMLayer(dim, hidden, batch_first=True)
        self.back = LSTMLayer(dim, hidden, batch_first=True)
        self.gates_cache = DerivedCache(self._gates)

    def forward(self, items: Tensor, mask: Tensor) -> Tensor:
        """Return the states of both directions.

        Args:
            items: (rows, length, dim); values at padding have no influence on the states before it.
            mask: (rows, length) bool, True up to the end of each row.

        Returns:
            (rows, length, 2 x hidden); finite at padding, where it means nothing.
        """
        # The same gather reverses a row and restores its order.
        turned = turned_steps(mask)[..., None]
        forward_states: Tensor = self.forth(items)[0]
        backward_states: Tensor = self.back(items.gather(1, turned.expand_as(items)))[0]
        return torch.cat([forward_states, backward_states.gather(1, turned.expand_as(backward_states))], dim=2)

    @torch.no_grad()
    def read(self, vectors: Tensor, index: Tensor, mask: Tensor) -> Tensor:
        """Return the same states without a gradient, in less than half the time on a CPU.

        Each distinct item is projected once.

        Args:
            vectors: (distinct, dim) the items.
            index: (rows, length) row of the item at each position.
            mask: (rows, length) bool, True up to the end of each row.

        Returns:
            (rows, length, 2 x hidden); finite at padding, where it means nothing.
        """
        inward, recurrent, bias = self.gates_cache.get(parameters_of(self))
        projected = torch.addmm(bias, vectors, inward).view(-1, 2, 4 * self.hidden)  # each item forth, then back
        return lstm_states(projected, index, mask, recurrent)

    def _gates(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the weights of both directions: (dim, 2 x gates), (2, hidden, gates) and (2 x gates,).

        Those of the tanh gate are doubled: tanh x = 2 sigmoid(2 x) - 1.
        """
        sides = [dict(side.named_parameters()) for side in (self.forth, self.back)]
        scale = sides[0]["bias_ih_l0"].new_ones(4, self.hidden)
        scale[2] = 2.0
        scale = scale.flatten()
        # Both directions side by side, so one product projects an item for both.
        inward = torch.cat([side["weight_ih_l0"].T * scale for side in sides], dim=1)
        recurrent = torch.stack([side["weight_hh_l0"].T * scale for side in sides])
        return inward, recurrent, torch.cat([(side["bias_ih_l0"] + side["bias_hh_l0"]) * scale for side in sides])


def _compiled_lstm_states(projected: Tensor, index: Tensor, mask: Tensor, recurrent: Tensor) -> Tensor:
    states = projected.new_zeros(*index.shape, 2 * recurrent.shape[1])
    kernels.call(
        "lstm", projected=projected.contiguous(), index=index.contiguous(), lengths=mask.sum(1),
        recurrent=recurrent.contiguous(), out=states, threads=torch.get_num_threads(),
    )  # fmt: skip
    return states


def _suits_lstm(projected: Tensor, index: Tensor, mask: Tensor, recurrent: Tensor) -> bool:
    return is_float32_on_cpu(projected, recurrent) and index.numel() * recurrent.numel() > 0 and not mask.is_cuda


@kernels.compiled(_compiled_lstm_states, when=_suits_lstm)
def lstm_states(projected: Tensor, index: Tensor, mask: Tensor, recurrent: Tensor) -> Tensor:
    """Return the states of both directions of an LSTM.

    Both directions make each step in one product, and a tanh is computed by a sigmoid, because torch's tanh costs as
    much as four of them.

    Args:
        projected: (distinct, 2, 4 x hidden) gates of every item, forth and back, biases in; those of the tanh gate
            doubled, here and in ``recurrent``.
        index: (rows, length) row of the item at each position.
        mask: (rows, length) bool, True up to the end of each row.
        recurrent: (2, hidden, 4 x hidden).

    Returns:
        (rows, length, 2 x hidden); finite at padding, where it means nothing.
    """
    rows, length = index.shape
    hidden = recurrent.shape[1]
    recurrent = 2 * recurrent
    turned = turned_steps(mask)
    # Item 0 forth is row 0, item 0 back is row 1, item 1 forth is row 2.
    gate_rows = torch.stack([2 * index, 2 * index.gather(1, turned) + 1]).permute(2, 0, 1).reshape(length, -1)
    projected = projected.flatten(0, 1)
    cells = states = projected.new_zeros(2, rows, hidden)  # twice the cells, half the states: powers of two are exact
    outputs = projected.new_empty(2, length, rows, hidden)
    for step in range(length):
        # Gather the projected items of this step for both directions.
        gates = projected.index_select(0, gate_rows[step]).view(2, rows, 4 * hidden)
        inlet, forget, new, outlet = gates.baddbmm_(states, recurrent).sigmoid_().chunk(4, dim=2)
        cells = (cells * forget).addcmul_(inlet, new, value=4).sub_(inlet, alpha=2)
        states = torch.sigmoid(cells, out=outputs[:, step]).sub_(0.5).mul_(outlet)
    # The states were stored at half their value; (2, length, rows, hidden) becomes two of (rows, length, hidden).
    forward_states, backward_states = outputs.mul_(2).transpose(1, 2)
    return torch.cat([forward_states, backward_states.gather(1, turned[..., None].expand_as(backward_states))], dim=2)


def turned_steps(mask: Tensor) -> Tensor:
    """Return (rows, length) positions that reverse each row; padding keeps its position."""
    steps = torch.arange(mask.shape[1], device=mask.device)
    ends = mask.sum(1, keepdim=True)
    # Reverse the positions below each row's length.
    return torch.where(mask, ends - 1 - steps, steps)
