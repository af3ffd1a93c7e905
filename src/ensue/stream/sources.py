"""A source by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ensue.errors import SettingError
from ensue.lines import without_credentials
from ensue.stream.blocks import Source
from ensue.stream.files import JSONLines
from ensue.stream.kafka import KafkaTopic
from ensue.stream.queue import SQLiteSource
from ensue.stream.redis_streams import open_redis

SCHEMES = ("redis://", "rediss://", "unix://")
"""How addresses of a Redis server begin."""


def open_source(text: str, log: Callable[[str], None]) -> Source:
    """Return the source of a name: ``clicks.jsonl``, ``folder/``, ``sqlite:queue.db``, ``redis://…`` or ``kafka://…``.

    ``redis://host:port/0?stream=clicks-0,clicks-1`` reads several keys, each a partition.

    Args:
        text: the name.
        log: receives messages for people, such as that a server is away.

    Raises:
        SettingError: the address is wrong, or an extra is missing.
    """
    if text.startswith("sqlite:"):
        return SQLiteSource(Path(text.removeprefix("sqlite:")))
    if "://" not in text:
        return JSONLines(Path(text))
    scheme, _, _ = text.partition("://")
    if any(character.isspace() for character in text):
        raise SettingError(f"{scheme}://…: an address holds no spaces; write %20 for one")
    if text.startswith(SCHEMES):
        return open_redis(text, log)
    if text.startswith("kafka://"):
        return KafkaTopic(text, log)
    raise SettingError(
        f"{without_credentials(text)}: {scheme}:// is not known; name a file, a folder, sqlite:FILE, redis:// or kafka://"
    )
