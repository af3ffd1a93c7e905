"""The body of an update: what it must have, and how large a part of it may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ensue.errors import DataError
from ensue.serve.bodies import fields_of, read_records, require_short
from ensue.serve.settings import ServeSettings

EXTRA: Mapping[str, tuple[str, ...]] = {"suggest": ("users",), "link": ("articles",)}
"""Fields of the tasks that have more than records."""


def count_checked(found: Any, task: str, settings: ServeSettings) -> int:
    """How many records a decoded body holds, once everything in it has been looked at.

    Raises:
        DataError: naming the part, the field and what to do.
    """
    body = fields_of(found, ["records", "max_drop", "test", *EXTRA.get(task, ())], "records")
    records = read_records(body["records"], task, settings.learned, settings.history)
    for at, record in enumerate(records):
        require_short(record, f"records[{at}]", settings.words, settings)
    drop = body.get("max_drop", 0.0)
    if not isinstance(drop, int | float) or isinstance(drop, bool) or not 0 <= drop < 1:
        raise DataError('field "max_drop" must be a share in [0, 1)')
    if not isinstance(body.get("test", True), bool):
        raise DataError('field "test" must be true or false')
    _check_articles(body.get("articles", []), settings)
    if not records and not body.get("articles"):
        raise DataError('field "records" is empty; there is nothing to learn')
    _check_users(body.get("users"), len(records), settings)
    return len(records)


def _check_articles(found: Any, settings: ServeSettings) -> None:
    if not isinstance(found, list):
        raise DataError('field "articles" must be a list')
    most = settings.article_characters
    for at, article in enumerate(found):
        if not isinstance(article, dict):
            raise DataError(f'articles[{at}]: must be an object such as {{"body": "an article", "id": "n1"}}')
        if (size := sum(len(part) for part in article.values() if isinstance(part, str))) > most:
            raise DataError(
                f"articles[{at}]: {size:,} characters are more than the {most:,} of an article; shorten it, or start "
                "the service with --set article_characters=N"
            )


def _check_users(users: Any, num_records: int, settings: ServeSettings) -> None:
    if users is None:
        return
    if (
        not isinstance(users, list)
        or len(users) != num_records
        or not all(isinstance(user, str | int) and not isinstance(user, bool) and user != "" for user in users)
    ):
        raise DataError(f'field "users" must be a list of {num_records} names, one a record')
    if max((len(str(user)) for user in users), default=0) > settings.value_characters:
        raise DataError(f'field "users": a name has more than {settings.value_characters:,} characters')
