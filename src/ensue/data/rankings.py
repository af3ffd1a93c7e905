"""What another program ranked, to be scored beside ours: a TREC run, or JSON Lines.

===========  =========================================================================================
trec         ``query Q0 document rank score tag``: as trec_eval reads it, by the score in single
             precision, equal scores by the document's id, the last one first; the rank is not looked at
jsonl        ``{"id": "s1", "place": 2, "ranking": ["a", "b"], "scores": [2.5, 1]}``, best first; also
             the answers of ``ensue predict --json`` (``choices`` with ``value`` and ``score``)
===========  =========================================================================================

A query is the id of what was asked; of one event of a sequence the id, a colon and how many events stand before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import polars as pl

from ensue.data.files import Content, answering, open_file
from ensue.data.packed import Opening
from ensue.errors import DataError
from ensue.lines import plural, quoted

_TREC = "query Q0 document rank score tag"
_JSON = '{"id": "…", "ranking": ["…", "…"]}'


@dataclass(frozen=True, eq=False)
class Rankings:
    """Ranked lists.

    Attributes:
        name: of the row.
        frame: ``query``, ``value``, its ``rank`` from 1, its ``score``, null where none was given, and ``given``, how
            much an answer of ours was made from, null in other lists.
    """

    name: str
    frame: pl.DataFrame

    def ranks(self, queries: pl.Series, targets: pl.Series) -> pl.Series:
        """(targets,) the rank of each target in the list of its query, null where it is not in it."""
        asked = pl.DataFrame({"query": queries, "value": targets})
        return asked.join(self.frame, on=["query", "value"], how="left", maintain_order="left")["rank"]

    def unmatched(self, scored: pl.DataFrame) -> str:
        """What of lists and queries does not belong together, for people; empty where all does.

        Args:
            scored: a row for each thing that is scored: its ``id``, and the ``place`` of an event in a sequence.
        """
        names = [scored["id"]]
        if "place" in scored.columns:
            names.append(placed(scored))
        own = self.frame["query"].unique(maintain_order=True)
        queries = max(names, key=lambda each: own.is_in(each.implode()).sum())
        missing = queries.filter(~queries.is_in(own.implode()))
        stray = own.filter(~own.is_in(queries.implode()))
        said = []
        if len(missing):
            said.append(f"no list for {len(missing):,} of {len(queries):,} queries, such as {missing[0]}: misses")
        if len(stray):
            said.append(f"{plural(len(stray), 'list')} of nothing that is scored, such as {stray[0]}: not looked at")
        return "; ".join(said)


def placed(scored: pl.DataFrame) -> pl.Series:
    """(rows,) the query of an event of a sequence, ``ID:PLACE``, of rows with ``id`` and ``place``."""
    return scored.select(pl.concat_str("id", pl.lit(":"), pl.col("place").cast(pl.String))).to_series()


def read_rankings(path: str | Path, name: str = "", **opening: Unpack[Opening]) -> Rankings:
    """What another program ranked.

    Args:
        path: a TREC run or JSON Lines.
        name: of the row; that of the file unless stated.
        opening: ``encoding``, ``sheet`` and ``max_unpacked``.

    Raises:
        DataError: naming the file, the line and what to do.
    """
    path = Path(path)
    with answering(path):
        content = open_file(path, **opening)
        if content.parquet:
            raise DataError(f"{path}: is no file of rankings; give lines of {_TREC}, or of {_JSON}")
        frame = _json(content) if content.json else _trec(content)
        twice = frame.select("query", "value").is_duplicated()
        for query, value in frame.filter(twice).select("query", "value").head(1).iter_rows():
            raise DataError(f"{path}: {quoted(value)} stands twice in the ranking of {quoted(query)}")
    return Rankings(name or path.name.partition(".")[0], frame)


def _trec(content: Content) -> pl.DataFrame:
    lines, numbers, _ = content.filled_lines()
    words = lines.str.extract_all(r"\S+")
    for row in (words.list.len() != 6).arg_true()[:1]:
        found = plural(len(words[row]), "field")
        raise DataError(f"{content.path}:{numbers[row]}: {found}; expected {_TREC}, or lines of {_JSON}")
    score = words.list.get(4).cast(pl.Float64, strict=False)
    for row in (score.is_null() | ~score.is_finite()).arg_true()[:1]:
        raise DataError(f"{content.path}:{numbers[row]}: score {quoted(words[row][4])} is no number")
    frame = pl.DataFrame({"query": words.list.get(0), "value": words.list.get(2), "score": score})
    frame = frame.with_columns(single=pl.col("score").cast(pl.Float32), given=pl.lit(None, pl.Int64))
    frame = frame.sort("query", "single", "value", descending=[False, True, True], maintain_order=True).drop("single")
    return _numbered(frame)


def _json(content: Content) -> pl.DataFrame:
    """Lists as they stand, best first."""
    queries: list[str] = []
    values: list[list[str]] = []
    scores: list[list[float | None]] = []
    given: list[int | None] = []
    for number, line in content.filled():
        query, own, theirs, amount = _listed(f"{content.path}:{number}", line)
        queries.append(query)
        values.append(own)
        scores.append(theirs)
        given.append(amount)
    columns = {"query": pl.Series(queries, dtype=pl.String), "value": pl.Series(values, dtype=pl.List(pl.String))}
    columns |= {"score": pl.Series(scores, dtype=pl.List(pl.Float64)), "given": pl.Series(given, dtype=pl.Int64)}
    frame = pl.DataFrame(columns)
    return _numbered(frame.explode("value", "score").filter(pl.col("value").is_not_null()))


def _listed(place: str, line: str) -> tuple[str, list[str], list[float | None], int | None]:
    """The query, the values and the scores of one line; of an answer of ours, from how much it was made."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{place}: is no JSON; expected {_JSON}") from error
    if not isinstance(row, dict) or not isinstance(row.get("id"), str | int) or row.get("id") == "":
        raise DataError(f"{place}: has no id; expected {_JSON}")
    query = str(row["id"])
    if isinstance(row.get("place"), int):
        query = f"{query}:{row['place']}"
    listed, scores, given = row.get("ranking"), row.get("scores"), None
    if listed is None and isinstance(row.get("choices"), list):
        given = row["given"] if isinstance(row.get("given"), int) else None
        pairs = [*_chosen(row["choices"])]
        listed, scores = [value for value, _ in pairs], [score for _, score in pairs]
    if not isinstance(listed, list) or not all(isinstance(value, str | int) for value in listed):
        raise DataError(f"{place}: ranking is no list of values, best first; expected {_JSON}")
    if scores is not None and (not isinstance(scores, list) or len(scores) != len(listed)):
        raise DataError(f"{place}: scores is no list of {plural(len(listed), 'number')}, one for each value")
    numbers = [None] * len(listed) if scores is None else scores
    if not all(score is None or isinstance(score, int | float) for score in numbers):
        raise DataError(f"{place}: scores holds something that is no number")
    return query, [str(value) for value in listed], numbers, given


def _chosen(choices: list[object]) -> Iterator[tuple[object, object]]:
    """(value, score) of the choices of an answer."""
    for choice in choices:
        if isinstance(choice, dict):
            yield choice.get("value"), choice.get("score")


def _numbered(frame: pl.DataFrame) -> pl.DataFrame:
    """With the rank of each value in its list, from 1, in the order of the rows."""
    return frame.with_columns(rank=pl.int_range(1, pl.len() + 1).over("query"))
