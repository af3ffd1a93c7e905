"""Data given in Python (paths, frames and plain lists) as records and columns of the readers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, TypeGuard, TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.arguments import require_path
from ensue.data.clock import SINCE_1970
from ensue.data.frames import frame_of, is_path, read_frame
from ensue.data.histories import Histories, Items
from ensue.data.items import read_items
from ensue.data.posts.corpus import Corpus, columns_of, read_corpus
from ensue.data.posts.dataset import Articles, Posts, read_articles, read_posts
from ensue.data.queries import Queries, read_queries
from ensue.data.queries.rules import QueryRules
from ensue.data.schema import NO_SCHEMA, DataSchema, ReadReport
from ensue.data.sequences import read, require_weights, telling
from ensue.data.texts import Texts, read_texts
from ensue.errors import DataError, SettingError
from ensue.lines import quoted
from ensue.records import Article, History, Post, Text, normal_ids
from ensue.settings import near

T = TypeVar("T")
_HISTORIES = 'give a list of histories, such as [["a", "b"], ["c"]]'
_TABLE = "give a data frame whose columns have names such as session, item and time"
_MAX_COMPARED = 1000
"""Rows that are compared at most."""
_MIN_DISTINCT = 10
"""Different values in each position of rows from which on a warning is given."""
_POSTS = 'give a list of texts, or of pairs such as ("the ferry", ["ferry-night"])'
_ARTICLES = 'give {"id": "text"} or a list of texts'
_READING_TYPES: dict[str, type] = {"columns": Mapping, "day_first": bool}
_READING_ADVICE: dict[type, str] = {
    Mapping: 'give role -> column, such as {"item": "iid"}',
    bool: "give True or False",
    str: "give a text",
}


class ReadingOptions(TypedDict, total=False):
    """Options of reading files and frames, as at the command line.

    A fitted estimator remembers how its training data was read, and reads later data alike.
    """

    columns: Mapping[str, str]
    """Role -> column, such as ``{"session": "sid", "item": "iid", "time": "ts"}``."""
    events: Collection[str] | Mapping[str, float]
    """Event types of a log that are read, such as ``["view", "purchase"]``; all unless stated. With weights,
    ``{"view": 1, "purchase": 10, "dislike": 0}``. ``NextEvent`` only."""
    time_unit: str
    """``s``, ``ms``, ``us``, ``ns``, ``h``, ``days`` or ``iso``."""
    day_first: bool
    """True if dates such as 03/04/2024 begin with the day."""
    encoding: str
    """Encoding of a text file, such as ``cp1252``."""
    sheet: str
    """Name of an Excel sheet."""
    missing: str
    """Policy for rows whose id is missing: ``drop`` or ``keep``."""


class TrainingReading(ReadingOptions, total=False):
    """Options of reading training data: :class:`ReadingOptions`, and a table of items. ``NextEvent`` only."""

    items: object
    """A table with one row per item, a path or a frame: titles, categories, words, numbers and dates."""
    item_columns: Mapping[str, str]
    """``item`` and ``title`` to columns, and columns to ``category``, ``text``, ``number``, ``time`` or ``ignore``,
    where the names and values do not say so."""


def histories_from(
    data: object, schema: DataSchema, reading: ReadingOptions, *, off_policy: bool = False
) -> tuple[Histories, DataSchema]:
    """Return histories of a path, a frame, or lists of ids, and how they were read.

    Args:
        data: also :class:`Histories`, which are returned as they are.
        schema: how the training data of the model was read.
        reading: what is stated.
        off_policy: whether events of weight 0 and propensities are kept.

    Raises:
        DataError: naming the file, the line, the field and what to do.
    """
    if isinstance(data, Histories):
        return data, schema
    reading = ReadingOptions(**reading)
    # Event types are no option of the other readers: they go to the reader of logs alone.
    events = reading.pop("events", ())
    opened = from_file(data, schema, reading, partial(read, sort=schema.sort, events=events, off_policy=off_policy))
    return (Histories.of(history_records(data)), schema) if opened is None else opened


def histories_with_items(
    data: object, schema: DataSchema, reading: TrainingReading, known: Items | None = None
) -> tuple[Histories, DataSchema]:
    """Return what :func:`histories_from` returns, with the table of ``items`` where one is given.

    Args:
        data: see :func:`histories_from`.
        schema: see :func:`histories_from`.
        reading: what is stated.
        known: items of the model, whose columns and types a table of new items has too.

    Raises:
        DataError: see :func:`histories_from` and :func:`ensue.data.items.read_items`.
        SettingError: columns of a table that is not given.
    """
    reading = TrainingReading(**reading)
    table = reading.pop("items", None)
    columns = reading.pop("item_columns", None)
    if columns and table is None:
        raise SettingError("item_columns names columns of an item table; give items too")
    histories, data_schema = histories_from(data, schema, reading)
    if is_path(data):
        require_weights(Path(data), schema)
    if table is not None:
        histories = replace(histories, items=read_item_table(table, columns, known))
    return histories, data_schema


def read_item_table(data: object, columns: Mapping[str, str] | None, known: Items | None) -> Items:
    """Return the items of a path or of a frame.

    Args:
        data: the table.
        columns: what is stated of its columns.
        known: items of the model, whose columns and types the table has too.

    Raises:
        DataError: see :func:`ensue.data.items.read_items`.
        SettingError: see there.
    """
    opened = _read_source(data, partial(read_items, columns=columns, like=known))
    if opened is None:
        raise DataError(f"items is of type {type(data).__name__}; give the path of a table, or a frame")
    items, warnings = opened
    warn_of(warnings)
    return items


def require_people(data: object, reading: ReadingOptions) -> None:
    """Refuse a path or a frame of sessions in which a column of users is not read; of lists nothing is known.

    Raises:
        SettingError: naming the columns and what to state.
    """
    _read_source(data, partial(telling.require_people, columns=reading.get("columns", {})))


def queries_from(data: object, schema: DataSchema, reading: ReadingOptions) -> tuple[Queries, DataSchema]:
    """Return sessions of queries of a path, a frame, or lists of queries; as :func:`histories_from`."""
    if isinstance(data, Queries):
        return data, schema
    opened = from_file(data, schema, reading, read_queries)
    if opened is None:
        # Lists go through the reader of tables, whose rules clean queries: a b | c gives (0, a), (0, b), (1, c).
        sessions = history_records(data)
        rows = [(str(number), query) for number, session in enumerate(sessions) for query in session.values]
        frame = pl.DataFrame(rows, schema={"session": pl.String, "query": pl.String}, orient="row")
        return read_frame(frame, read_queries)[0], schema
    return opened


def sessions_from(data: object, schema: DataSchema, reading: ReadingOptions) -> list[History]:
    """Return sessions that are asked about, one record each, also those of a single query."""
    rules = QueryRules(min_queries=0, repeats=True)
    opened = from_file(data, schema, reading, partial(read_queries, rules=rules))
    return history_records(data) if opened is None else list(opened[0].records())


def texts_from(data: object, schema: DataSchema, reading: ReadingOptions) -> tuple[Texts, DataSchema]:
    """Return labelled texts of a path, a frame, or a pair (texts, labels); as :func:`histories_from`."""
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], list):
        rows = texts_of(data[0])
        labels = data[1]
        # A frame that holds its labels too would be read as pairs of a text and a label.
        frame = frame_of(data[0])
        for name, column in ({} if frame is None else frame.to_dict(as_series=False)).items():
            if column == labels:
                raise DataError(f"X: column {quoted(name)} holds the labels; give the texts alone, such as X['text']")
        if len(labels) != len(rows):
            raise DataError(f"X has {len(rows):,} texts and y {len(labels):,} labels; give one label per text")
        return Texts.of(Text(row, label) for row, label in zip(rows, labels, strict=True)), schema
    if isinstance(data, Texts):
        return data, schema
    opened = from_file(data, schema, reading, read_texts)
    if opened is None:
        raise DataError("y is missing; give fit(texts, labels), or a path or a frame that holds both")
    return opened


def unlabelled_texts_from(data: object, schema: DataSchema, reading: ReadingOptions) -> Texts:
    """Return texts that are asked about: every row of a path or a frame, or a list of texts."""
    if isinstance(data, Texts):
        return data
    frame = None if is_path(data) else frame_of(data)
    # A frame of one or two columns is the texts themselves, unless something is known of its columns.
    if is_path(data) or (frame is not None and (schema.columns or reading or frame.width > 2)):
        opened = from_file(data, schema, reading, partial(read_texts, unlabelled=True))
        assert opened is not None
        return opened[0]
    return Texts.of(Text(row) for row in texts_of(data))


def corpus_from(data: object, schema: DataSchema, reading: ReadingOptions) -> tuple[Corpus, DataSchema]:
    """Return posts and articles of a folder or of a pair (posts, articles); as :func:`histories_from`."""
    posts, articles = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    if isinstance(posts, Corpus):
        return posts, schema
    if is_path(posts) and (articles is None or is_path(articles)):  # one folder, or a file of each
        options = reader_options(schema, reading)
        with readable(posts):
            corpus, (stories, understood) = read_corpus(posts, articles, **options)  # type: ignore[arg-type]
        warn_of((*stories.warnings, *understood.warnings))
        return corpus, remembered_schema(schema, reading, columns_of(stories, understood))
    if articles is None:
        raise DataError("articles are missing; give fit(posts, articles), or a folder that holds both")
    return Corpus(articles_of(articles), posts_of(posts)), schema


def from_file(
    data: object, schema: DataSchema, reading: ReadingOptions, read: Callable[..., tuple[T, ReadReport]]
) -> tuple[T, DataSchema] | None:
    """Return the data of a path or a frame, and how it was read; ``None`` for other data."""
    opened = _read_source(data, partial(read, **reader_options(schema, reading)))
    if opened is None and reading:
        raise SettingError(f"{min(reading)}: only files and frames are read with options; remove it for lists")
    if opened is None:
        return None
    data_read, report = opened
    warn_of(report.warnings)
    # Only reports of files with times have the order of day and month, only those of logs the event types.
    day_first = getattr(report, "day_first", None)
    return data_read, remembered_schema(schema, reading, report.columns, day_first, getattr(report, "events", ""))


def _read_source(data: object, read: Callable[[Path], T]) -> T | None:
    """Return what a reader returns for a path or a frame; ``None`` for other data."""
    if is_path(data):
        with readable(data):
            return read(Path(data))
    frame = frame_of(data)
    return None if frame is None else read_frame(frame, read)


@contextmanager
def readable(path: str | PathLike[str]) -> Iterator[None]:
    """Turn errors of the file system into a :class:`DataError`."""
    require_path(path)
    try:
        yield
    except OSError as error:
        raise DataError(f"{quoted(str(path), 60)}: cannot be read ({error.strerror}: {error.filename})") from error


def reader_options(schema: DataSchema, reading: ReadingOptions) -> dict[str, object]:
    """Return the keywords of a reader."""
    unknown = set(reading) - set(ReadingOptions.__annotations__)
    if unknown:
        name = min(unknown)
        hint = near(name, ReadingOptions.__annotations__)
        raise SettingError(
            f"{name!r} is not an option of reading; {hint}choose from {', '.join(ReadingOptions.__annotations__)}"
        )
    if "events" in reading:
        raise SettingError("events: only the logs of NextEvent have event types; remove it")
    for name, value in reading.items():
        if not isinstance(value, kind := _READING_TYPES.get(name, str)):
            raise SettingError(f"{name} is of type {type(value).__name__}; {_READING_ADVICE[kind]}")
    if not all(isinstance(name, str) for pair in reading.get("columns", {}).items() for name in pair):
        raise SettingError(f"columns holds a non-text; {_READING_ADVICE[Mapping]}")
    return {**reading, "schema": schema}


def remembered_schema(
    schema: DataSchema,
    reading: ReadingOptions,
    columns: Mapping[str, str],
    day_first: bool | None = None,
    events: str = "",
) -> DataSchema:
    """Return how later data of the model is read: as stated, as found, or like the training data."""
    names = ("encoding", "sheet", "time_unit", "missing")
    stated: dict[str, Any] = {name: value for name, value in reading.items() if name in names}
    day_first = schema.day_first if day_first is None else day_first
    return replace(schema, columns=dict(columns), day_first=day_first, events=events, **stated)


def warn_of(sentences: Iterable[str]) -> None:
    """Pass what a reader warns of on to Python's warnings."""
    for sentence in sentences:
        warnings.warn(sentence, UserWarning, stacklevel=5)  # the line that called fit or predict


