"""What SANSR's paper prints (Sun et al., IEEE Access 2019), and which of its cells cannot be.

The checks read the printed numbers alone. With one true item a target, a rank r gives MRR 1 / r and NDCG
1 / log2(r + 1), so every measure grows with its cut-off, MRR <= NDCG <= HR, and the hits at ranks 11 to 20 bound what
MRR and NDCG may gain between the two cut-offs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log2

from ensue_studies.papers import Paper
from ensue_studies.rows import Rows

AT = (10, 20)
MEASURES = ("hit@10", "hit@20", "mrr@10", "mrr@20", "ndcg@10", "ndcg@20")
SAMPLED = 100
ROUNDING = 1.5e-4
"""How far a difference of two figures with four decimals may be off, and a third of another beside it."""

DIGINETICA, YOOCHOOSE = "diginetica", "yoochoose-1-64"

_PAPER = Paper("sansr")
OVERALL = _PAPER.tables("overall")
"""Table 1."""
STATISTICS = _PAPER.rows("statistics")
"""Table 2."""
STATISTICS_NOTE = _PAPER.text("statistics_note")
GRID = {data: _PAPER.grid("grid", data) for data in (DIGINETICA, YOOCHOOSE)}
"""Table 3: NDCG@20 for h = 1 to 5 (rows) and k = 0 to 4 (columns)."""


def printed(data: str, model: str) -> dict[str, float]:
    """A row of Table 1 by measure; empty where there is none."""
    return OVERALL[data].get(model, {})


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


def impossible() -> Rows:
    """Every group of printed cells that cannot be: table, data, model, cells and the reason."""
    found: Rows = []
    for data, rows in OVERALL.items():
        for model in rows:
            for cells, why in faults(printed(data, model)):
                found.append({"table": "1", "data": data, "model": model, "cells": list(cells), "why": why})
        chance = 20 / (1 + SAMPLED)
        below = {model: row["hit@20"] for model, row in rows.items() if row["hit@20"] <= chance}
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
