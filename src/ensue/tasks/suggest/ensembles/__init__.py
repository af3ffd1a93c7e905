"""Ranking of suggestions from several sources."""
