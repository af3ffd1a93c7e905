"""What the paper of centrality attention prints, and how sure it is.

Gong et al., Text Information Aggregation with Centrality Attention, Science China Information Sciences 2020. Every
figure is one run, without an interval; the test sets alone say how far another draw of texts would move it.
"""

from __future__ import annotations

from math import sqrt

from ensue_studies.papers import Paper

_PAPER = Paper("centrality")
SETTINGS = _PAPER.rows("settings")
"""Table 2, by our names. ``imdb-10`` is Tang's set with ten ratings, which is not the one of Maas et al."""
SETTINGS_NAMES = tuple(SETTINGS["sst1"])
STATISTICS = _PAPER.rows("statistics")
"""Table 1, its thousands (``36k``) written out."""
RESULTS = _PAPER.rows("accuracy")
"""Tables 3 and, of SNLI, 4: accuracy in per cent."""
TOLERANCE, STEPS = _PAPER.number("tolerance"), int(_PAPER.number("steps"))
"""The power method's stop factor, and the steps that Figure 4 finds enough for most samples."""
COST = _PAPER.number("cost")
"""How many times the training of attentive pooling the paper's takes on Yelp-14."""
SLIPS = _PAPER.texts("slips")
"""What a reader should know before comparing."""


def printed(data: str, model: str) -> float | None:
    """The accuracy that the paper prints, in per cent; ``None`` where it has none."""
    return RESULTS.get(data, {}).get(model)


def half(percent: float, texts: int) -> float:
    """Half of the 95 % interval, in per cent, of a share measured once on so many texts (normal approximation)."""
    return 1.96 * sqrt(percent * (100 - percent) / texts)
