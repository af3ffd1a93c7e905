"""Cascade blend: a mixture of HiDAN, past cascades, times of activity, and baselines.

Counts remember every pair but do not generalise; HiDAN sees the whole cascade and attends to earlier users, but blurs
rare events; neither reads the clock. Each user has these features:

=====================  =======================================================================================
network                HiDAN's score: a cosine over a temperature that is learned
near, far, alike       ln(1 + share / ``FLOOR``) of what past cascades say, close in time first, all times alike
                       (``co_participation.py``), or those like this one (``cascade_features.py``)
near high, far high,   the same over ``HIGH``, which tells large shares from larger ones
alike high
frequent               -ln(1 + how often the user took part): the memories know already who is frequent
length                 ln(1 + how many events came before), which tells when to trust which part
hour, day, fortnight,  how usual this hour, day, fortnight, pace and pause is for the user
pace, pause            (``temporal_preference.py``)
cooccurrence, markov,  ln(share) by the baselines of these names, ``BASELINES``, counted from what is remembered
interpolated
=====================  =======================================================================================

:class:`Mixture` makes a score of them. It is learned from held-out cascades, which
no part has seen; HiDAN's scores are cosines here: on little data the lengths of vectors mostly tell how frequent a
user is.

Each baseline is a special case of the mixture, with all weight on its share. Two rules protect it where little data
was held out. The weights start half way between ``START`` and the baseline under which the held-out targets are
likeliest, and a prior keeps them close: the fewer targets, the closer. In addition, mixtures are fitted on all but one
of ``FOLDS`` folds of (``JUDGED`` of) the held-out targets and ranked on that one: if the mean reciprocal rank of a
baseline is higher by more than ``ERRORS`` standard errors of the difference, the baseline alone is used.

Where no past cascade contains a user twice, users of the cascade itself are practically ruled out.

With more than ``MAX_DENSE_USERS`` users each target has a shortlist (``cascade_features.py``): the users that the
network and the memories score highest, and the most frequent ones. The mixture scores these and is fitted on targets
that are on their shortlists; all other users rank below them, in the order of the network.

The model is from no paper and reads no social graph; ``ensue reproduce hidan`` compares it with the baselines.

Mixture of the scores of several models, fitted on few targets.

    score(v) = w . f(v) + u . relu(A f(v) + b)

with f(v) the features of v, standardised before A. The first term is a multinomial logit; the second is a hidden layer
for features whose effect is not linear. First w alone is fitted, with a normal prior around its start: ``PRIOR`` times
half the squared distance, in standard deviations of each feature, is added to the negative log-likelihood. Then all
parameters are fitted by maximum likelihood for a fixed number of epochs; u starts at 0.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories, Index
from ensue.nn.item_head import Output
from ensue.nn.validation import LARGEST_COUNT, require_number
from ensue.significance import exceeds_standard_error
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.dataset import Windows, hide_seen, repeats
from ensue.tasks.next.ensembles.cascade_features import (
    BASELINES,
    CASCADE_FEATURES,
    FEATURES,
    CandidateFeatures,
    CascadeFeatures,
)
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.tasks.next.model import NextModel
from ensue.tasks.next.models.hidan import HiDAN
from ensue.tasks.next.settings import CascadeBlendSettings
from ensue.vocabulary import FIRST

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


START = (0.2, 0.6, 0.2, 0.4, 0.2, 0.2, 0.0, 0.8, 0.0, 0.3, 0.2, 0.2, 0.2, 0.1) + len(BASELINES) * (0.0,)
"""Half of the initial weights; the other half is the best baseline."""
TRIED = 10_000
"""Maximum number of held-out targets, a random sample, on which the mixture is fitted."""
AT_ONCE = 16
"""Held-out windows per batch."""
JUDGED = 1000
FOLDS = 4
ERRORS = 2.0
"""On this number of targets, in this number of folds, no baseline may be better by more standard errors than this."""
CANDIDATES = 100
"""Number of highest candidates that a target is compared with, and of sampled ones that represent the others."""


class CascadeBlend(nn.Module):
    """HiDAN alongside past cascades; see the module.

    Args:
        settings: of HiDAN.
        num_ids: size of the catalogue, padding and unknown included.
    """

    weighs_targets = True

    def __init__(self, settings: CascadeBlendSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        self.network = HiDAN(settings, num_ids)
        self.reach = self.network.reach
        self.memory = CascadeStore(num_ids)
        self.mixture = Mixture(torch.tensor(START))
        self.mixed: Tensor = nn.Buffer(torch.zeros(1))

    @property
    def members(self) -> dict[str, float]:
        """See :class:`ensue.tasks.next.model.Finishes`: of each number that is mixed."""
        return dict(zip(FEATURES, self.mixture.weights.tolist(), strict=True))

    def grow(self, num_ids: int) -> CascadeBlend:
        """Return this model resized for more users, whom nobody has followed yet."""
        grown = CascadeBlend(self.settings, num_ids)
        grown.network = self.network.grow(num_ids)
        grown.memory = self.memory.grow(num_ids)
        grown.mixture = self.mixture
        grown.mixed = self.mixed
        return grown

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the network."""
        return self.network.loss(batch)

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids), padding and unknown at -inf; dependency of the network, influence of both.

        Until the mixture is learned, and without past cascades, the scores are the network's.
        """
        expected: Output = self.network(batch)
        if not float(self.mixed) or not len(self.memory.ids):
            return expected
        mixture = self.mixture.cpu()
        dependency, influence = expected.weights
        scores, mixed = self.candidate_features.mix(
            batch.arrays(), expected.scores.cpu().numpy(), influence.cpu().numpy(),
            lambda features: mixture(torch.from_numpy(features)).numpy(),
        )  # fmt: skip
        device = expected.scores.device
        return Output(torch.from_numpy(scores).to(device), (dependency, torch.from_numpy(mixed).to(device)))

    def finish(self, learned: Histories, valid: Histories | None, earlier: NextModel | None) -> None:
        """Remember what the network was trained on, and learn the mixture.

        Args:
            learned: the training data.
            valid: what neither part has seen; ``None`` to take over the mixture of ``earlier``.
            earlier: the same model, trained on a part of the data.
        """
        self.remember(learned)
        if valid is not None:
            self._mix(valid, hide=not repeats(learned))
        elif isinstance(earlier, CascadeBlend):
            self.mixture = earlier.mixture
            self.mixed = earlier.mixed

    @torch.no_grad()
    def remember(self, histories: Histories) -> None:
        """Add past cascades to the memory."""
        self.memory.count(histories)

    @property
    def candidate_features(self) -> CascadeFeatures:
        """The features of candidates, from the memory as it is now."""
        return CascadeFeatures(self.memory, self.settings.window, self.reach)

    @torch.no_grad()
    def _mix(self, valid: Histories, *, hide: bool) -> None:
        """Learn the mixture from what was held out."""
        self.eval()
        past = self.candidate_features
        windows = Windows(valid, self.reach)
        hidden = valid if hide else None
        num_targets = min(windows.targets, TRIED)
        num_ids = self.memory.num_ids
        filled = 0
        width = 1 + min(CANDIDATES, num_ids) + CANDIDATES
        features = torch.empty(len(FEATURES), num_targets, width)
        added = torch.empty(num_targets, width)
        cascades = np.empty(num_targets, np.int64)
        owners = valid.sequence_index()
        generator = torch.Generator().manual_seed(0)
        # A fixed seed: the same data give the same mixture.
        order = np.random.default_rng(0).permutation(len(windows))
        for low in range(0, len(order), AT_ONCE):
            index = order[low : low + AT_ONCE]
            batch = windows.batch(index)
            network = self.network(batch.to(self.mixed.device)).scores.cpu()
            # ruled_out is added to scores: -inf for padding, unknown, and users of the history.
            ruled_out = torch.zeros_like(network)
            ruled_out[:, :FIRST] = -torch.inf
            if hidden is not None:
                hide_seen(ruled_out.numpy(), hidden, windows.positions(index))
            for targets, _, chunk in past.chunks(batch):
                candidates = past.features(chunk, network[targets].numpy())
                target_features, excluded, target_columns, first, listed = _on_lists(
                    candidates, ruled_out[targets], torch.from_numpy(batch.targets[targets])
                )
                sampled = _candidates(target_features, excluded, target_columns, generator, first)
                size = min(num_targets - filled, len(sampled[1]))
                features[:, filled : filled + size] = sampled[0][:, :size]
                added[filled : filled + size] = sampled[1][:size]
                # Targets of one cascade are not independent; its number groups them in the test below.
                positions = windows.positions(index)[targets][listed.numpy()]
                cascades[filled : filled + size] = owners[positions][:size]
                filled += size
            if filled == num_targets:
                break
        if filled:  # of very many users no target may be on its list
            self.mixture = _learned(features[:, :filled], added[:filled], cascades[:filled])
            self.mixed.fill_(1.0)


def _on_lists(
    candidates: CandidateFeatures, ruled_out: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """Return the arguments of :func:`_candidates`, restricted to targets on their own lists if users are listed.

    Last comes a mask (targets,) of these targets.
    """
    features = torch.from_numpy(candidates.features)
    if candidates.users is None:
        return features, ruled_out, targets, FIRST, torch.ones_like(targets, dtype=torch.bool)
    users, listed = torch.from_numpy(candidates.users), torch.from_numpy(candidates.listed)
    # users is sorted: the column of a target, or of its right neighbour if it is not listed.
    column = torch.searchsorted(users, targets).clamp(max=len(users) - 1)
    is_listed = (users[column] == targets) & listed.gather(1, column[:, None])[:, 0]
    excluded = ruled_out[:, users].masked_fill(~listed, -torch.inf)
    return features[:, is_listed], excluded[is_listed], column[is_listed], 0, is_listed


def _learned(features: Tensor, added: Tensor, cascades: Index) -> Mixture:
    """Return the mixture fitted on held-out targets, or the best baseline; see the module.

    Args:
        features: (parts, targets, 1 + candidates), and
        added: (targets, 1 + candidates) as :func:`_candidates` has them.
        cascades: (targets,) the number of the cascade of each; gains within one depend on each other.
    """
    floors = features[len(CASCADE_FEATURES) :]
    begin = torch.tensor(START) / 2
    # The baseline of the lowest cross-entropy gets the other half of the initial weights.
    scores = floors + added
    begin[len(CASCADE_FEATURES) + int((scores.logsumexp(2) - scores[..., 0]).mean(1).argmin())] += 0.5
    # Each fold is judged by a mixture that was fitted on the others.
    folds = torch.arange(min(len(added), JUDGED)).chunk(FOLDS)
    fold_ranks = list[Tensor]()
    for judged in folds if len(folds) > 1 else ():
        training = torch.cat([fold for fold in folds if fold is not judged])
        mixture = Mixture(begin)
        mixture.learn(features[:, training], added[training])
        scores = torch.cat([mixture(features[:, judged])[None], floors[:, judged]])
        fold_ranks.append(_reciprocal_ranks(scores, added[judged]))
    if fold_ranks:
        gains = torch.cat(fold_ranks, 1)
        # Row 0 is the mixture, the others are the baselines.
        gains = gains[1:] - gains[0]
        best = int(gains.mean(1).argmax())
        if exceeds_standard_error(gains[best].double().numpy(), cascades[: gains.shape[1]], ERRORS):
            return Mixture(torch.eye(len(FEATURES))[len(CASCADE_FEATURES) + best])
    mixture = Mixture(begin)
    mixture.learn(features, added)
    return mixture


def _reciprocal_ranks(scores: Tensor, added: Tensor) -> Tensor:
    """(…, targets) of the first of each row's candidates, where those drawn at random stand for others too."""
    # A random candidate counts as exp(added) users: the number of users that it stands for.
    num_above = (scores[..., 1:] >= scores[..., :1]) * added[:, 1:].exp()
    return 1 / (1 + num_above.sum(-1))


