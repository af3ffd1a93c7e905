"""``CARD.md`` as it is read again: the latest scores that stand in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from ensue.errors import ModelFolderError
from ensue.store.checksums import opened

Scores: TypeAlias = dict[str, Any]
"""Of a card, as JSON: figures, verdict and protocol."""
SCORES = "## Test metrics"
"""The heading of the scores."""
WEIGHTS = "Attention weights are not causes: a deletion test shows how much each one matters."
"""The last line."""
LONGEST = 200_000
"""Bytes of a card that are read."""


def scores_of(card: str) -> Scores | None:
    """What a card says of the latest scores; ``None`` where there are none yet.

    ``figures`` are the model's own (x 100, with the half-width of their interval); ``verdict`` and ``protocol`` follow.
    """
    lines = card.partition(f"\n{SCORES}\n")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    if len(rows) < 3:
        return None
    heads, _, own = rows[:3]
    said = [line for line in lines if line and not line.startswith(("|", "- ", "Warning: ")) and line != WEIGHTS]
    return {
        "figures": dict(zip(heads[1:], own[1:], strict=False)),
        "verdict": said[0] if said else "",
        "protocol": dict(line[2:].split(": ", 1) for line in lines if line.startswith("- ") and ": " in line),
    }


def read_scores(folder: Path) -> Scores | None:
    """Return the latest scores in a model folder's card; ``None`` without a card that can be read and has some."""
    try:
        with opened(folder, "CARD.md") as card:
            return scores_of(card.read(LONGEST).decode(errors="replace"))
    except (ModelFolderError, OSError):
        return None
