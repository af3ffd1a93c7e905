"""Records as lines of JSON: fields as they stand, without a copy of what is inside them."""

from __future__ import annotations

import json
from typing import Any


def line_of(record: Any, always: str | None = None) -> str:
    """One line of JSON of a dataclass with slots, and of those inside it.

    Args:
        record: what to write.
        always: leave out every empty field but this one; ``None`` writes all.
    """
    fields = _fields(record)
    if always is not None:
        fields = {name: value for name, value in fields.items() if value or name == always}
    return json.dumps(fields, ensure_ascii=False, default=_fields)


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}
