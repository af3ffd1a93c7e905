"""What comes in: frozen records, read with care; their JSON is a line of a file, a message, a request's body."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ensue.errors import DataError
from ensue.lines import line_of, quoted


@dataclass(frozen=True, slots=True)
class History:
    """One timed sequence: a cascade of users, a session of clicks.

    ``values`` are raw ids, oldest first. ``times`` are seconds, non-decreasing, as many as values or none at all.
    """

    values: tuple[str, ...]
    times: tuple[float, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        if self.times and len(self.times) != len(self.values):
            raise DataError(
                f"history {quoted(self.id)}: {len(self.values)} values but {len(self.times)} times; give one time a "
                "value, or none"
            )
        for position, time in enumerate(self.times):
            if not math.isfinite(time):
                raise DataError(f"history {quoted(self.id)}: times[{position}] is {time}; times must be finite numbers")
            if position and time < self.times[position - 1]:
                raise DataError(
                    f"history {quoted(self.id)}: times[{position}] = {time} comes after {self.times[position - 1]}; "
                    "times must not decrease"
                )

    def to_json(self) -> str:
        """One line of JSON, read back by :meth:`from_json`."""
        return line_of(self, "values")

    @classmethod
    def from_json(cls, line: str, where: str = "record") -> History:
        """Read ``{"values": […], "times": […], "id": "…"}``.

        Raises:
            DataError: naming ``where`` (a file and line), the field and what to do.
        """
        return cls.from_fields(_read_object(line, where, "values", '{"values": ["a", "b"]}'), where)

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> History:
        """The record in a decoded JSON object; unknown fields are refused.

        Raises:
            DataError: naming ``where``, the field and what to do.
        """
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
class Text:
    """One text, or a pair of texts, and maybe its label: a review, a question, a premise and its hypothesis."""

    texts: tuple[str, ...]
    label: str | None = None
    id: str = ""

    def __post_init__(self) -> None:
        if len(self.texts) not in (1, 2):
            raise DataError(f"text {quoted(self.id)}: {len(self.texts)} texts; give one text, or a pair")
        if self.label == "":
            raise DataError(f"text {quoted(self.id)}: label is empty; name one, or leave it out")

    def to_json(self) -> str:
        """One line of JSON, read back by :meth:`from_json`."""
        return line_of(self, "texts")

    @classmethod
    def from_json(cls, line: str, where: str = "record") -> Text:
        """Read ``{"texts": […], "label": "…", "id": "…"}``.

        Raises:
            DataError: naming ``where`` (a file and line), the field and what to do.
        """
        return cls.from_fields(_read_object(line, where, "texts", '{"texts": ["a text"]}'), where)

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Text:
        """The record in a decoded JSON object; unknown fields are refused.

        Raises:
            DataError: naming ``where``, the field and what to do.
        """
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
class Post:
    """One post: what somebody wrote, and the ids of the articles it is known to be about."""

    text: str
    id: str = ""
    about: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One line of JSON, read back by :meth:`from_json`."""
        return line_of(self, "text")

    @classmethod
    def from_json(cls, line: str, where: str = "record") -> Post:
        """Read ``{"text": "…", "id": "…", "about": ["…"]}``.

        Raises:
            DataError: naming ``where`` (a file and line), the field and what to do.
        """
        return cls.from_fields(_read_object(line, where, "text", '{"text": "a post"}'), where)

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Post:
        """The record in a decoded JSON object; unknown fields are refused.

        Raises:
            DataError: naming ``where``, the field and what to do.
        """
        _refuse_unknown(fields, ("text", "id", "about"), "a post has text, id and about", where)
        about = fields.get("about", [])
        if not isinstance(about, list) or not all(_is_name(name) for name in about):
            raise DataError(f'{where}: field "about" must be a list of ids of articles')
        names = tuple(_whole(str(name), where) for name in about)
        return cls(_read_text(fields, "text", where), _whole(str(fields.get("id", "")), where), names)


@dataclass(frozen=True, slots=True)
class Article:
    """One article: its body, all of it, and its title."""

    body: str
    id: str = ""
    title: str = ""

    def to_json(self) -> str:
        """One line of JSON, read back by :meth:`from_json`."""
        return line_of(self, "body")

    @classmethod
    def from_json(cls, line: str, where: str = "record") -> Article:
        """Read ``{"body": "…", "id": "…", "title": "…"}``.

        Raises:
            DataError: naming ``where`` (a file and line), the field and what to do.
        """
        return cls.from_fields(_read_object(line, where, "body", '{"body": "an article"}'), where)

    @classmethod
    def from_fields(cls, fields: Mapping[str, object], where: str = "record") -> Article:
        """The record in a decoded JSON object; unknown fields are refused.

        Raises:
            DataError: naming ``where``, the field and what to do.
        """
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
