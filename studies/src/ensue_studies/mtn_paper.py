"""What the MTN paper prints (2019) and our copy of it holds: its precisions are figures that the text has lost."""

from __future__ import annotations

from ensue_studies.papers import Paper

_PAPER = Paper("mtn")
DEPTHS = {(model, depth): figure for model, row in _PAPER.rows("depths").items() for depth, figure in row.items()}
"""BLEU on AOL by model and layers: encoder (queries, then sessions) and decoder."""
BLEU = _PAPER.row("bleu")
"""BLEU on AOL of those rows of Table 1 that the text names."""
HOURS = _PAPER.row("hours")
"""An epoch, about (5.2)."""
CLAIMS = _PAPER.text("claims")
SLIPS = _PAPER.texts("slips")
