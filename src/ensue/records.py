"""Frozen records of the inputs; their JSON is a line of a file, a message, or the body of a request."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral, Real
from typing import ClassVar, Self, cast

from ensue.errors import DataError
from ensue.lines import line_of, plural, quoted

MAX_EXACT = 2**53
"""Floats from here on no longer hold every integer, so that different ids may have become the same number."""


def normal_id(value: object) -> str:
    """Return the text of an id, as a CSV file would hold it: ``110`` for ``"110"``, ``110``, ``110.0`` and NumPy's.

    Args:
        value: a text, an integer, or a float or decimal that is a whole number. A text is returned as it is.

    Raises:
        DataError: ``value`` is missing (``None`` or NaN), a fraction, a float that was rounded, or of another type.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    # A decimal keeps all its digits, which a float would round.
    if isinstance(value, Decimal):
        return _whole_number(value)
    if isinstance(value, Real) and not isinstance(value, bool):
        return _whole_number(float(value))
    if value is None:
        raise DataError("None is not an id; leave out events whose id is missing")
    raise DataError(
        f"{quoted(value, 60)} is not an id but of type {type(value).__name__}; ids are texts or whole numbers"
    )


def normal_ids(values: object, name: str) -> tuple[str, ...]:
    """Return the texts of some ids, each as :func:`normal_id` gives it, in their order.

    Args:
        values: a tuple, a list, an array, a column or any other iterable of ids.
        name: what an error calls them, such as ``exclude``.

    Raises:
        DataError: ``values`` is a single text or no collection, or one of them is no id; its position is named.
    """
    texts = as_tuple(values, name, "ids")
    # Nearly always all are texts, which one look at the types tells.
    if set(map(type, texts)) <= {str}:
        return cast("tuple[str, ...]", texts)
    normal = []
    for position, value in enumerate(texts):
        try:
            normal.append(normal_id(value))
        except DataError as error:
            raise DataError(f"{name}[{position}]: {error}") from None
    return tuple(normal)


def as_tuple(values: object, name: str, noun: str) -> tuple[object, ...]:
    """Return the members of a collection; a text, bytes or a mapping is none, though Python iterates over it.

    Args:
        values: what a caller gave as a collection.
        name: what an error calls it.
        noun: what it holds, in the plural.

    Raises:
        DataError: it is no collection.
    """
    if isinstance(values, str):
        raise DataError(
            f"{name} is the text {quoted(values, 60)}; give a list of {noun}, such as [{quoted(values, 60)}]"
        )
    # An array of no dimension is iterable by its type and has no members.
    if isinstance(values, bytes | Mapping) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) < 1:
        raise DataError(f"{name} is of type {type(values).__name__}; give a list of {noun}")
    return values if isinstance(values, tuple) else tuple(values)


def _whole_number(value: float | Decimal) -> str:
    if math.isnan(value):
        raise DataError("NaN is not an id; leave out events whose id is missing")
    if math.isinf(value) or value != int(value):
        raise DataError(f"{value} is not an id; ids are texts or whole numbers")
    if isinstance(value, float) and abs(value) >= MAX_EXACT:
        raise DataError(f"{value} is a float beyond 2^53, where ids are rounded; give ids as texts or integers")
    return str(int(value))


OF_IDS = "must be a list of texts or whole numbers"
"""Rule of the ids in a record of JSON."""


class Record(ABC):
    """Base class of the records: lines of JSON."""

    __slots__: tuple[str, ...] = ()
    NEEDED: ClassVar[str]
    """The field that is never left out."""
    EXAMPLE: ClassVar[str]
    """A line that an error shows."""
    CALL: ClassVar[str]
    """One in Python, that an error shows."""
    id: str
    """Name of the record; may be empty."""

    def to_json(self) -> str:
        """Return one line of JSON, read back by :meth:`from_json`; only the needed field is written if it is empty."""
        return line_of(self, self.NEEDED)

    @classmethod
    def from_json(cls, line: str, where: str = "record") -> Self:
        """Read what :meth:`to_json` wrote.

        Raises:
            DataError: naming ``where`` (a file and line), the field and what to do.
        """
        return cls.from_fields(_read_object(line, where, cls.NEEDED, cls.EXAMPLE), where)

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """Return the record in a decoded JSON object; unknown fields are refused.

        Raises:
            DataError: naming ``where``, the field and what to do.
        """


