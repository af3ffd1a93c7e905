"""Spreaders: users who come first, who are followed by most, and whom a model's scores of later users attend to.

The first two are counted; the third is what a trained model attended to. None of them says who caused what: who is
early is followed by many whatever they do, and a log knows nothing of what people read elsewhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from ensue.answers import Answer, Explanation
from ensue.data.histories import Histories, Index
from ensue.errors import SettingError
from ensue.lazy import torch
from ensue.learning.state import evaluating
from ensue.metrics import Floats
from ensue.settings import require_k
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.model import Credits
from ensue.tasks.next.predictor import NextPredictor
from ensue.topk import Scores

Measure = Literal["first", "followed", "credit"]
MEASURES: tuple[Measure, ...] = ("first", "followed", "credit")
RESAMPLES = 1000
MAX_RESAMPLED = 5000
"""Users with more cascades get the normal interval, which is the limit of the bootstrap."""
GROUP = 2000
"""Events per batch."""
MAX_EXPLAINED = 40
"""Maximum number of events of the cascade that is plotted."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A sum over cascades, and its 95 % bootstrap interval over cascades."""

    total: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreader:
    """A user of cascades and their measures.

    Attributes:
        value: the user.
        cascades: number of cascades that they take part in.
        first: number of cascades that they begin.
        followed: number of other users after them, over all cascades.
        credit: attributions that they receive, where each later event gives 1 in all; ``None`` without a model.
        times_even: credit, divided by the credit under equal attention to all earlier events.
    """

    value: str
    cascades: int
    first: Estimate
    followed: Estimate
    credit: Estimate | None = None
    times_even: float | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain values; measures that need a model are left out without one."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def spreaders(
    histories: Histories, leaned: Floats | None = None, *, by: Measure = "followed", top: int = 20, seed: int = 0
) -> list[Spreader]:
    """Rank users by a measure.

    A user counts once per cascade, at their first event in it.

    Args:
        histories: cascades, one user per event.
        leaned: (events,) attributions that each event receives, from :func:`leaned_on`.
        by: the measure they are ordered by.
        top: how many, at most.
        seed: of the resamples.

    Raises:
        SettingError: ``top`` is below 1, or they are ordered by credit and no model said it.
    """
    require_k(top)
    if by == "credit" and leaned is None:
        raise SettingError(
            "credit needs the attention of a model: give one with --folder, or order by first or followed"
        )
    cascade = histories.sequence_index()
    shape = (int(histories.ids.max(initial=0)) + 1, max(len(histories), 1))

    position = np.arange(len(histories.ids)) - histories.offsets[cascade]
    # A (user, cascade) pair as one number.
    pair = histories.ids.astype(np.int64) * shape[1] + cascade
    pairs, first_events, pair_of = np.unique(pair, return_index=True, return_inverse=True)
    once = np.sort(first_events)  # each person's first event of each cascade
    people = np.bincount(cascade[once], minlength=shape[1])
    num_before = np.arange(len(once)) - (np.cumsum(people) - people)[cascade[once]]  # how many people came earlier
    # Pairs are sorted by person: those of one follow each other.
    stops = np.searchsorted(pairs, np.arange(shape[0] + 1) * shape[1])

    def table(amounts: Floats, events: Index) -> Floats:
        """Return the sum of the amounts of each (user, cascade) pair, (pairs,)."""
        return np.bincount(pair_of[events], amounts, len(pairs)).astype(np.float64)

    tables = {
        "first": table((position[once] == 0).astype(float), once),
        "followed": table((people[cascade[once]] - 1 - num_before).astype(float), once),
    }
    even = np.zeros(shape[0])
    if leaned is not None:
        tables["credit"] = table(leaned, np.arange(len(leaned)))
        np.add.at(even, histories.ids, _even(histories))
    totals = {name: np.bincount(pairs // shape[1], sums, shape[0]) for name, sums in tables.items()}
    num_cascades = np.bincount(histories.ids[once], minlength=shape[0])
    # By the measure, then by the number of cascades; lexsort takes the last key first.
    order = np.lexsort((-num_cascades, -totals[by]))[:top]
    random = np.random.default_rng(seed)
    ranking = []
    for person in order[num_cascades[order] > 0].tolist():
        own = slice(stops[person], stops[person + 1])
        estimates = {name: _estimate(sums[own], random) for name, sums in tables.items()}
        times = float(totals["credit"][person] / even[person]) if leaned is not None and even[person] else None
        value = histories.vocabulary.value(person)
        count = int(num_cascades[person])
        ranking.append(Spreader(value=value, cascades=count, times_even=times, **estimates))
    return ranking


def _even(histories: Histories) -> Floats:
    """Return what each event would receive if every later one attended to all earlier ones equally, (events,).

    Of a cascade of 4 events: 1 + 1/2 + 1/3, then 1/2 + 1/3, then 1/3, then 0.
    """
    longest = int(histories.lengths.max(initial=0))
    # An event at position p receives 1/(p+1) + ... + 1/(n-1): a difference of harmonic numbers.
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, max(longest, 1) + 1))])
    cascade = histories.sequence_index()
    position = np.arange(len(histories.ids)) - histories.offsets[cascade]
    return harmonic[histories.lengths[cascade] - 1] - harmonic[position]


