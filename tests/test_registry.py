"""The registry as it is read from the source is the registry as it is imported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ensue import classify, link, next_event, registry, suggest
from ensue.errors import ModelFolderError, SettingError
from ensue.predictor import make
from ensue.studies import PAPERS

PACKAGES: Mapping[str, Any] = {"next": next_event, "classify": classify, "suggest": suggest, "link": link}
EVERY = [(task, name) for task, package in PACKAGES.items() for name in package.MODELS]


def test_the_tasks() -> None:
    assert {task: f"ensue.{name}" for task, name in registry.TASKS.items()} == {
        task: package.__name__ for task, package in PACKAGES.items()
    }


@pytest.mark.parametrize("task", PACKAGES)
def test_the_list_is_that_of_the_package(task: str) -> None:
    package, found = PACKAGES[task], registry.models(task)
    assert [model.name for model in found] == list(package.MODELS) == list(package.ABOUT)
    assert [(model.about, model.paper) for model in found] == list(package.ABOUT.values())
    assert [model.name for model in found if model.counting] == list(package.COUNTING)
    assert {model.name for model in found if model.default} == {one for one in package.BEST if isinstance(one, str)}
    assert {model.task for model in found} == {task} and all(model.about for model in found)
    assert len({model.about for model in found}) == len(found), "two models are told apart by their line"


@pytest.mark.parametrize("task", PACKAGES)
def test_what_best_is_stands_among_the_defaults(task: str) -> None:
    assert make(task).model_name in {model.name for model in registry.models(task) if model.default}


@pytest.mark.parametrize(("task", "name"), [*EVERY, *((task, "best") for task in PACKAGES)])
def test_every_model_passes(task: str, name: str) -> None:
    registry.require_model(task, name)


@pytest.mark.parametrize("task", PACKAGES)
def test_an_unknown_model_is_refused_in_the_predictors_own_words(task: str) -> None:
    said = []
    for refuse in (registry.require_model, make):
        with pytest.raises(SettingError) as caught:
            refuse(task, "gpt")
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_unknown_tasks_and_papers_are_refused() -> None:
    for papers in PAPERS:
        registry.require_paper(papers)
    with pytest.raises(SettingError) as caught:
        registry.require_paper("gpt")
    assert str(caught.value) == f"paper 'gpt' is not known; choose from {', '.join(PAPERS)}"
    for refuse in (registry.models, registry.require_task, make):
        with pytest.raises(SettingError, match=r"^task 'gpt' is not known; choose from next, classify, suggest, link$"):
            refuse("gpt")


def test_a_folder_of_a_task_to_come_is_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"ensue": "9", "format": 1, "task": "sing", "model": "x", "settings": {}}')
    with pytest.raises(ModelFolderError, match="task 'sing' is not known to this ensue; update ensue"):
        registry.task_of(tmp_path)
