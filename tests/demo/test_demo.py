from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ensue import History, Post, Text
from ensue.data.edges import read_edges
from ensue.data.posts.corpus import read_corpus
from ensue.data.queries import read_queries
from ensue.data.sequences import read
from ensue.data.texts import read_texts
from ensue.demo.models import PANELS, expected_reciprocal
from ensue.demo.scenario import story_of, write_logs, write_story
from ensue.predictor import load
from tests.demo.small_demo import small_demo


def test_the_rank_of_one_who_knows_the_truth() -> None:
    # b and c are even, after a: b is second or third, (1/2 + 1/3) / 2 = 5/12.
    chances = {"a": 0.5, "b": 0.2, "c": 0.2, "d": 0.0}
    assert expected_reciprocal(chances, "a") == 1
    assert expected_reciprocal(chances, "b") == pytest.approx(5 / 12)
    assert expected_reciprocal(chances, "d") == expected_reciprocal(chances, "e") == 0


def test_every_question_has_a_row_with_a_baseline_and_a_ceiling() -> None:
    found = small_demo()
    assert [row.name for row in found.rows] == [part.name for part in PANELS]
    for row in found.rows:
        assert 0 <= row.score <= 1
        assert row.num_questions > 0
        assert row.baseline != row.model or row.score == row.baseline_score  # an ensemble may choose a baseline
        assert row.ceiling >= row.baseline_score - 3 * row.half_width  # up to chance
    assert all("baseline" in row.verdict for row in found.rows)


def test_the_truth_test_counts_edges_and_sources() -> None:
    found = small_demo()
    edges, sources = found.recovery["true edges"], found.recovery["true sources"]
    assert 0 < edges.strongest <= edges.steps
    assert 0 < sources.strongest <= sources.steps
    # The true source is always a true edge, and an event may have others.
    assert sources.strongest / sources.steps <= edges.strongest / edges.steps
    assert sources.chance / sources.steps <= edges.chance / edges.steps
    assert [line.partition(":")[0] for line in found.lines()] == [
        "attention of HiDAN, true edges",
        "attention of HiDAN, true sources",
    ]


def test_the_story_asks_without_the_answer(tmp_path: Path) -> None:
    found = small_demo()
    story = story_of(found, 0)
    assert list(story["panels"]) == [part.name for part in PANELS]
    sharing = found.story.cascades
    for item in story["panels"]["sharing"]:
        assert item["truth"][0] not in item["record"]["values"]
        assert (item["through"], item["truth"][0]) in sharing.edges
        assert item["through"] in item["record"]["values"]
        assert len(item["record"]["times"]) == len(item["record"]["values"])
    for name in ("reading", "searching"):
        assert all(item["truth"][0] not in item["record"]["values"] for item in story["panels"][name])
    assert all("label" not in item["record"] for item in story["panels"]["stance"])
    write_story(found, tmp_path / "story.json", 0)
    assert json.loads((tmp_path / "story.json").read_text(encoding="utf-8")) == story


def test_the_models_answer_what_the_page_asks_and_the_first_post_right(tmp_path: Path) -> None:
    found = small_demo()
    story = story_of(found, 0)
    for name, folder in found.save(tmp_path).items():
        predictor = load(folder)
        kind = {"posts": Post, "stance": Text}.get(name, History)
        record: Any = kind.from_fields(story["panels"][name][0]["record"])  # type: ignore[attr-defined]
        (answer,) = predictor.predict([record], 5)
        assert answer == found.predictors[name].predict([record], 5)[0]
        if name == "posts":  # the other models are too small here
            assert answer.choices[0].value in story["panels"][name][0]["truth"]
            answers = predictor.predict([kind.from_fields(one["record"]) for one in story["panels"][name]], 1)  # type: ignore[attr-defined]
            known = [answer.in_vocabulary / answer.events for answer in answers]
            assert known[0] >= 0.9 and sum(known) >= 0.9 * len(known)


def test_the_logs_are_read_by_the_readers(tmp_path: Path) -> None:
    found = small_demo().story
    write_logs(found, tmp_path)
    corpus, _ = read_corpus(tmp_path / "posts.jsonl", tmp_path / "articles.jsonl")
    assert (len(corpus.articles), len(corpus)) == (len(found.articles), len(found.posts))
    texts, _ = read_texts(tmp_path / "stances.tsv")
    assert len(texts) == sum(one.label is not None for one in found.posts)
    assert len(read(tmp_path / "cascades.jsonl")[0]) == len(found.posts)
    assert read_edges(tmp_path / "edges.tsv") == found.cascades.edges
    assert len(read(tmp_path / "clicks.jsonl")[0]) == len(found.reading)
    queries, _ = read_queries(tmp_path / "searches.tsv")
    assert "relief fund form" in queries.histories.vocabulary.values
