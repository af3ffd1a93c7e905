"""Item head: the vectors of items, the scores of all items, and the loss of the items that came.

A network of task ``next`` turns a history into a query vector; everything about items is here. A paper whose input and
output share one table has one :class:`ItemHead`; a paper with an output layer of its own reads an :class:`ItemTable`
and scores with an :class:`ItemLayer`.
"""

from __future__ import annotations

from typing import NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue import kernels
from ensue.data.histories import Index
from ensue.nn.autograd import Context, DerivedCache, apply
from ensue.nn.sampling import POWER, Rows, Sampler, choice_loss, linear_cross_entropy, sampled_cross_entropy
from ensue.topk import Permitted
from ensue.vocabulary import FIRST, PADDING

Network = TypeVar("Network", bound=nn.Module)


def rows_of(table: Tensor, ids: Tensor | slice) -> Tensor:
    """Return (…, dim) rows of a table (ids, dim); for many ids several times faster than ``table[ids]``."""
    return table[ids] if isinstance(ids, slice) else functional.embedding(ids, table)


def start_normal(table: nn.Embedding, std: float) -> None:
    """Draw a table's rows from a normal distribution of this deviation; padding is 0."""
    nn.init.normal_(table.weight, std=std)
    clear_padding(table)


@torch.no_grad()
def clear_padding(table: nn.Embedding) -> None:
    """Set the row of padding to 0."""
    table.weight[PADDING].zero_()


@torch.no_grad()
def with_rows_of(earlier: nn.Module, larger: Network) -> Network:
    """Copy the weights of a network into a new one that has more ids.

    The first rows of each tensor are those of the earlier network; the others keep their initial values::

        earlier  items.weight (5, 8)        ->  rows 0 to 4 of (7, 8)
        earlier  gru.weight_hh_l0 (24, 8)   ->  all of (24, 8)

    Args:
        earlier: a network of fewer ids.
        larger: another of the same class and settings; it is changed. A new id starts with the lowest earlier bias.
    """
    rows = larger.state_dict()  # the same memory as the parameters
    for name, tensor in earlier.state_dict().items():
        rows[name][: len(tensor)] = tensor
    for name, parameter in earlier.named_parameters():
        if parameter.dim() == 1 and len(parameter) < len(rows[name]):
            rows[name][len(parameter) :] = parameter[FIRST:].min()
    return larger


ALL_IDS = slice(None)
MAX_QUERIES = 512
FEW_QUERIES = 8
"""Queries that are compared with a table of 16 bits at most, where it is long and where it is short: finding the exact
scores takes as long for a short table, and torch's product does not."""
MIN_SHORT_IDS = 4096
MIN_LONG_IDS = 2**15
"""Rows of an item table from which it is stored in 16 bits as well, and from which it is long."""
NUM_EXACT = 128
"""Number of the highest scores, at least, that are computed again from the table itself."""
EXACT_MARGIN = 32
"""Number of scores beyond the wanted ones, at least, that are: rounding moves a score past few others."""
_BLOCK = 64
"""``SHORT_BLOCK`` of ``kernels.h``."""
_LENGTH = 46_000
"""``SHORT_LENGTH`` of ``kernels.h``."""
_LARGEST = 2**15 - 1
"""Function from ids to their vectors, (…, dim)."""


