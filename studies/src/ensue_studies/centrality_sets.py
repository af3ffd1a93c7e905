"""The data sets of centrality's study: what is learned, what is looked at on the way, and what is scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.texts import Texts, leaks, read_texts
from ensue.errors import DataError
from ensue.text.tokens import split_words
from ensue_studies.centrality_paper import STATISTICS
from ensue_studies.rows import Row, Rows
from ensue_studies.sets import evenly, fingerprint

VECTORS = "vectors/sgns100.npz"
COLUMNS = {"imdb": ("imdb50k", "polarity"), "imdb-ratings": ("imdb50k", "rating")}
"""Sets that share a folder, by the column of their label."""


@dataclass(frozen=True)
class TextSet:
    """One data set as it is learned and scored.

    Attributes:
        name: how the tables call it.
        train: learned; where ``valid`` is ``None``, all but a tenth.
        valid: what says when to stop, where the set has such a part.
        test: scored.
        about: in a sentence, what is learned and what is scored.
    """

    name: str
    train: Texts
    valid: Texts | None
    test: Texts
    about: str

    @property
    def fingerprint(self) -> str:
        """Of all texts and labels."""
        parts = [part for part in (self.train, self.valid, self.test) if part is not None]
        columns = [column for part in parts for column in (*part.texts, part.labels, part.groups)]
        return fingerprint(part for column in columns for part in (() if column is None else column, "\0"))

    def few(self, learned: int | None, tested: int | None) -> TextSet:
        """The same set with at most so many texts to learn (and half as many to look at), and so many to score."""
        valid = None if self.valid is None else evenly(self.valid, learned and learned // 2)
        return TextSet(self.name, evenly(self.train, learned), valid, evenly(self.test, tested), self.about)

    def statistics(self) -> Rows:
        """Table 1: what is here, and what the paper prints of a set of that name."""
        assert self.test.labels is not None and self.train.labels is not None
        words = [split_words(column) for column in self.train.texts]
        found: Row = {
            "train": len(self.train),
            "dev": 0 if self.valid is None else len(self.valid),
            "test": len(self.test),
            "classes": self.train.labels.n_unique(),
            "mean_length": round(float(np.mean([len(side.words) / len(self.train) for side in words])), 1),
            "vocabulary": pl.concat([side.words for side in words]).n_unique(),
        }
        rows = [{"data": self.name, "row": "here", **found}]
        if self.name in STATISTICS:
            rows.append({"data": self.name, "row": "paper", **STATISTICS[self.name]})
        return rows

    def leaked(self) -> Row:
        """How many texts to score stand in the training part too, case and spaces aside."""
        found = leaks(self.train, self.test)
        return {
            "data": self.name,
            "scored": found.other_rows,
            "also_trained_on": found.shared,
            "under_another_label": found.shared_disagree,
            "group_trained_on": found.shared_groups,
            "example": found.examples[0] if found.examples else "",
        }


def find_sets(data: Path) -> tuple[list[TextSet], list[str]]:
    """The sets at hand, in the order of the tables, and the names of those that are not.

    Args:
        data: the folder that holds them, or the folder above it.

    Raises:
        DataError: none of them is there, or one is half there.
    """
    folder = text_folder(data)
    found, absent = [], []
    for name, read in READERS.items():
        places = [folder / part for part in PLACES[name]]
        if all(place.is_dir() for place in places):
            found.append(read(folder, name))
        else:
            absent.append(name)
    if not found:
        listed = ", ".join(dict.fromkeys(part for parts in PLACES.values() for part in parts))
        raise DataError(f"{data}: none of {listed} is there; name the folder that holds them")
    return found, absent


def text_folder(data: Path) -> Path:
    """The folder of the sets of texts: ``data``, or ``text`` in it."""
    return data / "text" if (data / "text").is_dir() else data


def _file(folder: Path, name: str) -> Path:
    """A file of a set, packed or not."""
    for suffix in (".xz", ".gz", ""):
        if (path := folder / f"{name}{suffix}").is_file():
            return path
    raise DataError(f"{folder / name}: not there, neither plain nor .gz or .xz; a set needs all of its parts")


def _sentences(folder: Path, name: str) -> TextSet:
    train, valid, test = (read_texts(_file(folder / name, f"{part}.tsv"))[0] for part in ("train", "dev", "test"))
    return TextSet(name, train, valid, test, "Sentences alone are learned; its dev part says when to stop.")


def _phrases(folder: Path, name: str) -> TextSet:
    parts = (read_texts(_file(folder / "sst_trees", f"{part}.txt"), phrases=part == "train")[0] for part in _PARTS)
    train, valid, test = (_polar(part) for part in parts)
    return TextSet(
        name,
        train,
        valid,
        test,
        "Every phrase of the training trees that is not neutral is learned, once for each polarity it bears; whole "
        "sentences that are not neutral are used for validation and testing.",
    )


_PARTS = ("train", "dev", "test")


def _polar(texts: Texts) -> Texts:
    """Labels 0 and 1 as negative (0), 3 and 4 as positive (1); neutral left out, and what then stands twice."""
    frame = pl.DataFrame({"text": texts.texts[0], "label": texts.labels}).filter(pl.col("label") != "2")
    frame = frame.with_columns(label=pl.col("label").replace({"0": "0", "1": "0", "3": "1", "4": "1"}))
    frame = frame.unique(["text", "label"], keep="first", maintain_order=True) if texts.groups is not None else frame
    return Texts((frame["text"],), frame["label"])


def _questions(folder: Path, name: str) -> TextSet:
    train, test = (read_texts(_file(folder / name, f"{part}.tsv"))[0] for part in ("train", "test"))
    return TextSet(name, train, None, test, "A tenth of the training part, drawn at random, says when to stop.")


def _reviews(folder: Path, name: str) -> TextSet:
    place, label = COLUMNS[name]
    columns = {"label": label}
    train, test = (read_texts(_file(folder / place, f"{part}.tsv"), columns=columns)[0] for part in ("train", "test"))
    about = "All reviews of a tenth of the films say when to stop; intervals resample films. Not the paper's IMDB."
    return TextSet(name, train, None, test, about)


def _pairs(folder: Path, name: str) -> TextSet:
    files = [(folder / "snli", "dev.tsv")]
    if (folder / "snli_cad").is_dir():
        files += [(folder / "snli_cad", f"{part}.train.tsv") for part in ("original", "revised_combined")]
    parts = [read_texts(_file(place, file))[0] for place, file in files]
    columns = tuple(pl.concat([part.texts[side] for part in parts]) for side in (0, 1))
    labels = pl.concat([part.labels for part in parts if part.labels is not None])
    about = (
        f"SNLI's dev part{' and the counterfactual training pairs' if len(files) > 1 else ''} are learned, for its "
        "training part (549k pairs, the paper's) is not at hand; all pairs of a tenth of the premises say when to "
        "stop, and the paper's test part is scored. Intervals resample premises."
    )
    return TextSet(name, Texts(columns, labels), None, read_texts(_file(folder / "snli", "test.tsv"))[0], about)


READERS: Mapping[str, Callable[[Path, str], TextSet]] = {
    "sst1": _sentences,
    "sst2": _sentences,
    "sst2-phrases": _phrases,
    "trec": _questions,
    "imdb": _reviews,
    "imdb-ratings": _reviews,
    "snli": _pairs,
}
PLACES: Mapping[str, tuple[str, ...]] = {
    "sst1": ("sst1",),
    "sst2": ("sst2",),
    "sst2-phrases": ("sst_trees",),
    "trec": ("trec",),
    "imdb": ("imdb50k",),
    "imdb-ratings": ("imdb50k",),
    "snli": ("snli",),
}
"""The folders each set needs."""
