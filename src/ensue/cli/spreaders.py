"""The command ``spreaders``: users who come first, whom many follow, and to whom a model attends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ensue.cli import display, tasks
from ensue.cli.options import TABLES, Data, Json, OwnModel, Reading, Seed, reads, require_output
from ensue.errors import DataError, SettingError
from ensue.lines import plural
from ensue.predictor import load
from ensue.tasks import NEXT

if TYPE_CHECKING:
    from ensue.tasks.next.spreaders import Estimate, Spreader

CAUTION = (
    "counts and weights, not causes: who is early is followed by many whatever they do, and the log does not know "
    "what people saw elsewhere"
)


@reads(*TABLES)
def spreaders(
    data: Data = None,
    folder: Annotated[Path | None, typer.Option(help="model folder (next), for attributions")] = None,
    order_by: Annotated[
        Literal["first", "followed", "credit"] | None,
        typer.Option(help="[default: credit with --folder, else followed]"),
    ] = None,
    top: Annotated[int, typer.Option(help="users to show")] = 20,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write the table: .csv, .tsv, .jsonl, .parquet")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="plot the users to this page")] = None,
    model: OwnModel = "",
    seed: Seed = 0,
    *,
    json: Json = False,
    reading: Reading,
) -> None:
    """Rank users by how they spread cascades, with 95 % intervals (associations, not causes)."""
    path = reading.data(data)
    import polars as pl

    from ensue import figures  # torch and plotly
    from ensue.cli.writing import write
    from ensue.tasks.next import spreaders as spreading
    from ensue.tasks.next.predictor import NextPredictor

    if output is not None:
        require_output(output, [path])
    if html is not None:
        require_output(html, [path], option="--html", formats=(".html",))
    predictor = None if folder is None else load(folder)
    if predictor is not None and not isinstance(predictor, NextPredictor):
        raise SettingError(f"--folder {folder}: a model of task {predictor.task}; give one of task next")
    command = tasks.commands_of(NEXT)
    histories, _ = command.read(path, reading if folder is None else reading.like(folder))
    command.require(histories, path)
    num_events, attention = len(histories.ids), None
    if predictor is not None:
        # The model has weights for the people that it was trained on alone.
        histories = histories.encode(predictor.vocabulary, drop_unknown=True)
        if not len(histories.ids):
            raise DataError(f"{path}: the model of {folder} knows none of these people; fit one on this log")
        attention = spreading.leaned_on(predictor, histories)
    measure = order_by or ("followed" if attention is None else "credit")
    users = spreading.spreaders(histories, attention, by=measure, top=top, seed=seed)
    if output is not None:
        write(pl.DataFrame([_flat(user) for user in users]), output)
    if html is not None:
        plots = [figures.spreaders(users)]
        cascade = None if predictor is None else spreading.drawn_cascade(predictor, histories)
        # A cascade shows what attention looks like on real shares.
        plots += [] if cascade is None else [figures.cascade(cascade)]
        figures.write_html(plots[0], html, *plots[1:])
    if json:
        rows = [user.to_dict() for user in users]
        display.print_json({"spreaders": rows, "in_vocabulary": len(histories.ids), "events": num_events})
        return
    if len(histories.ids) < num_events:
        unknown = f"{num_events - len(histories.ids):,} of {plural(num_events, 'event')}"
        display.log(f"{unknown} are of people the model never saw")
    _show(users)
    for written in (output, html):
        if written is not None:
            display.log(f"wrote {written}")


def _show(users: Sequence[Spreader]) -> None:
    heads = ["#", "user", "cascades", "starts (95 %)", "followers (95 %)"]
    rows = []
    for rank, user in enumerate(users, 1):
        row = [str(rank), display.one_line(user.value), f"{user.cascades:,}", _text(user.first), _text(user.followed)]
        if user.credit is not None:
            row += [_text(user.credit, digits=1), "" if user.times_even is None else f"{user.times_even:.2f}"]
        rows.append(row)
    if users and users[0].credit is not None:
        heads += ["attention received (95 %)", "ratio to uniform"]
    display.table(heads, rows, wraps=("user",))
    display.line(CAUTION)


def _text(estimate: Estimate, *, digits: int = 0) -> str:
    return f"{estimate.total:,.{digits}f} ({estimate.low:,.{digits}f} to {estimate.high:,.{digits}f})"


def _flat(user: Spreader) -> dict[str, object]:
    """Return one row of the table, an interval as two columns."""
    row: dict[str, object] = {}
    for name, value in user.to_dict().items():
        if isinstance(value, dict):
            row |= {name: value["total"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        else:
            row[name] = value
    return row