def history_records(data: object) -> list[History]:
    """Return lists of ids, or pairs of ids and times, as records.

    Raises:
        DataError: a single text, something that is no list of lists, or the rows of a table.
    """
    if (num_dimensions := getattr(data, "ndim", 1)) > 1:
        raise DataError(
            f"data is an array of {num_dimensions} dimensions; {_TABLE}, or a list of the items of each session"
        )
    rows = _rows(data, "data", _HISTORIES)
    _require_sessions(rows)

    def convert(row: object, name: str) -> History | None:
        if isinstance(row, tuple) and len(row) == 2 and all(map(_is_collection, row)):  # ids and their times
            row = History(tuple(row[0]), tuple(row[1]))
        elif not isinstance(row, History):
            row = History(normal_ids(row, name)) if _is_collection(row) else None
        require_unicode(() if row is None else row.values, name)
        return row

    return _records(rows, "data", _HISTORIES, convert)


def _require_sessions(rows: Sequence[object]) -> None:
    """Refuse lists that are rows of a table, such as (session, item, time); warn of lists that may be.

    Items of a session are of one kind, wherever they are in their session; columns of a table may be of several.

    Raises:
        DataError: all rows have one width and one kind of entry in each position, of two kinds or more.
    """
    lists = [row for row in rows[:_MAX_COMPARED] if isinstance(row, list | tuple)]
    if len(lists) < min(max(len(rows), 2), _MAX_COMPARED) or len({len(row) for row in lists}) > 1:
        return
    columns = [*zip(*lists, strict=True)]
    kinds = [{_kind_of_entry(entry) for entry in column} for column in columns]
    if len(kinds) < 2 or any(len(kind) > 1 or "" in kind for kind in kinds):
        return
    described = f"all {len(rows):,} rows have {len(columns)} entries"
    if len(set.union(*kinds)) > 1:
        entries = ", ".join(kind.pop() for kind in kinds)
        raise DataError(
            f"data: {described} ({entries}), as rows of a table have; {_TABLE}, or a History of each row if it is a "
            "session"
        )
    values = [set(column) for column in columns]
    # Of few values, those of two positions may differ by chance, or because a page always follows another.
    is_disjoint = sum(map(len, values)) == len(set.union(*values))
    if is_disjoint and min(map(len, values)) >= _MIN_DISTINCT and len(values[0]) < len(lists):
        warn_of([f"data: {described}, none in two positions: each row is read as a session; if not, {_TABLE}"])


