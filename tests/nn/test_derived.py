"""Values cached from parameters notice the steps of every optimizer."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

from ensue import History
from ensue.data.histories import Histories
from ensue.nn.autograd import DerivedCache
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.models.core import CORE
from ensue.tasks.next.settings import CORESettings
from ensue.training.optimizer import RowAdam

OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], Optimizer]] = {
    "ours": lambda parameters: RowAdam(parameters, lr=0.1, fused=True),
    "Adam": lambda parameters: Adam(parameters, lr=0.1),
    "fused Adam": lambda parameters: Adam(parameters, lr=0.1, fused=True),
    "fused AdamW": lambda parameters: AdamW(parameters, lr=0.1, fused=True),
    "fused SGD": lambda parameters: SGD(parameters, lr=0.1, fused=True),
    "fused Adagrad": lambda parameters: Adagrad(parameters, lr=0.1, fused=True),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_step_in_evaluation_mode_is_noticed(make: Callable[[list[nn.Parameter]], Optimizer]) -> None:
    parameter = nn.Parameter(torch.ones(3))
    cache = DerivedCache(lambda: 2 * parameter.detach())
    before = cache.get([parameter])
    assert cache.get([parameter]) is before
    optimizer = make([parameter])
    parameter.sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert torch.equal(cache.get([parameter]), 2 * parameter.detach()) and not torch.equal(parameter, torch.ones(3))


@pytest.mark.parametrize("loss", ["ce", "sampled"])
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_network_tuned_in_evaluation_mode_scores_by_its_new_weights(
    make: Callable[[list[nn.Parameter]], Optimizer], loss: str
) -> None:
    torch.manual_seed(0)
    histories = Histories.of([History(tuple("abcdef"[start:] + "abcdef"[:start])) for start in range(6)] * 8)
    network = CORE(CORESettings(dim=8, loss=loss), len(histories.vocabulary))
    for module in network.modules():
        if isinstance(module, nn.Embedding):
            module.sparse = loss == "sampled" and make is OPTIMIZERS["ours"]
    one, many = (Windows(histories, network.reach).batch(np.arange(num)).to("cpu") for num in (1, 48))
    network.eval()
    optimizer = make(list(network.parameters()))
    for _ in range(2):
        with torch.no_grad():
            before = [network(batch).scores for batch in (one, many)]
        network.loss(many).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            after = [network(batch).scores for batch in (one, many)]
            fresh = deepcopy(network)
            for new, old, batch in zip(after, before, (one, many), strict=True):
                torch.testing.assert_close(new, fresh(batch).scores)
                assert not torch.allclose(new[:, 2:], old[:, 2:], atol=1e-3)
