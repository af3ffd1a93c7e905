"""An update of task ``suggest`` is tested on a query above the k-anonymity threshold and the one that followed it most.

Both as the old model counts them; the figure is MRR@10.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.evaluation.suggest import SHOWN
from ensue.records import History
from ensue.refresh.trial import Ask, Columns, Slice, Trial
from ensue.tasks.suggest.predictor import SuggestPredictor

NUM = 200
"""Queries asked, at most."""


def learn(old: SuggestPredictor, candidate: SuggestPredictor, data: Queries, ask: Ask) -> Trial:
    """Let a candidate learn, then ask it and the old one what follows known queries."""
    loss = float(candidate.update(data).loss)
    return Trial(slices(old, candidate) if ask.tested else (), loss=loss)


def slices(old: SuggestPredictor, new: SuggestPredictor) -> tuple[Slice, ...]:
    """Return both predictors on queries and the query that followed each most often, as the old model counts."""
    counts = old.following
    rows = np.flatnonzero(np.diff(counts.rows))
    if not len(rows):
        return ()
    if len(rows) > NUM:
        probabilities = counts.totals[rows] / counts.totals[rows].sum()
        rows = np.sort(np.random.default_rng(old.seed).choice(rows, NUM, replace=False, p=probabilities))
    queries = Histories.of([History((query,)) for query in counts.queries.gather(rows).to_list()])
    followers = counts.queries.gather(counts.followers[counts.rows[rows]])
    return (Slice.of("remembered", _columns(old, queries, followers), _columns(new, queries, followers)),)


def _columns(predictor: SuggestPredictor, queries: Histories, followers: pl.Series) -> Columns:
    """Return the reciprocal rank of what followed each query."""
    lists = predictor.suggest(queries, SHOWN)
    rank = metrics.text_ranks(lists.texts, lists.offsets, followers)
    return {f"mrr@{SHOWN}": metrics.reciprocal_rank(rank, SHOWN)}
