"""Exported folders: the scores of the folders that they were made from, in a process that has no torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ensue
from ensue import History, Post, PostLinker, QuerySuggester, SettingError, Text, TextClassifier
from ensue.cli import main
from ensue.data.histories import Histories
from ensue.demo.cascades import make_cascades
from ensue.demo.models import written
from ensue.demo.town import make_town, texts_of
from ensue.export import MAX_DIFFERENCE, export_onnx
from ensue.learning.state import evaluating
from ensue.predictor import load
from ensue.store.graph import Graph
from ensue.tasks.link.catalogue import MODELS as LINK
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.suggest.batch import pad, spell
from ensue.tasks.suggest.model import score
from ensue.tasks.suggest.predictor import SuggestPredictor
from tests.cli.test_without_torch import run

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
EXAMPLES = Path(__file__).parents[1] / "examples" / "onnx"
NETWORKS = [name for name, (_, _, schedule) in MODELS.items() if schedule is not None and not name.endswith("-paper")]
SMALL = {
    "dim": 8, "table_dim": 8, "heads": 2, "coverage": 4, "epochs": 1, "refit": False, "negatives": 16,
}  # fmt: skip
DATA = make_cascades(num_cascades=60, seed=3)


def fitted(name: str, folder: Path, **changes: object) -> NextPredictor:
    """A small model, saved."""
    rows = (MODELS[name][1], MODELS[name][2])
    settings = {key: value for key, value in {**SMALL, **changes}.items() if any(hasattr(row, key) for row in rows)}
    predictor = NextPredictor(name, settings=settings, device="cpu")
    for _ in predictor.fit(DATA.train):
        pass
    predictor.save(folder)
    return predictor


@pytest.mark.parametrize("name", [*NETWORKS, "sansr of two blocks"])
def test_every_network_of_next_answers_the_same(name: str, tmp_path: Path) -> None:
    name, _, blocks = name.partition(" of ")
    predictor = fitted(name, tmp_path / "model", **({"num_layers": 2} if blocks else {}))
    report = export_onnx(tmp_path / "model", tmp_path / "export")
    assert report.difference <= MAX_DIFFERENCE
    exported = load(tmp_path / "export")
    assert isinstance(exported, NextPredictor)
    records = [*DATA.test.records()][:20]
    for expected, answer in zip(predictor.predict(records, 5), exported.predict(records, 5), strict=True):
        assert [choice.value for choice in answer.choices] == [choice.value for choice in expected.choices]
        for choice, right in zip(answer.choices, expected.choices, strict=True):
            assert choice.score == pytest.approx(right.score, abs=1e-5)
            weights = [[attribution.weight for attribution in one.attributions] for one in (choice, right)]
            assert weights[0] == pytest.approx(weights[1], abs=1e-4)
    # Delays are those of the network where it has a density of time.
    delays, expected_delays = (
        [step.after for forecast in one.forecast(records, 2, 1) for step in forecast.steps]
        for one in (exported, predictor)
    )
    np.testing.assert_allclose(delays, expected_delays, rtol=1e-4)
    encoded = DATA.test.encode(predictor.vocabulary)
    ranks, expected_ranks = (model.ranks(encoded)[0] for model in (exported, predictor))
    # Scores that differ in their last bits may change places.
    assert np.mean(ranks != expected_ranks) < 0.01


CLASSIFIERS = ("centrality", "centrality-paper", "tokenrank", "blend", "self-attention", "max", "routing")
LINKERS = ("ast", "cnn", "bigru", "bag")
TOWN = make_town(seed=7, num_posts=120, num_reads=10, num_searches=10)
LABELLED = [text for part in written(TOWN)[:2] for text in texts_of(part)]
LONG = "The council met. " + "The ferry to the old bridge was late again, and nobody knew why. " * 70


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_network_of_classify_answers_the_same(name: str, tmp_path: Path) -> None:
    texts, labels = [text.texts[0] for text in LABELLED], [text.label for text in LABELLED]
    # Documents for one of them, long texts for all.
    options: dict[str, Any] = {"architecture": "hierarchical"} if name == "centrality-paper" else {}
    if name != "decomposable-attention":
        options["score_dim"] = 5
    model = TextClassifier(name, hidden=8, head=8, epochs=2, device="cpu", **options).fit(texts, labels)
    model.save(tmp_path / "model")
    assert export_onnx(tmp_path / "model", tmp_path / "export").difference <= MAX_DIFFERENCE
    exported = TextClassifier.load(tmp_path / "export")
    asked = [*texts[:20], LONG, "", "zyzzyva"]
    np.testing.assert_allclose(exported.predict_proba(asked), model.predict_proba(asked), atol=1e-5)
    # Of equal maxima, as in a text that repeats a sentence, either place may count.
    asked = [text for text in asked if name != "max" or text is not LONG]
    answers = [load(tmp_path / folder).predict([Text((text,)) for text in asked], 1) for folder in ("export", "model")]
    for answer, expected in zip(*answers, strict=True):
        # Equal weights, as of a repeated sentence, may change places.
        weights = [sorted(part.weight for part in one.choices[0].attributions) for one in (answer, expected)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-5)


def test_pairs_are_exported_too(tmp_path: Path) -> None:
    texts = [text.texts[0] for text in LABELLED]
    pairs = list(pairwise(texts))
    labels = [str(LABELLED[row].label == LABELLED[row + 1].label) for row in range(len(pairs))]
    for name in ("blend", "centrality"):
        model = TextClassifier(name, hidden=8, head=8, epochs=1, device="cpu").fit(pairs, labels)
        model.save(tmp_path / "model")
        export_onnx(tmp_path / "model", tmp_path / "export")
        asked = [*pairs[:9], (LONG, "a ferry"), ("a ferry", "")]
        exported = TextClassifier.load(tmp_path / "export")
        np.testing.assert_allclose(exported.predict_proba(asked), model.predict_proba(asked), atol=1e-5)


@pytest.mark.parametrize("name", [*LINKERS, "best"])
def test_every_network_of_link_answers_the_same(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"network": "ast"} if name == "best" else {}
    posts = [post.post for part in written(TOWN)[:2] for post in part if post.post.about]
    settings: dict[str, Any] = {"epochs": 1, "hidden": 8, "filters": 8, "heads": 2, **options}
    known = {
        key: value
        for key, value in settings.items()
        if key in options or hasattr(LINK[name][1], key) or (LINK[name][2] is not None and hasattr(LINK[name][2], key))
    }
    model = PostLinker(name, device="cpu", **known).fit(posts, list(TOWN.articles))
    model.save(tmp_path / "model")
    assert export_onnx(tmp_path / "model", tmp_path / "export").difference <= MAX_DIFFERENCE
    asked = [*posts[:10], Post(LONG), Post("zyzzyva qwx"), Post("")]
    predictor, exported = (load(tmp_path / folder) for folder in ("model", "export"))
    assert isinstance(predictor, LinkPredictor)
    assert isinstance(exported, LinkPredictor)
    for answer, expected in zip(exported.predict(asked, 4), predictor.predict(asked, 4), strict=True):
        assert [choice.value for choice in answer.choices] == [choice.value for choice in expected.choices]
        scores = [[choice.score for choice in one.choices] for one in (answer, expected)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_an_export_answers_without_torch_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictor = fitted("cascade-blend", tmp_path / "model")
    record = next(iter(DATA.test.records()))
    lines = [f"q,{time},{value}\n" for value, time in zip(record.values[:4], record.times[:4], strict=True)]
    (tmp_path / "ask.csv").write_text("session,time,item\n" + "".join(lines))
    export_onnx(tmp_path / "model", tmp_path / "export")
    before = {path.name: path.read_bytes() for path in (tmp_path / "export").iterdir()}
    fitted("core", tmp_path / "other")
    with pytest.raises(SettingError, match="other: holds a trained model, which an export would replace; give another"):
        export_onnx(tmp_path / "model", tmp_path / "other")
    assert load(tmp_path / "other").metadata.exported is None
    export_onnx(tmp_path / "model", tmp_path / "export")  # an older export is replaced
    results = run(
        tmp_path, "predict export ask.csv --json", "explain export ask.csv", "evaluate export ask.csv --json",
        "update export ask.csv", "forget export --user q", "export model --onnx again",
    )  # fmt: skip
    assert [code for code, _, _ in results] == [0, 0, 0, 2, 2, 2], results
    values = [choice.value for choice in predictor.predict([History(record.values[:4], record.times[:4])])[0].choices]
    assert [choice["value"] for choice in json.loads(results[0][1])["choices"]] == values
    refused = "an exported model answers, but cannot be changed or saved"
    assert all(refused in errors for _, _, errors in results[3:5])
    assert results[5][2] == f"ensue: export: needs PyTorch, which is not installed; {ensue.lazy.INSTALL}\n"
    del before["CARD.md"]  # the evaluation writes its metrics there
    assert {name: (tmp_path / "export" / name).read_bytes() for name in before} == before


def test_examples_answer_without_ensue(tmp_path: Path) -> None:
    predictor = fitted("core", tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "export")
    record = History(next(iter(DATA.test.records())).values[:4])
    expected = [choice.value for choice in predictor.predict([record], 5, exclude_seen=False)[0].choices]
    for program, name in ((sys.executable, "recommend.py"), ("node", "recommend.mjs")):
        if program == "node" and (reason := without_node()):
            pytest.skip(reason)
        words = [program, str(EXAMPLES / name), "export", *record.values]
        printed = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True).stdout
        assert [line.split()[0] for line in printed.splitlines()] == expected


def without_node() -> str:
    """Why the example in JavaScript cannot be run; empty where it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    found = subprocess.run(
        ["node", "--input-type=module", "-e", "import 'onnxruntime-node'"],
        capture_output=True,
        cwd=EXAMPLES,
        check=False,
    )
    return "" if found.returncode == 0 else "onnxruntime-node is not installed beside the examples"


