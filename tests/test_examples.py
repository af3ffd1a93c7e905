"""The examples are run from their first cell to the last, and come to what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / name))


def test_every_example_is_run_here() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    names = [path.name for path in EXAMPLES.glob("*.py")]
    assert len(names) == 4
    assert all(f'run("{name}")' in here for name in names)
    assert all((EXAMPLES / name).read_text(encoding="utf-8").count("# %% ") >= 4 for name in names)


def test_next_event(capsys: pytest.CaptureFixture[str]) -> None:
    found = run("next_event.py")
    assert (found["answer"].in_vocabulary, found["answer"].events) == (2, 3)
    assert len(found["answer"].choices) == 3
    assert "(best of 8 baselines)" in capsys.readouterr().out


def test_suggest_queries() -> None:
    found = run("suggest_queries.py")
    assert "hotels" in found["suggestions"]
    assert found["completions"] and all(query.startswith("os") for query in found["completions"])
    assert "my secret illness" not in found["private"]


def test_classify_texts() -> None:
    found = run("classify_texts.py")
    assert found["best"].value == "good"
    assert found["best"].score > 0.7
    assert found["figure"].data


def test_link_posts() -> None:
    found = run("link_posts.py")
    first, second = found["answer"].choices
    assert first.value == "bridge"
    assert first.probability > second.probability
    assert "cracks" in first.sentence or "bridge" in first.sentence
    assert found["comet"] == ["comet"]
