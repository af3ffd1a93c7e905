"""The data sets of MTN's study: what is learned, what is looked at on the way, and what is scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Index
from ensue.data.queries import Queries, prefixes, read_queries
from ensue.data.queries.rules import PAPER_RULES, QueryRules
from ensue.errors import DataError
from ensue.tasks.suggest.dataset import prints
from ensue.vocabulary import FIRST
from ensue_studies.rows import Rows
from ensue_studies.sets import columns_of, evenly, fingerprint

FILES: Mapping[str, str] = {"msmarco": "sessions.tsv", "sqa": "sequences.tsv"}
RULES = QueryRules(normalisation="paper")
"""The paper's normalisation without its caps on queries a session and words a query."""
TURNS = 16
"""Queries before a target that models are asked with."""
PLACES = ("1", "2", "3", "4 and more")
"""How much was typed before a target."""
ABOUT: Mapping[str, str] = {
    "msmarco": (
        "real questions, put into sessions that imitate a log. Only sessions that the file marks as novel are "
        "used for validation and testing: 35 % of the other test pairs are in the training part, and looking them up "
        "has BLEU 30. The paper's caps (3 to 5 queries a session, at most 10 words) are left out: they would take half "
        "of the novel pairs"
    ),
    "sqa": "questions that people asked one after the other about a table; scored on its own test part",
}


@dataclass(frozen=True)
class QuerySet:
    """One data set.

    Attributes:
        name: how the tables call it.
        train: learned.
        valid: says when to stop, and how what is looked up is weighed.
        test: scored.
        capped: ``test`` under the paper's caps, for the counting rows alone.
    """

    name: str
    train: Queries
    valid: Queries
    test: Queries
    capped: Queries | None

    @property
    def fingerprint(self) -> str:
        """Of all queries and sessions."""
        parts = (self.train, self.valid, self.test)
        return fingerprint(column for part in parts for column in columns_of(part.histories))

    @cached_property
    def targets(self) -> Targets:
        """What is scored."""
        return Targets.of(self.test.histories, self.train.histories)

    def few(self, learned: int | None, tested: int | None) -> QuerySet:
        """The same set with at most so many sessions to learn (half as many to look at), and so many to score."""
        valid = evenly(self.valid, learned and learned // 2)
        return QuerySet(self.name, evenly(self.train, learned), valid, evenly(self.test, tested), None)

    def statistics(self) -> Rows:
        """A row a part."""
        rows = []
        for name, part in (("train", self.train), ("valid", self.valid), ("test", self.test)):
            histories = part.histories
            values = pl.Series(histories.vocabulary.values, dtype=pl.String)
            typed = values.gather(histories.ids.astype(np.int64) - FIRST)
            words = typed.str.split(" ")
            rows.append(
                {
                    "data": self.name,
                    "part": name,
                    "sessions": len(part),
                    "pairs": int((histories.lengths - 1).sum()),
                    "queries a session": round(float(histories.lengths.mean()), 2),
                    "words a query": round(float(words.list.len().to_numpy().mean()), 2),
                    "distinct queries": typed.n_unique(),
                    "distinct words": words.explode(empty_as_null=False).n_unique(),
                }
            )
        return rows


@dataclass(frozen=True, eq=False)
class Targets:
    """Every query after the first of a session.

    Attributes:
        before: what was typed before each.
        true: what came.
        owners: (targets,) its session.
        typed: (targets,) place in ``PLACES``.
        seen: (targets,) whether it follows the same query in the training part.
        known: (targets,) whether it stands in the training part at all.
    """

    before: Histories
    true: pl.Series
    owners: Index
    typed: Index
    seen: npt.NDArray[np.bool_]
    known: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, test: Histories, train: Histories) -> Targets:
        """The targets of some sessions."""
        before, ids = prefixes(test, TURNS)
        values = pl.Series("query", test.vocabulary.values, dtype=pl.String)
        true = values.gather(ids.astype(np.int64) - FIRST)
        owners = np.repeat(np.arange(len(test)), np.maximum(test.lengths - 1, 0))
        place = np.arange(len(ids)) - np.searchsorted(owners, owners)
        learned = {train.vocabulary.value(id) for id in np.unique(train.ids).tolist()}
        return cls(
            before,
            true,
            owners,
            np.minimum(place, len(PLACES) - 1),
            np.isin(prints(test), prints(train)),
            np.array([text in learned for text in true], np.bool_),
        )

    def __len__(self) -> int:
        """Number of targets."""
        return len(self.true)


def find_sets(data: Path) -> tuple[list[QuerySet], list[str]]:
    """The sets at hand, and the names of those that are not.

    Args:
        data: the folder that holds ``msmarco`` and ``sqa``, or the folder above it.

    Raises:
        DataError: neither is there, or a part of one is missing.
    """
    folder = data / "queries" if (data / "queries").is_dir() else data
    found, absent = [], []
    for name, file in FILES.items():
        places = [folder / name / f"{file}{suffix}" for suffix in (".gz", ".xz", "")]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            absent.append(name)
        else:
            found.append(_read(name, path))
    if not found:
        listed = " nor ".join(f"{name}/{file}" for name, file in FILES.items())
        raise DataError(f"{data}: neither {listed} (plain, .gz or .xz) is there; name the folder that holds them")
    return found, absent


def _read(name: str, path: Path) -> QuerySet:
    queries = read_queries(path, rules=RULES)[0]
    missing = {"train", "valid", "test"} - {*queries.parts.unique()}
    if missing:
        raise DataError(f"{path}: it has no part {', '.join(sorted(missing))}; the study needs train, valid and test")
    valid, test = (queries.part(part, novel=bool(len(queries.novel))) for part in ("valid", "test"))
    return QuerySet(name, queries.part("train"), valid, test, _capped(path))


def _capped(path: Path) -> Queries | None:
    """The test part under the paper's caps; ``None`` where they leave no session."""
    try:
        queries = read_queries(path, rules=PAPER_RULES)[0]
        found = queries.part("test", novel=bool(len(queries.novel)))
    except DataError:  # the file itself was read before
        return None
    return found if len(found) else None
