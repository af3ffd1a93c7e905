"""Task ``suggest`` at the command line: logs of queries, and sessions that want the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from ensue.answers import Answer, QueryExplanation
from ensue.cli import display
from ensue.cli.display import ATTRIBUTIONS, Column
from ensue.cli.options import Reading
from ensue.cli.tasks import Records, stdin_lines
from ensue.data.queries import Queries, QueriesReport, read_queries, require_pairs
from ensue.data.queries.rules import PAPER_RULES, QueryRules
from ensue.data.schema import DataSchema
from ensue.errors import SettingError
from ensue.lines import part_of, plural
from ensue.records import History
from ensue.settings import changed, parse
from ensue.tasks.suggest.settings import SuggestSettings

if TYPE_CHECKING:
    from ensue.tasks.suggest.predictor import SuggestPredictor

WRITES_ATTRIBUTIONS = False
NO_ANSWER = ""
COLUMNS: Sequence[Column] = (
    Column("query", attrgetter("value"), "prediction"),
    Column("score", attrgetter("score"), "score", is_number=True),
    ATTRIBUTIONS,
)
MAX_ATTENDED = 3
"""Words that ``explain`` lists for each suggested word."""


def read(path: Path, reading: Reading) -> tuple[Queries, DataSchema]:
    """Return the sessions of a log and how later files of the model are to be read, after logging how it was read."""
    queries, report = _read(path, reading)
    return queries, reading.schema_for(report.columns, report.day_first)


def read_people(path: Path, reading: Reading, users: Sequence[str], column: str) -> tuple[Queries, Queries]:
    """Return the sessions of a log, and those of the log without the rows of some users."""
    reading = reading.with_people("user", column)
    return _read(path, reading)[0], _read(path, reading, warn=False, without_users=users)[0]


def _read(
    path: Path, reading: Reading, *, minimum: int | None = None, warn: bool = True, without_users: Sequence[str] = ()
) -> tuple[Queries, QueriesReport]:
    rules = _rules(reading)
    if minimum is not None:
        rules = replace(rules, min_queries=minimum)
    queries, report = read_queries(
        path,
        columns=reading.roles,
        rules=rules,
        time_unit=reading.time_unit,
        session_ids=reading.session_ids,
        without_users=without_users,
        **reading.opening,
    )
    display.read_report(report, warn=warn)
    if reading.part:
        name, _, marked = reading.part.partition(":")
        if marked not in ("", "novel"):
            raise SettingError(f"--split {reading.part}: only novel may follow the colon, as in test:novel")
        queries = queries.part(name, novel=bool(marked))
    return queries, report


def _rules(reading: Reading) -> QueryRules:
    rules_text = reading.rules or reading.schema.rules
    paper = rules_text == "paper"
    changes: dict[str, object] = {} if paper or not rules_text else {**parse(rules_text.split(","))}
    # A pause of the command line wins over that of the training data.
    gap = reading.schema.gap if reading.session_gap is None else reading.session_gap
    if gap is not None:
        changes["gap"] = gap
    (rules,) = changed(changes, PAPER_RULES if paper else QueryRules())
    query_rules: QueryRules = rules
    if query_rules.min_queries < 1:
        raise SettingError(f"min_queries is {query_rules.min_queries}; it must be at least 1")
    return query_rules


def require(data: Queries, path: Path, predictor: object = None, *, training: bool = False) -> None:
    """Refuse sessions in which nothing follows anything.

    Raises:
        DataError: naming the file.
    """
    require_pairs(data, str(path))


def read_for_check(
    path: Path, paths: Sequence[Path], reading: Reading
) -> tuple[Queries, QueriesReport, dict[str, Queries], int]:
    """Return the sessions of a log, how they were read, those of other files by name, and the k-anonymity threshold."""
    queries, report = _read(path, reading, warn=False)  # they are among the findings
    min_users = SuggestSettings().min_users if reading.min_users is None else reading.min_users
    return queries, report, {str(other): _read(other, reading)[0] for other in paths}, min_users


def training_summary(predictor: SuggestPredictor) -> list[str]:
    """Return lines on what may be suggested, the validation metric and notes."""
    floor, metadata = predictor.floor, predictor.metadata
    queries, words = plural(len(floor.queries), "query", "queries"), plural(len(floor.words), "word")
    num_below, personal = floor.left_out.get("below", 0), floor.left_out.get("personal", 0)
    lines = [
        f"can be suggested: {queries}, and combinations of {words} ({floor.rule})",
        f"distinct queries below the k-anonymity threshold: {num_below:,}; with possible personal data: {personal:,}",
    ]
    if metadata.validation_mrr is not None:
        metrics = ", ".join(f"{name} {100 * value:.2f} %" for name, value in metadata.validation_mrr.items())
        lines.append(f"validation MRR@10: {metrics}")
    return [*lines, *(f"note: {note}" for note in metadata.notes)]


def read_records(source: str, reading: Reading, predictor: SuggestPredictor) -> Records:
    """Return the sessions of a log, or of JSON Lines on stdin.

    Raises:
        DataError: naming the file, the line, the field and what to do.
    """
    if source == "-":
        return Records(
            History.from_json(line, f"stdin, line {number}") for number, line in stdin_lines() if line.strip()
        )
    queries, report = _read(Path(source), replace(reading, session_ids=True), minimum=0)
    if ruled_out := int((queries.histories.lengths == 0).sum()):
        sentence = part_of(ruled_out, len(queries), "session", "holds", "hold")
        display.log(f"{source}: {sentence} no query that the rules keep: an empty answer")
    return Records(queries.histories.records(), len(queries), byte_order_mark=report.byte_order_mark)


def notes(answer: Answer) -> list[str]:
    """Return how many queries are in the vocabulary, and why there may be few suggestions."""
    queries = plural(answer.events, "query", "queries")
    popular = "" if answer.events else "; nothing is typed: the most frequent queries"
    reason = "" if answer.choices else "; no matching query reaches the k-anonymity threshold"
    return [f"in vocabulary (at least one word): {answer.in_vocabulary} of {queries}{popular}{reason}"]


def show_attention(explanation: QueryExplanation) -> None:
    """Print each suggested word with the earlier words that it attends to most."""
    # Words of all queries in one row, each with the number of its query, as the weights are.
    words = [(word, number) for number, query in enumerate(explanation.words, 1) for word in query]
    if explanation.weights:
        rows = []
        for word, weights in zip(explanation.suggested, explanation.weights, strict=True):
            strongest = sorted(range(len(weights)), key=lambda index: -weights[index])[:MAX_ATTENDED]
            sources = (f"{words[index][0]} ({words[index][1]}, {weights[index]:.2f})" for index in strongest)
            rows.append((word, "   ".join(sources)))
        heads = ("word", "attends most to (query, weight)")
        display.table(heads, rows, wraps=heads, title="attention weights (not causes)")


def read_update(path: Path, reading: Reading, predictor: SuggestPredictor) -> Queries:
    """Return new sessions that fit the model."""
    data, _ = read(path, reading)
    require(data, path)
    return data
