"""CYAN-RNN: cascade dynamics by an attention-based recurrent network (Wang, Shen, Liu, Gao & Cheng, IJCAI 2017).

Given who passed a story on so far, and when, rank who passes it on next: an encoder reads the cascade; a decoder
follows it step by step and looks at the encoder's states through an alignment, which knows how much each user was
looked at before (coverage).

================  ================================================================================================
encoder           ``CYANRNN.encode``: h_k from the user x_k and the clock d_k
coverage          ``CYANRNN._follow``: v_ik = sigmoid(V v_{i-1,k} + A a_{i-1,k} + H h_k + T t_{i-1} + b)
alignment         ``alignment_scores``: e_ik = z . tanh(W t_{i-1} + U h_k + Z v_ik + b), a_i its softmax, k <= i
decoder           ``CYANRNN._follow``: s_i = sum of a_ik h_k; t_i = sigmoid(X [x_i ; d_i] + R t_{i-1} + C s_i + b)
output            ``CYANRNN.forward``: softmax over users of a layer on [x_i ; d_i ; t_i ; s_i]
================  ================================================================================================

Each step needs the alignment of the one before, so the decoder is a loop, over the cascades of a batch that go on. A
step makes (batch x time x dim) numbers and keeps only the coverage, (batch x time x coverage): the rest is recomputed
in the backward pass.

The equations are those of the authors' released program, with coverage. Defaults are those of HiDAN's paper for its
rivals: 64 units, a user table 32 wide, keep probability 0.8. Its Table 3 counts 27.1k parameters. Coverage 10 wide over
an encoder that is a plain RNN gives 27,128; that is a fit, not a statement of theirs.

**Departures.** The released program encodes with a GRU (``cell="gru"``, 39,800 parameters) and leaves sizes to a file,
whose example has coverage 2 wide. Its softmax goes by classes, here it is one over all users; only the user is
predicted, not the time. Of its clock the gap since the user before and its logarithm remain, in tens of hours and as
log(1 + gap), cut at ``max_hours``: months and weekdays are unknown where cascades are told in hours since their start.
The one bias of the encoder is the weight of an input that is always 1. Dropout falls on what is read and on what is
answered from. Adam, schedule, early stopping and the start of the weights are those of HiDAN here. As dependency of
user i the alignment of the step before it is shown: what the decoder looked at when user i was still to come.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue.nn.attention import masked_softmax
from ensue.nn.autograd import Context, apply, is_traced
from ensue.nn.dropout import Dropout
from ensue.nn.item_head import ItemLayer, ItemTable
from ensue.nn.recurrent import GRULayer, RNNLayer
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.models.recurrent import initialise, with_one
from ensue.tasks.next.network import ItemNetwork
from ensue.tasks.next.settings import CYANRNNSettings

CLOCK = 2
"""Features of the clock: the gap since the event before, and its logarithm."""
UNIT = 36_000.0
"""Seconds of the gap's unit, ten hours: the released program's ``time_div``."""


def alignment_scores(query: Tensor, keys: Tensor, covered: Tensor, project: Tensor, vector: Tensor) -> Tensor:
    """Scores vector . tanh(query + key_k + project covered_k) of one step.

    Args:
        query: (batch, dim).
        keys: (batch, time, dim).
        covered: (batch, time, coverage).
        project: (dim, coverage).
        vector: (dim,).

    Returns:
        (batch, time).
    """
    same = (tensor.to(query.dtype) for tensor in (keys, covered, project, vector))
    return apply(_AlignmentScores, query, *same)


class _AlignmentScores(torch.autograd.Function):
    """Alignment scores that recompute the (batch, time, dim) intermediate in the backward pass to save memory."""

    @staticmethod
    def forward(
        ctx: Context[None], query: Tensor, keys: Tensor, covered: Tensor, project: Tensor, vector: Tensor
    ) -> Tensor:
        ctx.save_for_backward(query, keys, covered, project, vector)
        return (covered @ project.T).add_(keys).add_(query[:, None]).tanh_() @ vector

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[None], grad: Tensor) -> tuple[Tensor, ...]:
        query, keys, covered, project, vector = ctx.saved_tensors
        inside = (covered @ project.T).add_(keys).add_(query[:, None]).tanh_()
        vector_grad = grad.flatten() @ inside.flatten(0, 1)
        # The derivative of tanh is 1 - tanh^2.
        errors = inside.square_().neg_().add_(1).mul_(grad[:, :, None]).mul_(vector)
        project_grad = errors.flatten(0, 1).T @ covered.flatten(0, 1)
        return errors.sum(1), errors, errors @ project, project_grad, vector_grad


def decode_all(
    keys: Tensor, cover_keys: Tensor, states: Tensor, inputs: Tensor, mask: Tensor,
    from_state: Tensor, from_past: Tensor, project: Tensor, vector: Tensor, from_context: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return what :meth:`CYANRNN.decode` returns, for cascades of any length: one step after the other, none sorted.

    Args:
        keys: (batch, time, dim) of the alignment.
        cover_keys: (batch, time, coverage).
        states: (batch, time, dim) of the encoder.
        inputs: (batch, time, dim) what the decoder reads.
        mask: (batch, time) True where an event is.
        from_state: (2 x dim + coverage, dim) projections of the decoder's state.
        from_past: (coverage, coverage + 1) projections of coverage and weight.
        project: (dim, coverage) projection of the coverage to the alignment.
        vector: (dim,) of the alignment.
        from_context: (dim, dim) projection of what was looked at.
    """
    dim, coverage = states.shape[2], cover_keys.shape[2]
    decoded = torch.zeros_like(states[:, 0])
    covered = torch.zeros_like(cover_keys)
    weights = torch.zeros_like(states[:, :, 0])
    steps = torch.arange(mask.shape[1], device=mask.device)
    all_decoded = states.new_zeros([states.shape[0], 0, dim])
    all_summed = states.new_zeros([states.shape[0], 0, dim])
    all_weights = states.new_zeros([states.shape[0], 0, mask.shape[1]])
    for step in range(mask.shape[1]):
        seen = mask & (steps <= step)
        projected = torch.matmul(decoded, from_state.t())
        query, cover_query = projected[:, :dim], projected[:, dim : dim + coverage]
        past = torch.cat([covered, weights[:, :, None]], dim=2)
        # Events that were never looked at have a coverage and a weight of 0.
        covered = torch.sigmoid(torch.matmul(past, from_past.t()) + cover_keys + cover_query[:, None])
        covered = covered * (steps <= step)[None, :, None]
        inside = torch.tanh(torch.matmul(covered, project.t()) + keys + query[:, None])
        scores = torch.matmul(inside, vector[:, None])[:, :, 0].masked_fill(~seen, -3e38)
        weights = torch.softmax(scores, dim=1).masked_fill(~seen, 0.0)
        summed = torch.matmul(weights[:, None], states)[:, 0]
        from_decoded = projected[:, dim + coverage :]
        decoded = torch.sigmoid(inputs[:, step] + from_decoded + torch.matmul(summed, from_context.t()))
        all_decoded = torch.cat([all_decoded, decoded[:, None]], dim=1)
        all_summed = torch.cat([all_summed, summed[:, None]], dim=1)
        all_weights = torch.cat([all_weights, weights[:, None]], dim=1)
    return all_decoded, all_summed, all_weights


