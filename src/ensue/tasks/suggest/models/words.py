"""Both ends of every ``suggest`` network: the table tokens are read from, and the softmax that says the next one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue import kernels
from ensue.nn.autograd import DerivedCache
from ensue.nn.device import is_float32_on_cpu
from ensue.nn.sampling import linear_cross_entropy
from ensue.nn.topk import log_totals
from ensue.tasks.suggest.batch import PADDING, UNKNOWN

MAX_ROWS = 8
"""Rows whose tokens a kernel scores at most: products of more are faster in torch."""
_BLOCK = 512, 1536
"""States and tokens whose scores are held at once: 3 MB, made where the block before them was, in the cache."""


class TokenTable(nn.Module):
    """A table of token vectors, and scores state . w + b of all tokens.

    Padding is no choice; begin is one that never comes.

    Args:
        num_ids: tokens, the special ones included.
        embedding: width of the table.
        dim: width of the states that are scored.
        tied: whether w is the table itself (Press & Wolf 2017), after a projection to its width where that is another.
        smoothing: this share of each target is spread evenly over all tokens (Szegedy et al. 2016).
    """

    def __init__(self, num_ids: int, embedding: int, dim: int, *, tied: bool, smoothing: float) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.table = nn.Embedding(num_ids, embedding, padding_idx=PADDING)
        nn.init.normal_(self.table.weight, std=embedding**-0.5)
        nn.init.zeros_(self.table.weight[PADDING])
        self.narrow = nn.Linear(dim, embedding, bias=False) if tied and dim != embedding else nn.Identity()
        self.weight = None if tied else nn.Parameter(torch.randn(num_ids, dim) * dim**-0.5)
        self.bias = nn.Parameter(torch.zeros(num_ids))
        self.kept = DerivedCache(self._turned)

    def forward(self, ids: Tensor) -> Tensor:
        """(…) ids to (…, embedding)."""
        vectors: Tensor = self.table(ids)
        return vectors

    def loss(self, states: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy with label smoothing, in nats; (targets, dim) and (targets,)."""
        states, weight, bias = self._parts(states)
        plain = linear_cross_entropy(states, weight, bias, targets - UNKNOWN)
        return plain + self._smoothed(states, weight, bias, targets)

    def smooth(self, states: Tensor, targets: Tensor) -> Tensor:
        """Return the term that label smoothing adds to the mean cross-entropy."""
        return self._smoothed(*self._parts(states), targets)

    def _smoothed(self, states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        """The share times the mean of (target's score - mean score of all tokens): no table of scores is made."""
        if not self.smoothing or not len(targets):
            return states.new_zeros(())
        # Linear in the table: the mean score of all tokens is the score by the mean of the table.
        difference = functional.embedding(targets - UNKNOWN, weight) - weight.mean(0)
        gaps = (states * difference).sum(1) + bias[targets - UNKNOWN] - bias.mean()
        return self.smoothing * gaps.mean()

    def log_likelihood(self, states: Tensor, targets: Tensor) -> Tensor:
        """(targets,) log-probabilities; in blocks of states where no gradient is asked for.

        Args:
            states: (targets, dim).
            targets: (targets,) ids.
        """
        states, weight, bias = self._parts(states)
        targets = targets - UNKNOWN
        if torch.is_grad_enabled():
            return -functional.cross_entropy(functional.linear(states, weight, bias), targets, reduction="none")
        totals = _log_totals(states, weight, bias)
        return (states * functional.embedding(targets, weight)).sum(1) + bias[targets] - totals

    @torch.no_grad()
    def log_probabilities(self, states: Tensor) -> Tensor:
        """(rows, dim) to (rows, ids) of all tokens, without a gradient; padding at -inf."""
        return log_probabilities(states, self.output())

    def output(self) -> Tensor:
        """Return (dim + 1, ids) the weights of the scores as columns and, as the last row, the biases."""
        weight = self.table.weight if self.weight is None else self.weight
        return self.kept.get((self.bias, weight, *self.narrow.parameters()))

    def _turned(self) -> Tensor:
        """(dim + 1, ids) the weights and, as the last row, the bias, which else is written over all scores first."""
        weight = self.table.weight if self.weight is None else self.weight
        if isinstance(self.narrow, nn.Linear):
            weight = weight @ self.narrow.weight
        bias = self.bias.detach().clone()
        # With a bias of -inf padding is never the likeliest, and adds nothing to the total.
        bias[PADDING] = -torch.inf
        return torch.cat([weight.detach().t(), bias[None]]).contiguous()

    def negative_entropy(self, states: Tensor) -> Tensor:
        """(targets, dim) to (targets,): the sum of p log p over all tokens, in nats."""
        # All scores are needed at once here, unlike in the likelihood.
        log_shares = functional.linear(*self._parts(states)).log_softmax(1)
        return (log_shares.exp() * log_shares).sum(1)

    def _parts(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight = self.table.weight if self.weight is None else self.weight
        return self.narrow(states), weight[UNKNOWN:], self.bias[UNKNOWN:]


def _compiled_log_probabilities(states: Tensor, weight: Tensor) -> Tensor:
    out = states.new_empty(len(states), weight.shape[1])
    kernels.call("log_shares", x=states, w=weight[:-1], bias=weight[-1], out=out)
    return out


def _suits_log_probabilities(states: Tensor, weight: Tensor) -> bool:
    contiguous = states.is_contiguous() and weight.is_contiguous()
    return 0 < len(states) <= MAX_ROWS and is_float32_on_cpu(states, weight) and contiguous


@kernels.compiled(_compiled_log_probabilities, when=_suits_log_probabilities)
def log_probabilities(states: Tensor, weight: Tensor) -> Tensor:
    """Return the (rows, ids) log-softmax of (rows, dim) states times a (dim + 1, ids) table whose last row is added."""
    # A 1 behind each state multiplies the bias, which is the table's last row.
    states = torch.cat([states, states.new_ones(len(states), 1)], dim=1)
    return (states @ weight).log_softmax(1)


def _log_totals(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(states,) log of the sum of exp of the scores of all tokens, in blocks of both."""
    # Blocks of tokens by blocks of states keep the scores in the processor's cache.
    blocks = [*zip(torch.split(weight, _BLOCK[1]), torch.split(bias, _BLOCK[1]), strict=True)]
    totals = [
        torch.stack([log_totals(functional.linear(block_states, *block)) for block in blocks]).logsumexp(0)
        for block_states in torch.split(states, _BLOCK[0])
    ]
    return torch.cat(totals)
