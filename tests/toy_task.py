"""A task of one's own in some hundred lines: how many stars a text gives, by the mean stars of its words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from ensue.data.report import ReadReport
from ensue.errors import DataError
from ensue.evaluation.bootstrap import BootstrapResult, resample
from ensue.evaluation.paired_test import paired_tests
from ensue.evaluation.result import TaskResult
from ensue.evaluation.rows import Row
from ensue.metrics import Floats
from ensue.store.folder import described, read_file, read_model, write_folder
from ensue.tasks.base import Task
from ensue.tasks.metadata import Metadata as SharedMetadata
from ensue.training.report import Report

MODELS: Mapping[str, tuple[Any, Any, None]] = {"words": (None, None, None), "mean": (None, None, None)}
SHARED = None
ABOUT = {"words": ("the mean stars of its words", ""), "mean": ("the mean of all stars", "")}
COUNTING = ("mean",)
BEST = ("words",)


@dataclass(frozen=True, slots=True)
class Review:
    """A text, and its stars where they are known."""

    text: str
    stars: float | None = None
    id: str = ""

    @classmethod
    def from_fields(cls, found: dict[str, Any], where: str = "record") -> Self:
        """Of a decoded JSON object."""
        if not isinstance(found.get("text"), str):
            raise DataError(f'{where}: field "text" must be a text')
        return cls(found["text"], found.get("stars"), found.get("id", ""))


@dataclass(frozen=True, slots=True)
class Stars:
    """An answer."""

    stars: float
    known: int
    id: str = ""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))


class Reviews(list[Review]):
    """Many of them."""

    def records(self) -> list[Review]:
        """They are their own records."""
        return self


def read(path: Path, columns: Mapping[str, str] | None = None, **opening: Any) -> tuple[Reviews, ReadReport]:
    """A table with the columns text and stars."""
    rows = pl.read_csv(path).to_dicts()
    reviews = Reviews(Review.from_fields(row, f"{path}:{at}") for at, row in enumerate(rows, 2))
    return reviews, ReadReport(path=str(path), layout="table", columns={"text": "text", "stars": "stars"}, notes=())


class Metadata(SharedMetadata):
    """Sums and counts of every word's stars."""

    REQUIRED = frozenset({"reviews"})
    reviews: int = 0


class StarsPredictor:
    """Stars by words; ``mean`` knows none."""

    task = "stars"

    def __init__(self, model: str = "best", *, settings: Any = None, seed: int = 0, device: Any = None) -> None:
        self.model_name, self.seed, self.metadata = "words" if model == "best" else model, seed, Metadata()
        self.words: dict[str, list[float]] = {}

    def fit(
        self, data: Reviews, valid: Any = None, *, checkpoint: Any = None, resume: bool = False
    ) -> Iterator[Report]:
        """Count."""
        self.words = {}
        yield self.update(data)

    def update(self, data: Reviews) -> Report:
        """Count more."""
        for review in data:
            for word in (*review.text.split(), ""):  # the empty word stands for all
                total, count = self.words.get(word, (0.0, 0.0))
                self.words[word] = [total + float(review.stars or 0), count + 1]
        self.metadata.reviews += len(data)
        return Report("counting", 1, 1, 1, 1, loss=0.0, seconds=0.0)

    def predict(self, records: Sequence[Review], k: int = 10, *, evidence: bool = True) -> list[Stars]:
        """The mean of the means."""
        return [self._stars(record, self.model_name) for record in records]

    def explain(self, records: Sequence[Review], k: int = 3) -> list[Stars]:
        """The answer again."""
        return self.predict(records)

    def _stars(self, review: Review, model: str) -> Stars:
        known = [self.words[word] for word in review.text.split() if word in self.words and model == "words"]
        means = [total / count for total, count in known or [self.words[""]]]
        return Stars(sum(means) / len(means), len(known), review.id)

    def errors(self, data: Reviews, model: str) -> Floats:
        """(reviews,) how far each answer is from the truth."""
        return np.array([abs(self._stars(review, model).stars - float(review.stars or 0)) for review in data])

    def summary(self) -> dict[str, Any]:
        """What was learned from what."""
        own: dict[str, Any] = {
            "task": self.task,
            "model": self.model_name,
            "settings": {},
            "schedule": None,
            "seed": self.seed,
        }
        return {**own, "facts": self.metadata.to_dict()}

    def stored_data(self) -> list[str]:
        return ["- every word of the reviews, in `words.json`."]

    def files(self, card: str = "") -> dict[str, bytes]:
        """What the folder holds."""
        return {**described(self.summary(), card), "words.json": json.dumps(self.words).encode()}

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the folder."""
        write_folder(Path(folder), self.files(card))

    def _fill(self, folder: Path, facts: dict[str, Any]) -> None:
        self.metadata = Metadata.from_dict(facts)
        self.words = json.loads(read_file(folder, "words.json"))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read the folder."""
        return read_model(Path(folder), partial(cls, device=device), cls._fill)


@dataclass(frozen=True, slots=True)
class Card:
    """What the figures mean."""

    data: str
    name: str = "full"
    interval: str = "95 %, resamples of reviews"


class Result(TaskResult[Card]):
    """The table of errors."""

    __slots__ = ()
    task: ClassVar[str] = "stars"


def _means(each: list[Floats], times: Floats) -> Iterator[Floats]:
    yield from ((times @ values / len(values))[None, :, None] for values in each)


def compare(entries: Sequence[Sequence[StarsPredictor]], data: Reviews) -> Result:
    """One over one plus the error of every model, counting beside them."""
    (first, *_), *_ = entries
    names = list(dict.fromkeys([*(seeds[0].model_name for seeds in entries), *COUNTING]))
    each = [1 / (1 + first.errors(data, name)) for name in names]
    draws = resample([1] * len(names), len(data), partial(_means, each), order="in turn")
    found = [
        BootstrapResult(("closeness",), np.array([[own.mean()]]), drawn) for own, drawn in zip(each, draws, strict=True)
    ]
    rows = tuple(Row(name, own.by_name(), own.interval()) for name, own in zip(names, found, strict=True))
    return Result(Card(f"{len(data)} reviews"), rows, paired_tests(("closeness",), COUNTING, names, found))


TASK = Task(
    name="stars",
    question="how many stars a text gives",
    record=Review,
    example={"text": "a fine film"},
    reader="tests.toy_task:read",
    catalogue="tests.toy_task",
    predictor="tests.toy_task:StarsPredictor",
    evaluator="tests.toy_task",
    update="ensue.refresh.plain:learn",
    command="ensue.cli.plain:PlainCommand",
    service="ensue.serve.tasks.plain:PlainService",
)
