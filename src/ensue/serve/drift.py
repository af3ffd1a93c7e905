"""How much of what is asked a model does not know: numbers a day, and nothing of what was asked.

Ids and words that training lacked grow in number as the world goes on; where their share rises, an update is due.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np

DAYS = 7
_COUNTS = re.compile(r'"in_vocabulary": (\d+), "events": (\d+)')
"""Of the JSON of an answer; quotes within its texts are escaped, so that none can look like this."""


def _today() -> date:
    return datetime.now(UTC).date()


class Drift:
    """Counts of the latest days, of one process or of all that serve together.

    A row a day, ``[DAYS, 4]``: the day's number, records, ids and words known, and those given. The row of a day that
    is a week past is taken for the new one.

    Args:
        today: the day; that of UTC unless given.
        file: where this process keeps its rows, in a folder that holds those of its fellows alone. A process that
            takes the place of another goes on with its counts. None where one process serves alone.
    """

    def __init__(self, today: Callable[[], date] = _today, file: Path | None = None) -> None:
        self._today, self._folder, shape = today, None, (DAYS, 4)
        self._days: np.ndarray = np.zeros(shape, np.int64)
        if file is not None:
            self._folder = file.parent
            self._folder.mkdir(exist_ok=True)
            if not file.exists():
                file.write_bytes(self._days.tobytes())
            self._days = np.memmap(file, np.int64, "r+", shape=shape)

    def hear(self, lines: Iterable[str]) -> tuple[int, int]:
        """Count answers, lines of JSON each: how many ids and words were given in them, and how many were unknown."""
        counts = [(int(found[-1][0]), int(found[-1][1])) for line in lines if (found := _COUNTS.findall(line))]
        known, given = (sum(own[place] for own in counts) for place in range(2))
        today = self._today().toordinal()
        row = self._days[today % DAYS]
        if row[0] != today:
            row[:] = today, 0, 0, 0
        row[1:] += len(counts), known, given
        return given, given - known

    def describe(self) -> dict[str, object] | None:
        """Records of the latest days, ids and words in them, and the share that was not known; ``None`` without any.

        Of several processes it is the sum over all.
        """
        days = self._days
        if self._folder is not None:
            days = np.concatenate([np.fromfile(file, np.int64).reshape(-1, 4) for file in self._folder.iterdir()])
        records, known, given = days[days[:, 0] > self._today().toordinal() - DAYS, 1:].sum(0).tolist()
        if not given:
            return None
        return {"days": DAYS, "records": records, "events": given, "unknown": round(1 - known / given, 4)}
