"""Labelled texts, or pairs of them, as columns: read from any known layout, split, and searched for leaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.arguments import require_fraction, require_records
from ensue.data.duplicates import doubled_rows
from ensue.data.file_bytes import DROP, Opening
from ensue.data.files import answering
from ensue.data.histories import Index, Mask, hold_groups
from ensue.data.ids import IdColumns
from ensue.data.markup import strip_markup
from ensue.data.posts.documents import open_texts
from ensue.data.schema import ReadReport
from ensue.data.table import ReadOptions, Table, nothing, read_together
from ensue.data.texts.formats import read_rows
from ensue.data.texts.label_sets import UNIT, Change, change_labels, delimiter_of, from_lists, stated_delimiter, to_sets
from ensue.data.texts.labels import join_spellings, match_spellings, present
from ensue.errors import DataError, SettingError
from ensue.lines import part_of, plural, quoted
from ensue.records import Text

_MANY_LABELS = 20
_EXAMPLES, _MAX_CHARACTERS = 3, 60


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts in columns, all of the same length.

    Attributes:
        texts: one column of texts, or two of them for pairs.
        labels: one label a row, or lists of labels; ``None`` where the data has none.
        ids: one id a row, or ``None``.
        groups: what must not be torn apart by a split, such as the film a review is of; or ``None``.
        originals: of a whole file, reads all columns of its rows anew; of JSON the objects in a column ``json``.

    Example:
        >>> from ensue import Text
        >>> from ensue.data.texts import Texts
        >>> texts = Texts.of([Text(("a fine film",), "good"), Text(("a bad one",), "bad")])
        >>> len(texts)
        2
    """

    texts: tuple[pl.Series, ...]
    labels: pl.Series | None = None
    ids: pl.Series | None = None
    groups: pl.Series | None = None
    originals: Callable[[], pl.DataFrame] = nothing

    def __len__(self) -> int:
        """Number of texts, or of pairs."""
        return len(self.texts[0])

    @property
    def multilabel(self) -> bool:
        """Return whether a text may have several labels, or none: its labels are lists."""
        return self.labels is not None and isinstance(self.labels.dtype, pl.List)

    @property
    def flat_labels(self) -> pl.Series:
        """The labels of all texts, text after text; none where the data has none."""
        if self.labels is None:
            return pl.Series(dtype=pl.String)
        return self.labels.explode().drop_nulls() if self.multilabel else self.labels

    def distinct_labels(self) -> list[str]:
        """Return the different labels of all texts, sorted."""
        return self.flat_labels.drop_nulls().unique().sort().to_list()

    @property
    def paired(self) -> bool:
        """Return whether a row is a pair."""
        return len(self.texts) == 2

    def join_spellings(self) -> tuple[Texts, tuple[str, ...]]:
        """Return the texts with each label spelled in one way, and a warning that lists what was joined."""
        return self._change_labels(join_spellings)

    def match_spellings(self, known: Sequence[str]) -> tuple[Texts, tuple[str, ...]]:
        """Return the texts with labels spelled as ``known`` ones are, and a warning that lists what was matched."""
        return self._change_labels(partial(match_spellings, known=known))

    def _change_labels(self, change: Change) -> tuple[Texts, tuple[str, ...]]:
        labels, warnings = (None, ()) if self.labels is None else change_labels(self.labels, change)
        return replace(self, labels=labels), warnings

    @classmethod
    def of(cls, records: Iterable[Text]) -> Texts:
        """Return columns of a few records, their texts without HTML.

        Raises:
            DataError: single texts among pairs, or labels on some records only.
        """
        rows = require_records(records, Text)
        # The first record decides whether the texts are single or pairs.
        width = len(rows[0].texts) if rows else 1
        for position, record in enumerate(rows):
            if len(record.texts) != width:
                raise DataError(
                    f"text {position}: {len(record.texts)} texts after {width}; give single texts, or pairs"
                )
            if (record.label is None) != (rows[0].label is None):
                raise DataError(f"text {position}: give every text a label, or none")
            if isinstance(record.label, tuple) != isinstance(rows[0].label, tuple):
                raise DataError(f"text {position}: give every text one label, or every text a list of labels")
        columns = (pl.Series([record.texts[side] for record in rows], dtype=pl.String) for side in range(width))
        labels = [record.label for record in rows if record.label is not None]
        kind = pl.List(pl.String) if labels and isinstance(labels[0], tuple) else pl.String
        ids = [record.id for record in rows]
        return cls(
            tuple(strip_markup(column)[0] for column in columns),
            pl.Series([list(label) if isinstance(label, tuple) else label for label in labels], dtype=kind)
            if labels
            else None,
            pl.Series(ids, dtype=pl.String) if any(ids) else None,
        )

    def record(self, index: int) -> Text:
        """One row as a record."""
        label = None if self.labels is None else self.labels[index]
        label = tuple(label) if self.multilabel and label is not None else label
        return Text(tuple(column[index] for column in self.texts), label, "" if self.ids is None else self.ids[index])

    def records(self) -> Iterator[Text]:
        """All rows as records, one at a time."""
        return (self.record(index) for index in range(len(self)))

    def select(self, chosen: npt.NDArray[np.integer] | Mask | slice) -> Texts:
        """The chosen rows, in the order chosen."""
        index = np.arange(len(self))[chosen]
        optional = (self.labels, self.ids, self.groups)
        labels, ids, groups = (None if column is None else column.gather(index) for column in optional)
        return Texts(tuple(column.gather(index) for column in self.texts), labels, ids, groups)


