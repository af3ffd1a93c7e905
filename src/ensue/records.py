"""Frozen records of the inputs; their JSON is a line of a file, a message, or the body of a request."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from dataclasses import fields as fields_of
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


class Record:
    """Base class of the records: lines of JSON."""

    __slots__: tuple[str, ...] = ()
    NOUN: ClassVar[str]
    """What an error calls a record."""
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
        try:
            decoded = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({quoted(error)}); expected {cls.EXAMPLE}") from error
        return cls.from_fields(decoded if isinstance(decoded, dict) else {}, where)

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """Return the record in a decoded JSON object; unknown fields are refused.

        Raises:
            DataError: naming ``where``, the field and what to do.
        """
        if cls.NEEDED not in fields:
            raise DataError(f'{where}: field "{cls.NEEDED}" is missing; expected {cls.EXAMPLE}')
        names = [field.name for field in fields_of(cls)]  # type: ignore[arg-type]  # each record is a dataclass
        if unknown := sorted(fields.keys() - set(names)):
            known = f"{cls.NOUN} has {', '.join(names[:-1])} and {names[-1]}"
            raise DataError(f"{where}: field {quoted(unknown[0])} is not known; {known}")
        values = {}
        for name, value in fields.items():
            read, rule = _FIELDS[name]
            try:
                values[name] = read(value)
            except DataError as error:
                raise DataError(f'{where}: field "{name}" must be {rule}') from error
            except UnicodeEncodeError as error:
                raise DataError(
                    f"{where}: a text has half of a surrogate pair ({error.reason}); send whole Unicode"
                ) from error
        try:
            return cls(**values)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error


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

    NOUN: ClassVar[str] = "a history"
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


@dataclass(frozen=True, slots=True)
class Text(Record):
    """One text, or a pair of texts, and maybe its label: a review, a question, a premise and its hypothesis.

    Example:
        >>> from ensue import Text
        >>> Text(("a fine film",), "good").to_json()
        '{"texts": ["a fine film"], "label": "good"}'
    """

    NOUN: ClassVar[str] = "a text"
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


@dataclass(frozen=True, slots=True)
class Post(Record):
    """One post: what somebody wrote, and the ids of the articles it is known to be about.

    Example:
        >>> from ensue import Post
        >>> Post("the ferry adds night crossings", "p1", ("ferry-night",)).about
        ('ferry-night',)
    """

    NOUN: ClassVar[str] = "a post"
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


@dataclass(frozen=True, slots=True)
class Article(Record):
    """One article: its body, all of it, and its title.

    Example:
        >>> from ensue import Article
        >>> Article("It sails at ten.", "ferry-night", "Ferry adds night crossings").title
        'Ferry adds night crossings'
    """

    NOUN: ClassVar[str] = "an article"
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


def _read_text(value: object) -> str:
    """Return a text of JSON, which may hold half of a surrogate pair: no file and no terminal takes it."""
    _require_text(value, "text")
    text = cast(str, value)
    text.encode()
    return text


def _read_ids(value: object) -> tuple[str, ...]:
    ids = normal_ids(value if isinstance(value, list) else None, "ids")
    "".join(ids).encode()
    return ids


def _read_times(value: object) -> tuple[float, ...]:
    try:
        return _seconds(value if isinstance(value, list) else None)
    except OverflowError as error:
        raise DataError(str(error)) from error


def _read_texts(value: object) -> tuple[str, ...]:
    return tuple(map(_read_text, as_tuple(value if isinstance(value, list) else None, "texts", "texts")))


def _read_label(value: object) -> str | tuple[str, ...] | None:
    label = labels_text(value)
    "".join(label or ()).encode()
    return label


_FIELDS: Mapping[str, tuple[Callable[[object], object], str]] = {
    "values": (_read_ids, "a list of texts or whole numbers"),
    "times": (_read_times, "a list of numbers (seconds)"),
    "texts": (_read_texts, "a list of one or two texts"),
    "label": (_read_label, "a text, a number, true or false, or a list"),
    "text": (_read_text, "a text"),
    "body": (_read_text, "a text"),
    "title": (_read_text, "a text"),
    "about": (_read_ids, "a list of ids of articles"),
    "id": (lambda value: _read_text(_name(value, "record")), "a text or a whole number"),
}
"""Reader of each field of JSON, which refuses by a ``DataError`` or a ``UnicodeEncodeError``, and its rule."""
