"""Schedule for a number of texts: epochs and batch size.

The paper's settings are for its sets: 128 texts a step are 54 steps an epoch of SST-2, but 4 of 500 texts, and thirty
epochs of those move no weight further than 120 steps of 3e-4. What decides is how far Adam can take a weight, about its
step size a step. So an epoch has about a hundred steps while that leaves batches of 16 to 128 texts; there are as many
epochs as make 1,000 steps, 60 at most and 4 at least; and a run ends once 500 of them have brought nothing better,
after three epochs at least and eight at most. The step size rises to 1e-3 and falls to 0 along a cosine, in place of
batches that halve: with a constant one, a check of the dev part of SST-2 is up to three points above or below the one
before.
"""

from __future__ import annotations

import math

STEPS, PLATEAU, EPOCH = 1000, 500, 100
LEARNED = {"dim": 100, "hidden": 100}
"""Widths where no file gives the vectors of words: a third of Table 2's, whose file does, in a ninth of the time."""


MOST, MOST_LEARNED = 60, 8
"""Epochs at most; and under ``best``, where no file gives the vectors of words. Networks of a thousand texts draw with
counting there, and an epoch takes up to 1.5 times what all counting models take (0.7 s and 1.1 s of 1,000 texts of
SST-2): eight are 12 times as much, where 20 were the most that a draw should cost."""


def schedule_for(num_texts: int, most: int = MOST) -> dict[str, object]:
    """The settings of a schedule that depend on how many texts there are, of so many epochs at most."""
    batch = min(128, max(16, 2 ** round(math.log2(max(num_texts / EPOCH, 1)))))
    steps = math.ceil(num_texts / batch)
    return {
        "batch_size": batch,
        "smallest_batch": batch,
        "epochs": min(most, max(4, math.ceil(STEPS / steps))),
        "patience": min(8, max(3, math.ceil(PLATEAU / steps))),
        "learning_rate": 1e-3,
        "decay": True,
        "decay_rate": 1.0,
    }