def read_texts(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    phrases: bool = False,
    unlabelled: bool = False,
    part: str = "",
    **opening: Unpack[Opening],
) -> tuple[Texts, ReadReport]:
    """Read a file of texts; its layout is found by its shape (:mod:`ensue.data.texts.formats` lists them).

    Args:
        path: a plain or packed file, Parquet or Excel; a folder or a pattern of such files, or of texts and web pages.
        columns: ``text``, ``second``, ``label``, ``id`` and ``group`` to column names, where the names do not speak
            for themselves. The fields of ``.ss`` are user, product, rating and text, those of IMDB id, movie, rating,
            polarity and text.
        phrases: of trees, whether to read every labelled phrase and not only whole sentences. The same phrase with
            the same label counts once; its group is the line it was met in first.
        unlabelled: whether to keep rows whose label is empty, and rows of tables that hold nothing, as texts to
            predict, one a row. They are left out, and counted, unless stated.
        part: of a file with parts (a JSON object of lists, or a column stated as ``part``), the one that is read.
        opening: ``encoding``, ``sheet``, ``max_unpacked`` and ``missing``, see :class:`~ensue.data.file_bytes.Opening`.

    Returns:
        Texts in the order of the file, and what was understood. An empty text is kept.

    Raises:
        DataError: naming the file, the line, the field and what to do.
        SettingError: an unknown role, or roles or phrases that the layout does not have.

    Example:
        >>> from ensue.data.texts import read_texts
        >>> texts, understood = read_texts("coded.csv")
        >>> len(texts)
        400
    """
    with answering(path):
        options = ReadOptions(columns=columns or {}, **opening)
        contents = open_texts(path, options)
        rows = read_together(
            contents, lambda content: read_rows(content, options.columns, phrases, keep_all=unlabelled)
        )
        # Before parts and labels are taken apart: the same row in two parts is worth a warning, too.
        doubled = doubled_rows(rows.frame)
        rows = _of_part(rows, path, part)
        numbers = IdColumns(
            {"id": "id", "group": "group"},
            rows="row",
            missing=options.missing_ids,
            drops=options.missing_ids == DROP and not unlabelled,
            consequence="read without",
        )
        rows, labels, notes, warnings = _labels(
            numbers.normalise(rows), path, {**options.schema.columns, **options.columns}, unlabelled
        )
    # One column of texts, or two of them for pairs.
    sides = (rows.frame[role].fill_null("") for role in ("text", "second") if role in rows.frame.columns)
    texts, num_changed = zip(*map(strip_markup, sides), strict=True)
    if any(num_changed):
        notes = (*notes, f"HTML tags and entities removed from {plural(sum(num_changed), 'text')}")
    has_words = np.all([column.str.contains(r"\S").to_numpy() for column in texts], axis=0)
    if num_empty := len(has_words) - int(has_words.sum()):
        notes = (*notes, f"{part_of(num_empty, len(has_words), 'row', 'has', 'have')} a text without words: kept")
    ids, groups = (rows.frame[role].fill_null("") if role in rows.frame.columns else None for role in ("id", "group"))
    report = ReadReport(
        path=str(path),
        layout=rows.layout,
        columns=rows.columns,
        notes=rows.notes + notes + numbers.notes,
        byte_order_mark=contents[0].byte_order_mark,
        warnings=(*numbers.warnings, *doubled, *warnings),
    )
    # Rows that were left out are in the originals, so these are only of use where every row stays.
    originals = rows.originals if unlabelled and rows.originals is not None else lambda: rows.frame
    return Texts(texts, labels, ids, groups, originals), report


