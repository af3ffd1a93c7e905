"""How a trained suggester goes on: the floor and the counts grow, and new sessions are learned in one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import torch

from ensue.data.histories import Index
from ensue.data.queries import Queries
from ensue.errors import DataError
from ensue.tasks.suggest.counting import MostFrequentNext
from ensue.tasks.suggest.fitting import note_cuts, prints, require_pairs, source
from ensue.tasks.suggest.privacy import Floor
from ensue.tasks.suggest.retrieval import Retrieval
from ensue.training.loop import Report, train

if TYPE_CHECKING:
    from ensue.tasks.suggest.predictor import SuggestPredictor


def update(predictor: SuggestPredictor, data: Queries) -> Report:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.update`."""
    predictor.network  # noqa: B018 trained?
    require_pairs(data, "new data")
    new = Floor.of(data, predictor.shared.min_users)
    if (predictor.floor.counted, new.counted) == ("users", "sessions"):
        raise DataError(
            "new data: the log knows no users, whom the floor of this model counts, so one person's sessions could "
            "pass for many; name the user's column with --columns user=…"
        )
    predictor.floor = floor = _joined(predictor.floor, new)
    histories = data.histories
    values = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
    counted, known = Retrieval.fit(histories, floor.kept(values)), predictor.retrieval
    assert known is not None
    predictor.retrieval = known.with_(counted, added(known.following, counted.following))
    predictor.rules = None
    predictor.train_prints = torch.from_numpy(np.union1d(predictor.train_prints.numpy(), prints(histories)))
    facts, updates = predictor.facts, predictor.facts.get("updates", 0) + 1
    predictor.facts |= {
        "updates": updates,
        "sessions": facts["sessions"] + len(data),
        "queries": facts["queries"] + len(histories.ids),
    }
    if predictor.schedule is None or predictor.optimizer is None:
        predictor.model = predictor.retrieval
        return Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
    windows, seed = source(predictor, histories), predictor.seed + updates
    note_cuts(predictor, windows)
    schedule = replace(predictor.schedule, epochs=1, warm_up=None, decay=False, learning_rate=_rate(predictor))
    *_, last = train(predictor.model, windows, None, schedule, optimizer=predictor.optimizer, seed=seed, stage="update")
    return last


def _rate(predictor: SuggestPredictor) -> float:
    """The step size where training stood: a schedule that falls with the steps goes on from there."""
    schedule, optimizer = predictor.schedule, predictor.optimizer
    assert schedule is not None and optimizer is not None
    taken = max((int(own["step"]) for own in optimizer.state.values()), default=0)
    rate: float = schedule.learning_rate if schedule.warm_up is None else schedule.rate(taken, taken + 1)
    return rate


def _joined(old: Floor, new: Floor) -> Floor:
    """What reached the floor in either log."""
    left_out = {reason: old.left_out.get(reason, 0) + count for reason, count in new.left_out.items()}
    return Floor(old.min_users, old.counted, old.queries | new.queries, old.words | new.words, left_out)


def added(old: MostFrequentNext, new: MostFrequentNext) -> MostFrequentNext:
    """The counts of two logs together; ties go to what came first, the older log before the newer."""
    queries = pl.concat([old.queries, new.queries]).unique(maintain_order=True)
    numbers = pl.DataFrame({"query": queries}).with_row_index("id")
    frames, totals = [], np.zeros(len(queries), np.int64)
    for model in (old, new):
        places: Index = (
            pl.DataFrame({"query": model.queries})
            .join(numbers, on="query", how="left", maintain_order="left")["id"]
            .to_numpy()
            .astype(np.int64)
        )
        totals[places] += model.totals
        before = np.repeat(np.arange(len(model.queries)), np.diff(model.rows))
        pairs = {"before": places[before], "after": places[model.followers], "count": model.counts}
        frames.append(pl.DataFrame(pairs))
    every = pl.concat(frames).with_row_index("first")
    counted = every.group_by("before", "after").agg(pl.col("count").sum(), pl.col("first").min())
    counted = counted.sort("before", "count", "first", descending=[False, True, False])
    rows = np.searchsorted(counted["before"].to_numpy(), np.arange(len(queries) + 1)).astype(np.int64)
    followers, counts = counted["after"].to_numpy().astype(np.int32), counted["count"].to_numpy().astype(np.int64)
    return MostFrequentNext(queries.rename("query"), totals, rows, followers, counts)
