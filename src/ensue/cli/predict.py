"""The commands ``predict`` and ``explain``: one answer per row of the data, in the order of the rows."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import chain, islice
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ensue.answers import Explanation, TextAnswer
from ensue.cli import display, tasks
from ensue.cli.display import Column
from ensue.cli.options import (
    TABLES,
    Folder,
    Json,
    OwnModel,
    Reading,
    input_present,
    limits_of,
    present,
    reads,
    require_output,
)
from ensue.data.file_bytes import read_input
from ensue.errors import DataError, SettingError
from ensue.lines import plural, quoted
from ensue.predictor import AnyPredictor, load
from ensue.records import History, Post, Text
from ensue.tasks.next.true_edges import Compared, compare, true_pairs

if TYPE_CHECKING:
    import polars as pl

    from ensue.tasks.next.predictor import NextPredictor

BATCH = 512
"""Records that are read and predicted at once."""

Source = Annotated[
    str, typer.Argument(metavar="DATA", callback=input_present, help="file, or - for lines of text or JSON on stdin")
]


@reads(*TABLES)
def predict(
    context: typer.Context,
    folder: Folder,
    source: Source = "-",
    k: Annotated[int, typer.Option("-k", help="answers per row")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write rows with answers: .csv, .tsv, .jsonl, .parquet")
    ] = None,
    attributions: Annotated[bool, typer.Option(help="show attributions of each answer", show_default=False)] = True,
    prefix: Annotated[str, typer.Option(help="suggest: what is typed already")] = "",
    exclude: Annotated[
        Path | None, typer.Option(callback=present, help="next: file of items to leave out, one per line")
    ] = None,
    allow: Annotated[Path | None, typer.Option(callback=present, help="next: file of the only items to rank")] = None,
    filter_: Annotated[
        list[str] | None, typer.Option("--filter", help="next: 'price < 50' by column of the items; repeatable")
    ] = None,
    now: Annotated[str, typer.Option(help="next: time that 'within 7 d' counts from [default: the clock]")] = "",
    max_per: Annotated[
        list[str] | None, typer.Option(help="next: at most 2 answers per brand: brand=2; repeatable")
    ] = None,
    diversify: Annotated[str, typer.Option(help="next: mmr=0.3 or calibrated:COLUMN=0.3, weight 0 to 1")] = "",
    exclude_seen: Annotated[
        bool | None,
        typer.Option(
            "--exclude-seen/--include-seen", show_default=False, help="next: items of the session [default: by data]"
        ),
    ] = None,
    rank_unknown: Annotated[bool, typer.Option("--rank-unknown", help="next: rank items unseen in training")] = False,
    steps: Annotated[int | None, typer.Option(help="next: forecast this many events")] = None,
    model: OwnModel = "",
    *,
    json: Json = False,
    reading: Reading,
) -> None:
    """Predict the next items, labels, queries or articles for each row."""
    if output is not None and steps is not None:
        raise SettingError("-o and --steps: a forecast is no table; use --json > FILE")
    if steps is not None and (
        exclude or allow or filter_ or max_per or diversify or rank_unknown or exclude_seen is not None
    ):
        raise SettingError(
            "--steps ranks all items; remove --exclude, --allow, --filter, --max-per, --diversify, --rank-unknown, "
            "--exclude-seen and --include-seen"
        )
    if exclude_seen and rank_unknown:
        raise SettingError("--rank-unknown and --exclude-seen contradict each other; remove one")
    command = tasks.commands_of(tasks.of_folder(folder, context))
    from ensue.cli import writing  # polars

    if output is not None:
        require_output(output, [Path(source)] if source != "-" else [])
    predictor = _load(folder)
    inputs = command.read_records(source, reading.like(folder), predictor)
    keywords: dict[str, Any] = {"prefix": prefix} if prefix else {}
    keywords |= {"exclude": items_of(exclude, predictor)} if exclude else {}
    keywords |= {"allow": items_of(allow, predictor)} if allow else {}
    keywords |= {"filters": filter_} if filter_ else {}
    keywords |= {"now": seconds_of(now)} if now else {}
    keywords |= {"max_per": limits_of(max_per)} if max_per else {}
    keywords |= {"diversify": diversify} if diversify else {}
    keywords |= {} if exclude_seen is None else {"exclude_seen": exclude_seen}
    keywords |= {"rank_unknown": True} if rank_unknown else {}
    # Evidence takes a few more forward passes, and files of most tasks have no column for it.
    keywords["evidence"] = attributions and (output is None or json or command.WRITES_ATTRIBUTIONS)
    records, answers = _with_ids(inputs.records, source), []
    num_answers = num_short = 0
    with display.progress_bar("answers") if output is not None else nullcontext(lambda done, total: None) as count:
        # Someone who types at a terminal is answered after each line.
        while batch := list(islice(records, 1 if source == "-" and sys.stdin.isatty() else BATCH)):
            forecasts = None if steps is None else cast("NextPredictor", predictor).forecast(batch, steps, k)
            for record, answer in zip(batch, forecasts or predictor.predict(batch, k, **keywords), strict=True):
                answer = answer if _has_content(record, source) else _without_choices(answer)
                num_answers += 1
                num_short += forecasts is None and len(answer.choices) < k
                if json:
                    display.print_json_line(answer.to_json())
                elif output is None and forecasts is not None:
                    display.forecast(answer)
                elif output is None:
                    tasks.show_answer(answer, command)
                if output is not None:
                    answers.append(answer)
            count(len(answers), inputs.total)
    if num_short and (exclude or allow or filter_ or max_per):
        display.log(f"{num_short:,} of {plural(num_answers, 'answer')}: the rules permit fewer than {k} items")
    if output is not None:
        frame = _table(inputs, answers, command.COLUMNS, flat=not writing.is_listed(output))
        writing.write(frame, output, byte_order_mark=inputs.byte_order_mark)
        display.log(f"wrote {output}: {plural(len(answers), 'answer')}")


@reads(*TABLES)
def explain(
    context: typer.Context,
    folder: Folder,
    source: Source,
    html: Annotated[Path | None, typer.Option(help="plot the first row's weights to this page")] = None,
    edges: Annotated[
        Path | None, typer.Option(callback=present, help="next: true edges to compare with, 'from to' per line")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="answers per row")] = 3,
    model: OwnModel = "",
    *,
    json: Json = False,
    reading: Reading,
) -> None:
    """Show attributions: weights, and how far a score drops without each event or word."""
    command = tasks.commands_of(tasks.of_folder(folder, context))
    from ensue.data.edges import read_edges  # polars

    truth = None if edges is None else read_edges(edges, **reading.opening)
    predictor = _load(folder)
    inputs = _with_ids(command.read_records(source, reading.like(folder), predictor).records, source)
    # An empty session has nothing to explain; from a terminal it is answered all the same.
    records = (record for record in inputs if not isinstance(record, History) or _has_content(record, source))
    plotted, total = False, Compared()
    while batch := list(islice(records, 256)):
        for explanation in predictor.explain(batch, k):
            if html and not plotted:
                from ensue import figures  # plotly

                figures.write_explanation(explanation, html, truth)
                display.log(f"wrote {html}")
                plotted = True
            line = explanation.to_json() if json else ""
            if truth is not None and isinstance(explanation, Explanation):
                comparison = compare(explanation, truth)
                total += comparison
                pairs = dumps({**asdict(comparison), "edges": true_pairs(explanation, truth)})
                line = f'{line[:-1]}, "true_edges": {pairs}}}'
            if json:
                display.print_json_line(line)
            else:
                command.show_attention(explanation)
                tasks.show_answer(explanation.answer, command)
    if truth is not None:
        display.log(total.sentence())


def items_of(path: Path, predictor: AnyPredictor) -> list[str]:
    """Return the items of a file, one per line; warn where a model knows none of them.

    Raises:
        DataError: it cannot be read, is not text, or is empty.
    """
    import polars as pl

    from ensue.data.ids import whole_numbers

    try:
        lines = [line.strip() for line in read_input(path).decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: cannot be read as lines of UTF-8 ({error}); write one item per line") from error
    items = [line for line in lines if line]
    if not items:
        raise DataError(f"{path}: holds no items; write one per line")
    ids: list[str] = whole_numbers(pl.Series(items)).to_list()
    vocabulary: Collection[str] = getattr(predictor, "vocabulary", ids)
    if not any(item in vocabulary for item in ids):
        count = plural(len(ids), "item")
        display.log(f"warning: {path}: the model knows none of {count}, such as {quoted(ids[0], 40)}; write ids alone")
    return ids


def seconds_of(text: str) -> float:
    """Return a time as seconds since 1970.

    Raises:
        DataError: it is no time.
    """
    import polars as pl

    from ensue.data.clock import parse_times

    return float(parse_times(pl.Series([text]), lambda row: "--now").numbers[0])


def _load(folder: Path) -> AnyPredictor:
    """Return the predictor of a folder.

    The garbage collector is off meanwhile, and passes over these objects from then on: imports and weights stay until
    the end, and to look through them again and again would take a tenth of the time of the answers.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return load(folder)
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def _with_ids(records: Iterator[Any], source: str) -> Iterator[Any]:
    """Yield records of a file with their ids, or else with their numbers from 1."""
    for number, record in enumerate(records, 1):
        yield record if record.id or source == "-" else replace(record, id=str(number))


