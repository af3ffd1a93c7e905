"""What HiDAN's paper prints, and what later papers report on the files at hand."""

from __future__ import annotations

from collections.abc import Mapping

from ensue_studies.papers import Paper

MEASURES = ("mrr", "hit@10", "hit@50", "hit@100")
HEADS: Mapping[str, str] = {"mrr": "MRR", "hit@10": "A@10", "hit@50": "A@50", "hit@100": "A@100", "mrr@100": "MAP@100"}
_PAPER = Paper("hidan")
_PREDICTION, _SECONDS = _PAPER.tables("prediction"), _PAPER.rows("seconds")
STATISTICS = _PAPER.rows("statistics")
"""Table 1."""
PARAMETERS = _PAPER.words("parameters")
ELSEWHERE = _PAPER.tables("elsewhere")
"""What GRASS reports on these very files: it reads a social graph and scores an end token as if it were a user."""


def printed(data: str, model: str) -> dict[str, float]:
    """A row of Table 2 as fractions; empty where the paper has none."""
    return {name: value / 100 for name, value in _PREDICTION.get(data, {}).get(model, {}).items()}


def seconds(data: str, model: str) -> float | None:
    """A cell of Table 3: seconds an epoch on their card."""
    return _SECONDS.get(model, {}).get(data)
