"""The time of a training step; networks take turns, so that what else the machine does meets them all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from ensue_studies.rows import Row


def timed_steps(networks: Mapping[str, tuple[nn.Module, Callable[[], Tensor]]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each step of each network.

    Args:
        networks: by name, each with its loss on the same batch.
        repeats: turns, after one that is not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in networks}
    for _ in range(repeats + 1):
        for name, (network, loss) in networks.items():
            begun = time.perf_counter()
            network.zero_grad()
            loss().backward()  # type: ignore[no-untyped-call]
            times[name].append(time.perf_counter() - begun)
    return {name: own[1:] for name, own in times.items()}


def beside(own: Sequence[float], peer: Sequence[float]) -> Row:
    """The middle of some steps in milliseconds, and the middle ratio to those of a peer in the same turns."""
    ratios = [mine / theirs for mine, theirs in zip(own, peer, strict=True)]
    return {"milliseconds": round(1e3 * statistics.median(own), 2), "ratio": round(statistics.median(ratios), 2)}
