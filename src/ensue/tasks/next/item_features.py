"""Encoding of item tables: each feature of an item becomes a few weighted tokens.

==========  ============================================================================================================
category    one token per value, values split at ``|`` and ``;``; values of a single item are left out
text        one token per word, words of a single item are left out; or, by word vectors of a file (``vectors``, their
            mean) or an installed sentence encoder (``encoder``), one token per component of the text's unit vector
number      two neighbouring knots of a linear spline, weighted by how near they are: a token per knot
time        as a number, seconds
==========  ============================================================================================================

Knots are quantiles of the items that the encoder was fitted on, so a number beyond them counts as the nearest one. The
tokens of a column have weights of 1 / sqrt(their number), so that a long text does not outweigh a category.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ensue.data.files import answering
from ensue.data.histories import IGNORE, KINDS, NUMBER, TEXT, TIME, Index, Items
from ensue.errors import SettingError
from ensue.lazy import lazy, torch
from ensue.metrics import Floats
from ensue.nn.validation import LARGEST_COUNT, require_number, require_table
from ensue.store.folder import read_file, read_json
from ensue.store.pack import pack, read_arrays, tensor_bytes, unpack
from ensue.text.encoder import Vectors
from ensue.text.vectors import read_vectors

if TYPE_CHECKING:
    from torch import Tensor

    from ensue.text import encoder as sentence_encoders
else:
    sentence_encoders = lazy("ensue.text.encoder")

TABLE = "items.parquet"
ENCODER = "items.json"
EMBEDDINGS = "item_features.safetensors"
"""Files of a model folder."""
_ID = "item id"
MAX_TOKENS = 24
"""Tokens per column and item at most: the first ones."""
MAX_VALUES = 50_000
"""Distinct tokens per column at most: the most frequent ones."""
KNOTS = 9
"""Knots of the spline of a number."""
_WORDS = r"[\w--_]+"


Cells = tuple[Index, Vectors]
"""Tokens and weights of one column, (items, width) each; token 0 stands for none and has weight 0."""


@dataclass(frozen=True, eq=False)
class ColumnEncoder:
    """Encoder of one column into tokens.

    Attributes:
        name: the column.
        kind: its type.
        values: what each token stands for, of categories and texts.
        knots: (knots,) of numbers and times, rising.
        vectors: (values, width) word vectors of a text column that is encoded by the mean of its words' vectors.
        sentence_encoder: name of the sentence encoder that encodes a text column.
        probe: (width,) vector of that encoder by which it is recognised.

    Raises:
        ValueError: an unknown type, or values or knots of another one, not sorted, or twice.
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    knots: tuple[float, ...] = ()
    vectors: Vectors | None = None
    sentence_encoder: str = ""
    probe: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the type and the tokens."""
        if self.kind not in KINDS or self.kind == IGNORE:
            raise ValueError(f"column {self.name} is of an unknown type")
        tokens: tuple[float, ...] | tuple[str, ...] = self.knots or self.values
        if not all(map(isfinite, self.knots)):
            raise ValueError(f"column {self.name} has a knot that is not finite")
        if list(tokens) != sorted({*tokens}) or (self.values if self.kind in (NUMBER, TIME) else self.knots):
            raise ValueError(f"column {self.name} has values that are not those of a {self.kind}, sorted")
        if self.vectors is not None:
            require_table("vectors", self.vectors, np.float32, [len(self.values), None])
            require_number("vectors", self.vectors, LARGEST_COUNT, -LARGEST_COUNT)

    @property
    def num_tokens(self) -> int:
        """Number of its tokens."""
        width = len(self.probe) if self.vectors is None else self.vectors.shape[1]
        return width or len(self.values) or len(self.knots)


class FeatureEncoder:
    """Item tables into tokens.

    Args:
        columns: one encoder per feature.
    """

    def __init__(self, columns: Sequence[ColumnEncoder]) -> None:
        self.columns = tuple(columns)
        self.num_tokens = 1 + sum(column.num_tokens for column in columns)
        """Number of tokens, token 0 included."""

    @classmethod
    def fit(cls, items: Items, trained: pl.Series, vectors: str | None, encoder: str | None) -> FeatureEncoder:
        """Return an encoder for the columns of a table.

        Args:
            items: all items; their words get vectors.
            trained: mask of the items with training events, from which all else is fitted.
            vectors: file of word vectors for the text columns, or none.
            encoder: name of a sentence encoder for them, or none.

        Raises:
            DataError: the file cannot be read, or has none of the words.
            SettingError: the encoder cannot be read, or both are given.
        """
        if vectors and encoder:
            raise SettingError("vectors and encoder are given; texts of items are encoded by one of them")
        encoders: list[ColumnEncoder] = []
        for name, kind in items.kinds.items():
            if kind == IGNORE:
                continue
            column = items.columns[name].filter(trained)
            if kind == TEXT and encoder:
                probe = _sentence_encoder(encoder).vectors([sentence_encoders.PROBE])[0].tolist()
                encoders.append(ColumnEncoder(name, kind, sentence_encoder=encoder, probe=tuple(probe)))
            elif kind == TEXT and vectors:
                words = _pieces(items.columns[name], kind).explode().drop_nulls().unique().sort()
                file_vectors = read_vectors(vectors, words.to_list())
                values = words.filter(pl.Series(file_vectors.known))
                matrix = file_vectors.matrix[file_vectors.known]
                encoders.append(ColumnEncoder(name, kind, tuple(values), vectors=matrix))
            elif kind in (NUMBER, TIME):
                numbers = column.cast(pl.Float64).drop_nulls().to_numpy()
                # Quantiles put as many items between two knots everywhere; equal ones are merged.
                knots = np.unique(np.quantile(numbers, np.linspace(0, 1, KNOTS))) if len(numbers) else np.zeros(0)
                encoders.append(ColumnEncoder(name, kind, knots=tuple(knots.tolist())))
            else:
                counts = _pieces(column, kind).explode().drop_nulls().alias("piece").value_counts(name="count")
                counts = counts.filter(pl.col("count") > 1).sort("count", "piece", descending=[True, False])
                encoders.append(ColumnEncoder(name, kind, tuple(sorted(counts["piece"].head(MAX_VALUES)))))
        return cls(encoders)

    def encode(self, items: Items) -> Cells:
        """Return the tokens and weights of some items, (items, width) each; the first token of all items is 0."""
        pairs = zip(self.columns, accumulate((column.num_tokens for column in self.columns), initial=1), strict=False)
        cells = [(np.zeros((len(items), 1), np.int64), np.ones((len(items), 1), np.float32))]
        cells += [_encode(column, first, items.columns[column.name]) for column, first in pairs if column.num_tokens]
        tokens, weights = (np.concatenate(arrays, axis=1) for arrays in zip(*cells, strict=True))
        return tokens, weights


@dataclass(frozen=True, eq=False)
class _Description:
    """The item table of a folder but for its rows."""

    kinds: dict[str, str]
    title: str
    id_column: str
    encoder: tuple[ColumnEncoder, ...]
    embeddings: dict[str, Vectors]

    def __post_init__(self) -> None:
        """Check that the parts are of one table."""
        if self.title not in ("", *self.kinds):
            raise ValueError(f"column {self.title} (title) is missing")
        if {column.name: column.kind for column in self.encoder} != {
            name: kind for name, kind in self.kinds.items() if kind != IGNORE
        }:
            raise ValueError("the encoder is not that of the columns")


class KnownItems:
    """The item table of a model, and how rows of the network are computed from it.

    Args:
        items: all items.
        encoder: how they become tokens.
        embeddings: for each parameter of the network that has a row per item, by name, (tokens, row width) embeddings
            of the tokens; the row of an item is their weighted sum.
    """

    def __init__(self, items: Items, encoder: FeatureEncoder, embeddings: Mapping[str, Vectors]) -> None:
        self.items = items
        self.encoder = encoder
        self.embeddings = embeddings
        self.titles = items.titles()

    def contents(self) -> dict[str, bytes]:
        """Return the files of a model folder that hold the item table, its encoder and the embeddings."""
        table = io.BytesIO()
        self.items.columns.select(self.items.ids.alias(_ID), pl.all()).write_parquet(table)
        items = self.items
        embeddings = dict(self.embeddings)
        description = _Description(dict(items.kinds), items.title, items.id_column, self.encoder.columns, embeddings)
        tree, tensors = pack(description)
        described = json.dumps(tree, ensure_ascii=False).encode()
        return {TABLE: table.getvalue(), ENCODER: described, EMBEDDINGS: tensor_bytes(tensors)}

    @classmethod
    def read(cls, folder: Path, parameters: Mapping[str, Tensor] | None, num_ids: int) -> KnownItems:
        """Read what :meth:`contents` wrote.

        Args:
            folder: the model folder.
            parameters: those of the network, by name; ``None`` of an exported network, which no feature changes.
            num_ids: size of its vocabulary, padding and unknown included.

        Raises:
            ValueError: the files do not fit each other or the network.
        """
        described = unpack(_Description, read_json(folder, ENCODER), read_arrays(folder, EMBEDDINGS))
        with answering(folder / TABLE):
            table = pl.read_parquet(io.BytesIO(read_file(folder, TABLE)))
        if dict(table.schema) != {_ID: pl.String, **dict.fromkeys(described.kinds, pl.String)}:
            raise ValueError(f"{TABLE} does not have the columns of {ENCODER}")
        if table[_ID].null_count() or table[_ID].n_unique() < len(table):
            raise ValueError(f"{TABLE} holds an item twice")
        items = Items(table[_ID], table.drop(_ID), described.kinds, described.title, described.id_column)
        encoder = FeatureEncoder(described.encoder)
        for name, array in described.embeddings.items():
            if parameters is None:
                break
            rows = parameters.get(name)
            if rows is None or len(rows) != num_ids:
                raise ValueError(f"{EMBEDDINGS}: {name} is not a table of items of the network")
            require_table(name, array, np.float32, [encoder.num_tokens, rows[0].numel()])
            require_number(name, array, LARGEST_COUNT, -LARGEST_COUNT)
        return cls(items, encoder, described.embeddings)


def embed_tokens(embedding: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sums of the embeddings of tokens, (items, width).

    Args:
        embedding: (all tokens, width).
        tokens: (items, tokens); 0 fills up.
        weights: (items, tokens) the weight of each token, 0 for those that fill up.
    """
    return torch.nn.functional.embedding_bag(
        tokens, embedding, mode="sum", per_sample_weights=weights.to(embedding.dtype)
    )