def _kind_of_entry(entry: object) -> str:
    """Return ``time``, ``number`` or ``text``; nothing for other entries."""
    if isinstance(entry, int | float | np.number):
        return "time" if abs(float(entry)) >= SINCE_1970 else "number"
    is_time = isinstance(entry, date | np.datetime64) or re.match(r"\d{4}-\d\d-\d\d", str(entry))
    return "time" if is_time else "text" if isinstance(entry, str) else ""


def posts_of(data: object) -> Posts:
    """Return posts of a path, a frame or a list of texts or of (text, ids of articles)."""
    if isinstance(data, Posts):
        return data
    opened = from_file(data, NO_SCHEMA, {}, read_posts)
    return Posts.of(post_records(data)) if opened is None else opened[0]


def post_records(data: object) -> list[Post]:
    """Return posts as records; those of a list of texts have no ids."""
    if isinstance(data, Posts) or is_path(data) or frame_of(data) is not None:
        return list(posts_of(data).records())

    def convert(row: object, name: str) -> Post | None:
        text, about = row if isinstance(row, tuple) and len(row) == 2 else (row, ())
        if isinstance(text, str) and isinstance(about, Iterable) and not isinstance(about, str):
            row = Post(text, about=tuple(about))
        if not isinstance(row, Post):
            return None
        require_unicode([row.text], name)
        return row

    return _records(data, "posts", _POSTS, convert)


