"""Scores and answers of a model."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ensue.answers import Answer
from ensue.data.histories import Histories, Index, ranges
from ensue.nn.item_head import Output, Product
from ensue.nn.topk import log_totals
from ensue.records import History
from ensue.settings import require_k
from ensue.tasks.next.attributions import TESTED, Lists, Scored, ScoredBatch, ScoreFunction, answers
from ensue.tasks.next.dataset import Windows, hide_seen
from ensue.tasks.next.item_index import ItemIndex
from ensue.tasks.next.metadata import Exclusion
from ensue.tasks.next.model import Model, Multiplies
from ensue.tasks.next.nearest import nearest
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
    exclude_seen: bool | None = None,
    rank_unknown: bool = False,
) -> list[Answer]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.predict`."""
    lists = state.lists.of_each([(exclude, allow)] * len(records), state.vocabulary)
    return predict_each(
        state, records, lists, k, evidence=evidence, exclude_seen=exclude_seen, rank_unknown=rank_unknown
    )


def predict_each(
    state: NextState,
    records: Sequence[History],
    lists: Sequence[Permitted | None],
    k: int,
    *,
    evidence: bool,
    exclude_seen: bool | None = None,
    rank_unknown: bool = False,
) -> list[Answer]:
    """As :func:`predict`, each record by a list of its own."""
    require_k(k)
    exclusion = state.exclusion(exclude_seen)
    scored = len(state.vocabulary) if state.index is None else SOME * state.index.facts.candidates
    size = max(1, CELLS // max(scored, LEAST) // (1 + TESTED * evidence))
    score: ScoreFunction = partial(score_histories, state, exclusion)
    if state.index is not None:
        score = partial(score_nearest, state, exclusion, state.index, k)
    repeats = state.repeat_shares(exclusion) if rank_unknown else None
    found: list[Answer] = []
    for low in range(0, len(records), size):
        chunk, chunk_lists = records[low : low + size], lists[low : low + size]
        found += answers(chunk, state.vocabulary, score, k, repeats, chunk_lists, evidence=evidence)
    titles = state.known_items.titles if state.known_items is not None else {}
    return [_with_titles(answer, titles) for answer in found] if titles else found


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
    state: NextState,
    exclusion: Exclusion,
    histories: Histories,
    lists: Lists | None = None,
    module: Model | None = None,
) -> ScoredBatch:
    """Score the whole catalogue after each history, plain popularity after one without events.

    With a state and an exclusion it is a :data:`ensue.tasks.next.attributions.ScoreFunction`.

    Args:
        state: of the predictor.
        exclusion: which items of a history are at -inf.
        histories: in its vocabulary.
        lists: not looked at, for all is scored anyway.
        module: a baseline in place of the model.
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
    if exclusion is not Exclusion.NONE and len(filled):
        table[filled] = hide_seen(table[filled], histories, histories.offsets[1:][filled] - 1, exclusion)
    totals = log_totals(table)
    return ScoredBatch(totals=totals, weights=weights, rows=rows.tolist(), lengths=lengths.tolist(), scores=table)


def score_nearest(
    state: NextState, exclusion: Exclusion, index: ItemIndex, k: int, histories: Histories, lists: Lists | None
) -> Scored:
    """As :func:`score_histories`, by an index: the largest scores for ``k`` choices, and others when they are asked."""
    filled = np.flatnonzero(histories.lengths)
    if not len(filled):
        return score_histories(state, exclusion, histories)
    rows, lengths = torch.full((len(histories),), -1), np.zeros(len(histories), np.int64)
    windows = Windows(histories.select(filled), state.network.reach, last_only=True)
    rows[filled], lengths[filled] = torch.arange(len(filled)), windows.stops - windows.starts
    hidden = excluded_ids(histories, exclusion)
    product = multiplied(state, windows, np.arange(len(filled)))
    sides = Sides(product=product, rows=rows, counts=state.counting["popularity"].totals, seen=hidden)
    brief = [lists is None or bool(one and one.few is not None) for one in lists or [None] * len(lengths)]
    wanted = torch.tensor(brief) if any(brief) else None
    share = min([1.0, *(one.share for one in lists or () if one and one.few is None)])
    asked = max(k, min(math.ceil(k / share), MOST)) + hidden.shape[1]  # what is hidden may be what is found first
    return nearest(index, sides, asked, product.weights, lengths.tolist(), wanted)


def multiplied(state: NextState, windows: Windows, index: Index) -> Product:
    """What the scores of some windows are products of; of a model that is one."""
    network = cast(Multiplies, state.network)  # to ask a protocol at every answer takes a tenth of its time
    evaluating(state.network)
    with torch.no_grad():
        return network.product(windows.batch(index))


def excluded_ids(histories: Histories, exclusion: Exclusion) -> Tensor:
    """Return (histories, ids) what is no answer to each history, with padding at the end."""
    if exclusion is Exclusion.NONE:
        return torch.zeros(len(histories), 0, dtype=torch.int64)
    if exclusion is Exclusion.LAST:
        filled = histories.lengths > 0
        last_ids = np.zeros((len(histories), 1), np.int64)
        last_ids[filled, 0] = histories.ids[histories.offsets[1:][filled] - 1]
        return torch.from_numpy(last_ids)
    seen_ids = np.zeros((len(histories), int(histories.lengths.max(initial=0))), np.int64)
    seen_ids[histories.sequence_index(), ranges(np.zeros_like(histories.lengths), histories.lengths)] = histories.ids
    return torch.from_numpy(seen_ids)
