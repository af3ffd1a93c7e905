"""Optimizer of networks with word embeddings."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from ensue.schedule import Schedule
from ensue.training.optimizer import RowAdam

SLOW = 0.1
"""Factor on the learning rate of slow parameters."""


def new_optimizer(network: nn.Module, schedule: Schedule, slow: Iterable[nn.Parameter] = ()) -> RowAdam:
    """Adam with L2 on everything but the vectors of words, whose rows move when a batch touches them.

    Args:
        network: with a ``table`` of words.
        schedule: its rates.
        slow: parameters whose steps are a tenth as large.
    """
    table, late = network.get_parameter("table.weight"), set(slow)
    rest = [parameter for parameter in network.parameters() if parameter is not table and parameter not in late]
    groups = [{"params": rest, "weight_decay": schedule.weight_decay}, {"params": [table], "weight_decay": 0.0}]
    if late:
        own = [parameter for parameter in network.parameters() if parameter in late]
        groups.append({"params": own, "weight_decay": schedule.weight_decay, "pace": SLOW})
    return RowAdam(groups, lr=schedule.learning_rate, fused=True)
