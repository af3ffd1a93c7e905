"""Gorse's ``POST /api/session/recommend``: feedback of one session in, scored items out, so that its clients can stay.

Feedback is a list of objects with ``ItemId`` and perhaps ``Timestamp``, ``FeedbackType``, ``UserId`` and ``Comment``;
the answer a list of ``{"Id": …, "Score": …}``. As there, what the session holds already is not recommended.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NoReturn

from ensue.errors import DataError
from ensue.records import History

KNOWN = ("FeedbackType", "UserId", "ItemId", "Timestamp", "Comment", "Value", "Updated")
LATEST = 1e12
"""Seconds since 1970 that no date reaches."""


def read_feedback(found: Any, limit: int) -> History:
    """Feedback as a history in order of time; as it stands where one has no time.

    Raises:
        DataError: naming the element, the field and what to do.
    """
    if not isinstance(found, list):
        raise DataError('the body must be a list of feedback such as [{"ItemId": "a7"}]')
    if len(found) > limit:
        raise DataError(f"{len(found)} elements are more than the {limit} of a session; send the latest")
    rows = [_row(element, f"[{at}]") for at, element in enumerate(found)]
    seconds = [time for _, time in rows if time is not None]
    if len(seconds) < len(rows):
        return History.from_fields({"values": [item for item, _ in rows]}, "feedback")
    rows.sort(key=lambda row: row[1] or 0.0)
    return History.from_fields({"values": [item for item, _ in rows], "times": sorted(seconds)}, "feedback")


def recommended(line: str, seen: History, n: int, offset: int) -> bytes:
    """An answer's line of JSON as Gorse's list."""
    held = set(seen.values)
    choices = [choice for choice in json.loads(line)["choices"] if choice["value"] not in held]
    found = [{"Id": choice["value"], "Score": choice["score"]} for choice in choices[offset : offset + n]]
    return json.dumps(found, ensure_ascii=False).encode()


def _row(element: Any, where: str) -> tuple[str, float | None]:
    if not isinstance(element, dict):
        raise DataError(f'{where}: must be an object such as {{"ItemId": "a7"}}')
    unknown = sorted(set(element) - set(KNOWN))
    if unknown:
        raise DataError(f"{where}: field {unknown[0][:64]!r} is not known; feedback has {', '.join(KNOWN)}")
    item = element.get("ItemId")
    if not isinstance(item, str) or not item:
        raise DataError(f'{where}: field "ItemId" must be a text')
    return item, _seconds(element.get("Timestamp"), where)


def _seconds(given: Any, where: str) -> float | None:
    if given in (None, ""):
        return None
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given) if abs(given) < LATEST else _refuse(where)
    try:
        found = datetime.fromisoformat(str(given).strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return _refuse(where)


def _refuse(where: str) -> NoReturn:
    raise DataError(f'{where}: field "Timestamp" must be a date such as 2026-01-31T10:00:00Z')
