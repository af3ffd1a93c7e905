"""What every source gives: blocks of lines with the position after them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from pydantic import TypeAdapter, ValidationError

from ensue.errors import ModelFolderError, SettingError
from ensue.lines import one_line, without_credentials

MOST_BYTES = 2**23
"""A block ends after so many bytes of lines, however few they are."""
Position = Mapping[str, object]
"""Where a source stands, as JSON; each source has fields of its own."""
Kind = TypeVar("Kind")
POLL = 0.05
"""Seconds between two looks at a source that has nothing new."""


@dataclass(frozen=True)
class Block:
    """Some lines in the source's order.

    Attributes:
        lines: as they came, without the newline.
        places: where each stands, for people.
        position: where to go on after them, as JSON.
        at_end: whether the source held no more when it was asked.
        partition: the part of the source that the lines are of; empty where it has none.
    """

    lines: list[bytes]
    places: list[str]
    position: Position
    at_end: bool
    partition: str = ""


class Behind(NamedTuple):
    """How much of a source is still to be read: an amount and its unit, such as 12 lines."""

    amount: float
    unit: str


class Source(Protocol):
    """A log that grows at its end and can be read again from any position."""

    @property
    def name(self) -> str:
        """What tells this source from another, without the machine's paths."""
        ...

    def begin(self, position: Position | None) -> None:
        """Go to a position that was committed, or to the beginning.

        Raises:
            DataError: the source is not there, or no longer what was read up to that position.
        """
        ...

    def read(self, limit: int, wait: float) -> Block:
        """Up to ``limit`` lines, or what arrived within ``wait`` seconds, perhaps none.

        Raises:
            DataError: the source is no longer what was read so far.
        """
        ...

    def committed(self, position: Position) -> None:
        """Hear that everything up to a position is safe."""
        ...

    def behind(self) -> Behind:
        """How much is left."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def read_json(place: str, kind: type[Kind], data: bytes) -> Kind:
    """Return what a commit holds as JSON, whoever wrote it.

    Args:
        place: where it stands, for messages.
        kind: what it must be.
        data: JSON.

    Raises:
        ModelFolderError: it is something else.
    """
    try:
        return TypeAdapter(kind).validate_json(data, strict=True)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = one_line(".".join(map(str, detail["loc"])), 80)
        raise ModelFolderError(
            f"{place}: damaged ({f'{field}: ' if field else ''}{one_line(detail['msg'], 200)}); fit the model again "
            "or copy it again"
        ) from error


def position_of(kind: type[Kind], position: Position) -> Kind:
    """Return a committed position as a source has it.

    Raises:
        ModelFolderError: it is none of this source.
    """
    return read_json("stream.json, position", kind, json.dumps(position).encode())


def split_address(address: str, example: str) -> tuple[SplitResult, dict[str, str]]:
    """Return the parts of an address and the fields of its query, the last of each name.

    Args:
        address: ``redis://…`` or ``kafka://…``.
        example: an address for the message.

    Raises:
        SettingError: it is no address; a password in it is not shown.
    """
    try:
        parts = urlsplit(address)
        return parts, {name: values[-1] for name, values in parse_qs(parts.query).items()}
    except ValueError:  # its text may quote a part of the password
        raise SettingError(f"{without_credentials(address)}: is not an address; write {example}") from None
