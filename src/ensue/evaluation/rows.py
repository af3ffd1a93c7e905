"""What the tables of every task are made of: a row a model, its intervals, and the Markdown of the card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ensue.evaluation.bootstrap import BootstrapResult

Json = dict[str, Any]
"""What a JSON object holds."""
PLAIN = ("log_loss",)
"""Measures that are no fractions: shown as they are, the others x 100."""


_LABELS = {
    "mrr": "MRR",
    "hit": "HR",
    "ndcg": "NDCG",
    "recall": "Recall",
    "map": "MAP",
    "article_mrr": "MRR by article",
    "article_map": "MAP by article",
    "pooled_ap": "pooled AP",
    "mrp": "mRP",
    "auc": "AUC",
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "calibration_error": "ECE",
    "log_loss": "log loss",
    "bleu": "BLEU",
    "exact": "exact match",
    "content": "content words",
    "precision": "n-gram precision",
}


def label(measure: str) -> str:
    """A measure as papers write it: ``HR@10`` of ``hit@10``."""
    name, at, k = measure.partition("@")
    return f"{_LABELS.get(name, name)}{at}{k}"


@dataclass(frozen=True, slots=True)
class Row:
    """One model's figures, as fractions, with 95 % intervals by measure; over several seeds their means."""

    model: str
    figures: Mapping[str, float]
    interval: Mapping[str, tuple[float, float]]
    seconds_per_1000: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    warning: str = ""
    """Says so where the figures are not above those of a random order (of texts: of the most frequent label)."""

    def to_dict(self) -> Json:
        """Flat JSON form: ``{"model", "mrr", …, "interval": {…}}``; ``"at_chance_level": true`` with a warning."""
        below = {"at_chance_level": True} if self.warning else {}
        speed = {} if self.seconds_per_1000 is None else {"seconds_per_1000": self.seconds_per_1000}
        return {"model": self.model, **self.figures, "interval": dict(self.interval), **speed, **self.notes, **below}


def share_of(count: int, whole: int) -> str:
    """A count with its share of the whole: ``12 (50.0 %)``."""
    return f"{count:,} ({100 * count / whole:.1f} %)"


class Rows(Protocol):
    """Whatever has rows."""

    @property
    def rows(self) -> Sequence[Row]:
        """A row a model."""
        ...


def seed_notes(seeds: Sequence[int], found: BootstrapResult) -> Json:
    """Notes on a model that was trained with several seeds: each one's figures, and their standard deviation."""
    if len(seeds) < 2:
        return {}
    each = [
        {"seed": seed, **dict(zip(found.names, own, strict=True))}
        for seed, own in zip(seeds, found.by_seed.tolist(), strict=True)
    ]
    spread = dict(zip(found.names, np.std(found.by_seed, axis=0, ddof=1).tolist(), strict=True))
    return {"seeds": len(seeds), "by_seed": each, "spread": spread}


def cell(row: Row, name: str, between: str = " ± ") -> str:
    """One figure with the half-width of its interval."""
    low, high = row.interval[name]
    return f"{figure(row.figures[name], name)}{between}{figure((high - low) / 2, name)}"


def figure(value: float, name: str) -> str:
    """One figure as tables show it: x 100, but for those that are no fractions."""
    return f"{value:.3f}" if name in PLAIN else f"{100 * value:.2f}"


def table(result: Rows, measures: Sequence[str]) -> str:
    """Return a Markdown table of metrics in % with half of their interval, then warnings."""
    lines = [f"| model | {' | '.join(map(label, measures))} |", "|---" * (1 + len(measures)) + "|"]
    for row in result.rows:
        cells = [cell(row, name) for name in measures]
        lines.append(f"| {row.model}{' (at chance level)' if row.warning else ''} | {' | '.join(cells)} |")
    return "\n".join([*lines, *(f"\nWarning: {row.warning}" for row in result.rows if row.warning)])
