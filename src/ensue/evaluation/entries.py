"""One line of a comparison: a model, and what each of its seeds says of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

RUN = TypeVar("RUN")


class Seeded(Protocol):
    """A predictor, as far as its row goes."""

    @property
    def model_name(self) -> str:
        """The name of the model."""
        ...

    @property
    def seed(self) -> int:
        """Of its training."""
        ...


P = TypeVar("P", bound=Seeded)


@dataclass(frozen=True, slots=True)
class Entry(Generic[RUN]):
    """One model that is scored: what it says of the data with each of its seeds."""

    name: str
    runs: Sequence[RUN]
    seeds: Sequence[int]

    @classmethod
    def of(cls, predictors: Sequence[P], score: Callable[[P], RUN], name: str = "") -> Self:
        """Of predictors that differ in their seed alone; under another name than their model's where one is given."""
        seeds = [predictor.seed for predictor in predictors]
        return cls(name or predictors[0].model_name, [score(predictor) for predictor in predictors], seeds)


def beside_counting(
    entries: Iterable[Entry[RUN]], counting: Iterable[str], predictors: Sequence[P], score: Callable[[P, str], RUN]
) -> list[Entry[RUN]]:
    """Entries, and below them the counting models of some predictors that are none of the entries yet."""
    found = [*entries]
    names = [entry.name for entry in found]
    seeds = [own.seed for own in predictors]
    new = [name for name in counting if name not in names]
    return [*found, *(Entry(name, [score(own, name) for own in predictors], seeds) for name in new)]
