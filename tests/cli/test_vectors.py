"""Vectors of the four tasks as frames and as Parquet, and one line where a model has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ensue import NextEvent, PostLinker, QuerySuggester, SettingError, TextClassifier
from tests.cli.conftest import Ensue

ARTICLES = {"ferry": "The ferry sails at ten.", "bus": "The bus stop moved to the bridge."}
POSTS = [
    ("the ferry again", ["ferry"]),
    ("a late bus", ["bus"]),
    ("ferry at ten", ["ferry"]),
    ("bus stop", ["bus"]),
] * 3
LOG = "session,item\n" + "".join(f"s{at},{item}\n" for at in range(12) for item in ("a", "b", f"c{at % 3}"))
SMALL: Any = {"dim": 8, "hidden": 8, "head": 8, "epochs": 1}
TEXTS = ["a good film", "a bad film", "good plot", "bad plot"] * 6


def matrix(frame: pl.DataFrame) -> Any:
    """(rows, width) of a frame, whose vectors are all there and finite."""
    assert frame.columns == ["id", "vector"] and frame["vector"].null_count() == 0
    numbers = frame["vector"].to_numpy()
    assert np.isfinite(numbers).all() and numbers.any(axis=1).all()
    return numbers


def test_a_classifier_gives_vectors_that_its_labels_depend_on() -> None:
    model = TextClassifier("centrality", **SMALL)
    model.fit(TEXTS, ["yes", "no"] * 12, progress=False)
    numbers = matrix(model.vectors(["a good film", "a bad film", "a good film", "x"]))
    np.testing.assert_allclose(numbers[0], numbers[2], atol=1e-6)
    assert not np.allclose(numbers[0], numbers[1], atol=1e-6)
    # The batch of a text changes nothing.
    np.testing.assert_allclose(matrix(model.vectors(["a bad film"]))[0], numbers[1], atol=1e-5)
    with pytest.raises(SettingError, match="models of task classify have no items; give the data"):
        model.vectors()


def test_texts_of_a_pair_have_one_vector() -> None:
    pairs = [(text, TEXTS[(at + 1) % 4]) for at, text in enumerate(TEXTS)]
    model = TextClassifier("centrality", **SMALL).fit(pairs, ["yes", "no"] * 12, progress=False)
    assert len(matrix(model.vectors(pairs[:3]))) == 3


@pytest.mark.parametrize("name", ["mtn", "seq2seq", "h-lstm"])
def test_a_suggester_gives_vectors_of_sessions(name: str) -> None:
    log = [["ferry", "ferry times"], ["bus", "bus stop"], ["ferry times", "ferry fares"]] * 6
    settings: Any = {"dim": 8, "epochs": 1, "min_users": 1, **({"heads": 2} if name == "mtn" else {})}
    model = QuerySuggester(name, **settings).fit(log, progress=False)
    frame = model.vectors([["ferry"], ["  FERRY "], ["bus"], [" "]])
    assert frame["id"].to_list() == ["1", "2", "3", "4"] and frame["vector"][3] is None
    numbers = matrix(frame.head(3))
    np.testing.assert_allclose(numbers[0], numbers[1], atol=1e-6)
    assert not np.allclose(numbers[0], numbers[2], atol=1e-6)


def test_a_linker_gives_unit_vectors_of_articles_and_posts() -> None:
    model = PostLinker("cnn", max_epochs=1).fit(POSTS, ARTICLES, progress=False)
    articles = model.vectors()
    assert sorted(articles["id"]) == ["bus", "ferry"]
    np.testing.assert_allclose(np.linalg.norm(matrix(articles), axis=1), 1, atol=1e-5)
    posts = model.vectors(["the ferry", ""])
    np.testing.assert_allclose(np.linalg.norm(matrix(posts.head(1)), axis=1), 1, atol=1e-5)
    assert posts["vector"][1] is None


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (lambda: TextClassifier("tfidf").fit(TEXTS, ["yes", "no"] * 12), ["a"], "tfidf has no vectors of texts"),
        (lambda: PostLinker("tfidf").fit(POSTS, ARTICLES), None, "tfidf has no vectors of articles"),
        (lambda: PostLinker("tfidf").fit(POSTS, ARTICLES), ["a"], "tfidf has no vectors of posts"),
        (
            lambda: QuerySuggester("popular").fit([["a", "b"]] * 6),
            [["a"]],
            "popular has no vectors of sessions",
        ),
        (lambda: QuerySuggester("popular").fit([["a", "b"]] * 6), None, "models of task suggest have no items"),
    ],
)
def test_what_has_no_vectors_says_so(model: Any, data: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        model().vectors(data)


def test_the_command_writes_parquet(ensue: Ensue, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "session,item\n" + "".join(f"s{at},{item}\n" for at in range(12) for item in ("a", "b", f"c{at % 3}"))
    )
    folder, items, sessions = tmp_path / "m", tmp_path / "items.parquet", tmp_path / "sessions.parquet"
    assert ensue("fit", "next", log, "-o", folder, "--model", "core", "--set", "dim=8", "--set", "epochs=1").code == 0
    ran = ensue("vectors", folder, "-o", items)
    assert ran.err == f"wrote {items}: 5 rows\n" and ran.out == ""
    frame = pl.read_parquet(items)
    assert frame.schema == {"id": pl.String, "vector": pl.Array(pl.Float32, 8)}
    assert sorted(frame["id"]) == ["a", "b", "c0", "c1", "c2"]
    metadata = pl.read_parquet_metadata(items)
    assert {name: metadata[name] for name in ("task", "model", "rows")} == {
        "task": "next",
        "model": "core",
        "rows": "items",
    }
    assert ensue("vectors", folder, log, "-o", sessions).code == 0
    of_model = NextEvent.load(folder).vectors(log)
    assert pl.read_parquet(sessions).equals(of_model) and of_model["id"][0] == "s0"
    first = items.read_bytes()
    ensue("vectors", folder, "-o", items)
    assert items.read_bytes() == first
    assert "must end in .parquet" in ensue("vectors", folder, "-o", tmp_path / "x.csv").err
    assert "is read too" in ensue("vectors", folder, sessions, "-o", sessions).err


def test_the_command_lists_similar_items_and_sessions(ensue: Ensue, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "session,item\n" + "".join(f"s{at},{item}\n" for at in range(12) for item in ("a", "b", f"c{at % 3}"))
    )
    counted, trained = tmp_path / "counted", tmp_path / "trained"
    ensue("fit", "next", log, "-o", counted, "--model", "markov")
    ensue("fit", "next", log, "-o", trained, "--model", "core", "--set", "dim=8", "--set", "epochs=1")
    lines = [json.loads(line) for line in ensue("similar", counted, "a", "c1", "-k", "2", "--json").out.splitlines()]
    assert [line["id"] for line in lines] == ["a", "c1"] and lines[0]["choices"][0]["value"] == "b"
    ran = ensue("similar", counted, "a", "c1", "-k", "2")
    assert ran.err.splitlines()[-1] == "compared by co-occurrence" and ran.out.splitlines()[0] == "a"
    (tmp_path / "only.txt").write_text("c0\n")
    allowed = json.loads(ensue("similar", counted, "a", "--allow", tmp_path / "only.txt", "--json").out)
    assert [choice["value"] for choice in allowed["choices"]] == ["c0"]
    asked = tmp_path / "asked.csv"
    asked.write_text("session,item\nq,a\nq,b\n")
    found = json.loads(ensue("similar", trained, "--sessions", asked, "--among", log, "-k", "3", "--json").out)
    assert found["id"] == "q" and len(found["sessions"]) == 3 and found["sessions"][0]["id"].startswith("s")
    shown = ensue("similar", trained, "--sessions", asked, "-k", "2")
    assert shown.code == 0 and "session" in shown.out
    for arguments, words in (
        ((counted, "aa"), "'aa' is not an item of the model"),
        ((counted,), "give the ids of items, or --sessions FILE"),
        ((counted, "a", "--sessions", asked), "give the ids of items, or --sessions FILE"),
        ((counted, "--sessions", asked), "markov has no vectors of sessions"),
        ((trained, "a", "--among", log), "--among belongs to --sessions"),
        ((trained, "--sessions", asked, "--filter", "x < 1"), "--filter"),
        ((trained, "a", "--filter", "x < 1"), "has no item table"),
    ):
        ran = ensue("similar", *arguments)
        assert ran.code == 2 and words in ran.err and ran.err.count("ensue: ") == 1, ran.err
