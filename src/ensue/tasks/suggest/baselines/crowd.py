"""Who typed the sessions that are counted, so that one person counts once and what few people typed is left out."""

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
