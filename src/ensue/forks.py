"""Limits of a forked process: threads of libraries stay behind in the process that it was forked from.

A parallel region of OpenMP waits for ever in a forked process whose parent has run one, so torch computes with one
thread there. Polars keeps its threads for good, and most of its queries wait for them: what needs them is refused with
a message instead.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from ensue.errors import SettingError

_THREAD = re.compile(r"polars-\d+")
_polars_runs = False
_polars_is_lost = False


def require_polars() -> None:
    """Refuse to ask polars in a process in which it would wait for ever.

    Raises:
        SettingError: this process was forked after polars had started its threads.
    """
    if _polars_is_lost:
        raise SettingError(
            "this process was forked after polars had started its threads; load the model after the fork, or start "
            "processes with spawn or forkserver"
        )


def _before() -> None:
    global _polars_runs
    names: set[str] = set()
    if "polars" in sys.modules:
        with suppress(OSError):  # a system without /proc
            names = {(thread / "comm").read_text().strip() for thread in Path("/proc/self/task").iterdir()}
    _polars_runs = any(map(_THREAD.fullmatch, names))


def _in_child() -> None:
    global _polars_is_lost
    _polars_is_lost = _polars_is_lost or _polars_runs
    set_num_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)
    if set_num_threads is not None:  # torch is imported, and not in the middle of that
        set_num_threads(1)


if sys.platform != "win32":
    os.register_at_fork(before=_before, after_in_child=_in_child)
