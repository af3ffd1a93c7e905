"""Users of the counted sessions, so that each counts once and rare queries are left out."""

from __future__ import annotations

from dataclasses import dataclass

from ensue.data.histories import Index


@dataclass(frozen=True, eq=False)
class Crowd:
    """The people behind some sessions.

    Attributes:
        people: (sessions,) a number for the person who typed each.
        min_users: how many people must have typed what is counted.
    """

    people: Index
    min_users: int
