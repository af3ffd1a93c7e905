"""Tensors only: no record, no vocabulary, no settings object."""
