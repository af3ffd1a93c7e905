"""Labels in one normal form: spellings of one label are joined in a file, and matched between a file and a model.

======================  ==================================================================================
``yes``, ``YES``        one label: case, spaces around and repeated spaces within do not tell labels apart
``1``, ``1.0``, ``+1``  one label: whole numbers lose their zeros, ``01`` is another one
``1``, ``True``         one label where all labels are ``0``, ``1``, ``true`` and ``false``
``NaN``, ``NULL``       no label
======================  ==================================================================================

A label is shown in its most frequent spelling.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from unicodedata import normalize

import polars as pl

from ensue.errors import DataError
from ensue.lines import quoted

_WHOLE_NUMBER = re.compile(r"([+-]?)(\d+)(?:\.0*)?")
_SCIENTIFIC = re.compile(r"[+-]?\d\.\d+e\+\d\d")
_BOOLEANS = {"true": "1", "false": "0"}
_MISSING = ("", "nan", "null", "<na>")
_MAX_JOINED = 8
"""Joined labels that a message lists."""


def present(labels: pl.Series) -> pl.Series:
    """Return (texts,) whether there is a label: missing ones are empty, or what programs write for them."""
    return ~labels.str.strip_chars().str.to_lowercase().is_in(list(_MISSING)).fill_null(True)


def label_key(label: str) -> str:
    """Return what all spellings of a label have in common: ``yes`` of ``" YES"``, ``1`` of ``1.0``."""
    key = normalize("NFC", " ".join(label.split())).casefold()
    if _SCIENTIFIC.fullmatch(key) and (value := float(key)).is_integer() and abs(value) < 2**53:
        key = str(int(value))  # 1.000000e+00, as NumPy writes floats
    if (number := _WHOLE_NUMBER.fullmatch(key)) is None:
        return key
    # 0 has no sign, and +1 is 1.
    sign, digits = number.groups()
    return f"-{digits}" if sign == "-" and digits.strip("0") else digits


def join_spellings(labels: pl.Series) -> tuple[pl.Series, tuple[str, ...]]:
    """Spell each label in one way.

    Args:
        labels: (texts,) labels; null where there is none.

    Returns:
        The labels as most texts spell them, whole numbers without zeros; and a warning that lists what was joined.
    """
    counts = dict(labels.drop_nulls().value_counts(name="count").iter_rows())
    keys = _keys(counts)
    spellings: dict[str, list[str]] = {}
    # The most frequent spelling of a label is listed first.
    for label in sorted(counts, key=lambda label: (-counts[label], label)):
        spellings.setdefault(keys[label], []).append(label)
    # 1 and 1.0 are shown alike, so their texts count together for that spelling.
    totals = Counter[str]()
    for label, count in counts.items():
        totals[_shown(label)] += count
    common = {key: max(map(_shown, same), key=totals.__getitem__) for key, same in spellings.items()}
    joined = [f"{_listed(same)} as {quoted(common[key])}" for key, same in sorted(spellings.items()) if len(same) > 1]
    respelled = _respelled(labels, {label: common[key] for label, key in keys.items()})
    if not joined:
        return respelled, ()
    tail = f"; and {len(joined) - _MAX_JOINED:,} more" if len(joined) > _MAX_JOINED else ""
    listed = "; ".join(joined[:_MAX_JOINED])
    return respelled, (
        f"spellings of the same label are merged: {listed}{tail}; rename labels that differ only in case or zeros "
        "but mean different things",
    )


def match_spellings(labels: pl.Series, known: Sequence[str]) -> tuple[pl.Series, tuple[str, ...]]:
    """Spell labels as a model does that was trained on other spellings of them.

    Args:
        labels: (texts,) labels.
        known: those of the model.

    Returns:
        The labels, unknown ones as they are; and a warning that lists what was matched.
    """
    distinct = sorted(set(labels.drop_nulls().unique()) - set(known))
    if not distinct:
        return labels, ()
    keys = _keys([*known, *distinct])
    # Of two labels of a model with one key, the first one wins.
    columns = {keys[label]: label for label in reversed(known)}
    matched = {label: columns[keys[label]] for label in distinct if keys[label] in columns}
    if not matched:
        return labels, ()
    listed = ", ".join(f"{quoted(label)} as {quoted(name)}" for label, name in list(matched.items())[:_MAX_JOINED])
    tail = f", and {len(matched) - _MAX_JOINED:,} more" if len(matched) > _MAX_JOINED else ""
    return _respelled(labels, matched), (
        f"labels spelled differently from the training data are matched: {listed}{tail}",
    )


def require_known(labels: pl.Series, known: Sequence[str], where: str) -> None:
    """Refuse labels none of which a model knows: nothing could be right.

    Args:
        labels: (texts,) labels, spelled as the model does.
        known: those of the model.
        where: the file, or what the texts are.

    Raises:
        DataError: showing a label of the model, and one of these.
    """
    present_labels = labels.drop_nulls().unique().sort().to_list()
    if present_labels and known and not set(present_labels) & set(known):
        raise DataError(
            f"{where}: no label is known to the model: it was trained on labels such as {quoted(known[0])}, but "
            f"this file has labels such as {quoted(present_labels[0])}; use labels of the training data, or name their "
            "column with --columns label=…"
        )


def _keys(labels: Collection[str]) -> dict[str, str]:
    """Return the key of each label; ``true`` is ``1`` where both kinds of spelling occur and nothing else does."""
    keys = {label: label_key(label) for label in labels}
    kinds = set(keys.values())
    if kinds <= {"0", "1", *_BOOLEANS} and kinds & {"0", "1"} and kinds & set(_BOOLEANS):
        return {label: _BOOLEANS.get(key, key) for label, key in keys.items()}
    return keys


def _shown(label: str) -> str:
    """Return a label without spaces around it; of a whole number, its normal form."""
    key = label_key(label)
    return key if key.removeprefix("-").isdecimal() else label.strip()


def _listed(labels: Sequence[str]) -> str:
    *first, last = map(quoted, labels)
    return f"{', '.join(first)} and {last}"


def _respelled(labels: pl.Series, spellings: Mapping[str, str]) -> pl.Series:
    changes = {label: name for label, name in spellings.items() if label != name}
    return labels.replace(list(changes), list(changes.values())) if changes else labels
