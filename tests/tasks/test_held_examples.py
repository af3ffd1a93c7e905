"""Held-out records in the folder: few, short, of the held-out part alone, and none where nobody is to be kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ensue import History, Post, Text
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Posts
from ensue.data.queries import read_queries
from ensue.data.texts import Texts
from ensue.learning.life import CHARACTERS, EVENTS, of_history, of_texts
from ensue.predictor import AnyPredictor, load, make
from tests.serve.conftest import corpus, sessions, texts

SMALL: dict[str, Any] = {"dim": 8, "epochs": 1, "negatives": 8}


def fitted(task: str, model: str, data: Any, valid: Any = None, *, keeps: bool = True, **settings: object) -> Any:
    """Trained as `ensue fit` does, or as Python does."""
    predictor: AnyPredictor = make(task, model, settings=settings, device="cpu")
    predictor.keeps_examples = keeps
    for _ in predictor.fit(data, valid):
        pass
    return predictor


def test_a_history_without_its_last_event() -> None:
    record = History(tuple(map(str, range(EVENTS + 5))), tuple(map(float, range(EVENTS + 5))), "ann")
    found = of_history(record)
    asked: dict[str, Any] = {"values": [*record.values[4:-1]], "times": [*record.times[4:-1]]}
    assert found == {"record": asked, "truth": [record.values[-1]]} and len(asked["values"]) == EVENTS
    assert of_history(History(("a",))) is None


def test_texts_that_are_long_or_empty_are_passed_over() -> None:
    assert of_texts({"text": "a"}, ["a"], ("x", "y")) == {"record": {"text": "a"}, "truth": ["x", "y"]}
    assert of_texts({}, ["a" * CHARACTERS, "b"], ()) is of_texts({}, [" "], ()) is None


def test_of_next_they_are_given_validation_data_and_stay_through_updates(tmp_path: Path) -> None:
    valid = [History(("v1", "v2", f"held{at}"), id=f"name{at}") for at in range(40)]
    own = fitted("next", "core", Histories.of(sessions()), Histories.of(valid), **SMALL, refit=False)
    kept = own.metadata.examples
    assert kept["learned"] is False
    assert [one["record"] for one in kept["held_out"]] == [{"values": ["v1", "v2"]}] * 6
    truths = [one["truth"][0] for one in kept["held_out"]]
    assert len(set(truths)) == 6 and set(truths) <= {f"held{at}" for at in range(40)}
    own.save(tmp_path / "next", own.card())
    assert "name1" not in (tmp_path / "next" / "settings.json").read_text()
    assert "held-out records, verbatim" in (tmp_path / "next" / "CARD.md").read_text()
    again = load(tmp_path / "next")
    again.update(Histories.of(sessions(20)))
    assert again.metadata.examples == kept


@pytest.mark.parametrize(
    ("model", "keeps", "settings"),
    [("core", False, SMALL), ("core", True, {**SMALL, "replay": 0}), ("markov", True, {})],
    ids=["by Python, unless told to", "nothing of a single history", "nothing is held out"],
)
def test_of_next_none_are_kept(model: str, keeps: bool, settings: dict[str, object]) -> None:
    own = fitted("next", model, Histories.of(sessions()), keeps=keeps, **settings)
    assert own.metadata.examples is None and "examples" not in own.summary()["facts"]
    assert "word for word" not in own.card()


def test_what_was_held_out_is_learned_in_the_end_and_that_is_said() -> None:
    data = [History((*record.values, f"last{at}")) for at, record in enumerate(sessions(100))]
    kept = fitted("next", "core", Histories.of([History(one.values) for one in data]), **SMALL).metadata.examples
    assert kept["learned"] is True  # the last tenth, as the files stand
    assert {one["truth"][0] for one in kept["held_out"]} <= {f"last{at}" for at in range(90, 100)}


def test_of_suggest_only_what_enough_people_typed(tmp_path: Path) -> None:
    asked = [("cheap flights", "flights to rome"), ("rome hotels", "cheap hotels")]
    rows = [
        {"user": f"u{user}", "query": query, "time": 1_700_000_000 + 100_000 * at + 60 * place + user}
        for user in range(8)
        for at, pair in enumerate([("cheap flights", f"secret plan {user}"), *asked])
        for place, query in enumerate(pair)
    ]
    log = tmp_path / "queries.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    own = fitted("suggest", "mtn", read_queries(log)[0], dim=8, heads=2, epochs=1, min_count=1)
    kept = own.metadata.examples
    assert kept["held_out"]
    assert all({*one["record"]["values"], *one["truth"]} <= own.floor.queries for one in kept["held_out"])
    assert "secret" not in json.dumps(own.summary())


def test_of_texts_and_posts_with_their_truth() -> None:
    small: dict[str, Any] = {"hidden": 8, "dim": 8, "head": 8, "epochs": 1}
    labelled = Texts.of(texts())
    valid = Texts.of([Text((f"a good held film {at}",), "yes") for at in range(8)])
    kept = fitted("classify", "centrality", labelled, valid, **small).metadata.examples
    assert not kept["learned"] and len(kept["held_out"]) == 6
    assert all("held" in one["record"]["texts"][0] and one["truth"] == ["yes"] for one in kept["held_out"])
    assert fitted("classify", "centrality", labelled, valid, **small, remembered=0).metadata.examples is None
    data = corpus()
    held = Corpus(data.articles, Posts.of([Post(f"harbour tide night {at}", f"p{at}", ("ferry",)) for at in range(3)]))
    kept = fitted("link", "best", data, held).metadata.examples
    assert kept["learned"] is True
    assert kept["held_out"][0] == {"record": {"text": "harbour tide night 0"}, "truth": ["ferry"]}
