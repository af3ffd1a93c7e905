"""Text output of the commands: tables and lines on stdout, progress and messages on stderr.

Rich is imported when something is printed, so that a help screen or a wrong option does not wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ensue.answers import Choice, Forecast
from ensue.data.schema import ReadReport
from ensue.lines import CONTROLS, cut, plural, printable, printable_line, printable_message
from ensue.training.report import Report

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from ensue.tasks.link.link_metrics import AtCut

_MAX_TEXT = 100
"""Characters that are shown of a longer text."""
_READABLE = 16
"""Columns of a terminal that a column of text needs at least."""


@cache
def console(*, stderr: bool = False) -> Console:
    """Return the terminal, or the pipe, that stdout or stderr is."""
    from rich.console import Console

    return Console(stderr=stderr, soft_wrap=True, emoji=False)


def print_json(value: Any) -> None:
    """Print one JSON object on stdout; NaN and Infinity, which JSON lacks, become ``null``."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        # NaN and Infinity are read back as constants, and replaced there.
        plain = json.loads(json.dumps(value, default=str), parse_constant=lambda _: None)
        text = json.dumps(plain, ensure_ascii=False)
    print_json_line(text)


def print_json_line(text: str) -> None:
    """Print JSON on stdout; characters that could steer a terminal are escaped."""
    # Escapes of JSON: whoever parses the line gets the same text.
    escaped = CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)
    console().print(escaped, markup=False, highlight=False)


def line(text: str) -> None:
    """Print a line on stdout; characters that could steer a terminal are escaped."""
    console().print(printable(text), markup=False, highlight=False)


def warning(label: str, text: str) -> None:
    """Print a line on stdout that begins in yellow."""
    from rich.text import Text

    console().print(Text.assemble((label, "yellow"), f" {printable_line(text)}"))


def log(text: str) -> None:
    """Print a message on stderr."""
    console(stderr=True).print(printable_message(text), markup=False, highlight=False)


def one_line(text: str) -> str:
    """Return an id on one line, whatever it holds."""
    return printable_line(text).replace("\t", "\\t")


def read_report(report: ReadReport, *, warn: bool = True) -> None:
    """Print how a file was read and all that was left out, and unless ``warn`` is off the warnings about it."""
    columns = ", ".join(f"{role}={name}" for role, name in report.columns.items())
    details = f"; {report.details}" if report.details else ""
    log(f"{report.path}: {report.layout}{f' ({columns})' if columns else ''}{details}")
    for sentence in report.sentences:
        log(f"  left out: {sentence}")
    for note in report.notes:
        log(f"  note: {note}")
    for sentence in report.warnings if warn else ():
        log(f"warning: {sentence}")


def training(reports: Iterable[Report]) -> None:
    """Run a training to its end under a live bar; without a terminal, print one line per epoch."""
    with epochs() as show_report:
        for report in reports:
            show_report(report)


@contextmanager
def epochs() -> Iterator[Callable[[Report], None]]:
    """Yield a function that shows each report of a training; see :func:`training`."""
    with _bar() as progress:
        task, former = progress.add_task("preparing", total=None), None

        def show_report(report: Report) -> None:
            nonlocal former
            if report.note:
                log(f"{report.stage}: {report.note}")
                return
            if (former is None or former.stage != report.stage) and report.parameters:
                log(_plan(report))
            metric = f"validation {'MRR' if report.monitor == 'mrr' else report.monitor}"
            best = f", best {metric} {report.best:.4f}" if report.best is not None else ""
            epoch = f"epoch {report.epoch} of at most {report.epochs}"
            # The bar spans all planned epochs, so that its remaining time is an upper bound of the whole training.
            completed = report.step if report.stopped else max(report.epoch - 1, 0) * report.steps + report.step
            progress.update(
                task,
                description=f"{report.stage} {epoch}, loss {report.loss:.4f}{best}",
                total=report.steps if report.stopped else report.epochs * report.steps,
                completed=completed,
            )
            # The last step of an epoch is reported again after its validation.
            closed = former is not None and (former.epoch, former.step) == (report.epoch, report.step)
            former = report
            if report.stopped:
                best_epoch = f"; kept epoch {report.best_epoch}: {best[2:]}" if best else ""
                hint = "; best epoch was the last one; consider more epochs" if report.improving else ""
                epochs_run = plural(report.epoch, "epoch")
                log(f"{report.stage}: {epochs_run} in {report.seconds:.0f} s, loss {report.loss:.4f}{best_epoch}{hint}")
            elif closed and not console(stderr=True).is_terminal:
                seconds_left = report.seconds / report.epoch * (report.epochs - report.epoch)
                time = f"{report.seconds:.0f} s, at most {seconds_left:.0f} s left"
                log(f"{report.stage}: {epoch}, {time}, loss {report.loss:.4f}{best}")

        yield show_report


