"""Schema of a model's training data, stored in the model's folder so that later files need no options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Self


@dataclass(frozen=True, kw_only=True)
class DataSchema:
    """Columns and options that the training data was read with; the default is no training data.

    A later file of the same model is read by them wherever no option says otherwise. They are weaker than options: a
    column that the file lacks is looked for by its name, and an encoding applies only to what is not UTF-8.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    """Role -> column, both stated and found by name; empty for layouts without columns."""
    encoding: str = ""
    """Stated encoding, such as cp1252."""
    sheet: str = ""
    """Stated name of an Excel sheet."""
    time_unit: str | None = None
    """Stated unit; an inferred unit is inferred again."""
    day_first: bool | None = None
    """True if dates such as 03/04/2024 begin with the day: as stated, or as a date of the training data proved."""
    sort: bool = True
    """True if events may be put in order of time."""
    gap: float | None = None
    """Minutes of pause that end a session, as stated; 0 where a stated column tells the sessions."""
    rules: str = ""
    """Stated rules for query logs."""
    events: str = ""
    """Stated event types that are read, such as view,purchase, where a log has a column of them."""
    missing: str = ""
    """Stated policy for rows whose id is missing."""

    def to_dict(self) -> dict[str, object]:
        """Return what differs from the defaults, as JSON holds it."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        default = DataSchema()
        return {name: value for name, value in values.items() if value != getattr(default, name)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Rebuild from :meth:`to_dict`.

        Raises:
            ValueError: a value of another type, as in a damaged folder.
        """
        number = (int, float)
        kinds: dict[str, type | tuple[type, ...]] = {"columns": dict, "gap": number, "day_first": bool, "sort": bool}
        columns = values.get("columns")
        texts = [*columns, *columns.values()] if isinstance(columns, dict) else []
        wrong = [name for name, value in values.items() if not isinstance(value, kinds.get(name, str))]
        if wrong or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"the stored schema is invalid ({', '.join(wrong) or 'columns'})")
        return cls(**values)  # type: ignore[arg-type]

    def __str__(self) -> str:
        """Show the columns, for messages."""
        return ", ".join(f"{role}={name}" for role, name in self.columns.items())

    def present(self, names: Collection[str], stated: Mapping[str, str]) -> dict[str, str]:
        """Return the columns of the training data that a file has, for the roles that are not stated.

        Args:
            names: the columns of the file.
            stated: role -> column.
        """
        return {
            role: name
            for role, name in self.columns.items()
            if name in names and role not in stated and name not in stated.values()
        }


NO_SCHEMA = DataSchema()
"""Schema of a file that is read for no model."""
