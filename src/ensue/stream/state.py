"""Settings of a stream, its state between two blocks, and its report after a commit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ensue.data.histories import Histories
from ensue.errors import SettingError
from ensue.learning.state import Count
from ensue.lines import plural
from ensue.stream.events import EventReader, Rejects
from ensue.stream.metrics import Board, Hour, StreamBaselines
from ensue.stream.sessions import Chunk, PartitionSessions
from ensue.stream.sources import Behind, Position, StreamSource
from ensue.tasks.next.predictor import NextPredictor


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """Settings of reading and training."""

    gap: float = 30.0
    """Minutes of pause that end a session."""
    replay: float = 0.2
    """Share of remembered sessions in what is learned; 0 learns the new ones alone."""
    step: int = 64
    """Sessions an optimiser step: fewer follow the stream more closely and cost more time."""
    commit_interval: float = 30.0
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
        is_positive = self.gap > 0 and self.commit_interval >= 0 and min(self.batch, self.step) >= 1
        if not is_positive or not 0 <= self.replay < 1:
            raise SettingError(
                "gap must be above 0, commit_interval 0 or more, batch and step at least 1, replay in [0, 1)"
            )
        if not 0 <= self.score <= 1:
            raise SettingError(f"score is {self.score:g}; it must be in [0, 1]: 0 for off, 1 for every session")


@dataclass
class StreamCounts:
    """Counts since the stream began, over all restarts."""

    lines: Count = 0
    events: Count = 0
    learned: Count = 0
    targets: Count = 0
    late: Count = 0
    repeated: Count = 0
    rejected: Count = 0
    sessions: Count = 0
    new_values: Count = 0


@dataclass(frozen=True)
class StreamStatus:
    """Report of a commit.

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

    counts: StreamCounts
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
        counts = self.counts
        lag = "" if self.lag is None else f", {max(0.0, self.lag):,.0f} s after the latest event"
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


class StreamState:
    """A stream's model, source, open sessions and figures.

    Args:
        folder: the model folder.
        source: what is read.
        settings: how.
        predictor: the model of the folder.
        reader: makes events of lines.
        rejected: bytes of the file of rejected lines that a commit holds.
    """

    def __init__(
        self,
        folder: Path,
        source: StreamSource,
        settings: StreamSettings,
        predictor: NextPredictor,
        reader: EventReader,
        *,
        rejected: int,
    ) -> None:
        self.folder = folder
        self.source = source
        self.settings = settings
        self.predictor = predictor
        self.reader = reader
        self.sessions = PartitionSessions(settings.gap * 60)
        """Sessions that may go on, and the clock, of each partition."""
        self.board = Board()
        """Figures by hour."""
        self.counts = StreamCounts()
        """Counts since the stream began."""
        self.baselines = StreamBaselines()
        """Recent popularity and latest followers."""
        self.position: Position | None = None
        """Position in the source, as JSON; ``None`` at its beginning."""
        self.reported_hour = -(2**62)
        """The latest hour that was reported."""
        self.ended = no_histories(predictor)
        """Sessions that are over and not counted yet."""
        self.rejects = Rejects(folder, rejected)
        """Lines that were rejected."""
        self.chunk = Chunk.of(predictor.vocabulary)
        """Events that are not scored and learned yet."""
        self.period: int | None = None
        """The period of the stream's clock that the chunk is of."""


def no_histories(predictor: NextPredictor) -> Histories:
    """Return no histories, in the ids of a predictor."""
    return Histories(np.empty(0, np.int32), np.zeros(1, np.int64), predictor.vocabulary)
