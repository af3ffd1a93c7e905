"""Logs of events in, sequences of ids out."""

from ensue.data.sequences.reading import read

__all__ = ["read"]
