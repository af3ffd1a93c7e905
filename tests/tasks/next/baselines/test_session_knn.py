"""VS-kNN: by hand, against the literal search, in halves and parts, and what it forgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ensue import History, SettingError
from ensue.data.histories import Histories
from ensue.nn.item_head import Output
from ensue.store.pack import pack
from ensue.tasks.next.baselines.session_knn import VSKNN, decayed
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.settings import VSKNNSettings
from ensue.vocabulary import FIRST, Vocabulary
from tests.kernels.paths import on_both_paths
from tests.oracles.sessions import vsknn_scores
from tests.tasks.next.batches import scored

pytestmark = on_both_paths

# CascadeStore sessions, the latest last. Sessions that hold a: 2, b: 3, c: 2, d: 1, of 4.
PAST = Histories.of([History(tuple(values)) for values in ("ab", "bc", "acb", "d")])
PLAIN = VSKNNSettings(idf=0.0, popularity=1e-9)


def counted(settings: VSKNNSettings, data: Histories) -> VSKNN:
    model = VSKNN(settings, len(data.vocabulary))
    model.count(data)
    return model


def said(model: VSKNN, histories: Histories, *, last_only: bool = True) -> Output:
    windows = Windows(histories, model.reach, last_only=last_only)
    return scored(model, windows.batch(np.arange(len(windows))))


def shares_after(settings: VSKNNSettings, *values: str) -> list[float]:
    """What a, b, c and d get after one session, before the logarithm."""
    scores = said(counted(settings, PAST), Histories.of([History(values)], PAST.vocabulary)).scores
    assert (scores[0, :FIRST] == -torch.inf).all()
    order = [PAST.vocabulary.id(value) for value in "abcd"]
    found: list[float] = scores[0, order].exp().tolist()
    return found


def random_data(seed: int, num: int = 40, values: int = 15) -> Histories:
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 14, num)
    ids = (random.integers(0, values, lengths.sum()) ** 2 // values + FIRST).astype(np.int32)
    return Histories(ids, np.concatenate([[0], lengths.cumsum()]), Vocabulary(map(str, range(values))))


def lists(data: Histories) -> list[list[int]]:
    return [data.ids[low:high].tolist() for low, high in zip(data.offsets[:-1], data.offsets[1:], strict=True)]


def test_by_hand() -> None:
    # After a, b: b weighs 1, a 1/2. Similar: ab 3/2, bc 1, acb 3/2; all share b, the latest click, which weighs 1.
    # a: 3/2 + 3/2 = 3; b: 3/2 + 1 + 3/2 = 4; c: 1 + 3/2 = 5/2; together 19/2.
    assert shares_after(PLAIN, "a", "b") == pytest.approx([6 / 19, 8 / 19, 5 / 19, 0], abs=1e-6)
    # After d, a: nobody shares both. d 1/2 x 1/2, for d lies one step back; ab and acb 1 each. a 2, b 2, c 1, d 1/4.
    assert shares_after(PLAIN, "d", "a") == pytest.approx([8 / 21, 8 / 21, 4 / 21, 1 / 21], abs=1e-6)


def test_an_item_that_comes_twice_counts_once_at_its_latest_place() -> None:
    assert shares_after(PLAIN, "a", "b", "a") == shares_after(PLAIN, "b", "a")


def test_the_most_recent_sessions_are_sampled_and_the_most_similar_stay() -> None:
    # After a, b two of the three sessions are sampled: bc 1 and acb 3/2. a 3/2, b 5/2, c 5/2.
    assert shares_after(VSKNNSettings(idf=0, popularity=1e-9, sample=2), "a", "b") == pytest.approx(
        [3 / 13, 5 / 13, 5 / 13, 0], abs=1e-6
    )
    # One neighbour: ab and acb are as similar, acb is more recent.
    assert shares_after(VSKNNSettings(idf=0, popularity=1e-9, neighbours=1), "a", "b") == pytest.approx(
        [1 / 3, 1 / 3, 1 / 3, 0], abs=1e-6
    )


def test_rare_items_gain_and_popularity_fills_the_rest() -> None:
    # After d: d alone, and popularity a 2/8, b 3/8, c 2/8, d 1/8, a tenth of it.
    assert shares_after(VSKNNSettings(popularity=0.1), "d") == pytest.approx([0.025, 0.0375, 0.025, 1.0125])
    # After c: bc and acb 1 each. a 1 x (1 + ln(4/2)), b 2 x (1 + ln(4/3)), c 2 x (1 + ln(4/2)).
    gains = np.array([1 + np.log(2), 2 * (1 + np.log(4 / 3)), 2 * (1 + np.log(2)), 0])
    assert shares_after(VSKNNSettings(popularity=1e-9), "c") == pytest.approx(gains / gains.sum(), abs=1e-6)


def test_the_weights_are_what_each_click_brought() -> None:
    # After a, b with all as neighbours: b is met three times at 1, a twice at 1/2: 3/4 and 1/4.
    (weights,) = said(counted(PLAIN, PAST), Histories.of([History(("a", "b"))], PAST.vocabulary)).weights
    torch.testing.assert_close(weights, torch.tensor([[[0.0, 0.0], [0.25, 0.75]]]))


def test_decays_by_hand() -> None:
    assert decayed("linear", 12).tolist() == pytest.approx([1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0])
    assert decayed("reciprocal", 3).tolist() == pytest.approx([1, 1 / 2, 1 / 3])
    assert decayed("quadratic", 3).tolist() == pytest.approx([1, 1 / 4, 1 / 9])


@pytest.mark.parametrize(
    "settings",
    [
        VSKNNSettings(),
        VSKNNSettings(decay="linear", window=12, idf=0.0),
        VSKNNSettings(decay="quadratic", window=3, idf=5.0, popularity=0.5),
        VSKNNSettings(sample=6, neighbours=3),
        VSKNNSettings(sample=1, neighbours=1, window=1),
    ],
)
def test_equals_the_literal_search(settings: VSKNNSettings) -> None:
    train, test = random_data(1), random_data(2, 12)
    model = counted(settings, train)
    scores = said(model, test, last_only=False).scores.exp()
    prefixes = [ids[: step + 1] for ids in lists(test) for step in range(len(ids) - 1)]
    assert len(scores) == len(prefixes) > 50
    for row, prefix in zip(scores, prefixes, strict=True):
        expected = torch.tensor(vsknn_scores(settings, lists(train), prefix, len(train.vocabulary)))
        torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-6)


def test_what_comes_later_changes_nothing() -> None:
    data, model = random_data(3), counted(VSKNNSettings(), random_data(1))
    lengths = data.lengths
    before = said(model, data, last_only=False).scores
    changed = data.ids.copy()
    ends = data.offsets[1:][lengths > 0] - 1
    changed[ends] = FIRST  # the last event is no question's past
    after = said(model, Histories(changed, data.offsets, data.vocabulary), last_only=False).scores
    assert torch.equal(before, after)


def test_padding_is_invisible() -> None:
    data, model = random_data(4, 10), counted(VSKNNSettings(), random_data(1))
    data = data.select(data.lengths > 0)
    together = said(model, data)
    for row in range(len(data)):
        alone = said(model, data.select(slice(row, row + 1)))
        torch.testing.assert_close(together.scores[row], alone.scores[0])
        size = alone.weights[0].shape[1]
        torch.testing.assert_close(together.weights[0][row, :size, :size], alone.weights[0][0])


@pytest.mark.parametrize("sample", [3, 1000])
def test_halves_add_up(sample: int) -> None:
    data, settings = random_data(5, 60), VSKNNSettings(sample=sample)
    once, twice = counted(settings, data), counted(settings, data.select(slice(25)))
    said(twice, data)  # what was looked up in the first half must not survive
    twice.count(data.select(slice(25, None)))
    (tree, tables), (expected_tree, expected) = pack(twice), pack(once)
    assert tree == expected_tree and all(np.array_equal(tables[name], expected[name]) for name in expected)
    assert torch.equal(said(twice, data).scores, said(once, data).scores)


def test_memory_is_bounded_by_the_catalogue() -> None:
    """Sessions that no item looks up any more are forgotten, however long the log; answers stay the same."""
    model = VSKNN(VSKNNSettings(sample=2), 17)
    parts = [random_data(seed, 200) for seed in range(5)]
    for part in parts:
        model.count(part)
    assert len(model.starts) - 1 <= 2 * 15 < model.num_sessions
    past = [ids for part in parts for ids in lists(part)]
    row = said(model, parts[0].select(slice(2, 3))).scores[0].exp()
    expected = vsknn_scores(model.settings, past, lists(parts[0])[2], 17)
    torch.testing.assert_close(row, torch.tensor(expected), rtol=1e-4, atol=1e-6)


def test_growing_keeps_the_sessions_and_makes_room() -> None:
    old = counted(PLAIN, PAST)
    wider = Vocabulary([*PAST.vocabulary.values, "e"])
    grown = old.grow(len(wider))
    question = Histories.of([History(("a", "b"))], wider)
    torch.testing.assert_close(said(grown, question).scores[:, :-1], said(old, question).scores)
    grown.count(Histories.of([History(("b", "e"))], wider))
    assert said(grown, question).scores[0, -1] > said(grown, question).scores[0, wider.id("d")]
    assert len(old.totals) == 6 and old.num_sessions == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample": 0}, "sample is 0; it must be at least 1"),
        ({"window": 0}, "window is 0; it must be at least 1"),
        ({"neighbours": -1}, "neighbours is -1; it must be at least 1"),
        ({"decay": "log"}, "decay 'log' is not known; choose from linear, reciprocal, quadratic"),
        ({"popularity": 0.0}, "popularity is 0.0; it must be above 0"),
    ],
)
def test_refused_settings(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        VSKNNSettings(**changes)
    assert str(error.value) == message
