"""Files of a model folder that all tasks write alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Adam

from ensue.nn.device import Undrawn
from ensue.nn.validation import Bounded, assign_tensors, require_shapes
from ensue.store.tensors import TensorFile
from ensue.tasks.state import module_of
from ensue.training.optimizer import FILE, optimizer_tensors

NETWORK = "model.safetensors"
"""The file of a model folder that holds the weights of the network."""
Model = TypeVar("Model")


def network_files(network: nn.Module | None, optimizer: Adam | None) -> dict[str, TensorFile]:
    """Return the files of a model folder that hold the weights of a network and the state of its optimiser, if any."""
    if network is None:
        return {}
    files = {NETWORK: TensorFile(network.state_dict())}
    if optimizer is not None:
        files[FILE] = TensorFile(optimizer_tensors(network, optimizer))
    return files


def read_network(
    tensors: Mapping[str, Tensor],
    make: Callable[[], Model],
    untrained: Callable[[], object] | None,
    device: torch.device,
) -> Model:
    """Return a network with the weights of a folder.

    Args:
        tensors: its weights by name; they are not copied.
        make: a network on its device.
        untrained: the same where torch makes tensors, to compare shapes before any memory is taken; ``None`` of a
            class from outside, for a folder does not say what it needs to be made.
        device: where the network runs.

    Raises:
        ValueError: the weights are of another network.
    """
    with Undrawn():
        if untrained is not None:
            with Bounded(tensors):
                require_shapes(module_of(untrained()), tensors)
        network = make()
    assign_tensors(module_of(network), tensors)
    module_of(network).to(device)
    return network
