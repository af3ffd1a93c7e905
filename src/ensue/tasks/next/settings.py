"""What all models of the task share."""

from __future__ import annotations

from dataclasses import dataclass

from ensue.settings import Settings, Size


@dataclass(frozen=True, kw_only=True)
class SharedSettings(Settings):
    """Settings that every model of the task knows."""

    min_users: Size = 1
    """How many people must have had the same events in the same order for them to be learned (sequences, of which those
    cut from one user's clicks count as one); values that fewer had are unknown. 1: all is learned."""
