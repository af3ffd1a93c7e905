"""What another program ranked: read as trec_eval reads it, scored as ours is, and refused in one line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue import Corpus, Histories, History, Queries, Text, Texts
from ensue.data.posts import Articles, Posts
from ensue.data.rankings import Rankings, read_rankings
from ensue.errors import DataError, SettingError
from ensue.evaluation import compare, score_rankings
from ensue.predictor import AnyPredictor, make
from ensue.records import Article, Post
from tests.cli.conftest import run

SESSIONS = Histories.of(History(tuple(line), id=f"s{n}") for n, line in enumerate(["abc", "bcd", "cda", "ab"]))


def fitted(task: str, model: str, data: Any, **settings: object) -> AnyPredictor:
    predictor = make(task, model, settings=settings)
    list(predictor.fit(data, data if task in ("classify", "link") else None))
    return predictor


def written(path: Path, lines: list[str]) -> Rankings:
    path.write_text("".join(f"{line}\n" for line in lines))
    return read_rankings(path)


def figures(found: Any, model: str) -> dict[str, float]:
    return dict(next(row for row in found.rows if row.model == model).figures)


def test_a_run_is_ordered_as_trec_eval_orders_it(tmp_path: Path) -> None:
    # By the score, whatever the rank says; 1e-9 more is nothing in single precision, and of equals b goes before a.
    found = written(tmp_path / "own.run", ["q Q0 a 1 1.0 x", "q\tQ0\tb 2 1.0000000001 x", "", "q Q0 c 3 2 x"])
    assert found.name == "own"
    assert found.frame.select("value", "rank").rows() == [("c", 1), ("b", 2), ("a", 3)]


def test_json_lines_and_our_own_answers_are_read(tmp_path: Path) -> None:
    lines = [
        {"id": "s0", "place": 2, "ranking": ["b", "c"], "scores": [2, 1.5]},
        {"id": "s1", "choices": [{"value": "z", "score": 0.5}], "known": 2},
        {"id": 7, "ranking": []},
    ]
    frame = written(tmp_path / "own.jsonl", [json.dumps(line) for line in lines]).frame
    assert frame.select("query", "value", "score", "rank").rows() == [
        ("s0:2", "b", 2.0, 1),
        ("s0:2", "c", 1.5, 2),
        ("s1", "z", 0.5, 1),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["q Q0 a 1 1.0 x", "q Q0 a"], ":2: 3 fields; expected query Q0 document rank score tag"),
        (["q Q0 a 1 much x"], ":1: score 'much' is no number"),
        (["q Q0 a 1 nan x"], ":1: score 'nan' is no number"),
        (["q Q0 a 1 1 x", "q Q0 a 2 0 x"], ": 'a' stands twice in the ranking of 'q'"),
        (['{"id": "q", "ranking": "a"}'], ":1: ranking is no list of values, best first"),
        (['{"id": "q", "ranking": ["a"], "scores": []}'], ":1: scores is no list of 1 number, one for each value"),
        (['{"id": "q", "ranking": ["a"], "scores": ["1"]}'], ":1: scores holds something that is no number"),
        (['{"id": "q", "ranking": ["a"]}', '{"ranking": ["a"]}'], ":2: has no id"),
        (['{"id": "q", "ranking": ["a"]}', '{"id": '], ":2: is no JSON"),
    ],
)
def test_what_is_no_ranking_is_refused_with_its_line(tmp_path: Path, lines: list[str], said: str) -> None:
    path = tmp_path / "own.run"
    with pytest.raises(DataError) as error:
        written(path, lines)
    assert str(error.value).startswith(f"{path}{said}")


def test_rankings_of_every_event_score_what_they_hold(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)
    own = written(
        tmp_path / "own.jsonl",
        [
            '{"id": "s0", "place": 1, "ranking": ["x", "b"]}',
            '{"id": "s0", "place": 2, "ranking": ["c"]}',
            '{"id": "s3", "place": 1, "ranking": ["a"]}',  # not b; of s1 and s2 there is nothing: misses
        ],
    )
    found = score_rankings([own], [markov], SESSIONS, at=[1, 2])
    assert figures(found, "own")["mrr"] == pytest.approx((1 / 2 + 1) / 7)
    assert figures(found, "own")["hit@1"] == pytest.approx(1 / 7)
    assert figures(found, "markov") == figures(compare([[markov]], SESSIONS, "full", [1, 2]), "markov")
    assert found.rows[0].model == "own" and found.rows[0].seconds_per_1000 is None


def test_rankings_by_id_alone_are_of_the_last_event_and_so_is_all_beside_them(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)
    own = written(tmp_path / "own.run", ["s0 Q0 c 1 3 x", "s1 Q0 a 1 3 x", "s1 Q0 d 2 2 x"])
    found = score_rankings([own], [markov], SESSIONS, at=[1])
    assert figures(found, "own")["mrr"] == pytest.approx((1 + 1 / 2) / 4)
    assert "4: the last event of each sequence" in found.card["targets"]
    assert found.examples is not None
    frame = found.examples.to_frame()
    assert frame.filter(model="markov")["target"].to_list() == ["c", "d", "a", "b"]
    ranks = frame.filter(model="markov")["rank"].to_numpy()
    assert figures(found, "markov")["mrr"] == pytest.approx(float((1 / ranks).mean()))


def test_suggestions_of_others_are_scored_by_their_words(tmp_path: Path) -> None:
    asked = [("red boat", "red car", "what is a kite"), ("a kite", "buy a kite")]
    data = Queries(Histories.of(History(own, id=f"q{n}") for n, own in enumerate(asked)))
    ours = fitted("suggest", "most-frequent-next", data, min_users=1)
    own = written(
        tmp_path / "own.jsonl",
        [
            '{"id": "q0", "place": 1, "ranking": ["red bike", "red car"]}',
            '{"id": "q1", "place": 1, "ranking": ["buy a kite"]}',
        ],
    )
    found = figures(score_rankings([own], [ours], data), "own")
    assert found["mrr@10"] == pytest.approx((1 / 2 + 0 + 1) / 3) and found["exact"] == pytest.approx(1 / 3)


def test_labels_of_others_are_scored_with_their_probabilities(tmp_path: Path) -> None:
    texts = [Text((f"good {word}",), "a", word) for word in "uvwxyz"] + [Text((f"bad {word}",), "b") for word in "uvw"]
    ours = fitted("classify", "majority", Texts.of(texts))
    data = Texts.of([Text(("good",), "a", "one"), Text(("bad",), "b", "two"), Text(("bad",), "b", "three")])
    own = written(tmp_path / "own.run", ["one Q0 a 1 .75 x", "one Q0 b 2 .25 x", "two Q0 a 1 .5 x", "two Q0 b 2 .5 x"])
    found = figures(score_rankings([own], [ours], data), "own")
    # Of two the tie goes to b, as trec_eval orders equals; three has no label and is wrong.
    assert found["accuracy"] == pytest.approx(2 / 3)
    with pytest.raises(DataError, match="own: scores of labels are their probabilities"):
        score_rankings([written(tmp_path / "own.run", ["one Q0 a 1 7 x"])], [ours], data)


def corpus(num: int) -> Corpus:
    articles = [Article(f"word{n} thing{n}", f"a{n}") for n in range(num)]
    posts = [Post(f"word{n}", f"p{n}", (f"a{n}", f"a{(n * 3 + 1) % num}")[: 1 + n % 2]) for n in range(num)]
    return Corpus(Articles.of(articles), Posts.of(posts))


def test_articles_that_are_in_no_list_are_never_found(tmp_path: Path) -> None:
    data = corpus(6)
    ours = fitted("link", "tfidf", data)
    own = written(tmp_path / "own.run", ["p0 Q0 a3 1 9 x", "p0 Q0 a0 2 8 x", "p1 Q0 a1 1 9 x", "p9 Q0 a0 1 9 x"])
    found = figures(score_rankings([own], [ours], data), "own")
    assert found["mrr"] == pytest.approx((1 / 2 + 1) / 6) and found["recall@10"] == pytest.approx((1 + 1 / 2) / 6)
    assert found["map"] == pytest.approx((1 / 2 + 1 / 2) / 6)


TREC = {"mrr": 0.19576349576349575, "map": 0.15904820325872956, "recall@10": 0.36666666666666664}
"""recip_rank, map and recall_10 of trec_eval for the run below, recorded from pytrec_eval-terrier 0.5.11."""


def test_the_figures_of_a_run_are_those_of_trec_eval(tmp_path: Path) -> None:
    data, random = corpus(30), np.random.default_rng(0)
    scores = np.round(random.normal(size=(30, 30)), 1)  # with ties
    listed = [(p, a, float(scores[p, a])) for p in range(30) for a in random.permutation(30)[:20]]
    own = written(tmp_path / "own.run", [f"p{p} Q0 a{a} 0 {score} x" for p, a, score in listed])
    ours = figures(score_rankings([own], [fitted("link", "tfidf", data)], data), "own")
    assert {name: ours[name] for name in TREC} == pytest.approx(TREC, abs=1e-12)
    if importlib.util.find_spec("pytrec_eval") is None:
        return
    import pytrec_eval  # type: ignore[import-not-found]

    judged = {post.id: dict.fromkeys(post.about, 1) for post in data.posts.records()}
    ranked: dict[str, dict[str, float]] = {}
    for p, a, score in listed:
        ranked.setdefault(f"p{p}", {})[f"a{a}"] = score
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank", "map", "recall_10"}).evaluate(ranked)
    names = {"mrr": "recip_rank", "map": "map", "recall@10": "recall_10"}
    assert {ours: np.mean([row[name] for row in theirs.values()]) for ours, name in names.items()} == pytest.approx(
        TREC
    )


def test_rankings_of_nothing_and_names_of_models_are_refused(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)
    with pytest.raises(DataError, match="own: ranks nothing that is scored; its queries must be ids, such as s0, or"):
        score_rankings([written(tmp_path / "own.run", ["x Q0 a 1 1 x"])], [markov], SESSIONS)
    own = written(tmp_path / "markov.run", ["s0 Q0 c 1 1 x"])
    with pytest.raises(SettingError, match="rankings 'markov' have the name of another row; give --name"):
        score_rankings([own], [markov], SESSIONS)
    with pytest.raises(SettingError, match="protocol sampled"):
        score_rankings([Rankings("own", own.frame)], [markov], SESSIONS, "sampled")


def test_score_stands_at_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{record.to_json()}\n" for record in SESSIONS.records()))
    own = tmp_path / "theirs.run"
    own.write_text("s0 Q0 c 1 3 x\ns1 Q0 a 1 3 x\n")
    counted = ("--task=next", "--train", log)
    ran = run(monkeypatch, "score", own, log, *counted, "--name=other", "--json", "--at=1")
    found = json.loads(ran.out)
    assert (ran.code, found["rows"][0]["model"], found["rows"][0]["hit@1"]) == (0, "other", 1 / 4)
    ran = run(monkeypatch, "score", own, log)
    assert ran.code == 2 and ran.err.startswith("ensue: nothing to compare with: give --folder MODEL, or --task and")
    ran = run(monkeypatch, "score", log, *counted)
    assert (ran.code, ran.err) == (2, f"ensue: {log}: give the rankings first, then the data that they rank for\n")


def test_lists_and_queries_that_do_not_belong_together_are_said(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)
    own = written(tmp_path / "own.run", ["s0:1 Q0 b 1 1 x", "s0:2 Q0 c 1 1 x", "s0:3 Q0 a 1 1 x", "s9:1 Q0 a 1 1 x"])
    result = score_rankings([own], [markov], SESSIONS)
    expected = "no list for 5 of 7 queries, such as s1:1: misses; 2 lists of nothing that is scored, such as s0:3: "
    assert result.rows[0].to_dict()["unmatched"] == f"{expected}not looked at"
    assert result.card["targets"].startswith("7: every event after the first, ")
    last = score_rankings([written(tmp_path / "own.run", [f"s{n} Q0 a 1 1 x" for n in range(4)])], [markov], SESSIONS)
    assert "unmatched" not in last.rows[0].to_dict()
    assert last.card["targets"].startswith("4: the last event of each sequence, ")


def test_a_text_and_a_post_without_a_list_are_said(tmp_path: Path) -> None:
    posts = corpus(6)
    linked = score_rankings(
        [written(tmp_path / "own.run", ["p0 Q0 a0 1 1 x"])], [fitted("link", "tfidf", posts)], posts
    )
    assert linked.rows[0].notes["unmatched"] == "no list for 5 of 6 queries, such as p1: misses"
    texts = Texts.of([Text((f"word {n}",), label="ab"[n % 2], id=f"t{n}") for n in range(4)])
    labels = [json.dumps({"id": f"t{n}", "ranking": ["a"]}) for n in range(5)]
    result = score_rankings([written(tmp_path / "own.jsonl", labels)], [fitted("classify", "tfidf", texts)], texts)
    assert result.rows[0].notes["unmatched"] == "1 list of nothing that is scored, such as t4: not looked at"


def test_answers_of_what_follows_the_last_event_are_refused(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)

    def answers(given: int) -> list[str]:
        choices = [{"value": "c", "score": 0.5}, {"value": "b", "score": 0.25}]
        return [json.dumps({"id": "s0", "choices": choices, "known": given, "given": given})]

    with pytest.raises(
        DataError, match="own: the answer for s0 foretells what follows 3 events, but of its 3 the last"
    ):
        score_rankings([written(tmp_path / "own.jsonl", answers(3))], [markov], SESSIONS)
    result = score_rankings([written(tmp_path / "own.jsonl", answers(2))], [markov], SESSIONS)
    assert figures(result, "own")["hit@10"] == 1 / 4
