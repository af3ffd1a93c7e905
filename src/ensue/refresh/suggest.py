"""An update of task ``suggest`` is tested on a query above the privacy floor and the one that followed it most.

Both as the old model counts them; the figure is MRR@10.
"""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.metrics import Floats
from ensue.records import History
from ensue.refresh.trial import Ask, Slice, Trial, slices_of
from ensue.tasks.suggest.predictor import SuggestPredictor

NUM = 200
"""Queries asked, at most."""


def learn(old: SuggestPredictor, candidate: SuggestPredictor, data: Queries, ask: Ask) -> Trial:
    """Let a candidate learn, then ask it and the old one what follows known queries."""
    loss = float(candidate.update(data).loss)
    return Trial(slices(old, candidate) if ask.tested else (), loss=loss)


def slices(old: SuggestPredictor, new: SuggestPredictor) -> tuple[Slice, ...]:
    """What both predictors come to on what the old one remembers."""
    return slices_of("mrr@10", {"remembered": _following(old, new)})


def _following(old: SuggestPredictor, new: SuggestPredictor) -> tuple[Floats, Floats]:
    """(queries,) of both models, one over the rank of what followed each query most."""
    counted = old.following
    asked = np.flatnonzero(np.diff(counted.rows))
    if len(asked) > NUM:
        shares = counted.totals[asked] / counted.totals[asked].sum()
        asked = np.sort(np.random.default_rng(old.seed).choice(asked, NUM, replace=False, p=shares))
    queries = counted.queries.gather(asked).to_list()
    followers = counted.queries.gather(counted.followers[counted.rows[asked]]).to_list()
    found = []
    for predictor in (old, new):
        said = predictor.suggest(Histories.of([History((query,)) for query in queries]), 10)
        lists = [[text for text, _ in said.of(at)] for at in range(len(queries))]
        places = [own.index(true) if true in own else np.inf for own, true in zip(lists, followers, strict=True)]
        found.append(1 / (1 + np.array(places)))
    return found[0], found[1]
