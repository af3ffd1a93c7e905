"""What the service knows of each task: the records it takes, how it asks a predictor, and what an update is made of."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ensue.data.histories import Histories
from ensue.data.posts import Articles, Corpus, Posts
from ensue.data.queries import Queries, read_queries
from ensue.data.queries.rules import QueryRules
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.records import Article, History, Post, Text

RECORDS: Mapping[str, type[History | Text | Post]] = {
    "next": History,
    "suggest": History,
    "classify": Text,
    "link": Post,
}
"""The record of each task."""


class Kind(NamedTuple):
    """A kind of question; requests of one kind are answered together."""

    verb: str
    k: int
    evidence: bool = True


class Typed(NamedTuple):
    """A session, and what stands in the search box already."""

    record: History
    prefix: str


def read_record(task: str, found: object, where: str) -> Any:
    """A decoded JSON object as the record of a task.

    Raises:
        DataError: naming ``where``, the field and what to do.
    """
    if not isinstance(found, dict):
        raise DataError(f"{where}: must be an object such as {_example(task)}")
    if (needed := _NEEDED[task]) not in found:
        raise DataError(f'{where}: field "{needed}" is missing; expected {_example(task)}')
    return RECORDS[task].from_fields(found, where)


def texts_of(record: Any) -> tuple[str, ...]:
    """What a record holds that may be long: its values, its texts, or its text."""
    own = record.record if isinstance(record, Typed) else record
    if isinstance(own, Post):
        return (own.text,)
    return own.texts if isinstance(own, Text) else own.values


def load(record: Any) -> int:
    """Roughly what a record costs: its words and values, and something for being one at all."""
    texts = texts_of(record)
    return 20 + len(texts) + sum(text.count(" ") for text in texts)


def answer(predictor: Any, kind: Kind, asked: Sequence[Any]) -> list[str]:
    """A line of JSON for each record: of an answer, or of an explanation."""
    more: dict[str, Any] = {}
    records = asked
    if predictor.task == "suggest":
        records = [one.record for one in asked]
        more = {"prefix": [one.prefix for one in asked]}
    if kind.verb == "explain":
        return [found.to_json() for found in predictor.explain(records, kind.k)]
    return [found.to_json() for found in predictor.predict(records, kind.k, evidence=kind.evidence, **more)]


def warm_up(predictor: Any) -> None:
    """Ask a first question, so that nobody has to wait for what is made once."""
    task = predictor.task
    if task == "classify":
        answer(predictor, Kind("predict", 1), [Text(("a", "a") if predictor.facts["paired"] else ("a",))])
    elif task == "link":
        answer(predictor, Kind("predict", 1), [Post("a")])
    elif task == "suggest":
        answer(predictor, Kind("predict", 1), [Typed(History(("a",)), "")])
    else:
        answer(predictor, Kind("predict", 1), [History(tuple(predictor.vocabulary.values[:1]))])


def describe(predictor: Any) -> dict[str, Any]:
    """What ``/v1/models`` says of a model, beside its name and version."""
    facts: dict[str, Any] = {"task": predictor.task, "model": predictor.model_name}
    if predictor.task == "classify":
        facts |= {"labels": predictor.labels, "paired": bool(predictor.facts["paired"])}
    elif predictor.task == "link":
        facts |= {"articles": len(predictor.articles)}
    elif predictor.task == "next":
        facts |= {"values": len(predictor.vocabulary.values), "timed": bool(predictor.facts.get("timed"))}
    return facts


def data_of(predictor: Any, records: Sequence[Any], body: Mapping[str, Any]) -> Any:
    """What ``update`` learns of a request: records, of queries also who typed them, of posts also new articles.

    Raises:
        DataError: nothing can be learned from it.
    """
    if predictor.task == "next":
        return Histories.of(records)
    if predictor.task == "classify":
        return Texts.of(records)
    if predictor.task == "link":
        articles = [Article.from_fields(found, f"articles[{at}]") for at, found in enumerate(body.get("articles", []))]
        return Corpus(Articles.of(articles), Posts.of(records))
    return _queries(records, body.get("users"), predictor.facts["normalisation"])


def _queries(records: Sequence[History], users: Sequence[str] | None, normalisation: Any) -> Queries:
    """Sessions by the rules of a log: users and sessions are numbered, their names go nowhere."""
    rows = [
        {
            **({} if users is None else {"user": str(users[session])}),
            "session": str(session),
            "query": query,
            "time": record.times[place] if record.times else place,
        }
        for session, record in enumerate(records)
        for place, query in enumerate(record.values)
    ]
    if not rows:
        raise DataError("new data: there are no queries")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queries.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        try:
            return read_queries(path, rules=QueryRules(normalisation=normalisation), time_unit="s")[0]
        except DataError as error:
            raise DataError(str(error).replace(str(path), "new data")) from error


_NEEDED = {"next": "values", "suggest": "values", "classify": "texts", "link": "text"}


def _example(task: str) -> str:
    return {"values": '{"values": ["a", "b"]}', "texts": '{"texts": ["a text"]}', "text": '{"text": "a post"}'}[
        _NEEDED[task]
    ]
