"""What ``predict`` and ``explain`` do: ask a model for every record, and show or write what it says."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import islice
from json import dumps
from pathlib import Path
from typing import Any

import polars as pl

from ensue.answers import Explanation, Link, TextAnswer
from ensue.cli import show, writing
from ensue.cli.asked import Asked
from ensue.cli.command import command_of
from ensue.cli.options import Reading
from ensue.cli.writing import is_listed
from ensue.data.edges import read_edges
from ensue.data.file_bytes import read_input
from ensue.data.ids import whole_numbers
from ensue.errors import DataError
from ensue.lines import plural
from ensue.predictor import AnyPredictor, Forecasts, load
from ensue.records import History, Post, Text
from ensue.tasks.base import Task
from ensue.tasks.next.true_edges import Compared, compare, true_pairs

_AT_ONCE = 512


def predict(
    task: Task,
    folder: Path,
    source: str,
    k: int,
    output: Path | None,
    evidence: bool,
    prefix: str,
    exclude: Path | None,
    allow: Path | None,
    exclude_seen: bool | None,
    rank_unknown: bool,
    steps: int | None,
    reading: Reading,
    *,
    as_json: bool,
) -> None:
    """Answer every record, in its order, with its id or number."""
    command = command_of(task)
    if output is not None:
        writing.require_place(output, [Path(source)] if source != "-" else [])
    predictor = _load(folder)
    asked = command.records(source, reading.like(folder), predictor)
    more: dict[str, Any] = {"prefix": prefix} if prefix else {}
    more |= {"exclude": _values(exclude)} if exclude else {}
    more |= {"allow": _values(allow)} if allow else {}
    more |= {} if exclude_seen is None else {"exclude_seen": exclude_seen}
    more |= {"rank_unknown": True} if rank_unknown else {}
    more["evidence"] = evidence and (output is None or as_json or command.WRITES_EVIDENCE)
    records, found = _named(asked.records, source), []
    with show.counted("answers") if output is not None else nullcontext(lambda done, total: None) as count:
        while some := list(islice(records, 1 if source == "-" and sys.stdin.isatty() else _AT_ONCE)):
            ahead = None
            if steps is not None and isinstance(predictor, Forecasts):
                ahead = predictor.forecast(some, steps, k)
            for record, answer in zip(some, ahead or predictor.predict(some, k, **more), strict=True):
                answer = answer if _says_something(record, source) else _none(answer)
                if as_json or output is None:
                    show.put_json_line(answer.to_json()) if as_json else command.show_answer(answer)
                if output is not None:
                    found.append(answer)
            count(len(found), asked.total)
    if output is not None:
        writing.write(_table(asked, found, output), output, byte_order_mark=asked.byte_order_mark)
        show.remark(f"wrote {output}: {plural(len(found), 'answer')}")


def _values(path: Path) -> list[str]:
    """The lines of a file.

    Raises:
        DataError: it cannot be read, is no text, or empty.
    """
    try:
        found = [line.strip() for line in read_input(path).decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: cannot be read as lines of UTF-8 ({error}); write one item per line") from error
    values = [value for value in found if value]
    if not values:
        raise DataError(f"{path}: holds no items; write one per line")
    return whole_numbers(pl.Series(values)).to_list()


def explain(
    task: Task,
    folder: Path,
    source: str,
    html: Path | None,
    edges: Path | None,
    k: int,
    reading: Reading,
    *,
    as_json: bool,
) -> None:
    """Explain every record; the first one is drawn if told where."""
    command = command_of(task)
    truth = None if edges is None else read_edges(edges, **reading.opening)
    drawing: dict[str, object] = {} if truth is None else {"truth": truth}
    predictor = _load(folder)
    every = _named(command.records(source, reading.like(folder), predictor).records, source)
    records = (one for one in every if not isinstance(one, History) or _says_something(one, source))
    drawn, compared = False, Compared()
    while some := list(islice(records, 256)):
        for explanation in predictor.explain(some, k):
            if html and not drawn:
                command.draw(explanation, html, **drawing)
                show.remark(f"wrote {html}")
                drawn = True
            line = explanation.to_json() if as_json else ""
            if truth is not None and isinstance(explanation, Explanation):
                compared += (own := compare(explanation, truth))
                pairs = dumps({**asdict(own), "edges": true_pairs(explanation, truth)})
                line = f'{line[:-1]}, "true_edges": {pairs}}}'
            show.put_json_line(line) if as_json else command.show_explanation(explanation)
    if truth is not None:
        show.remark(compared.sentence())


def _load(folder: Path) -> AnyPredictor:
    """The predictor of a folder.

    What is imported and read stays until the end: the collector, which would look through it again and again for a
    tenth of the time that an answer takes, waits meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return load(folder)
    finally:
        if collects:
            gc.enable()


def _named(records: Iterator[Any], source: str) -> Iterator[Any]:
    """Records of a file by their own ids, or else by their numbers from 1."""
    for number, record in enumerate(records, 1):
        yield record if record.id or source == "-" else replace(record, id=str(number))


def _says_something(record: History | Text | Post, source: str) -> bool:
    """Whether a record holds anything; a history without events is asked about where somebody typed it."""
    if isinstance(record, History):
        return bool(record.values) or source == "-"
    return any(text.strip() for text in (record.texts if isinstance(record, Text) else (record.text,)))


def _none(answer: Any) -> Any:
    """The answer to a row that holds no text: no choices, rather than the most frequent ones."""
    return replace(answer, choices=(), **({"deletion": None} if isinstance(answer, TextAnswer) else {}))


def _table(asked: Asked, answers: Sequence[Any], output: Path) -> pl.DataFrame:
    """The rows of the input, or the ids of its sequences, with the answers beside them."""
    added = pl.DataFrame(_columns(answers))
    if asked.beside is not None:
        return asked.beside(added, not is_listed(output))
    return pl.DataFrame({"id": [answer.id for answer in answers]}, schema={"id": pl.String}).hstack(added)


def _columns(answers: Sequence[Any]) -> list[pl.Series]:
    """``prediction``, ``score`` or ``probability``, ``title`` where items have titles, of links ``sentence``.

    Further choices end in ``_2`` and so on. Last, how many words or ids were ``in_vocabulary`` of all ``events``.
    """
    every = [answer.choices for answer in answers]
    sure = any(getattr(choice, "probability", None) is not None for choices in every for choice in choices)
    linked = any(isinstance(choice, Link) for choices in every for choice in choices)
    titled = any(getattr(choice, "title", "") for choices in every for choice in choices)
    likely = sure or any(isinstance(answer, TextAnswer) for answer in answers)
    found = []
    for rank in range(max([1, *map(len, every)])):
        ends = f"_{rank + 1}" if rank else ""
        chosen = [choices[rank] if rank < len(choices) else None for choices in every]
        values = [None if choice is None else choice.value for choice in chosen]
        scores = [None if choice is None else choice.probability if sure else choice.score for choice in chosen]
        found.append(pl.Series(f"prediction{ends}", values, pl.String))
        found.append(pl.Series(f"{'probability' if likely else 'score'}{ends}", scores, pl.Float64))
        if titled:
            titles = [None if choice is None else choice.title or None for choice in chosen]
            found.append(pl.Series(f"title{ends}", titles, pl.String))
        if linked:
            found.append(pl.Series(f"sentence{ends}", [choice and choice.sentence for choice in chosen], pl.String))
    counts = ((name, [getattr(answer, name) for answer in answers]) for name in ("in_vocabulary", "events"))
    return [*found, *(pl.Series(name, numbers, pl.Int64) for name, numbers in counts)]
