"""Labelled texts in, columns out."""

from ensue.data.texts.dataset import Leaks, Texts, UnderstoodTexts, hold_out_texts, leaks, read_texts

__all__ = ["Leaks", "Texts", "UnderstoodTexts", "hold_out_texts", "leaks", "read_texts"]
