"""What SANSR's paper prints (Sun et al., IEEE Access 2019), and which of its cells cannot be.

The checks read the printed numbers alone. With one true item a target, a rank r gives MRR 1 / r and NDCG
1 / log2(r + 1), so every measure grows with its cut-off, MRR <= NDCG <= HR, and the hits at ranks 11 to 20 bound what
MRR and NDCG may gain between the two cut-offs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log2
from typing import Any

AT = (10, 20)
MEASURES = ("hit@10", "hit@20", "mrr@10", "mrr@20", "ndcg@10", "ndcg@20")
SAMPLED = 100
ROUNDING = 1.5e-4
"""How far a difference of two figures with four decimals may be off, and a third of another beside it."""

DIGINETICA, YOOCHOOSE = "diginetica", "yoochoose-1-64"

OVERALL: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    DIGINETICA: {
        "popularity": (0.0066, 0.0111, 0.0025, 0.0028, 0.0034, 0.0046),
        "bpr-mf": (0.0980, 0.1295, 0.0448, 0.0350, 0.0571, 0.0638),
        "fpmc": (0.1215, 0.1723, 0.0565, 0.0602, 0.0719, 0.0849),
        "gru4rec": (0.2001, 0.3165, 0.0777, 0.0863, 0.1064, 0.1364),
        "narm": (0.5139, 0.5989, 0.2668, 0.2734, 0.3156, 0.3476),
        "stamp": (0.5150, 0.6099, 0.2674, 0.2741, 0.3263, 0.3504),
        "sansr": (0.7837, 0.8391, 0.6514, 0.6524, 0.6832, 0.6951),
    },
    YOOCHOOSE: {
        "popularity": (0.0498, 0.0811, 0.0203, 0.0224, 0.0271, 0.0349),
        "bpr-mf": (0.2321, 0.2709, 0.1267, 0.1296, 0.1147, 0.1315),
        "gru4rec": (0.4711, 0.6043, 0.2167, 0.2268, 0.2134, 0.2473),
        "narm": (0.5423, 0.6612, 0.2486, 0.2563, 0.3192, 0.3486),
        "stamp": (0.5440, 0.6633, 0.2503, 0.2587, 0.3197, 0.3500),
        "sansr": (0.9516, 0.9698, 0.8217, 0.8186, 0.8538, 0.8550),
    },
}
"""Table 1, in the order of ``MEASURES``; FPMC has no row on Yoochoose."""

STATISTICS: Mapping[str, Mapping[str, float]] = {
    DIGINETICA: {"clicks": 982_961, "training": 186_670, "test": 15_963, "items": 43_097, "mean length": 4.85},
    YOOCHOOSE: {"clicks": 16_017_273, "training": 1_877_867, "test": 4_580, "items": 30_830, "mean length": 8.50},
}
"""Table 2."""
STATISTICS_NOTE = (
    "The paper's Yoochoose is another cut of the log than the 1/64 here: its figures there compare with none of ours."
)

GRID: Mapping[str, tuple[tuple[float, ...], ...]] = {
    DIGINETICA: (
        (0.5622, 0.6560, 0.6428, 0.5293, 0.3086),
        (0.5493, 0.6562, 0.6479, 0.5393, 0.2936),
        (0.5724, 0.6484, 0.6428, 0.6419, 0.3021),
        (0.5462, 0.6540, 0.6402, 0.5142, 0.2959),
        (0.5479, 0.6574, 0.6433, 0.4907, 0.2989),
    ),
    YOOCHOOSE: (
        (0.7895, 0.8468, 0.7578, 0.5239, 0.4947),
        (0.8159, 0.8559, 0.8223, 0.5509, 0.4854),
        (0.8093, 0.8525, 0.8137, 0.5434, 0.4114),
        (0.8184, 0.8512, 0.8098, 0.6094, 0.4078),
        (0.8045, 0.8576, 0.8288, 0.6000, 0.4129),
    ),
}
"""Table 3: NDCG@20 for h = 1 to 5 (rows) and k = 0 to 4 (columns)."""


def printed(data: str, model: str) -> dict[str, float]:
    """A row of Table 1 by measure; empty where there is none."""
    return dict(zip(MEASURES, OVERALL[data].get(model, ()), strict=False))


def faults(figures: Mapping[str, float]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The cells of one row that cannot stand together, each group with the reason."""
    for name in ("hit", "mrr", "ndcg"):
        low, high = figures[f"{name}@10"], figures[f"{name}@20"]
        if low > high:
            yield (f"{name}@10", f"{name}@20"), f"{low:.4f} at 10 exceeds {high:.4f} at 20: a longer list loses nothing"
    for k in AT:
        for less, more in (("mrr", "ndcg"), ("ndcg", "hit")):
            low, high = figures[f"{less}@{k}"], figures[f"{more}@{k}"]
            if low > high:
                yield (f"{less}@{k}", f"{more}@{k}"), f"{low:.4f} exceeds {high:.4f}, which no rank allows"
    gained = figures["hit@20"] - figures["hit@10"]
    for name, worth in (("mrr", (1 / 20, 1 / 11)), ("ndcg", (1 / log2(21), 1 / log2(12)))):
        found, bounds = figures[f"{name}@20"] - figures[f"{name}@10"], [gained * value for value in worth]
        if found >= 0 and not bounds[0] - ROUNDING <= found <= bounds[1] + ROUNDING:
            cells = ("hit@10", "hit@20", f"{name}@10", f"{name}@20")
            yield (
                cells,
                (
                    f"{gained:.4f} more hits at ranks 11 to 20 are worth {bounds[0]:.4f} to {bounds[1]:.4f}, "
                    f"the cells differ by {found:.4f}"
                ),
            )


def impossible() -> list[dict[str, Any]]:
    """Every group of printed cells that cannot be: table, data, model, cells and the reason."""
    found: list[dict[str, Any]] = []
    for data, rows in OVERALL.items():
        for model in rows:
            for cells, why in faults(printed(data, model)):
                found.append({"table": "1", "data": data, "model": model, "cells": list(cells), "why": why})
        chance = 20 / (1 + SAMPLED)
        below = {model: row[1] for model, row in rows.items() if row[1] <= chance}
        why = (
            f"a random order among 1 + {SAMPLED} items has HR@20 {chance:.4f}, above these: the rows were ranked among "
            "all items and cannot stand in one table with a row ranked among 101"
        )
        if below:
            found.append({"table": "1", "data": data, "model": ", ".join(below), "cells": ["hit@20"], "why": why})
    for data, grid in GRID.items():
        column = [row[0] for row in grid]
        why = (
            f"without a block there are no heads, so the five are one model; they spread over "
            f"{max(column) - min(column):.4f}, and no smaller difference in this table means anything"
        )
        found.append({"table": "3", "data": data, "model": "sansr", "cells": ["k = 0, h = 1 to 5"], "why": why})
    return found


def suspects(data: str, model: str) -> set[str]:
    """The measures of a row of Table 1 that take part in something impossible by themselves."""
    figures = printed(data, model)
    return {cell for cells, _ in faults(figures) for cell in cells} if figures else set()
