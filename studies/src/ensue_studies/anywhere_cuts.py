"""The data at hand, cut into what people have: the newest sessions, a few labels, the posts of half of the articles.

What is scored stays the same for all cuts of a set, but never more than ``tested`` of it. Nothing is given as
validation data: all that a model chooses it chooses from what it learns, as it does for somebody with one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ensue.data.histories import Histories, Index
from ensue.data.posts import Corpus
from ensue.data.queries import Queries
from ensue.data.sequences import read
from ensue.data.splits import dated, hold_out
from ensue.data.texts import Texts
from ensue.errors import DataError
from ensue.lines import plural
from ensue_studies import ast_sets, centrality_sets, hidan_sets, mtn_sets, sansr
from ensue_studies.rows import Values
from ensue_studies.sansr_paper import DIGINETICA, YOOCHOOSE
from ensue_studies.sets import columns_of, evenly, fingerprint

LOGS = {"globo": "clicks.csv", "ml-100k": "ml-100k.inter"}
"""Logs with a clock, by their file: the last tenth of their histories, by the time of their first event, is scored."""
TEXTS = ("sst1", "sst2", "trec", "imdb", "snli")
"""Sets of texts; the others are the same texts under other labels."""
Data = Histories | Texts | Queries | Corpus


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much is learned and scored; ``None`` is all there is.

    Attributes:
        sessions: sessions and cascades, the newest ones.
        labels: texts, spread evenly over the file.
        queries: sessions of queries, spread evenly.
        posts: posts, spread evenly.
        most: sessions learned at most.
        tested: sessions, texts or posts scored at most.
    """

    sessions: Sequence[int | None] = (500, 2_000, 10_000, None)
    labels: Sequence[int | None] = (100, 1_000, None)
    queries: Sequence[int | None] = (200, 2_000, None)
    posts: Sequence[int | None] = (50, 200, None)
    most: int = 200_000
    tested: int = 5_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Cut:
    """A part of a data set as somebody has it.

    Attributes:
        task: whose data it is.
        data: the set.
        part: what of it is learned, for people.
        learned: how much that is.
        train: learned.
        test: scored.
        fingerprint: of the whole set.
        settings: of every model that has them.
    """

    task: str
    data: str
    part: str
    learned: int
    train: Data
    test: Data
    fingerprint: str
    settings: Values = field(default_factory=dict)


def find_cuts(data: Path, sizes: Sizes) -> tuple[list[Cut], list[str]]:
    """All cuts of all sets at hand, the smallest of each set first, and the kinds of data that are not there.

    Args:
        data: the folder that holds ``sessions``, ``cascades``, ``text``, ``queries`` and ``links``, any of them.
        sizes: of the cuts.

    Raises:
        DataError: none of them is there, or one is half there.
    """
    kinds: dict[str, Callable[[Path, Sizes], Iterator[Cut]]] = {
        "sessions": _sessions,
        "cascades": _cascades,
        "text": _texts,
        "queries": _queries,
        "links": _links,
    }
    absent = [kind for kind in kinds if not (data / kind).is_dir()]
    found = [cut for kind, cuts in kinds.items() if kind not in absent for cut in cuts(data, sizes)]
    if not found:
        raise DataError(f"{data}: none of the folders {', '.join(kinds)} is there; name the folder that holds them")
    return found, absent


def _sessions(data: Path, sizes: Sizes) -> Iterator[Cut]:
    folder = data / "sessions"
    if any((folder / name).is_dir() for name in (DIGINETICA, YOOCHOOSE)):
        for own in sansr.find_sets(data):
            yield from _newest("sessions", own.name, own.train, own.test, own.fingerprint, sizes)
    for name, file in LOGS.items():
        paths = [path for path in sorted((folder / name).glob(f"{file}*")) if path.is_file()]
        for path in paths[:1]:
            train, test, _ = hold_out(read(path)[0])
            seen = fingerprint((*columns_of(train, times=True), *columns_of(test, times=True)))
            yield from _newest("histories", name, train, test, seen, sizes)


def _cascades(data: Path, sizes: Sizes) -> Iterator[Cut]:
    for own in hidan_sets.find_sets(data)[0]:
        yield from _newest("cascades", own.name, own.train, own.test, own.fingerprint, sizes)


def _newest(what: str, name: str, train: Histories, test: Histories, seen: str, sizes: Sizes) -> Iterator[Cut]:
    """The newest sessions or cascades of a set: by the time of their first event where there is a clock."""
    order = _by_start(train)
    tested = test.select(np.sort(_by_start(test)[: sizes.tested]))  # what comes next, not what comes weeks later
    for size in _smaller(sizes.sessions, min(len(train), sizes.most)):
        chosen = np.sort(order[-size:])
        every = size == len(train)
        part = f"all {size:,} {what}" if every else f"newest {size:,} {what}"
        yield Cut(
            task="next",
            data=name,
            part=part,
            learned=size,
            train=train.select(chosen),
            test=tested,
            fingerprint=seen,
        )


def _by_start(histories: Histories) -> Index:
    """Numbers of histories, the oldest first; where no clock counts from 1970, as they stand."""
    if not dated(histories):
        return np.arange(len(histories))
    return np.argsort(histories.times[histories.offsets[:-1]], kind="stable")


def _texts(data: Path, sizes: Sizes) -> Iterator[Cut]:
    vectors = centrality_sets.text_folder(data) / centrality_sets.VECTORS
    given: list[Values] = [{}, *([{"vectors": str(vectors)}] if vectors.is_file() else [])]
    for own in (found for found in centrality_sets.find_sets(data)[0] if found.name in TEXTS):
        for size in _smaller(sizes.labels, len(own.train)):
            for settings in given:
                beside = "word vectors" if settings else "no vectors"
                yield Cut(
                    task="classify",
                    data=own.name,
                    part=f"{size:,} labels, {beside}",
                    learned=size,
                    train=evenly(own.train, size),
                    test=evenly(own.test, sizes.tested),
                    fingerprint=own.fingerprint,
                    settings=settings,
                )


def _queries(data: Path, sizes: Sizes) -> Iterator[Cut]:
    for own in mtn_sets.find_sets(data)[0]:
        train = replace(own.train, parts=own.train.parts.clear())
        for size in _smaller(sizes.queries, len(train)):
            yield Cut(
                task="suggest",
                data=own.name,
                part=plural(size, "session"),
                learned=size,
                train=evenly(train, size),
                test=evenly(own.test, sizes.tested),
                fingerprint=own.fingerprint,
            )


def _links(data: Path, sizes: Sizes) -> Iterator[Cut]:
    for own in ast_sets.find_sets(data)[0]:
        part, test = own.data.part("train"), own.data.part("test")
        whole = replace(part, posts=replace(part.posts, parts=None)).linked()
        for size in _smaller(sizes.posts, len(whole)):
            yield _link(own, plural(size, "labelled post"), evenly(whole, size), test)
        first = whole.related.argmax(1)
        for half, word in enumerate(("first", "second")):
            chosen = (first % 2 == half).nonzero()[0]
            yield _link(own, f"posts of the {word} half of the articles", whole.select(chosen), test)


def _link(own: ast_sets.LinkSet, part: str, train: Corpus, test: Corpus) -> Cut:
    return Cut(
        task="link",
        data=own.name,
        part=part,
        learned=len(train),
        train=train,
        test=test,
        fingerprint=own.fingerprint,
    )


def _smaller(sizes: Sequence[int | None], whole: int) -> list[int]:
    """The sizes below all there is, and all there is where ``None`` asks for it."""
    found = [whole if size is None else size for size in sizes if size is None or size < whole]
    return found or [whole]
