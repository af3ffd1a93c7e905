"""Baselines next to every network: the strength of their penalty, and their scores for texts that they did not learn.

Strengths lie half a decade apart. The one at which unseen texts are likeliest is found by walking uphill from 1: the
loss has all but one minimum in it. Each is scored at the temperature that suits it best, because answers are calibrated
too: at 1, a hundred texts whose scores are too sure call for a penalty under which every answer is the most frequent
label. A strength below 1 must be significantly better. Unseen texts are the held-out ones; where they are fewer than
``MIN_HELD_OUT``, those of three folds too, each scored by a model that was trained on the other two (cross-fitting).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ensue.data.histories import Index, Mask
from ensue.data.texts import Texts
from ensue.metrics import Floats
from ensue.significance import significantly_positive
from ensue.tasks.classify.baselines.tfidf import Lesson, Tfidf
from ensue.tasks.classify.calibration import temperature
from ensue.tasks.classify.dataset import Sides, codes, known, text_hashes
from ensue.tasks.classify.model import TextBaseline
from ensue.tasks.classify.state import ClassifyState
from ensue.text.linear import log_softmax

MIN_HELD_OUT = 200
"""Number of held-out texts from which folds add little: an accuracy near 80 % is known to three points."""
FOLDS = 3
FOLD_WEIGHT = 0.5
"""Weight of all texts of the folds together in a temperature, where that of the held-out ones is 1. The log loss of new
texts lay above that of the best temperature by .05 nats for 77 labels of ten made texts each, and by .07 for 40
questions of TREC; with all texts counted alike it was .20 and .19."""
MIN_STRENGTH, MAX_STRENGTH = 0.01, 1000.0
_STEP = 10**0.5
_MIN_GAIN = 1e-3
"""Nats per label that a step must gain: where any line separates the texts, a weaker penalty always gains some."""


Make = Callable[[float], TextBaseline]
"""Returns an untrained baseline with a strength."""


def cross_entropy(scores: Floats, targets: Index) -> Floats:
    """Return the cost of each label, or of the labels of each text together, in nats, (texts,), of raw scores."""
    if targets.ndim == 2:
        return (np.logaddexp(0, scores) - scores * targets).sum(1)
    return -log_softmax(scores)[np.arange(len(targets)), targets]


def is_right(scores: Floats, targets: Index) -> Mask:
    """Return a (texts,) mask of texts whose likeliest label, or whose set of labels above 1/2, is the true one."""
    return scores.argmax(1) == targets if targets.ndim == 1 else ((scores > 0) == targets).all(1)


class FoldedTexts(NamedTuple):
    """Encoded texts, the codes of their labels (-1: unknown), the fold of each, and the unit of each."""

    sides: Sides
    targets: Index
    folds: Index
    units: Index

    @classmethod
    def of(cls, state: ClassifyState, texts: Texts) -> FoldedTexts:
        """Encode labelled texts."""
        return cls(state.encode(texts), codes(texts, state.labels), folds_of(texts, state.seed), units_of(texts))

    def select(self, index: Index) -> FoldedTexts:
        """Return some of the texts."""
        sides = tuple(tokens.select(index) for tokens in self.sides)
        return FoldedTexts(sides, self.targets[index], self.folds[index], self.units[index])


class Unseen(NamedTuple):
    """Scores of a model for texts that it was not trained on."""

    scores: Floats
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
        num_held = len(targets) if self.num_held is None else int(known(self.targets[: self.num_held]).sum())
        weights = np.ones(len(targets))
        # Texts of the folds come after the held-out ones.
        weights[num_held:] = min(1.0, FOLD_WEIGHT * num_held / max(len(targets) - num_held, 1))
        return temperature(scores, targets, weights)

    def usable(self) -> tuple[Floats, Index]:
        """Return the scores and codes of the texts whose label is known."""
        is_known = known(self.targets)
        return self.scores[is_known], self.targets[is_known]

    def loss(self) -> float:
        """Return the mean cost of a label in nats, at the best temperature."""
        return float(self._costs().mean()) if known(self.targets).any() else 0.0

    def significantly_better(self, other: Unseen) -> bool:
        """Return whether labels cost significantly less than with the other, and at least as many texts are right."""
        gains = other._costs() - self._costs()
        num_right, other_num_right = (
            int(is_right(scores, targets).sum()) for scores, targets in (self.usable(), other.usable())
        )
        units = None if self.units is None else self.units[known(self.targets)]
        return num_right >= other_num_right and significantly_positive(gains, units)

    def _costs(self) -> Floats:
        scores, targets = self.usable()
        return cross_entropy(scores / temperature(scores, targets), targets)


class FittedBaseline(NamedTuple):
    """A baseline with its scores for unseen texts."""

    model: TextBaseline
    strength: float
    unseen: Unseen
    lesson: Lesson | None
    """Feature rows of :class:`Tfidf`, to refit it at another strength."""


def units_of(texts: Texts) -> Index:
    """Return the unit of each text, (texts,), inside which texts depend on each other.

    A unit is a group, the pairs with one first text, or the copies of a text.
    """
    column = texts.groups if texts.groups is not None else texts.texts[0] if texts.paired else None
    if column is None:
        return text_hashes(texts)
    return column.hash().to_numpy().view(np.int64)


def folds_of(texts: Texts, seed: int) -> Index:
    """Return a random fold of each text, (texts,); groups stay together, and so do pairs with one first text."""
    column = texts.groups if texts.groups is not None else texts.texts[0] if texts.paired else None
    group_ids = np.arange(len(texts)) if column is None else column.rank("dense").to_numpy().astype(np.int64) - 1
    # Shuffled numbers of the groups, dealt out to the folds in turn.
    shuffled: Index = np.random.default_rng(seed).permutation(int(group_ids.max()) + 1)
    return shuffled[group_ids] % FOLDS


def fit_baseline(make: Make, data: FoldedTexts, valid: FoldedTexts, strength: float | None) -> FittedBaseline:
    """Fit a baseline at the strength at which other texts are likeliest, or at the given one.

    Args:
        make: returns the baseline at a strength, untrained.
        data: training texts.
        valid: held-out texts.
        strength: that of the settings; ``None`` to select it.
    """
    best = first = _fitted(make, data, valid, 1.0 if strength is None else strength)
    lowest = best.unseen.loss()
    # Walk towards weaker penalties first, then towards stronger ones; stop where the loss rises.
    for factor in (_STEP, 1 / _STEP) if strength is None else ():
        while MIN_STRENGTH < best.strength * factor < MAX_STRENGTH:
            other = _fitted(make, data, valid, best.strength * factor, first)
            loss = other.unseen.loss()
            if loss > lowest - _MIN_GAIN:
                break
            # A stronger penalty than usual must be significantly better.
            if factor < 1 and not other.unseen.significantly_better(best.unseen):
                break
            best, lowest = other, loss
        if best is not first:
            break
    return best


def _out_of_fold(make: Make, strength: float, data: FoldedTexts, num_labels: int) -> Floats:
    """Return (texts, labels) scores of each text by a baseline that was fitted to the other folds."""
    scores = np.zeros((len(data.targets), num_labels))
    for fold in range(FOLDS):
        inside = np.flatnonzero(data.folds == fold)
        outside = np.flatnonzero(data.folds != fold)
        if len(inside) and len(outside):
            baseline = make(strength)
            training = data.select(outside)
            baseline.count(training.sides, training.targets)
            scores[inside] = baseline.scores(data.select(inside).sides)
    return scores


def _fitted(
    make: Make, data: FoldedTexts, valid: FoldedTexts, strength: float, former: FittedBaseline | None = None
) -> FittedBaseline:
    """Fit a baseline; ``former`` is the same one at another strength."""
    baseline = make(strength)
    lesson = None
    if not isinstance(baseline, Tfidf):
        baseline.count(data.sides, data.targets)
    elif former is not None and former.lesson is not None and isinstance(former.model, Tfidf):
        lesson = former.lesson
        baseline = former.model.refitted(lesson, strength)
    else:
        lesson = baseline.learn(data.sides, data.targets)
    unseen = Unseen(baseline.scores(valid.sides), valid.targets, units=valid.units)
    if len(valid.targets) < MIN_HELD_OUT:
        scores = [unseen.scores, _out_of_fold(make, strength, data, unseen.scores.shape[1])]
        targets = np.concatenate([valid.targets, data.targets])
        units = np.concatenate([valid.units, data.units])
        unseen = Unseen(np.concatenate(scores), targets, len(valid.targets), units)
    return FittedBaseline(baseline, strength, unseen, lesson)
