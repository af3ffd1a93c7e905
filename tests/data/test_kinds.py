"""Which files are logs and which are labelled texts, by their shape alone."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ensue import DataError
from ensue.data.kinds import is_plain, kind_of

TEXTS = {
    "labelled lines": "pos\ta fine film\nneg\ta dull one\n",
    "labelled lines, numbers": "1\ta fine film\n0\ta dull one\n",
    "pairs": "yes\ta man sleeps\ta man rests\n",
    "csv": "text,label\na fine film,pos\n",
    "csv over several lines": 'id,review,stars\n1,"fine\n\nfilm",5\n',
    "a text and no log": "id,body,colour\n1,a fine film,red\n",
    "user and item beside text and label": "user_id,business_id,stars,text\nu1,b1,5,a fine film\n",
    "tsv": "sentence\tlabel\na fine film\t1\n",
    "snli": '{"gold_label": "neutral", "sentence1": "a man sleeps", "sentence2": "he dreams"}\n',
    "jsonl": '{"review": "a fine film", "sentiment": "pos"}\n',
    "records": '{"texts": ["a fine film"], "label": "pos"}\n',
    "fasttext": "__label__pos a fine film\n",
    "trees": "(3 (2 fine) (2 film))\n",
    "ss": "u1\t\tp1\t\t5\t\ta fine film <sssss> yes\n",
    "labelled words": "DESC:manner How did it begin ?\nENTY:cremat What films ?\nDESC:def What is it ?\nENTY:a Who ?\n",
    "labelled words, numbers": "1 a fine film\n0 a dull one\n1 fine\n0 dull\n",
    "labelled csv": '"3","A title","a text, and more"\n',
    "sick": "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t3\tNEUTRAL\n",
    "one column per label": "id,comment_text,toxic,insult\n1,a fine film,0,1\n2,dull,1,0\n",
    "one column per label, an unknown name": "id,post,toxic,insult\n1,a fine film,0,1\n2,dull,1,0\n",
    "imdb": "pos/17\ttt01\t9\ta fine film\n",
}
LOGS = {
    "histories": '{"values": ["a", "b"], "times": [1, 2]}\n',
    "events": '{"session": "s", "item": "a", "time": 1}\n',
    "csv": "session,item,time\ns,a,1\n",
    "tsv": "SessionId\tItemId\tTime\n1\ta\t5\n",
    "two columns": "user\titem\n1\ta\n",
    "hidan": "ann,bob:1,2\n",
    "forest": "ann,1 bob,2\n",
    "sessions": "a1 b2 c3\nd4 e5\n",
    "posts without a label": "session,item,text\ns,a,hello there\n",
    "neither": "colour,size\nred,1\n",
    "clicks with the query": "session,item,query,time\ns,a,films,1\n",
}
QUERIES = {
    "user and time": "user,query,time\nu1,a fine film,5\n",
    "session": "SessionId\tSearchTerm\ns1\ta fine film\n",
    "aol": "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n1\tfilms\t2006-03-01 07:17:12\t\t\n",
    "ubi": '{"_source": {"user_query": "films", "client_id": "c", "timestamp": 1}}\n',
    "jsonl": '{"user": "u1", "query": "films", "time": 3}\n',
    "turns": "conversation,turn,text\n1,1,a fine film\n",
    "conversations": '{"number": 1, "turn": [{"number": 1, "raw_utterance": "a fine film"}]}\n',
    "messages": '[{"messages": [{"role": "user", "content": "a fine film"}]}]\n',
    "phrases": '{"values": ["a fine film", "films"]}\n',
    "session lists": "split\tsession\tqueries (tab separated, in order)\ntrain\ts1\ta\tb\n",
}
EXPORTS = {
    "4cat": "id,thread_id,timestamp,unix_timestamp,subject,body,author\n7,7,2024-01-01 10:00:00,1,,a post,ann\n",
    "4cat of a platform": "from_url,id,thread_id,author,body,timestamp,likes\nu,7,7,ann,a post,2024-01-01,3\n",
    "twarc csv": '"id","conversation_id","author_id","created_at","text","lang"\n1,1,9,2024-01-01T10:00Z,a post,en\n',
    "twarc csv, first API": "tweet_url,created_at,user_screen_name,text,id\nu,Mon Jan 01,ann,a post,1\n",
    "twarc v2, pages": '{"data": [{"id": "1", "text": "a post", "author_id": "2"}], "includes": {}}\n',
    "twarc v1": '{"id_str": "1", "full_text": "a post", "user": {}}\n',
    "zeeschuimer": '{"nav_index": "0", "item_id": "1", "source_platform": "tiktok.com", "data": {"desc": "a post"}}\n',
    "bluesky": '{"uri": "at://x", "record": {"text": "a post"}}\n',
    "bluesky, a document": '{"posts": [\n {"uri": "at://x", "record": {"text": "a post"}}]}\n',
    "bluesky csv": "cid,uri,user_handle,user_did,timestamp_utc,text\nb,at://x,ann.example,did:x,1700000000,a post\n",
    "media cloud": "stories_id,publish_date,title,url,language,media_name\n1,2024-01-01,A title,https://a.b/c,en,A\n",
    "media cloud, new": "id,indexed_date,language,media_name,media_url,publish_date,title,url\n1,2,en,A,a.b,2024,T,u\n",
}
FILES = {"texts": TEXTS, "sequences": LOGS, "queries": QUERIES, "posts": EXPORTS}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, files in FILES.items() for name in files])
def test_the_shape_decides(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / "data"
    path.write_text(FILES[kind][name])
    assert kind_of(path) == kind


def test_stated_columns_decide(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("colour,size\nred,1\n")
    assert kind_of(path, {"text": "colour"}) == "texts" == kind_of(path, phrases=True)
    assert kind_of(path, {"session": "colour", "item": "size"}) == "sequences"
    assert kind_of(path, {"user": "colour", "query": "size", "time": "size"}) == "queries"
    path.write_text("text,label\nfine,1\n")
    assert kind_of(path, {"session": "text"}) == "sequences"


@pytest.mark.parametrize(("columns", "kind"), [(("review", "stars"), "texts"), (("session", "item"), "sequences")])
def test_parquet_is_told_by_its_columns(tmp_path: Path, columns: tuple[str, str], kind: str) -> None:
    pl.DataFrame({columns[0]: ["a"], columns[1]: ["b"], "odd": [[1]]}).write_parquet(tmp_path / "data")
    assert kind_of(tmp_path / "data") == kind
    assert not is_plain(tmp_path / "data")


@pytest.mark.parametrize("name", TEXTS)
def test_known_layouts_are_not_plain(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").write_text(TEXTS[name])
    assert not is_plain(tmp_path / "data")


@pytest.mark.parametrize("line", ["a fine film", "Fine, truly: a film; really!", "fine", "12 monkeys | a film"])
def test_a_text_a_line_is_plain(tmp_path: Path, line: str) -> None:
    (tmp_path / "data").write_text(f"\n{line}\ntext,label\n")
    assert is_plain(tmp_path / "data")


def test_no_file(tmp_path: Path) -> None:
    for ask in (kind_of, is_plain):
        with pytest.raises(DataError, match=r"none: no such file; check the name$"):
            ask(tmp_path / "none")
