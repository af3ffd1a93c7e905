"""What every evaluator gives: a protocol card, a row a model, and who wins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.paired_test import PairedTest
from ensue.evaluation.rows import Json, Row


class Card(Protocol):
    """What the figures mean: stands beside every table."""

    __dataclass_fields__: ClassVar[Json]

    @property
    def name(self) -> str:
        """Of the protocol."""
        ...

    @property
    def interval(self) -> str:
        """What is resampled, for people."""
        ...


CARD = TypeVar("CARD", bound=Card, covariant=True)
OWN = TypeVar("OWN", bound=Card)
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
    entries: Iterable[Entry[RUN]], counting: Iterable[str], score: Callable[[str], RUN], seed: int
) -> list[Entry[RUN]]:
    """Entries, and below them the counting models that are none of them yet."""
    found = [*entries]
    names = [entry.name for entry in found]
    return [*found, *(Entry(name, [score(name)], [seed]) for name in counting if name not in names)]


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[CARD]):
    """A table, its card, and whether a network or counting wins."""

    task: ClassVar[str]

    protocol: CARD
    rows: tuple[Row, ...]
    duels: tuple[PairedTest, ...]
    """One for each measure that the verdict goes by."""
    drawn: tuple[BootstrapResult, ...] = field(default=(), repr=False, compare=False)
    """What resampling found of each row, on the same draws."""
    leaks: tuple[str, ...] = ()
    """What of the figures may have been read off, a line each."""

    @property
    def model(self) -> str | None:
        """The best network by the first of them; ``None`` where only counting models were scored."""
        return self.duels[0].model

    @property
    def best_counting(self) -> str:
        """The best counting row by the first of them."""
        return self.duels[0].counting

    @property
    def p_value(self) -> float:
        """That resampling explains the first difference."""
        return self.duels[0].p_value

    @property
    def winner(self) -> str | None:
        """Who is ahead by the first of them, beyond what resampling explains; ``None`` where that is open."""
        return self.duels[0].winner

    @property
    def beats_counting(self) -> bool:
        """Whether a network wins by the first of them."""
        return self.winner is not None and self.winner == self.model

    @property
    def verdict(self) -> str:
        """The line under the table."""
        return "; ".join(duel.sentence for duel in self.duels)

    @property
    def shown(self) -> list[str]:
        """The figures that a card shows."""
        return list(self.rows[0].figures)

    def outcome(self) -> Json:
        """Who wins, as JSON."""
        return {"duels": [duel.to_dict() for duel in self.duels], "beats_counting": self.beats_counting}

    def to_dict(self) -> Json:
        """The JSON object that ``evaluate --json`` and ``compare --json`` print."""
        return {
            "task": self.task,
            "protocol": asdict(self.protocol),
            "rows": [row.to_dict() for row in self.rows],
            **self.outcome(),
            "verdict": self.verdict,
            **({"leaks": [*self.leaks]} if self.leaks else {}),
        }


def with_seeds(card: OWN, entries: Sequence[Entry[RUN]]) -> OWN:
    """The card, which says so where intervals resample seeds too."""
    several = any(len(entry.seeds) > 1 for entry in entries)
    return replace(card, interval=f"{card.interval}; seeds are resampled too") if several else card
