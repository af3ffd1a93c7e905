"""Labelled texts in, columns out."""

from ensue.data.texts.dataset import Leaks, Texts, hold_out_texts, leaks, read_texts

__all__ = ["Leaks", "Texts", "hold_out_texts", "leaks", "read_texts"]
