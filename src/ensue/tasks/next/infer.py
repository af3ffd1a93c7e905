"""Scores, ranks and answers of a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ensue import metrics
from ensue.answers import Answer
from ensue.data.histories import Histories, Index, offsets_of, ranges
from ensue.metrics import Floats
from ensue.records import History
from ensue.settings import require_k
from ensue.tasks.next.attributions import TESTED, ScoredBatch, answers, log_totals
from ensue.tasks.next.batch import Output
from ensue.tasks.next.dataset import Windows, draw_negatives, hide_seen
from ensue.tasks.next.model import Model
from ensue.tasks.next.own_unknown import Candidates, of_targets
from ensue.tasks.next.permitted import Permitted
from ensue.tasks.next.state import NextState

CELLS = 2**24
"""Scores held at once (64 MB in float32): bounds memory whatever the catalogue."""
LEAST = 1024
"""Smaller catalogues count as this large, since attention takes memory too."""


def predict(
    state: NextState,
    records: Sequence[History],
    k: int,
    *,
    evidence: bool,
    exclude: Collection[str] = (),
    allow: Collection[str] | None = None,
) -> list[Answer]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.predict`."""
    require_k(k)
    size = max(1, CELLS // max(len(state.vocabulary), LEAST) // (1 + TESTED * evidence))
    parts = (records[low : low + size] for low in range(0, len(records), size))
    score = partial(score_histories, state)
    ask = partial(answers, repeats=state.repeat_shares, permitted=Permitted.of(exclude, allow, state.vocabulary))
    return [answer for part in parts for answer in ask(part, state.vocabulary, score, k, evidence=evidence)]


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
    inside = data.ids < len(state.vocabulary)
    known = data if inside.all() else data.keep(inside)
    own = of_targets(data, state.repeat_shares) if known is not data and state.repeat_shares else None
    events = np.flatnonzero(inside)
    windows = Windows(known, module.reach, context=context)
    parts, places = [np.empty(0)], [np.empty(0, np.int64)]
    for index in windows.groups(max(1, CELLS // max(len(state.vocabulary), LEAST))):
        output, targets = scores(state, windows, index, module)
        positions = windows.positions(index)
        shown = hide_seen(output.scores, known, positions) if hide else output.scores
        if sampled:
            negatives = draw_negatives(targets, positions, len(state.vocabulary), sampled)
            found = metrics.sampled_ranks(shown, targets, negatives)
        else:
            found = metrics.ranks(shown, targets)
            if own is not None:
                found = found + _ahead(own, events[positions + 1], shown, targets)
        parts.append(found.double().numpy())
        places.append(events[positions + 1])
    if own is not None:
        unknown, ranked = _unknown_ranks(state, data, known, own, module, sampled)
        parts.append(ranked)
        places.append(unknown)
    place = np.concatenate(places)
    return np.concatenate(parts), data.sequence_index()[place], place


def _ahead(own: Candidates, events: Index, shown: Tensor, targets: Tensor) -> Tensor:
    """(targets,) how many values that only the history knows stand above each target."""
    ahead = torch.zeros(len(targets), dtype=torch.int64)
    rows = torch.from_numpy(np.flatnonzero(np.isin(events, own.target)))
    if len(rows):
        some = shown[rows]
        ahead[rows] = own.ahead(events[rows.numpy()], log_totals(some), some.gather(1, targets[rows, None])[:, 0])
    return ahead


def _unknown_ranks(
    state: NextState, data: Histories, known: Histories, own: Candidates, module: Model, sampled: int
) -> tuple[Index, Floats]:
    """Where in the data the targets stand that only their history knows, and their ranks."""
    right = np.flatnonzero(data.ids[own.target] == own.value)
    targets, odds = own.target[right], torch.from_numpy(own.odds[right])
    history = data.sequence_index()[targets]
    before = np.cumsum(data.ids < len(state.vocabulary))
    stops = before[targets]  # of the known events before: the target is none
    starts = known.offsets[history]
    if module.reach is not None:
        starts = np.maximum(starts, stops - module.reach - 1)
    size, parts = max(1, CELLS // max(len(state.vocabulary), LEAST)), [np.empty(0)]
    for low in range(0, len(targets), size):
        part = slice(low, low + size)
        chosen = ranges(starts[part], (stops - starts)[part])
        times = known.times[chosen] if known.timed else known.times
        offsets = offsets_of((stops - starts)[part])
        past = Histories(known.ids[chosen], offsets, known.vocabulary, times)
        scored = score_histories(state, past, past, module)
        own_score = (scored.totals.double() + odds[part]).float()
        column = torch.full((len(own_score),), scored.scores.shape[1])
        shown = torch.cat([scored.scores, own_score[:, None]], dim=1)
        if sampled:
            negatives = draw_negatives(column, targets[part], len(state.vocabulary), sampled)
            parts.append(metrics.sampled_ranks(shown, column, negatives).double().numpy())
        else:
            others = own.ahead(targets[part], scored.totals, scored.totals.double() + odds[part]) - 1
            parts.append((metrics.ranks(shown, column) + others).double().numpy())
    return targets, np.concatenate(parts)


def score_histories(
    state: NextState, histories: Histories, seen: Histories, module: Model | None = None
) -> ScoredBatch:
    """A :data:`ensue.tasks.next.attributions.ScoreFunction`; a history without events gets plain popularity.

    With ``module`` a counting model speaks in place of the model.
    """
    filled = np.flatnonzero(histories.lengths)
    rows, lengths = np.full(len(histories), -1), np.zeros(len(histories), np.int64)
    windows = Windows(histories.select(filled), (state.network if module is None else module).reach, last_only=True)
    rows[filled], lengths[filled] = np.arange(len(filled)), windows.stops - windows.starts
    every = np.arange(len(filled))
    table, weights = scores(state, windows, every, module)[0] if len(filled) else Output(torch.empty(0), ())
    if len(filled) < len(histories):
        some, popular = table, state.counting["popularity"].shares().log()
        table = popular.repeat(len(histories), 1)
        if len(filled):
            table[filled] = some
    if not state.metadata.repeats:
        full = np.flatnonzero(seen.lengths)
        table[full] = hide_seen(table[full], seen, seen.offsets[1:][full] - 1)
    return ScoredBatch(table, log_totals(table), weights, rows.tolist(), lengths.tolist())
