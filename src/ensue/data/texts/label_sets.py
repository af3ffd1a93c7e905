"""Several labels per text: lists, labels with a delimiter between them, or one 0/1 column per label.

Readers put :data:`UNIT` between the labels of one text, so that a column of labels is text until it is cleaned; then a
column of label sets holds lists, and a column of single labels stays as it is, the plain case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import polars as pl

from ensue.data.lists import lists_in
from ensue.data.schema import plain_name
from ensue.errors import DataError
from ensue.lines import quoted

UNIT = "\x1f"
"""The separator of units in ASCII, which no label holds; alone, it is the empty set of labels."""
DELIMITERS = (";", "|", ",")
"""Delimiters of labels, the most frequent in published data first."""
_MAX_LABEL = 40
"""Characters of a label; what is longer is a sentence with a comma in it."""
_TRUE = ["1", "1.0", "true"]
_BINARY = [*_TRUE, "0", "0.0", "false"]
Change = Callable[[pl.Series], tuple[pl.Series, tuple[str, ...]]]


def from_lists(labels: pl.Series) -> pl.Series:
    """Return labels with ``UNIT`` between them where all values are lists in brackets, such as ``["a", "b"]``.

    Other values stay as they are; an empty list is ``UNIT`` alone.
    """
    lists = lists_in(labels) if labels.str.contains(r"^\s*\[.*\]\s*$").all() else {}
    if not lists:
        return labels
    joined = [UNIT.join(dict.fromkeys(members)) or UNIT for members in lists.values()]
    return labels.replace_strict([*lists], joined, return_dtype=pl.String)


def delimiter_of(labels: pl.Series, where: str, name: str) -> str | None:
    """Return the delimiter between the labels of a text; ``None`` where every value is one label.

    Values such as ``a;b`` are sets where the same labels are met in other sets, too, and one label where ``a`` and
    ``b`` are never met without each other, such as ``Science, Technology``.

    Args:
        labels: (texts,) values; null where there is none.
        where: the file, for messages.
        name: the column.

    Raises:
        DataError: the values may be either, or two delimiters would do.
    """
    counts = dict(labels.drop_nulls().value_counts(name="count").iter_rows())
    kinds = {delimiter: _kind(counts, delimiter) for delimiter in DELIMITERS}
    sets = [delimiter for delimiter, kind in kinds.items() if kind == "sets"]
    if len(sets) == 1:
        return sets[0]
    unsure = sets or [delimiter for delimiter, kind in kinds.items() if kind == "unsure"]
    if not unsure:
        return None
    value = next(value for value in labels.drop_nulls() if unsure[0] in value)  # the first one of the file
    raise DataError(
        f"{where}: column {quoted(name)} has values such as {quoted(value, _MAX_LABEL)}, which may be one label or "
        f"several; state --columns labels={name} if a text has several labels, or label={name} if it has one"
    )


def stated_delimiter(labels: pl.Series, where: str, name: str) -> str:
    """Return the most frequent delimiter of a column that is stated to hold several labels per text.

    Raises:
        DataError: some labels are between another delimiter.
    """
    delimiter = max(DELIMITERS, key=lambda each: int(labels.str.contains(each, literal=True).sum()))
    counts = dict(to_sets(labels, delimiter).explode().drop_nulls().value_counts(name="count").iter_rows())
    for other in DELIMITERS:
        if other != delimiter and _kind(counts, other) == "sets":
            raise DataError(
                f"{where}: column {quoted(name)} has labels between {quoted(delimiter)} and others between "
                f"{quoted(other)}; write the same delimiter in all rows"
            )
    return delimiter


def _kind(counts: dict[str, int], delimiter: str) -> str:
    """Return whether values are sets of labels between a delimiter, single labels, or either: ``unsure``."""
    sets = [labels for value in counts if len(labels := _split(value, delimiter)) > 1]
    members = {label for labels in sets for label in labels}
    # A sentence with a comma in it, or two delimiters next to each other, is no set.
    if not sets or any(not label or len(label) > _MAX_LABEL for label in members):
        return "single"
    # Number of different values that each label is in, alone or with others.
    num_values = Counter(label for value in counts for label in set(_split(value, delimiter)))
    num_recurring = sum(num_values[label] > 1 for label in members)
    if not num_recurring:
        return "single"
    return "sets" if num_recurring > len(members) / 2 and len(counts) > 2 else "unsure"


def _split(value: str, delimiter: str) -> list[str]:
    # Programs that write a delimiter after each label leave one at the end.
    return [label.strip() for label in value.strip().strip(delimiter).split(delimiter)]


def to_sets(labels: pl.Series, delimiter: str) -> pl.Series:
    """Return (texts,) lists of the distinct labels of each text, in their order; null where there is none.

    Args:
        labels: (texts,) labels with a delimiter between them.
        delimiter: the delimiter; a value that is the delimiter alone is the empty set.
    """
    lists = labels.str.split(delimiter).list.eval(pl.element().str.strip_chars())
    return lists.list.eval(pl.element().filter(pl.element() != "")).list.unique(maintain_order=True)


def binary_columns(frame: pl.DataFrame) -> list[str]:
    """Return the columns of 0 and 1 of a table, if there are two or more, as where each label has a column."""
    names = [name for name, kind in frame.schema.items() if plain_name(name) and not kind.is_nested()]
    values = frame.select(_plain_values(names))
    # A label may be missing from all texts of a small file; one of all texts would be a constant.
    flags = [name for name in names if values[name].is_in(_BINARY).all() and not values[name].is_in(_TRUE).all()]
    return flags if len(flags) > 1 and any(values[name].n_unique() == 2 for name in flags) else []


def _plain_values(names: Sequence[str]) -> pl.Expr:
    return pl.col(names).cast(pl.String).str.strip_chars().str.to_lowercase()


def from_binary(frame: pl.DataFrame) -> pl.Series:
    """Return (texts,) the names of the columns that are 1, with ``UNIT`` between them; ``UNIT`` alone where none is."""
    flags = frame.select(_plain_values(frame.columns).is_in(_TRUE))
    # A set ends with the separator, so that the empty set is not null; empty parts go when it is split.
    names = [pl.when(pl.col(name)).then(pl.lit(f"{name}{UNIT}")).otherwise(pl.lit("")) for name in flags.columns]
    return flags.select(pl.concat_str(*names, pl.lit(UNIT))).to_series().rename("label")


def change_labels(labels: pl.Series, change: Change) -> tuple[pl.Series, tuple[str, ...]]:
    """Change the spelling of each label, of single ones and of those in sets.

    Args:
        labels: (texts,) labels or lists of labels.
        change: returns changed labels, and warnings.
    """
    if not isinstance(labels.dtype, pl.List):
        return change(labels)
    # One row per label, and lists of the same lengths again.
    rows = pl.DataFrame({"label": labels}).with_row_index("row").explode("label", empty_as_null=False)
    changed, warnings = change(rows["label"])
    lists = rows.with_columns(label=changed).group_by("row", maintain_order=True).agg("label")
    all_rows = pl.DataFrame({"row": pl.int_range(len(labels), dtype=pl.UInt32, eager=True), "set": labels})
    joined = all_rows.join(lists, on="row", how="left", maintain_order="left")
    merged = joined.select(pl.coalesce("label", "set").list.unique(maintain_order=True)).to_series()
    return merged.rename(labels.name), warnings
