"""Learning from a stream: predict, score, learn; position and weights are committed together."""

from ensue.stream.sources import SQLiteQueue, partition_of

__all__ = ["SQLiteQueue", "partition_of"]
