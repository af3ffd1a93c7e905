"""The command ``prepare``: a log of any size as a folder of columns that other commands map into memory."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli import display
from ensue.cli.options import Json, Reading, all_present, exit_code, reads
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.training.report import signals_heard

_LOG_INTERVAL = 10.0
"""Seconds between messages within one step."""


@reads(
    "columns", "events", "time_unit", "day_first", "sort", "session_gap", "encoding", "sheet", "max_unpacked", "missing"
)
def prepare(
    data: Annotated[
        list[Path], typer.Argument(callback=all_present, help="files, folders or 'logs/*.parquet'", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="folder to write; later commands take it as DATA")],
    *,
    share: Annotated[str, typer.Option(help="one of several shares, such as 2/8", show_default=False)] = "",
    merge: Annotated[bool, typer.Option("--merge", help="merge the shares in OUTPUT.shares")] = False,
    json: Json = False,
    reading: Reading,
) -> None:
    """Convert a log that exceeds memory to a folder that opens at once.

    Run the same command again to continue after an interruption. Several machines can prepare one share each.
    """
    if share and merge:
        raise SettingError("--merge merges all shares; remove --share")
    from ensue.data.sequences import prepare as preparation  # polars
    from ensue.data.sequences.batches import Share
    from ensue.data.table import ReadOptions

    read_options = ReadOptions(
        columns=reading.roles or {},
        events=",".join(reading.event_types),
        time_unit=reading.time_unit,
        **reading.opening,
    )
    # A share and the whole log are ordered and cut by the same options.
    grouping: dict[str, Any] = {"sort": reading.may_sort, "gap": reading.session_gap, "progress": _Progress()}
    try:
        with signals_heard():
            if share:
                folder, num_events = preparation.prepare_share(
                    data, output, read_options, Share.parse(share), **grouping
                )
            else:
                report, counts = preparation.prepare(data, output, read_options, merge=merge, **grouping)
    except KeyboardInterrupt as stop:
        with suppress(OSError):  # the terminal has gone
            display.log("stopped; run the same command again to continue")
        raise typer.Exit(exit_code(stop)) from None
    if share and json:
        display.print_json({"folder": str(folder), "events": num_events})
    elif share:
        size = plural(num_events, "event")
        display.log(f"saved {folder}: {size}; after all shares are prepared, run the same command with --merge")
    else:
        display.read_report(report)
        if json:
            display.print_json({"folder": str(output), **asdict(counts), "understood": asdict(report)})
            return
        size = plural(counts.sequences, "session")
        display.log(f"saved {output}: {size}, {plural(counts.events, 'event')}, {plural(counts.values, 'item')}")


class _Progress:
    """A callback that logs a line whenever another step begins, and at intervals within it."""

    def __init__(self) -> None:
        self.step = ""
        self.step_start = 0.0
        self.latest = time.monotonic()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Log the number of rows; see :data:`ensue.data.sequences.prepare.Progress`."""
        now = time.monotonic()
        # The rate of a step counts from the last message of the step before.
        if step != self.step:
            self.step, self.step_start = step, self.latest
        if done >= total > 0 or now > self.latest + _LOG_INTERVAL:
            of_total = f" of {total:,}" if total else ""
            rate = done / max(now - self.step_start, 1e-3)
            display.log(f"{step}: {done:,}{of_total} rows, {rate:,.0f} rows a second")
            self.latest = now
