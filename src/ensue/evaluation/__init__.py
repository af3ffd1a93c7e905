"""The referee: a protocol card, counting rows beside every model, 95 % intervals, and one sentence on who wins.

``next_event`` scores rankings and ``classify`` labels; here the predictor's task chooses between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ensue.classify.predictor import ClassifyPredictor
from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.evaluation import classify, next_event
from ensue.evaluation.cards import describe
from ensue.evaluation.classify import TextCard, TextResult
from ensue.evaluation.next_event import AT, PROTOCOLS, SAMPLED, Card, Result, Scored, chance, evaluate_alone, score
from ensue.evaluation.rows import RESAMPLES, Row, table
from ensue.next_event.predictor import NextPredictor

__all__ = [
    "AT",
    "PROTOCOLS",
    "RESAMPLES",
    "SAMPLED",
    "Card",
    "Result",
    "Row",
    "Scored",
    "TextCard",
    "TextResult",
    "chance",
    "compare",
    "describe",
    "evaluate",
    "evaluate_alone",
    "score",
    "table",
]


@overload
def evaluate(predictor: NextPredictor, data: Histories, protocol: str = "full", at: Sequence[int] = AT) -> Result: ...
@overload
def evaluate(predictor: ClassifyPredictor, data: Texts) -> TextResult: ...
def evaluate(predictor: Any, data: Any, *options: Any, **named: Any) -> Result | TextResult:
    """Score a predictor and the counting models that were fitted on the same data.

    Args:
        predictor: fitted.
        data: histories for task ``next``, labelled texts for ``classify``.
        options: of ``next``, the protocol (full, paper, macro or sampled) and ``at``, the cut-offs.
        named: the same by name.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown protocol.
    """
    found: Result | TextResult = compare([[predictor]], data, *options, **named)
    return found


@overload
def compare(
    entries: Sequence[Sequence[NextPredictor]], data: Histories, protocol: str = "full", at: Sequence[int] = AT
) -> Result: ...
@overload
def compare(entries: Sequence[Sequence[ClassifyPredictor]], data: Texts) -> TextResult: ...
def compare(entries: Any, data: Any, *options: Any, **named: Any) -> Result | TextResult:
    """Score several models, each a list of predictors that differ in their seed alone.

    Figures are means over seeds; intervals resample sequences (texts), and seeds where there are several.

    Args:
        entries: fitted predictors of one task, by model.
        data: histories for task ``next``, labelled texts for ``classify``.
        options: of ``next``, the protocol (full, paper, macro or sampled) and ``at``, the cut-offs.
        named: the same by name.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown protocol.
    """
    referee = classify if isinstance(entries[0][0], ClassifyPredictor) else next_event
    found: Result | TextResult = referee.compare(entries, data, *options, **named)
    return found
