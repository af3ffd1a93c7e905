"""Forgetting: remove the histories of a person, and values that identify a person, from a predictor.

Folders contain no names, so a history is recognised by its fingerprint; its counts are then subtracted. A value, such
as a user of cascades, is removed from every history and table; its id stays empty, because ids are stable. Weights of
networks cannot be corrected.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from ensue.data.histories import Histories, Ids, keys_of, offsets_of, ranges
from ensue.data.shared_runs import MAX_RUN, user_names
from ensue.learning.life import Forgotten, clear_rows, remove_examples
from ensue.tasks.next.item_filter import FilterCache
from ensue.tasks.next.model import Forgets, Remembers
from ensue.tasks.next.reservoir import latest_events
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import fingerprints
from ensue.vocabulary import FIRST

COUNTS = "baselines.safetensors"
MODEL = "model.safetensors"
SETTINGS = "settings.json"


def forget(state: NextState, data: Histories, values: Collection[str] = ()) -> Forgotten:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.forget`."""
    forgotten = Forgotten()
    mine = {record.values for record in data.records()}
    names = set(values)
    remove_examples(
        state,
        forgotten,
        lambda example: (
            not names.intersection(example) and not any(example == history[-len(example) :] for history in mine)
        ),
    )
    encoded = data.encode(state.vocabulary, drop_unknown=True)
    encoded = encoded.select(encoded.lengths > 0)
    _forget_histories(state, encoded, forgotten)
    value_ids = state.vocabulary.ids(values)
    _forget_values(state, value_ids[value_ids >= FIRST], forgotten)
    if forgotten.removed:
        state.learned()
        if state.schedule is not None:
            forgotten.remains.append("weights of the network, trained on all histories: fit again without them")
        forgotten.remains.append(
            "sums that hold no value of a history (how often values come again, how lately, numbers chosen on held-out "
            "data): fit again without them"
        )
        if state.shared.min_users > 1:
            forgotten.remains.append(
                f"runs that {state.shared.min_users} people share, this one among them, in counts and fingerprints"
            )
    return forgotten


def forget_users(state: NextState, records: Histories | None, users: Collection[str], folder: Path) -> Forgotten:
    """Remove users: their histories in the records, and the values with their names."""
    mine = Histories.of([]) if records is None else records_of(records, users)
    return forget(state, mine, [user for user in users if user in state.vocabulary])


def records_of(records: Histories, users: Collection[str]) -> Histories:
    """Return the histories of some users, and of sessions cut from what they did."""
    if not len(records.names):
        return records.select(slice(0))
    names = [*users]
    return records.select((user_names(records).is_in(names) | records.names.is_in(names)).to_numpy())


def _forget_histories(state: NextState, data: Histories, forgotten: Forgotten) -> None:
    """Remove whole histories: those remembered, their fingerprints, and what was counted of those that were learned."""
    prints = fingerprints(data).view(np.int64)
    trained = state.training_hashes
    is_trained = np.isin(prints, trained) & (state.shared.min_users == 1)
    # Stored histories are truncated to their latest events, so the same is done here before comparing.
    mine = {*keys_of(latest_events(data) if state.shared.min_users == 1 else _runs_of(data))}
    stays = np.array([key not in mine for key in keys_of(state.reservoir.histories)], np.bool_)
    forgotten.add(COUNTS, "remembered histories", int((~stays).sum()))
    state.reservoir.keep(stays)
    if not is_trained.any():
        return
    trained_data = data.select(is_trained)
    remaining = trained[~np.isin(trained, prints)]
    forgotten.add(COUNTS, "fingerprints of histories", len(trained) - len(remaining))
    state.training_hashes = remaining
    totals_before = state.counting["popularity"].totals.copy()
    for module in _counting(state):
        module.forget(trained_data)
    forgotten.add(COUNTS, "histories subtracted from counts", len(trained_data))
    state.length_delay.forget(trained_data)
    if isinstance(state.network, Remembers):
        forgotten.add(COUNTS, "histories that the model looks up or counts", len(trained_data))
    state.metadata.sequences -= len(trained_data)
    state.metadata.events -= len(trained_data.ids)
    # An item whose count fell to 0 belonged to the removed histories alone.
    alone = (state.counting["popularity"].totals <= 0) & (totals_before > 0)
    _forget_values(state, np.flatnonzero(alone).astype(np.int32), forgotten)


def _runs_of(data: Histories) -> Histories:
    """Return every run of events of timed histories; of others none, for runs without times are of several people."""
    if not data.timed:
        return data.select(slice(0))
    lengths = data.lengths
    first = ranges(data.offsets[:-1], lengths)
    # From each event on, the number of events to the end of its history, at most MAX_RUN.
    run_lengths = np.minimum(data.offsets[1:][data.sequence_index()] - first, MAX_RUN)
    starts = np.repeat(first, run_lengths)
    # Every start is repeated for each length of run from 1 up.
    sizes = 1 + ranges(np.zeros_like(run_lengths), run_lengths)
    events = ranges(starts, sizes)
    return Histories(data.ids[events], offsets_of(sizes), data.vocabulary, data.times[events])


def _forget_values(state: NextState, ids: Ids, forgotten: Forgotten) -> None:
    """Take values out of every history and table; their ids stay without a value."""
    former = state.metadata.forgotten or []
    gone = np.setdiff1d(ids, np.array(former, np.int32))
    if not len(gone):
        return
    num_before = len(state.reservoir.ids)
    state.reservoir.keep_events(~np.isin(state.reservoir.ids, gone))
    forgotten.add(COUNTS, "events of remembered histories", num_before - len(state.reservoir.ids))
    for module in _counting(state):
        module.forget_ids(gone)
    if state.schedule is not None:
        forgotten.add(MODEL, "rows of values that nobody else has", clear_rows(state, gone, len(state.vocabulary)))
    state.vocabulary = state.vocabulary.without(gone.tolist())
    state.filters = FilterCache()
    state.reservoir.vocabulary = state.vocabulary
    forgotten.add(COUNTS, "values", len(gone))
    state.metadata.forgotten = sorted({*former, *gone.tolist()})


def _counting(state: NextState) -> list[Forgets]:
    """Return everything that counted: the baselines, and the memory of an ensemble."""
    counts: list[object] = [*state.counting.values()]
    if isinstance(state.network, Remembers):
        counts.append(state.network.memory)
    return [each for each in counts if isinstance(each, Forgets)]