def _of_part(rows: Table, path: str | Path, part: str) -> Table:
    """Return the rows of one part of a file.

    Raises:
        DataError: the file has several parts, and none is chosen.
        SettingError: it has no such part.
    """
    if "part" not in rows.frame.columns:
        if part:
            raise SettingError(f"{path}: has no parts; remove --split, or name a column with --columns part=…")
        return rows
    counts = rows.frame["part"].fill_null("").value_counts(sort=True, name="count").iter_rows()
    parts_text = ", ".join(f"{name} ({plural(count, 'text')})" for name, count in counts)
    if part not in rows.frame["part"]:
        message = f"has no part {quoted(part)}" if part else "holds several parts"
        raise (SettingError if part else DataError)(f"{path}: {message}; choose one with --split: {parts_text}")
    return rows.select(rows.frame["part"] == part)


def _labels(
    rows: Table, path: str | Path, stated: Mapping[str, str], unlabelled: bool
) -> tuple[Table, pl.Series | None, tuple[str, ...], tuple[str, ...]]:
    """Return the rows, their labels, notes and warnings; rows without a label go unless none has one or all stay."""
    role = next((role for role in ("label", "labels") if role in rows.frame.columns), None)
    if role is None:
        return rows, None, (), ()
    column = from_lists(rows.frame[role])
    filled = column.filter(column != UNIT)
    is_several = not len(filled) or "labels" in stated or filled.str.contains(UNIT, literal=True).any()
    # An empty list is a text without any label where others have several; else it is a text that is not labelled yet.
    if unlabelled or not is_several:
        column = column.replace(UNIT, None)
    is_labelled = present(column)
    if not is_labelled.any():
        return rows, None, ("no row has a label",), ()
    column = column.set(~is_labelled, None)
    notes: tuple[str, ...] = ()
    kind = "label"
    if not unlabelled and (delimiter := _delimiter(column, str(path), rows.columns.get(role, role), stated)):
        column = to_sets(column, delimiter)
        mean = float(column.list.len().sum()) / int(is_labelled.sum())
        between = "lists" if delimiter == UNIT else f"{quoted(delimiter)} between them"
        num_empty = int((column.list.len() == 0).sum())
        notes = (f"several labels per text, {mean:.2f} on average: {between}",)
        notes += (f"{plural(num_empty, 'text')} without any label",) if num_empty else ()
        kind = "labels"
    if not unlabelled:
        # A later file of the model is read alike: its column has the role of one label, or that of several.
        others = {other: name for other, name in rows.columns.items() if other not in ("label", "labels")}
        rows = replace(rows, columns=others | ({kind: rows.columns[role]} if role in rows.columns else {}))
    labels, warnings = change_labels(column, join_spellings)
    if not is_labelled.all():
        empty = f"{part_of(len(labels) - int(is_labelled.sum()), len(labels), 'row', 'has', 'have')} no label"
        if not unlabelled:
            rows = rows.select(is_labelled)
            labels = labels.filter(is_labelled)
        notes = (*notes, empty if unlabelled else f"{empty}: left out")
    # A column of ids or of titles has as many values as rows.
    if len(labels) >= _MANY_LABELS and labels.n_unique() == len(labels):
        notes = (*notes, f"each of the {len(labels):,} rows has a different label; is this the label column?")
    return rows, labels, notes, warnings


