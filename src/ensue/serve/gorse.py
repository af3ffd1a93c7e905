"""Gorse's ``POST /api/session/recommend``: feedback of one session in, scored items out, so that its clients can stay.

Feedback is a list of objects with ``ItemId`` and perhaps ``Timestamp``, ``FeedbackType``, ``UserId`` and ``Comment``;
the answer a list of ``{"Id": …, "Score": …}``. As there, what the session holds already is not recommended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from ensue.errors import DataError
from ensue.records import History
from ensue.serve.bodies import Body, read

LATEST = 1e12
"""Seconds since 1970 that no date reaches."""
EXAMPLES: Mapping[str, object] = {
    "a session": [{"ItemId": "a17", "Timestamp": "2026-01-31T10:00:00Z", "FeedbackType": "read"}]
}


def _seconds(time: object) -> float | None:
    """A date, or seconds since 1970."""
    if time is None or time == "":
        return None
    if isinstance(time, int | float) and not isinstance(time, bool):
        if not abs(time) < LATEST:
            raise ValueError
        return float(time)
    try:
        date = datetime.fromisoformat(str(time).strip())
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except OverflowError:
        raise ValueError from None


Unread = Annotated[object, WithJsonSchema({"type": "string"})]
"""A field that a client may send, and that nothing is made of."""


class Feedback(Body):
    """One item of a session."""

    called: ClassVar[str] = "feedback"
    kind: Unread = Field("", alias="FeedbackType")
    user: Unread = Field("", alias="UserId")
    item: Annotated[str, Field(min_length=1)] = Field(alias="ItemId")
    seconds: Annotated[
        float | None, BeforeValidator(_seconds), WithJsonSchema({"type": "string", "format": "date-time"})
    ] = Field(None, alias="Timestamp", description="a date such as 2026-01-31T10:00:00Z")
    comment: Unread = Field("", alias="Comment")
    value: Unread = Field("", alias="Value")
    updated: Unread = Field("", alias="Updated")

    @classmethod
    def example(cls) -> str:
        """An item alone."""
        return '{"ItemId": "a7"}'


class Recommended(BaseModel):
    """An item that may come next."""

    item: str = Field(alias="Id")
    score: float = Field(alias="Score")


def read_feedback(elements: object, limit: int) -> History:
    """Feedback as a history in order of time; as it stands where one has no time.

    Raises:
        DataError: naming the element, the field and what to do.
    """
    if not isinstance(elements, list):
        raise DataError('the body must be a list of feedback such as [{"ItemId": "a7"}]')
    if len(elements) > limit:
        raise DataError(f"{len(elements)} elements are more than the {limit} of a session; send the latest")
    rows = [read(Feedback, element, f"[{at}]") for at, element in enumerate(elements)]
    seconds = [row.seconds for row in rows if row.seconds is not None]
    if len(seconds) < len(rows):
        return History.from_fields({"values": [row.item for row in rows]}, "feedback")
    rows.sort(key=lambda row: row.seconds or 0.0)
    return History.from_fields({"values": [row.item for row in rows], "times": sorted(seconds)}, "feedback")


def recommended(line: str, n: int, offset: int) -> bytes:
    """Return an answer's line of JSON, to a question that excludes what was seen, as Gorse's list."""
    choices = json.loads(line)["choices"][offset : offset + n]
    items = [{"Id": choice["value"], "Score": choice["score"]} for choice in choices]
    return json.dumps(items, ensure_ascii=False).encode()
