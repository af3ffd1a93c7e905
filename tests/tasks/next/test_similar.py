"""Similar items and sessions: the numbers are those of loops over the vectors, or over the sessions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

import ensue
from ensue import DataError, History, SettingError
from tests.tasks.next.test_item_features import TABLE, sessions

LOG = [["a", "b", "c"], ["a", "b"], ["x", "y"], ["x", "y", "z"], ["b", "c"]] * 4


def cosine(first: list[float], second: list[float]) -> float:
    return math.fsum(one * two for one, two in zip(first, second, strict=True)) / (
        math.hypot(*first) * math.hypot(*second)
    )


def test_baselines_compare_items_by_how_often_they_come_together() -> None:
    model = ensue.NextEvent("markov").fit(LOG)
    together: defaultdict[tuple[str, str], float] = defaultdict(float)
    totals = Counter(item for session in LOG for item in session)
    for session in LOG:
        for later, item in enumerate(session):
            for earlier in range(later):
                together[session[earlier], item] += 1 / (later - earlier)
                together[item, session[earlier]] += 1 / (later - earlier)
    for item in totals:
        expected = {
            other: min(1.0, together[item, other] / math.sqrt(totals[item] * totals[other]))
            for other in totals
            if together[item, other]
        }
        (choices,) = model.similar([item])
        assert {choice.value: choice.score for choice in choices} == pytest.approx(expected, rel=1e-5)
        assert [choice.score for choice in choices] == sorted((choice.score for choice in choices), reverse=True)
    assert model.predictor_.similarity_source == "co-occurrence"


@pytest.mark.parametrize("name", ["core", "hidan", "blend", "bert4rec"])
def test_networks_compare_items_and_sessions_by_cosine(name: str) -> None:
    model = ensue.NextEvent(name, epochs=1).fit(LOG, progress=False)
    items = dict(model.vectors().select("id", "vector").iter_rows())
    assert set(items) == {"a", "b", "c", "x", "y", "z"}
    (choices,) = model.similar(["a"], k=9)
    assert {choice.value: choice.score for choice in choices} == pytest.approx(
        {item: cosine(items["a"], vector) for item, vector in items.items() if item != "a"}, abs=1e-5
    )
    among = [History(tuple(values), id=f"s{at}") for at, values in enumerate([["a", "b"], ["x", "y"], ["z"], ["new"]])]
    vectors = model.vectors([*among, History(("b", "c"))])["vector"].to_list()
    assert vectors[3] is None
    ((first, *rest),) = model.similar_sessions([["b", "c"]], among, k=9)
    assert {first.id, *(each.id for each in rest)} == {"s0", "s1", "s2"}
    for each in (first, *rest):
        assert each.score == pytest.approx(cosine(vectors[4], vectors[int(each.id[1])]), abs=1e-5)
        assert first.score >= each.score and each.values == among[int(each.id[1])].values
    # A session does not find itself, and one that the model knows nothing of finds nothing.
    (of_first, of_none) = model.similar_sessions([among[0], among[3]], among)
    assert "s0" not in {each.id for each in of_first} and not of_none
    # Without a log the model searches the sessions that it stores.
    ((stored, *_),) = model.similar_sessions([["x", "y"]])
    assert stored.score == pytest.approx(1, abs=1e-5) and stored.values == ("x", "y") and stored.id == ""


def test_rules_choose_among_the_similar_items(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(TABLE)
    model = ensue.NextEvent("core", dim=8, epochs=1, refit=False).fit(sessions(1, 60), items=tmp_path / "items.csv")
    (boats,) = model.similar(["tea1"], k=50, filters=['topic == "boat"'])
    assert boats and all(choice.value.startswith("boat") and choice.title for choice in boats)
    (allowed,) = model.similar(["tea1"], allow=["tea2", "tea3", "tea1"], exclude=["tea3"])
    assert [choice.value for choice in allowed] == ["tea2"]
    with pytest.raises(DataError, match="no column"):
        model.similar(["tea1"], filters=["colour == 1"])


def test_mistakes_have_one_line(tmp_path: Path) -> None:
    model = ensue.NextEvent("markov").fit([["item-one", "item-two"]] * 3)
    with pytest.raises(DataError, match=r"^'item-on' is not an item of the model; did you mean 'item-one'\?$"):
        model.similar(["item-on"])
    with pytest.raises(SettingError, match="k is 0"):
        model.similar(["item-one"], k=0)
    with pytest.raises(SettingError, match="markov has no vectors of sessions"):
        model.similar_sessions([["item-one"]])
    with pytest.raises(SettingError, match="markov has no vectors of items"):
        model.vectors()
    private = ensue.NextEvent("core", epochs=1, replay=0).fit(LOG, progress=False)
    with pytest.raises(SettingError, match="stores no sessions"):
        private.similar_sessions([["a"]])
    assert np.isfinite([choice.score for choice in private.similar(["a"])[0]]).all()
