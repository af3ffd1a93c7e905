"""Counting models beside every network: how strong their penalty is, and what they say of texts they did not learn.

Strengths lie half a decade apart. The one at which texts that were not learned are likeliest is found by walking uphill
from 1: the loss is all but unimodal in it. Each is judged at the temperature that suits it, as it will answer: at 1, a
hundred texts whose scores are too sure call for a penalty under which every answer is the most frequent label; one
above the usual must be significantly better. Texts that were not learned are the held-out ones; where they are fewer
than ``ENOUGH``, those of three folds too, each scored by a model that learned the other two (cross-fitting).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ensue.data.histories import Index
from ensue.data.texts import Texts
from ensue.significance import significantly_positive
from ensue.tasks.classify.baselines.tfidf import Lesson, Tfidf
from ensue.tasks.classify.calibration import temperature
from ensue.tasks.classify.dataset import Sides, codes, prints
from ensue.tasks.classify.model import Baseline
from ensue.tasks.classify.state import ClassifyState

ENOUGH = 200
"""Held-out texts from which folds add little: an accuracy near 80 % is known to three points."""
FOLDS = 3
FOLD_WEIGHT = 0.5
"""Weight of all texts of the folds together in a temperature, where that of the held-out ones is 1. The log loss of new
texts lay above that of the best temperature by .05 nats for 77 labels of ten made texts each, and by .07 for 40
questions of TREC; with all texts counted alike it was .20 and .19."""
WEAKEST, STRONGEST = 0.01, 1000.0
_STEP = 10**0.5
_LEAST = 1e-3
"""Nats a label that a step must bring: of texts that any line tells apart, a weaker penalty always brings some."""


Make = Callable[[float], Baseline]
"""Returns an untrained baseline with a strength."""


class Data(NamedTuple):
    """Encoded texts, the codes of their labels (-1: never learned), the fold of each, and the unit of each."""

    sides: Sides
    targets: Index
    folds: Index
    units: Index

    @classmethod
    def of(cls, state: ClassifyState, texts: Texts) -> Data:
        """Encode labelled texts."""
        return cls(state.encode(texts), codes(texts, state.labels), folds_of(texts, state.seed), units_of(texts))

    def select(self, chosen: Index) -> Data:
        """Some of them."""
        sides = tuple(tokens.select(chosen) for tokens in self.sides)
        return Data(sides, self.targets[chosen], self.folds[chosen], self.units[chosen])


class Unlearned(NamedTuple):
    """Scores of a model for texts that it was not trained on."""

    scores: Tensor
    """(texts, labels) before normalising."""
    targets: Index
    """(texts,)."""
    num_held: int | None = None
    """Number of leading texts that no fold was trained on. [default: all]"""
    units: Index | None = None
    """(texts,) the unit of each, as of :func:`units_of`; each text is one unless given."""

    def temperature(self) -> float:
        """Return the temperature at which these labels are likely.

        A model of two thirds of the texts is less sure than one of them all, so all texts of the folds together count
        as much as ``FOLD_WEIGHT`` of the held-out ones: they steady the temperature of few, and hardly move it.
        """
        scores, targets = self.usable()
        num_held = len(targets) if self.num_held is None else int((self.targets[: self.num_held] >= 0).sum())
        weights = torch.ones(len(targets)).double()
        weights[num_held:] = min(1.0, FOLD_WEIGHT * num_held / max(len(targets) - num_held, 1))
        return temperature(scores, targets, weights)

    def usable(self) -> tuple[Tensor, Tensor]:
        """Scores and codes of those whose label is known."""
        known = torch.from_numpy(np.flatnonzero(self.targets >= 0))
        return self.scores[known], torch.from_numpy(self.targets)[known]

    def loss(self) -> float:
        """Mean nats a label, at the temperature that suits them best."""
        return float(self._costs().mean()) if (self.targets >= 0).any() else 0.0

    def significantly_better(self, other: Unlearned) -> bool:
        """Return whether labels cost significantly less than with the other, and at least as many texts are right."""
        gains = (other._costs() - self._costs()).numpy()
        right = [int((scores.argmax(1) == targets).sum()) for scores, targets in (self.usable(), other.usable())]
        units = None if self.units is None else self.units[self.targets >= 0]
        return right[0] >= right[1] and significantly_positive(gains, units)

    def _costs(self) -> Tensor:
        scores, targets = self.usable()
        return cross_entropy(scores.double() / temperature(scores, targets), targets, reduction="none")


class Counted(NamedTuple):
    """A counting model, and how it did."""

    model: Baseline
    strength: float
    unlearned: Unlearned
    lesson: Lesson | None
    """Feature rows of :class:`Tfidf`, to refit it at another strength."""


def units_of(texts: Texts) -> Index:
    """Return the (texts,) unit of each, which are not independent inside: a group, a first text of pairs, or copies."""
    column = texts.groups if texts.groups is not None else texts.texts[0] if texts.paired else None
    if column is None:
        return prints(texts)
    units: Index = column.hash().to_numpy().view(np.int64)
    return units


def folds_of(texts: Texts, seed: int) -> Index:
    """(texts,) a fold each, at random; whole groups together, and of pairs all of a first text."""
    column = texts.groups if texts.groups is not None else texts.texts[0] if texts.paired else None
    owners = np.arange(len(texts)) if column is None else column.rank("dense").to_numpy().astype(np.int64) - 1
    shuffled: Index = np.random.default_rng(seed).permutation(int(owners.max()) + 1)
    return shuffled[owners] % FOLDS


def count_best(make: Make, data: Data, valid: Data, strength: float | None) -> Counted:
    """Fit a baseline at the strength at which other texts are likeliest, or at the given one.

    Args:
        make: returns the baseline at a strength, untrained.
        data: training texts.
        valid: held-out texts.
        strength: that of the settings; ``None`` to select it.
    """
    best = first = _counted(make, data, valid, 1.0 if strength is None else strength)
    lowest = best.unlearned.loss()
    for factor in (_STEP, 1 / _STEP) if strength is None else ():
        while WEAKEST < best.strength * factor < STRONGEST:
            other = _counted(make, data, valid, best.strength * factor, first)
            loss = other.unlearned.loss()
            if loss > lowest - _LEAST:
                break
            if factor < 1 and not other.unlearned.significantly_better(best.unlearned):
                break
            best, lowest = other, loss
        if best is not first:
            break
    return best


def _out_of_fold(make: Make, strength: float, data: Data, num_labels: int) -> Tensor:
    """Return (texts, labels) scores of each text by a baseline that was fitted to the other folds."""
    scores = torch.zeros(len(data.targets), num_labels).double()
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(data.folds == fold), np.flatnonzero(data.folds != fold)
        if len(inside) and len(outside):
            baseline, rest = make(strength), data.select(outside)
            baseline.count(rest.sides, rest.targets)
            scores[torch.from_numpy(inside)] = baseline.scores(data.select(inside).sides)
    return scores


def _counted(make: Make, data: Data, valid: Data, strength: float, former: Counted | None = None) -> Counted:
    """Fit a baseline; ``former`` is the same one at another strength."""
    baseline, lesson = make(strength), None
    if not isinstance(baseline, Tfidf):
        baseline.count(data.sides, data.targets)
    elif former is not None and former.lesson is not None and isinstance(former.model, Tfidf):
        baseline, lesson = former.model.anew(former.lesson, strength), former.lesson
    else:
        lesson = baseline.learn(data.sides, data.targets)
    unlearned = Unlearned(baseline.scores(valid.sides), valid.targets, units=valid.units)
    if len(valid.targets) < ENOUGH:
        scores = [unlearned.scores, _out_of_fold(make, strength, data, unlearned.scores.shape[1])]
        targets, units = np.concatenate([valid.targets, data.targets]), np.concatenate([valid.units, data.units])
        unlearned = Unlearned(torch.cat(scores), targets, len(valid.targets), units)
    return Counted(baseline, strength, unlearned, lesson)
