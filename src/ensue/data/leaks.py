"""Leaks in the data: adjacent rows that hold the answer, near copies, later times, words that are labels.

Batches in the order of a file hold the answers of most prefixes: of a session a b c d the prefixes a, a b and a b c
stand in one batch, and the answer of each but the last ends the prefix beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from ensue.data.clock import SINCE_1970
from ensue.data.histories import Histories, is_prefix
from ensue.data.near_copies import near_copies

TELLING = 0.95
"""Correlation (phi) of a word with a label from which the text is said to hold its label."""
_MIN_BEGUN_SHARE = 0.1
_MIN_BEGUN = 10
"""Rows that begin another, by chance at most."""
_MIN_ROWS = 30
"""Texts that a label must have, and a word stand in, before the two are compared."""
MOST_WORDS = 1_000_000
"""Words, or events, of two parts beyond which near copies are not looked for: it would take minutes."""


def begun_beside(histories: Histories) -> int:
    """Return how many rows begin the row before or after them and are shorter: prefixes that were written out as rows.

    Of the rows a b, a b c, d and d e the first and the third. Sessions do so by chance: under a tenth of them, or under
    ten, count as none.
    """
    begins = np.zeros(len(histories), np.bool_)
    lengths = histories.lengths
    rows = np.arange(len(histories) - 1)
    # Each row is compared with the next one and with the one before it.
    for short, long in ((rows, rows + 1), (rows + 1, rows)):
        shorter = (lengths[short] > 0) & (lengths[short] < lengths[long])
        begins[short[shorter]] |= is_prefix(histories, short[shorter], long[shorter])
    count = int(begins.sum())
    return count if count >= max(_MIN_BEGUN_SHARE * len(histories), _MIN_BEGUN) else 0


def before_the_last(train: Histories, other: Histories) -> int:
    """Return how many histories begin before the last training history; 0 where either has no times since 1970."""
    sides = [log.times[log.offsets[:-1]][log.lengths > 0] if log.timed else np.empty(0) for log in (train, other)]
    if any(not len(side) or side.min() < SINCE_1970 for side in sides):
        return 0
    return int((sides[1] < sides[0].max()).sum())


def not_compared(name: str, things: str) -> str:
    """Says that near copies were not looked for.

    Args:
        name: of the other part.
        things: what it is counted in.
    """
    return f"{name}: near copies are not searched: both parts together hold more than {MOST_WORDS:,} {things}"


def near_sequences(train: Histories, other: Histories) -> int | None:
    """Return how many histories of four values or more nearly repeat one to train on, value for value in runs of three.

    Those that repeat it wholly count too; ``None`` beyond ``MOST_WORDS`` events, where nothing is compared.
    """
    if len(train.ids) + len(other.ids) > MOST_WORDS:
        return None
    coded = other.encode(train.vocabulary)
    texts = pl.concat([_as_text(train), _as_text(coded)])
    # Groups are numbered by their first text: the other part repeats training where that is a text of training.
    groups = near_copies(texts)[len(train) :]
    return int(((groups < len(train)) & (other.lengths >= 4)).sum())


def near_texts(train: pl.Series, other: pl.Series) -> int | None:
    """Return how many texts repeat a training text, nearly or exactly; ``None`` beyond ``MOST_WORDS``."""
    texts = pl.concat([train, other])
    if int(texts.str.count_matches(" ", literal=True).sum()) + len(texts) > MOST_WORDS:
        return None
    return int((near_copies(texts)[len(train) :] < len(train)).sum())


def _as_text(histories: Histories) -> pl.Series:
    """Ids as words; what training lacks is a word of its own place, which nothing repeats."""
    ids = pl.Series(histories.ids).cast(pl.String)
    positions = pl.Series(np.arange(len(histories.ids))).cast(pl.String)
    words = ids.zip_with(pl.Series(histories.ids > 1), "x" + positions)
    # Empty histories have no word, and come back by the join.
    filled = pl.DataFrame({"row": histories.sequence_index(), "word": words}).group_by("row").agg("word")
    rows = pl.DataFrame({"row": np.arange(len(histories))}).join(filled, on="row", how="left", maintain_order="left")
    return rows["word"].list.join(" ").fill_null("")


@dataclass(frozen=True, slots=True)
class Telling:
    """A word that stands in nearly all texts of a label and in nearly no others."""

    word: str
    label: str
    inside: float
    """Share of the label's texts that hold it."""
    outside: float
    """Share of the others."""


def telling_words(texts: tuple[pl.Series, ...], labels: pl.Series) -> list[Telling]:
    """Return for each label the word with the highest correlation, where that is near perfect.

    Args:
        texts: one column, or two of pairs.
        labels: (rows,).
    """
    words = pl.concat_str(list(texts), separator=" ", ignore_nulls=True).str.to_lowercase()
    frame = pl.select(word=words.str.extract_all(r"[\p{L}\p{M}\p{N}_]+").list.unique(), label=labels)
    rows = len(frame)
    occurrences = frame.explode("word", empty_as_null=False).drop_nulls("word")
    sizes = frame.group_by("label").len("size")
    often = occurrences.group_by("word").len("all").filter(pl.col("all") >= _MIN_ROWS)
    pairs = occurrences.join(often, on="word").group_by("word", "label", "all").len("both").join(sizes, on="label")
    pairs = pairs.filter((pl.col("size") >= _MIN_ROWS) & (pl.col("size") < rows))
    # phi of the word's presence a and the label's b among n texts, from the texts that have both.
    a = pl.col("all").cast(pl.Float64)
    b = pl.col("size").cast(pl.Float64)
    n = float(rows)
    spread = (a * (n - a) * b * (n - b)).sqrt()
    phi = pl.when(spread > 0).then((n * pl.col("both") - a * b) / spread).otherwise(0.0)
    shares = pairs.with_columns(
        phi=phi, inside=pl.col("both") / b, outside=(pl.col("all") - pl.col("both")) / (n - b)
    ).filter(pl.col("phi") >= TELLING)
    best = shares.sort(["phi", "word"], descending=[True, False]).unique("label", keep="first", maintain_order=True)
    return [Telling(*row) for row in best.select("word", "label", "inside", "outside").iter_rows()]
