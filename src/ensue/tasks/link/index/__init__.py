"""Vectors of texts kept in a folder and searched."""
