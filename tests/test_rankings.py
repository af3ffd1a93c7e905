"""What another program ranked: read as trec_eval reads it, scored as ours is, and refused in one line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue import Article, DataError, History, Post, SettingError, Text
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.queries import Queries
from ensue.data.rankings import Rankings, read_rankings
from ensue.data.texts import Texts
from ensue.evaluation.comparison import compare, score_rankings
from ensue.predictor import AnyPredictor, make
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
        {"id": "s1", "choices": [{"value": "z", "score": 0.5}], "in_vocabulary": 2},
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
        (["q Q0 a 1 1.0 x", "q Q0 a"], ", line 2: 3 fields; expected query Q0 document rank score tag"),
        (["q Q0 a 1 much x"], ", line 1: score 'much' is not a number"),
        (["q Q0 a 1 nan x"], ", line 1: score 'nan' is not a number"),
        (
            ['{"id": "q", "ranking": ["a"], "scores": [NaN]}'],
            ", line 1: scores holds something that is not a number: 'nan'; give finite numbers, or leave the "
            "scores out",
        ),
        (
            ['{"id": "q", "ranking": ["a", "b"], "scores": [1, null]}'],
            ", line 1: scores holds something that is not a number",
        ),
        (
            ['{"id": "q", "ranking": ["a"], "scores": [true]}'],
            ", line 1: scores holds something that is not a number: 'True'",
        ),
        (['{"id": "q", "ranking": [1.5]}'], ", line 1: 1.5 is not"),
        (["q Q0 a 1 1 x", "q Q0 a 2 0 x"], ": 'a' appears twice in the ranking of 'q'"),
        (['{"id": "q", "ranking": "a"}'], ", line 1: ranking is not a list of values, best first"),
        (
            ['{"id": "q", "ranking": ["a"], "scores": []}'],
            ", line 1: scores is not a list of 1 number, one for each value",
        ),
        (['{"id": "q", "ranking": ["a"], "scores": ["1"]}'], ", line 1: scores holds something that is not a number"),
        (['{"id": "q", "ranking": ["a"]}', '{"ranking": ["a"]}'], ", line 2: has no id"),
        (['{"id": "q", "ranking": ["a"]}', '{"id": '], ", line 2: not JSON"),
    ],
)
def test_what_is_no_ranking_is_refused_with_its_line(tmp_path: Path, lines: list[str], said: str) -> None:
    path = tmp_path / "own.run"
    with pytest.raises(DataError) as error:
        written(path, lines)
    assert str(error.value).startswith(f"{path}{said}")


def test_ids_have_one_form(tmp_path: Path) -> None:
    frame = written(tmp_path / "own.jsonl", ['{"id": 7.0, "ranking": [110, 111.0, "x"]}']).frame
    assert frame.select("query", "value").rows() == [("7", "110"), ("7", "111"), ("7", "x")]


def test_equal_scores_of_a_list_count_against_the_target_and_rising_ones_are_refused(tmp_path: Path) -> None:
    frame = written(
        tmp_path / "own.jsonl", ['{"id": "q", "ranking": ["a", "b", "c", "d"], "scores": [3, 2, 2, 1]}']
    ).frame
    assert frame.select("value", "position", "rank").rows() == [("a", 1, 1), ("b", 2, 3), ("c", 3, 3), ("d", 4, 4)]
    rising = ['{"id": "s0", "ranking": ["c"]}', '{"id": "s1", "ranking": ["a", "b"], "scores": [0.5, 2]}']
    own, markov = written(tmp_path / "own.jsonl", rising), fitted("next", "markov", SESSIONS)
    with pytest.raises(DataError) as error:
        score_rankings([own], [markov], SESSIONS)
    assert str(error.value) == (
        f"{tmp_path / 'own.jsonl'}, line 2: scores rise along the ranking, from 0.5 of 'a' to 2 of 'b'; list the "
        "best value "
        "first with the highest score: negate distances, or leave the scores out if the order is right"
    )
    data, sessions = corpus(6), Queries(SESSIONS)
    rising = ['{"id": "p0", "ranking": ["a1", "a0"], "scores": [0, 1]}']
    with pytest.raises(DataError, match="scores rise along the ranking"):
        score_rankings([written(tmp_path / "own.jsonl", rising)], [fitted("link", "tfidf", data)], data)
    rising = ['{"id": "s0", "place": 1, "ranking": ["b", "c"], "scores": [0, 1]}']
    ours = fitted("suggest", "most-frequent-next", sessions, min_users=1)
    with pytest.raises(DataError, match="scores rise along the ranking"):
        score_rankings([written(tmp_path / "own.jsonl", rising)], [ours], sessions)


def test_a_run_of_equal_scores_says_that_document_ids_order_it(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)
    trec = written(tmp_path / "run.run", [f"s{n} Q0 {item} 1 1.0 x" for n in range(4) for item in "abcd"])
    lists = [json.dumps({"id": f"s{n}", "ranking": [*"dcba"], "scores": [1, 1, 1, 1]}) for n in range(4)]
    result = score_rankings([trec, written(tmp_path / "list.jsonl", lists)], [markov], SESSIONS)
    # Targets d, c, a and b at the positions 1, 2, 4 and 3 by document id, and last where ties count against them.
    last = {"run": (1 + 1 / 2 + 1 / 4 + 1 / 3) / 4, "list": 1 / 4}
    expected = {"c": 2, "d": 1, "a": 4, "b": 3}
    assert figures(result, "run")["mrr"] == pytest.approx(np.mean([1 / expected[target] for target in "cdab"]))
    assert last["run"] == pytest.approx(figures(result, "run")["mrr"])
    assert figures(result, "list")["mrr"] == pytest.approx(last["list"])
    assert result.card["ties"] == "count against the target; in TREC runs (run) by document id, as trec_eval"
    assert result.rows[0].notes["unmatched"] == (
        "in 4 of 4 lists all scores are equal, so the ranking is that of the document ids"
    )
    alone = score_rankings([trec], [markov], SESSIONS)
    assert alone.card["ties"] == "count against the target; in runs of other programs by document id, as trec_eval"


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
    found = score_rankings([own], [markov], SESSIONS, cutoffs=[1, 2])
    assert figures(found, "own")["mrr"] == pytest.approx((1 / 2 + 1) / 7)
    assert figures(found, "own")["hit@1"] == pytest.approx(1 / 7)
    assert figures(found, "markov") == figures(compare([[markov]], SESSIONS, protocol="full", cutoffs=[1, 2]), "markov")
    assert found.rows[0].model == "own" and found.rows[0].seconds_per_1000 is None


def test_rankings_by_id_alone_are_of_the_last_event_and_so_is_all_beside_them(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)
    own = written(tmp_path / "own.run", ["s0 Q0 c 1 3 x", "s1 Q0 a 1 3 x", "s1 Q0 d 2 2 x"])
    found = score_rankings([own], [markov], SESSIONS, cutoffs=[1])
    assert figures(found, "own")["mrr"] == pytest.approx((1 + 1 / 2) / 4)
    assert "4: the last event of each session" in found.card["targets"]
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


def test_suggestions_are_normalised_as_the_queries_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, own = tmp_path / "log.jsonl", tmp_path / "own.jsonl"
    log.write_text("".join(f'{{"values": ["Red Boat", "Buy  a KITE!"], "id": "q{n}"}}\n' for n in range(6)))
    own.write_text("".join(f'{{"id": "q{n}", "place": 1, "ranking": ["red boat", "Buy a Kite!"]}}\n' for n in range(6)))
    command = ("score", own, log, "--task=suggest", "--train", log, "--json")
    ran = run(monkeypatch, *command)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["rows"][0]["mrr@10"] == 1 / 2
    own.write_text("".join(f'{{"id": "x{n}", "place": 1, "ranking": ["red boat"]}}\n' for n in range(6)))
    ran = run(monkeypatch, *command)
    assert (ran.code, ran.err.splitlines()[-1]) == (
        2,
        "ensue: own: has no list for a target; its first list is for 'x0:1', the first target is 'q0:1'",
    )


def test_sessions_of_queries_are_matched_by_their_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, own = tmp_path / "log.csv", tmp_path / "own.jsonl"
    rows = [f"{9 - n},{query},2024-01-01T00:0{n}:{k}0\n" for n in range(6) for k, query in enumerate(["red", f"q{n}"])]
    log.write_text("session,query,time\n" + "".join(rows))
    # The sessions are called 9, 8, ... 4: their numbers in the file, 1 to 6, are other sessions.
    own.write_text("".join(f'{{"id": {9 - n}, "place": 1, "ranking": ["q{n}"]}}\n' for n in range(6)))
    ran = run(monkeypatch, "score", own, log, "--task=suggest", "--train", log, "--json")
    assert ran.code == 0, ran.err
    row = json.loads(ran.out)["rows"][0]
    assert row["mrr@10"] == 1 and "unmatched" not in row


def test_labels_of_others_are_scored_with_their_probabilities(tmp_path: Path) -> None:
    texts = [Text((f"good {word}",), "a", word) for word in "uvwxyz"] + [Text((f"bad {word}",), "b") for word in "uvw"]
    ours = fitted("classify", "majority", Texts.of(texts))
    data = Texts.of([Text(("good",), "a", "one"), Text(("bad",), "b", "two"), Text(("bad",), "b", "three")])
    own = written(tmp_path / "own.run", ["one Q0 a 1 .75 x", "one Q0 b 2 .25 x", "two Q0 a 1 .5 x", "two Q0 b 2 .5 x"])
    found = figures(score_rankings([own], [ours], data), "own")
    # Of two the tie goes to b, as trec_eval orders equals; three has no label and is wrong.
    assert found["accuracy"] == pytest.approx(2 / 3)
    with pytest.raises(DataError, match="own: scores of labels must be probabilities"):
        score_rankings([written(tmp_path / "own.run", ["one Q0 a 1 7 x"])], [ours], data)


def test_the_most_probable_label_is_the_answer_in_whatever_order_labels_are_listed(tmp_path: Path) -> None:
    texts = Texts.of(
        [Text((f"{word} {n}",), label, f"t{n}") for n, (word, label) in enumerate([("g", "a"), ("b", "c")] * 6)]
    )
    ours, random = fitted("classify", "majority", texts), np.random.default_rng(0)
    lines: dict[str, list[str]] = {"classes": [], "sorted": []}
    for n in range(12):
        shares = dict(zip("ac", random.dirichlet([1, 1]).tolist(), strict=True))
        lines["classes"].append(json.dumps({"id": f"t{n}", "ranking": [*shares], "scores": [*shares.values()]}))
        best = sorted(shares, key=lambda label: -shares[label])
        lines["sorted"].append(
            json.dumps({"id": f"t{n}", "ranking": best, "scores": [shares[label] for label in best]})
        )
    own = [written(tmp_path / f"{name}.jsonl", each) for name, each in lines.items()]
    result = score_rankings(own, [ours], texts)
    assert figures(result, "classes") == figures(result, "sorted")
    answers = [json.loads(line)["ranking"][0] for line in lines["sorted"]]
    assert figures(result, "sorted")["accuracy"] == pytest.approx(
        np.mean([a == b for a, b in zip(answers, "ac" * 6, strict=True)])
    )


def test_probabilities_are_required_to_add_up_and_a_list_without_any_is_certain(tmp_path: Path) -> None:
    texts = Texts.of(
        [Text((f"{word} {n}",), label, f"t{n}") for n, (word, label) in enumerate([("g", "a"), ("b", "c")] * 2)]
    )
    ours = fitted("classify", "majority", texts)
    own = written(tmp_path / "own.jsonl", ['{"id": "t0", "ranking": ["a", "c"], "scores": [0.9, 0.8]}'])
    with pytest.raises(DataError, match=r"own: the probabilities of the labels of .t0. add up to 1\.7; give"):
        score_rankings([own], [ours], texts)
    own = written(tmp_path / "own.jsonl", ['{"id": "t0", "ranking": ["a", "A", "c"], "scores": [0.5, 0.3, 0.2]}'])
    with pytest.raises(DataError, match="own: the list of 't0' has two spellings of the label 'a'"):
        score_rankings([own], [ours], texts)
    own = written(tmp_path / "own.jsonl", [json.dumps({"id": f"t{n}", "ranking": ["a", "c"]}) for n in range(4)])
    result = score_rankings([own], [ours], texts)
    assert figures(result, "own")["log_loss"] == pytest.approx(-np.log(np.finfo(float).eps) / 2)
    assert result.card["averaging"].endswith("; without probabilities the first label has probability 1 (own)")


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


def test_a_run_of_distances_is_warned_of(tmp_path: Path) -> None:
    data = corpus(6)
    lines = [f"p{n} Q0 a{(n + step) % 6} {step + 1} 0.{step} x" for n in range(6) for step in range(3)]
    result = score_rankings([written(tmp_path / "own.run", lines)], [fitted("link", "tfidf", data)], data)
    assert result.rows[0].notes["unmatched"] == (
        "in 6 of 6 lists the rank column puts the lowest score first; the highest score is read as the best, as in "
        "trec_eval: negate distances"
    )
    lines = [f"p{n} Q0 a{(n + step) % 6} {step + 1} -0.{step} x" for n in range(6) for step in range(3)]
    result = score_rankings([written(tmp_path / "own.run", lines)], [fitted("link", "tfidf", data)], data)
    assert "unmatched" not in result.rows[0].notes


def test_scores_that_are_equal_in_single_precision_are_ordered_by_document_id(tmp_path: Path) -> None:
    data = corpus(6)
    # 1e-9 apart: a0 is above a1 in double precision and below it in single precision.
    own = written(tmp_path / "own.run", [f"p{n} Q0 a{n} 1 1.000000001 x" for n in range(6)])
    lists = [line for n in range(6) for line in (f"p{n} Q0 a{n} 1 1.000000001 x", f"p{n} Q0 x{n} 2 1 x")]
    result = score_rankings([own, written(tmp_path / "x.run", lists)], [fitted("link", "tfidf", data)], data)
    assert figures(result, "own")["mrr"] == 1 and figures(result, "x")["mrr"] == 1 / 2


QRELS = ["q1 0 d1 1", "q1 0 d9 1", "q2 0 d8 1", "q3 0 d2 1", "q3 0 d3 0", "q4 0 d3 0", "q9 0 d1 1"]


def test_relevant_documents_that_are_not_there_count_and_queries_that_are_not_there_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs, queries = tmp_path / "docs.tsv", tmp_path / "queries.tsv"
    docs.write_text("id\ttext\nd1\tferry at night\nd2\tcouncil roads\nd3\tbakery bread\n")
    queries.write_text("id\ttext\nq1\tferry\nq2\tlamp\nq3\troads\nq4\tbread\nq5\tnot judged\n")
    qrels, own = tmp_path / "qrels.txt", tmp_path / "own.run"
    qrels.write_text("".join(f"{line}\n" for line in QRELS))
    # d7 is in no file and keeps its rank: d1 is second for q1. d8 is relevant for q2, and only this run lists it.
    own.write_text("q1 Q0 d7 1 3 x\nq1 Q0 d1 2 2 x\nq2 Q0 d8 1 1 x\nq3 Q0 d3 1 2 x\nq3 Q0 d2 2 1 x\n")
    options = ("--queries", queries, "--documents", docs)
    assert run(monkeypatch, "fit", "link", qrels, *options, "-o", tmp_path / "m", "--model", "tfidf").code == 0
    ran = run(monkeypatch, "score", own, qrels, *options, "--folder", tmp_path / "m", "--json")
    found = json.loads(ran.out)
    assert ran.code == 0
    rows = {row["model"]: row for row in found["rows"]}
    assert rows["own"]["mrr"] == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)
    assert rows["own"]["map"] == pytest.approx((1 / 2 / 2 + 1 + 1 / 2) / 3)
    assert rows["own"]["recall@10"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert rows["tfidf"]["mrr"] == pytest.approx((1 + 0 + 1) / 3)
    assert rows["tfidf"]["recall@10"] == pytest.approx((1 / 2 + 0 + 1) / 3)
    assert found["protocol"]["data"] == (
        "3 posts, 4 links; 2 links to 2 articles that the data lacks, such as 'd9', which is all that 1 post is about: "
        "relevant, never retrieved by our models; 1 judged query has no text, such as 'q9': left out of every row; "
        "1 post is about no article: left out of every row"
    )
    ran = run(monkeypatch, "check", qrels, *options)
    assert "1 of 5 judged queries is not among the queries, such as 'q9': left out" in ran.out + ran.err
    assert (
        "2 of 4 relevant judgements name a document that is not among the documents, such as 'd9'" in ran.out + ran.err
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{n} 0 d1 1", "none of its queries matches: it judges query '0', and the id of a query or post is 'q0'; give"),
        (
            "q{n} 0 {n} 1",
            "none of its documents matches: it judges document '0', and the id of a document is 'd0'; give",
        ),
    ],
)
def test_judgements_of_other_files_are_refused_with_an_id_of_each_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    docs, queries, qrels = (tmp_path / name for name in ("docs.tsv", "queries.tsv", "qrels.txt"))
    docs.write_text("id\ttext\n" + "".join(f"d{n}\tword{n}\n" for n in range(30)))
    queries.write_text("id\ttext\n" + "".join(f"q{n}\tword{n}\n" for n in range(30)))
    qrels.write_text("".join(line.format(n=n) + "\n" for n in range(30)))
    command = ("check", qrels, "--queries", queries, "--documents", docs)
    ran = run(monkeypatch, *command)
    assert ran.code == 2 and f"ensue: {qrels}: {said}" in ran.err
    qrels.write_text(qrels.read_text() + "q1 0 d1 1\n")  # one that matches by accident makes it no better
    ran = run(monkeypatch, *command)
    assert ran.code == 2 and f"ensue: {qrels}: 1 of its " in ran.err


def test_rankings_of_nothing_and_names_of_models_are_refused(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)
    with pytest.raises(DataError, match="own: ranks no scored query; its queries must be ids, such as s0, or"):
        score_rankings([written(tmp_path / "own.run", ["x Q0 a 1 1 x"])], [markov], SESSIONS)
    own = written(tmp_path / "markov.run", ["s0 Q0 c 1 1 x"])
    with pytest.raises(SettingError, match="rankings 'markov' have the name of another row; give --name"):
        score_rankings([own], [markov], SESSIONS)
    with pytest.raises(SettingError, match="protocol sampled"):
        score_rankings([Rankings("own", own.frame)], [markov], SESSIONS, protocol="sampled")


def test_score_stands_at_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f"{record.to_json()}\n" for record in SESSIONS.records()))
    own = tmp_path / "theirs.run"
    own.write_text("s0 Q0 c 1 3 x\ns1 Q0 a 1 3 x\n")
    counted = ("--task=next", "--train", log)
    ran = run(monkeypatch, "score", own, log, *counted, "--name=other", "--json", "--cutoffs=1")
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
    expected = "no list for 5 of 7 queries, such as s1:1: misses; 2 lists for unknown queries, such as s0:3: "
    assert result.rows[0].to_dict()["unmatched"] == f"{expected}ignored"
    assert result.card["targets"].startswith("7: every event after the first; ")
    last = score_rankings([written(tmp_path / "own.run", [f"s{n} Q0 a 1 1 x" for n in range(4)])], [markov], SESSIONS)
    assert "unmatched" not in last.rows[0].to_dict()
    assert last.card["name"] == "last" and last.card["targets"].startswith("4: the last event of each session; ")


def test_a_text_and_a_post_without_a_list_are_said(tmp_path: Path) -> None:
    posts = corpus(6)
    linked = score_rankings(
        [written(tmp_path / "own.run", ["p0 Q0 a0 1 1 x"])], [fitted("link", "tfidf", posts)], posts
    )
    assert linked.rows[0].notes["unmatched"] == "no list for 5 of 6 queries, such as p1: misses"
    texts = Texts.of([Text((f"word {n}",), label="ab"[n % 2], id=f"t{n}") for n in range(4)])
    labels = [json.dumps({"id": f"t{n}", "ranking": ["a"]}) for n in range(5)]
    result = score_rankings([written(tmp_path / "own.jsonl", labels)], [fitted("classify", "tfidf", texts)], texts)
    assert result.rows[0].notes["unmatched"] == "1 list for unknown queries, such as t4: ignored"


def test_answers_of_what_follows_the_last_event_are_refused(tmp_path: Path) -> None:
    markov = fitted("next", "markov", SESSIONS)

    def answers(given: int) -> list[str]:
        choices = [{"value": "c", "score": 0.5}, {"value": "b", "score": 0.25}]
        return [json.dumps({"id": "s0", "choices": choices, "in_vocabulary": given, "events": given})]

    with pytest.raises(
        DataError, match="own: the answer for s0 predicts what follows 3 events, but only the last of its 3"
    ):
        score_rankings([written(tmp_path / "own.jsonl", answers(3))], [markov], SESSIONS)
    result = score_rankings([written(tmp_path / "own.jsonl", answers(2))], [markov], SESSIONS)
    assert figures(result, "own")["hit@10"] == 1 / 4
