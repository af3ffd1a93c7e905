"""Ids of texts, queries, posts, articles, judgements and runs: the same normal form as those of event logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ensue import DataError
from ensue.data.posts.corpus import read_corpus
from ensue.data.posts.dataset import read_articles, read_posts
from ensue.data.queries import read_queries
from ensue.data.rankings import read_rankings
from ensue.data.sequences import read
from ensue.data.texts import read_texts
from tests.data.files import records, write
from tests.data.forms import FORMS, write_excel

KINDS = {"texts": pl.String, "whole": pl.Int64, "floats": pl.Float64}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> type[pl.DataType]:
    return KINDS[str(request.param)]


def test_posts_articles_and_their_links_have_one_id_each(form: str, kind: type[pl.DataType], tmp_path: Path) -> None:
    posts = pl.DataFrame({"id": [7, 8], "text": ["the ferry sails", "the bus stops"], "about": [20, 10]})
    articles = pl.DataFrame({"id": [10, 20], "title": ["Bus", "Ferry"], "body": ["It stops.", "It sails."]})
    ids = {"id": kind, "about": kind}
    FORMS[form](posts.cast({name: ids[name] for name in ("id", "about")}), tmp_path / f"posts.{form}")
    FORMS[form](articles.cast({"id": kind}), tmp_path / f"articles.{form}")
    corpus, _ = read_corpus(tmp_path / f"posts.{form}", tmp_path / f"articles.{form}")
    assert (corpus.posts.ids.to_list(), corpus.articles.ids.to_list()) == (["7", "8"], ["10", "20"])
    assert corpus.pairs.tolist() == [[1, 0], [0, 1]]


def test_judgements_of_any_table_name_them(form: str, kind: type[pl.DataType], tmp_path: Path) -> None:
    posts = write(tmp_path, "id,text\n7,the ferry sails\n8,the bus stops\n", "posts.csv")
    articles = write(tmp_path, "id,body\n10,It stops.\n20,It sails.\n", "articles.csv")
    qrels = pl.DataFrame({"score": [1, 0, 2], "corpus-id": [20, 10, 10], "query-id": [7, 7, 8]})
    FORMS[form](qrels.cast({"corpus-id": kind, "query-id": kind}), tmp_path / f"qrels.{form}")
    corpus, _ = read_corpus(posts, articles, judgements=tmp_path / f"qrels.{form}")
    assert corpus.pairs.tolist() == [[1, 0], [0, 1]]


def test_users_and_sessions_of_queries_are_the_same_people(form: str, kind: type[pl.DataType], tmp_path: Path) -> None:
    log = pl.DataFrame({"user": [7, 7, 8, 8], "session": [1, 1, 2, 2], "query": ["a b", "c d", "a b", "e f"]})
    FORMS[form](log.cast({"user": kind, "session": kind}), tmp_path / f"log.{form}")
    queries, understood = read_queries(tmp_path / f"log.{form}")
    assert [record.values for record in queries.records()] == [("a b", "c d"), ("a b", "e f")]
    assert queries.users.tolist() == [2, 1, 1]
    assert understood.warnings == ()


def test_a_user_that_is_missing_is_nobody(tmp_path: Path) -> None:
    rows = "".join(f"{user},query {n},2024-01-01T10:00:0{n}Z\n" for n, user in enumerate(["7.0", "7.0", "nan", "nan"]))
    path = write(tmp_path, f"user,query,time\n{rows}", "log.csv")
    queries, understood = read_queries(path)
    assert [record.values for record in queries.records()] == [("query 0", "query 1")]
    assert understood.warnings[0].startswith("2 of 4 rows have no user (nan in column 'user'")
    queries, _ = read_queries(path, missing="keep")
    assert len(queries) == 2


def test_texts_keep_the_ids_that_runs_name(form: str, kind: type[pl.DataType], tmp_path: Path) -> None:
    texts = pl.DataFrame({"id": [7, 8], "text": ["fine film", "bad film"], "label": ["good", "bad"], "group": [1, 2]})
    FORMS[form](texts.cast({"id": kind, "group": kind}), tmp_path / f"texts.{form}")
    found, _ = read_texts(tmp_path / f"texts.{form}")
    assert found.ids is not None
    assert found.groups is not None
    assert (found.ids.to_list(), found.groups.to_list()) == (["7", "8"], ["1", "2"])


@pytest.mark.parametrize(("query", "expected"), [("7.0", "7"), ("7.0:2", "7:2"), ("a7.0", "a7.0")])
def test_a_run_of_another_program_names_the_same_ids(query: str, expected: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"{query} Q0 20.0 1 2.5 tag\n{query} Q0 10 2 1.5 tag\n", "run.trec")
    frame = read_rankings(path).frame
    assert frame.select("query", "value").rows() == [(expected, "20"), (expected, "10")]


def test_numbers_that_a_workbook_rounded_are_told_from_texts(tmp_path: Path) -> None:
    number, text = 1234567890123456789, "1234567890123457024"
    log = pl.DataFrame({"session": ["1", "1"], "item": [text, "7"], "time": [1, 2]})
    write_excel(log, tmp_path / "texts.xlsx")
    assert records(read(tmp_path / "texts.xlsx")[0])[0].values == (text, "7")
    write_excel(log.with_columns(item=pl.Series([7, number])), tmp_path / "numbers.xlsx")
    with pytest.raises(DataError, match=r"numbers.xlsx row 3: ids such as 1.23456789012346E\+18 were cut by a spread"):
        read(tmp_path / "numbers.xlsx")


@pytest.mark.parametrize("reader", [read_posts, read_articles])
def test_ids_of_posts_that_a_spreadsheet_cut_name_the_cause(
    reader: Callable[..., tuple[object, object]], tmp_path: Path
) -> None:
    path = write(tmp_path, "id,text\n1.29403E+18,the ferry sails\n1.29403E+18,the bus stops\n", "posts.csv")
    with pytest.raises(DataError, match=r"posts.csv, line 2: ids such as 1.29403E\+18 were cut by a spreadsheet"):
        reader(path)


INDEXED = {
    "comma": (",query-id,corpus-id,score\n0,7,20,1\n1,8,10,1\n", ","),
    "tab": ("\tquery-id\tcorpus-id\tscore\n0\t7\t20\t1\n1\t8\t10\t1\n", ""),
    "named": ("Unnamed: 0,query-id,corpus-id,score\n0,7,20,1\n1,8,10,1\n", ""),
    "no header": ("0,7,20,1\n1,8,10,1\n", ""),
}


@pytest.mark.parametrize("name", INDEXED)
def test_row_numbers_that_pandas_wrote_are_no_ids(name: str, tmp_path: Path) -> None:
    posts = write(tmp_path, ",id,text\n0,7,the ferry sails\n1,8,the bus stops\n", "posts.csv")
    articles = write(tmp_path, ",id,body\n0,10,It stops.\n1,20,It sails.\n", "articles.csv")
    qrels = write(tmp_path, INDEXED[name][0], "qrels")
    corpus, _ = read_corpus(posts, articles, judgements=qrels)
    assert corpus.pairs.tolist() == [[1, 0], [0, 1]]
    log = write(tmp_path, ",session,item,time\n0,1,a,5\n1,1,b,6\n", "log.csv")
    assert records(read(log)[0])[0].values == ("a", "b")
    texts, _ = read_texts(write(tmp_path, ",text,label\n0,fine,good\n1,bad,bad\n", "texts.csv"))
    assert texts.ids is None


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
def test_judgements_of_rows_without_ids_are_refused(index: str, tmp_path: Path) -> None:
    posts = write(tmp_path, f"{index},text\n1,the ferry sails\n2,the bus stops\n", "posts.csv")
    articles = write(tmp_path, "id,body\n10,It stops.\n20,It sails.\n", "articles.csv")
    with pytest.raises(DataError, match=r"posts.csv: has no column of ids that .*qrels could name; .*--columns id=…"):
        read_corpus(posts, articles, judgements=write(tmp_path, "1 0 20 1\n2 0 10 1\n", "qrels"))
