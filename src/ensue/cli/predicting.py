"""The verbs ``predict`` and ``explain``: an answer for every row or sequence, in its order, with its id or number."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ensue.cli import tasks
from ensue.cli.asked import Asked
from ensue.cli.options import (
    TABLES,
    Folder,
    Json,
    Own,
    Reading,
    input_present,
    reads,
)
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.records import History, Post, Text

if TYPE_CHECKING:
    import polars as pl

_AT_ONCE = 512


@reads(*TABLES)
def predict(
    context: typer.Context,
    folder: Folder,
    source: Annotated[
        str,
        typer.Argument(
            metavar="[INPUT]",
            callback=input_present,
            help="a log or texts; - for JSON Lines, or plain texts, on stdin",
        ),
    ] = "-",
    k: Annotated[int, typer.Option("-k", help="choices an answer")] = 10,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="write the rows with their answers beside them here: .csv, .tsv, .jsonl, .parquet"
        ),
    ] = None,
    evidence: Annotated[bool, typer.Option(help="show what each choice leaned on")] = True,
    prefix: Annotated[str, typer.Option(help="of suggestions: what stands in the search box already")] = "",
    steps: Annotated[int | None, typer.Option(help="of next: roll forward so far, who and when and whether")] = None,
    model: Own = "",
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Rank what comes next after each history, or the labels of each text: one answer a row; new values are welcome."""
    from ensue.cli import show, writing

    if output is not None:
        if steps is not None:
            raise SettingError("-o and --steps: a forecast has no row a sequence; give --json and > instead of -o")
        writing.require_place(output, [Path(source)] if source != "-" else [])
    chosen, predictor = _opened(folder, context)
    asked = chosen.records(source, reading, predictor)
    more: dict[str, Any] = {"prefix": prefix} if prefix else {}
    more["evidence"] = evidence and (output is None or json or predictor.task == "link")
    records, found = _named(asked.records, source), []
    with show.counted("answers") if output is not None else nullcontext(lambda done, total: None) as count:
        while some := list(islice(records, 1 if source == "-" and sys.stdin.isatty() else _AT_ONCE)):
            ahead = predictor.forecast(some, steps, k) if steps is not None else None
            for record, answer in zip(some, ahead or predictor.predict(some, k, **more), strict=True):
                answer = answer if _says_something(record, source) else _none(answer)
                if json or output is None:
                    show.put_json_line(answer.to_json()) if json else chosen.show_answer(answer)
                if output is not None:
                    found.append(answer)
            count(len(found), asked.total)
    if output is not None:
        writing.write(_table(asked, found, output), output, byte_order_mark=asked.byte_order_mark)
        show.remark(f"wrote {output}: {plural(len(found), 'answer')}")


def _opened(folder: Path, context: typer.Context) -> tuple[tasks.Command, Any]:
    """The task of a folder, and its predictor.

    What is imported and read stays until the end: the collector, which would look through it again and again for a
    tenth of the time that an answer takes, waits meanwhile.
    """
    chosen, collects = tasks.of_folder(folder, context), gc.isenabled()
    gc.disable()
    try:
        from ensue.predictor import load

        return chosen, load(folder)
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
    return replace(answer, choices=(), **({"deletion": None} if hasattr(answer, "deletion") else {}))


def _table(asked: Asked, answers: Sequence[Any], output: Path) -> pl.DataFrame:
    """The rows of the input, or the ids of its sequences, with the answers beside them."""
    import polars as pl

    from ensue.cli.writing import is_listed

    added = pl.DataFrame(_columns(answers))
    if asked.beside is not None:
        return asked.beside(added, not is_listed(output))
    return pl.DataFrame({"id": [answer.id for answer in answers]}, schema={"id": pl.String}).hstack(added)


def _columns(answers: Sequence[Any]) -> list[pl.Series]:
    """``prediction``, ``score`` or ``probability``, of links ``sentence``; further choices end in ``_2`` and so on.

    Last, how many words or ids were ``known`` of those ``given``.
    """
    import polars as pl

    every = [answer.choices for answer in answers]
    sure = any(getattr(choice, "probability", None) is not None for choices in every for choice in choices)
    linked = any(hasattr(choice, "sentence") for choices in every for choice in choices)
    likely = sure or any(hasattr(answer, "deletion") for answer in answers)
    found = []
    for rank in range(max([1, *map(len, every)])):
        ends = f"_{rank + 1}" if rank else ""
        chosen = [choices[rank] if rank < len(choices) else None for choices in every]
        values = [None if choice is None else choice.value for choice in chosen]
        scores = [None if choice is None else choice.probability if sure else choice.score for choice in chosen]
        found.append(pl.Series(f"prediction{ends}", values, pl.String))
        found.append(pl.Series(f"{'probability' if likely else 'score'}{ends}", scores, pl.Float64))
        if linked:
            found.append(pl.Series(f"sentence{ends}", [choice and choice.sentence for choice in chosen], pl.String))
    counts = ((name, [getattr(answer, name) for answer in answers]) for name in ("known", "given"))
    return [*found, *(pl.Series(name, numbers, pl.Int64) for name, numbers in counts)]


@reads(*TABLES)
def explain(
    context: typer.Context,
    folder: Folder,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            callback=input_present,
            help="a log or texts; - for JSON Lines, or plain texts, on stdin",
        ),
    ],
    html: Annotated[Path | None, typer.Option(help="draw the first one's weights into this page")] = None,
    k: Annotated[int, typer.Option("-k", help="choices an answer")] = 3,
    model: Own = "",
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Show what an answer leaned on inside each history or text, and what it loses without that."""
    from ensue.cli import show

    chosen, predictor = _opened(folder, context)
    every = _named(chosen.records(source, reading, predictor).records, source)
    records = (one for one in every if not isinstance(one, History) or _says_something(one, source))
    drawn = False
    while some := list(islice(records, 256)):
        for explanation in predictor.explain(some, k):
            if html and not drawn:
                from ensue import figures

                first, *more = chosen.pictures(explanation)
                figures.write_html(first, html, *more)
                show.remark(f"wrote {html}")
                drawn = True
            show.put_json_line(explanation.to_json()) if json else chosen.show_explanation(explanation)
