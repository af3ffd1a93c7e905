"""Ranked lists of other programs, to be scored next to our models: a TREC run, or JSON Lines.

===========  =========================================================================================
trec         ``query Q0 document rank score tag``: ordered as trec_eval orders it, by the score in single
             precision, equal scores by document id, the last id first; the rank column is not read
jsonl        ``{"id": "s1", "place": 2, "ranking": ["a", "b"], "scores": [2.5, 1]}``, best first; also
             the answers of ``ensue predict --json`` (``choices`` with ``value`` and ``score``). Of equal
             scores the target is ranked last, as in every row of our own models
===========  =========================================================================================

The query is the id of the example; for one event of a sequence it is the id, a colon and the number of earlier events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Unpack

import polars as pl

from ensue.arguments import require_path
from ensue.data.file_bytes import Opening
from ensue.data.files import Content, answering, open_file
from ensue.data.ids import whole_numbers
from ensue.errors import DataError
from ensue.lines import plural, quoted
from ensue.records import normal_id

_TREC = "query Q0 document rank score tag"
_JSON = '{"id": "…", "ranking": ["…", "…"]}'
_FINITE = "give finite numbers, or leave the scores out of JSON Lines, best value first"


@dataclass(frozen=True, eq=False)
class Rankings:
    """Ranked lists.

    Attributes:
        name: name of the row.
        frame: one row per listed value: ``query``, ``value``, ``position`` in the list from 1, ``rank`` (the position,
            or the last position of an equal score where ties count against the target), ``score``, null where the list
            has none, and ``given``, the number of events that an answer of ours was made from, null in other lists.
        layout: layout of the file.
        rising: message about the first list whose scores rise along the ranking; empty where none does.
        num_reversed: number of lists of a TREC run whose rank column puts the lowest score first and the highest last.
    """

    name: str
    frame: pl.DataFrame
    layout: Literal["trec", "jsonl"] = "jsonl"
    rising: str = ""
    num_reversed: int = 0

    def best_first(self) -> Rankings:
        """Return these lists, whose scores fall along the ranking.

        Raises:
            DataError: the scores of a list rise, so that the order and the scores contradict each other.
        """
        if self.rising:
            raise DataError(self.rising)
        return self

    def by_score(self) -> Rankings:
        """Return these lists in the order of their scores, whatever the order in which the values were listed."""
        if not self.rising:
            return self
        order = self.frame.sort("query", "score", "position", descending=[False, True, False], nulls_last=True)
        return replace(self, frame=_ranked(order.drop("position", "rank")), rising="")

    def ranks(self, queries: pl.Series, targets: pl.Series) -> pl.Series:
        """Return the (targets,) rank of each target in the list of its query, null where the list lacks it."""
        target_pairs = pl.DataFrame({"query": queries, "value": targets})
        return target_pairs.join(self.frame, on=["query", "value"], how="left", maintain_order="left")["rank"]

    def warnings(self, scored: pl.DataFrame) -> list[str]:
        """Return sentences about lists and queries that do not match, and about scores that give no order.

        Args:
            scored: one row per scored example: its ``id``, and its ``place`` where it is an event of a sequence.
        """
        names = [scored["id"]]
        if "place" in scored.columns:
            names.append(placed(scored))
        listed = self.frame["query"].unique(maintain_order=True)
        # Lists are of sequences or of their events: the names that more lists have decide.
        queries = max(names, key=lambda column: listed.is_in(column.implode()).sum())
        missing = queries.filter(~queries.is_in(listed.implode()))
        stray = listed.filter(~listed.is_in(queries.implode()))
        sentences = []
        if len(missing):
            sentences.append(f"no list for {len(missing):,} of {len(queries):,} queries, such as {missing[0]}: misses")
        if len(stray):
            sentences.append(f"{plural(len(stray), 'list')} for unknown queries, such as {stray[0]}: ignored")
        if constant := self._constant_lists():
            order = "that of the document ids" if self.layout == "trec" else "undefined"
            sentences.append(
                f"in {constant:,} of {plural(len(listed), 'list')} all scores are equal, so the ranking is {order}"
            )
        if self.num_reversed:
            sentences.append(
                f"in {self.num_reversed:,} of {plural(len(listed), 'list')} the rank column puts the lowest score "
                "first; the highest score is read as the best, as in trec_eval: negate distances"
            )
        return sentences

    def _constant_lists(self) -> int:
        """Return the number of lists of two or more values whose scores are all equal in single precision."""
        # trec_eval keeps scores in 32 bits, where close ones become equal.
        single = pl.col("score").cast(pl.Float32)
        lists = self.frame.group_by("query").agg(size=pl.len(), low=single.min(), high=single.max())
        return int(lists.select(((pl.col("size") > 1) & (pl.col("low") == pl.col("high"))).sum()).item())


def tie_rule(rankings: Sequence[Rankings]) -> str:
    """Return the rule for equal scores in TREC runs, as the end of a sentence on the card; empty without a run."""
    runs = [ranking.name for ranking in rankings if ranking.layout == "trec"]
    if not runs:
        return ""
    source = "runs of other programs" if len(runs) == len(rankings) else f"TREC runs ({', '.join(runs)})"
    return f"; in {source} by document id, as trec_eval"


def placed(scored: pl.DataFrame) -> pl.Series:
    """(rows,) the query of an event of a sequence, ``ID:PLACE``, of rows with ``id`` and ``place``."""
    return scored.select(pl.concat_str("id", pl.lit(":"), pl.col("place").cast(pl.String))).to_series()


def read_rankings(path: str | Path, name: str = "", **opening: Unpack[Opening]) -> Rankings:
    """Read the ranked lists of another program.

    Args:
        path: a TREC run or JSON Lines.
        name: name of the row; [default: the name of the file].
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``missing``.

    Raises:
        DataError: naming the file, the line and what to do.
    """
    path = require_path(path)
    with answering(path):
        content = open_file(path, **opening)
        if content.parquet:
            raise DataError(f"{path}: is not a file of rankings; give lines of {_TREC}, or of {_JSON}")
        rising = ""
        num_reversed = 0
        if content.json:
            frame, rising = _read_json_lines(content)
        else:
            frame, num_reversed = _read_trec(content)
        duplicates = frame.filter(frame.select("query", "value").is_duplicated())
        for query, value in duplicates.select("query", "value").head(1).iter_rows():
            raise DataError(f"{path}: {quoted(value)} appears twice in the ranking of {quoted(query)}")
    layout: Literal["trec", "jsonl"] = "jsonl" if content.json else "trec"
    return Rankings(name or path.name.partition(".")[0], frame, layout, rising, num_reversed)


def _read_trec(content: Content) -> tuple[pl.DataFrame, int]:
    """Return the lists, and how many of them the rank column orders the other way round."""
    lines, numbers, _ = content.filled_lines()
    words = lines.str.extract_all(r"\S+")
    for row in (words.list.len() != 6).arg_true()[:1]:
        fields = plural(len(words[row]), "field")
        raise DataError(f"{content.path}, line {numbers[row]}: {fields}; expected {_TREC}, or lines of {_JSON}")
    score = words.list.get(4).cast(pl.Float64, strict=False)
    for row in (score.is_null() | ~score.is_finite()).arg_true()[:1]:
        raise DataError(
            f"{content.path}, line {numbers[row]}: score {quoted(words[row][4])} is not a number; {_FINITE}"
        )
    query, value = (whole_numbers(words.list.get(field)) for field in (0, 2))
    frame = pl.DataFrame({"query": query, "value": value, "score": score})
    # As trec_eval sorts: by the score in 32 bits, and the last document id first where it is equal.
    frame = frame.with_columns(single=pl.col("score").cast(pl.Float32), given=pl.lit(None, pl.Int64))
    frame = frame.sort("query", "single", "value", descending=[False, True, True], maintain_order=True).drop("single")
    column = words.list.get(3).cast(pl.Float64, strict=False)
    # The document id has decided every tie, so that the rank is the position.
    return _positioned(frame).with_columns(rank=pl.col("position")), _num_reversed(query, column, score)


def _num_reversed(query: pl.Series, rank: pl.Series, score: pl.Series) -> int:
    """Return the number of lists whose first value by the rank column has the lowest score and the last the highest."""
    frame = pl.DataFrame({"query": query, "rank": rank, "score": score}).drop_nulls()
    low = pl.col("score").min()
    high = pl.col("score").max()
    first = pl.col("score").sort_by("rank").first()
    last = pl.col("score").sort_by("rank").last()
    # Ranks that repeat give no order.
    is_ordered = pl.col("rank").n_unique() == pl.len()
    lists = frame.group_by("query").agg(is_reversed=is_ordered & (first == low) & (last == high) & (low < high))
    return int(lists["is_reversed"].sum())


class _RankingLine(NamedTuple):
    """One line of JSON: a query and its list; of an answer of ours, the number of events it was made from."""

    query: str
    values: list[str]
    scores: list[float | None]
    num_events: int | None


def _read_json_lines(content: Content) -> tuple[pl.DataFrame, str]:
    """Return the lists in the order of the file, and a message about the first list whose scores rise."""
    parsed = list[_RankingLine]()
    rising = ""
    for number, text in content.filled():
        location = f"{content.path}, line {number}"
        parsed.append(_parse(location, text))
        rising = rising or _rising_message(location, parsed[-1])
    columns = {
        "query": pl.Series([line.query for line in parsed], dtype=pl.String),
        "value": pl.Series([line.values for line in parsed], dtype=pl.List(pl.String)),
        "score": pl.Series([line.scores for line in parsed], dtype=pl.List(pl.Float64)),
        "given": pl.Series([line.num_events for line in parsed], dtype=pl.Int64),
    }
    # One row per value: a list of two values gives two rows with its query; an empty list gives a row without a value.
    frame = pl.DataFrame(columns).explode("value", "score").filter(pl.col("value").is_not_null())
    return _ranked(frame), rising


def _rising_message(location: str, line: _RankingLine) -> str:
    """Return why the order of a list contradicts its scores; empty where the scores fall or there are none."""
    pairs = zip(line.scores, line.scores[1:], strict=False)
    for index, (score, following) in enumerate(pairs):
        if score is not None and following is not None and following > score:
            return (
                f"{location}: scores rise along the ranking, from {score:g} of {quoted(line.values[index])} to "
                f"{following:g} of {quoted(line.values[index + 1])}; list the best value first with the highest score: "
                "negate distances, or leave the scores out if the order is right"
            )
    return ""


def _parse(location: str, text: str) -> _RankingLine:
    """Return one line of JSON.

    Raises:
        DataError: naming the field and what to do.
    """
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DataError(f"{location}: not JSON; expected {_JSON}") from error
    if not isinstance(row, dict) or row.get("id") in (None, ""):
        raise DataError(f"{location}: has no id; expected {_JSON}")
    query = _id(location, row["id"])
    if isinstance(row.get("place"), int):  # one event of a sequence
        query = f"{query}:{row['place']}"
    values = row.get("ranking")
    scores = row.get("scores")
    num_events = None
    if values is None and isinstance(row.get("choices"), list):  # an answer of ours
        num_events = row["events"] if isinstance(row.get("events"), int) else None
        choices = [choice for choice in row["choices"] if isinstance(choice, dict)]
        values = [choice.get("value") for choice in choices]
        scores = [choice.get("score") for choice in choices]
    if not isinstance(values, list):
        raise DataError(f"{location}: ranking is not a list of values, best first; expected {_JSON}")
    if scores is None:
        scores = [None] * len(values)
    elif not isinstance(scores, list) or len(scores) != len(values):
        raise DataError(f"{location}: scores is not a list of {plural(len(values), 'number')}, one for each value")
    elif wrong := [score for score in scores if not _is_number(score)]:
        raise DataError(f"{location}: scores holds something that is not a number: {quoted(str(wrong[0]))}; {_FINITE}")
    return _RankingLine(query, [_id(location, value) for value in values], scores, num_events)


def _is_number(score: object) -> bool:
    return isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score)


def _id(location: str, value: object) -> str:
    try:
        return normal_id(value)
    except DataError as error:
        raise DataError(f"{location}: {error}") from error


def _positioned(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with their position in the list of their query, from 1."""
    return frame.with_columns(position=pl.int_range(1, pl.len() + 1).over("query"))


def _ranked(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with position and rank, where an equal score has the last of its positions as rank."""
    frame = _positioned(frame)
    # Of the scores 3 2 2 1 the ranks are 1 3 3 4: a tie counts against the target.
    last = pl.col("position").max().over("query", "score")
    return frame.with_columns(rank=pl.when(pl.col("score").is_null()).then(pl.col("position")).otherwise(last))
