"""What the page says of a model that is not the demonstration's: when it was written, and how it scored."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ensue.evaluation import scores_of

LONGEST = 200_000
"""Characters of a card that are read."""


def facts(folder: Path) -> dict[str, object]:
    """The day that a folder's model was written (ISO, UTC) and the scores of its card; ``None`` where there is none."""
    about: dict[str, object] = {"trained": None, "scores": None}
    try:
        written = (folder / "settings.json").stat().st_mtime
        about["trained"] = datetime.fromtimestamp(written, UTC).date().isoformat()
        with (folder / "CARD.md").open(encoding="utf-8") as card:
            about["scores"] = scores_of(card.read(LONGEST))
    except (OSError, ValueError):  # a folder may lack its card, or be replaced at this moment
        return about
    return about
