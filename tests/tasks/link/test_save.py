"""Articles that a folder keeps are read as carefully as anybody's Parquet."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ensue import ModelFolderError
from ensue.tasks.link.predictor import LinkPredictor
from tests.folders import resum
from tests.tasks.link.checks import planted


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"bodies": ["a"], "titles": ["b"]}, "is damaged (columns bodies, titles)"),
        ({"bodies": ["a"], "titles": ["b"], "ids": [1]}, "is damaged (columns bodies, titles, ids)"),
        ({"bodies": ["a"], "titles": [None], "ids": ["b"]}, "is damaged (columns bodies, titles, ids)"),
        (None, "is damaged or has unusual content ("),
    ],
)
def test_odd_articles_are_refused_in_one_line(
    tmp_path: Path, columns: dict[str, list[object]] | None, reason: str
) -> None:
    made = LinkPredictor("tfidf", device="cpu")
    for _ in made.fit(planted()):
        pass
    made.save(tmp_path / "m")
    path = tmp_path / "m" / "articles.parquet"
    if columns is None:
        path.write_bytes(path.read_bytes()[:200] + b"PAR1")
    else:
        pl.DataFrame(columns).write_parquet(path)
    resum(path.parent)
    with pytest.raises(ModelFolderError) as error:
        LinkPredictor.load(tmp_path / "m", device="cpu")
    start = f"{tmp_path}/m: damaged (articles.parquet: {reason}"
    assert str(error.value).startswith(start) and "\n" not in str(error.value)
