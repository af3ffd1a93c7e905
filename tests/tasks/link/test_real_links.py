"""``best`` on the public sets: above TF-IDF by a tenth on every figure. Skipped where the data is absent."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from ensue.data.posts import Articles, Corpus, read_corpus
from ensue.evaluation import evaluate
from ensue.tasks.link.predictor import LinkPredictor

DATA = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[3] / "../shared/data")) / "links"
FLOORS = {
    "politifact": {"mrr": 0.429, "recall@10": 0.587, "pooled_ap": 0.500},
    "clickbait22": {"mrr": 0.769, "pooled_ap": 0.789},
}


def corpus(name: str) -> Corpus:
    if not (DATA / name).is_dir():
        pytest.skip(f"no {DATA / name}")
    found, _ = read_corpus(DATA / name)
    if name == "politifact":
        return found
    silent = pl.Series([""] * len(found.articles))  # titles are missing in train, so none is read
    return Corpus(Articles(found.articles.bodies, silent, found.articles.ids), found.posts)


@pytest.mark.study
@pytest.mark.parametrize("name", FLOORS)
def test_best_is_a_tenth_above_tfidf(name: str) -> None:
    data = corpus(name)
    predictor = LinkPredictor("best", device="cpu")
    list(predictor.fit(data))
    found = evaluate(predictor, data)
    figures = found.rows[0].figures
    assert found.rows[0].model == "best" and found.beats_counting
    for measure, floor in FLOORS[name].items():
        assert figures[measure] > 1.1 * floor, f"{measure}: {figures[measure]:.3f}"
