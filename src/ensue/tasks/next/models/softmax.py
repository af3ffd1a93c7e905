"""Over which ids a model with an output layer learns its softmax: all of them, or a few that are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

from ensue.settings import Settings, Size, variant_of

LARGE = 50_000
"""Above so many values the softmax goes over a few drawn ones, unless the loss was set by hand."""
AUTO, SAMPLED = "auto", "sampled"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SoftmaxSettings(Settings):
    """What models with an output layer over all users have in common."""

    loss: Annotated[str, variant_of(AUTO, "ce", SAMPLED)] = AUTO
    """ce (all users), sampled (shared negatives), or auto: sampled where there are more than 50,000 users."""
    negatives: Size = 2048
    """Users drawn a batch for ``sampled``."""

    @property
    def drawn(self) -> int | None:
        """How many users are drawn a batch; ``None`` where the loss goes over all."""
        return self.negatives if self.loss == SAMPLED else None


def fitted_loss(settings: T, num_values: int) -> T:
    """The settings for so many values: where the loss is left to them it is sampled above ``LARGE``."""
    if isinstance(settings, SoftmaxSettings) and settings.loss == AUTO and num_values > LARGE:
        return replace(settings, loss=SAMPLED)
    return settings
