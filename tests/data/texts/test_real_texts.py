"""Public sets of texts in their original layouts: recognised, counted, their known leaks found, their words covered."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ensue.data.schema import ReadReport
from ensue.data.texts import Texts, hold_out_texts, leaks, read_texts
from ensue.text.tokens import Tokenizer, Words, split_words
from ensue.text.vectors import read_vectors

DATA = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[3] / "../shared/data")) / "text"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real texts at {DATA}; set ENSUE_DATA")


def read(name: str, *, phrases: bool = False, label: str | None = None) -> tuple[Texts, ReadReport]:
    return read_texts(DATA / name, columns={"label": label} if label else None, phrases=phrases)


# file, layout, rows, labels (the sources' own counts, which are the lines of the files)
FILES = [
    ("sst1/train.tsv.xz", "labelled lines", 8544, 5),
    ("sst1/dev.tsv.xz", "labelled lines", 1101, 5),
    ("sst1/test.tsv.xz", "labelled lines", 2210, 5),
    ("sst2/train.tsv.xz", "labelled lines", 6920, 2),
    ("sst2/dev.tsv.xz", "labelled lines", 872, 2),
    ("sst2/test.tsv.xz", "labelled lines", 1821, 2),
    ("sst_trees/train.txt.xz", "trees", 8544, 5),
    ("sst_trees/dev.txt.xz", "trees", 1101, 5),
    ("sst_trees/test.txt.xz", "trees", 2210, 5),
    ("trec/train.tsv.xz", "labelled lines", 5452, 6),
    ("trec/test.tsv.xz", "labelled lines", 500, 6),
    ("imdb50k/train.tsv.xz", "imdb", 25000, 2),
    ("imdb50k/test.tsv.xz", "imdb", 25000, 2),
    ("snli/dev.tsv.xz", "labelled lines", 9842, 3),
    ("snli/test.tsv.xz", "labelled lines", 9824, 3),
    ("snli_cad/original.train.tsv.xz", "labelled lines", 1666, 3),
    ("snli_cad/revised_combined.train.tsv.xz", "labelled lines", 6664, 3),
]

MARKED = {"imdb50k/train.tsv.xz": 7, "imdb50k/test.tsv.xz": 4}


@pytest.mark.parametrize(("name", "layout", "rows", "labels"), FILES, ids=[row[0] for row in FILES])
def test_counts(name: str, layout: str, rows: int, labels: int) -> None:
    texts, understood = read(name)
    notes = (f"HTML tags and entities removed from {MARKED[name]} texts",) if name in MARKED else ()
    assert (understood.layout, understood.notes) == (layout, notes)
    assert texts.labels is not None
    assert (len(texts), texts.labels.n_unique()) == (rows, labels)
    assert texts.paired == name.startswith("snli")


def test_every_phrase_of_the_trees() -> None:
    phrases, understood = read("sst_trees/train.txt.xz", phrases=True)
    # A binary tree of n leaves has 2n - 1 nodes. Three leaves are two words, such as "8 1/2" with a hard space.
    assert understood.notes == ("318,582 phrases; left out as copies with the same label: 159,308",)
    sentences, _ = read("sst_trees/train.txt.xz")
    num_words = int(sentences.texts[0].str.split(" ").list.len().sum())
    assert 2 * (num_words - 3) - len(sentences) == 318_582
    assert len(phrases) == 159_274


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_sentences_of_the_trees_are_those_of_sst1(part: str) -> None:
    trees, _ = read(f"sst_trees/{part}.txt.xz")
    lines, _ = read(f"sst1/{part}.tsv.xz")
    assert trees.labels is not None and lines.labels is not None
    # The lines are lower-cased and keep the Treebank's backslash before a slash or a star.
    plain = lines.texts[0].str.replace_all(r"\\([/*])", "$1")
    found = Counter(zip(trees.labels, trees.texts[0].str.to_lowercase(), strict=True))
    assert found == Counter(zip(lines.labels, plain, strict=True))


@pytest.mark.parametrize(("name", "repeated", "shared"), [("sst1", 10, 2), ("sst2", 9, 2), ("trec", 72, 11)])
def test_known_leaks(name: str, repeated: int, shared: int) -> None:
    found = leaks(read(f"{name}/train.tsv.xz")[0], read(f"{name}/test.tsv.xz")[0])
    assert (found.repeated, found.shared) == (repeated, shared)


def test_imdb_is_held_out_by_film() -> None:
    texts, understood = read("imdb50k/train.tsv.xz", label="rating")
    assert understood.columns == {"text": "text", "label": "rating", "id": "id", "group": "movie"}
    assert texts.labels is not None and set(texts.labels) == {"1", "2", "3", "4", "7", "8", "9", "10"}
    train, held, _ = hold_out_texts(texts)
    assert leaks(train, held).shared_groups == 0
    assert train.labels is not None and held.labels is not None
    assert 0.095 * len(texts) < len(held) <= 0.1 * len(texts)
    shares = held.labels.value_counts().join(texts.labels.value_counts(), on=texts.labels.name)
    assert (shares["count"] / shares["count_right"]).is_between(0.09, 0.1002).all()


@pytest.mark.parametrize(
    ("name", "changed"), [("sst1/train", 2), ("sst1/test", 0), ("trec/train", 1), ("trec/test", 0), ("snli/dev", 10)]
)
def test_tokenised_texts_come_through(name: str, changed: int) -> None:
    # What changes has no mark that stands alone ("baffled by jason x.") or is half tokenised ("the base.a group").
    texts, _ = read(f"{name}.tsv.xz")
    different = 0
    for column in texts.texts:
        split = split_words(column)
        plain = column.str.to_lowercase().str.extract_all(r"\S+").to_list()
        different += sum(split.text(row) != [words] for row, words in enumerate(plain))
    assert different == changed


def test_sentences_without_marks_are_those_of_the_marks() -> None:
    column = read("imdb50k/train.tsv.xz")[0].texts[0].gather_every(50)
    marked = split_words(column, sentences=True)
    found = split_words(column.str.replace_all(" <sssss> ", " ", literal=True), sentences=True)
    expected, ends = inner_ends(marked), inner_ends(found)
    assert len(expected & ends) > 0.97 * len(expected)
    assert len(expected & ends) > 0.93 * len(ends)


def inner_ends(split: Words) -> set[tuple[int, int]]:
    """(text, words before it) of every end of a sentence that is not the end of its text."""
    owners = np.repeat(np.arange(len(split.texts) - 1), np.diff(split.texts))[:-1]
    ends, starts = split.sentences[1:-1], split.sentences[split.texts[:-1]][owners]
    inner = owners == np.repeat(np.arange(len(split.texts) - 1), np.diff(split.texts))[1:]
    return set(zip(owners[inner].tolist(), (ends - starts)[inner].tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "coverage"),
    [
        ("sst1/train", 0.990),
        ("sst2/train", 0.990),
        ("trec/train", 0.980),
        ("imdb50k/train", 0.983),
        ("snli/dev", 0.998),
    ],
)
def test_vectors_cover_the_words(name: str, coverage: float) -> None:
    texts, _ = read(f"{name}.tsv.xz")
    texts = texts.select(slice(0, 5000))
    tokenizer = Tokenizer.fit(texts.texts)
    vectors = read_vectors(DATA / "vectors/sgns100.npz", tokenizer.vocabulary.values)
    assert (vectors.dim, vectors.matrix.shape) == (100, (len(tokenizer.vocabulary) - 2, 100))
    ids = tokenizer.encode(pl.concat([column.rename("text") for column in texts.texts])).ids
    assert coverage < vectors.known[ids - 2].mean() < coverage + 0.002
    assert not vectors.matrix[~vectors.known].any() and vectors.matrix[vectors.known].any(axis=1).all()