@dataclass(frozen=True, slots=True)
class History(Record):
    """One timed sequence: a cascade of users, a session of clicks.

    ``values`` are raw ids, oldest first; whole numbers of any type become the text that a CSV file would hold.
    ``times`` are seconds, non-decreasing, as many as values or none at all.

    Example:
        >>> from ensue import History
        >>> History(("ann", "bob"), (0.0, 60.0), "p1").to_json()
        '{"values": ["ann", "bob"], "times": [0.0, 60.0], "id": "p1"}'
    """

    NEEDED: ClassVar[str] = "values"
    EXAMPLE: ClassVar[str] = '{"values": ["a", "b"]}'
    CALL: ClassVar[str] = 'History(("a", "b"))'

    values: tuple[str, ...]
    times: tuple[float, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _name(self.id, "history"))
        try:
            if isinstance(self.values, Set):
                raise DataError("values is a set, which has no order; give a tuple of ids, oldest first")
            object.__setattr__(self, "values", normal_ids(self.values, "values"))
            object.__setattr__(self, "times", _seconds(self.times))
        except DataError as error:
            raise DataError(f"history {quoted(self.id)}: {error}") from None
        if self.times:
            self._require_rising_times()

    def _require_rising_times(self) -> None:
        if len(self.times) != len(self.values):
            values, times = plural(len(self.values), "value"), plural(len(self.times), "time")
            raise DataError(f"history {quoted(self.id)}: {values} but {times}; give one time per value, or none")
        # NaN compares as neither smaller nor larger, so it is looked for before the order is.
        for position, time in enumerate(self.times):
            if not math.isfinite(time):
                raise DataError(f"history {quoted(self.id)}: times[{position}] is {time}; times must be finite numbers")
            if position and time < self.times[position - 1]:
                raise DataError(
                    f"history {quoted(self.id)}: times[{position}] = {time} comes after {self.times[position - 1]}; "
                    "times must not decrease"
                )

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """See :meth:`Record.from_fields`."""
        _refuse_unknown(fields, ("values", "times", "id"), "a history has values, times and id", where)
        values = fields.get("values", [])
        times = fields.get("times", [])
        if not isinstance(values, list):
            raise DataError(f'{where}: field "values" {OF_IDS}')
        if not isinstance(times, list) or not all(map(_is_number, times)):
            raise DataError(f'{where}: field "times" must be a list of numbers (seconds)')
        try:
            ids = normal_ids(values, "values")
        except DataError as error:
            raise DataError(f'{where}: field "values" {OF_IDS}') from error
        name = _read_name(fields, where)
        # JSON may hold half of a surrogate pair, which no file and no terminal takes.
        _whole("".join([name, *ids]), where)
        try:
            return cls(ids, tuple(map(float, times)), name)
        except (DataError, OverflowError) as error:
            raise DataError(f"{where}: {error}") from error


@dataclass(frozen=True, slots=True)
class Text(Record):
    """One text, or a pair of texts, and maybe its label: a review, a question, a premise and its hypothesis.

    Example:
        >>> from ensue import Text
        >>> Text(("a fine film",), "good").to_json()
        '{"texts": ["a fine film"], "label": "good"}'
    """

    NEEDED: ClassVar[str] = "texts"
    EXAMPLE: ClassVar[str] = '{"texts": ["a text"]}'
    CALL: ClassVar[str] = 'Text(("a text",))'

    texts: tuple[str, ...]
    label: str | tuple[str, ...] | None = None
    """One label; or all labels of a text that may have several, or none."""
    id: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _name(self.id, "text"))
        try:
            texts = as_tuple(self.texts, "texts", "one text or two")
            if len(texts) not in (1, 2):
                raise DataError(f"{len(texts)} texts; give one text, or a pair")
            for position, text in enumerate(texts):
                _require_text(text, f"texts[{position}]")
            label = labels_text(self.label)
            if label == "" or (isinstance(label, tuple) and "" in label):
                raise DataError("label is empty; name one, or leave it out")
            object.__setattr__(self, "label", label)
        except DataError as error:
            raise DataError(f"text {quoted(self.id)}: {error}") from None
        object.__setattr__(self, "texts", texts)

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """See :meth:`Record.from_fields`."""
        _refuse_unknown(fields, ("texts", "label", "id"), "a text has texts, label and id", where)
        texts = fields.get("texts", [])
        label = fields.get("label")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError(f'{where}: field "texts" must be a list of one or two texts')
        try:
            name_of_label = labels_text(label)
        except DataError as error:
            raise DataError(f'{where}: field "label" must be a text, a number, true or false, or a list') from error
        name = _read_name(fields, where)
        _whole("".join([name, *(name_of_label or ()), *texts]), where)
        try:
            return cls(tuple(texts), name_of_label, name)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error


