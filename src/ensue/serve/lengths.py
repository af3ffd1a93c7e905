"""How long a record may be: what would hold a model for long is refused before the model sees it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ensue.errors import DataError
from ensue.records import History
from ensue.serve.settings import ServeSettings

_WORD = re.compile(r"\w+|[^\w\s]")


def require_short_history(record: History, where: str, settings: ServeSettings) -> None:
    """Refuse a history of too many values, or with one that is too long.

    Raises:
        DataError: naming ``where``, what is too long and the limit.
    """
    if len(record.values) > settings.history:
        raise DataError(
            f"{where}: {len(record.values)} values are more than the {settings.history} of a history; send the latest"
        )
    if (longest := max(map(len, record.values), default=0)) > settings.value_characters:
        raise too_long(where, longest, "characters", settings.value_characters, "a value", "value_characters")


def require_short_texts(texts: Sequence[str], where: str, settings: ServeSettings, words: str) -> None:
    """Refuse texts of too many characters, or of more words than the setting ``words`` allows.

    Raises:
        DataError: naming ``where``, what is too long and the limit.
    """
    if (size := sum(map(len, texts))) > settings.characters:
        raise too_long(where, size, "characters", settings.characters, "a record", "characters")
    most: int = getattr(settings, words)
    if (count := sum(len(_WORD.findall(text)) for text in texts)) > most:
        raise too_long(where, count, "words", most, "a record", words)


def too_long(where: str, size: int, unit: str, most: int, thing: str, setting: str) -> DataError:
    """What is too long, and the setting that would let it pass."""
    return DataError(
        f"{where}: {size:,} {unit} are more than the {most:,} of {thing}; shorten it, or start the service with "
        f"--set {setting}=N"
    )
