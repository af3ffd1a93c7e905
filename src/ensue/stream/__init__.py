"""Learning from a stream: predict, score, learn; position and weights are committed together."""

from ensue.stream.partitions import partition_of
from ensue.stream.queue import SQLiteQueue

__all__ = ["SQLiteQueue", "partition_of"]
