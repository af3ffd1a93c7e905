"""Attributions of a model inside a history."""

from __future__ import annotations

from collections.abc import Sequence

from ensue.answers import Answer, Explanation
from ensue.records import History
from ensue.tasks.next.attributions import encode_records
from ensue.tasks.next.infer import predict, score_histories
from ensue.tasks.next.state import NextState


def explain(state: NextState, records: Sequence[History], k: int) -> list[Explanation]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.explain`."""
    answers = predict(state, records, k, evidence=True)
    return [_explanation(state, record, answer) for record, answer in zip(records, answers, strict=True)]


def _explanation(state: NextState, record: History, answer: Answer) -> Explanation:
    """The weights inside one record, over the latest known events that can matter."""
    histories = encode_records([record], state.vocabulary).histories
    scored = score_histories(state, state.metadata.exclusion, histories)
    influence, inside = scored.influence(0), histories.record(0)
    size = len(influence)
    return Explanation(
        inside.values[len(inside.values) - size :],
        inside.times[max(0, len(inside.times) - size) :],
        tuple(map(tuple, scored.dependency(0).tolist())),
        tuple(influence.tolist()),
        answer,
    )
