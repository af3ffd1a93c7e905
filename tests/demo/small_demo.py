"""The demonstration in seconds: fewer posts and sessions, networks of a few units, one epoch each."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from ensue.demo import models as demo
from ensue.demo.models import PANELS, Demo, Panel
from ensue.demo.town import Town, make_town

TINY: dict[str, dict[str, object]] = {
    "posts": {},
    "stance": {"hidden": 6, "dim": 8, "head": 8, "epochs": 1},
    "sharing": {"dim": 8, "table_dim": 4, "epochs": 1, "batch_size": 32, "max_hours": 4.0},
    "reading": {"dim": 8, "epochs": 1, "batch_size": 64},
    "searching": {"dim": 8, "embedding": 8, "wide": 16, "heads": 2, "epochs": 1, "batch_size": 64},
}


def small_story(*, seed: int = 0) -> Town:
    """A short story."""
    return make_town(seed=seed, num_posts=200, num_reads=200, num_searches=200)


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Make the demonstration small for as long as the patch holds."""
    parts = [Panel(*part[:5], TINY[part.name]) for part in PANELS]
    patch.setattr(demo, "make_town", small_story)
    patch.setattr(demo, "PANELS", tuple(parts))


@cache
def small_demo(seed: int = 0) -> Demo:
    """The small demonstration, run once."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        return demo.run(seed, log=lambda line: None, progress=exhaust)


def exhaust(reports: Any) -> None:
    """Run a training to its end."""
    for _ in reports:
        pass
