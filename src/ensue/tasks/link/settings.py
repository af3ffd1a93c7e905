"""Settings of a link predictor that are no network's."""

from __future__ import annotations

from dataclasses import dataclass

from ensue.settings import Count, Settings


@dataclass(frozen=True, kw_only=True)
class SharedSettings(Settings):
    """How scores are made of what was learned, and what of the posts stays in a folder."""

    learned: str = ""
    """Of best: whose cosine is weighed beside the lexical scores: ast, cnn, gru, bigru, or sbert; none if empty."""
    together: bool = True
    """Of best: whether posts of one corpus tell of each other what they are about; false ranks every post alone."""
    remembered: Count = 200
    """Held-out posts kept as numbers of their words, at most, to test updates on; 0 keeps none."""
