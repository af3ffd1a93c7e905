"""What comes in: frozen records, read with care; their JSON is a line of a file, a message, a request's body."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from ensue.errors import DataError
from ensue.lines import line_of, plural, quoted


class Record(ABC):
    """What all records have: lines of JSON."""

    __slots__: tuple[str, ...] = ()
    NEEDED: ClassVar[str]
    """The field that is never left out."""
    EXAMPLE: ClassVar[str]
    """A line that an error shows."""

    def to_json(self) -> str:
        """One line of JSON, read back by :meth:`from_json`; other fields than the needed one are left out if empty."""
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
        """The record in a decoded JSON object; unknown fields are refused.

        Raises:
            DataError: naming ``where``, the field and what to do.
        """


@dataclass(frozen=True, slots=True)
class History(Record):
    """One timed sequence: a cascade of users, a session of clicks.

    ``values`` are raw ids, oldest first. ``times`` are seconds, non-decreasing, as many as values or none at all.

    Example:
        >>> from ensue import History
        >>> History(("ann", "bob"), (0.0, 60.0), "p1").to_json()
        '{"values": ["ann", "bob"], "times": [0.0, 60.0], "id": "p1"}'
    """

    NEEDED: ClassVar[str] = "values"
    EXAMPLE: ClassVar[str] = '{"values": ["a", "b"]}'

    values: tuple[str, ...]
    times: tuple[float, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        if self.times and len(self.times) != len(self.values):
            values, times = plural(len(self.values), "value"), plural(len(self.times), "time")
            raise DataError(f"history {quoted(self.id)}: {values} but {times}; give one time a value, or none")
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
        values, times = fields.get("values", []), fields.get("times", [])
        if not isinstance(values, list) or not all(
            isinstance(v, str | int) and not isinstance(v, bool) for v in values
        ):
            raise DataError(f'{where}: field "values" must be a list of texts or whole numbers')
        if not isinstance(times, list) or not all(
            isinstance(t, int | float) and not isinstance(t, bool) for t in times
        ):
            raise DataError(f'{where}: field "times" must be a list of numbers (seconds)')
        name = str(fields.get("id", ""))
        _whole("".join([name, *map(str, values)]), where)
        try:
            return cls(tuple(map(str, values)), tuple(map(float, times)), name)
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

    texts: tuple[str, ...]
    label: str | None = None
    id: str = ""

    def __post_init__(self) -> None:
        if len(self.texts) not in (1, 2):
            raise DataError(f"text {quoted(self.id)}: {len(self.texts)} texts; give one text, or a pair")
        if self.label == "":
            raise DataError(f"text {quoted(self.id)}: label is empty; name one, or leave it out")

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """See :meth:`Record.from_fields`."""
        _refuse_unknown(fields, ("texts", "label", "id"), "a text has texts, label and id", where)
        texts, label = fields.get("texts", []), fields.get("label")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise DataError(f'{where}: field "texts" must be a list of one or two texts')
        if label is not None and (not isinstance(label, str | int) or isinstance(label, bool)):
            raise DataError(f'{where}: field "label" must be a text or a whole number')
        name, label_text = str(fields.get("id", "")), None if label is None else str(label)
        _whole("".join([name, label_text or "", *texts]), where)
        try:
            return cls(tuple(texts), label_text, name)
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

    text: str
    id: str = ""
    about: tuple[str, ...] = ()

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """See :meth:`Record.from_fields`."""
        _refuse_unknown(fields, ("text", "id", "about"), "a post has text, id and about", where)
        about = fields.get("about", [])
        if not isinstance(about, list) or not all(_is_name(name) for name in about):
            raise DataError(f'{where}: field "about" must be a list of ids of articles')
        names = tuple(_whole(str(name), where) for name in about)
        return cls(_read_text(fields, "text", where), _whole(str(fields.get("id", "")), where), names)


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

    body: str
    id: str = ""
    title: str = ""

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Self:
        """See :meth:`Record.from_fields`."""
        _refuse_unknown(fields, ("body", "id", "title"), "an article has body, id and title", where)
        title = _read_text(fields, "title", where) if "title" in fields else ""
        return cls(_read_text(fields, "body", where), _whole(str(fields.get("id", "")), where), title)


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


def _is_name(name: object) -> bool:
    return isinstance(name, str | int) and not isinstance(name, bool)


def _whole(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: a text holds half a character ({error.reason}); send whole Unicode") from error
    return text
