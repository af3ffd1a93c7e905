"""The command ``check``: how a file is read, and problems in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import display, tasks
from ensue.cli.options import LINKED, TABLES, Data, Json, Reading, all_present, reads
from ensue.data.schema import CheckFindings


@reads(*TABLES, *LINKED, "min_users")
def check(
    context: typer.Context,
    data: Data = None,
    compare_to: Annotated[
        list[Path] | None, typer.Option(callback=all_present, help="file to search for leaks; repeatable")
    ] = None,
    *,
    task: Annotated[str, typer.Option(help="next, classify, suggest or link [default: auto]")] = "",
    json: Json = False,
    reading: Reading,
) -> None:
    """Show how a file is read, and problems in it."""
    data = reading.data(data)
    file_task = tasks.of_file(data, reading, task, context)
    reading = replace(reading, missing=reading.missing or "report")
    arguments = tasks.commands_of(file_task).read_for_check(data, compare_to or [], reading)
    findings: CheckFindings = file_task.module("check").check(*arguments)
    if json:
        display.print_json({name: value for name, value in asdict(findings).items() if value is not None})
        return
    names = ("finding", "value", "note")
    display.table(names, findings.table(), wraps=names)
    _show_records(findings.rows)
    for sentence in findings.warnings:
        display.warning("warning:", sentence)
    if not findings.warnings:
        display.line("no problems found")


def _show_records(records: Sequence[Any]) -> None:
    """Print the first records, one column per field that any of them has."""
    names = [field.name for field in fields(records[0]) if any(getattr(record, field.name) for record in records)]
    rows = [[_cell(getattr(record, name)) for name in names] for record in records]
    display.table(names, rows, wraps=names, title="first records")


def _cell(value: str | tuple[object, ...] | None) -> str:
    if isinstance(value, tuple):
        return " | ".join(f"{entry:.15g}" if isinstance(entry, float) else str(entry) for entry in value)
    return value or ""
