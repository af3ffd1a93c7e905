"""A history rolled forward: who comes, when, and whether anything comes at all.

When and whether are counted, from the histories a model has learned (:mod:`ensue.tasks.next.baselines.length_delay`);
who is the model's. RMTPP knows the time itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ensue.answers import Forecast, Foreseen
from ensue.data.histories import Histories
from ensue.errors import SettingError
from ensue.learning.state import evaluating
from ensue.records import History
from ensue.settings import require_integer
from ensue.tasks.next.baselines.length_delay import SHARES, StopDelayEstimate
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.infer import predict
from ensue.tasks.next.model import TimesNext
from ensue.tasks.next.state import NextState
from ensue.vocabulary import FIRST


def forecast(state: NextState, records: Sequence[History], steps: int, k: int) -> list[Forecast]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.forecast`."""
    if require_integer("steps", steps) < 1:
        raise SettingError(f"steps is {steps}; give at least 1")
    going, found = list(records), [Forecast((), id=record.id, events=len(record.values)) for record in records]
    for step in range(steps):
        answers = predict(state, going, k, evidence=False)
        goings = _goings(state, going)
        for row, (record, answer) in enumerate(zip(going, answers, strict=True)):
            if not step:
                found[row] = replace(found[row], in_vocabulary=answer.in_vocabulary)
            if not answer.choices:
                continue  # nobody is left
            timed = bool(record.times) or (not record.values and state.metadata.timed)
            after = tuple(goings.after[row].tolist()) if timed and state.metadata.timed else ()
            seen = Foreseen(answer.choices, float(goings.stop[row]), after)
            found[row] = replace(found[row], steps=(*found[row].steps, seen))
            times = (*record.times, (record.times[-1] if record.times else 0.0) + after[1]) if after else ()
            values = (*record.values, answer.choices[0].value)
            going[row] = History(values, times if len(times) == len(values) else (), record.id)
    return found


def _goings(state: NextState, records: Sequence[History]) -> StopDelayEstimate:
    """Counted, all values of a record among them; where the model is RMTPP, its own density says when."""
    whole = [record if record.times else History(record.values, (0.0,) * len(record.values)) for record in records]
    goings = state.length_delay.estimate(Histories.of(whole))
    network = state.network
    if not isinstance(network, TimesNext):
        return goings
    known = Histories.of(whole, state.vocabulary)
    known = known.keep(known.ids >= FIRST)
    filled = np.flatnonzero(known.lengths)
    if len(filled):
        batch = Windows(known.select(filled), state.network.reach, last_only=True).batch(np.arange(len(filled)))
        batch = batch.to(state.device)
        evaluating(state.network)
        with torch.no_grad():
            states = network.states(batch)[batch.target_mask]
            after = torch.stack([network.next_time(states, share) for share in SHARES], dim=1)
        goings.after[filled] = after.cpu().numpy()
    return goings
