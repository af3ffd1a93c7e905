"""Task ``next`` at the command line: logs of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensue.answers import Answer, Explanation
from ensue.cli import display
from ensue.cli.display import ATTRIBUTIONS, Column
from ensue.cli.options import Reading
from ensue.cli.tasks import Records, stdin_lines
from ensue.data.duplicates import duplicates
from ensue.data.histories import Histories, Items
from ensue.data.items import read_items
from ensue.data.schema import DataSchema, SequencesReport
from ensue.data.sequences import read as read_log
from ensue.data.sequences import require_weights
from ensue.data.sequences.telling import hardly_known, require_people, telling_columns
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.records import History
from ensue.settings import parse
from ensue.tasks.next.catalogue import BEST
from ensue.tasks.next.training_data import LeftOut, exclusion_sentence, left_out_by, require_targets
from ensue.training.report import LEFT_OUT

if TYPE_CHECKING:
    from ensue.tasks.next.predictor import NextPredictor

WRITES_ATTRIBUTIONS = False
NO_ANSWER = ""
COLUMNS: Sequence[Column] = (
    Column("item", attrgetter("value"), "prediction"),
    Column("title", lambda choice: choice.title or None, "title", optional=True),
    Column("score", attrgetter("score"), "score", is_number=True),
    replace(ATTRIBUTIONS, optional=True),
)

MEMBERS = 5
"""Members of an ensemble that the summary of a training shows."""


def read(path: Path, reading: Reading) -> tuple[Histories, DataSchema]:
    """Return the histories of a file and how later files are to be read, after logging how it was read.

    Where the options name a table of items, the histories have it, too.
    """
    data, report = _read(path, reading)
    if (reading.min_users or 1) > 1:
        require_people(path, columns=reading.roles, **reading.opening)
    return _with_items(data, reading), reading.schema_for(report.columns, report.day_first, report.events)


def read_people(path: Path, reading: Reading, users: Sequence[str], column: str) -> Histories:
    """Return the histories of a file, whose names are those of people."""
    return _read(path, reading.with_people("sequence", column))[0]


def _read(path: Path, reading: Reading, *, warn: bool = True) -> tuple[Histories, SequencesReport]:
    if reading.part:
        raise SettingError(f"--split {reading.part}: a log of events has no named parts; give a fraction such as 0.2")
    histories, report = read_log(
        path,
        columns=reading.roles,
        events=reading.event_types,
        time_unit=reading.time_unit,
        sort=reading.may_sort,
        gap=reading.session_gap,
        off_policy=reading.logged,
        **reading.opening,
    )
    display.read_report(report, warn=warn)
    if warn and (sentence := duplicates(histories)):
        display.log(f"warning: {path}: {sentence}")
    return histories, report


def require(data: Histories, path: Path, predictor: NextPredictor | None = None, *, training: bool = False) -> None:
    """Refuse data in which nothing follows anything; warn of a log whose ids the model hardly has.

    Where a model has nothing to score, the evaluator says so.
    """
    if predictor is None:
        require_targets(data, str(path))
    else:
        _warn_of_unknown(data, predictor)


def _warn_of_unknown(data: Histories, predictor: NextPredictor) -> None:
    if sentence := hardly_known(data, predictor.vocabulary, "the model"):
        display.log(f"warning: {sentence}")


def read_for_check(path: Path, paths: Sequence[Path], reading: Reading) -> tuple[Any, ...]:
    """Return a log, how it was read, other logs by name, columns that tell the next item, and what is left out."""
    histories, report = _read(path, reading, warn=False)  # they are among the findings
    if (reading.min_users or 1) > 1:
        require_people(path, columns=reading.roles, **reading.opening)
    telling = telling_columns(path, columns=reading.roles, events=reading.event_types, **reading.opening)
    left_out = left_out_by(histories, reading.min_users)
    return histories, report, {str(other): _read(other, reading)[0] for other in paths}, telling, left_out


def training_summary(predictor: NextPredictor) -> list[str]:
    """Return what became of the model: which one was chosen, what was left out, and what ``replay=0`` leaves out."""
    metadata, lines = predictor.metadata, []
    if metadata.min_users:
        lines.append(LeftOut(**metadata.min_users).sentence)
    if metadata.chosen:
        scores = ", ".join(f"{name} {100 * value:.2f} %" for name, value in (metadata.validation_mrr or {}).items())
        lines.append(f"chose {metadata.chosen}; validation MRR: {scores}")
    # The largest weights say most; signs do not matter for that.
    members = sorted((metadata.members or {}).items(), key=lambda member: -abs(member[1]))
    if weights := ", ".join(f"{name} {weight:.3g}" for name, weight in members[:MEMBERS] if weight):
        lines.append(f"largest weights of the ensemble: {weights}; all are in CARD.md")
    repeat_shares = metadata.repeat_share, metadata.immediate_repeat_share
    lines.append(exclusion_sentence(metadata.exclusion, *repeat_shares))
    if metadata.ended == LEFT_OUT:
        lines.append(metadata.ended)
    if not predictor.keeps_histories:
        network = f", so {predictor.model_name} predicts with its network alone" if predictor.model_name in BEST else ""
        lines.append(f"replay=0: no single session is stored in the folder{network}")
    return lines


def read_records(source: str, reading: Reading, predictor: NextPredictor) -> Records:
    """The histories of a log, or JSON Lines on stdin.

    Raises:
        DataError: naming the file, the line, the field and what to do.
    """
    if source == "-":
        lines = (History.from_json(line, f"stdin, line {number}") for number, line in stdin_lines() if line.strip())
        return Records(_warned(lines, predictor))
    histories, report = _read(Path(source), reading)
    _warn_of_unknown(histories, predictor)
    return Records(histories.records(), len(histories), byte_order_mark=report.byte_order_mark)


def _warned(records: Iterator[History], predictor: NextPredictor) -> Iterator[History]:
    """Yield records as they come; the first of several items, none of them known, is warned of."""
    warned = False
    for record in records:
        if len(record.values) > 1 and not warned and not any(value in predictor.vocabulary for value in record.values):
            _warn_of_unknown(Histories.of([record]), predictor)
            warned = True
        yield record


def notes(answer: Answer) -> list[str]:
    """Return how many events are in the vocabulary."""
    popularity = "" if answer.in_vocabulary else "; items are ranked by popularity"
    return [f"in vocabulary: {answer.in_vocabulary} of {plural(answer.events, 'event')}{popularity}"]


def show_attention(explanation: Explanation) -> None:
    """Print each event with the earlier event that it attends to most."""
    rows = []
    for value, weights in zip(explanation.values, explanation.dependency, strict=False):
        # The first event has nothing to attend to.
        if any(weights):
            strongest = max(range(len(weights)), key=weights.__getitem__)
            source = display.one_line(explanation.values[strongest])
            rows.append((display.one_line(value), source, f"{weights[strongest]:.2f}"))
    if rows:
        heads = ("event", "attends most to", "weight")
        display.table(heads, rows, wraps=heads[:2], title="attention weights (not causes)")


def read_update(path: Path | None, reading: Reading, predictor: NextPredictor) -> Histories:
    """Return new histories, new items, or both."""
    data = Histories.of([])
    if path is not None:
        require_weights(path, reading.schema)
        data, _ = _read(path, reading)
        _warn_of_unknown(data, predictor)
    model_items = predictor.known_items
    return _with_items(data, reading, None if model_items is None else model_items.items)


def _with_items(data: Histories, reading: Reading, model_items: Items | None = None) -> Histories:
    """Return histories with the item table of the options, after logging the columns of it.

    Args:
        data: histories.
        reading: the options.
        model_items: items of the model, whose columns and types the table has too.

    Raises:
        SettingError: columns of a table that is not given.
    """
    if reading.items is None:
        if reading.item_columns:
            raise SettingError("--item-columns names columns of an item table; give --items too")
        return data
    columns_by_role = parse(reading.item_columns.split(",")) if reading.item_columns else {}
    items, warnings = read_items(reading.items, columns=columns_by_role, like=model_items)
    columns = ", ".join(f"{name} {kind}" for name, kind in items.kinds.items())
    left_out = f"; left out: {', '.join(items.left_out)}" if items.left_out else ""
    display.log(f"{reading.items}: {plural(len(items), 'item')}; columns: {columns}{left_out}")
    for warning in warnings:
        display.log(f"warning: {reading.items}: {warning}")
    return replace(data, items=items)
