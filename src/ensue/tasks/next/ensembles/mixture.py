"""Mixture of the scores of several models, fitted on few targets.

    score(v) = w . f(v) + u . relu(A f(v) + b)

with f(v) the features of v, standardised before A. The first term is a multinomial logit; the second is a hidden layer
for features whose effect is not linear. First w alone is fitted, with a normal prior around its start: ``PRIOR`` times
half the squared distance, in standard deviations of each feature, is added to the negative log-likelihood. Then all
parameters are fitted by maximum likelihood for a fixed number of epochs; u starts at 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ensue.nn.validation import LARGEST_COUNT, require_number

PRIOR = 10.0
"""Precision of the prior around the initial w; a feature is expected to add about a third of a nat."""
LINE = 2000
"""Targets from which w alone is learned, the first ones, at most."""
SEARCHED = 30
"""Steps of that search (L-BFGS)."""
HIDDEN = 32
RATE = 3e-3
"""Adam's step size, which falls to 0 along a cosine."""
EPOCHS = 30
BATCH = 64
DECAY = 1e-3
"""AdamW's weight decay."""
COLUMNS = 2**14
"""Candidates scored per block."""


LEAST_SPREAD = 1e-3
"""A feature is taken to spread at least this far."""


class Mixture(nn.Module):
    """The mixture; all its tensors are buffers, since what trains the parts leaves it alone.

    Args:
        start: (parts,) the weights to begin with.
    """

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        # The usual uniform initialisation of a linear layer, by the number of inputs.
        bound = 1 / math.sqrt(len(start))
        inner = (torch.rand(HIDDEN, len(start), generator=generator) * 2 - 1) * bound
        self.weights: Tensor = nn.Buffer(start.clone())
        self.mean: Tensor = nn.Buffer(torch.zeros(len(start)))
        self.spread: Tensor = nn.Buffer(torch.ones(len(start)))
        self.inner: Tensor = nn.Buffer(inner)
        self.bias: Tensor = nn.Buffer(torch.zeros(HIDDEN))
        self.outer: Tensor = nn.Buffer(torch.zeros(HIDDEN))

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.loading.Validated`: features are divided by their spread."""
        require_number(f"{name}.spread", self.spread, LARGEST_COUNT, LEAST_SPREAD)

    def forward(self, features: Tensor) -> Tensor:
        """(targets, candidates) scores, of (parts, targets, candidates) features."""
        # Standardisation is folded into the layer: A((f - mean) / spread) + b.
        inner = self.inner / self.spread
        bias = (self.bias - inner @ self.mean)[:, None]
        # Targets and candidates become columns, in blocks that fit into the processor's cache.
        flat = torch.split(features.flatten(1), COLUMNS, dim=1)
        scores = [self.outer @ torch.addmm(bias, inner, chunk).relu_() + self.weights @ chunk for chunk in flat]
        return torch.cat(scores).view(features.shape[1:])

    @torch.enable_grad()
    def learn(self, features: Tensor, added: Tensor) -> None:
        """Make the first candidate of every row as likely as can be; the same data give the same bytes.

        Args:
            features: (parts, targets, candidates).
            added: (targets, candidates) what is added to the scores: -inf for what is no candidate.
        """
        self.mean.copy_(features.mean((1, 2)))
        self.spread.copy_(features.std((1, 2)).clamp(min=LEAST_SPREAD))
        # The linear part is fitted first, so that the hidden units learn only its residual.
        self._learn_line(features[:, :LINE], added[:LINE])
        tensors = [self.weights, self.inner, self.bias, self.outer]
        generator = torch.Generator().manual_seed(0)
        steps = EPOCHS * -(-len(added) // BATCH)
        for tensor in tensors:
            tensor.requires_grad = True
        optimizer = torch.optim.AdamW(tensors, lr=RATE, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(EPOCHS):
            for index in torch.split(torch.randperm(len(added), generator=generator), BATCH):
                scores = self(features[:, index]) + added[index]
                # Cross-entropy of the first candidate, which is the target.
                loss = (scores.logsumexp(1) - scores[:, 0]).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        for tensor in tensors:
            tensor.requires_grad = False
            tensor.grad = None

    def _learn_line(self, features: Tensor, added: Tensor) -> None:
        """Make the first candidate of every row likely by w alone, not far from where it begins."""
        begin = self.weights.clone()
        self.weights.requires_grad = True
        search = torch.optim.LBFGS([self.weights], max_iter=SEARCHED, line_search_fn="strong_wolfe")
        flat = features.flatten(1)

        def loss() -> Tensor:
            search.zero_grad()
            scores = (self.weights @ flat).view_as(added) + added
            # In units of each feature's standard deviation: the prior is the same for all features.
            distance = ((self.weights - begin) * self.spread).square().sum()
            lost = (scores.logsumexp(1) - scores[:, 0]).mean() + PRIOR / len(added) * distance / 2
            torch.autograd.backward(lost)
            return lost

        search.step(loss)  # type: ignore[no-untyped-call]
        self.weights.requires_grad = False
        self.weights.grad = None
