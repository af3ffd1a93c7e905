"""How things look in a terminal: tables on stdout, progress and remarks on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table

from ensue.answers import Answer, Explanation, Forecast
from ensue.data.check import Findings
from ensue.data.tables import Understood
from ensue.evaluation import Result, Row
from ensue.evaluation.rows import cell
from ensue.lines import printable
from ensue.refresh import AT, Refreshed
from ensue.training import Report

out = Console(soft_wrap=True, emoji=False)
remarks = Console(stderr=True, soft_wrap=True, emoji=False)


def put_json(found: Any) -> None:
    """One JSON object on stdout."""
    out.print(json.dumps(found, ensure_ascii=False, default=str), markup=False, highlight=False)


def remark(text: str) -> None:
    """One line for the person at the terminal, out of the way of pipes."""
    remarks.print(printable(text), markup=False, highlight=False)


def understood(found: Understood) -> None:
    """What the reader made of a file: always shown."""
    columns = ", ".join(f"{role}={name}" for role, name in found.columns.items())
    remark(f"{found.path}: {found.layout}{f' ({columns})' if columns else ''}; time: {found.time}")
    for note in found.notes:
        remark(f"  note: {note}")


def findings(found: Findings) -> None:
    """The answer of ``ensue check``."""
    out.print(
        f"{found.sequences:,} sequences, {found.events:,} events, {found.distinct:,} distinct values; length mean "
        f"{found.mean_length:.1f}, median {found.median_length:g}, longest {found.longest:,}",
        highlight=False,
    )
    table = Table("sequence", "values", "times (s)", title="the first three, as understood", title_justify="left")
    for number, row in enumerate(found.rows):
        times = " ".join(f"{time:.15g}" for time in row.times)
        table.add_row(escape(row.id or str(number)), escape(" ".join(row.values)), times)
    out.print(table)
    for warning in found.warnings:
        out.print(f"[yellow]would spoil a result:[/] {escape(warning)}", highlight=False)
    if not found.warnings:
        out.print("nothing found that would spoil a result")


def training(reports: Iterable[Report]) -> None:
    """Run a training loop to its end under a live bar; a log, which shows no bar, gets a line an epoch."""
    with _bar() as progress:
        task, last = progress.add_task("preparing", total=None), (0, 0)
        for report in reports:
            best = f", best on validation {report.best:.4f}" if report.best is not None else ""
            progress.update(
                task,
                description=f"{report.stage} epoch {report.epoch}/{report.epochs} loss {report.loss:.4f}{best}",
                total=report.steps,
                completed=report.step,
            )
            closed = last == (report.epoch, report.step)  # an epoch's last step is reported again after its check
            last = report.epoch, report.step
            if report.stopped:
                remark(f"{report.stage}: {report.epoch} epochs, {report.seconds:.0f} s, loss {report.loss:.4f}{best}")
            elif closed and not remarks.is_terminal:
                remark(f"{report.stage}: epoch {report.epoch}, {report.seconds:.0f} s, loss {report.loss:.4f}{best}")


@contextmanager
def counted(what: str) -> Iterator[Callable[[int, int], None]]:
    """A live bar for long work that calls what it is given with how much is done, and of how much."""
    with _bar() as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _bar() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=remarks, transient=True, disable=not remarks.is_terminal)


def result(found: Result, at: Sequence[int]) -> None:
    """A table of figures with its protocol card and verdict."""
    measures = ["mrr", *(f"hit@{k}" for k in at), *(f"ndcg@{k}" for k in at[: 2 if len(at) < 3 else 1])]
    card = found.protocol
    figures(found.rows, dict(zip(measures, measures, strict=True)), f"protocol {card.name}: figures x 100, ± 95 %")
    for name in ("data", "targets", "candidates", "repeats", "averaging", "ties", "interval", "leaked"):
        out.print(f"  {name}: {getattr(card, name)}", highlight=False)
    out.print(found.verdict, highlight=False)


def figures(rows: Sequence[Row], measures: Mapping[str, str], title: str) -> None:
    """A row a model, a column a measure (by its name in the rows, and its head), then what is not above chance."""
    apart = " " if out.width >= 16 * (len(measures) + 2) else "\n"  # a narrow terminal gets the intervals below
    table = Table(
        Column("model", no_wrap=True),
        *measures.values(),
        f"s /{apart}1,000",
        title=title,
        title_justify="left",
    )
    for row in rows:
        cells = [cell(row, name, f"{apart}±") for name in measures]
        seconds = row.seconds_per_1000
        speed = "" if seconds is None else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"
        table.add_row(f"{row.model}\n[yellow]chance![/]" if row.warning else row.model, *cells, speed)
    out.print(table)
    for row in rows:
        if row.warning:
            out.print(f"  [yellow]warning:[/] {row.warning}", highlight=False)


def answer(found: Answer) -> None:
    """One ranked answer."""
    table = Table("#", "value", "score", "leaned on (share; score lost when removed)")
    for rank, choice in enumerate(found.choices, 1):
        heeded = "   ".join(
            f"{escape(heed.value)} {heed.share:.2f}" + ("" if heed.lost is None else f" ({-heed.lost:+.3f})")
            for heed in choice.heeded
        )
        table.add_row(str(rank), escape(choice.value), f"{choice.score:.3f}", heeded)
    if found.id:
        out.print(escape(found.id), highlight=False)
    out.print(table)
    popular = "" if found.known else ": nothing known, so this is plain popularity"
    out.print(f"{found.known} of {found.given} ids known{popular}", highlight=False)


def forecast(found: Forecast) -> None:
    """A history rolled forward, a row a step."""
    table = Table("step", "stops", "after, 8 of 10", "median", "likeliest (score)")
    for step, seen in enumerate(found.steps, 1):
        choices = "   ".join(f"{escape(choice.value)} ({choice.score:.3f})" for choice in seen.choices)
        after = (f"{_span(seen.after[0])} to {_span(seen.after[2])}", _span(seen.after[1])) if seen.after else ("", "")
        table.add_row(str(step), f"{100 * seen.stop:.1f} %", *after, choices)
    if found.id:
        out.print(escape(found.id), highlight=False)
    out.print(table)
    out.print(f"{found.known} of {found.given} ids known", highlight=False)


def _span(seconds: float) -> str:
    """A length of time, as one says it."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def explanation(found: Explanation) -> None:
    """Who leaned on whom, as a list: each event with the earlier one it heeded most, then the answer."""
    table = Table("event", "leaned most on", "weight", title="weights: what the model leaned on, not causes")
    for at, row in enumerate(found.dependency):
        if any(row):
            best = max(range(len(row)), key=row.__getitem__)
            table.add_row(escape(found.values[at]), escape(found.values[best]), f"{row[best]:.2f}")
    if table.rows:
        out.print(table)
    answer(found.answer)


def refreshed(found: Refreshed) -> None:
    """Old model beside new on the slices an update was tested on."""
    names = ("slice", "targets", "old mrr", "new mrr", "change", f"old hit@{AT}", f"new hit@{AT}", "best counting mrr")
    table = Table(
        *(Column(name, no_wrap=True) for name in names),
        title="full ranking, figures x 100",
        title_justify="left",
    )
    for part in found.slices:
        hits = [f"{100 * figures[f'hit@{AT}']:.2f}" for figures in (part.old, part.new)]
        ranked = [f"{100 * figures['mrr']:.2f}" for figures in (part.old, part.new)]
        counted = f"{100 * part.counting['mrr']:.2f} ({part.best_counting})"
        table.add_row(part.name, f"{part.targets:,}", *ranked, f"{100 * part.change:+.1f} %", *hits, counted)
    out.print(table)
    out.print(f"  newest: {found.held} of the new log, held out of the training for this test", highlight=False)
    if len(found.slices) == 1:
        out.print("  remembered: none, the model keeps no past histories; forgetting was not tested", highlight=False)
    if found.accepted:
        out.print(escape(found.verdict), highlight=False)