def _plan(report: Report) -> str:
    """Describe a training that begins: epochs, steps, parameters, device, and the monitored metric."""
    metric = "MRR" if report.monitor == "mrr" else report.monitor
    stopping = f"early stopping by validation {metric}" if metric else "no early stopping"
    return (
        f"{report.stage}: at most {plural(report.epochs, 'epoch')} of {plural(report.steps, 'step')}, "
        f"{plural(report.parameters, 'parameter')} on {report.device}, {stopping}"
    )


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int | None], None]]:
    """A live bar for long work that calls what it is given with how much is done, and of how much."""
    with _bar() as progress:
        task = progress.add_task(description, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _bar() -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    terminal = console(stderr=True)
    return Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, wraps: Collection[str] = (), title: str = "") -> None:
    """Print a table whose numbers are never cut.

    A pipe gets it as wide as it is. In a terminal the columns ``wraps`` give way first, then margins go below their
    figures, then heads take several lines, and where that is still too wide each row becomes a block of lines.

    Args:
        heads: one name per column.
        rows: one cell per column.
        wraps: names of the columns of texts.
        title: a line above the table.
    """
    from rich.cells import cell_len
    from rich.table import Column, Table
    from rich.text import Text

    def cell_width(text: str) -> int:
        return max((cell_len(text_line) for text_line in text.split("\n")), default=0)

    terminal = console()
    texts = [[printable(text) for text in row] for row in rows]
    if title:
        line(title)
    # From wide to narrow: as it is, margins below their metrics, heads on several lines, and last blocks of lines.
    stacked = [head.replace(" ", "\n") for head in heads]
    for names, split in ((heads, False), (heads, True), (stacked, True)):
        cells = [[text.replace(" ±", "\n±") if split else text for text in row] for row in texts]
        widths = [max(map(cell_width, column)) for column in zip(names, *cells, strict=True)]
        # Each column has a border and a space on both sides.
        edges = 3 * len(heads) + 1
        min_width = edges + sum(
            min(width, _READABLE) if head in wraps else width for head, width in zip(heads, widths, strict=True)
        )
        if not terminal.is_terminal or min_width <= terminal.width:
            columns = (
                Column(Text(heading), no_wrap=head not in wraps, overflow="fold")
                for head, heading in zip(heads, names, strict=True)
            )
            full = edges + sum(widths)
            printed = Table(*columns, width=full if not terminal.is_terminal else min(full, terminal.width))
            for row in cells:
                printed.add_row(*map(Text, row))
            terminal.print(printed)
            return
    # No table fits: the first cell of a row is a line, and the others follow with their heads.
    for row in texts:
        for number, (head, text) in enumerate(zip(heads, row, strict=True)):
            if text:
                line(f"{'  ' * (number > 0)}{head}{':' * (number > 0)} {' '.join(text.split())}")


def drop(score_drop: float, digits: int = 3) -> str:
    """Return a score drop as a number: above 0 where the score falls, never a negative zero."""
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(score_drop, digits) + 0.0:.{digits}f}"


@dataclass(frozen=True)
class Column:
    """One column of the choices of an answer, in tables of the terminal and in files.

    Attributes:
        heading: its name in the terminal; empty where only files have it.
        value: the text or the number of a choice, or ``None``.
        name: its name in files; empty where only the terminal has it.
        is_number: whether ``value`` is a number, which the terminal shows with three digits.
        optional: whether it is left out where no choice has a value.
    """

    heading: str
    value: Callable[[Any], str | float | None]
    name: str = ""
    is_number: bool = False
    optional: bool = False

    def cell(self, choice: object) -> str:
        """Return the text of a choice in a table of the terminal."""
        value = self.value(choice)
        return f"{value:.3f}" if self.is_number else one_line(str(value or ""))

    def is_shown(self, choices: Iterable[object]) -> bool:
        """Return whether tables of these choices have the column."""
        return not self.optional or any(self.value(choice) not in (None, "") for choice in choices)


def attributions_text(choice: Choice) -> str:
    """Return the events or words that a choice attends to, with their weights and the score drop without each."""
    texts = (
        f"{one_line(attribution.value)} {attribution.weight:.2f}"
        + ("" if attribution.score_drop is None else f" ({drop(attribution.score_drop)})")
        for attribution in choice.attributions
    )
    return "   ".join(texts)


ATTRIBUTIONS = Column("attributions (weight; score drop without it)", attributions_text)


def choices(ranked: Sequence[object], columns: Sequence[Column]) -> None:
    """Print a table of choices, best first."""
    visible = [column for column in columns if column.heading and column.is_shown(ranked)]
    rows = ([str(rank), *(column.cell(choice) for column in visible)] for rank, choice in enumerate(ranked, 1))
    wraps = [column.heading for column in visible if not column.is_number]
    table(("#", *(column.heading for column in visible)), rows, wraps=wraps)


def forecast(answer: Forecast) -> None:
    """Print the steps of a forecast, one per row."""
    rows = []
    for number, step in enumerate(answer.steps, 1):
        items = "   ".join(f"{one_line(choice.value)} ({choice.score:.3f})" for choice in step.choices)
        low, median, high = map(duration, step.after) if step.after else ("", "", "")
        rows.append((str(number), f"{100 * step.stop:.1f} %", f"{low} to {high}" if step.after else "", median, items))
    if answer.id:
        line(one_line(answer.id))
    heads = ("step", "P(end)", "time to event (80 %)", "median", "items (score)")
    table(heads, rows, wraps=heads[-1:])
    line(f"in vocabulary: {answer.in_vocabulary} of {plural(answer.events, 'event')}")


def duration(seconds: float) -> str:
    """Return a length of time in its largest unit."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def shorten(text: str) -> str:
    """Return the first characters of a text, on one line."""
    return cut(" ".join(text.split()), _MAX_TEXT)


def cutoff_metrics(metrics: AtCut, unit: str) -> str:
    """Return how many a threshold retrieves, and precision and recall with their intervals."""
    precision_low, precision_high = map(_fraction, metrics.precision_interval)
    recall_low, recall_high = map(_fraction, metrics.recall_interval)
    return (
        f"{plural(metrics.retrieved, unit)}, precision {_fraction(metrics.precision)} [{precision_low}, "
        f"{precision_high}], recall {_fraction(metrics.recall)} [{recall_low}, {recall_high}]"
    )


def _fraction(value: float) -> str:
    """Return a fraction of 1, as .25."""
    return f"{value:.2f}".removeprefix("0") if value < 1 else "1.00"