def _delimiter(labels: pl.Series, where: str, name: str, stated: Mapping[str, str]) -> str | None:
    """Return the delimiter between the labels of a text; ``None`` where each text has one.

    Raises:
        DataError: the labels may be one or several.
    """
    if labels.str.contains(UNIT, literal=True).any():
        return UNIT
    if "labels" in stated:
        return stated_delimiter(labels, where, name)  # without any delimiter, the sets have one label
    return None if "label" in stated else delimiter_of(labels, where, name)


def hold_out_texts(texts: Texts, share: float = 0.1, seed: int = 0) -> tuple[Texts, Texts, str]:
    """Split off a part at random, each label in proportion and no group torn apart.

    Pairs without groups go by their first text, so that no premise stands on both sides. With groups the part may be
    a little smaller than ``share``: a group that would hold out too much of one label stays.

    Args:
        texts: at least two rows.
        share: part to hold out, between 0 and 1; at least one row stays on either side, and where it can be avoided
            no label is without a row to train on.
        seed: the same seed gives the same split.

    Returns:
        The texts to train on, those held out (both in their former order), and the rule for the protocol card.

    Raises:
        DataError: fewer than two rows, or all in one group.
        SettingError: a share outside (0, 1).
    """
    require_fraction(share, "share")
    if len(texts) < 2:
        raise DataError(f"{len(texts)} text cannot be split in two; give at least 2")
    labels = np.zeros(len(texts), np.int64) if texts.labels is None else _codes(_rarest(texts.labels))
    quotas = _quotas(np.bincount(labels), share)
    generator = np.random.default_rng(seed)
    column = texts.groups if texts.groups is not None else texts.texts[0] if texts.paired else None
    if column is None:
        test = _hold_rows(labels, quotas, generator)
    elif column.n_unique() < 2:
        raise DataError("all rows belong to one group, which cannot be split; give two groups, or no group column")
    else:
        test = hold_groups(labels, _codes(column), quotas, generator)
    scope = "" if column is None else ", whole groups" if texts.groups is not None else ", pairs of a text together"
    proportion = "" if texts.labels is None else ", stratified by label"
    rule = f"{test.sum():,} of {len(texts):,} at random (seed {seed}){scope}{proportion}"
    return texts.select(~test), texts.select(test), rule


def _rarest(labels: pl.Series) -> pl.Series:
    """Return (texts,) the rarest label of each text, by which sets are stratified; single labels as they are."""
    if not isinstance(labels.dtype, pl.List):
        return labels
    rows = pl.DataFrame({"label": labels}).with_row_index("row").explode("label", empty_as_null=True)
    rows = rows.with_columns(count=pl.len().over("label"))
    return rows.sort("count", "label").group_by("row").first().sort("row")["label"].fill_null("")


def _codes(column: pl.Series) -> Index:
    """Codes from 0 in order of the values."""
    return column.rank("dense").to_numpy().astype(np.int64) - 1