@pytest.mark.parametrize("name", ["mtn", "best", "transformer"])
def test_graphs_of_suggest_score_as_the_network(name: str, tmp_path: Path) -> None:
    sessions = [
        History(("ferry times", "ferry prices", "old bridge")[: 2 + row % 2], id=f"s{row}") for row in range(12)
    ]
    sizes = {"dim": 8, "embedding": 8, "wide": 8, "heads": 2, "epochs": 1, "min_users": 1}
    model = QuerySuggester(name, device="cpu", **sizes).fit(sessions)
    model.save(tmp_path / "model")
    report = export_onnx(tmp_path / "model", tmp_path / "export")
    assert {*report.sizes} == {"encoder.onnx", "decoder.onnx", "attributions.onnx"}
    assert report.difference <= MAX_DIFFERENCE
    predictor, exported = (load(tmp_path / folder) for folder in ("model", "export"))
    assert isinstance(predictor, SuggestPredictor)
    assert isinstance(exported, SuggestPredictor)
    asked = [*sessions[:3], History(("bridge", "zyzzyva")), History(())]
    prefixes = ["", "ol", "", "f", "fe"]
    pairs = zip(exported.predict(asked, 4, prefix=prefixes), predictor.predict(asked, 4, prefix=prefixes), strict=True)
    for answer, right in pairs:
        assert [choice.value for choice in answer.choices] == [choice.value for choice in right.choices]
        for choice, other in zip(answer.choices, right.choices, strict=True):
            assert choice.score == pytest.approx(other.score, abs=1e-5)
            weights = [[part.weight for part in one.attributions] for one in (choice, other)]
            assert weights[0] == pytest.approx(weights[1], abs=1e-5)
    words = [np.array(one.explain(asked[:1])[0].weights) for one in (exported, predictor)]
    np.testing.assert_allclose(words[0], words[1], atol=1e-5)
    (tmp_path / "ask.csv").write_text("session,time,query\nq,1,ferry times\n")
    results = run(tmp_path, "predict export ask.csv --json", "explain export ask.csv --json", "update export ask.csv")
    assert [code for code, _, _ in results] == [0, 0, 2], results
    best = predictor.predict([History(("ferry times",))])[0].choices[0].value
    assert json.loads(results[0][1])["choices"][0]["value"] == best
    batch = pad([[[4, 5], [4]], [[5]]])
    candidates = pad([[[5, 4], [4]], [[4], [5, 5]]]).words
    with torch.no_grad():
        network = evaluating(predictor.network)
        expected = score(network.writer, network.encode(batch), candidates).numpy()
    keys, mask, source = Graph.read(tmp_path / "export", "encoder.onnx")(
        {"words": batch.words.numpy(), "lengths": batch.lengths.numpy()}
    )
    decoder = Graph.read(tmp_path / "export", "decoder.onnx")
    for column in range(2):
        read, targets = spell(candidates[:, column], (candidates[:, column] > 0).sum(1))
        inputs = {"keys": keys, "mask": mask, "source": source, "read": read.numpy(), "targets": targets.numpy()}
        totals, latest = decoder(inputs)
        np.testing.assert_allclose(totals, expected[:, column], rtol=1e-5, atol=1e-5)
        assert np.exp(latest).sum(1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["gru4rec", "sr-gnn"])  # the one multiplies by matrices, the other by a vector too
def test_int8_is_smaller_and_close(name: str, tmp_path: Path) -> None:
    fitted(name, tmp_path / "model", dim=64)
    full = export_onnx(tmp_path / "model", tmp_path / "full")
    small = export_onnx(tmp_path / "model", tmp_path / "small", precision="int8")
    assert sum(small.sizes.values()) < sum(full.sizes.values())
    assert full.difference < small.difference < 1
    assert load(tmp_path / "small").metadata.exported is not None


def test_what_has_no_network_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = NextPredictor("markov")
    for _ in predictor.fit(Histories.of([History(("a", "b"))])):
        pass
    predictor.save(tmp_path / "model")
    with pytest.raises(SettingError, match="markov has no network to export; `ensue serve` answers"):
        export_onnx(tmp_path / "model", tmp_path / "export")
    with pytest.raises(SettingError, match="is the folder that is exported"):
        export_onnx(tmp_path / "model", tmp_path / "model")
    assert not (tmp_path / "export").exists()
    monkeypatch.setattr("sys.argv", ["ensue", "export", str(tmp_path / "nowhere"), "--onnx", str(tmp_path / "export")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
