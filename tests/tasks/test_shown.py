"""What a predictor says of itself in a notebook: how its folder scored, until it has learned more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ensue import History, Text
from ensue.data.histories import Histories
from ensue.data.texts import Texts
from ensue.predictor import load, make
from ensue.store.card import SCORES
from tests.tasks.link.checks import planted

CARD = f"# A card\n\n{SCORES}\n| model | mrr |\n|---|---|\n| it | 12.34 ± 1.00 |\n\nit <wins>\n"
HISTORIES = Histories.of([History(("a", "b", "c")), History(("b", "c"))] * 5)
TEXTS = Texts.of([Text(("a good film",), "yes"), Text(("a bad film",), "no")] * 10)


@pytest.mark.parametrize(
    ("task", "model", "data", "said"),
    [
        ("next", "markov", HISTORIES, "10 sequences, 25 events, 3 values"),
        ("classify", "tfidf", TEXTS, "20 texts, 2 labels"),
        ("link", "tfidf", planted(), "12 articles, 48 posts"),
    ],
)
def test_it_says_how_its_folder_scored_until_it_has_learned_more(
    task: str, model: str, data: Any, said: str, tmp_path: Path
) -> None:
    predictor: Any = make(task, model)
    assert "not fitted: call fit(data)" in predictor._repr_html_()
    for _ in predictor.fit(data):
        pass
    assert "not evaluated:" in predictor._repr_html_()
    predictor.save(tmp_path / "model", CARD)
    loaded: Any = load(tmp_path / "model")
    page = loaded._repr_html_()
    assert f'<td style="text-align: left">{task}</td>' in page and f"{model}, seed 0" in page
    assert said in page and " MB in its folder" in page
    assert "mrr 12.34 ± 1.00" in page and "it &lt;wins&gt;" in page
    loaded.update(data)
    assert "12.34" not in loaded._repr_html_()
