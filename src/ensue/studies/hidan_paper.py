"""What HiDAN's paper prints, and what later papers report on the files at hand."""

from __future__ import annotations

from collections.abc import Mapping

MEASURES = ("mrr", "hit@10", "hit@50", "hit@100")
HEADS: Mapping[str, str] = {"mrr": "MRR", "hit@10": "A@10", "hit@50": "A@50", "hit@100": "A@100", "mrr@100": "MAP@100"}
_SETS = ("memes", "weibo", "twitter")
_TABLE_2: Mapping[str, tuple[float, ...]] = {
    "rnn": (23.26, 40.23, 66.33, 77.24, 1.33, 2.25, 6.04, 9.49, 2.04, 3.68, 9.83, 14.92),
    "lstm": (24.08, 41.49, 67.23, 77.92, 1.40, 2.63, 7.23, 11.49, 2.47, 4.69, 11.78, 16.63),
    "rmtpp": (23.35, 41.37, 66.34, 76.99, 1.35, 2.28, 6.69, 10.73, 1.73, 3.17, 8.96, 13.64),
    "att-rnn": (23.51, 42.05, 67.14, 78.10, 1.57, 2.52, 7.51, 12.18, 2.53, 4.56, 13.68, 20.14),
    "att-lstm": (24.39, 43.11, 68.69, 79.55, 1.64, 2.93, 8.20, 12.60, 2.73, 5.08, 14.78, 21.71),
    "cyan-rnn": (17.62, 35.84, 57.29, 69.81, 1.06, 1.53, 5.18, 7.83, 1.19, 1.82, 5.69, 8.97),
    "hidan-nua": (16.60, 33.41, 61.59, 73.75, 1.44, 2.76, 8.14, 12.69, 2.50, 4.72, 11.86, 16.71),
    "hidan-nca": (20.41, 38.78, 65.55, 77.70, 1.38, 2.47, 7.14, 11.29, 2.45, 4.60, 11.02, 16.32),
    "hidan-nt": (27.12, 47.92, 73.47, 83.26, 2.39, 4.06, 11.02, 16.83, 5.46, 11.05, 23.08, 29.12),
    "hidan": (27.91, 48.89, 74.63, 84.44, 2.48, 4.30, 11.31, 17.30, 5.74, 11.18, 23.61, 30.41),
}
STATISTICS: Mapping[str, Mapping[str, float]] = {
    "memes": {"users": 1109, "cascades": 42492, "mean length": 8.8},
    "weibo": {"users": 8190, "cascades": 43365, "mean length": 22.5},
    "twitter": {"users": 13755, "cascades": 72103, "mean length": 9.4},
}
"""Table 1."""
PARAMETERS: Mapping[str, str] = {
    "rnn": "6.2k",
    "lstm": "24.8k",
    "rmtpp": "8.8k",
    "att-rnn": "14.5k",
    "att-lstm": "33.1k",
    "cyan-rnn": "27.1k",
    "hidan": "25.6k",
}
_SECONDS: Mapping[str, tuple[int, int, int]] = {
    "rnn": (22, 145, 261),
    "lstm": (34, 190, 346),
    "rmtpp": (24, 148, 265),
    "att-rnn": (29, 152, 273),
    "att-lstm": (38, 203, 422),
    "hidan": (12, 36, 85),
}
ELSEWHERE: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "forest-twitter": {"GRASS": {"hit@10": 0.330, "hit@50": 0.512, "hit@100": 0.602, "mrr@100": 0.220}},
    "memetracker": {"GRASS": {"hit@10": 0.424, "hit@50": 0.601, "hit@100": 0.679, "mrr@100": 0.274}},
}
"""What GRASS reports on these very files: it reads a social graph and scores an end token as if it were a user."""


def printed(data: str, model: str) -> dict[str, float]:
    """A row of Table 2 as fractions; empty where the paper has none."""
    if data not in _SETS or model not in _TABLE_2:
        return {}
    at = len(MEASURES) * _SETS.index(data)
    return {name: value / 100 for name, value in zip(MEASURES, _TABLE_2[model][at:], strict=False)}


def seconds(data: str, model: str) -> int | None:
    """A cell of Table 3: seconds an epoch on their card."""
    return _SECONDS[model][_SETS.index(data)] if data in _SETS and model in _SECONDS else None