def item_scores(queries: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the scores of all ids, (targets, ids); padding and unknown are at -inf.

    Args:
        queries: (targets, dim).
        weight: (ids, dim) one vector per id.
        bias: (ids,), or none.
    """
    scores = functional.linear(queries, weight, bias)
    scores[:, :FIRST] = -torch.inf
    return scores


def item_loss(
    queries: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None = None, weights: Tensor | None = None
) -> Tensor:
    """Return the cross-entropy over all ids but padding and unknown: a mean over the targets, in nats.

    Args:
        queries: (targets, dim).
        weight: (ids, dim) one vector per id.
        targets: (targets,) which id came.
        bias: (ids,), or none.
        weights: (targets,) factors of their losses. [default: 1]
    """
    return linear_cross_entropy(queries, weight, bias, targets, first=FIRST, weights=weights)


class Output(NamedTuple):
    """Scores before normalising, (targets, ids), and the attention weights behind them."""

    scores: Tensor
    weights: tuple[Tensor, ...] = ()


class Best(NamedTuple):
    """The best items of some queries, and the logarithm of the sum of exp of all scores of each."""

    scores: npt.NDArray[np.float32]
    """(queries, k), falling; -inf where fewer are permitted."""
    ids: Index
    """(queries, k), of equal scores the lower id first."""
    totals: npt.NDArray[np.float32]
    """(queries,)."""


class Product(NamedTuple):
    """Scores as a product that is not multiplied yet: ``queries[t] @ rows(v) + bias[v]`` for target t and id v."""

    queries: Tensor
    """(targets, dim)."""
    rows: Rows
    bias: Tensor | None = None
    """(ids,)."""
    weights: tuple[Tensor, ...] = ()
    """Attention weights, as in :class:`Output`."""
    cells: tuple[Tensor, Tensor] | None = None
    """Additions to single scores: positions target x ids + id, unique and rising, and float32 addends."""
    recent: tuple[Tensor, float] | None = None
    """(ids,) log probabilities that are mixed with the softmax, -inf for none, and the log weight of the softmax."""


class ShortItems:
    """A table of items in half its size: products with it take half the time, and one query as long as reading it.

    Items and queries are rounded to vectors of 16-bit integers of length 46,000, so that a score is off by about 1e-5
    of |query| |item|. The highest scores, which are what is shown, are computed again from the table itself.

    Args:
        table: (blocks, half of dim, 128) int16, pairs of numbers of 64 items side by side, the last block filled up.
        steps: (ids,) value of 1 of the table in a score.
        bias: (ids,) added to a score.
        items: (ids, dim) the table itself.
        factors: (ids,) multiplied by a product with it.
    """

    def __init__(self, table: Tensor, steps: Tensor, bias: Tensor, items: Tensor, factors: Tensor) -> None:
        self.num_ids = len(items)
        tensors: dict[str, kernels.Value] = {
            "table": table, "steps": steps, "bias": bias, "items": items, "factors": factors,
        }  # fmt: skip
        self.prepared = kernels.prepare("short_scores", **tensors, exact=min(NUM_EXACT, len(items)))
        self.prepared_best = kernels.prepare("short_best", **tensors)

    @classmethod
    def of(cls, items: Tensor, factors: Tensor, bias: Tensor) -> Self | None:
        """Return the table for scores query . item x factor + bias; ``None`` unless all are float32 on the CPU."""
        tensors = items.detach(), factors, bias
        plain = all(
            tensor.dtype == torch.float32 and not tensor.is_cuda and tensor.is_contiguous() for tensor in tensors
        )
        if not plain or items.numel() == 0:
            return None
        # Scale each row to its length, or to its largest number if that is 16 bits first; the clamp is for zeros.
        scales = torch.minimum(
            _LENGTH / tensors[0].norm(dim=1).clamp(min=1e-30), _LARGEST / tensors[0].abs().amax(1).clamp(min=1e-30)
        )
        table = (tensors[0] * scales[:, None]).round_().to(torch.int16)
        # Pad to full blocks of 64 items and to pairs of features, so that a kernel reads one pair of 64 items in order.
        table = functional.pad(table, (0, table.shape[1] % 2, 0, -len(table) % _BLOCK))
        blocks = table.view(-1, _BLOCK, table.shape[1] // 2, 2).transpose(1, 2)
        return cls(blocks.flatten(2).contiguous(), factors / scales, bias, tensors[0], factors)

    def scores(self, queries: Tensor, first: int) -> Tensor:
        """Return the scores of all ids, (queries, ids); ids before ``first`` are at -inf.

        Args:
            queries: (queries, dim) float32.
            first: the first id that is an item.
        """
        out = torch.empty(len(queries), self.num_ids)
        kernels.call(
            "short_scores", self.prepared, queries=queries.contiguous(), out=out, first=first,
            threads=torch.get_num_threads(),
        )  # fmt: skip
        return out

    def best(self, queries: Tensor, permitted: Permitted, k: int, first: int) -> Best:
        """Return the best items without the scores of all in memory; see :meth:`scores`.

        Args:
            queries: (queries, dim) float32.
            permitted: the candidates of each query.
            k: at most the number of ids.
            first: the first id that is an item.
        """
        rows = len(queries)
        best = Best(np.empty((rows, k), np.float32), np.empty((rows, k), np.int64), np.empty(rows, np.float32))
        kernels.call(
            "short_best", self.prepared_best, queries=queries.contiguous(), hidden=permitted.hidden,
            permitted=permitted.words, filter_of=permitted.filter_index, first=first,
            exact=min(max(NUM_EXACT, k + EXACT_MARGIN), self.num_ids), best=best.scores, places=best.ids,
            totals=best.totals, threads=torch.get_num_threads(),
        )  # fmt: skip
        return best


def suit_short_items(queries: Tensor, num_ids: int) -> bool:
    """Return whether :class:`ShortItems` takes queries and is faster: plain instructions multiply few numbers."""
    plain = queries.dtype == torch.float32 and not queries.is_cuda and not queries.requires_grad
    max_queries = MAX_QUERIES if num_ids >= MIN_LONG_IDS else FEW_QUERIES
    return plain and 0 < len(queries) <= max_queries and kernels.level() in kernels.LEVELS[1:]


class _ItemVectors(nn.Module):
    """The vectors of a table or of an output layer."""

    weight: Tensor
    """(ids, dim)."""
    sparse: bool
    """True if gradients hold only the rows that were looked up."""
    padding_idx: int | None = None
    """The id whose row gets no gradient, if there is one."""
    _short: DerivedCache[ShortItems | None]

    @property
    def item_bias(self) -> Tensor | None:
        """(ids,) added to the scores of an output layer; a table has none."""
        return None

    def scores(self, product: Product) -> Tensor:
        """Return the scores of all ids, (targets, ids), without ``cells`` and ``recent``; placeholders are at -inf."""
        short = self._short_items(product)
        if short is not None:
            return short.scores(product.queries, FIRST)
        return item_scores(product.queries, product.rows(ALL_IDS), product.bias)

    @property
    def ranks(self) -> bool:
        """True if :meth:`best` is faster than :meth:`scores`."""
        is_plain = self.weight.dtype == torch.float32 and not self.weight.is_cuda
        return is_plain and len(self.weight) >= MIN_LONG_IDS and kernels.level() in kernels.LEVELS[1:]

    def best(self, product: Product, permitted: Permitted, k: int) -> Best | None:
        """Return the best items, ``None`` where there is no table of 16 bits. See :meth:`ShortItems.best`."""
        short = self._short_items(product)
        return None if short is None else short.best(product.queries, permitted, k, FIRST)

    def _short_items(self, product: Product) -> ShortItems | None:
        """Return the table of 16 bits if it suits a product."""
        # The 16-bit table passes no gradient and has this bias built in, so both conditions must hold.
        inference = not (self.training or torch.is_grad_enabled()) and product.bias is self.item_bias
        if inference and len(self.weight) >= MIN_SHORT_IDS and suit_short_items(product.queries, len(self.weight)):
            return self._short.get([self.weight] if self.item_bias is None else [self.weight, self.item_bias])
        return None

    def rows(self, ids: Tensor | slice) -> Tensor:
        """Return the vectors of some ids, (…, dim); a plain slice is a view of the weights."""
        return self._scaled(self._look_up(self.weight, ids))

    def _shortened(self) -> ShortItems | None:
        """Return :class:`ShortItems` of all items."""
        table = self.rows(ALL_IDS)
        bias = table.new_zeros(len(table)) if self.item_bias is None else self.item_bias.detach()
        return ShortItems.of(table, table.new_ones(len(table)), bias)

    def _look_up(self, table: Tensor, ids: Tensor | slice) -> Tensor:
        if isinstance(ids, slice):
            return table[ids]
        return functional.embedding(ids, table, self.padding_idx, sparse=self.sparse)

    def _scaled(self, vectors: Tensor) -> Tensor:
        """Return vectors in the length in which they are compared: as they are."""
        return vectors


class ItemTable(_ItemVectors, nn.Embedding):
    """One vector per item id, as a network reads it.

    Args:
        num_ids: rows, padding and unknown included; the row of padding is 0.
        dim: width of a vector.
        sparse: whether gradients hold only the rows that were looked up.
    """

    def __init__(self, num_ids: int, dim: int, *, sparse: bool) -> None:
        super().__init__(num_ids, dim, padding_idx=PADDING, sparse=sparse)
        self._short = DerivedCache(self._shortened)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of some ids, (…, dim)."""
        return self.rows(ids)


class ItemHead(ItemTable):
    """An item table that also scores: input and output layer of a network share its rows.

    Args:
        num_ids: rows, padding and unknown included; the row of padding is 0.
        dim: width of a vector.
        negatives: number of ids drawn per batch for the loss in training; ``None`` for the whole catalogue.
        power: ids are drawn by their count to this power.
        sparse: whether gradients hold only the rows that were looked up; by default where negatives are drawn.
    """

    def __init__(
        self, num_ids: int, dim: int, *, negatives: int | None, power: float = POWER, sparse: bool | None = None
    ) -> None:
        super().__init__(num_ids, dim, sparse=negatives is not None if sparse is None else sparse)
        self.negatives = negatives
        self.sampler = Sampler(num_ids, power)

    def product(self, queries: Tensor, *weights: Tensor) -> Product:
        """Return the scores of all items as a product.

        Args:
            queries: (targets, dim).
            weights: attention weights behind them, (batch, time, time) each.
        """
        return Product(queries, self.rows, weights=weights)

    def loss(
        self,
        queries: Tensor,
        targets: Tensor,
        candidates: Rows | None = None,
        weights: Tensor | None = None,
        shown: Tensor | None = None,
    ) -> Tensor:
        """Return the cross-entropy of the targets, a mean in nats.

        In training it goes over the target and the drawn negatives where there are any, else over all ids but padding
        and unknown.

        Args:
            queries: (targets, dim).
            targets: (targets,) which id came.
            candidates: from ids to the vectors that queries are compared with. [default: :meth:`rows`]
            weights: (targets,) factors of their losses. [default: 1]
            shown: (targets, many) ids that each target was preferred to, filled up with padding: in training
                :func:`ensue.nn.sampling.choice_loss` of them is added.
        """
        candidates = candidates or self.rows
        if self.negatives is None or not self.training:
            loss = item_loss(queries, candidates(ALL_IDS), targets, weights=weights)
        else:
            loss = sampled_cross_entropy(queries, candidates, targets, self.sampler, self.negatives, weights)
        if shown is not None and self.training:
            loss = loss + choice_loss(queries, candidates, targets, shown, weights)
        return loss


class ItemLayer(_ItemVectors, nn.Linear):
    """An output layer with its own vector and bias per id; initialised like a linear layer.

    Where negatives are drawn, a step reads, updates and exchanges only their rows (``sparse``).

    Args:
        dim: width of the queries.
        num_ids: rows, padding and unknown included.
        negatives: number of ids drawn per batch in training; ``None`` for the whole catalogue.
        cosine: whether rows are scaled to length 1.
    """

    def __init__(self, dim: int, num_ids: int, negatives: int | None = None, *, cosine: bool = False) -> None:
        super().__init__(dim, num_ids)
        self.negatives = negatives
        self.sparse = negatives is not None
        self.cosine = cosine
        self._short = DerivedCache(self._shortened)
        if negatives is not None:
            self.sampler = Sampler(num_ids)

    def _scaled(self, vectors: Tensor) -> Tensor:
        """Return vectors in the length in which they are compared: 1 with ``cosine``."""
        return functional.normalize(vectors, dim=-1) if self.cosine else vectors

    @property
    def item_bias(self) -> Tensor:
        """(ids,) added to the scores."""
        return self.bias

    def product(self, queries: Tensor, *weights: Tensor) -> Product:
        """Return the scores of all ids as a product; see :meth:`ItemHead.product`."""
        return Product(queries, self.rows, self.bias, weights)

    def loss(
        self, queries: Tensor, targets: Tensor, *, weights: Tensor | None = None, shown: Tensor | None = None
    ) -> Tensor:
        """Return the cross-entropy of the targets, a mean in nats; see :meth:`ItemHead.loss`."""

        def rows_and_biases(ids: Tensor) -> Tensor:
            biases = apply(_Entries, self.bias, ids) if self.sparse else self.bias[ids]
            return torch.cat([self.rows(ids), biases[..., None]], dim=-1)

        # Append the bias to the candidates as a column, and 1 to the queries, so that one product adds it.
        padded = functional.pad(queries, (0, 1), value=1.0)
        if self.negatives is None or not self.training:
            loss = item_loss(queries, self.rows(ALL_IDS), targets, self.bias, weights)
        else:
            loss = sampled_cross_entropy(padded, rows_and_biases, targets, self.sampler, self.negatives, weights)
        if shown is not None and self.training:
            loss = loss + choice_loss(padded, rows_and_biases, targets, shown, weights)
        return loss


class _Entries(torch.autograd.Function):
    """Entries of a vector, with a gradient that holds only these entries."""

    @staticmethod
    def forward(ctx: Context[None], vector: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(vector, ids)
        return vector[ids]

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[None], grad: Tensor) -> tuple[Tensor | None, ...]:
        vector, ids = ctx.saved_tensors
        # Ids that occur several times stay separate entries, which ``coalesce`` adds up.
        touched = ids.flatten()[None]
        return torch.sparse_coo_tensor(touched, grad.flatten(), vector.shape, check_invariants=False), None
