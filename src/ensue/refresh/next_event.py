"""An update of task ``next``: what is newest, and a part of what is remembered, are held out and tested on.

The newest tenth of the new log is held out, and so is a part of the remembered histories. The old model and a
candidate, which has learned the other nine tenths among the rest of the remembered ones, are scored on both slices
(protocol ``full``; what a model does not know is a miss).
"""

from __future__ import annotations

from dataclasses import replace

from ensue.data.histories import Histories
from ensue.data.splits import dated, hold_out
from ensue.evaluation.next_event import SessionTargets
from ensue.refresh.trial import NEWEST, Ask, Columns, Slice, Trial
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.training_data import require_targets, shared_part
from ensue.tasks.next.update import passes

AT = 20
LEAST = 5
"""Fewer new histories are all learned, and tested on remembered ones alone."""
REMEMBERED = 1000
"""Remembered histories to be scored on, at most, and at most a tenth of those that are remembered."""


def learn(old: NextPredictor, candidate: NextPredictor, data: Histories, ask: Ask) -> Trial:
    """Let a candidate learn, the newest tenth after the test; a table of new items alone is not tested.

    The test ranks the whole catalogue, so an index of it is made once, of a candidate that takes over.
    """
    if data.items is not None:
        candidate.add_items(data.items)
        if not len(data):
            return Trial(learn_rest=candidate.index_items)
    data = shared_part(data, candidate.shared.min_users, "new data")
    if not ask.tested:
        ask.follow(passes(candidate, data))
        return Trial(learn_rest=candidate.index_items)
    early, newest, held = data, None, ""
    if len(data) >= LEAST:
        early, newest, held = hold_out(data, by_time=dated(data))
        require_targets(early, "all but the newest tenth of the new data")
        require_targets(newest, "the newest tenth of the new data")
    remembered, rest = candidate.reservoir.part(min(REMEMBERED, len(candidate.reservoir) // 10), ask.standing)
    ask.follow(passes(candidate, early, rest))
    parts = {NEWEST: newest, "remembered": remembered if len(remembered) else None}
    slices = tuple(_slice(name, old, candidate, part) for name, part in parts.items() if part is not None)

    def learn_rest() -> None:
        if newest is not None:
            ask.follow(replace(report, stage="update, newest tenth") for report in passes(candidate, newest))
        candidate.index_items()

    return Trial(slices, held, learn_rest=learn_rest)


def _slice(name: str, old: NextPredictor, new: NextPredictor, data: Histories) -> Slice:
    """Score both models and the baselines of the candidate."""
    baselines = {model: _columns(new, data, model) for model in new.counted_baselines}
    return Slice.of(name, _columns(old, data), _columns(new, data), baselines)


def _columns(predictor: NextPredictor, data: Histories, baseline: str | None = None) -> Columns:
    """Return MRR and hits of each target, under the protocol ``full``."""
    columns = SessionTargets([[predictor]], data, cutoffs=(AT,)).score(predictor, baseline).metrics()
    return {name: columns[name] for name in ("mrr", f"hit@{AT}")}