@dataclass(frozen=True, slots=True)
class Post(Record):
    """One post: what somebody wrote, and the ids of the articles it is known to be about.

    Example:
        >>> from ensue import Post
        >>> Post("the ferry adds night crossings", "p1", ("ferry-night",)).about
        ('ferry-night',)
    """

    NEEDED: ClassVar[str] = "text"
    EXAMPLE: ClassVar[str] = '{"text": "a post"}'
    CALL: ClassVar[str] = 'Post("a post")'

    text: str
    id: str = ""
    about: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _name(self.id, "post"))
        try:
            _require_text(self.text, "text")
            object.__setattr__(self, "about", normal_ids(self.about, "about"))
        except DataError as error:
            raise DataError(f"post {quoted(self.id)}: {error}") from None

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """See :meth:`Record.from_fields`."""
        _refuse_unknown(fields, ("text", "id", "about"), "a post has text, id and about", where)
        article_ids = fields.get("about", [])
        try:
            names = normal_ids(article_ids if isinstance(article_ids, list) else None, "about")
        except DataError as error:
            raise DataError(f'{where}: field "about" must be a list of ids of articles') from error
        _whole("".join(names), where)
        return cls(_read_text(fields, "text", where), _whole(_read_name(fields, where), where), names)


@dataclass(frozen=True, slots=True)
class Article(Record):
    """One article: its body, all of it, and its title.

    Example:
        >>> from ensue import Article
        >>> Article("It sails at ten.", "ferry-night", "Ferry adds night crossings").title
        'Ferry adds night crossings'
    """

    NEEDED: ClassVar[str] = "body"
    EXAMPLE: ClassVar[str] = '{"body": "an article"}'
    CALL: ClassVar[str] = 'Article("an article")'

    body: str
    id: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _name(self.id, "article"))
        _require_text(self.body, f"article {quoted(self.id)}: body")
        _require_text(self.title, f"article {quoted(self.id)}: title")

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """See :meth:`Record.from_fields`."""
        _refuse_unknown(fields, ("body", "id", "title"), "an article has body, id and title", where)
        title = _read_text(fields, "title", where) if "title" in fields else ""
        return cls(_read_text(fields, "body", where), _whole(_read_name(fields, where), where), title)


def _read_object(line: str, where: str, needed: str, example: str) -> dict[str, object]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({quoted(error)}); expected {example}") from error
    if not isinstance(fields, dict) or needed not in fields:
        raise DataError(f'{where}: field "{needed}" is missing; expected {example}')
    return fields


def _refuse_unknown(fields: Mapping[str, object], names: tuple[str, ...], sentence: str, where: str) -> None:
    unknown = sorted(set(fields) - set(names))
    if unknown:
        raise DataError(f"{where}: field {quoted(unknown[0])} is not known; {sentence}")


def _read_text(fields: Mapping[str, object], name: str, where: str) -> str:
    text = fields.get(name, "")
    if not isinstance(text, str):
        raise DataError(f'{where}: field "{name}" must be a text')
    return _whole(text, where)


def _read_name(fields: Mapping[str, object], where: str) -> str:
    try:
        return _name(fields.get("id", ""), where)
    except DataError as error:
        raise DataError(f'{where}: field "id" must be a text or a whole number') from error


def _name(id: object, noun: str) -> str:
    """Return the text of an id that may be left out."""
    if type(id) is str:  # nearly always
        return id
    try:
        return "" if id is None else normal_id(id)
    except DataError as error:
        raise DataError(f"{noun}: id: {error}") from None


def labels_text(labels: object) -> str | tuple[str, ...] | None:
    """Return the text of each label of a list or a set; of anything else what :func:`label_text` returns."""
    if isinstance(labels, list | tuple | set | frozenset):
        texts = [text for label in labels if (text := label_text(label)) is not None]
        return tuple(dict.fromkeys(sorted(texts) if isinstance(labels, set | frozenset) else texts))
    return label_text(labels)


def label_text(label: object) -> str | None:
    """Return the text of a label that may be left out; numbers and booleans as they print."""
    if label is None or isinstance(label, str):
        return None if label is None else str(label)
    if type(label).__name__ in ("bool", "bool_"):  # NumPy's too
        return str(label)
    if isinstance(label, Real) and math.isfinite(label):
        # 1 and 1.0 are one label; whole numbers beyond 2^53 keep their digits.
        number = float(label)
        return str(int(number)) if number.is_integer() and abs(number) < MAX_EXACT else str(label)
    raise DataError(f"label is {quoted(label, 60)}; it must be a text, a number, true or false")


def _require_text(text: object, name: str) -> None:
    if not isinstance(text, str):
        raise DataError(f"{name} is of type {type(text).__name__}; it must be a text")


def _seconds(times: object) -> tuple[float, ...]:
    """Return times as Python's floats."""
    seconds = as_tuple(times, "times", "seconds")
    # Nearly always all are floats already; the loop is for other numbers and for mistakes.
    if set(map(type, seconds)) <= {float}:
        return cast("tuple[float, ...]", seconds)
    for position, time in enumerate(seconds):
        if not _is_number(time):
            raise DataError(f"times[{position}] is {quoted(time, 60)}; it must be a number (seconds)")
    return tuple(map(float, cast("tuple[float, ...]", seconds)))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _whole(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: a text has half of a surrogate pair ({error.reason}); send whole Unicode") from error
    return text
