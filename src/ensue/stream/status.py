"""What a stream is told, and what it tells."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ensue.errors import SettingError
from ensue.lines import plural
from ensue.stream.blocks import Behind
from ensue.stream.board import Board, Hour
from ensue.stream.rejects import Rejects


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """How a stream is read and learned."""

    gap: float = 30.0
    """Minutes of pause that end a session."""
    replay: float = 0.2
    """Share of remembered sessions in what is learned; 0 learns the new ones alone."""
    step: int = 64
    """Sessions an optimiser step: fewer follow the stream more closely and cost more time."""
    every: float = 30.0
    """Seconds between two commits."""
    batch: int = 512
    """Lines that are read at once, at most; the metrics do not depend on it."""
    wait: float = 0.2
    """Seconds to wait for a batch to fill."""
    score: float = 1.0
    """Share of the sessions whose events are scored; 0 scores none. All are learned."""
    journal: int = 2**28
    """Bytes of weights and moments from which a commit writes what changed, not the folder."""

    def __post_init__(self) -> None:
        if not self.gap > 0 or not self.every >= 0 or min(self.batch, self.step) < 1 or not 0 <= self.replay < 1:
            raise SettingError("gap must be above 0, every 0 or more, batch and step at least 1, replay in [0, 1)")
        if not 0 <= self.score <= 1:
            raise SettingError(f"score is {self.score:g}; it must be in [0, 1]: 0 for off, 1 for every session")


@dataclass
class Counts:
    """What a stream has seen since it began, over all restarts."""

    lines: int = 0
    events: int = 0
    learned: int = 0
    targets: int = 0
    late: int = 0
    repeated: int = 0
    rejected: int = 0
    sessions: int = 0
    new_values: int = 0


@dataclass(frozen=True)
class Status:
    """Where a stream stands after a commit.

    Attributes:
        counts: since it began.
        closed: hours that are over and were not told before.
        board: all hours.
        num_open: open sessions.
        rate: events a second of this run, waiting for the source left out.
        behind: what is left of the source.
        rejects: rejected lines, with the first of this run.
        lag: seconds between the latest event and now, where the source was read to its end; else ``None``.
        over: whether this is the last one.
    """

    counts: Counts
    closed: list[Hour]
    board: Board
    num_open: int
    rate: float
    behind: Behind
    rejects: Rejects
    lag: float | None
    over: bool = False

    @property
    def sentence(self) -> str:
        """One line for people."""
        counts, lag = self.counts, "" if self.lag is None else f", {max(0.0, self.lag):,.0f} s after the latest event"
        return (
            f"{plural(counts.events, 'event')} at {self.rate:,.0f}/s, {counts.targets:,} predicted, "
            f"{counts.late:,} late, "
            f"{counts.repeated:,} repeated, {counts.rejected:,} rejected; {plural(self.num_open, 'open session')}; "
            f"{self.behind.amount:,.0f} {self.behind.unit} to read{lag}"
        )

    def to_dict(self) -> dict[str, object]:
        """The object that ends ``stream --json``."""
        return {
            **asdict(self.counts),
            "open_sessions": self.num_open,
            "events_a_second": self.rate,
            "behind": self.behind._asdict(),
            "rejects": {
                "file": self.rejects.path.name if self.counts.rejected else None,
                "first": [line._asdict() for line in self.rejects.first],
            },
            "lag": self.lag,
            "figures": self.board.total().figures(),
            "hours": [row.to_dict() for row in self.board.rows()],
        }
