"""Loss and memory of a training on a large catalogue, and the messages about them before its first step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ensue.data.file_bytes import memory_at_hand
from ensue.errors import SettingError
from ensue.lazy import lazy, torch
from ensue.learning.state import module_of
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.infer import CELLS
from ensue.tasks.next.settings import AUTO, SAMPLED, SoftmaxSettings
from ensue.tasks.next.state import NextState
from ensue.vocabulary import FIRST

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ensue.training import optimizer as optimizers
else:
    optimizers = lazy("ensue.training.optimizer")

GB = 1e9


def training_bytes(make: Callable[[int], nn.Module], num_ids: int, *, least: int) -> int:
    """Return the bytes of weights, gradients and Adam's moments of a network, and of a copy of its largest table.

    The network is never made: two small ones, with an id between them, tell what an id costs. A table that is learned
    by the rows that are touched has no gradient as large as itself; the copy is what a table becomes to rank by it.

    Args:
        make: returns a network for a number of ids.
        num_ids: the size that is asked about.
        least: the smallest number of ids that a network may have.
    """
    small = make(least)
    larger = make(least + 1)
    sparse = optimizers.by_row(larger)

    def size(small_tensor: Tensor, larger_tensor: Tensor) -> int:
        # Sizes are linear in the number of ids: the difference of the two networks is the cost of one id.
        a_id = larger_tensor.numel() - small_tensor.numel()
        return (small_tensor.numel() + (num_ids - least) * a_id) * larger_tensor.element_size()

    total = sum(size(*pair) for pair in zip(small.buffers(), larger.buffers(), strict=True))
    largest = 0
    for pair in zip(small.parameters(), larger.parameters(), strict=True):
        # Weights and two moments; a dense gradient is a fourth table.
        total += size(*pair) * (3 if pair[1] in sparse else 4)
        if pair[1].numel() > pair[0].numel():
            largest = max(largest, size(*pair))
    return total + largest


def free_bytes(device: torch.device) -> int:
    """Return the free memory of the GPU, or what this process can get of the machine's, in bytes."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else memory_at_hand()


def ranks_here() -> int:
    """Return the number of processes of this training on this machine, set by ``torchrun``."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def gigabytes(size: float) -> str:
    """``3.1 GB``."""
    return f"{size / GB:.1f} GB"


LARGE = 50_000
"""Catalogues above this size are trained with sampled softmax, unless the loss was set by hand."""

T = TypeVar("T")


def fitted_loss(settings: T, num_values: int) -> T:
    """Return the settings for a catalogue size: an automatic loss becomes sampled softmax above ``LARGE``."""
    if isinstance(settings, SoftmaxSettings) and settings.loss == AUTO and num_values > LARGE:
        return replace(settings, loss=SAMPLED)
    return settings


SHARE = 0.25
"""Fraction of free memory above which a training reports its need and the settings that lower it."""
COPIES = 4
"""Blocks of ``CELLS`` scores that a check holds at once: scores, their order, and what is ruled out of them."""


def choose_losses(state: NextState) -> None:
    """Set the loss of every candidate model for this catalogue, unless it was set by hand."""
    num_values = len(state.vocabulary) - FIRST
    state.candidates = {
        name: (fitted_loss(settings, num_values), schedule) for name, (settings, schedule) in state.stated.items()
    }
    if state.model_name in state.candidates:
        state.select_model(state.model_name)


def lines(state: NextState) -> Iterator[str]:
    """Yield messages about loss and memory of a training on this catalogue; none for a small one.

    Raises:
        SettingError: it cannot fit into memory.
    """
    num_values = len(state.vocabulary) - FIRST
    settings = state.settings
    name = state.model_name
    if isinstance(settings, SoftmaxSettings) and settings != state.stated[name][0]:
        yield (
            f"{num_values:,} values: {name} learns a softmax over {settings.negatives:,} drawn ones a batch "
            "(--set loss=ce: over all)"
        )
    if num_values <= LARGE:
        return
    free = free_bytes(state.device)
    ranks = ranks_here()
    needed = ranks * memory_needed(state)
    line = (
        f"memory: {name} with {num_values:,} values needs {gigabytes(needed)}{f' in {ranks} ranks' * (ranks > 1)}, "
        f"there are {gigabytes(free)}; "
    )
    if needed > free:
        raise SettingError(f"{line}lower the width of its tables ({_widths(settings)})")
    if needed > SHARE * free:
        yield f"{line}what lowers it is the width of its tables ({_widths(settings)})"


def _widths(settings: object) -> str:
    """Return the width settings as options, such as ``--set dim=128``."""
    names = [name for name in ("dim", "table_dim") if getattr(settings, name, None)]
    return " ".join(f"--set {name}={getattr(settings, name)}" for name in names) or "--set"


def memory_needed(state: NextState) -> int:
    """Bytes that a training takes beyond what is held already: weights, gradients, moments, a table to rank by."""
    schedule = state.schedule
    num_ids = len(state.vocabulary)
    assert schedule is not None

    def make_network(num: int) -> nn.Module:
        network = module_of(MODELS[state.model_name].make(state.settings, num))
        if num_ids <= optimizers.MAX_DECAYED_ROWS:
            optimizers.make_optimizer(network, schedule)  # turns gradients of rows off where L2 pulls at every row
        return network

    return training_bytes(make_network, num_ids, least=FIRST + 1) + COPIES * 4 * CELLS
