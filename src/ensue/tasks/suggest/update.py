"""Updates of a trained suggester: filter and counts are extended, new sessions are trained on in one pass."""

from __future__ import annotations

import numpy as np
import polars as pl
import torch

from ensue.data.queries import Queries, require_pairs
from ensue.errors import DataError
from ensue.learning.life import NO_TRAINING, train_update
from ensue.learning.state import require_trained
from ensue.tasks.suggest.baselines.counting import added
from ensue.tasks.suggest.baselines.crowd import Crowd
from ensue.tasks.suggest.baselines.retrieval import Retrieval
from ensue.tasks.suggest.dataset import prints
from ensue.tasks.suggest.privacy import Floor, bounded, people_of, shared_steps
from ensue.tasks.suggest.state import SuggestState
from ensue.tasks.suggest.train import note_cuts
from ensue.training.report import Report


def update(state: SuggestState, data: Queries) -> Report:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.update`."""
    require_trained(state.model)
    require_pairs(data, "new data")
    data = bounded(data, state.shared.min_users)
    new = Floor.of(data, state.shared.min_users)
    if (state.floor.counted, new.counted) == ("users", "sessions"):
        raise DataError(
            "new data: the log has no users, which the k-anonymity threshold of this model counts, so sessions of "
            "one person could count as many; name the user's column with --columns user=…"
        )
    state.floor = floor = _joined(state.floor, new)
    histories = data.histories
    values = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
    crowd = Crowd(people_of(data), state.shared.min_users) if state.shared.min_users > 1 else None
    counts, former = Retrieval.fit(histories, floor.kept(values), floor.words, crowd), state.retrieval
    assert former is not None
    state.retrieval = former.with_(counts, added(former.following, counts.following))
    state.rules = None
    steps = shared_steps(data, floor)
    state.train_prints = torch.from_numpy(np.union1d(state.train_prints.numpy(), prints(steps)))
    metadata = state.metadata
    metadata.updates += 1
    metadata.sessions += len(data)
    metadata.queries += len(histories.ids)
    if state.schedule is None or state.optimizer is None:
        state.model = state.retrieval
        return NO_TRAINING
    windows = state.windows(steps)
    if not len(windows):
        return NO_TRAINING
    note_cuts(state, windows)
    *_, report = train_update(state, windows)
    return report


def _joined(old: Floor, new: Floor) -> Floor:
    """Return the queries that pass the k-anonymity threshold in either log."""
    left_out = {reason: old.left_out.get(reason, 0) + count for reason, count in new.left_out.items()}
    together = {
        word: old.together.get(word, frozenset()) | new.together.get(word, frozenset())
        for word in sorted(old.together.keys() | new.together.keys())
    }
    return Floor(old.min_users, old.counted, old.queries | new.queries, old.words | new.words, together, left_out)
