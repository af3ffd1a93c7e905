"""Lexical scores: what trains nothing and stands beside every model."""
