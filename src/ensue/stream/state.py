"""What a stream holds between two blocks, in one place: the engine changes it, a commit keeps it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ensue.data.histories import Histories
from ensue.stream.blocks import Position, Source
from ensue.stream.board import Board
from ensue.stream.events import Reader
from ensue.stream.partitions import PartitionSessions
from ensue.stream.ranking import WINDOWS, RecentPopularity
from ensue.stream.rejects import Rejects
from ensue.stream.sessions import Chunk
from ensue.stream.status import Counts, StreamSettings
from ensue.tasks.next.predictor import NextPredictor


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
        source: Source,
        settings: StreamSettings,
        predictor: NextPredictor,
        reader: Reader,
        *,
        rejected: int,
    ) -> None:
        self.folder, self.source, self.settings = folder, source, settings
        self.predictor, self.reader = predictor, reader
        self.sessions = PartitionSessions(settings.gap * 60)
        """Sessions that may go on, and the clock, of each partition."""
        self.board = Board()
        """Figures by hour."""
        self.counts = Counts()
        """What was seen since the stream began."""
        self.popular = [RecentPopularity(window) for window in WINDOWS]
        """Recent popularity over each window."""
        self.position: Position | None = None
        """Where to go on in the source, as JSON; ``None`` at its beginning."""
        self.reported_hour = -(2**62)
        """The latest hour that was reported."""
        self.ended = no_histories(predictor)
        """Sessions that are over and not counted yet."""
        self.rejects = Rejects(folder, rejected)
        """Lines that were rejected."""
        self.chunk = Chunk(predictor.vocabulary)
        """Events that are not scored and learned yet."""
        self.period: int | None = None
        """The period of the stream's clock that the chunk is of."""


def no_histories(predictor: NextPredictor) -> Histories:
    """None at all, in the ids of a predictor."""
    return Histories(np.empty(0, np.int32), np.zeros(1, np.int64), predictor.vocabulary)
