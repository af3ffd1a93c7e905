"""Which column plays which role: stated, or found by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ensue.data.schema import NO_SCHEMA, DataSchema
from ensue.errors import DataError, SettingError
from ensue.lines import listed, quoted

Found = tuple[dict[str, str], tuple[str, ...]]
"""Role -> column, and a note wherever two columns would have fitted."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which columns a kind of record has, and the names that speak for themselves."""

    known: Mapping[str, tuple[str, ...]]
    """Role -> names as ``plain`` leaves them, the surest first."""
    needed: tuple[str, ...]
    """Roles of which a table has one at least; messages name the first."""
    doubted: tuple[str, ...]
    """Roles of which a note says that another column would have fitted."""
    example: str
    """Example of --columns for messages."""
    plain: Callable[[str], str]
    """A name without what does not tell it from others."""
    doubts: int | None = 1
    """Number of others a note names, at most."""

    def find(
        self,
        path: Path,
        names: Sequence[str],
        stated: Mapping[str, str],
        among: Iterable[str] = (),
        trained: DataSchema = NO_SCHEMA,
        **paired: str,
    ) -> Found:
        """The column of each role.

        Args:
            path: the file, for messages.
            names: its columns.
            stated: role -> column.
            among: the columns that may be found; all unless given.
            trained: how the training data was read; its columns come before those found by name.
            paired: role -> column, of columns that are known by standing together.

        Raises:
            DataError: a stated column that is missing, or no column for any role that is needed.
            SettingError: one column in two roles.
        """
        require_columns(path, names, stated)
        usual = trained.present(names, stated)
        stated = {**{role: name for role, name in usual.items() if role in self.known}, **stated}
        columns, notes, free = {**paired, **stated}, list[str](), list(among) or names
        for role, words in self.known.items():
            fitting = [
                name for word in words for name in free if self.plain(name) == word and name not in columns.values()
            ]
            if role not in columns and fitting:
                columns[role] = fitting.pop(0)
            if role in self.doubted and role not in stated:
                notes += [
                    f"{role} is {quoted(columns[role])}; {quoted(name)} would fit too; choose with --columns"
                    for name in fitting[: self.doubts]
                ]
        if not columns.keys() & set(self.needed):
            raise DataError(
                f"{path}: no column is recognised as the {self.needed[0]}; the columns are {listed(names)}; name them "
                f"with --columns {self.example}{trained_on(trained)}"
            )
        notes += renamed(columns, trained)
        return {role: columns[role] for role in self.known if role in columns}, tuple(notes)


def renamed(columns: Mapping[str, str], trained: DataSchema) -> list[str]:
    """Return a note for each role whose column in the training data is not the one that is read here.

    Args:
        columns: role -> column.
        trained: how the training data was read.
    """
    return [
        f"{role} is {quoted(columns[role])}; in the training data it was {quoted(name)}"
        for role, name in trained.columns.items()
        if role in columns and columns[role] != name
    ]


def trained_on(trained: DataSchema) -> str:
    """Return what an error about columns adds for the file of a model: the columns that the model was trained on."""
    return f" (the training data had {trained})" if trained.columns else ""


def require_roles(stated: Mapping[str, str], allowed: Iterable[str]) -> None:
    """Refuse a stated role that a kind of record does not have.

    Raises:
        SettingError: naming it.
    """
    for role in stated:
        if role not in (roles := tuple(allowed)):
            raise SettingError(f"columns: role {role!r} is not known; the roles are {', '.join(roles)}")


def require_columns(path: Path, names: Sequence[str], stated: Mapping[str, str]) -> None:
    """Refuse stated columns that a file does not have, or one of them in two roles.

    Raises:
        DataError: a column that is missing.
        SettingError: one column in two roles.
    """
    for role, name in stated.items():
        if name not in names:
            raise DataError(f"{path}: column {quoted(name)} ({role}) is missing; the columns are {listed(names)}")
    require_distinct(stated)


def require_distinct(stated: Mapping[str, str]) -> None:
    """Refuse one column in two roles.

    Raises:
        SettingError: naming all columns.
    """
    if len(set(stated.values())) < len(stated):
        raise SettingError(f"columns: {', '.join(stated.values())} names one column twice; give each role its own")


def plain_name(name: str) -> str:
    """``Review_Text`` and ``reviewText`` alike."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def split_words(*lines: str) -> tuple[str, ...]:
    """Return the words of some lines: names of columns, the most specific first."""
    return tuple(" ".join(lines).split())
