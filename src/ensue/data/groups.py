"""Hold-out of whole groups, such as the reviews of a film or the posts about an article."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index


def hold_groups(labels: Index, owners: Index, quotas: Index, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return (rows,) whether each row is held out: whole groups in random order, each if its labels have room for it.

    Args:
        labels: (rows,) label of each row, from 0.
        owners: (rows,) group of each row, from 0; at least two groups.
        quotas: (labels,) rows of each label to hold out at most; the smallest group is held out where none has room.
        generator: draws the order of the groups.
    """
    members = np.split(np.argsort(owners, kind="stable"), np.cumsum(np.bincount(owners))[:-1])
    order = generator.permutation(len(members))
    held_out = np.zeros(len(labels), bool)
    num_free = quotas.copy()
    for group in order:
        counts = np.bincount(labels[members[group]], minlength=len(quotas))
        if (counts <= num_free).all():
            num_free -= counts
            held_out[members[group]] = True
    if not held_out.any():
        # No group is small enough: take the smallest that leaves every label a row, or else the smallest.
        totals = np.bincount(labels)
        emptied = [int((np.bincount(labels[rows], minlength=len(totals)) == totals).sum()) for rows in members]
        held_out[members[min(order, key=lambda group: (emptied[group], len(members[group])))]] = True
    return held_out
