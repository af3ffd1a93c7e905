"""The public surface is what ``tests/contract`` says, byte for byte.

Where a change is meant, ``python scripts/contract.py --write`` writes the files; their diff is what reviewers read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.contract import document, files

WRITE = "run: python scripts/contract.py --write"


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_the_surface_is_unchanged(path: Path) -> None:
    assert document(path.name) == path.read_text(encoding="utf-8"), WRITE


def test_there_are_ten_sessions() -> None:
    assert len([path for path in files() if path.suffix == ".md"]) == 10
