"""Scores and answers of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ensue.answers import Answer, Explanation
from ensue.data.histories import Histories, Index
from ensue.learning.state import evaluating
from ensue.nn.item_head import Output
from ensue.nn.topk import log_totals
from ensue.records import History
from ensue.settings import require_k
from ensue.tasks.next.attributions import TESTED, Filters, Scored, ScoreFunction, answers, encode_records
from ensue.tasks.next.dataset import Windows, hide_seen, seen_ids
from ensue.tasks.next.item_filter import ALL_ITEMS, MAX_SCORED, ItemFilter, Rules, top_items
from ensue.tasks.next.item_index import ItemIndex
from ensue.tasks.next.model import Model
from ensue.tasks.next.nearest import ProductScores, multiplied, nearest, widened
from ensue.tasks.next.reranking import MIN_POOL, POOL
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import Exclusion
from ensue.vocabulary import FIRST

CELLS = 2**21
"""Scores held at once (8 MB in float32): bounds memory whatever the catalogue. The allocator returns larger blocks to
the system after every batch, and to map them again takes longer than to score."""
SOME = 256
"""Numbers that a candidate of an index takes, of its vector and of what is computed from that."""
LEAST = 1024
"""Smaller catalogues count as this large, since attention takes memory too."""


def predict(
    state: NextState,
    records: Sequence[History],
    k: int,
    *,
    evidence: bool,
    rules: Rules = ALL_ITEMS,
    exclude_seen: bool | None = None,
    rank_unknown: bool = False,
) -> list[Answer]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.predict`."""
    filters = state.filters_of([rules] * len(records))
    return predict_each(
        state, records, filters, k, evidence=evidence, exclude_seen=exclude_seen, rank_unknown=rank_unknown
    )


