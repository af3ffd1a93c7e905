"""What the states of all tasks have alike, as functions."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from ensue.errors import SettingError

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