class CYANRNN(ItemNetwork[CYANRNNSettings]):
    """The network over ids and gaps; see the module's table.

    Args:
        settings: sizes, the encoder's cell.
        num_ids: rows of the user table, padding and unknown included.
    """

    def __init__(self, settings: CYANRNNSettings, num_ids: int) -> None:
        super().__init__(settings)
        dim = settings.dim
        coverage = settings.coverage
        inputs = settings.table_dim + CLOCK
        self.users = ItemTable(num_ids, settings.table_dim, sparse=settings.drawn is not None)
        cell = GRULayer if settings.cell == "gru" else RNNLayer
        self.encoder = cell(inputs + 1, dim, bias=False, batch_first=True)
        self.align_state = nn.Linear(dim, dim, bias=False)
        self.align_key = nn.Linear(dim, dim)
        self.align_covered = nn.Linear(coverage, dim, bias=False)
        self.align = nn.Linear(dim, 1, bias=False)
        self.cover_last, self.cover_weight = (nn.Linear(size, coverage, bias=False) for size in (coverage, 1))
        self.cover_state = nn.Linear(dim, coverage, bias=False)
        self.cover_key = nn.Linear(dim, coverage)
        self.decode_input = nn.Linear(inputs, dim)
        self.decode_state, self.decode_context = (nn.Linear(dim, dim, bias=False) for _ in range(2))
        self.output = ItemLayer(inputs + 2 * dim, num_ids, settings.drawn)
        self.dropout = Dropout(settings.dropout)
        initialise(self)
        with torch.no_grad():
            self.encoder.get_parameter("weight_ih_l0")[:, -1].zero_()

    def clock(self, times: Tensor) -> Tensor:
        """(batch, time, 2) the gap since the event before, in tens of hours, and log(1 + gap).

        Args:
            times: (batch, time) seconds since the cascade began.
        """
        gaps = (times - torch.cat([times[:, :1], times[:, :-1]], dim=1)).clamp(0, self.settings.max_hours * 3600) / UNIT
        return torch.stack([gaps, gaps.log1p()], dim=2)

    def decode(self, inputs: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Coverage, alignment and decoder, step by step.

        Args:
            inputs: (batch, time, inputs) users and clock.
            states: (batch, time, dim) of the encoder.
            mask: (batch, time) True where an event is.

        Returns:
            The decoder's states and what it looked at, (batch, time, dim) each; the weights, (batch, time, time).
        """
        if is_traced():
            projections = self.align_key(states), self.cover_key(states), states, self.decode_input(inputs), mask
            matrices = (
                torch.cat([self.align_state.weight, self.cover_state.weight, self.decode_state.weight]),
                torch.cat([self.cover_last.weight, self.cover_weight.weight], dim=1),
                self.align_covered.weight, self.align.weight[0], self.decode_context.weight,
            )  # fmt: skip
            # A script keeps its loop in an exported graph, where the loop below would be unrolled for one length.
            return torch.jit.script(decode_all)(*projections, *matrices)
        size, time = mask.shape
        dim = states.shape[2]
        lengths = (mask * torch.arange(1, time + 1, device=mask.device)).amax(1)
        # Longest first: the cascades that continue are the first rows.
        order = lengths.argsort(descending=True, stable=True)
        inputs_by_step = (self.align_key(states), self.cover_key(states), states, self.decode_input(inputs), mask)
        sorted_inputs = tuple(tensor[order] for tensor in inputs_by_step)
        decoded = torch.zeros_like(states[:, 0])
        past = states.new_zeros(size, 0, self.settings.coverage + 1)
        begin = 0
        stages = [states.new_zeros(size, 0, 2 * dim + time)]
        for end in sorted(set(lengths.tolist()) - {0}):  # ended cascades leave the batch
            active = int((lengths >= end).sum())
            step_inputs = tuple(tensor[:active, :end] for tensor in sorted_inputs)
            rows, decoded, past = self._follow(step_inputs, decoded[:active], past[:active], begin)
            stages.append(functional.pad(rows, (0, time - end, 0, 0, 0, size - active)))
            begin = end
        stages.append(states.new_zeros(size, time - begin, 2 * dim + time))
        # The inverse permutation restores the order of the batch.
        all_steps = torch.cat(stages, dim=1)[order.argsort()]
        all_decoded, all_summed, all_weights = torch.split(all_steps, [dim, dim, time], dim=2)
        return all_decoded, all_summed, all_weights

    def _follow(
        self, step_inputs: tuple[Tensor, ...], decoded: Tensor, past: Tensor, begin: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run some steps of cascades that have not ended before them.

        Args:
            step_inputs: (batch, end, …) keys of alignment and coverage, the encoder's states, what is read, the mask.
            decoded: (batch, dim) the decoder's state so far.
            past: (batch, begin, coverage + 1) coverage and weights of the step before.
            begin: the first of the steps.

        Returns:
            (batch, end - begin, 2 x dim + end) state, what was looked at, and weights; the state and ``past`` to go on.
        """
        keys, cover_keys, states, inputs, mask = step_inputs
        # Projections of the same input are concatenated, so that each step does one product instead of three.
        from_state = torch.cat([self.align_state.weight, self.cover_state.weight, self.decode_state.weight])
        from_past = torch.cat([self.cover_last.weight, self.cover_weight.weight], dim=1)
        sizes = [self.settings.dim, self.settings.coverage, self.settings.dim]
        end = mask.shape[1]
        rows = []
        for step in range(begin, end):
            seen = slice(step + 1)
            query, cover_query, from_decoded = torch.split(functional.linear(decoded, from_state), sizes, dim=1)
            # The event of this step was never looked at: its coverage and its weight so far are 0.
            past = functional.pad(past, (0, 0, 0, 1))
            covered = torch.sigmoid(functional.linear(past, from_past) + cover_keys[:, seen] + cover_query[:, None])
            scores = alignment_scores(query, keys[:, seen], covered, self.align_covered.weight, self.align.weight[0])
            weights = masked_softmax(scores, mask[:, seen])
            summed = (weights[:, None, :] @ states[:, seen])[:, 0]
            decoded = torch.sigmoid(inputs[:, step] + from_decoded + self.decode_context(summed))
            past = torch.cat([covered, weights[:, :, None]], dim=2)
            rows.append(torch.cat([decoded, summed, functional.pad(weights, (0, end - 1 - step))], dim=1))
        return torch.stack(rows, dim=1), decoded, past

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return [x ; d ; t ; s] at the target steps, and the alignments, as dependency and as influence.

        Both are (batch, time, time). The dependency of a user is the alignment one step earlier; the first has none.
        """
        users = self.dropout(self.users(batch.ids))
        inputs = torch.cat([users, self.clock(batch.times).to(users.dtype)], dim=2)
        states: Tensor = self.encoder(with_one(inputs))[0]
        decoded, summed, weights = self.decode(inputs, states, batch.mask)
        queries: Tensor = self.dropout(torch.cat([inputs, decoded, summed], dim=2)[batch.target_mask])
        return queries, functional.pad(weights, (0, 0, 1, 0))[:, :-1], weights
