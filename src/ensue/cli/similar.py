"""The command ``similar``: the items most similar to an item, and the sessions most similar to a session."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ensue.answers import Answer
from ensue.cli import display, tasks
from ensue.cli.options import TABLES, Folder, Json, OwnModel, Reading, present, reads
from ensue.cli.predict import items_of, seconds_of
from ensue.errors import SettingError
from ensue.predictor import load
from ensue.tasks import NEXT

if TYPE_CHECKING:
    from ensue.tasks.next.predictor import NextPredictor


@reads(*TABLES)
def similar(
    folder: Folder,
    items: Annotated[list[str] | None, typer.Argument(help="ids of items")] = None,
    sessions: Annotated[
        Path | None, typer.Option(callback=present, help="file of sessions, to list similar sessions")
    ] = None,
    among: Annotated[
        Path | None, typer.Option(callback=present, help="log of sessions to search [default: the model's memory]")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="number of similar ones")] = 10,
    exclude: Annotated[
        Path | None, typer.Option(callback=present, help="file of items to leave out, one per line")
    ] = None,
    allow: Annotated[Path | None, typer.Option(callback=present, help="file of the only items to list")] = None,
    filter_: Annotated[
        list[str] | None, typer.Option("--filter", help="'price < 50' by column of the items; repeatable")
    ] = None,
    now: Annotated[str, typer.Option(help="time that 'within 7 d' counts from [default: the clock]")] = "",
    model: OwnModel = "",
    *,
    json: Json = False,
    reading: Reading,
) -> None:
    """List the items most similar to an item, or the sessions most similar to a session (next)."""
    if bool(items) == (sessions is not None):
        raise SettingError("give the ids of items, or --sessions FILE")
    has_rules = exclude or allow or filter_ or now
    if (sessions is None and among) or (sessions is not None and has_rules):
        raise SettingError("--among belongs to --sessions; --exclude, --allow, --filter and --now to items")
    task = tasks.of_folder(folder)
    if task is not NEXT:
        raise SettingError(f"{folder}: is a model of task {task.name}; similar is for models of task next")
    predictor: NextPredictor = load(folder)  # type: ignore[assignment]
    if sessions is not None:
        _similar_sessions(predictor, sessions, among, reading.like(folder), k, json)
        return
    names = list(items or [])
    answers = predictor.similar(
        names,
        k,
        exclude=items_of(exclude, predictor) if exclude else (),
        allow=items_of(allow, predictor) if allow else None,
        filters=filter_ or (),
        now=seconds_of(now) if now else None,
    )
    if not json:
        display.log(f"compared by {predictor.similarity_source}")
    for name, choices in zip(names, answers, strict=True):
        answer = Answer(tuple(choices), in_vocabulary=1, events=1, id=name)
        if json:
            display.print_json_line(answer.to_json())
            continue
        if len(names) > 1:
            display.line(display.one_line(name))
        display.choices(choices, tasks.commands_of(NEXT).COLUMNS)


def _similar_sessions(
    predictor: NextPredictor, sessions: Path, among: Path | None, reading: Reading, k: int, json: bool
) -> None:
    command = tasks.commands_of(NEXT)
    records = list(command.read_records(str(sessions), reading, predictor).records)
    searched = None if among is None else list(command.read_records(str(among), reading, predictor).records)
    for record, neighbours in zip(records, predictor.similar_sessions(records, searched, k), strict=True):
        if json:
            line = {"id": record.id, "sessions": [asdict(neighbour) for neighbour in neighbours]}
            display.print_json_line(dumps(line, ensure_ascii=False))
            continue
        if record.id:
            display.line(display.one_line(record.id))
        rows = []
        for rank, neighbour in enumerate(neighbours, 1):
            values = display.one_line(" ".join(neighbour.values))
            rows.append((str(rank), display.one_line(neighbour.id), f"{neighbour.score:.3f}", values))
        display.table(("#", "session", "score", "items"), rows, wraps=("items",))
