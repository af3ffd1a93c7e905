"""Loss and memory of a training on a large catalogue, and the messages about them before its first step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from torch import nn

from ensue.errors import SettingError
from ensue.learning.state import module_of
from ensue.nn.sampling import MANY
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.infer import CELLS
from ensue.tasks.next.settings import AUTO, SAMPLED, SoftmaxSettings
from ensue.tasks.next.state import NextState
from ensue.training.memory import free_bytes, gigabytes, ranks_here, training_bytes
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST

LARGE = 50_000
"""Above so many values the softmax goes over a few drawn ones, unless the loss was set by hand."""

T = TypeVar("T")


def fitted_loss(settings: T, num_values: int) -> T:
    """The settings for so many values: where the loss is left to them it is sampled above ``LARGE``."""
    if isinstance(settings, SoftmaxSettings) and settings.loss == AUTO and num_values > LARGE:
        return replace(settings, loss=SAMPLED)
    return settings


SHARE = 0.25
"""A training that needs more than this of the memory there is says how much, and what to lower."""
COPIES = 4
"""Blocks of ``CELLS`` scores that a check holds at once: scores, their order, and what is ruled out of them."""


def choose_losses(state: NextState) -> None:
    """Of every model that may be chosen, the loss for this catalogue, where none was set by hand."""
    num_values = len(state.vocabulary) - FIRST
    state.candidates = {
        name: (fitted_loss(settings, num_values), schedule) for name, (settings, schedule) in state.stated.items()
    }
    if state.model_name in state.candidates:
        state.select_model(state.model_name)


def lines(state: NextState) -> Iterator[str]:
    """What is to be said of a training on this catalogue; nothing of a small one.

    Raises:
        SettingError: it cannot fit into memory.
    """
    num_values = len(state.vocabulary) - FIRST
    settings, name = state.settings, state.model_name
    if isinstance(settings, SoftmaxSettings) and settings != state.stated[name][0]:
        yield (
            f"{num_values:,} values: {name} learns a softmax over {settings.negatives:,} drawn ones a batch "
            "(--set loss=ce: over all)"
        )
    free = free_bytes(state.device) if num_values > LARGE else None
    if free is None:
        return
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
    """``--set dim=128``, as the settings stand."""
    names = [name for name in ("dim", "table_dim") if getattr(settings, name, None)]
    return " ".join(f"--set {name}={getattr(settings, name)}" for name in names) or "--set"


def memory_needed(state: NextState) -> int:
    """Bytes that a training takes beyond what is held already: weights, gradients, moments, a table to rank by."""
    schedule, num_ids = state.schedule, len(state.vocabulary)
    assert schedule is not None

    def make_network(num: int) -> nn.Module:
        network = module_of(MODELS[state.model_name].make(state.settings, num))
        if num_ids <= MANY:
            make_optimizer(network, schedule)  # turns gradients of rows off where L2 pulls at every row
        return network

    return training_bytes(make_network, num_ids, least=FIRST + 1) + COPIES * 4 * CELLS