def articles_of(data: object) -> Articles:
    """Return articles of a path, a frame, a mapping of id to text, or a list of records."""
    if isinstance(data, Articles):
        return data
    if isinstance(data, Mapping):
        return Articles.of([Article(text, id) for id, text in data.items()])
    opened = from_file(data, NO_SCHEMA, {}, read_articles)
    if opened is not None:
        return opened[0]

    def convert(row: object, _: str) -> Article | None:
        return Article(row) if isinstance(row, str) else row if isinstance(row, Article) else None

    return Articles.of(_records(data, "articles", _ARTICLES, convert))


def texts_of(data: object) -> list[tuple[str, ...]]:
    """Return texts, or pairs of texts, of a list, an array, a column or a frame of one or two columns.

    Raises:
        DataError: something else.
    """
    frame = frame_of(data)
    # Rows of a frame are tuples, of one text or of a pair.
    rows = column_of(data, "X") if frame is None else frame.rows()

    def convert(row: object, name: str) -> tuple[str, ...] | None:
        texts = row.texts if isinstance(row, Text) else (row,) if isinstance(row, str) else row
        if not isinstance(texts, Sequence) or isinstance(texts, bytes):
            return None
        require_unicode(texts, name)
        return tuple(texts)

    return _records(rows, "X", "give texts, or pairs of texts", convert)


def require_unicode(texts: Iterable[object], name: str) -> None:
    """Refuse texts with half a character, which cannot be stored.

    Raises:
        DataError: there is one.
    """
    try:
        "".join(text for text in texts if isinstance(text, str)).encode()
    except UnicodeEncodeError:
        raise DataError(f"{name} holds half a character; give whole Unicode") from None


