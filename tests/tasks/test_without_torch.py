"""Count-based models train, score, predict, explain, update and load in a process that cannot import torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.modules["torch"] = None
from pathlib import Path
import numpy as np
from ensue.evaluation import bootstrap, comparison
from ensue.records import Article, Post, Text
bootstrap.RESAMPLES = 2
task, model, folder = sys.argv[1:]
if task == "classify":
    from ensue.data.texts import Texts
    from ensue.tasks.classify.predictor import ClassifyPredictor as Predictor
    words = ("good film", "bad film")
    records = [Text((f"{words[i % 2]} w{i % 7}",), str(i % 2)) for i in range(60)]
    data = Texts.of(records)
else:
    from ensue.data.posts.corpus import Corpus
    from ensue.data.posts.dataset import Articles, Posts
    from ensue.tasks.link.predictor import LinkPredictor as Predictor
    articles = [Article(f"the story of place{i} and name{i}. More of it.", f"a{i}") for i in range(12)]
    records = [Post(f"look at name{i % 12} w{i % 5}", f"p{i}", (f"a{i % 12}",)) for i in range(60)]
    data = Corpus(Articles.of(articles), Posts.of(records))
predictor = Predictor(model)
for _ in predictor.fit(data):
    pass
predictor.save(Path(folder) / "m")
predictor = Predictor.load(Path(folder) / "m")
predictor.update(data)
print(comparison.evaluate(predictor, data).rows[0].figures["accuracy" if task == "classify" else "mrr"] > 0.9)
print([answer.choices[0].value for answer in predictor.predict(records[:2], 2)])
print(len(predictor.explain(records[:1])))
"""


@pytest.mark.parametrize(
    ("task", "model"), [("classify", "tfidf"), ("link", "best"), ("link", "tfidf"), ("link", "bm25")]
)
def test_a_model_without_a_network_needs_no_torch(task: str, model: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, task, model, str(tmp_path)], capture_output=True, text=True, check=False
    )
    answers = {"classify": "['0', '1']", "link": "['a0', 'a1']"}[task]
    assert run.stdout.splitlines() == ["True", answers, "1"], run.stderr
