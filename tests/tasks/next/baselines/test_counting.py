"""The counting predictors: by hand, against the literal formula, in halves, on both paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue import History, SettingError
from ensue.data.histories import Histories
from ensue.nn.item_head import Output
from ensue.store.pack import pack
from ensue.tasks.next.baselines import counting
from ensue.tasks.next.baselines.counting import Cooccurrence, Markov, Popularity
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.settings import CountingSettings
from ensue.vocabulary import FIRST, Vocabulary
from tests.oracles import measures as oracles
from tests.tasks.next.batches import scored

EASY = CountingSettings(window=2, power=1.0, popularity=0.1)
# Events: a 2, b 4, c 2 of 8.
# Neighbours: a->b 2, b->c 2, c->b 1. Two apart, at 1/2 each: a->c (first history), b->b (third).
TINY = Histories.of([History(("a", "b", "c")), History(("a", "b")), History(("b", "c", "b"))])


def said(model: Popularity, histories: Histories, *, last_only: bool = True) -> Output:
    windows = Windows(histories, model.reach, last_only=last_only)
    return scored(model, windows.batch(np.arange(len(windows))))


def weights_after(model: Popularity, *values: str) -> list[float]:
    """The weights of a, b and c after one history."""
    scores = said(model, Histories.of([History(values)], TINY.vocabulary)).scores
    assert (scores[0, :FIRST] == -torch.inf).all()
    found: list[float] = scores[0, FIRST:].exp().tolist()
    return found


def counted(kind: type[Popularity], settings: CountingSettings = EASY, data: Histories = TINY) -> Any:
    model = kind(settings, len(data.vocabulary))
    model.count(data)
    return model


def test_popularity_by_hand() -> None:
    model = counted(Popularity)
    assert model.totals.tolist() == [0, 0, 2, 4, 2]
    for history in (("a",), ("c", "b")):
        assert weights_after(model, *history) == pytest.approx([0.25, 0.5, 0.25])
    assert said(model, TINY).weights[0].sum() == 0  # nothing is attributions


def test_markov_by_hand() -> None:
    model = counted(Markov)
    assert (model.gap, model.reach) == (1, 0)
    # After b: c followed 2 of 2 times; a tenth of the popularity on top.
    assert weights_after(model, "a", "b") == pytest.approx([0.025, 0.05, 2 / 2 + 0.025])
    assert weights_after(model, "c") == pytest.approx([0.025, 1 / 1 + 0.05, 0.025])
    half = counted(Markov, CountingSettings(power=0.5, popularity=0.1))
    assert weights_after(half, "b") == pytest.approx([0.025, 0.05, 2 / 2**0.5 + 0.025])


def test_markov_falls_back_on_popularity() -> None:
    # Nothing ever followed c: a tenth of the shares 1/4, 2/4, 1/4.
    model = counted(Markov, data=Histories.of([History(("a", "b", "b")), History(("c",))]))
    assert weights_after(model, "c") == pytest.approx([0.025, 0.05, 0.025])


def test_cooccurrence_by_hand() -> None:
    model = counted(Cooccurrence)
    assert (model.gap, model.reach) == (2, 1)
    assert model.row_totals().tolist() == [0, 0, 2.5, 2.5, 1]
    # After a, b. From b, at gap 1: c 2/2.5 = 0.8, b 0.5/2.5 = 0.2.
    # From a, at gap 2: b 2/2.5/2 = 0.4, c 0.5/2.5/2 = 0.1.
    assert weights_after(model, "a", "b") == pytest.approx([0.025, 0.2 + 0.4 + 0.05, 0.8 + 0.1 + 0.025])
    # A third event back is outside the window of 2.
    assert weights_after(model, "c", "a", "b") == pytest.approx(weights_after(model, "a", "b"))
    # The same value twice counts twice: after b, b c 0.8 + 0.4, b 0.2 + 0.1.
    assert weights_after(model, "b", "b") == pytest.approx([0.025, 0.3 + 0.05, 1.2 + 0.025])


def test_shares_by_hand() -> None:
    # Counted mass after a, b: from b (2 + 0.5) / 2.5 / 1 = 1, from a (2 + 0.5) / 2.5 / 2 = 1/2.
    (shares,) = said(counted(Cooccurrence), Histories.of([History(("a", "b"))], TINY.vocabulary)).weights
    torch.testing.assert_close(shares, torch.tensor([[[1.0, 0.0], [1 / 3, 2 / 3]]]))


def random_data(seed: int, num: int = 40, values: int = 15) -> Histories:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 12, num)
    ids = (random.integers(0, values, lengths.sum()) ** 2 // values + FIRST).astype(np.int32)
    return Histories(ids, np.concatenate([[0], lengths.cumsum()]), Vocabulary(map(str, range(values))))


@pytest.mark.parametrize("dense", [0, 4096])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Popularity, CountingSettings()),
        (Markov, CountingSettings()),
        (Cooccurrence, CountingSettings()),
        (Cooccurrence, CountingSettings(window=3, power=0.4, popularity=1.5)),
        (Cooccurrence, CountingSettings(window=1, power=0.0)),
    ],
)
def test_equals_the_literal_formula(
    kind: type[Popularity], settings: CountingSettings, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MAX_DENSE_IDS", dense)
    train, test = random_data(1), random_data(2, 12)
    model = counted(kind, settings, train)
    lists = [train.ids[low:high].tolist() for low, high in zip(train.offsets[:-1], train.offsets[1:], strict=True)]
    windows = Windows(test, None)
    scores = scored(model, windows.batch(np.arange(len(windows)))).scores.exp()
    positions = windows.positions(np.arange(len(windows)))
    owners = test.sequence_index()
    for row, at in zip(scores, positions.tolist(), strict=True):
        prefix = test.ids[test.offsets[owners[at]] : at + 1].tolist()
        gap = getattr(model, "gap", 0)
        expected = torch.tensor(oracles.counting_scores(settings, gap, lists, prefix, len(train.vocabulary)))
        torch.testing.assert_close(row, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [Popularity, Markov, Cooccurrence])
def test_pieces_of_its_reach_give_the_scores_of_the_whole(kind: type[Popularity]) -> None:
    data = random_data(3)
    model = counted(kind, CountingSettings(window=4), data)
    whole, cut = Windows(data, None, last_only=True), Windows(data, model.reach, last_only=True)
    scores = [scored(model, windows.batch(np.arange(len(windows)))).scores for windows in (whole, cut)]
    torch.testing.assert_close(scores[1], scores[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [Popularity, Markov, Cooccurrence])
def test_halves_add_up(kind: type[Popularity]) -> None:
    data = random_data(4)
    once, twice = counted(kind, data=data), counted(kind, data=data.select(slice(15)))
    said(twice, data)  # neither row totals nor the table of the first half may survive
    twice.count(data.select(slice(15, None)))
    (_, tables), (_, expected) = pack(twice), pack(once)
    torch.testing.assert_close(tables, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(said(twice, data).scores, said(once, data).scores, rtol=1e-5, atol=1e-6)


def test_keep_keeps_the_most_counted() -> None:
    # After a: b 3 times, c 2, d 1, e 1. The two most counted stay; of equals the one with the lower id would.
    data = Histories.of([History(("a", value)) for value in "dbcebcb"])
    for keep, kept in ((1, "b"), (2, "bc"), (3, "bcd"), (9, "bcde")):
        model = counted(Markov, CountingSettings(keep=keep), data)
        low, high = model.rows[data.vocabulary.id("a")], model.rows[data.vocabulary.id("a") + 1]
        assert sorted(data.vocabulary.value(id) for id in model.columns[low:high].tolist()) == sorted(kept)
        assert model.row_totals()[data.vocabulary.id("a")] == {"b": 3, "bc": 5, "bcd": 6, "bcde": 7}[kept]


@pytest.mark.parametrize("kind", [Popularity, Markov, Cooccurrence])
def test_growing_keeps_the_counts_and_makes_room(kind: type[Popularity]) -> None:
    old = counted(kind)
    grown = old.grow(7)
    assert grown.totals.tolist() == [0, 0, 2, 4, 2, 0, 0]
    torch.testing.assert_close(said(grown, TINY).scores[:, :5], said(old, TINY).scores)
    assert (said(grown, TINY).scores[:, 5:] == -torch.inf).all()
    wider = Vocabulary([*TINY.vocabulary.values, "d", "e"])
    grown.count(Histories.of([History(("b", "e"))], wider))
    assert grown.totals.tolist() == [0, 0, 2, 5, 2, 0, 1]
    scores: Tensor = said(grown, Histories.of([History(("b",))], wider)).scores[0]
    assert torch.isfinite(scores[6]) and scores[5] == -torch.inf


@pytest.mark.parametrize("kind", [Popularity, Markov, Cooccurrence])
def test_padding_is_invisible(kind: type[Popularity]) -> None:
    model = counted(kind)
    together = said(model, TINY)
    for row in range(3):
        alone = said(model, TINY.select(slice(row, row + 1)))
        torch.testing.assert_close(together.scores[row], alone.scores[0])
        size = alone.weights[0].shape[1]
        torch.testing.assert_close(together.weights[0][row, :size, :size], alone.weights[0][0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 0}, "window is 0; it must be at least 1"),
        ({"keep": 0}, "keep is 0; it must be at least 1"),
        ({"popularity": 0.0}, "popularity is 0.0; it must be above 0"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        CountingSettings(**changes)
    assert str(error.value) == message
