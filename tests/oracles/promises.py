"""What every network of task ``next`` keeps, whatever its equations are."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ensue.tasks.next.batch import Batch
from ensue.vocabulary import FIRST
from tests.tasks.next.batches import HOUR, NUM_IDS, everywhere, pad, ragged


class Loss(nn.Module):
    """``model.loss`` as a forward pass."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Any) -> Any:
        return self.model.loss(batch)


def with_junk(batch: Batch) -> Batch:
    """The same events, with others in the padding."""
    return batch._replace(ids=batch.ids.masked_fill(~batch.mask, 7), times=batch.times.masked_fill(~batch.mask, 1e9))


def hides_padding(model: Any) -> None:
    """Each sequence scores in a padded batch as alone, and what stands in the padding does not matter."""
    sequences = ragged(3)
    batch = everywhere(pad(sequences, extra=4))
    together = model(batch)
    assert torch.isfinite(together.scores[:, FIRST:]).all() and (together.scores[:, :FIRST] == -torch.inf).all()
    alone = [model(everywhere(pad([sequence]))) for sequence in sequences]
    torch.testing.assert_close(together.scores, torch.cat([output.scores for output in alone]), rtol=0, atol=1e-12)
    for row, output in enumerate(alone):
        size = len(sequences[row][0])
        for mine, other in zip(together.weights, output.weights, strict=True):
            torch.testing.assert_close(mine[row, :size, :size], other[0], rtol=0, atol=1e-12)
            assert (mine[row, :, size:] == 0).all()
    torch.testing.assert_close(model(with_junk(batch)).scores, together.scores, rtol=0, atol=1e-12)


def knows_no_future(model: Any) -> None:
    """Later events and times change no earlier score, and the step itself changes."""
    ((ids, times),) = ragged(4, [9])
    before = model(everywhere(pad([(ids, times)]))).scores
    for step in range(1, 9):
        changed = ids[:step] + [FIRST + (id - FIRST + 1) % (NUM_IDS - FIRST) for id in ids[step:]]
        later = times[:step] + [time + 1000 * HOUR for time in times[step:]]
        after = model(everywhere(pad([(changed, later)]))).scores
        torch.testing.assert_close(after[:step], before[:step], rtol=0, atol=1e-12)
        assert not torch.allclose(after[step], before[step]), "the step itself must change"
