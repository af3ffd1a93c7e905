"""The rank of each fresh event before it is learned, by a model and by recent popularity, over all known values.

Ties count against the target. A value that was not known before the batch came is a miss for everyone. Where a model
knows nothing of the context it answers with plain popularity, as it does everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Histories, Ids, Index, Times, ranges
from ensue.metrics import MISS, Floats
from ensue.stream.sessions import targets
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST, UNKNOWN, Vocabulary

WINDOWS = (900, 3600, 21600)
"""Seconds of recent popularity; it is counted over each, since which is best differs from stream to stream."""
MOST = 1_000_000
"""Latest events a window holds at most."""


def model_ranks(predictor: NextPredictor, histories: Histories, context: Index, table: Ids) -> Floats:
    """(targets,) ranks of the fresh events that follow something, in order.

    Args:
        predictor: whose answers.
        histories: sessions in the ids of the stream.
        context: (sessions,) how many leading events are old.
        table: (ids,) the predictor's id of each of the stream's ids, ``UNKNOWN`` where it has none.
    """
    # A session x a b with b fresh, of which the model does not know x: it is asked about a b, where b stands at 1, and
    # the rank goes back to place 2. ``passed`` is 0 0 1 2: how many events before each place the model knows.
    places = targets(histories, context)
    own = table[histories.ids]
    kept = own != UNKNOWN
    passed = np.concatenate([[0], np.cumsum(kept)])
    starts, stops = histories.offsets[:-1], histories.offsets[1:]
    times = histories.times[kept] if histories.timed and predictor.metadata.timed else np.empty(0)
    inside = Histories(own[kept], passed[histories.offsets], predictor.vocabulary, times)
    held = passed[np.minimum(starts + context, stops)] - passed[starts]
    hide = not predictor.metadata.repeats
    inside_ranks, _, inside_places = predictor.ranks(inside, hide=hide, context=held, approximate=True)

    ranks = np.full(len(own), MISS)
    ranks[np.flatnonzero(kept)[inside_places]] = inside_ranks
    owner = histories.sequence_index()[places]
    # of x | a the model knows the target and nothing before it: plain popularity answers
    blind = places[kept[places] & (passed[places] == passed[starts[owner]])]
    if len(blind):
        totals = predictor.counting["popularity"].totals.numpy()
        ranks[blind] = _count_ranks(totals, own[blind])
    return np.asarray(ranks[places])


class LiveModel:
    """The model that learns; it knows the values from before the batch."""

    def __init__(self, predictor: NextPredictor) -> None:
        self.predictor = predictor

    def ranks(self, histories: Histories, context: Index, num_ids: int) -> Floats:
        """See :func:`model_ranks`; ``num_ids`` is how many ids there were before the batch."""
        return model_ranks(self.predictor, histories, context, _with_unknown(np.arange(num_ids), histories))


class FixedModel:
    """A model that stays as it is, and sees newer values as unknown.

    Args:
        predictor: the model.
        vocabulary: the stream's, whose ids it is asked in.
    """

    def __init__(self, predictor: NextPredictor, vocabulary: Vocabulary) -> None:
        self.predictor = predictor
        self._table = np.concatenate([np.arange(FIRST), predictor.vocabulary.ids(vocabulary.values)]).astype(np.int32)

    def ranks(self, histories: Histories, context: Index, num_ids: int) -> Floats:
        """See :func:`model_ranks`."""
        self._table = _with_unknown(self._table, histories)
        return model_ranks(self.predictor, histories, context, self._table)


class RecentPopularity:
    """How often each value came in the last seconds of the stream's clock.

    Args:
        window: seconds.
    """

    def __init__(self, window: float) -> None:
        self.window = window
        self._ids, self._times = np.empty(0, np.int32), np.empty(0)

    @property
    def name(self) -> str:
        """For tables."""
        return f"popular {self.window / 60:g} min" if self.window < 3600 else f"popular {self.window / 3600:g} h"

    def see(self, ids: Ids, times: Times, clock: float) -> None:
        """Count a batch, and forget what is older than the window."""
        ids, times = np.concatenate([self._ids, ids])[-MOST:], np.concatenate([self._times, times])[-MOST:]
        held = times >= clock - self.window
        self._ids, self._times = ids[held], times[held]

    def ranks(self, histories: Histories, context: Index, num_ids: int, *, hide: bool) -> Floats:
        """(targets,) ranks; with ``hide``, where data never repeats, what a session holds is ruled out."""
        counts = np.bincount(self._ids, minlength=num_ids)
        places = targets(histories, context)
        ids = histories.ids[places]
        old = ids < num_ids
        ranks = np.full(len(places), MISS)
        ranks[old] = _count_ranks(counts, ids[old])
        if hide and len(places):
            # Of a b | c with the target c: row 0 holds a and b, which are ruled out. Each that counts as much as c or
            # more stood above it, so c moves up by one for each; if c itself was held, it is a miss.
            starts = histories.offsets[:-1][histories.sequence_index()[places]]
            rows = np.repeat(np.arange(len(places)), places - starts)
            seen = np.unique(np.stack([rows, histories.ids[ranges(starts, places - starts)]]), axis=1)
            rows, seen = seen[:, (seen[1] < num_ids) & old[seen[0]]]
            same = seen == ids[rows]
            above = ~same & (counts[seen] >= counts[ids[rows]])
            ranks -= np.bincount(rows[above], minlength=len(places))
            ranks[rows[same]] = MISS
        return ranks

    def tensors(self) -> dict[str, Tensor]:
        """The window."""
        return {"ids": torch.from_numpy(self._ids), "times": torch.from_numpy(self._times)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`tensors` gave."""
        self._ids, self._times = tensors["ids"].numpy(), tensors["times"].numpy()


def _count_ranks(counts: np.ndarray, ids: Ids) -> Floats:
    """Ranks of some ids by a table of counts: of counts 5 3 3 0 the ranks are 1 3 3 4, ties against the target."""
    order = np.sort(counts[FIRST:])
    return (len(order) - np.searchsorted(order, counts[ids], side="left")).astype(np.float64)


def _with_unknown(table: np.ndarray, histories: Histories) -> Ids:
    """The table, long enough for the ids of some histories: new ids are ``UNKNOWN`` in it."""
    missing = max(0, int(histories.ids.max(initial=0)) + 1 - len(table))
    return np.concatenate([table, np.full(missing, UNKNOWN)]).astype(np.int32)
