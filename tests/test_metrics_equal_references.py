"""Property tests: metrics of random data equal scikit-learn, sacrebleu and literal code of trec_eval's rules to 1e-9.

The data have ties, unknown and duplicate ids, several relevant documents, and queries without a list or a relevant
document. ``ENSUE_RANDOM_SETS`` sets the number of random data sets per task.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, log_loss, roc_auc_score

from ensue import Article, History, Post, Text
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.queries import Queries
from ensue.data.rankings import Rankings, read_rankings
from ensue.data.texts import Texts
from ensue.evaluation import bootstrap, link
from ensue.evaluation.comparison import score_rankings
from ensue.metrics import STOP_WORDS
from ensue.predictor import AnyPredictor, make
from ensue.tasks.link.link_metrics import AT

TRIALS = int(os.environ.get("ENSUE_RANDOM_SETS", "15"))
TOLERANCE = 1e-9
NEAR = [1.0, 1.0 + 1e-9, 1.0 + 2e-9, 0.5, 0.5, 0.25, -1.0, 0.0]
"""Scores with ties, and with differences that single precision does not have."""

Lists = dict[str, list[tuple[str, float | None]]]
"""By query, (value, score) in the order of the file."""


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 2)


def trained(task: str, model: str, data: Any, **settings: object) -> AnyPredictor:
    predictor = make(task, model, settings=settings)
    list(predictor.fit(data, data if task in ("classify", "link") else None))
    return predictor


def trials() -> Iterator[np.random.Generator]:
    return (np.random.default_rng(seed) for seed in range(TRIALS))


def figures(result: Any, name: str) -> dict[str, float]:
    return dict(next(row for row in result.rows if row.model == name).figures)


def single(score: float) -> float:
    """Return the score in single precision, without NumPy."""
    return float(struct.unpack("f", struct.pack("f", score))[0])


def trec_run(path: Path, lists: Lists, random: np.random.Generator) -> Rankings:
    lines = [f"{query} Q0 {value} 0 {score!r} x" for query, pairs in lists.items() for value, score in pairs]
    path.write_text("\n".join(lines[n] for n in random.permutation(len(lines))))  # the order of a run says nothing
    return read_rankings(path, "run")


def json_lists(path: Path, lists: Lists, name: str) -> Rankings:
    lines = []
    for query, pairs in lists.items():
        row: dict[str, object] = {"id": query, "ranking": [value for value, _ in pairs]}
        if pairs and pairs[0][1] is not None:
            row["scores"] = [score for _, score in pairs]
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines))
    return read_rankings(path, name)


def as_trec_eval(pairs: Sequence[tuple[str, float | None]]) -> list[str]:
    """Return values by score in single precision, equal ones by id, the last id first."""
    return [value for _, value in sorted(((single(score or 0.0), value) for value, score in pairs), reverse=True)]


def ties_against(pairs: Sequence[tuple[str, float | None]], relevant: set[str]) -> list[str]:
    """Return values by score, relevant ones after the others of the same score; without scores as they are."""
    if pairs and pairs[0][1] is None:
        return [value for value, _ in pairs]
    return [value for value, _ in sorted(pairs, key=lambda pair: (-(pair[1] or 0.0), pair[0] in relevant))]


def list_metrics(ranked: Sequence[str], relevant: set[str]) -> tuple[float, float, float]:
    """Return reciprocal rank, recall@10 and average precision as trec_eval defines them."""
    hits = [place for place, value in enumerate(ranked, 1) if value in relevant]
    precision = sum(count / place for count, place in enumerate(hits, 1)) / len(relevant)
    return (1 / hits[0] if hits else 0.0), sum(place <= 10 for place in hits) / len(relevant), precision


def drawn_lists(random: np.random.Generator, queries: Sequence[str], values: Sequence[str]) -> Lists:
    lists: Lists = {}
    for query in queries:
        if random.random() < 0.85:
            chosen = random.permutation(np.array(values))[: random.integers(0, len(values) + 1)]
            lists[query] = [(str(value), float(random.choice(NEAR))) for value in chosen]
    return lists


def falling(lists: Lists) -> Lists:
    """Return lists in the order of their scores."""
    return {query: sorted(pairs, key=lambda pair: -(pair[1] or 0.0)) for query, pairs in lists.items()}


def without_scores(lists: Lists) -> Lists:
    return {query: [(value, None) for value, _ in pairs] for query, pairs in lists.items()}


# --- link -------------------------------------------------------------------------------------------------------------


def test_link(tmp_path: Path) -> None:
    known = Corpus(
        Articles.of([Article(f"word{n}", f"k{n}") for n in range(2)]),
        Posts.of([Post(f"word{n}", f"known{n}", (f"k{n}",)) for n in range(2)]),
    )
    predictor = trained("link", "tfidf", known)
    for random in trials():
        documents = [f"d{n}" for n in random.permutation(20)[: random.integers(2, 16)]]
        queries = [f"q{n}" for n in range(random.integers(1, 9))]
        judged = {query: _judgements(random, documents) for query in [*queries[:-1], queries[-1], "absent"]}
        judged[queries[0]][documents[0]] = 1  # at least one query has something to find
        lines = [f"{query} 0 {name} {grade}" for query, own in judged.items() for name, grade in own.items()]
        (tmp_path / "qrels.txt").write_text("\n".join([*lines, lines[0]]))  # one judgement stands twice
        rows = "".join(f"{query}\tword{n % 3} some\n" for n, query in enumerate([*queries, "unjudged"]))
        (tmp_path / "queries.tsv").write_text("id\ttext\n" + rows)
        rows = "".join(f"{name}\tword{n % 3} body{n}\n" for n, name in enumerate(documents))
        (tmp_path / "docs.tsv").write_text("id\ttext\n" + rows)
        files = (tmp_path / "queries.tsv", tmp_path / "docs.tsv")
        corpus, _ = read_corpus(*files, judgements=tmp_path / "qrels.txt")
        lists = drawn_lists(random, [*queries, "unjudged", "absent"], [*documents, "x0", "x1", "elsewhere"])
        lists[queries[0]] = [(documents[0], 1.0), *lists.get(queries[0], [])[:0]]
        result = score_rankings(
            [
                trec_run(tmp_path / "run.run", lists, random),
                json_lists(tmp_path / "json.jsonl", falling(lists), "scored"),
                json_lists(tmp_path / "json.jsonl", without_scores(lists), "listed"),
            ],
            [predictor],
            corpus,
        )
        relevant = {query: {name for name, grade in judged[query].items() if grade > 0} for query in queries}
        relevant = {query: names for query, names in relevant.items() if names}
        ranked: dict[str, dict[str, list[str]]] = {
            "run": {query: as_trec_eval(lists.get(query, [])) for query in relevant},
            "scored": {query: ties_against(falling(lists).get(query, []), names) for query, names in relevant.items()},
            "listed": {query: [value for value, _ in lists.get(query, [])] for query in relevant},
        }
        for name, orders in ranked.items():
            expected = np.mean([list_metrics(orders[query], names) for query, names in relevant.items()], axis=0)
            row = figures(result, name)
            assert [row["mrr"], row["recall@10"], row["map"]] == pytest.approx(expected, abs=TOLERANCE)
        scores = {
            "run": {query: {value: single(score or 0) for value, score in pairs} for query, pairs in lists.items()},
            "scored": {query: {value: float(score or 0) for value, score in pairs} for query, pairs in lists.items()},
        }
        for name, own in scores.items():
            _check_pool(figures(result, name), own, relevant, documents)
        candidates = [*documents, *known.articles.ids]
        whole = {
            post.id: dict(zip(candidates, own, strict=True))
            for post, own in zip(corpus.posts.records(), _scores(predictor, corpus), strict=True)
        }
        orders = {query: ties_against([*whole[query].items()], names) for query, names in relevant.items()}
        expected = np.mean([list_metrics(orders[query], names) for query, names in relevant.items()], axis=0)
        row = figures(result, "tfidf")
        assert [row["mrr"], row["recall@10"], row["map"]] == pytest.approx(expected, abs=TOLERANCE)
        _check_pool(row, whole, relevant, documents)


def _judgements(random: np.random.Generator, documents: Sequence[str]) -> dict[str, int]:
    names = random.permutation(np.array([*documents, "x0", "x1"]))[: random.integers(1, 6)]
    return {str(name): int(random.integers(0, 3)) for name in names}


def _scores(predictor: Any, corpus: Corpus) -> np.ndarray[Any, Any]:
    judged_posts = link.JudgedPosts([[predictor]], corpus)
    scores = judged_posts.score(predictor).scores
    rows = np.full((len(corpus.posts), scores.shape[1]), np.nan)
    rows[corpus.posts.ids.is_in(judged_posts.data.posts.ids.implode()).arg_true().to_numpy()] = scores
    return rows


def _check_pool(
    row: Mapping[str, float],
    scores: Mapping[str, Mapping[str, float]],
    relevant: Mapping[str, set[str]],
    documents: Sequence[str],
) -> None:
    """Compare the metrics of all pairs in one list, and those by article, with scikit-learn and literal code."""
    pool = [name for name in documents if any(name in names for names in relevant.values())]
    pairs = []
    for query, names in relevant.items():
        pairs += [(scores.get(query, {}).get(name, -math.inf), name in names) for name in pool]
    lowest = min((own for own, _ in pairs if own > -math.inf), default=0.0) - 5
    values, truth = [max(own, lowest) for own, _ in pairs], [hit for _, hit in pairs]
    assert row["pooled_ap"] == pytest.approx(average_precision_score(truth, values), abs=TOLERANCE)
    auc = roc_auc_score(truth, values) if len(set(truth)) > 1 else 0.5
    assert row["auc"] == pytest.approx(auc, abs=TOLERANCE)
    order = sorted(zip(values, truth, strict=True), key=lambda pair: (-pair[0], pair[1]))
    cutoffs = {cutoff for cutoff in AT if cutoff <= len(order)} | {sum(truth)}
    precision = [sum(hit for _, hit in order[:cutoff]) / cutoff for cutoff in cutoffs]
    assert row["mrp"] == pytest.approx(np.mean(precision), abs=TOLERANCE)
    by_article = []
    for name in pool:
        about = {query for query, names in relevant.items() if name in names}
        listed = [(query, scores[query][name]) for query in relevant if name in scores.get(query, {})]
        reciprocal, _, average = list_metrics(ties_against(listed, about), about)
        by_article.append((reciprocal, average))
    assert [row["article_mrr"], row["article_map"]] == pytest.approx(np.mean(by_article, axis=0), abs=TOLERANCE)


# --- classify ---------------------------------------------------------------------------------------------------------


def test_classify(tmp_path: Path) -> None:
    train = [Text((f"{label} {n}",), label) for n, label in enumerate("aabbbc")]
    predictor = trained("classify", "majority", Texts.of(train))
    for random in trials():
        true = ["a", *(str(label) for label in random.choice([*"abcd"], size=random.integers(1, 12)))]
        texts = Texts.of([Text((f"word {n}",), label, f"t{n}") for n, label in enumerate(true)])
        names = [*"abce"][: random.integers(2, 5)]
        lists: Lists = {}
        for n in range(len(true)):
            if n == 0 or random.random() < 0.8:
                shares = random.dirichlet(np.ones(len(names))).round(int(random.choice([2, 17])))
                lists[f"t{n}"] = [(name, float(own)) for name, own in zip(names, shares, strict=True)]
        lists["unknown"] = [("a", 1.0)]
        result = score_rankings(
            [
                trec_run(tmp_path / "run.run", lists, random),
                json_lists(tmp_path / "json.jsonl", lists, "classes"),
                json_lists(tmp_path / "json.jsonl", falling(lists), "sorted"),
            ],
            [predictor],
            texts,
        )
        probabilities = {query: {label: score or 0.0 for label, score in pairs} for query, pairs in lists.items()}
        ids = [f"t{n}" for n in range(len(true))]
        answers = {
            "run": [as_trec_eval(lists[query])[0] if query in lists else None for query in ids],
            # The first of the most probable labels, as NumPy's argmax and scikit-learn's predict.
            "classes": [
                names[int(np.argmax([score or 0.0 for _, score in lists[query]]))] if query in lists else None
                for query in ids
            ],
        }
        answers["sorted"] = answers["classes"]
        for name, given in answers.items():
            tables = [probabilities.get(query, {}) for query in ids]
            _check_labels(figures(result, name), true, given, tables)
        own = [answer.choices for answer in predictor.predict(list(texts.records()), k=9)]
        given = [choices[0].value for choices in own]
        table = [{choice.value: choice.score for choice in choices} for choices in own]
        _check_labels(figures(result, "majority"), true, given, table)


def _check_labels(
    row: Mapping[str, float],
    true: Sequence[str],
    given: Sequence[str | None],
    tables: Sequence[Mapping[str, float]],
) -> None:
    """Compare the metrics of answers, and of the probabilities of each text by label, with scikit-learn."""
    probabilities = [table.get(label or "", 0.0) for table, label in zip(tables, given, strict=True)]
    losses = [table.get(label, 0.0) for table, label in zip(tables, true, strict=True)]
    words = [label or "" for label in given]
    labels = sorted({*true, *words} - {""})
    assert row["accuracy"] == pytest.approx(accuracy_score(true, words), abs=TOLERANCE)
    expected = f1_score(true, words, labels=labels, average="macro", zero_division=0)
    assert row["macro_f1"] == pytest.approx(expected, abs=TOLERANCE)
    if "" not in words:
        assert row["macro_f1"] == pytest.approx(f1_score(true, words, average="macro"), abs=TOLERANCE)
    # The probability of the true label against that of all others together: scikit-learn's log loss of two classes.
    two_classes = [[1 - own, own] for own in losses]
    assert row["log_loss"] == pytest.approx(log_loss([1] * len(true), two_classes, labels=[0, 1]), abs=TOLERANCE)
    bins: dict[int, list[float]] = {}
    for sure, label, answer in zip(probabilities, true, words, strict=True):
        bins.setdefault(min(max(math.ceil(sure * 15) - 1, 0), 14), []).append(sure - (label == answer))
    assert row["calibration_error"] == pytest.approx(
        sum(abs(sum(own)) for own in bins.values()) / len(true), abs=TOLERANCE
    )


# --- suggest ----------------------------------------------------------------------------------------------------------


def test_suggest(tmp_path: Path) -> None:
    words = ["red boat", "red car", "what is a kite", "buy a kite", "kite", "the red boat of gold", "a b c d e", "of"]
    logs = [(words[n % 8], words[(n * 3 + 1) % 8]) for n in range(16)]
    predictor = trained("suggest", "most-frequent-next", _queries(logs), min_users=1)
    for random in trials():
        sessions = [
            [words[n] for n in random.permutation(8)[: random.integers(1, 5)]] for _ in range(random.integers(1, 6))
        ]
        sessions.append([words[n] for n in random.permutation(8)[:2]])
        data = _queries(sessions)
        targets = {f"s{n}:{place}": own[place] for n, own in enumerate(sessions) for place in range(1, len(own))}
        lists = drawn_lists(random, [*targets, "s0:9"], [*words, "unknown words", "red", "boat red", "gold", "x y"])
        first = next(iter(targets))
        lists[first] = lists.get(first) or [("kite", 1.0)]
        result = score_rankings(
            [
                json_lists(tmp_path / "json.jsonl", falling(lists), "scored"),
                json_lists(tmp_path / "json.jsonl", without_scores(lists), "listed"),
            ],
            [predictor],
            data,
        )
        for name, own in (("scored", falling(lists)), ("listed", without_scores(lists))):
            ranked = {query: ties_against(own.get(query, []), {target}) for query, target in targets.items()}
            shown = [own[query][0][0] if own.get(query) else "" for query in targets]
            _check_suggestions(figures(result, name), ranked, shown, targets)
        ranked = {}
        for query in targets:
            number, place = query[1:].split(":")
            (answer,) = predictor.predict([History(tuple(sessions[int(number)][: int(place)]))], k=10)
            ranked[query] = [choice.value for choice in answer.choices]
        shown = [(*own, "")[0] for own in ranked.values()]
        _check_suggestions(figures(result, "most-frequent-next"), ranked, shown, targets)


def _queries(sessions: Sequence[Sequence[str]]) -> Queries:
    return Queries(Histories.of(History(tuple(own), id=f"s{n}") for n, own in enumerate(sessions)))


def _check_suggestions(
    row: Mapping[str, float], ranked: Mapping[str, Sequence[str]], shown: Sequence[str], targets: Mapping[str, str]
) -> None:
    ranks = [
        [*ranked[query]].index(target) + 1 if target in ranked[query] else math.inf for query, target in targets.items()
    ]
    assert row["exact"] == pytest.approx(np.mean([rank == 1 for rank in ranks]), abs=TOLERANCE)
    assert row["recall@10"] == pytest.approx(np.mean([rank <= 10 for rank in ranks]), abs=TOLERANCE)
    assert row["mrr@10"] == pytest.approx(np.mean([1 / rank if rank <= 10 else 0 for rank in ranks]), abs=TOLERANCE)
    oracle = sacrebleu.corpus_bleu([*shown], [[*targets.values()]], smooth_method="none", tokenize="none", force=True)
    assert row["bleu"] == pytest.approx(oracle.score / 100, abs=TOLERANCE)
    assert [row[f"precision@{n}"] for n in range(1, 5)] == pytest.approx(
        [own / 100 for own in oracle.precisions], abs=TOLERANCE
    )
    content = [
        [" ".join(word for word in text.split() if word not in STOP_WORDS) for text in own]
        for own in (shown, targets.values())
    ]
    oracle = sacrebleu.corpus_bleu(content[0], [content[1]], smooth_method="none", tokenize="none", force=True)
    assert row["content@1"] == pytest.approx(oracle.precisions[0] / 100, abs=TOLERANCE)
