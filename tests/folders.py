"""Model folders as tests take them apart."""

from __future__ import annotations

import json
from pathlib import Path


def unsummed(folder: Path) -> Path:
    """The folder as it was written before there were checksums, so that whatever else is looked at is seen."""
    path = folder / "settings.json"
    settings = json.loads(path.read_text())
    settings.pop("checksums")
    path.write_text(json.dumps(settings, indent=1))
    (folder / "B2SUMS").unlink()
    return folder
