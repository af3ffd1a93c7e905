"""Shortlists of candidate users for catalogues that are too large to score in full."""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Index, Mask
from ensue.metrics import Floats
from ensue.tasks.next.batch import Scores
from ensue.text.sparse import SparseRows
from ensue.topk import topk
from ensue.vocabulary import FIRST

LONGEST = 500
"""Users at most that each of the network and the memories puts on a target's list."""
FREQUENT = 200
"""The users who took part most often are on every list."""


def shortlists(network: Scores, memories: tuple[SparseRows, ...], totals: Floats) -> tuple[Index, Mask]:
    """Return the users on any target's list, and a mask of each list; a list does not depend on the other targets.

    Args:
        network: (targets, ids) scores.
        memories: (targets, ids) scores of each memory, sparse.
        totals: (ids,) how often each took part.

    Returns:
        (users,) ids, rising, and (targets, users) True where a user is on a target's list.
    """
    # argpartition finds the highest ones without sorting the rest; their order does not matter.
    frequent = np.argpartition(totals, -min(FREQUENT, len(totals)))[-FREQUENT:]
    best = topk(network, LONGEST)[1]
    lists = [
        np.concatenate([frequent, target_users, *(_highest(memory, target) for memory in memories)])
        for target, target_users in enumerate(best)
    ]
    users = np.unique(np.concatenate(lists))
    users = users[users >= FIRST]
    listed = np.zeros((len(lists), len(users)), np.bool_)
    for target, target_users in enumerate(lists):
        # users is sorted, so that searchsorted returns each listed user's column.
        listed[target, np.searchsorted(users, target_users[target_users >= FIRST])] = True
    return users, listed


def _highest(memory: SparseRows, target: int) -> Index:
    """Return the ids of the highest scores of a memory, at most ``LONGEST``."""
    row = slice(memory.indptr[target], memory.indptr[target + 1])
    ids = memory.indices[row].astype(np.int64)
    scores = memory.data[row]
    return ids if len(ids) <= LONGEST else ids[np.argpartition(scores, -LONGEST)[-LONGEST:]]
