"""A source by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ensue.errors import SettingError
from ensue.stream.blocks import Source
from ensue.stream.files import JSONLines
from ensue.stream.kafka import KafkaTopic
from ensue.stream.partitions import Partitions
from ensue.stream.queue import SQLiteSource
from ensue.stream.redis_streams import RedisStream


def open_source(text: str, tell: Callable[[str], None]) -> Source:
    """The source of a name: ``clicks.jsonl``, ``folder/``, ``sqlite:queue.db``, ``redis://…`` or ``kafka://…``.

    ``redis://host:port/0?stream=clicks-0,clicks-1`` reads several keys, each a partition.

    Args:
        text: as given.
        tell: hears what a person should know meanwhile, such as a server that is away.

    Raises:
        SettingError: the address is incomplete, or an extra is missing.
    """
    if text.startswith(("redis://", "rediss://", "unix://")):
        return _redis(text, tell)
    if text.startswith("kafka://"):
        return KafkaTopic(text, tell)
    if text.startswith("sqlite:"):
        return SQLiteSource(Path(text.removeprefix("sqlite:")))
    return JSONLines(Path(text))


def _redis(address: str, tell: Callable[[str], None]) -> Source:
    """A stream, or several whose keys stand with commas between them."""
    parts = urlsplit(address)
    options = dict(parse_qsl(parts.query))
    keys = [key for key in options.get("stream", "").split(",") if key]
    if len(keys) < 2:
        return RedisStream(address, tell)
    if len(set(keys)) < len(keys):
        raise SettingError(f"{address}: a key is named twice")
    sources: dict[str, Source] = {}
    for key in keys:
        own = urlunsplit(parts._replace(query=urlencode({**options, "stream": key})))
        sources[key] = RedisStream(
            own, tell if not sources else lambda _: None
        )  # all are on one server: it is said once
    return Partitions("redis", sources)
