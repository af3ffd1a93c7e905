"""Articles that a folder keeps are read as carefully as anybody's Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.torch import load_file, save_file

from ensue.data.posts import Articles
from ensue.errors import ModelFolderError
from ensue.tasks.link.predictor import LinkPredictor
from tests.folders import unsummed
from tests.tasks.link.checks import planted


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"bodies": ["a"], "titles": ["b"]}, "is not what was written (columns bodies, titles)"),
        ({"bodies": ["a"], "titles": ["b"], "ids": [1]}, "is not what was written (columns bodies, titles, ids)"),
        ({"bodies": ["a"], "titles": [None], "ids": ["b"]}, "is not what was written (columns bodies, titles, ids)"),
        (None, "is damaged, or unusual in what it holds ("),
    ],
)
def test_odd_articles_are_refused_in_one_line(
    tmp_path: Path, columns: dict[str, list[object]] | None, reason: str
) -> None:
    made = LinkPredictor("tfidf", device="cpu")
    for _ in made.fit(planted()):
        pass
    made.save(tmp_path / "m")
    path = unsummed(tmp_path / "m") / "articles.parquet"
    if columns is None:
        path.write_bytes(path.read_bytes()[:200] + b"PAR1")
    else:
        pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(ModelFolderError) as error:
        LinkPredictor.load(tmp_path / "m", device="cpu")
    start = f"{tmp_path}/m: damaged (articles.parquet: {reason}"
    assert str(error.value).startswith(start) and "\n" not in str(error.value)


def test_a_former_folder_ranks_as_it_did(tmp_path: Path) -> None:
    """Written before pairs, topics and neighbours: its sum goes by another name, and is of what was counted then."""
    made = LinkPredictor("best", device="cpu")
    for _ in made.fit(planted()):
        pass
    made.save(tmp_path / "m")
    path = unsummed(tmp_path / "m")
    settings = json.loads((path / "settings.json").read_text())
    assert settings["facts"].pop("neighbours") == 0
    settings["facts"]["weights"] = {"equal": settings["facts"]["weights"]["sum"]}
    (path / "settings.json").write_text(json.dumps(settings))
    counts = load_file(path / "counting.safetensors")
    counts = {name: own for name, own in counts.items() if not name.startswith(("pairs.", "latent."))}
    save_file(counts, path / "counting.safetensors")
    former = LinkPredictor.load(tmp_path / "m", device="cpu")
    del made.article_index.lexical["pairs"]
    made.article_index.latent = None
    posts = planted(num=2, first=20).posts
    assert list(former.weights) == ["sum"] and former.neighbour_weight == 0
    np.testing.assert_array_equal(former.scores(posts).whole(), made.scores(posts).whole())
    new = pl.Series(["a ferry that is new"])
    assert former.joined(Articles(new, new, pl.Series(["new"])))[0].scores(posts).whole().shape == (len(posts), 13)
