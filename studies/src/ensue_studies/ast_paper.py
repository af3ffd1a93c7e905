"""What the AST paper prints (Danovitch 2020), and what must be known before any of it is compared."""

from __future__ import annotations

from ensue_studies.papers import Paper

_PAPER = Paper("ast")
PRECISION = _PAPER.rows("precision")
"""Table 1: precision of the r best pairs, per cent, by r and by model."""
OVERALL = _PAPER.rows("overall")
"""Table 2: mAP, AUC-ROC and mRP, per cent, by model."""
CUT = _PAPER.number("cut")
"""Figure 4's cosine."""
SLIPS = _PAPER.texts("slips")
