"""Checks of texts: what a data set holds, and warnings about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.data.leaks import near_texts, not_compared, telling_words
from ensue.data.schema import FindingRow, ReadReport, counts_text
from ensue.data.texts.dataset import Leaks, Texts, leaks
from ensue.lines import cut, part_of, plural, quoted
from ensue.records import Text
from ensue.text.tokens import split_words

_ROWS, _MAX_CHARACTERS = 3, 160
_MAX_TELLING = 3
_MIN_TEXTS = 10
_percent = partial(part_of, percent=True)


@dataclass(frozen=True, kw_only=True)
class TextFindings:
    """Counts, a glance at the data, and warnings; goes into JSON by ``dataclasses.asdict``."""

    understood: ReadReport
    texts: int
    """Texts, or pairs."""
    paired: bool
    labels: dict[str, int]
    """Number of texts per label, the most frequent first; empty if the file has no labels."""
    mean_words: float
    median_words: float
    longest_words: int
    mean_sentences: float
    longest_sentences: int
    silent: int
    """Texts (of pairs: either one) without a word."""
    rows: tuple[Text, ...]
    """The first texts, cut short."""
    splits: dict[str, Leaks]
    """Leaks between this file and another, by the other's name."""
    warnings: tuple[str, ...] = field(default=())

    def table(self) -> list[FindingRow]:
        """Return the findings for people, one row each."""
        kind = "pair" if self.paired else "text"
        words = f"mean {self.mean_words:.1f}, median {self.median_words:g}, max {self.longest_words:,}"
        return [
            (f"{kind}s", f"{self.texts:,}", ""),
            ("labels", f"{len(self.labels):,}", counts_text(self.labels)),
            (f"words per {kind}", words, ""),
            (f"sentences per {kind}", f"mean {self.mean_sentences:.1f}, max {self.longest_sentences:,}", ""),
            *(
                (name, plural(leak.other_rows, kind), f"{leak.shared:,} of them also in this file")
                for name, leak in self.splits.items()
            ),
        ]


def check(texts: Texts, understood: ReadReport, others: Mapping[str, Texts] | None = None) -> TextFindings:
    """Count, show and warn.

    Args:
        texts: what a model would be trained on; not empty.
        understood: what the reader said of it.
        others: the other splits by name, such as ``{"test": …}``.

    Raises:
        DataError: single texts here and pairs there.
    """
    # Labels that differ by case or spaces alone count as one, as in training.
    texts, joined = texts.join_spellings()
    labels_here = texts.distinct_labels()
    matched = {name: other.match_spellings(labels_here) for name, other in (others or {}).items()}
    shared_texts = {name: leaks(texts, other) for name, (other, _) in matched.items()}
    words, sentences, silent = _lengths(texts)
    labels = _labels(texts)
    warnings = [
        *understood.warnings,
        *joined,
        *_of_labels(labels, len(texts)),
        *_repeats(leaks(texts, texts.select(slice(0, 0)))),
        *_telling(texts),
    ]
    if len(words) >= _MIN_TEXTS and (single := int((words == 1).sum())) > len(words) / 2:
        warnings.append(
            f"{_percent(single, len(words), 'text', 'is', 'are')} one word: is it the right column (--columns text=…), "
            "or is a script without spaces not split into words?"
        )
    if silent:
        warnings.append(f"{_percent(silent, len(texts), 'row', 'has', 'have')} a text without words")
    for name, (other, respelled) in matched.items():
        warnings += [f"{name}: {sentence}" for sentence in respelled]
        warnings += [*leaks_between(texts, other, name, "here"), *_new_labels(name, labels, _labels(other), len(other))]
    return TextFindings(
        understood=understood,
        texts=len(texts),
        paired=texts.paired,
        labels=labels,
        mean_words=float(words.mean()),
        median_words=float(np.median(words)),
        longest_words=int(words.max()),
        mean_sentences=float(sentences.mean()),
        longest_sentences=int(sentences.max()),
        silent=silent,
        rows=tuple(_shorten(texts.record(index)) for index in range(min(_ROWS, len(texts)))),
        splits=shared_texts,
        warnings=tuple(warnings),
    )


def _lengths(texts: Texts) -> tuple[Index, Index, int]:
    """Words and sentences of every text, both of a pair, and how many rows have a text without a word."""
    # Differences of offsets are the lengths of texts.
    split = [split_words(column, sentences=True) for column in texts.texts]
    words = [np.diff(side.sentences[side.texts]) for side in split]
    sentences = [np.diff(side.texts) for side in split]
    return np.concatenate(words), np.concatenate(sentences), int((np.min(words, axis=0) == 0).sum())


