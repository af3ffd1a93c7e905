"""The cascades of HiDAN's study: the authors' own files, those that later papers use, and one with its true graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ensue.data.edges import read_edges
from ensue.data.histories import Histories
from ensue.data.sequences import read
from ensue.data.splits import dated
from ensue.errors import DataError
from ensue.tasks.next.check import fingerprints
from ensue_studies.hidan_paper import STATISTICS
from ensue_studies.rows import Rows
from ensue_studies.sets import columns_of, evenly, fingerprint

LONGEST = 200
"""Events of a cascade that are read in the later papers' sets, as those papers do; the rest is cut off."""
OWN: Mapping[str, str] = {"memes": "meme", "weibo": "weibo", "twitter": "twitter"}
LATER: Mapping[str, str] = {"forest-twitter": "twitter", "memetracker": "memetracker"}
GRAPH = "hc-exp"
HALF = 0.5
ABOUT: Mapping[str, str] = {
    **dict.fromkeys(
        OWN,
        "the authors' files. Their training file (80 % of the cascades) is not public; their validation file (10 %) is "
        "learned, of which a tenth is held out to choose the epoch, and their test file (10 %) is scored: the paper's "
        "protocol on an eighth of the paper's training data",
    ),
    **dict.fromkeys(LATER, f"as later papers split it; the first {LONGEST} events of each cascade"),
    GRAPH: "cascades simulated on a known graph",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class CascadeSet:
    """One data set, split as given."""

    name: str
    train: Histories
    valid: Histories | None
    """``None``: a tenth of ``train`` is held out."""
    test: Histories
    edges: frozenset[tuple[str, str]] | None = None
    """Who can infect whom, where that is known."""
    fingerprint: str

    def few(self, learned: int | None, tested: int | None) -> CascadeSet:
        """At most so many cascades, evenly from the files."""
        train, test = evenly(self.train, learned), evenly(self.test, tested)
        valid = None if self.valid is None else evenly(self.valid, learned)
        return replace(self, train=train, valid=valid, test=test)

    @property
    def near_copies(self) -> npt.NDArray[np.bool_]:
        """(test cascades,) whether training data holds it: user for user, or half of it at the very same seconds."""
        test = self.test.encode(self.train.vocabulary)
        found: npt.NDArray[np.bool_] = np.isin(fingerprints(test), fingerprints(self.train))
        if not test.timed or not dated(self.train):  # without a common clock no second is a moment
            return found
        known = {_pair(*event) for event in zip(self.train.ids.tolist(), self.train.times.tolist(), strict=True)}
        same = [_pair(*event) in known for event in zip(test.ids.tolist(), test.times.tolist(), strict=True)]
        shared = np.bincount(test.sequence_index(), same, len(test))
        return found | (shared >= HALF * test.lengths)

    def statistics(self) -> Rows:
        """Table 1: what is here, and what the paper prints."""
        parts = [part for part in (self.train, self.valid, self.test) if part is not None]
        found = {
            "users": len({value for part in parts for value in part.vocabulary.values}),
            "cascades": sum(map(len, parts)),
            "mean length": round(sum(len(part.ids) for part in parts) / max(1, sum(map(len, parts))), 1),
            "learned": len(self.train),
            "scored": len(self.test),
            "near copies": f"{100 * self.near_copies.mean():.1f} %",
        }
        rows = [{"data": self.name, "row": "here", **found}]
        if self.name in STATISTICS:
            rows.append({"data": self.name, "row": "paper", **STATISTICS[self.name]})
        return rows


def find_sets(data: Path) -> tuple[list[CascadeSet], list[str]]:
    """The sets at hand, in the order of the tables, and the names of those that are not.

    Args:
        data: the folder with ``hidan``, ``twitter``, ``memetracker`` and ``hc-exp``, any of them, or the folder above
            it; HiDAN's files may also lie in it.

    Raises:
        DataError: none is there, or half of one.
    """
    base = data / "cascades" if (data / "cascades").is_dir() else data
    found, absent = [], []
    for name, stem in OWN.items():
        folder = base / "hidan" if (base / "hidan").is_dir() else base
        files = [folder / f"{stem}-cascades-time-{part}.gz" for part in ("val", "test")]
        if parts := _read_all(files):
            found.append(_set(name, parts[0], None, parts[1]))
        else:
            absent.append(name)
    for name, place in LATER.items():
        files = [base / place / f"cascade{part}.txt.gz" for part in ("", "valid", "test")]
        if parts := _read_all(files):
            found.append(_set(name, *map(_first, parts)))
        else:
            absent.append(name)
    files = [base / GRAPH / f"hc-exp-cascades-{part}.gz" for part in ("train", "val", "test")]
    if (parts := _read_all(files)) and (base / GRAPH / "hc-exp-graph").is_file():
        edges = read_edges(base / GRAPH / "hc-exp-graph")
        found.append(replace(_set(GRAPH, *parts), edges=edges))
    else:
        absent.append(GRAPH)
    if not found:
        raise DataError(f"{data}: none of {', '.join(absent)} is there; name the folder that holds them")
    return found, absent


def _read_all(files: Iterable[Path]) -> list[Histories]:
    """All of them, or none where the first is not there."""
    files = list(files)
    if not files[0].is_file():
        return []
    if missing := [path for path in files if not path.is_file()]:
        raise DataError(f"{missing[0]}: not there; it belongs to {files[0].name}")
    return [read(path)[0] for path in files]


def _set(name: str, train: Histories, valid: Histories | None, test: Histories) -> CascadeSet:
    parts = [part for part in (train, valid, test) if part is not None]
    seen = fingerprint(column for part in parts for column in columns_of(part, times=True))
    return CascadeSet(name=name, train=train, valid=valid, test=test, fingerprint=seen)


def _first(histories: Histories) -> Histories:
    """Each cascade's first events."""
    return histories.keep(np.arange(len(histories.ids)) - histories.offsets[histories.sequence_index()] < LONGEST)


def _pair(user: int, second: float) -> tuple[int, int]:
    return user, round(second)
