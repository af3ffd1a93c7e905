"""Encoding of item tables: each feature of an item becomes a few weighted tokens.

==========  ============================================================================================================
category    one token per value, values split at ``|`` and ``;``; values of a single item are left out
text        one token per word, words of a single item are left out
number      two neighbouring knots of a linear spline, weighted by how near they are: a token per knot
time        as a number, seconds
==========  ============================================================================================================

Knots are quantiles of the items that the encoder was fitted on, so a number beyond them counts as the nearest one. The
tokens of a column have weights of 1 / sqrt(their number), so that a long text does not outweigh a category.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor, nn

from ensue.data.files import answering
from ensue.data.item_table import IGNORE, KINDS, NUMBER, TEXT, TIME, Items
from ensue.nn.item_features import ItemFeatures
from ensue.nn.item_head import ItemLayer, ItemTable
from ensue.store.folder import read_file, read_json
from ensue.store.pack import pack, unpack
from ensue.vocabulary import FIRST

TABLE, ENCODER = "items.parquet", "items.json"
"""Files of a model folder."""
_ID = "item id"
MAX_TOKENS = 24
"""Tokens per column and item at most: the first ones."""
MAX_VALUES = 50_000
"""Distinct tokens per column at most: the most frequent ones."""
KNOTS = 9
"""Knots of the spline of a number."""
_WORDS = r"[\w--_]+"


class FeatureRows(NamedTuple):
    """Tokens and weights of items, (items, width) each; token 0 stands for none and has weight 0."""

    tokens: Tensor
    weights: Tensor


@dataclass(frozen=True)
class ColumnEncoder:
    """How one column becomes tokens.

    Attributes:
        name: the column.
        kind: its type.
        first: its first token.
        values: what each token stands for, of categories and texts.
        knots: (knots,) of numbers and times, rising.
    """

    name: str
    kind: str
    first: int
    values: tuple[str, ...] = ()
    knots: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check that no token stands for two things.

        Raises:
            ValueError: one does.
        """
        rising = sorted(set(self.knots))
        if [*self.knots] != rising or len(self.values) != len(set(self.values)) or (self.values and self.knots):
            raise ValueError(f"the encoder of column {self.name} holds a value twice")

    @property
    def num_tokens(self) -> int:
        """Number of its tokens."""
        return len(self.values) or len(self.knots)


@dataclass(frozen=True)
class FeatureEncoder:
    """Item tables into tokens.

    Attributes:
        columns: one encoder per feature.
    """

    columns: tuple[ColumnEncoder, ...]

    def __post_init__(self) -> None:
        """Check that the tokens of a column follow those of the column before it.

        Raises:
            ValueError: they do not.
        """
        first = 1
        for column in self.columns:
            if column.first != first:
                raise ValueError(f"the encoder of column {column.name} begins with token {column.first}, not {first}")
            first += column.num_tokens

    @property
    def num_tokens(self) -> int:
        """Number of tokens, token 0 included."""
        return 1 + sum(column.num_tokens for column in self.columns)

    @classmethod
    def fit(cls, items: Items) -> FeatureEncoder:
        """Return an encoder for the columns of some items."""
        encoders: list[ColumnEncoder] = []
        first = 1
        for name, kind in items.kinds.items():
            if kind == IGNORE:
                continue
            column = items.columns[name]
            if kind in (NUMBER, TIME):
                numbers = _numbers(column, kind).drop_nulls().to_numpy()
                knots = np.unique(np.quantile(numbers, np.linspace(0, 1, KNOTS))) if len(numbers) else np.zeros(0)
                encoder = ColumnEncoder(name, kind, first, knots=tuple(knots.tolist()))
            else:
                counts = _pieces(column, kind).explode().drop_nulls().value_counts(sort=True, name="count")
                shared = counts.filter(pl.col("count") > 1)[name].head(MAX_VALUES)
                encoder = ColumnEncoder(name, kind, first, values=tuple(shared.sort().to_list()))
            encoders.append(encoder)
            first += encoder.num_tokens
        return cls(tuple(encoders))

    def encode(self, items: Items) -> FeatureRows:
        """Return the tokens of some items."""
        parts = [self._encode(column, items) for column in self.columns if column.num_tokens]
        if not parts:
            empty = torch.zeros(len(items), 0)
            return FeatureRows(empty.long(), empty)
        tokens, weights = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
        return FeatureRows(torch.from_numpy(tokens), torch.from_numpy(weights))

    def _encode(self, encoder: ColumnEncoder, items: Items) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        column = items.columns[encoder.name]
        if encoder.knots:
            return _spline(_numbers(column, encoder.kind), np.array(encoder.knots), encoder.first)
        known = pl.DataFrame(
            {"piece": encoder.values, "token": range(encoder.first, encoder.first + len(encoder.values))}
        )
        pieces = pl.DataFrame({"row": range(len(column)), "piece": _pieces(column, encoder.kind)}).explode("piece")
        found = pieces.join(known, on="piece", how="inner", maintain_order="left")
        found = found.with_columns(pl.col("row").cum_count().over("row").alias("place")).filter(
            pl.col("place") <= MAX_TOKENS
        )
        width = int(found["place"].max() or 0)  # type: ignore[arg-type]
        tokens = np.zeros((len(column), width), np.int64)
        tokens[found["row"].to_numpy(), found["place"].to_numpy() - 1] = found["token"].to_numpy()
        lengths = (tokens > 0).sum(1, keepdims=True).clip(min=1)
        return tokens, ((tokens > 0) / np.sqrt(lengths)).astype(np.float32)


