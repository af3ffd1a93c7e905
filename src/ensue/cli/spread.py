"""What ``spreaders`` does: read, count, ask a model, and show both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ensue import figures
from ensue.cli import next_event, show
from ensue.cli.options import Reading
from ensue.cli.writing import require_place, write
from ensue.errors import DataError, SettingError
from ensue.lines import plural
from ensue.predictor import load
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.spreaders import Estimate, Measure, Spreader, drawn_cascade, leaned_on, spreaders

CAUTION = (
    "counts and weights, not causes: who is early is followed by many whatever they do, and the log does not know "
    "what people saw elsewhere"
)


def run(
    data: Path,
    folder: Path | None,
    by: Measure | None,
    top: int,
    output: Path | None,
    html: Path | None,
    seed: int,
    reading: Reading,
    *,
    as_json: bool,
) -> None:
    """Show who leads.

    Raises:
        DataError: nobody follows anybody.
        SettingError: the folder is of another task, or a file cannot be written.
    """
    for path, option, formats in ((output, "-o", None), (html, "--html", (".html",))):
        if path is not None:
            require_place(path, [data], option=option, **({} if formats is None else {"formats": formats}))
    predictor = _loaded(folder)
    histories = next_event.read(data, reading if folder is None else reading.like(folder))
    next_event.require(histories, data, learn=False)
    given, leaned = len(histories.ids), None
    if predictor is not None:
        histories = histories.encode(predictor.vocabulary, drop_unknown=True)
        if not len(histories.ids):
            raise DataError(f"{data}: the model of {folder} knows none of these people; fit one on this log")
        leaned = leaned_on(predictor, histories)
    found = spreaders(histories, leaned, by=by or ("followed" if leaned is None else "credit"), top=top, seed=seed)
    if output is not None:
        write(pl.DataFrame([_flat(one) for one in found]), output)
    if html is not None:
        cascade = None if predictor is None else drawn_cascade(predictor, histories)
        figures.write_html(figures.spreaders(found), html, *([] if cascade is None else [figures.cascade(cascade)]))
    if as_json:
        show.put_json(
            {"spreaders": [one.to_dict() for one in found], "in_vocabulary": len(histories.ids), "events": given}
        )
        return
    if len(histories.ids) < given:
        show.remark(f"{given - len(histories.ids):,} of {plural(given, 'event')} are of people the model never saw")
    _show(found)
    for path in (output, html):
        if path is not None:
            show.remark(f"wrote {path}")


def _loaded(folder: Path | None) -> NextPredictor | None:
    if folder is None:
        return None
    predictor = load(folder)
    if not isinstance(predictor, NextPredictor):
        raise SettingError(f"--folder {folder}: a model of task {predictor.task}; give one of task next")
    return predictor


def _show(found: Sequence[Spreader]) -> None:
    heads = ["#", "user", "cascades", "starts (95 %)", "followers (95 %)"]
    rows = []
    for rank, one in enumerate(found, 1):
        row = [str(rank), show.one_line(one.value), f"{one.cascades:,}", _shown(one.first), _shown(one.followed)]
        if one.credit is not None:
            times = "" if one.times_even is None else f"{one.times_even:.2f}"
            row += [_shown(one.credit, digits=1), times]
        rows.append(row)
    if found and found[0].credit is not None:
        heads += ["attention received (95 %)", "ratio to uniform"]
    show.table(heads, rows, wraps=("user",))
    show.line(CAUTION)


def _shown(estimate: Estimate, *, digits: int = 0) -> str:
    return f"{estimate.total:,.{digits}f} ({estimate.low:,.{digits}f} to {estimate.high:,.{digits}f})"


def _flat(one: Spreader) -> dict[str, object]:
    row: dict[str, object] = {}
    for name, value in one.to_dict().items():
        if isinstance(value, dict):
            row |= {name: value["total"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        else:
            row[name] = value
    return row
