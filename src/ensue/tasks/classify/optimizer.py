"""How networks with a table of word vectors are trained."""

from __future__ import annotations

from torch import nn

from ensue.schedule import Schedule
from ensue.training.optimizer import RowAdam


def new_optimizer(network: nn.Module, schedule: Schedule) -> RowAdam:
    """Adam with L2 on everything but the vectors of words, whose rows move when a batch touches them."""
    table = network.get_parameter("table.weight")
    rest = [parameter for parameter in network.parameters() if parameter is not table]
    groups = [{"params": rest, "weight_decay": schedule.weight_decay}, {"params": [table], "weight_decay": 0.0}]
    return RowAdam(groups, lr=schedule.learning_rate, fused=True)
