"""Over which ids a model with an output layer learns its softmax: all of them, or a few that are drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ensue.tasks.next.settings import AUTO, SAMPLED, SoftmaxSettings

LARGE = 50_000
"""Above so many values the softmax goes over a few drawn ones, unless the loss was set by hand."""

T = TypeVar("T")


def fitted_loss(settings: T, num_values: int) -> T:
    """The settings for so many values: where the loss is left to them it is sampled above ``LARGE``."""
    if isinstance(settings, SoftmaxSettings) and settings.loss == AUTO and num_values > LARGE:
        return replace(settings, loss=SAMPLED)
    return settings
