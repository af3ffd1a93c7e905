"""Scores, ranks and answers of a model."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ensue import metrics
from ensue.answers import Answer
from ensue.data.histories import Histories, Index, offsets_of, ranges
from ensue.metrics import Floats
from ensue.nn.topk import log_totals
from ensue.records import History
from ensue.settings import require_k
from ensue.tasks.next.attributions import TESTED, Lists, Scored, ScoredBatch, answers
from ensue.tasks.next.batch import Output, Product
from ensue.tasks.next.dataset import Windows, draw_negatives, hide_seen
from ensue.tasks.next.item_index import ItemIndex
from ensue.tasks.next.model import Model, Multiplies
from ensue.tasks.next.nearest import nearest, rest_of
from ensue.tasks.next.own_unknown import Candidates, of_targets
from ensue.tasks.next.permitted import Permitted
from ensue.tasks.next.sides import Sides
from ensue.tasks.next.state import NextState
from ensue.tasks.state import evaluating
from ensue.vocabulary import FIRST

CELLS = 2**24
"""Scores held at once (64 MB in float32): bounds memory whatever the catalogue."""
SOME = 256
"""Numbers that a candidate of an index takes, of its vector and of what is computed from that."""
MOST = 1024
"""Twice so many candidates are looked for at most where lists rule out most of what would be found."""
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
    lists = state.lists.of_each([(exclude, allow)] * len(records), state.vocabulary)
    return predict_each(state, records, lists, k, evidence=evidence)


def predict_each(
    state: NextState, records: Sequence[History], lists: Sequence[Permitted | None], k: int, *, evidence: bool
) -> list[Answer]:
    """As :func:`predict`, each record by a list of its own."""
    require_k(k)
    scored = len(state.vocabulary) if state.index is None else SOME * state.index.facts.candidates
    size = max(1, CELLS // max(scored, LEAST) // (1 + TESTED * evidence))
    score = partial(score_histories, state) if state.index is None else partial(score_nearest, state, state.index, k)
    found: list[Answer] = []
    for low in range(0, len(records), size):
        part, theirs = records[low : low + size], lists[low : low + size]
        found += answers(part, state.vocabulary, score, k, state.repeat_shares, theirs, evidence=evidence)
    return found


def scores(state: NextState, windows: Windows, index: Index, module: Model | None) -> tuple[Output, Tensor]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.scores`."""
    chosen = evaluating(state.network if module is None else module)
    device = state.device if chosen is state.model and state.schedule is not None else torch.device("cpu")
    batch = windows.batch(index)
    with torch.no_grad():
        output = chosen(batch.to(device))
    weights = tuple(weight.cpu() for weight in output.weights)
    return Output(_without_placeholders(output.scores.float().cpu()), weights), batch.targets


def _without_placeholders(scores: Tensor) -> Tensor:
    """Scores (targets, ids) with padding and unknown at -inf; copied only where a model scores them."""
    if (scores[:, :FIRST] == -torch.inf).all():
        return scores
    return scores.index_fill(1, torch.arange(FIRST), -torch.inf)