def _estimate(amounts: Floats, random: np.random.Generator) -> Estimate:
    """Return a sum over cascades with its interval by a Poisson bootstrap: each cascade is drawn Poisson(1) times."""
    total = float(amounts.sum())
    if len(amounts) > MAX_RESAMPLED:
        # The standard deviation of a Poisson-weighted sum is the root of the sum of squares.
        spread = 1.96 * float(np.sqrt((amounts**2).sum()))
        return Estimate(total, max(0.0, total - spread), total + spread)
    draws = random.poisson(1.0, (RESAMPLES, len(amounts))) @ amounts if len(amounts) else np.zeros(RESAMPLES)
    low, high = np.percentile(draws, [2.5, 97.5]).tolist()
    return Estimate(total, low, high)


def leaned_on(predictor: NextPredictor, histories: Histories) -> Floats:
    """Return the attributions that each event receives; each event but a cascade's first gives 1 in all.

    Where the model's score is a sum over earlier events (HiDAN, Eqs. 9-10), shares are of what raised the score of the
    event that came; elsewhere they are the weights with which the model looked at them.

    Args:
        predictor: trained.
        histories: cascades in its vocabulary, without unknown values.

    Returns:
        (events,) floats.
    """
    histories = histories.select(histories.lengths > 0)  # none of their events goes
    read = _read(predictor, histories)
    windows = Windows(read, predictor.network.reach)
    received = np.zeros(len(read.ids))
    for index in windows.groups(GROUP):
        batch = windows.batch(index)
        shares = _shares(predictor, windows, index) * batch.target_mask[:, :, None]
        inside = batch.mask
        # (batch, time) positions of the events of each window; padding is dropped by the mask.
        event_index = (windows.starts[index][:, None] + np.arange(inside.shape[1]))[inside]
        received += np.bincount(event_index, shares.sum(1, dtype=np.float64)[inside], len(received))
    return np.delete(received, read.offsets[1:] - 1) if read is not histories else received


def _read(predictor: NextPredictor, histories: Histories) -> Histories:
    """Return the model's input, in which each event with earlier ones is a target step once.

    The weights after an event are what the next one leaned on. What raised the score of an event is known at itself:
    cascades get their last event once more, since what comes last is never read.
    """
    if not isinstance(predictor.network, Credits):
        return histories
    events = np.arange(len(histories.ids))
    # Repeat the last event of each cascade; offsets grow by one per cascade.
    repeated = np.insert(events, histories.offsets[1:], histories.offsets[1:] - 1)
    offsets = histories.offsets + np.arange(len(histories) + 1)
    return replace(histories, offsets=offsets, **histories.columns(repeated))


def _shares(predictor: NextPredictor, windows: Windows, index: Index) -> Scores:
    """Return the attributions to earlier events at each target step, (batch, time, earlier): rows sum to 1, or to 0."""
    network = predictor.network
    if isinstance(network, Credits):
        evaluating(predictor.network)
        with torch.no_grad():
            raised = network.credit(windows.batch(index).to(predictor.device)).float().cpu().numpy()
        # Only earlier events can have raised the score of an event.
        raised = np.tril(raised, -1)
    else:
        raised = np.tril(predictor.scores(windows, index)[0].weights[-1])
    raised = np.maximum(raised, 0)
    return raised / np.maximum(raised.sum(-1, keepdims=True), 1e-12)


def drawn_cascade(predictor: NextPredictor, histories: Histories) -> Explanation | None:
    """Return the attributions within the longest cascade of at most ``MAX_EXPLAINED`` events, or ``None``.

    Args:
        predictor: trained.
        histories: cascades in its vocabulary, without unknown values.
    """
    lengths = np.where(histories.lengths <= MAX_EXPLAINED, histories.lengths, 0)
    if lengths.max(initial=0) < 2:
        return None
    cascade = histories.select(np.array([int(lengths.argmax())]))
    windows = Windows(_read(predictor, cascade), None)
    shares = _shares(predictor, windows, np.arange(1))[0]
    size = len(cascade.ids)
    rows = np.zeros((size, size))
    if isinstance(predictor.network, Credits):
        rows += shares[:size, :size]
    else:  # weights after an event belong to the next event
        rows[1:, :-1] = shares
    record = cascade.record(0)
    return Explanation(record.values, record.times, tuple(map(tuple, rows.tolist())), (), Answer(()))
