"""What the page says of a model that is not the demonstration's: when it was written, and how it scored."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ensue.store.card import read_scores


def facts(folder: Path) -> dict[str, object]:
    """The day that a folder's model was written (ISO, UTC) and the scores of its card; ``None`` where there is none."""
    try:
        written = (folder / "settings.json").stat().st_mtime
    except OSError:  # a folder may be replaced at this moment
        return {"trained": None, "scores": None}
    return {"trained": datetime.fromtimestamp(written, UTC).date().isoformat(), "scores": read_scores(folder)}