@dataclass(frozen=True)
class _TableDescription:
    """The contents of ``items.json``."""

    kinds: dict[str, str]
    title: str
    id: str
    encoder: FeatureEncoder

    def __post_init__(self) -> None:
        if not {*self.kinds.values()} <= {*KINDS} or self.title not in ("", *self.kinds):
            raise ValueError("a type or a title does not exist")
        if any(self.kinds.get(column.name) != column.kind for column in self.encoder.columns):
            raise ValueError("the columns of the encoder are not those of the table")


class KnownItems:
    """The item table of a model: what its items are, and their tokens by id.

    Args:
        items: all items.
        encoder: how they become tokens.
    """

    def __init__(self, items: Items, encoder: FeatureEncoder) -> None:
        self.items, self.encoder = items, encoder
        self.titles = items.titles()

    def contents(self) -> dict[str, bytes]:
        """Return the files of a model folder that hold the item table and its encoder."""
        table = io.BytesIO()
        self.items.columns.select(self.items.ids.alias(_ID), pl.all()).write_parquet(table)
        items = self.items
        tree, _ = pack(_TableDescription(dict(items.kinds), items.title, items.id_column, self.encoder))
        return {TABLE: table.getvalue(), ENCODER: json.dumps(tree, ensure_ascii=False).encode()}

    @classmethod
    def read(cls, folder: Path) -> KnownItems:
        """Read what :meth:`contents` wrote.

        Raises:
            ValueError: the files do not fit each other.
        """
        stored = unpack(_TableDescription, read_json(folder, ENCODER), {}, ENCODER)
        with answering(folder / TABLE):
            table = pl.read_parquet(io.BytesIO(read_file(folder, TABLE)))
        if dict(table.schema) != {_ID: pl.String, **dict.fromkeys(stored.kinds, pl.String)}:
            raise ValueError(f"{TABLE} does not have the columns of {ENCODER}")
        if table[_ID].null_count() or table[_ID].n_unique() < len(table):
            raise ValueError(f"{TABLE} holds an item twice")
        items = Items(table[_ID], table.drop(_ID), stored.kinds, stored.title, stored.id)
        return cls(items, stored.encoder)

    def rows(self, values: Sequence[str]) -> FeatureRows:
        """Return the tokens of the values of a vocabulary, from padding on; values without a row have none."""
        row_of = {item: row for row, item in enumerate(self.items.ids.to_list())}
        index = torch.tensor([-1] * FIRST + [row_of.get(value, -1) for value in values])
        encoded = self.encoder.encode(self.items)
        has_row = (index >= 0)[:, None]
        tokens, weights = (part[index.clamp(min=0)] for part in encoded)
        return FeatureRows(torch.where(has_row, tokens, 0), torch.where(has_row, weights, 0.0))

    def attach(self, network: nn.Module, values: Sequence[str]) -> None:
        """Give every item table and output layer of a network the features of a vocabulary's values."""
        rows = self.rows(values)
        for module in network.modules():
            if not isinstance(module, ItemTable | ItemLayer):
                continue
            if module.features is None:
                std = float(module.weight.detach()[FIRST:].std()) / max(1, len(self.encoder.columns)) ** 0.5
                dim = module.weight.shape[1]
                module.features = ItemFeatures(*rows, self.encoder.num_tokens, dim, std=std)
                module.features.to(module.weight.device)
            else:
                module.features.tokens, module.features.weights = (part.to(module.weight.device) for part in rows)


def _numbers(column: pl.Series, kind: str) -> pl.Series:
    """Return a column as float64; what is no number is null."""
    if kind == TIME:
        return column.str.slice(0, 10).str.to_date(strict=False).cast(pl.Datetime).dt.epoch("s").cast(pl.Float64)
    return column.str.strip_chars().cast(pl.Float64, strict=False)


def _pieces(column: pl.Series, kind: str) -> pl.Series:
    """Return the categories or words of each cell as a list."""
    lowered = column.fill_null("").str.to_lowercase()
    if kind == TEXT:
        return lowered.str.extract_all(_WORDS)
    return (
        lowered.str.split("|")
        .list.eval(pl.element().str.split(";").explode().str.strip_chars())
        .list.eval(pl.element().filter(pl.element() != ""))
    )


def _spline(
    numbers: pl.Series, knots: npt.NDArray[np.float64], first: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the two knots around each number and their weights, which add up to 1; none for a null."""
    values = numbers.fill_null(float(knots[0])).to_numpy().clip(knots[0], knots[-1])
    lower = np.searchsorted(knots, values, side="right").clip(1, max(1, len(knots) - 1)) - 1
    upper = np.minimum(lower + 1, len(knots) - 1)
    gap = np.where(upper > lower, knots[upper] - knots[lower], 1.0)
    share = np.where(upper > lower, (values - knots[lower]) / gap, 0.0)
    present = ~numbers.is_null().to_numpy()
    weights = np.stack([1 - share, share], axis=1) * present[:, None]
    tokens = np.where(weights > 0, first + np.stack([lower, upper], axis=1), 0)
    return tokens, weights.astype(np.float32)