def _has_content(record: History | Text | Post, source: str) -> bool:
    """Return whether a record holds anything; a session without events is answered where somebody typed it."""
    if isinstance(record, History):
        return bool(record.values) or source == "-"
    return any(text.strip() for text in (record.texts if isinstance(record, Text) else (record.text,)))


def _without_choices(answer: Any) -> Any:
    """Return the answer to a row without text: no choices, rather than the most frequent ones."""
    return replace(answer, choices=(), **({"deletion": None} if isinstance(answer, TextAnswer) else {}))


def _table(inputs: tasks.Records, answers: Sequence[Any], columns: Sequence[Column], *, flat: bool) -> pl.DataFrame:
    """Return the rows of the input, or the ids of its sequences, joined with the answers.

    The names of columns of further choices end in ``_2`` and so on. The last columns say how many words or items were
    ``in_vocabulary`` of all ``events``.
    """
    import polars as pl

    all_choices = [answer.choices for answer in answers]
    written = [column for column in columns if column.name and column.is_shown(chain.from_iterable(all_choices))]
    series = []
    # Columns of the first choice, then those of the second with the suffix _2, and so on.
    for rank in range(max([1, *map(len, all_choices)])):
        suffix = f"_{rank + 1}" if rank else ""
        for column in written:
            values = [column.value(choices[rank]) if rank < len(choices) else None for choices in all_choices]
            dtype = pl.Float64 if column.is_number else pl.String
            series.append(pl.Series(f"{column.name}{suffix}", values, dtype))
    if any(getattr(answer, "labels", None) is not None for answer in answers):
        # Labels that hold a semicolon are told apart by another delimiter.
        labels = {label for answer in answers for label in answer.labels}
        delimiter = next((each for each in ";|," if not any(each in label for label in labels)), ";")
        series.insert(0, pl.Series("labels", [delimiter.join(answer.labels) for answer in answers], pl.String))
    for name in ("in_vocabulary", "events"):
        series.append(pl.Series(name, [getattr(answer, name) for answer in answers], pl.Int64))
    added = pl.DataFrame(series)
    if inputs.join is not None:
        return inputs.join(added, flat)
    return pl.DataFrame({"id": [answer.id for answer in answers]}, schema={"id": pl.String}).hstack(added)
