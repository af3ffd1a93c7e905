"""Logs of events in, sequences of ids out."""

from ensue.data.sequences.dataset import SequencesReport, read

__all__ = ["SequencesReport", "read"]
