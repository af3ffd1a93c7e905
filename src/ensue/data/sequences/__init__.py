"""Logs of events in, sequences of ids out."""

from ensue.data.sequences.dataset import SequencesReport
from ensue.data.sequences.reading import read

__all__ = ["SequencesReport", "read"]
