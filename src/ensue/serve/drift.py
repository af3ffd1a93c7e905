"""How much of what is asked a model does not know: numbers a day, and nothing of what was asked.

Ids and words that training lacked grow in number as the world goes on; where their share rises, an update is due.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta

DAYS = 7
_COUNTS = re.compile(r'"known": (\d+), "given": (\d+)')
"""Of the JSON of an answer; quotes within its texts are escaped, so that none can look like this."""


def _today() -> date:
    return datetime.now(UTC).date()


class Drift:
    """Counts of the latest days, of one process.

    Args:
        today: the day; that of UTC unless given.
    """

    def __init__(self, today: Callable[[], date] = _today) -> None:
        self._today = today
        self._days: dict[date, tuple[int, int, int]] = {}

    def hear(self, lines: Iterable[str]) -> tuple[int, int]:
        """Count answers, lines of JSON each: how many ids and words were given in them, and how many were unknown."""
        counts = [(int(found[-1][0]), int(found[-1][1])) for line in lines if (found := _COUNTS.findall(line))]
        today = self._today()
        new_known, new_given = (sum(own[place] for own in counts) for place in range(2))
        records, known, given = self._days.get(today, (0, 0, 0))
        self._days[today] = records + len(counts), known + new_known, given + new_given
        self._days = {day: own for day, own in self._days.items() if day > today - timedelta(days=DAYS)}
        return new_given, new_given - new_known

    def describe(self) -> dict[str, object] | None:
        """Records of the latest days, ids and words in them, and the share that was not known; ``None`` without any."""
        first = self._today() - timedelta(days=DAYS)
        days = [own for day, own in self._days.items() if day > first]
        records, known, given = (sum(own[place] for own in days) for place in range(3))
        if not given:
            return None
        return {"days": DAYS, "records": records, "given": given, "unknown": round(1 - known / given, 4)}