def _candidates(
    features: Tensor, ruled_out: Tensor, targets: Tensor, generator: torch.Generator, first: int = FIRST
) -> tuple[Tensor, Tensor]:
    """Return each target and its candidates: the highest under ``START``, and a random sample of the others.

    Args:
        features: (parts, targets, ids).
        ruled_out: (targets, ids) -inf for what is no candidate, 0 elsewhere.
        targets: (targets,).
        generator: for the draw.
        first: ids below are never drawn.

    Returns:
        (parts, targets, 1 + candidates), the target first; (targets, 1 + candidates) what is added to their scores,
        0 for targets.
    """
    num_features, num_targets, num_ids = features.shape
    # The target is no candidate a second time.
    open_to_all = ruled_out.scatter(1, targets[:, None], -torch.inf)
    scores = (torch.tensor(START) @ features.flatten(1)).view(num_targets, num_ids) + open_to_all
    high, top = scores.topk(min(CANDIDATES, num_ids), dim=1)
    open_to_all = open_to_all.scatter(1, top, -torch.inf)
    num_open = (open_to_all == 0).sum(1, keepdim=True)
    sampled = torch.randint(first, max(num_ids, first + 1), (num_targets, CANDIDATES), generator=generator).clamp(
        max=num_ids - 1
    )
    penalty = open_to_all.gather(1, sampled)
    # Importance weight of a sampled user: users still open, by those of the sample that are.
    stands_for = (num_open.clamp(min=1) / (penalty == 0).sum(1, keepdim=True).clamp(min=1)).log()
    candidate_ids = torch.cat([targets[:, None], top, sampled], dim=1)
    added = torch.cat(
        [torch.zeros(num_targets, 1), torch.where(high.isneginf(), high, 0.0), penalty + stands_for], dim=1
    )
    return features.gather(2, candidate_ids.expand(num_features, -1, -1)), added
