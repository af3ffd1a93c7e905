"""Echoes: the sum over past cascades, as written, whatever the batch."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
import torch

from ensue.data.histories import Histories
from ensue.next_event.batch import Batch
from ensue.next_event.counting import Cooccurrence, CountingSettings
from ensue.next_event.echoes import DAY, FAR, Echoes
from ensue.next_event.task import Pieces
from ensue.records import History
from ensue.vocabulary import Vocabulary

VALUES = "abcdefgh"
WINDOW = 4


def cascades(num: int, seed: int) -> list[History]:
    random = np.random.default_rng(seed)
    found = []
    for length in random.integers(2, 8, num).tolist():
        times = np.sort(1e9 + random.uniform(0, 40 * DAY, length))
        found.append(History(tuple(random.permutation(list(VALUES))[:length].tolist()), tuple(times.tolist())))
    return found


PAST, ASKED = cascades(12, 0), cascades(5, 1)


def memory(days: float, steep: float = 1.0, back: float = 0.0, **options: int) -> tuple[Echoes, Vocabulary]:
    vocabulary = Vocabulary(VALUES)
    made = Echoes(len(vocabulary), window=WINDOW, **options)
    made.count(Histories.of(PAST[:7], vocabulary))
    made.count(Histories.of(PAST[7:], vocabulary))
    made.days.fill_(days)
    made.steep.fill_(steep)
    made.back.fill_(back)
    return made, vocabulary


def beside(past: History, user: str, steep: float, back: float) -> list[tuple[str, float]]:
    """Whom a past cascade holds beside a user, and what that weighs."""
    place, found = past.values.index(user), []
    for at, value in enumerate(past.values):
        if 0 < abs(at - place) <= WINDOW:
            found.append((value, (1.0 if at > place else back) / abs(at - place) ** steep))
    return found


def said(history: History, step: int, days: float, steep: float, back: float) -> tuple[dict[str, float], list[float]]:
    """M after ``step``, and how much of it each event says, word by word from the module's formula."""
    found: defaultdict[str, float] = defaultdict(float)
    by_event = [0.0] * len(history.values)
    for event in range(max(0, step - WINDOW + 1), step + 1):
        user, when = history.values[event], history.times[event]
        holders = [past for past in PAST if user in past.values]
        total = sum(weight for past in holders for _, weight in beside(past, user, steep, back))
        for past in holders:
            apart = abs(when - past.times[past.values.index(user)])
            near = FAR + math.exp(-apart / (DAY * days)) if days else 1.0
            for value, weight in beside(past, user, steep, back):
                part = near * weight / total**0.7 / (step - event + 1) ** steep
                found[value] += part
                by_event[event] += part
    return found, by_event


@pytest.mark.parametrize("shape", [(0.0, 1.0, 0.0), (3.0, 1.0, 0.0), (3.0, 0.5, 0.3)])
def test_is_the_sum_over_past_cascades(shape: tuple[float, float, float]) -> None:
    model, vocabulary = memory(*shape)
    batch = Pieces(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    candidates, scores, shares = model.hear(batch)
    names = [vocabulary.value(int(id)) for id in candidates]
    for number, (row, step) in enumerate(batch.asked.nonzero().tolist()):
        expected, by_event = said(ASKED[row], step, *shape)
        found = {name: value for name, value in zip(names, scores[number].tolist(), strict=True) if value}
        assert found == pytest.approx({name: value for name, value in expected.items() if value}, rel=1e-5)
        whole = sum(by_event) or 1.0
        own = shares[row, step].tolist()[: len(by_event)] + [0.0] * (len(by_event) - shares.shape[2])
        assert own == pytest.approx([part / whole for part in by_event], abs=1e-6)


def test_without_days_it_is_cooccurrence() -> None:
    model, vocabulary = memory(0.0)
    counts = Cooccurrence(CountingSettings(window=WINDOW, popularity=1e-9), len(vocabulary))
    counts.count(Histories.of(PAST, vocabulary))
    batch = Pieces(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    candidates, scores, _ = model.hear(batch)
    torch.testing.assert_close(scores, counts(batch).scores.exp()[:, candidates], rtol=1e-4, atol=1e-6)


def test_one_record_is_heard_as_among_others() -> None:
    model, vocabulary = memory(3.0)
    whole = Pieces(Histories.of(ASKED, vocabulary), 6, last_only=True)
    candidates, scores, _ = model.hear(whole.batch(np.arange(len(ASKED))))
    for row in range(len(ASKED)):
        own, alone, _ = model.hear(whole.batch(np.array([row])))
        full = torch.zeros(2, len(vocabulary))
        full[0, candidates], full[1, own] = scores[row], alone[0]
        torch.testing.assert_close(full[0], full[1])


def test_a_user_is_looked_up_in_the_latest_cascades_alone() -> None:
    whole, vocabulary = memory(0.0)
    few, _ = memory(0.0, keep=1)
    latest = next(past for past in reversed(PAST) if "a" in past.values[:-1])
    question = Histories.of([History(("a",), (1e9,))], vocabulary)
    batch = Pieces(question, 6, last_only=True).batch(np.arange(1))
    if "a" in PAST[-1].values[-1:]:
        assert few.hear(batch)[0].numel() == 0
        return
    place = latest.values.index("a")
    heard = {vocabulary.value(int(id)) for id in few.hear(batch)[0]}
    assert heard == set(latest.values[place + 1 : place + 1 + WINDOW])
    assert heard < {vocabulary.value(int(id)) for id in whole.hear(batch)[0]}


def test_grows_and_says_the_same() -> None:
    model, vocabulary = memory(3.0, 0.7, 0.1)
    batch = Pieces(Histories.of(ASKED, vocabulary), 6).batch(np.arange(len(ASKED)))
    before, after = model.hear(batch), model.grow(len(vocabulary) + 3).hear(batch)
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old, new)


def test_nobody_known_says_nothing() -> None:
    model = Echoes(6)
    batch = Batch(
        torch.tensor([[2, 3]]),
        torch.ones(1, 2, dtype=torch.bool),
        torch.zeros(1, 2, dtype=torch.float64),
        torch.ones(1, 2, dtype=torch.bool),
        torch.empty(0, dtype=torch.int64),
    )
    candidates, scores, shares = model.hear(batch)
    assert candidates.numel() == 0 and scores.shape == (2, 0) and float(shares.sum()) == 0
