"""What the states of all tasks have alike, as functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Protocol, TypeVar

from torch import nn

from ensue.errors import SettingError
from ensue.schedule import Schedule

Learned = TypeVar("Learned")


def require_trained(learned: Learned | None) -> Learned:
    """What was learned.

    Raises:
        SettingError: nothing was trained or loaded yet.
    """
    if learned is None:
        raise SettingError("this predictor is not trained yet: loop over fit(data), or load a folder")
    return learned


def module_of(model: object) -> nn.Module:
    """A model that keeps a task's protocol, as torch types it."""
    assert isinstance(model, nn.Module)
    return model


class State(Protocol):
    """What every state holds."""

    task: str
    model_name: str
    """A name in ``MODELS``."""
    schedule: Schedule | None
    """How the network is trained; ``None`` where nothing is."""
    seed: int
    """The same seed, data and machine give the same bytes on the CPU."""


def shown(state: State, learned: object | None) -> str:
    """One line: the model, its seed, and whether anything was learned.

    Args:
        state: of a task.
        learned: what was trained or counted.
    """
    trained = "" if learned is not None else ", not trained yet"
    return f"{type(state).__name__}({state.model_name!r}, seed={state.seed}{trained})"


def summary_of(state: State, settings: Mapping[str, object], facts: Mapping[str, object]) -> dict[str, object]:
    """What was learned from what, and how: goes into ``settings.json`` and the card.

    Args:
        state: of a task.
        settings: all that can be set of the model, but for its schedule.
        facts: what was learned, as JSON has it.
    """
    return {
        "task": state.task,
        "model": state.model_name,
        "settings": settings,
        "schedule": asdict(state.schedule) if state.schedule else None,
        "seed": state.seed,
        "facts": facts,
    }
