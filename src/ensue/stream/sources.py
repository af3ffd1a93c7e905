"""A source by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ensue.stream.blocks import Source
from ensue.stream.files import JSONLines
from ensue.stream.queue import SQLiteSource
from ensue.stream.redis_streams import RedisStream


def open_source(text: str, tell: Callable[[str], None]) -> Source:
    """The source behind ``clicks.jsonl``, ``folder/``, ``sqlite:queue.db`` or ``redis://host:port/0?stream=clicks``.

    Args:
        text: as given.
        tell: hears what a person should know meanwhile, such as a server that is away.

    Raises:
        SettingError: the address is incomplete, or an extra is missing.
    """
    if text.startswith(("redis://", "rediss://", "unix://")):
        return RedisStream(text, tell)
    if text.startswith("sqlite:"):
        return SQLiteSource(Path(text.removeprefix("sqlite:")))
    return JSONLines(Path(text))