def column_of(data: object, name: str) -> list[object]:
    """Return the entries of a list, an array or a column of any library.

    Raises:
        DataError: a single text, or no collection.
    """
    if (frame := frame_of(data)) is not None:
        if frame.width != 1:
            raise DataError(f"{name} is a frame of {frame.width} columns; give one column")
        return frame.to_series().to_list()
    # Anything that is no series of a library passes through unchanged.
    column: object = nw.from_native(data, pass_through=True, allow_series=True)
    if isinstance(column, nw.Series):
        return column.to_list()
    if isinstance(data, np.ndarray) and data.ndim:
        return list(data.tolist())
    to_list = getattr(data, "to_pylist", None)  # an array of pyarrow
    return _rows(data if to_list is None else to_list(), name, "give a list")


def labels_of(y: object) -> list[object]:
    """Return the labels of texts: one each, or a tuple of several, from sets or a (texts, labels) matrix of 0 and 1."""
    to_array = getattr(y, "toarray", None)  # of a sparse matrix
    matrix = y if to_array is None else to_array()
    if (frame := frame_of(y)) is not None and frame.width > 1:
        raise DataError(
            f"y is a frame of {frame.width} columns; give one column, or y.to_numpy() for 0 and 1 per label"
        )
    if isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.shape[1] > 1:
        if not np.isin(matrix, (0, 1)).all():
            raise DataError("y is a matrix of other numbers than 0 and 1; give 1 for each label of a text")
        return [tuple(np.flatnonzero(row).tolist()) for row in matrix]
    labels = column_of(y, "y")
    # Sets in one order, so that the same data gives the same model.
    try:
        labels = [sorted(label) if isinstance(label, set | frozenset) else label for label in labels]
    except TypeError:
        raise DataError("y has a set with labels of several types, such as a text and None; give texts") from None
    return [tuple(label) if isinstance(label, list) else label for label in labels]


def accuracy(predictions: Sequence[object], labels: Sequence[object], sample_weight: object) -> float:
    """Return the fraction of correct predictions, weighted where there are weights.

    Raises:
        DataError: a wrong number of labels or weights, or weights that are no numbers.
    """
    weights: npt.NDArray[np.float64] = np.ones(len(predictions))
    if sample_weight is not None:
        try:
            weights = np.array(column_of(sample_weight, "sample_weight"), np.float64)
        except (TypeError, ValueError):
            raise DataError("sample_weight holds a non-number; give one weight per text") from None
    for name, count in (("y", len(labels)), ("sample_weight", len(weights))):
        if count != len(predictions):
            raise DataError(f"X has {len(predictions):,} texts and {name} {count:,} entries; give one per text")
    # Comparisons with NaN are false, so that it is refused too.
    if weights.ndim != 1 or not weights.min(initial=np.inf) >= 0 or not 0 < weights.sum() < np.inf:
        raise DataError("sample_weight has no positive sum; give finite weights of 0 or more")
    is_correct = [prediction == label for prediction, label in zip(predictions, labels, strict=True)]
    return float(weights[is_correct].sum() / weights.sum())


def functions_of(functions: object, name: str) -> list[Callable[..., object]]:
    """Return a list of functions.

    Raises:
        SettingError: it is no list, or an entry is no function.
    """
    members = list(functions) if _is_collection(functions) else [functions]
    if wrong := [function for function in members if not callable(function)]:
        raise SettingError(f"{name} holds a {type(wrong[0]).__name__}; give a list of functions")
    return [function for function in members if callable(function)]


def _records(data: object, name: str, advice: str, convert: Callable[[object, str], T | None]) -> list[T]:
    """Return the members of a collection as records.

    Args:
        data: anything.
        name: name of the collection for messages.
        advice: what to give instead.
        convert: returns the record of a member, whose name in messages it is given; ``None`` where it is none.

    Raises:
        DataError: no collection, or a member that is no record.
    """
    records = []
    for position, row in enumerate(_rows(data, name, advice)):
        record = convert(row, f"{name}[{position}]")
        if record is None:
            raise DataError(f"{name}[{position}] is of type {type(row).__name__}; {advice}")
        records.append(record)
    return records


def _rows(data: object, name: str, advice: str) -> list[object]:
    """Return the members of a collection that has an order.

    Raises:
        DataError: a single text, a mapping, or no collection.
    """
    if not _is_collection(data):
        raise DataError(f"{name} is of type {type(data).__name__}; {advice}")
    return list(data)


def _is_collection(data: object) -> TypeGuard[Iterable[object]]:
    """Return whether data has members in an order: no single text, mapping, set or array without a dimension."""
    unordered = isinstance(data, str | bytes | Mapping | Set)
    # A NumPy array without a dimension is iterable by its type, and cannot be iterated.
    return isinstance(data, Iterable) and not unordered and getattr(data, "ndim", 1) > 0
