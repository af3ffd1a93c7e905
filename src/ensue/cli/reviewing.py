"""A review at the terminal: a post at a time, best first, by one person or by several at one queue."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ensue.cli import display, show_review
from ensue.data.histories import Index
from ensue.lines import plural
from ensue.tasks.link.ranked import RankedCorpus
from ensue.tasks.link.review.labels import NO, UNSURE, YES, Labels, labels_file
from ensue.tasks.link.review.review import review

KEYS = {"y": YES, "yes": YES, "n": NO, "no": NO, "?": UNSURE, "unsure": UNSURE}
UNDO, STOP = ("u", "undo"), ("q", "quit")
PATIENCE = 60.0
"""Seconds that the last posts of ten wait for who is looking at them; then they are asked here too."""
_PAUSE = 0.2


def review_posts(found: RankedCorpus, posts: Path, labels: Path | None, by: str, overlap: float) -> RankedCorpus:
    """Ask, a post at a time, until the target is reached or the reader stops; every answer is kept at once.

    Args:
        found: what is asked about.
        posts: the file it was read from.
        labels: the file of labels; beside the posts unless named.
        by: who labels; the name at this machine unless given.
        overlap: share of the posts that every reader is asked about, though another one has labelled them.
    """
    kept = Labels(labels or labels_file(posts, found.articles), by or _own_name(), posts)
    queue = _Queue(found, kept, overlap)
    count = sum(map(bool, kept.given.values()))
    so_far = f" ({count:,} so far)" if count else ""
    display.log(f"labels: {kept.path}{so_far}, as {display.one_line(kept.reader)} (--annotator NAME for another)")
    display.log(
        "y: belongs to the story, n: does not, ?: unsure, u: undo, q: stop; run the same command again to continue"
    )
    progress = None
    start, rows = found.review_start()
    for progress in review(start, rows, queue.ask, shared=queue):
        display.log(progress.sentence)
    if progress is not None and not progress.reached:
        display.log("stopped before the target; run the same command again to continue")
    read, said = queue.labels()
    show_review.readers(found, kept)
    kept.close()
    sure = said != UNSURE
    return found.reviewed(start, rows, read[sure], said[sure] == YES, queue.said())


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in containers
        return "reader"


class _Queue:
    """The posts, and what all readers said of them so far."""

    def __init__(self, found: RankedCorpus, kept: Labels, overlap: float) -> None:
        self._found, self._kept, self._overlap = found, kept, overlap
        self._rows = {name: row for row, name in enumerate(found.posts.ids)}

    @property
    def looks(self) -> int:
        self._kept.refresh()
        return self._kept.looks

    def look(self) -> int:
        return self._kept.look()

    def labels(self) -> tuple[Index, npt.NDArray[np.int8]]:
        self._kept.refresh()
        pairs = [
            (row, verdict)
            for name in self._kept.given
            if (row := self._rows.get(name)) is not None and (verdict := self._kept.verdict(name)) is not None
        ]
        return np.array([row for row, _ in pairs], np.int64), np.array([said for _, said in pairs], np.int8)

    def said(self) -> dict[int, dict[str, int]]:
        """Row -> reader -> what they said."""
        return {self._rows[name]: said for name, said in self._kept.given.items() if said and name in self._rows}

    def ask(self, rows: Index) -> npt.NDArray[np.int8]:
        """What is said of some posts: by others in the meantime, or by this reader, until they stop."""
        answers: dict[int, int] = {}
        for row, again in self._turns(rows.tolist()):
            said = self._answer(row)
            if said is None:
                break
            if not again:
                answers[row] = said
        given = [answers[row] if row in answers else self._known(row) for row in rows.tolist()]
        stopped = next((place for place, said in enumerate(given) if said is None), len(given))
        return np.array(given[:stopped], np.int8)

    def _turns(self, rows: list[int]) -> Iterator[tuple[int, bool]]:
        """The posts to ask about, claimed while they are asked; first those that another one labelled already."""
        for row in self._second():
            if self._kept.claim(self._found.posts.ids[row]):
                yield row, True
                self._kept.release(self._found.posts.ids[row])
        left, waited, since = rows, False, time.monotonic()
        while left:
            later = []
            for row in left:
                name = self._found.posts.ids[row]
                if self._known(row) is not None:
                    continue
                late = time.monotonic() - since > PATIENCE
                if not self._kept.claim(name) and not late:
                    later.append(row)
                    continue
                if self._known(row) is None:  # not labelled by another one just before it was claimed
                    yield row, False
                    since, waited = time.monotonic(), False
                self._kept.release(name)
            if later and not waited:
                display.log(f"{plural(len(later), 'post')} are being labelled by others; waiting")
                waited = True
            if later:
                time.sleep(_PAUSE)
            left = later

    def _known(self, row: int) -> int | None:
        self._kept.refresh()
        return self._kept.verdict(self._found.posts.ids[row])

    def _second(self) -> list[int]:
        """Posts of the overlap that others labelled and this reader did not."""
        if not self._overlap:
            return []
        return [
            self._rows[name]
            for name, said in self._kept.given.items()
            if said and self._kept.reader not in said and name in self._rows and _share(name) < self._overlap
        ]

    def _answer(self, row: int) -> int | None:
        """What this reader says of a post; ``None`` where they stop. To undo is to be asked again at once."""
        name = self._found.posts.ids[row]
        show_review.counter(self._kept, len(self._found.posts))
        show_review.asked(self._found, row)
        while (word := (sys.stdin.readline() or "q").strip().lower()) not in KEYS:
            if word in STOP:
                return None
            if word not in UNDO:
                show_review.again()
                continue
            before = self._kept.undo()
            if before is None or before not in self._rows:
                show_review.nothing_to_undo()
                continue
            if self._answer(self._rows[before]) is None:
                return None
            show_review.asked(self._found, row)
        self._kept.add(name, KEYS[word])
        if others := {reader: said for reader, said in self._kept.given[name].items() if reader != self._kept.reader}:
            show_review.compared(KEYS[word], others)
        return KEYS[word]


def _share(name: str) -> float:
    """A number in [0, 1) by the id of a post, the same for every reader."""
    return int.from_bytes(blake2b(name.encode(), digest_size=6, person=b"overlap").digest()) / 2**48