def _encode(encoder: ColumnEncoder, first: int, column: pl.Series) -> Cells:
    """Return (items, width) tokens of a column, and their weights.

    Args:
        encoder: of the column.
        first: its first token.
        column: (items,) texts.
    """
    if encoder.knots:
        return _spline(column.cast(pl.Float64).fill_nan(None), np.array(encoder.knots), first)
    if encoder.sentence_encoder:
        sentence_encoder = _sentence_encoder(encoder.sentence_encoder)
        sentence_encoder.require(encoder.probe[:8])
        return _components(sentence_encoder.vectors(column.fill_null("").to_list()), first)
    token_table = pl.DataFrame({"piece": encoder.values, "token": range(first, first + len(encoder.values))})
    pieces = pl.DataFrame({"row": range(len(column)), "piece": _pieces(column, encoder.kind)}).explode("piece")
    tokens_of_rows = pieces.join(token_table, on="piece", how="inner", maintain_order="left")
    if encoder.vectors is not None:
        sums = np.zeros((len(column), encoder.num_tokens), np.float32)
        # Sum the word vectors of each item; the unit vector of the sum is that of the mean.
        np.add.at(sums, tokens_of_rows["row"].to_numpy(), encoder.vectors[tokens_of_rows["token"] - first])
        return _components(sums, first)
    # The n-th token of a row goes to column n - 1; a row keeps its first tokens.
    tokens_of_rows = tokens_of_rows.with_columns(pl.col("row").cum_count().over("row").alias("number"))
    tokens_of_rows = tokens_of_rows.filter(pl.col("number") <= MAX_TOKENS)
    numbers = tokens_of_rows["number"].to_numpy()
    tokens = np.zeros((len(column), numbers.max(initial=0)), np.int64)
    tokens[tokens_of_rows["row"].to_numpy(), numbers - 1] = tokens_of_rows["token"]
    lengths = (tokens > 0).sum(1, keepdims=True).clip(min=1)
    return tokens, ((tokens > 0) / np.sqrt(lengths)).astype(np.float32)


