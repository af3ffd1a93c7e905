"""What every model over a catalogue ends in: a score an id, and the loss of the ids that came."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ensue.nn.autograd import Context, apply
from ensue.nn.cross_entropy import linear_cross_entropy
from ensue.nn.sampling import Sampler, sampled_cross_entropy
from ensue.vocabulary import FIRST


def item_scores(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Scores (targets, ids), padding and unknown at -inf.

    Args:
        hidden: (targets, dim).
        weight: (ids, dim) a vector an id.
        bias: (ids,), or none.
    """
    scores = functional.linear(hidden, weight, bias)
    scores[:, :FIRST] = -torch.inf
    return scores


def item_loss(hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None = None) -> Tensor:
    """Cross-entropy over all ids but padding and unknown: a mean over the targets, in nats.

    Args:
        hidden: (targets, dim).
        weight: (ids, dim) a vector an id.
        targets: (targets,) which id came.
        bias: (ids,), or none.
    """
    return linear_cross_entropy(hidden, weight, bias, targets, first=FIRST)


def table_loss(hidden: Tensor, items: nn.Embedding, targets: Tensor, sampler: Sampler, drawn: int | None) -> Tensor:
    """Cross-entropy over the target and so many drawn ids, or as :func:`item_loss` where none are drawn.

    Args:
        hidden: (targets, dim).
        items: the table of all ids.
        targets: (targets,) which id came.
        sampler: draws the negatives.
        drawn: how many; ``None`` for the whole catalogue.
    """
    if drawn is None:
        return item_loss(hidden, items.weight, targets)
    return sampled_cross_entropy(hidden, items, targets, sampler, drawn)


class ItemLayer(nn.Linear):
    """An output layer with a row and a bias an id, learned over the whole catalogue or over a few drawn ids a step.

    Where ids are drawn a step reads, moves and exchanges their rows alone (``sparse``). The parameters are a linear
    layer's, and start as one's.

    Args:
        dim: width of what is scored.
        num_ids: rows, padding and unknown included.
        negatives: ids drawn a batch in training; ``None`` for all.
    """

    def __init__(self, dim: int, num_ids: int, negatives: int | None = None) -> None:
        super().__init__(dim, num_ids)
        self.negatives, self.sparse = negatives, negatives is not None
        if negatives is not None:
            self.sampler = Sampler(num_ids)

    def loss(self, hidden: Tensor, targets: Tensor, *, cosine: bool = False) -> Tensor:
        """Cross-entropy, a mean over the targets in nats; outside training it is over all ids but padding and unknown.

        Args:
            hidden: (targets, dim).
            targets: (targets,) which id came.
            cosine: whether the rows are brought to length 1 first.
        """
        if self.negatives is None or not self.training:
            weight = functional.normalize(self.weight, dim=1) if cosine else self.weight
            return item_loss(hidden, weight, targets, self.bias)

        def rows(ids: Tensor) -> Tensor:
            vectors = functional.embedding(ids, self.weight, sparse=self.sparse)
            biases = apply(_Entries, self.bias, ids) if self.sparse else self.bias[ids]
            vectors = functional.normalize(vectors, dim=-1) if cosine else vectors
            return torch.cat([vectors, biases[..., None]], dim=-1)

        return sampled_cross_entropy(
            functional.pad(hidden, (0, 1), value=1.0), rows, targets, self.sampler, self.negatives
        )


class _Entries(torch.autograd.Function):
    """Entries of a vector, whose gradient holds these alone."""

    @staticmethod
    def forward(ctx: Context, vector: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(vector, ids)
        return vector[ids]

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        vector, ids = ctx.saved_tensors
        touched = ids.flatten()[None]
        return torch.sparse_coo_tensor(touched, grad.flatten(), vector.shape, check_invariants=False), None
