"""Scores, ranks and answers of a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ensue import metrics
from ensue.answers import Answer
from ensue.data.histories import Histories, Index
from ensue.metrics import Floats
from ensue.records import History
from ensue.settings import require_k
from ensue.tasks.next.attributions import TESTED, ScoredBatch, answers, log_totals
from ensue.tasks.next.batch import Output
from ensue.tasks.next.dataset import Windows, draw_negatives, hide_seen
from ensue.tasks.next.model import Model
from ensue.tasks.next.state import NextState

CELLS = 2**24
"""Scores held at once (64 MB in float32): bounds memory whatever the catalogue."""
LEAST = 1024
"""Smaller catalogues count as this large, since attention takes memory too."""


def predict(state: NextState, records: Sequence[History], k: int, *, evidence: bool) -> list[Answer]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.predict`."""
    require_k(k)
    size = max(1, CELLS // max(len(state.vocabulary), LEAST) // (1 + TESTED * evidence))
    parts = (records[low : low + size] for low in range(0, len(records), size))
    score = partial(score_histories, state)
    return [answer for part in parts for answer in answers(part, state.vocabulary, score, k, evidence=evidence)]


def scores(state: NextState, windows: Windows, index: Index, module: Model | None) -> tuple[Output, Tensor]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.scores`."""
    chosen = state.network if module is None else module
    device = state.device if chosen is state.model and state.schedule is not None else torch.device("cpu")
    chosen.eval()
    batch = windows.batch(index)
    with torch.no_grad():
        output = chosen(batch.to(device))
    return Output(output.scores.float().cpu(), tuple(weight.cpu() for weight in output.weights)), batch.targets


def ranks(
    state: NextState,
    data: Histories,
    *,
    hide: bool = False,
    sampled: int = 0,
    counting: str | None = None,
    context: Index | None = None,
) -> tuple[Floats, Index, Index]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.ranks`."""
    module: Model = state.counting[counting] if counting else state.network
    windows = Windows(data, module.reach, context=context)
    parts, steps = [np.empty(0)], [np.empty(0, np.int64)]
    for index in windows.groups(max(1, CELLS // max(len(state.vocabulary), LEAST))):
        output, targets = scores(state, windows, index, module)
        positions = windows.positions(index)
        shown = hide_seen(output.scores, data, positions) if hide else output.scores
        if sampled:
            negatives = draw_negatives(targets, positions, len(state.vocabulary), sampled)
            parts.append(metrics.sampled_ranks(shown, targets, negatives).double().numpy())
        else:
            parts.append(metrics.ranks(shown, targets).double().numpy())
        steps.append(positions)
    places = np.concatenate(steps)
    return np.concatenate(parts), data.sequence_index()[places], places + 1


def score_histories(state: NextState, histories: Histories, seen: Histories) -> ScoredBatch:
    """A :data:`ensue.tasks.next.attributions.ScoreFunction`; a history without events gets plain popularity."""
    filled = np.flatnonzero(histories.lengths)
    rows, lengths = np.full(len(histories), -1), np.zeros(len(histories), np.int64)
    windows = Windows(histories.select(filled), state.network.reach, last_only=True)
    rows[filled], lengths[filled] = np.arange(len(filled)), windows.stops - windows.starts
    every = np.arange(len(filled))
    table, weights = scores(state, windows, every, None)[0] if len(filled) else Output(torch.empty(0), ())
    if len(filled) < len(histories):
        some, popular = table, state.counting["popularity"].shares().log()
        table = popular.repeat(len(histories), 1)
        if len(filled):
            table[filled] = some
    if not state.metadata.repeats:
        full = np.flatnonzero(seen.lengths)
        table[full] = hide_seen(table[full], seen, seen.offsets[1:][full] - 1)
    return ScoredBatch(table, log_totals(table), weights, rows.tolist(), lengths.tolist())
