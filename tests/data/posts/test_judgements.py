"""Queries, documents and judgements in files of their own, in the shapes of TREC, BEIR and CheckThat!."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ensue import DataError
from ensue.data.posts.corpus import is_corpus, read_corpus
from tests.data.files import write

DOCUMENTS = {
    "tsv": "d1\tthe ferry adds a night crossing\nd2\tthe council votes on roads\nd3\ta third one\n",
    "title": "d1\tFerry\tthe ferry adds a night crossing\nd2\tRoads\tthe council votes\nd3\tThird\ta third one\n",
    "address": "d1\thttp://x\tFerry\tthe ferry sails\nd2\thttp://y\tRoads\tthe council votes\nd3\tu\tt\ta third\n",
    "beir": "".join(f"{json.dumps({'_id': f'd{n}', 'title': 't', 'text': f'body {n}'})}\n" for n in (1, 2, 3)),
    "checkthat": "vclaim_id\tvclaim\ttitle\nd1\tThe ferry sails.\tFerry\nd2\tRoads close.\tRoads\nd3\tThird.\tThird\n",
    "array": json.dumps([{"docid": f"d{n}", "text": f"body {n}"} for n in (1, 2, 3)]),
}
QUERIES = {
    "tsv": "q1\twhen does it sail\nq2\twhat was voted\nq3\tnot judged\n",
    "beir": "".join(f"{json.dumps({'_id': f'q{n}', 'text': f'query {n}', 'metadata': {}})}\n" for n in (1, 2, 3)),
    "checkthat": "tweet_id\ttweet_content\nq1\tit sails at night\nq2\tthey voted\nq3\tnot judged\n",
}
QRELS = {
    "trec": "q1 0 d1 1\nq1 0 d2 0\nq2 0 d2 2\nq2 0 d3 1\n",
    "trec, tabs": "q1\t0\td1\t1\nq1\t0\td2\t0\nq2\t0\td2\t2\nq2\t0\td3\t1\n",
    "beir": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td2\t2\nq2\td3\t1\n",
    "no header": "q1\td1\t1\nq1\td2\t0\nq2\td2\t2\nq2\td3\t1\n",
    "pairs": "q1\td1\nq2\td2\nq2\td3\n",
    "commas": "query,document,relevance\nq1,d1,1\nq1,d2,0\nq2,d2,2\nq2,d3,1\n",
}


@pytest.mark.parametrize("qrels", QRELS)
@pytest.mark.parametrize("queries", QUERIES)
@pytest.mark.parametrize("documents", DOCUMENTS)
def test_by_hand(tmp_path: Path, documents: str, queries: str, qrels: str) -> None:
    found, asked = write(tmp_path, DOCUMENTS[documents], "docs"), write(tmp_path, QUERIES[queries], "queries")
    judged = write(tmp_path, QRELS[qrels], "qrels")
    corpus, (_, said) = read_corpus(asked, found, judgements=judged)
    assert [*corpus.articles.ids] == ["d1", "d2", "d3"]
    # d2 was judged for q1, and is not about it; q3 was not judged.
    assert [(post.id, post.about) for post in corpus.posts.records()] == [("q1", ("d1",)), ("q2", ("d2", "d3"))]
    assert said.notes[-1] == "1 of 3 posts is not judged: left out" and f"about by {judged}" in said.notes


def test_columns_without_a_header_are_said(tmp_path: Path) -> None:
    found, asked = write(tmp_path, DOCUMENTS["title"], "docs"), write(tmp_path, QUERIES["tsv"], "queries")
    corpus, (articles, posts) = read_corpus(asked, found, judgements=write(tmp_path, QRELS["trec"], "qrels"))
    assert articles.notes == ("no header: the columns are read as id, title, text",)
    assert posts.notes[0] == "no header: the columns are read as id, text"
    assert corpus.articles.titles[0] == "Ferry" and corpus.articles.bodies[0] == "the ferry adds a night crossing"
    assert [*posts.columns.values()] == ["text", "id"]


def test_a_folder_of_beir_has_its_parts(tmp_path: Path) -> None:
    write(tmp_path, DOCUMENTS["beir"], "corpus.jsonl")
    write(tmp_path, QUERIES["beir"], "queries.jsonl")
    (tmp_path / "qrels").mkdir()
    for name, query in (("train", "q1"), ("dev", "q2"), ("test", "q3")):
        write(tmp_path / "qrels", f"query-id\tcorpus-id\tscore\n{query}\td1\t1\n", f"{name}.tsv")
    assert is_corpus(tmp_path)
    corpus, _ = read_corpus(tmp_path)
    assert {name: [*corpus.part(name).posts.ids] for name in corpus.parts} == {
        "train": ["q1"], "valid": ["q2"], "test": ["q3"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (
            "x1 0 d1 1\n",
            ": none of its queries matches: it judges query 'x1', and the id of a query or post is 'q1'; give",
        ),
        (
            "q1 0 x1 1\n",
            ": none of its documents matches: it judges document 'x1', and the id of a document is 'd1'; give",
        ),
        ("q1 0 d1 1\nq1 0 d1 yes\n", ", line 2: relevance 'yes' is not a number"),
        ("q1 0 d1 1\nq1 d1 1\n", ", line 2: 3 fields, but the first line has 4; ids hold no spaces"),
        ("q1\n", ", line 1: 1 field; expected query 0 document relevance"),
        ("query-id\tcorpus-id\tscore\n", ": has a header but no judgement"),
        (
            '{"a": 1}\n',
            ": are not judgements; name columns query-id, corpus-id and score, or give lines of query 0 document",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, qrels: str, message: str) -> None:
    found, asked = write(tmp_path, DOCUMENTS["tsv"], "docs"), write(tmp_path, QUERIES["tsv"], "queries")
    judged = write(tmp_path, qrels, "qrels")
    with pytest.raises(DataError) as caught:
        read_corpus(asked, found, judgements=judged)
    assert str(caught.value).startswith(f"{judged}{message}")
