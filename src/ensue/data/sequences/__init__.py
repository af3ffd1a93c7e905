"""Logs of events in, sequences of ids out."""

from ensue.data.sequences.dataset import Understood, read

__all__ = ["Understood", "read"]