def _labels(texts: Texts) -> dict[str, int]:
    if texts.labels is None:
        return {}
    counts = texts.flat_labels.rename("label").value_counts(name="count")
    counts = counts.sort(["count", "label"], descending=[True, False])
    return dict(counts.iter_rows())


def _of_labels(labels: Mapping[str, int], num_texts: int) -> Iterator[str]:
    if not labels:
        yield "no labels: `ensue fit classify` and `ensue evaluate` need them; name the column with --columns label=…"
        return
    if len(labels) == 1:
        yield f"every text has the label {quoted(next(iter(labels)))}: there is nothing to classify"
    elif rare := [label for label, count in labels.items() if count < _MIN_TEXTS]:
        listed = ", ".join(map(quoted, rare[:3])) + (", …" if len(rare) > 3 else "")
        yield (
            f"{len(rare):,} of {len(labels):,} labels have under {_MIN_TEXTS} texts ({listed}): their metrics are "
            "unreliable"
        )
    if num_texts >= _MIN_TEXTS and len(labels) > num_texts / 2:
        yield f"{len(labels):,} labels for {num_texts:,} texts; is this the label column?"


def _repeats(found: Leaks) -> Iterator[str]:
    if found.repeated:
        yield (
            f"{_percent(found.repeated, found.rows, 'row', 'repeats', 'repeat')} the text of an earlier one, "
            "ignoring case and spaces"
        )
    if found.repeated_disagree:
        yield (
            f"{_percent(found.repeated_disagree, found.rows, 'row', 'has', 'have')} a text that also appears here with "
            "another label"
        )


def leaks_between(texts: Texts, other: Texts, name: str, here: str = "in the training data") -> Iterator[str]:
    """Find leaks between the training data and another part: copies, near copies and groups.

    Args:
        texts: what is trained on.
        other: the other part.
        name: what it is called.
        here: where the first part is.
    """
    yield from _shared(name, leaks(texts, other), here)
    yield from _near(texts, other, name, here)


def _near(texts: Texts, other: Texts, name: str, here: str) -> Iterator[str]:
    """Near copies, more of them than there are copies, or that there are too many words; pairs are read as one text."""
    columns = (pl.select(pl.concat_str(list(texts_of.texts), separator=" ")).to_series() for texts_of in (texts, other))
    num_near = near_texts(*columns)
    if num_near is None:
        yield not_compared(name, "words")
    elif num_near > leaks(texts, other).shared:
        yield f"{_percent(num_near, len(other), 'text', 'nearly repeats', 'nearly repeat', of=name)} one {here}"


def _telling(texts: Texts) -> Iterator[str]:
    """Words that all but hold the label."""
    words = [] if texts.labels is None or texts.multilabel else telling_words(texts.texts, texts.labels)
    for word in words[:_MAX_TELLING]:
        yield (
            f"the word {quoted(word.word)} is in {100 * word.inside:.1f} % of the texts labelled {quoted(word.label)} "
            f"and in {100 * word.outside:.1f} % of the others: does the text contain its label?"
        )


def _shared(name: str, found: Leaks, here: str) -> Iterator[str]:
    if found.shared:
        examples = ", ".join(map(quoted, found.examples))
        yield f"{_percent(found.shared, found.other_rows, 'text', 'is', 'are', of=name)} {here} too, such as {examples}"
    if found.shared_disagree:
        fraction = _percent(found.shared_disagree, found.other_rows, "text", "is", "are", of=name)
        yield f"{fraction} {here} with another label"
    if found.shared_groups:
        fraction = _percent(found.shared_groups, found.other_rows, "row", "belongs", "belong", of=name)
        yield f"{fraction} to a group that is {here} too"


def _new_labels(name: str, labels: Mapping[str, int], others: Mapping[str, int], num_texts: int) -> Iterator[str]:
    new = {label: count for label, count in others.items() if label not in labels}
    if labels and new:
        listed = ", ".join(map(quoted, list(new)[:3]))
        yield f"{_percent(sum(new.values()), num_texts, 'text', 'has', 'have', of=name)} a label unseen here ({listed})"


def _shorten(record: Text) -> Text:
    return Text(tuple(cut(text, _MAX_CHARACTERS) for text in record.texts), record.label, record.id)
