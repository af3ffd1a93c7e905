"""Settings of a link predictor that are no network's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """How scores are made of what was learned."""

    learned: str = ""
    """Of best: whose cosine is weighed beside the lexical scores: ast, cnn, gru, bigru, or sbert; none if empty."""
    together: bool = True
    """Of best: whether posts of one corpus tell which articles are much discussed; false ranks every post alone."""