def _components(vectors: Vectors, first: int) -> Cells:
    """Return a token for each component of (items, width) vectors, weighted by the component of the unit vector."""
    tokens = np.broadcast_to(np.arange(first, first + vectors.shape[1]), vectors.shape)
    return tokens, vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)


@cache
def _sentence_encoder(name: str) -> sentence_encoders.Encoder:
    """Return an encoder, which is read once."""
    return sentence_encoders.Encoder(name, torch.device("cpu"))


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


def _spline(numbers: pl.Series, knots: Floats, first: int) -> Cells:
    """Return the two knots around each number and their weights, which add up to 1; none for a null."""
    values = numbers.fill_null(float(knots[0])).to_numpy().clip(knots[0], knots[-1])
    # The knot at or below each value; the last interval includes its right end.
    lower = np.searchsorted(knots, values, side="right").clip(1, max(1, len(knots) - 1)) - 1
    upper = np.minimum(lower + 1, len(knots) - 1)
    # Halves, for the difference of two large numbers is infinite.
    gap = np.where(upper > lower, knots[upper] / 2 - knots[lower] / 2, 1.0)
    share = np.where(upper > lower, (values / 2 - knots[lower] / 2) / gap, 0.0)
    present = ~numbers.is_null().to_numpy()
    weights = np.stack([1 - share, share], axis=1) * present[:, None]
    tokens = np.where(weights > 0, first + np.stack([lower, upper], axis=1), 0)
    return tokens, weights.astype(np.float32)
