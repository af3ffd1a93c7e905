"""A handful of held-out records, and what truly came, which the page offers to ask about.

They are stored verbatim under ``examples`` among the facts of ``settings.json``, where a predictor is told to keep them
(:attr:`~ensue.learning.state.State.keeps_examples`); the card says so. No name and no id of a record is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import numpy as np

from ensue.learning.state import AnyState
from ensue.records import History

MOST = 6
"""Records."""
EVENTS = 20
"""Of a history, its latest."""
CHARACTERS = 600
"""Of a text; longer ones are passed over."""
TRIED = 200
"""Held-out records that are looked at, spread over all of them."""

Example = dict[str, object]


def keep(state: AnyState, num: int, example: Callable[[int], Example | None], *, learned: bool) -> None:
    """Keep some of the held-out records, if the predictor is to.

    Args:
        state: what was trained.
        num: held-out records.
        example: one of them by its number, as :func:`of_history` and :func:`of_texts` write it, if it may be kept.
        learned: whether they were learned in the end, when they had served to judge.
    """
    if not state.keeps_examples or not num:
        return
    tried = np.unique(np.linspace(0, num - 1, min(num, TRIED)).astype(np.int64)).tolist()
    step = max(1, len(tried) // MOST)
    order = (tried[at] for start in range(step) for at in range(start, len(tried), step))
    found = [*islice((one for one in map(example, order) if one is not None), MOST)]
    if found:
        state.metadata.examples = {"learned": learned, "held_out": found}


def of_history(record: History) -> Example | None:
    """The latest events before the last one, which is what truly came; ``None`` where nothing stands before it."""
    if len(record.values) < 2:
        return None
    before = slice(max(0, len(record.values) - 1 - EVENTS), -1)
    asked: Example = {"values": [*record.values[before]]}
    if record.times:
        asked["times"] = [*record.times[before]]
    return {"record": asked, "truth": [record.values[-1]]}


def of_texts(asked: Example, texts: Sequence[str], truth: Iterable[str]) -> Example | None:
    """A record of texts; ``None`` where they are too long, or say nothing."""
    if not any(text.strip() for text in texts) or sum(map(len, texts)) > CHARACTERS:
        return None
    return {"record": asked, "truth": [*truth]}