def ranks(
    state: NextState,
    data: Histories,
    *,
    hide: bool = False,
    sampled: int = 0,
    counting: str | None = None,
    context: Index | None = None,
    approximate: bool = False,
) -> tuple[Floats, Index, Index]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.ranks`."""
    module: Model = state.counting[counting] if counting else state.network
    inside = data.ids < len(state.vocabulary)
    known = data if inside.all() else data.keep(inside)
    own = of_targets(data, state.repeat_shares) if known is not data and state.repeat_shares else None
    events = np.flatnonzero(inside)
    windows = Windows(known, module.reach, context=context)
    parts, places = [np.empty(0)], [np.empty(0, np.int64)]
    near = state.index if approximate and not (counting or sampled) else None
    scored = len(state.vocabulary) if near is None else SOME * near.facts.candidates
    for index in windows.groups(max(1, CELLS // max(scored, LEAST))):
        positions = windows.positions(index)
        if near is not None:
            found, totals, score = _ranks_nearest(state, near, windows, index, hide=hide)
            if own is not None:
                found = found + _ahead(own, events[positions + 1], totals, score)
            parts.append(found.double().numpy())
            places.append(events[positions + 1])
            continue
        output, targets = scores(state, windows, index, module)
        shown = hide_seen(output.scores, known, positions) if hide else output.scores
        if sampled:
            negatives = draw_negatives(targets, positions, len(state.vocabulary), sampled)
            found = metrics.sampled_ranks(shown, targets, negatives)
        else:
            found = metrics.ranks(shown, targets)
            if own is not None:
                found = found + _ahead_in(own, events[positions + 1], shown, targets)
        parts.append(found.double().numpy())
        places.append(events[positions + 1])
    if own is not None:
        unknown, ranked = _unknown_ranks(state, data, known, own, module, sampled)
        parts.append(ranked)
        places.append(unknown)
    place = np.concatenate(places)
    return np.concatenate(parts), data.sequence_index()[place], place


def _ranks_nearest(
    state: NextState, near: ItemIndex, windows: Windows, index: Index, *, hide: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(targets,) ranks by an index, the log totals, and the targets' scores.

    Among the candidates a rank is exact; beyond them the sample says how many others are ahead.
    """
    product, targets = multiplied(state, windows, index), windows.batch(index).targets
    positions = windows.positions(index)
    data = windows.histories
    starts = data.offsets[np.searchsorted(data.offsets, positions, side="right") - 1]
    seen = torch.zeros(len(targets), 0, dtype=torch.int64)
    if hide:
        chosen = ranges(starts, positions - starts + 1)
        seen = _padded(Histories(data.ids[chosen], offsets_of(positions - starts + 1), data.vocabulary))
    counts = state.counting["popularity"].totals
    sides = Sides(product=product, rows=torch.arange(len(targets)), counts=counts, seen=seen)
    found = nearest(near, sides, 1, product.weights, [0] * len(targets))
    score = found.score(targets[:, None])
    ahead = ((found.scores >= score) & (found.ids != targets[:, None])).sum(1).double()
    tail, each = rest_of(near, found.sides, found.ids)
    ahead += ((tail >= score) & (near.sample != targets[:, None])).sum(1) * each
    ranks = torch.where(score[:, 0] > -torch.inf, 1 + ahead.floor(), metrics.MISS)
    return ranks, found.totals, score[:, 0]


def _ahead_in(own: Candidates, events: Index, shown: Tensor, targets: Tensor) -> Tensor:
    """As :func:`_ahead`, of (targets, ids) scores."""
    rows = torch.from_numpy(np.flatnonzero(np.isin(events, own.target)))
    totals = torch.zeros(len(targets))
    totals[rows] = log_totals(shown[rows])
    return _ahead(own, events, totals, shown.gather(1, targets[:, None])[:, 0])


def _ahead(own: Candidates, events: Index, totals: Tensor, score: Tensor) -> Tensor:
    """(targets,) how many values that only the history knows stand above each target, by its score and log total."""
    ahead = torch.zeros(len(score), dtype=torch.int64)
    rows = torch.from_numpy(np.flatnonzero(np.isin(events, own.target)))
    if len(rows):
        ahead[rows] = own.ahead(events[rows.numpy()], totals[rows], score[rows])
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
        scored = score_histories(state, past, past, module=module)
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
    state: NextState, histories: Histories, seen: Histories, lists: Lists | None = None, module: Model | None = None
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
    totals = log_totals(table)
    return ScoredBatch(totals=totals, weights=weights, rows=rows.tolist(), lengths=lengths.tolist(), scores=table)


def score_nearest(
    state: NextState, index: ItemIndex, k: int, histories: Histories, seen: Histories, lists: Lists | None
) -> Scored:
    """As :func:`score_histories`, by an index: the largest scores for ``k`` choices, and others when they are asked."""
    filled = np.flatnonzero(histories.lengths)
    if not len(filled):
        return score_histories(state, histories, seen)
    rows, lengths = torch.full((len(histories),), -1), np.zeros(len(histories), np.int64)
    windows = Windows(histories.select(filled), state.network.reach, last_only=True)
    rows[filled], lengths[filled] = torch.arange(len(filled)), windows.stops - windows.starts
    hidden = torch.zeros(len(seen), 0, dtype=torch.int64) if state.metadata.repeats else _padded(seen)
    product = multiplied(state, windows, np.arange(len(filled)))
    sides = Sides(product=product, rows=rows, counts=state.counting["popularity"].totals, seen=hidden)
    brief = [lists is None or bool(one and one.few is not None) for one in lists or [None] * len(lengths)]
    wanted = torch.tensor(brief) if any(brief) else None
    share = min([1.0, *(one.share for one in lists or () if one and one.few is None)])
    asked = max(k, min(math.ceil(k / share), MOST))
    return nearest(index, sides, asked, product.weights, lengths.tolist(), wanted)


def multiplied(state: NextState, windows: Windows, index: Index) -> Product:
    """What the scores of some windows are products of; of a model that is one."""
    network = cast(Multiplies, state.network)  # to ask a protocol at every answer takes a tenth of its time
    evaluating(state.network)
    with torch.no_grad():
        return network.product(windows.batch(index))


def _padded(histories: Histories) -> Tensor:
    """(histories, events) ids, filled up with padding."""
    found = np.zeros((len(histories), int(histories.lengths.max(initial=0))), np.int64)
    found[histories.sequence_index(), ranges(np.zeros_like(histories.lengths), histories.lengths)] = histories.ids
    return torch.from_numpy(found)
