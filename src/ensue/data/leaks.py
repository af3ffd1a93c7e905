"""Leaks in the data: adjacent rows that hold the answer, duplicates, later times, words that are labels.

Batches in the order of a file hold the answers of most prefixes: of a session a b c d the prefixes a, a b and a b c
stand in one batch, and the answer of each but the last ends the prefix beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Index, distinct_numbers, ranges, scrambled
from ensue.data.near_copies import near_copies
from ensue.data.time_summary import SINCE_1970
from ensue.lines import part_of, quoted

TELLING = 0.95
"""Correlation (phi) of a word with a label from which the text is said to hold its label."""
_BEGUN, _FEW = 0.1, 10
_LEAST = 30
"""Texts that a label must have, and a word stand in, before the two are compared."""
MOST_WORDS = 1_000_000
"""Words, or events, of two parts beyond which near copies are not looked for: it would take minutes."""


def begun_beside(histories: Histories) -> int:
    """Return how many rows begin the row before or after them and are shorter: prefixes that were written out as rows.

    Of the rows a b, a b c, d and d e the first and the third. Sessions do so by chance: under a tenth of them, or under
    ten, count as none.
    """
    begins = np.zeros(len(histories), np.bool_)
    rows = np.arange(len(histories) - 1)
    for short, long in ((rows, rows + 1), (rows + 1, rows)):
        begins[short] |= _begins(histories, short, long)
    count = int(begins.sum())
    return count if count >= max(_BEGUN * len(histories), _FEW) else 0


def _begins(histories: Histories, short: Index, long: Index) -> npt.NDArray[np.bool_]:
    """(pairs,) whether the one history is shorter than the other, not empty, and equal to its first events."""
    lengths, low = histories.lengths, histories.offsets
    is_prefix = np.zeros(len(short), np.bool_)
    fitting = np.flatnonzero((lengths[short] > 0) & (lengths[short] < lengths[long]))
    if len(fitting):
        prefixes, shared = short[fitting], lengths[short[fitting]]
        other = long[fitting]
        equal = histories.ids[ranges(low[prefixes], shared)] == histories.ids[ranges(low[other], shared)]
        is_prefix[fitting] = np.logical_and.reduceat(equal, np.cumsum(shared) - shared)
    return is_prefix


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
    often = occurrences.group_by("word").len("all").filter(pl.col("all") >= _LEAST)
    pairs = occurrences.join(often, on="word").group_by("word", "label", "all").len("both").join(sizes, on="label")
    pairs = pairs.filter((pl.col("size") >= _LEAST) & (pl.col("size") < rows))
    a, b, n = pl.col("all").cast(pl.Float64), pl.col("size").cast(pl.Float64), float(rows)
    spread = (a * (n - a) * b * (n - b)).sqrt()
    phi = pl.when(spread > 0).then((n * pl.col("both") - a * b) / spread).otherwise(0.0)
    shares = pairs.with_columns(
        phi=phi, inside=pl.col("both") / b, outside=(pl.col("all") - pl.col("both")) / (n - b)
    ).filter(pl.col("phi") >= TELLING)
    best = shares.sort(["phi", "word"], descending=[True, False]).unique("label", keep="first", maintain_order=True)
    return [Telling(*row) for row in best.select("word", "label", "inside", "outside").iter_rows()]


MIN_SHARE = 0.01
"""Share of the events that must be exact duplicates before anything is said: some clicks are noted twice in any log."""
SAME = 0.95
"""Share of the distinct events that are there equally often in a log that was concatenated."""
MAX_EVENTS = 10_000_000
"""Events that are compared: it takes two seconds and 16 bytes of memory an event."""
MIN_ROWS = 4
"""Events or sequences of which a pattern can be told."""
MIN_DISTINCT = 10
"""Different rows that a file of texts has at least before anything is said."""
_ADVICE = "keep one copy, for a CSV or JSON Lines file by `awk '!seen[$0]++' FILE > NEW`"


def duplicates(histories: Histories) -> str:
    """Return a warning of exact duplicates: what they are, how many, and whether the log looks concatenated.

    Of a log with times an exact duplicate has the sequence, the value and the time of another event. Without times the
    same value may come again; only a log of which everything is there twice is told.

    Args:
        histories: of one log.
    """
    num_events = len(histories.ids)
    if not MIN_ROWS <= num_events <= MAX_EVENTS:
        return ""
    if histories.timed:
        # Times of a session never decrease, so that duplicates are among the neighbours at one time.
        tied = _tied_events(histories)
        counts = np.unique(_event_keys(histories, tied), return_counts=True)[1]
        num_duplicates = len(tied) - len(counts)
        counts = np.append(counts, np.ones(num_events - len(tied), np.int64))
        copies = int(np.median(counts))
        if copies > 1 and float((counts % copies == 0).mean()) >= SAME:
            times = "twice" if copies == 2 else f"{copies} times"
            return f"{_part(num_duplicates, histories)}: the log looks concatenated {times}; {_ADVICE}"
        if num_duplicates >= MIN_SHARE * num_events:
            return f"{_part(num_duplicates, histories)}; {_ADVICE}"
    if _halves_are_equal(histories):
        verb = "is", "are"
        half = part_of(num_events // 2, num_events, "event", *verb, percent=True)
        return f"{half} repeated in the same order: the log looks concatenated twice; keep the first half of the file"
    return ""


def doubled_rows(rows: pl.DataFrame) -> tuple[str, ...]:
    """Return a warning where the second half of some rows is the first half again, nothing otherwise.

    Args:
        rows: of a file of texts, queries or posts, in its order.
    """
    half = len(rows) // 2
    if half < MIN_ROWS or len(rows) % 2 or not rows[:half].equals(rows[half:]):
        return ()
    if rows[:half].n_unique() < max(MIN_DISTINCT, half / 2):  # a few texts that come again and again
        return ()
    share_text = part_of(half, len(rows), "row", "is", "are", percent=True)
    return (f"{share_text} repeated in the same order: the file looks concatenated twice; keep its first half",)


def _tied_events(histories: Histories) -> Index:
    """Return the events that have the session and the time of a neighbour."""
    ties = (histories.times[1:] == histories.times[:-1]) & histories.is_followed()
    is_tied = np.zeros(len(histories.times), np.bool_)
    is_tied[1:] |= ties
    is_tied[:-1] |= ties
    return np.flatnonzero(is_tied)


def _event_keys(histories: Histories, events: Index) -> npt.NDArray[np.uint64]:
    """Return (events,) 64-bit numbers that are equal for an equal session, item and time."""
    owners = (np.searchsorted(histories.offsets, events, side="right") - 1).astype(np.uint64)
    keys = scrambled(owners << np.uint64(32) | histories.ids[events].astype(np.uint64))
    return scrambled(keys ^ scrambled(histories.times[events].view(np.uint64)))


def _halves_are_equal(histories: Histories) -> bool:
    """Return whether the second half of the sequences, or of every sequence, is the first half again."""
    num, lengths = len(histories), histories.lengths
    if num >= MIN_ROWS and num % 2 == 0 and np.array_equal(lengths[: num // 2], lengths[num // 2 :]):
        columns = (histories.ids, histories.times) if histories.timed else (histories.ids,)
        middle = int(histories.offsets[num // 2])
        if all(np.array_equal(column[:middle], column[middle:]) for column in columns):
            return len(distinct_numbers(histories.ids)) > 1
    if num < MIN_ROWS or (lengths % 2).any() or lengths.max() < 4:
        return False
    halves = lengths // 2
    first = ranges(histories.offsets[:-1], halves)
    return bool((histories.ids[first] == histories.ids[first + np.repeat(halves, halves)]).all())


def _part(num_duplicates: int, histories: Histories) -> str:
    share_text = part_of(num_duplicates, len(histories.ids), "event", "repeats", "repeat", percent=True)
    # The events of a sequence are in order of time, and of one time in that of the file: copies may be apart.
    events = _tied_events(histories)
    _, first, counts = np.unique(_event_keys(histories, events), return_index=True, return_counts=True)
    event = int(events[first[counts > 1].min()])
    owner = int(np.searchsorted(histories.offsets, event, side="right")) - 1
    name = histories.record(owner).id or str(owner + 1)
    value = histories.vocabulary.value(int(histories.ids[event]))
    return f"{share_text} an earlier one of the same session, item and time, such as {quoted(value)} in {quoted(name)}"
