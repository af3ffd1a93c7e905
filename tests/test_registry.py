"""The registry: tasks, models and settings, and what is refused by name before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ensue import ModelFolderError, SettingError, registry
from ensue.predictor import make
from ensue.tasks import TASKS, Task, named
from tests.encoders import install, missing
from tests.folders import resum

PACKAGES: Mapping[str, Any] = {name: task.module("catalogue") for name, task in TASKS.items()}
EVERY = [(task, name) for task, package in PACKAGES.items() for name in package.MODELS]


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_what_a_task_names_is_there(task: Task) -> None:
    for reference in (
        task.predictor,
        task.evaluator,
        f"ensue.refresh.trial:update_{task.name}",
        task.command,
        task.service,
    ):
        assert named(reference)
    assert task.module("check").leaks_between and task.module("forget").forget_users
    assert task.module("onnx_export").exports
    assert task.record.from_fields(task.example, "example")
    assert all(isinstance(row.make, type) for row in task.module("catalogue").MODELS.values() if row.source)


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


GIVEN = [(task, name, {"sideways": "1"}) for task, name in [*EVERY, *((task, "best") for task in PACKAGES)]]
GIVEN.remove(("link", "sbert", {"sideways": "1"}))  # it needs its encoder's name as well
OF_LINK = [("best", {"network": "cnn"}), ("best", {"encoder": "stand-in"}), ("sbert", {"encoder": "stand-in"})]


@pytest.mark.parametrize(
    ("task", "name", "given"), [*GIVEN, *(("link", name, {**given, "sideways": "1"}) for name, given in OF_LINK)]
)
def test_an_unknown_setting_is_refused_in_the_predictors_own_words(task: str, name: str, given: dict[str, str]) -> None:
    said = []
    for refuse in (registry.require_settings, lambda task, name, given: make(task, name, settings=given)):
        with pytest.raises(SettingError) as caught:
            refuse(task, name, given)
        said.append(str(caught.value))
    assert said[0] == said[1] and said[0].startswith("setting 'sideways' is not known; choose from ")


@pytest.mark.parametrize(
    ("task", "model", "given", "message"),
    [
        ("classify", "blend", {"vectors": "missing"}, "vectors is 'missing'; no such file"),
        ("link", "ast", {"vectors": "/missing/v.txt"}, "vectors is '/missing/v.txt'; no such file"),
        ("classify", "best", {"encoder": "./missing"}, "encoder is './missing'; there is no such folder"),
        ("link", "sbert", {"encoder": "/missing/model"}, "encoder is '/missing/model'; there is no such folder"),
        ("link", "best", {"encoder": "a/b/c"}, "encoder is 'a/b/c'; there is no such folder"),
        (
            "link",
            "best",
            {"encoder": "owner/name"},
            "encoder 'owner/name' needs the extra: pip install 'ensue[encoder]'",
        ),
    ],
)
def test_what_a_setting_names_must_be_there(
    task: str, model: str, given: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing(monkeypatch)
    with pytest.raises(SettingError) as caught:
        registry.require_settings(task, model, given)
    assert str(caught.value) == message


def test_what_is_there_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    (tmp_path / "v.txt").touch()
    for encoder in ("owner/name", "name", str(tmp_path)):
        registry.require_settings("classify", "best", {"encoder": encoder, "vectors": str(tmp_path / "v.txt")})
        registry.require_settings("link", "sbert", {"encoder": encoder})
    registry.require_settings("link", "ast", {"encoder": "ast", "dim": "6"})  # a network of the task, not a folder


def test_unknown_tasks_are_refused() -> None:
    for refuse in (registry.models, registry.require_task, make):
        with pytest.raises(SettingError, match=r"^task 'gpt' is not known; choose from next, classify, suggest, link$"):
            refuse("gpt")


def test_a_folder_of_a_task_to_come_is_refused(tmp_path: Path) -> None:
    settings = '{"ensue": "9", "format": 2, "task": "sing", "model": "x", "settings": {}, "schedule": null'
    (tmp_path / "settings.json").write_text(settings + ', "seed": 0, "facts": {}}')
    resum(tmp_path)
    with pytest.raises(ModelFolderError, match="task 'sing' is not known to this version; update ensue"):
        registry.task_of(tmp_path)
