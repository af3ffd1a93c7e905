"""Callbacks of the four tasks: reports, settings and final metrics; with the real libraries where there are any."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensue import NextEvent, PostLinker, QuerySuggester, TextClassifier, callbacks
from ensue.callbacks import Summary, final_metrics, parameters
from ensue.training.report import Report

ARTICLES = {"ferry": "The ferry sails at ten.", "bus": "The bus stop moved to the bridge."}
POSTS = [("the ferry again", ["ferry"]), ("a late bus", ["bus"]), ("ferry at ten", ["ferry"])] * 4
TEXTS = ["a good film", "a bad film", "good plot", "bad plot"] * 6
SESSIONS = [["ferry", "ferry times"], ["bus", "bus stop"]] * 9
FITS: dict[str, Callable[[list[Any]], Any]] = {
    "next": lambda to: NextEvent("core", dim=8, epochs=2).fit([["a", "b", "c"]] * 30, callbacks=to),
    "classify": lambda to: TextClassifier("centrality", dim=8, hidden=8, head=8, epochs=2).fit(
        TEXTS, ["yes", "no"] * 12, callbacks=to
    ),
    "suggest": lambda to: QuerySuggester("seq2seq", dim=8, epochs=2, min_users=1).fit(SESSIONS, callbacks=to),
    "link": lambda to: PostLinker("cnn", max_epochs=2).fit(POSTS, ARTICLES, callbacks=to),
}
METRICS = {
    "next": {"epochs"},
    "classify": {"epochs", "validation_accuracy/centrality", "validation_accuracy/tfidf"},
    "suggest": {"epochs", "validation_loss"},
    "link": {"validation/mrr", "validation/precision"},
}


class Recorder:
    """Keeps what a callback gets, in order."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.summaries: list[Summary] = []

    def __call__(self, report: Report) -> None:
        assert not self.summaries
        self.reports.append(report)

    def finish(self, summary: Summary) -> None:
        self.summaries.append(summary)


@pytest.mark.parametrize("task", FITS)
def test_each_task_reports_epochs_settings_and_metrics(task: str, tmp_path: Path) -> None:
    recorder = Recorder()
    model = FITS[task]([recorder, callbacks.JSONLines(tmp_path / "log.jsonl")])
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [report.step for report in recorder.reports]
    epochs = [report for report in recorder.reports if callbacks.scalars(report)]
    assert [report.epoch for report in epochs if report.stage == "fit"] == [1, 2]
    (summary,) = recorder.summaries
    assert parameters(summary)["task"] == task and parameters(summary)["seed"] == model.seed
    assert METRICS[task] <= final_metrics(summary).keys()
    assert all(isinstance(value, float) for value in final_metrics(summary).values())


def test_a_baseline_reports_its_settings_alone() -> None:
    recorder = Recorder()
    NextEvent("markov").fit([["a", "b"]] * 3, callbacks=[recorder])
    assert not recorder.reports and parameters(recorder.summaries[0])["model"] == "markov"


def test_tensorboard_has_all_of_it(tmp_path: Path) -> None:
    reader = "tensorboard.backend.event_processing.event_accumulator"
    reading = pytest.importorskip(reader, reason="the extra tensorboard is not there")
    FITS["classify"]([callbacks.TensorBoard(tmp_path)])
    events = reading.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Scalars("fit/validation_accuracy")] == [1, 2]
    assert events.Scalars("validation_accuracy/tfidf")[0].value == 1.0
    assert "settings/text_summary" in events.Tags()["tensors"]


def test_mlflow_has_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not there")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        FITS["classify"]([callbacks.MLflow()])
    data = mlflow.get_run(run.info.run_id).data
    assert data.params["hidden"] == "8" and data.metrics["validation_accuracy/tfidf"] == 1.0
    assert "fit/validation_accuracy" in data.metrics


def test_weights_and_biases_has_all_of_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wandb = pytest.importorskip("wandb", reason="the extra wandb is not there")
    callback = callbacks.WandB(project="clicks", mode="offline", dir=str(tmp_path))
    FITS["classify"]([callback])
    assert callback.run.config["hidden"] == 8
    summary = " ".join(capfd.readouterr().err.partition("Run summary:")[2].split())
    assert "validation_accuracy/tfidf 1 " in summary and "fit/loss" in summary
    assert wandb.run is None and [*tmp_path.rglob("*.wandb")]
