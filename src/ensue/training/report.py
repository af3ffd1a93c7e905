"""Where a training stands, for who watches it."""

from __future__ import annotations

from dataclasses import dataclass, field


class StopRequest:
    """A request to end a training after the current epoch, made by calling it."""

    def __init__(self) -> None:
        self.is_made = False

    def __call__(self) -> None:
        """Make the request."""
        self.is_made = True


@dataclass(frozen=True, slots=True)
class Report:
    """Where training stands. Losses are means in nats; ``valid``, the monitored metric, is set after an epoch's check.

    ``monitor`` names that metric: ``loss``, ``accuracy`` or ``mrr``; it is empty where nothing is held out.
    """

    stage: str
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    seconds: float
    valid: float | None = None
    best: float | None = None
    stopped: bool = False
    monitor: str = "loss"
    improving: bool = False
    """Whether the last epoch there was came out best, so that more of them may come out better still."""
    best_epoch: int = 0
    """The epoch whose weights are the best so far."""
    parameters: int = 0
    """Number of parameters of the network."""
    device: str = ""
    """Where it is trained, such as ``cpu`` or ``cuda:0``."""
    note: str = ""
    """A line to be said; a report that has one tells nothing else."""
    stop: StopRequest = field(default_factory=StopRequest, repr=False, compare=False)
    """Call it to end the training after this epoch; the best epoch is kept as usual."""
