"""What the page is told of a model: the scores of its card, and examples that hold nobody's history."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from ensue.demo.models import data_of
from ensue.evaluation.comparison import evaluate
from ensue.metrics import label
from ensue.serve.models import facts
from ensue.serve.tasks import service_of
from ensue.store.card import scores_of
from tests.demo.small_demo import small_demo, small_story


@pytest.mark.parametrize("name", ["posts", "stance", "sharing", "reading", "searching"])
def test_the_scores_of_a_card_are_those_that_were_written(name: str, tmp_path: Path) -> None:
    predictor = small_demo().predictors[name]
    assert scores_of(predictor.card()) is None
    result = evaluate(predictor, data_of(small_story())[name].test)
    found = scores_of(predictor.card(result.card_text()))
    assert found is not None and found["verdict"] == result.verdict and found["protocol"]
    metrics = {
        label(name): value * (1 if name == "log_loss" else 100) for name, value in result.rows[0].figures.items()
    }
    for name, figure in found["figures"].items():
        assert float(figure.split()[0]) == pytest.approx(metrics[name], abs=0.06)


def test_a_folder_without_a_card_has_a_day(tmp_path: Path) -> None:
    assert facts(tmp_path) == {"trained": None, "scores": None}
    (tmp_path / "settings.json").write_text("{}")
    assert facts(tmp_path)["scores"] is None and len(str(facts(tmp_path)["trained"])) == 10


def test_examples_are_single_values_common_words_and_titles() -> None:
    found, story = small_demo(), small_story()
    texts = [one.post.text.lower() for one in story.posts if one.label]
    for name, predictor in found.predictors.items():
        asked = service_of(predictor.task).example_records(predictor)
        assert asked
        for record in asked:
            ((kind, value),) = cast(dict[str, Any], record).items()
            if kind == "text":
                assert value in {article.title for article in story.articles}
            elif kind == "texts":
                assert sum(value[0] in text for text in texts) >= 2  # a common word, never a text
            else:
                assert len(value) == 1
                if name == "searching":
                    assert sum(value[0] in one.history.values for one in story.searching) >= 5
