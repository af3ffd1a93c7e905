"""Scores and answers of a model."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from ensue.answers import Answer, Explanation
from ensue.data.histories import Histories, Index
from ensue.lazy import lazy, torch
from ensue.learning.state import evaluating, is_network
from ensue.records import History
from ensue.settings import require_k
from ensue.tasks.next.attributions import TESTED, Filters, HistoryScores, ScoreFunction, answers, encode_records
from ensue.tasks.next.baselines.counting import logarithm
from ensue.tasks.next.batch import PaddedBatch, ScoredBatch
from ensue.tasks.next.dataset import Windows, hide_seen, latest_windows, seen_ids
from ensue.tasks.next.item_filter import ALL_ITEMS, MAX_SCORED, Rules, permitted_items, rows_by_filter, top_items
from ensue.tasks.next.model import Baseline, Network, NextModel, Ranks
from ensue.tasks.next.reranking import MIN_POOL, POOL
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import Exclusion
from ensue.topk import Scores, log_totals
from ensue.vocabulary import FIRST

if TYPE_CHECKING:
    from ensue.tasks.next import nearest
    from ensue.tasks.next.item_index import ItemIndex
else:
    nearest = lazy("ensue.tasks.next.nearest")

CELLS = 2**21
"""Scores held at once (8 MB in float32): bounds memory whatever the catalogue. The allocator returns larger blocks to
the system after every batch, and to map them again takes longer than to score."""
NUMBERS_PER_CANDIDATE = 256
"""Numbers in memory per candidate of an index: its vector, and intermediate results."""
MAX_RANKED = 256
"""Histories at once, at most, where the best items are found without a block of all scores."""
MAX_BEST = 256
"""Largest number of best items that are found so."""
MIN_SCORED = 1024
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
    with _collector_paused():
        return predict_each(
            state, records, filters, k, evidence=evidence, exclude_seen=exclude_seen, rank_unknown=rank_unknown
        )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector, for which a batch of answers is thousands of objects and none of them garbage.

    It would look through them several times, and through all objects of the process every few batches.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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
    is_reranked = any(item_filter is not None and item_filter.reranker is not None for item_filter in filters)
    # Without re-ranking the best k are the answer; with it they are chosen from a larger pool.
    pool = pool or (max(POOL * k, MIN_POOL) if is_reranked else k)
    score: ScoreFunction = partial(score_histories, state, exclusion, pool)
    if state.index is not None and pool <= MAX_SCORED:
        # Short lists of permitted items are scored in full, whatever the index returns.
        few_ids = [item_filter.few_ids for item_filter in {*filters} if item_filter is not None]
        list_lengths = [len(ids) for ids in few_ids if ids is not None]
        scored = max(NUMBERS_PER_CANDIDATE * state.index.facts.candidates, *list_lengths, 0)
        score = partial(_score_nearest, state, exclusion, state.index, pool)
    elif getattr(state.network, "ranks", False) and pool <= MAX_BEST and not state.metadata.forgotten:
        score = partial(_score_best, state, exclusion, pool)
        scored = scored if evidence else CELLS // MAX_RANKED
    # Evidence scores each record again without its TESTED most attended events.
    size = max(1, CELLS // max(scored, MIN_SCORED) // (1 + TESTED * evidence))
    repeats = state.repeat_shares(exclusion) if rank_unknown else None
    titles = state.known_items.titles if state.known_items is not None else {}
    results: list[Answer] = []
    for low in range(0, len(records), size):
        chunk = records[low : low + size]
        chunk_filters = filters[low : low + size]
        results += answers(chunk, state.vocabulary, score, k, repeats, chunk_filters, titles, evidence=evidence)
    # Rules such as two items per brand may leave too few of the candidates, though more items are permitted.
    short = [
        row
        for row, each in enumerate(filters)
        if each is not None and each.reranker and len(results[row].choices) < k and pool < each.num_permitted
    ]
    if short:
        retried = predict_each(
            state, [records[row] for row in short], [filters[row] for row in short], k,
            evidence=evidence, exclude_seen=exclude_seen, rank_unknown=rank_unknown, pool=8 * pool,
        )  # fmt: skip
        for row, answer in zip(short, retried, strict=True):
            results[row] = answer
    return results


def explain(state: NextState, records: Sequence[History], k: int) -> list[Explanation]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.explain`."""
    answers = predict(state, records, k, evidence=True)
    return [_explanation(state, record, answer) for record, answer in zip(records, answers, strict=True)]


def _explanation(state: NextState, record: History, answer: Answer) -> Explanation:
    """Return the weights inside one record, over the latest known events that can matter."""
    histories = encode_records([record], state.vocabulary).histories
    scored = score_histories(state, state.metadata.exclusion, 0, histories, None)
    influence = scored.influence(0)
    inside = histories.record(0)
    size = len(influence)
    return Explanation(
        inside.values[len(inside.values) - size :],
        inside.times[max(0, len(inside.times) - size) :],
        tuple(map(tuple, scored.dependency(0).tolist())),
        tuple(influence.tolist()),
        answer,
    )


