"""A model in a file of one's own is trained, scored, saved, loaded, updated and served like ours."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from ensue import ModelFolderError, NextEvent, SettingError, TextClassifier, add_model, load, make, registry
from tests.cli.conftest import Ensue, Logs, listed, run
from tests.serve.conftest import learn_at_hand, running

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "models"
FILES = {"next": f"{EXAMPLES}/latest.py:Latest", "classify": f"{ROOT}/tests/own/gated_mean.py:GatedMean"}
RECORDS: dict[str, dict[str, Any]] = {"next": {"values": ["u012", "u005"]}, "classify": {"texts": ["a good film"]}}
NEW: dict[str, list[dict[str, Any]]] = {
    "next": [{"values": ["u012", "u005", "fresh"]}] * 6,
    "classify": [{"texts": ["a good and fresh film"], "label": "yes"}] * 6,
}


@pytest.fixture(autouse=True)
def _nobodys_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ADDED", {})
    monkeypatch.setenv(registry.VARIABLE, "")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.tsv"
    nouns = ("film", "plot", "actor", "music", "scene")
    rows = [
        f"{('yes', 'no')[at % 2]}\ta {('good', 'bad')[at % 2]} {nouns[at % 5]} and {nouns[at // 2 % 5]}"
        for at in range(80)
    ]
    path.write_text("\n".join(["label\ttext", *rows, ""]))
    return path


def forget() -> None:
    """As a process that begins: whoever named a model of their own is gone."""
    registry._ADDED.clear()
    os.environ[registry.VARIABLE] = ""


@pytest.fixture(scope="module", params=FILES)
def trained(
    request: pytest.FixtureRequest, logs: Logs, labelled: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, Path, Path]:
    """(task, FILE.py:CLASS, folder, test data)."""
    task, folder = request.param, tmp_path_factory.mktemp("trained") / "m"
    data, test = (logs.train, logs.test) if task == "next" else (labelled, labelled)
    reference = FILES[task]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_ADDED", {})
        patch.setenv(registry.VARIABLE, "")
        ran = run(patch, "fit", task, data, "-o", folder, f"--model={reference}", "--set=epochs=3", "--device=cpu")
    assert ran.code == 0, ran.err
    return task, reference, folder, test


@pytest.fixture
def fitted(trained: tuple[str, str, Path, Path], tmp_path: Path) -> tuple[str, str, Path, Path]:
    """The same with a copy of the folder, to be changed."""
    task, reference, folder, test = trained
    return task, reference, shutil.copytree(folder, tmp_path / "m"), test


def test_it_is_scored_saved_loaded_asked_and_updated(
    fitted: tuple[str, str, Path, Path], ensue: Ensue, tmp_path: Path
) -> None:
    task, reference, folder, test = fitted
    name = reference.rpartition(":")[2]
    assert json.loads((folder / "settings.json").read_text())["model"] == name
    ran = ensue("evaluate", folder, test, f"--model={reference}", "--json")
    rows = {row["model"]: row for row in json.loads(ran.out)["rows"]}
    assert ran.code == 0 and name in rows and len(rows) > 2, "counting stands beside it"
    record = json.dumps(RECORDS[task])
    forget()
    ran = ensue("predict", folder, "-k", "99", f"--model={reference}", "--json", stdin=record)
    choices = json.loads(ran.out)["choices"]
    assert ran.code == 0 and choices[0]["attributions"], "its weights are evidence"
    values = [choice["value"] for choice in choices]
    assert len(set(values)) == len(values), "padding and unknown are not printed under names of others"
    forget()
    assert ensue("explain", folder, "-", f"--model={reference}", "--json", stdin=record).code == 0
    forget()
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, NEW[task])))
    ran = ensue("update", folder, tmp_path / "new.jsonl", f"--model={reference}", "--no-test")
    assert ran.code == 0, ran.err
    assert load(folder, device="cpu").model == name
    fresh = json.dumps({"values" if task == "next" else "texts": ["fresh"]})
    assert json.loads(ensue("predict", folder, f"--model={reference}", "--json", stdin=fresh).out)["in_vocabulary"] == 1


def test_a_folder_alone_makes_no_code_run(fitted: tuple[str, str, Path, Path], ensue: Ensue) -> None:
    _, reference, folder, test = fitted
    name = reference.rpartition(":")[2]
    ran = ensue("evaluate", folder, test)
    assert ran.code == 2 and len(ran.lines) == 1
    assert f"model '{name}' is not known" in ran.err and "--model FILE.py:CLASS" in ran.err
    with pytest.raises(ModelFolderError, match="add_model"):
        load(folder)
    ran = ensue("evaluate", folder, test, "--model=markov")
    assert ran.code == 2 and "only FILE.py:CLASS is named again" in ran.err


def test_it_is_served_and_learns_there(fitted: tuple[str, str, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    task, reference, folder, _ = fitted
    if task != "next":  # one task learns in a process of its own, which takes seconds to start
        learn_at_hand(monkeypatch)
    registry.add_named(reference)
    with running({"mine": folder}, update_token="writes") as service:
        found = service.post("/v1/models/mine/predict", {"records": [RECORDS[task]]})
        assert found.status_code == 200 and found.json()["answers"][0]["choices"]
        (listed,) = service.client.get("/v1/models").json()
        assert listed["model"] == reference.rpartition(":")[2]
        body = {"records": NEW[task], "test": False}
        found = service.post("/v1/models/mine/update", body, headers={"x-api-key": "writes"})
        assert found.status_code == 200 and found.json()["version"] == 2, "the learning process knows the file too"


def test_a_pooling_in_a_file_is_trained_scored_and_loaded(ensue: Ensue, labelled: Path, tmp_path: Path) -> None:
    reference, folder = f"{ROOT}/examples/poolings/gated_mean.py:GatedMean", tmp_path / "m"
    settings = ("--set=epochs=2", "--set=hidden=8", "--set=dim=8", "--device=cpu")
    pooling = f"--set=pooling={reference}"
    ran = ensue("fit", "classify", labelled, "-o", folder, "--model=centrality", pooling, *settings)
    assert ran.code == 0, ran.err
    assert json.loads((folder / "settings.json").read_text())["settings"]["pooling"] == "GatedMean"
    forget()
    record = json.dumps(RECORDS["classify"])
    ran = ensue("predict", folder, "--json", stdin=record)
    again = "for a class of your own, give its file again: --model FILE.py:CLASS, or ensue.add_model"
    assert ran.code == 2 and ran.lines == [f"ensue: {folder}: pooling is 'GatedMean'; {again}"]
    ran = ensue("predict", folder, f"--model={reference}", "--json", stdin=record)
    assert ran.code == 0 and json.loads(ran.out)["choices"][0]["attributions"], "its weights are attributions"
    model = TextClassifier("centrality", pooling=reference, dim=8, hidden=8, epochs=1)
    assert model.fit(["good", "bad"] * 9, ["y", "n"] * 9).predict(["good"]).shape == (1,)


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        ("pool", "pooling is 'pool'; choose from max, mean, self-attention, "),
        ("none.py:Pool", "none.py: there is no such file"),
        ("pool.py:Pool", "pooling 'Pool': give the class a width, the number of features"),
    ],
)
def test_what_is_no_pooling_is_refused_in_a_line(
    pooling: str, message: str, ensue: Ensue, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pool.py").write_text("class Pool:\n    def __init__(self, dim): pass\n")
    ran = ensue("fit", "classify", labelled, "-o", "m", "--model=centrality", f"--set=pooling={pooling}")
    assert ran.code == 2 and ran.lines[-1].startswith(f"ensue: {message}")
    assert not Path("m").exists()


def test_the_same_seed_gives_the_same_bytes(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    for name in "ab":
        ensue(
            *("fit", "next", logs.train, "-o", tmp_path / name, f"--model={EXAMPLES}/latest.py:Latest"),
            *("--set=epochs=2", "--set=dim=8", "--device=cpu"),
        )
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("text", "reference", "message"),
    [
        (None, "none.py:Mine", "none.py: there is no such file"),
        ("x = 1", "mine.py:Mine", "mine.py: there is no class 'Mine' in it"),
        ("import nowhere", "mine.py:Mine", "cannot be imported (ModuleNotFoundError: No module named 'nowhere')"),
        ("class Mine: pass", "mine.py:Mine", "give the class SETTINGS"),
        ("class Mine:\n SETTINGS = None\n SCHEDULE = 3", "mine.py:Mine", "give the class SETTINGS"),
    ],
)
def test_what_is_no_model_is_refused_in_a_line(
    text: str | None, reference: str, message: str, ensue: Ensue, logs: Logs, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    ran = ensue("fit", "next", logs.train, "-o", tmp_path / "m", f"--model={tmp_path}/{reference}")
    assert ran.code == 2 and len(ran.lines) == 1 and message in ran.err
    assert not (tmp_path / "m").exists()


def test_an_unknown_setting_of_it_is_refused_before_anything_is_read(ensue: Ensue, tmp_path: Path, logs: Logs) -> None:
    command = ("fit", "next", logs.train, "-o", tmp_path / "m", f"--model={EXAMPLES}/latest.py:Latest")
    ran = ensue(*command, "--set=heads=2")
    assert ran.code == 2 and "setting 'heads' is not known; choose from ages, " in ran.err


def test_a_class_that_is_given_is_known_in_this_process() -> None:
    class Mine(nn.Module):
        SETTINGS = None
        SCHEDULE = None

    with pytest.raises(SettingError, match="'Mine' is not known"):
        make("next", "Mine")
    assert add_model(Mine) == "Mine"
    assert make("next", "Mine").model == "Mine"


def test_an_installed_package_offers_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ensue.models]\nnext.theirs = latest:Latest\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert [model["name"] for model in listed("next")][-1] == "theirs"
    assert "theirs" not in [model["name"] for model in listed("classify")]
    assert make("next", "theirs", ages=3).get_params()["ages"] == 3


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("torch.zeros(2, 3) @ torch.zeros(2, 3)", RuntimeError, "shapes cannot be multiplied"),
        ("torch.zeros(settings.dim, 2**60)", SettingError, "^Broken with these settings does not fit into memory"),
        ("torch.zeros(2**31, 2**31, 2**31)", SettingError, "^Broken with these settings does not fit into memory"),
    ],
)
def test_only_failed_allocations_are_reported_as_lack_of_memory(
    tmp_path: Path, line: str, error: type[Exception], message: str
) -> None:
    source = (EXAMPLES / "latest.py").read_text().replace("class Latest(", "class Broken(")
    source = source.replace("super().__init__()\n", f"super().__init__()\n        {line}\n")
    (tmp_path / "broken.py").write_text(source)
    model = NextEvent(registry.add_named(f"{tmp_path}/broken.py:Broken"))
    with pytest.raises(error, match=message):
        model.fit([["a", "b"]] * 4)