def _quotas(counts: Index, share: float) -> Index:
    """(labels,) rows to hold out of each: largest remainders, at least one row of each label left."""
    # Largest remainders: the floors first, then one more for the labels that lost most.
    exact = share * counts
    quotas: Index = np.floor(exact).astype(np.int64)
    missing = max(round(share * counts.sum()), 1) - quotas.sum()
    quotas[np.argsort(quotas - exact, kind="stable")[: max(missing, 0)]] += 1
    quotas = np.minimum(quotas, counts - 1)
    if not quotas.any():  # small counts may have met their limit: take what a larger label can spare
        quotas[np.argmax(counts)] = 1
    return quotas


def _hold_rows(labels: Index, quotas: Index, generator: np.random.Generator) -> Mask:
    order = generator.permutation(len(labels))
    # Label after label, each in random order: the first rows of a label, as many as its quota, are held out.
    order = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    ranks = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    test = np.zeros(len(labels), bool)
    test[order] = ranks < quotas[labels[order]]
    return test


@dataclass(frozen=True, kw_only=True)
class Leaks:
    """Texts that stand twice, ignoring case and spaces; goes into JSON as it is."""

    rows: int
    """Rows to train on."""
    other_rows: int
    """Rows of the other part."""
    repeated: int
    """Rows to train on that repeat an earlier one."""
    repeated_disagree: int
    """Rows to train on whose text stands there under another label too."""
    other_repeated: int
    other_repeated_disagree: int
    shared: int
    """Rows of the other part whose text is trained on."""
    shared_disagree: int
    """Rows of ``shared`` that are trained on under another label."""
    shared_groups: int
    """Rows of the other part whose group (of pairs without groups: whose first text) is trained on."""
    examples: tuple[str, ...]
    """The first of the shared texts, cut short."""


def leaks(train: Texts, other: Texts) -> Leaks:
    """Count what is trained on and asked about.

    Raises:
        DataError: one part has single texts and the other has pairs.
    """
    if train.paired != other.paired:
        raise DataError("one part holds single texts and the other pairs; give two parts of the same data set")
    # Labels of the other part are compared as the model would spell them.
    if train.labels is not None:
        other, _ = other.match_spellings(train.distinct_labels())
    train_keys, other_keys = _keys(train), _keys(other)
    # A text disagrees with a label unless that is both its lowest and its highest label in training.
    spans = train_keys.group_by("key").agg(low=pl.col("label").min(), high=pl.col("label").max())
    joined = other_keys.join(spans, on="key", how="inner", maintain_order="left")
    disagree = joined.select((pl.col("low") != pl.col("label")) | (pl.col("high") != pl.col("label"))).to_series()
    grouped = (train.groups is None) == (other.groups is None)
    group_columns = [part.groups if part.groups is not None else part.texts[0] for part in (train, other)]
    num_grouped = int(group_columns[1].is_in(group_columns[0].unique().implode()).sum()) if grouped else 0
    return Leaks(
        rows=len(train),
        other_rows=len(other),
        repeated=len(train_keys) - train_keys["key"].n_unique(),
        repeated_disagree=_disagreeing(train_keys),
        other_repeated=len(other_keys) - other_keys["key"].n_unique(),
        other_repeated_disagree=_disagreeing(other_keys),
        shared=len(joined),
        shared_disagree=int(disagree.sum()),
        shared_groups=num_grouped if train.groups is not None or train.paired else 0,
        examples=tuple(key[:_MAX_CHARACTERS] for key in joined["key"].unique(maintain_order=True)[:_EXAMPLES]),
    )


def _keys(texts: Texts) -> pl.DataFrame:
    plain = [column.str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars() for column in texts.texts]
    key = plain[0] + "\t" + plain[1] if texts.paired else plain[0]
    labels = pl.Series([None], dtype=pl.String).new_from_index(0, len(texts)) if texts.labels is None else texts.labels
    # Two sets are one where they hold the same labels, in whatever order.
    labels = labels.list.sort().list.join(UNIT) if texts.multilabel else labels
    return pl.DataFrame({"key": key, "label": labels})


def _disagreeing(rows: pl.DataFrame) -> int:
    return rows.filter(pl.col("label").n_unique().over("key") > 1).height