def scores(
    state: NextState, windows: Windows, index: Index, module: NextModel | None = None
) -> tuple[ScoredBatch, Index]:
    """Return scores (targets, ids) for some windows, with the weights behind them, and the targets.

    Args:
        state: of the predictor, whose method ``scores`` this is.
        windows: of histories in the vocabulary.
        index: which windows.
        module: one of ``counting`` in place of the model.
    """
    model = state.network if module is None else module
    batch = windows.batch(index)
    scored = _network_scores(state, model, batch) if is_network(model) else cast(Baseline, model)(batch)
    # Padding, unknown and removed items are no answers.
    scored.scores[:, [*range(FIRST), *(state.metadata.forgotten or ())]] = -np.inf
    return scored, batch.targets


def _network_scores(state: NextState, network: object, batch: PaddedBatch) -> ScoredBatch:
    """Return the scores of a network as arrays, which share the memory of its tensors on the CPU."""
    device = state.device if network is state.model and state.schedule is not None else "cpu"
    with torch.no_grad():
        output = evaluating(cast(Network, network))(batch.to(device))
    scores = output.scores.float().cpu().numpy()
    weights = tuple(weight.cpu().numpy() for weight in output.weights)
    if (scores[:, :FIRST] == -np.inf).all():
        return ScoredBatch(scores, weights)
    # A model of anybody may score padding and unknown, and share the memory of its rows.
    scores = scores.copy()
    scores[:, :FIRST] = -np.inf
    return ScoredBatch(scores, weights)


def score_histories(
    state: NextState, exclusion: Exclusion, k: int, histories: Histories, filters: Filters | None
) -> HistoryScores:
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
    best_ids, best_scores = top_items(table, k, filters) if filters is not None else top_items(table, 0, ())
    return HistoryScores(
        totals=log_totals(table), best_ids=best_ids, best_scores=best_scores,
        score_items=lambda ids: np.take_along_axis(table, ids, 1), weights=weights, rows=rows, lengths=lengths,
        num_ids=len(state.vocabulary),
    )  # fmt: skip


def _score_nearest(
    state: NextState, exclusion: Exclusion, index: ItemIndex, k: int, histories: Histories, filters: Filters | None
) -> HistoryScores:
    """Score candidates of an index; the whole catalogue where no history has an event to look up."""
    score = partial(nearest.score_candidates, index=index) if histories.lengths.any() else score_histories
    return score(state, exclusion, k, histories, filters)


def _score_best(
    state: NextState, exclusion: Exclusion, k: int, histories: Histories, filters: Filters | None
) -> HistoryScores:
    """Score the best items alone after histories with events; the whole catalogue where other scores are asked for."""
    filled, windows, rows, lengths = latest_windows(histories, state.network.reach)
    if filters is None or not len(filled):
        return score_histories(state, exclusion, k, histories, filters)
    hidden = np.sort(seen_ids(histories, histories.offsets[1:][filled] - 1, exclusion), axis=1)
    permitted = permitted_items(hidden, [filters[row] for row in filled.tolist()])
    with torch.no_grad():
        batch = windows.batch(np.arange(len(filled))).to("cpu")
        ranking = cast(Ranks, evaluating(state.module)).best(batch, permitted, k)
    if ranking is None:
        return score_histories(state, exclusion, k, histories, filters)
    best, weights = ranking
    if len(filled) < len(histories):
        # Histories without events get plain popularity; the others keep their own best items.
        popularity = logarithm(state.counting["popularity"].shares())[None]
        ids = np.empty((len(histories), k), np.int64)
        scores = np.empty((len(histories), k), np.float32)
        totals = np.repeat(log_totals(popularity), len(histories))
        for same, item_filter in rows_by_filter(filters):
            ids[same], scores[same] = top_items(popularity, k, [item_filter])
        scores[filled], ids[filled], totals[filled] = best
        best = best._replace(scores=scores, ids=ids, totals=totals)
    return HistoryScores(
        totals=best.totals, best_ids=best.ids, best_scores=best.scores,
        score_items=lambda ids: np.take_along_axis(catalogue_scores(state, exclusion, histories)[0], ids, 1),
        weights=tuple(weight.numpy() for weight in weights), rows=rows, lengths=lengths, num_ids=len(state.vocabulary),
    )  # fmt: skip


def catalogue_scores(
    state: NextState, exclusion: Exclusion, histories: Histories, module: NextModel | None = None
) -> tuple[Scores, tuple[Scores, ...], list[int], list[int]]:
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
    filled, windows, rows, lengths = latest_windows(histories, (module or state.network).reach)
    num_ids = len(state.vocabulary)
    scored = ScoredBatch(np.empty((0, num_ids), np.float32))
    if len(filled):
        scored, _ = scores(state, windows, np.arange(len(filled)), module)
    table = hide_seen(scored.scores, histories, histories.offsets[1:][filled] - 1, exclusion)
    if len(filled) < len(histories):
        filled_table = table
        # Histories without events get the logarithm of popularity; the others keep their rows.
        table = np.repeat(logarithm(state.counting["popularity"].shares())[None], len(histories), axis=0)
        table[filled] = filled_table
    return table, scored.weights, rows, lengths