def predict_each(
    state: NextState,
    records: Sequence[History],
    filters: Filters,
    k: int,
    *,
    evidence: bool,
    exclude_seen: bool | None = None,
    rank_unknown: bool = False,
    pool: int = 0,
) -> list[Answer]:
    """Answer each record by its filter; see :func:`predict`.

    ``pool`` is the number of candidates that are re-ranked where rules say so. [default: by ``k``]
    """
    require_k(k)
    exclusion = state.exclusion(exclude_seen)
    scored = len(state.vocabulary)
    is_reranked = any(one is not None and one.reranker is not None for one in filters)
    pool = pool or (max(POOL * k, MIN_POOL) if is_reranked else k)
    score: ScoreFunction = partial(score_histories, state, exclusion, pool)
    if state.index is not None and pool <= MAX_SCORED:
        few = [len(one.few_ids) for one in {*filters} if one is not None and one.few_ids is not None]
        scored = max(SOME * state.index.facts.candidates, *few, 0)
        score = partial(score_nearest, state, exclusion, state.index, pool)
    size = max(1, CELLS // max(scored, LEAST) // (1 + TESTED * evidence))
    repeats = state.repeat_shares(exclusion) if rank_unknown else None
    found: list[Answer] = []
    for low in range(0, len(records), size):
        chunk, chunk_filters = records[low : low + size], filters[low : low + size]
        found += answers(chunk, state.vocabulary, score, k, repeats, chunk_filters, evidence=evidence)
    # Rules such as two items per brand may leave too few of the candidates, though more items are permitted.
    short = [row for row, one in enumerate(filters) if one is not None and _is_short(one, found[row], k, pool)]
    if short:
        again = predict_each(
            state, [records[row] for row in short], [filters[row] for row in short], k,
            evidence=evidence, exclude_seen=exclude_seen, rank_unknown=rank_unknown, pool=8 * pool,
        )  # fmt: skip
        for row, answer in zip(short, again, strict=True):
            found[row] = answer
    titles = state.known_items.titles if state.known_items is not None else {}
    return [_with_titles(answer, titles) for answer in found] if titles else found


def _is_short(item_filter: ItemFilter, answer: Answer, k: int, pool: int) -> bool:
    """Return whether a re-ranked answer has fewer than ``k`` items, and some were no candidates."""
    is_reranked = item_filter.reranker is not None
    return is_reranked and len(answer.choices) < k and pool < item_filter.num_permitted


def explain(state: NextState, records: Sequence[History], k: int) -> list[Explanation]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.explain`."""
    answers = predict(state, records, k, evidence=True)
    return [_explanation(state, record, answer) for record, answer in zip(records, answers, strict=True)]


def _explanation(state: NextState, record: History, answer: Answer) -> Explanation:
    """Return the weights inside one record, over the latest known events that can matter."""
    histories = encode_records([record], state.vocabulary).histories
    scored = score_histories(state, state.metadata.exclusion, 0, histories, None)
    influence, inside = scored.influence(0), histories.record(0)
    size = len(influence)
    return Explanation(
        inside.values[len(inside.values) - size :],
        inside.times[max(0, len(inside.times) - size) :],
        tuple(map(tuple, scored.dependency(0).tolist())),
        tuple(influence.tolist()),
        answer,
    )


def _with_titles(answer: Answer, titles: Mapping[str, str]) -> Answer:
    """Return an answer whose choices have the titles of their items."""
    choices = tuple(replace(choice, title=titles.get(choice.value, "")) for choice in answer.choices)
    return replace(answer, choices=choices)


def scores(state: NextState, windows: Windows, index: Index, module: Model | None) -> tuple[Output, Tensor]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.scores`."""
    chosen = evaluating(state.network if module is None else module)
    device = state.device if chosen is state.model and state.schedule is not None else torch.device("cpu")
    batch = windows.batch(index)
    with torch.no_grad():
        output = chosen(batch.to(device))
    weights = tuple(weight.cpu() for weight in output.weights)
    shown = _without_placeholders(output.scores.float().cpu())
    if state.metadata.forgotten:
        shown = shown.index_fill(1, torch.tensor(state.metadata.forgotten), -torch.inf)
    return Output(shown, weights), batch.targets


def _without_placeholders(scores: Tensor) -> Tensor:
    """Scores (targets, ids) with padding and unknown at -inf; copied only where a model scores them."""
    if (scores[:, :FIRST] == -torch.inf).all():
        return scores
    return scores.index_fill(1, torch.arange(FIRST), -torch.inf)


def score_histories(
    state: NextState, exclusion: Exclusion, k: int, histories: Histories, filters: Filters | None
) -> Scored:
    """Score the whole catalogue after each history.

    With a state, an exclusion and ``k`` it is a :data:`ensue.tasks.next.attributions.ScoreFunction`.

    Args:
        state: of the predictor.
        exclusion: which items of a history are at -inf.
        k: choices.
        histories: in its vocabulary.
        filters: of each history; ``None`` where no choices are asked for.
    """
    table, weights, rows, lengths = catalogue_scores(state, exclusion, histories)
    best_ids, best_scores = torch.zeros(len(table), 0, dtype=torch.int64), table[:, :0]
    if filters is not None:
        best_ids, best_scores = top_items(table, k, filters)
    return Scored(
        totals=log_totals(table), best_ids=best_ids, best_scores=best_scores,
        score_items=lambda ids: table.gather(1, ids), weights=weights, rows=rows, lengths=lengths,
        num_ids=len(state.vocabulary),
    )  # fmt: skip


def catalogue_scores(
    state: NextState, exclusion: Exclusion, histories: Histories, module: Model | None = None
) -> tuple[Tensor, tuple[Tensor, ...], list[int], list[int]]:
    """Return the scores of all ids after each history, (histories, ids): plain popularity after one without events.

    Args:
        state: of the predictor.
        exclusion: which items of a history are at -inf.
        histories: in its vocabulary.
        module: a baseline in place of the model.

    Returns:
        The scores, the weights behind them, each history's row in those (-1 without events), and how many of its
        latest events have weights.
    """
    filled, windows, rows, lengths = _latest_windows(histories, (module or state.network).reach)
    every = np.arange(len(filled))
    table, weights = scores(state, windows, every, module)[0] if len(filled) else Output(torch.empty(0), ())
    if len(filled):
        table = hide_seen(table, histories, histories.offsets[1:][filled] - 1, exclusion)
    if len(filled) < len(histories):
        filled_table, popular = table, state.counting["popularity"].shares().log()
        table = popular.repeat(len(histories), 1)
        if len(filled):
            table[filled] = filled_table
    return table, weights, rows, lengths


def _latest_windows(histories: Histories, reach: int | None) -> tuple[Index, Windows, list[int], list[int]]:
    """Return which histories hold events, their windows, and of each history its window (or -1) and its length."""
    filled = np.flatnonzero(histories.lengths)
    rows, lengths = np.full(len(histories), -1), np.zeros(len(histories), np.int64)
    windows = Windows(histories.select(filled), reach, last_only=True)
    rows[filled], lengths[filled] = np.arange(len(filled)), windows.stops - windows.starts
    return filled, windows, rows.tolist(), lengths.tolist()


def score_nearest(
    state: NextState, exclusion: Exclusion, index: ItemIndex, k: int, histories: Histories, filters: Filters | None
) -> Scored:
    """Score candidates of an index after each history; see :func:`score_histories`."""
    filled, windows, rows, lengths = _latest_windows(histories, state.network.reach)
    if not len(filled):
        return score_histories(state, exclusion, k, histories, filters)
    seen_after_events = seen_ids(histories, histories.offsets[1:][filled] - 1, exclusion)
    seen = torch.zeros(len(histories), seen_after_events.shape[1], dtype=torch.int64)
    seen[filled] = seen_after_events
    product = multiplied(state, windows, np.arange(len(filled)))
    product_scores = ProductScores(
        product=product, rows=torch.tensor(rows), counts=state.counting["popularity"].totals, seen=seen
    )
    totals_only = all(one is not None and one.few_ids is not None for one in filters or ())
    num = widened(k, filters or ()) + seen.shape[1]  # what is hidden may be what is found first
    found = nearest(index, product_scores, num, totals_only=totals_only)
    best_ids, best_scores = found.best(k, filters) if filters is not None else (found.ids[:, :0], found.scores[:, :0])
    return Scored(
        totals=found.totals, best_ids=best_ids, best_scores=best_scores, score_items=found.product_scores.score,
        weights=product.weights, rows=rows, lengths=lengths, num_ids=len(state.vocabulary),
    )  # fmt: skip
