"""The study of AST on made-up corpora: rows and keys, cells that are not trained again, and what the page says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue import DataError, SettingError
from ensue.evaluation.bootstrap import RESAMPLES
from ensue.evaluation.comparison import compare
from ensue.evaluation.link import METRICS
from ensue.tasks.link.catalogue import COUNTING
from ensue.tasks.link.predictor import LinkPredictor
from ensue_studies import PAPERS, ast
from ensue_studies.ast import (
    OVERALL,
    PRECISION,
    bootstrap_of,
    find_sets,
    find_vectors,
    sparse_weights,
    weights_sentence,
)
from ensue_studies.results import Study
from ensue_studies.runner import Plan, Request
from tests.encoders import install
from tests.studies.watcher import Watcher

CHOSEN = ("ast", "cnn", "best", "best-alone", "best+ast")
TINY = Plan(options={"heads": 2, "dim": 8, "hidden": 8, "filters": 4, "epochs": 1}, max_seeds={"clickbait22": 1})
THINGS = ("bridge", "budget", "school", "river", "market", "train", "stadium", "museum")
FILLER = ("the", "town", "says", "that", "new", "old", "people", "today", "again", "more")


def words(random: np.random.Generator, thing: str, number: int, size: int) -> str:
    picked = [*random.choice(FILLER, size), thing, f"{thing}{number}"]
    return " ".join(random.permutation(picked).tolist())


def write(folder: Path, seed: int = 0, articles: int = 24, each: int = 3) -> None:
    """The layout of the real sets: every third article is of another part."""
    random = np.random.default_rng(seed)
    posts, stories = [], []
    for number in range(articles):
        thing, part = THINGS[number % len(THINGS)], ("train", "train", "valid", "test")[number % 4]
        body = [words(random, thing, number, 12) for _ in range(2)]
        stories.append({"id": f"a{number}", "title": words(random, thing, number, 2), "claim": "", "body": body})
        posts += [
            {"text": words(random, thing, number, 5), "articles": [f"a{number}"], "split": part} for _ in range(each)
        ]
    folder.mkdir(parents=True)
    for name, rows in (("posts", posts), ("articles", stories)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder / "links" / "politifact")
    write(folder / "links" / "clickbait22", seed=1, articles=16, each=2)
    (folder / "text" / "vectors").mkdir(parents=True)
    known = np.array([*THINGS, *FILLER])
    vectors = np.random.default_rng(0).normal(size=(len(known), 8)).astype(np.float16)
    np.savez(folder / "text" / "vectors" / "sgns100.npz", vectors=vectors, words="\n".join(known))
    return folder


def run(data: Path, cache: Path | None = None, **options: Any) -> tuple[Study, Watcher]:
    watcher = Watcher()
    chosen = {"models": CHOSEN, "quick": False, "seeds": 1, **options}
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(ast, "FULL", TINY)
        return ast.run(data, Request(**chosen, log=watcher.log, progress=watcher.progress, cache=cache)), watcher


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Watcher, Path]:
    kept = tmp_path_factory.mktemp("kept") / "ast.runs.json"
    return (*run(data, kept, seeds=2), kept)


def test_every_set_has_a_row_for_each_model(finished: tuple[Study, Watcher, Path]) -> None:
    study, watcher, _ = finished
    rows = {(row["data"], row["model"]): row for row in study.tables["overall"]}
    assert [*rows] == [(name, model) for name in ("politifact", "clickbait22") for model in (*CHOSEN, *COUNTING)]
    assert watcher.trained == 2 * 2 + 2 + 2  # two networks: two seeds of the one set, one of the other; and best+ast
    for row in rows.values():
        assert row["seeds"] == (2 if row["data"] == "politifact" and row["model"] in ast.NETWORKS else 1)
        for measure in METRICS:
            low, high = row["interval"][measure]
            assert 0 <= low <= high <= 1 and 0 <= row[measure] <= 1
    assert rows["politifact", "ast"]["paper"] == {"pooled_ap": 53.01, "auc": 97.5, "mrp": 81.31}
    assert rows["politifact", "best"]["mrr"] > 0.6  # a post names a word that only its article has


def test_figures_are_the_referees(data: Path, finished: tuple[Study, Watcher, Path]) -> None:
    corpus = find_sets(data)[0][0].train
    predictor = LinkPredictor("best")
    list(predictor.fit(corpus))
    expected = {row.model: row for row in compare([[predictor]], corpus).rows}
    rows = {row["model"]: row for row in finished[0].tables["overall"] if row["data"] == "politifact"}
    for name in ("best", *COUNTING):
        for measure in METRICS:
            assert rows[name][measure] == pytest.approx(expected[name].figures[measure])
            assert rows[name]["interval"][measure] == pytest.approx(expected[name].interval[measure], abs=1e-4)


def test_heads_cuts_and_maps(finished: tuple[Study, Watcher, Path]) -> None:
    tables = finished[0].tables
    heads = [(row["data"], row["seed"], row["step"]) for row in tables["heads"]]
    assert heads[:4] == [("politifact", seed, step) for seed in (0, 1) for step in ("ring 1", "star 1")]
    assert all(1 < alpha <= 2 for row in tables["heads"] for alpha in row["alphas"])
    cuts = {(row["data"], row["model"], row["at"]): row for row in tables["thresholds"]}
    links = {"politifact": 18, "clickbait22": 8}
    for (name, _, _), row in cuts.items():
        assert row["right"] + row["missed"] == links[name]
        assert row["precision"] == pytest.approx(row["right"] / max(1, row["right"] + row["wrong"]))
    assert ("politifact", "ast", "cosine") in cuts and ("politifact", "best", "cosine") not in cuts
    shown = [row for row in tables["map"] if row["data"] == "politifact"]
    assert [row["model"] for row in shown] == ["cnn", "ast"]
    assert all(len(row["x"]) == len(row["y"]) == 18 and -1 <= row["silhouette"] <= 1 for row in shown)


def test_finished_cells_are_not_trained_again(data: Path, finished: tuple[Study, Watcher, Path]) -> None:
    study, _, kept = finished
    again, watcher = run(data, kept, seeds=2)
    assert watcher.trained == 0 and again.tables == study.tables and again.page == study.page
    _, more = run(data, kept, models=("ast", "gru"))
    assert more.trained == 2  # gru alone


def test_the_page_says_what_stands_in_the_tables(finished: tuple[Study, Watcher, Path]) -> None:
    study, _, _ = finished
    rows = {row["model"]: row for row in study.tables["overall"] if row["data"] == "politifact"}
    assert f"| ast | 2 | {100 * rows['ast']['mrr']:.1f} ±" in study.page
    assert "## Table 1: precision of the r best pairs, politifact" in study.page and "(100.0)" in study.page
    every = study.tables["overall"]
    counted = {
        data: max(row["mrr"] for row in every if row["data"] == data and row["model"] in COUNTING)
        for data in {row["data"] for row in every}
    }
    lost = any(row["mrr"] < counted[row["data"]] for row in every if row["model"] not in COUNTING)
    assert lost == ("By MRR, a baseline is above" in study.page)
    assert "Quick run" not in study.page
    assert len(study.plots) == 1 + 2 * 4
    assert {row["metric"] for row in study.tables["paired_tests"]} == set(ast.TESTED)


def test_rows_that_change_one_thing_of_ast(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "links" / "politifact", articles=8, each=2)
    (tmp_path / "text").symlink_to(data / "text")
    made: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(ast, "QUICK", TINY)

    def make(name: str, settings: dict[str, Any], seed: int) -> LinkPredictor:
        made.append((name, dict(settings)))
        return LinkPredictor(name, settings=settings, seed=seed)

    monkeypatch.setattr(ast, "LinkPredictor", make)
    study, _ = run(tmp_path, quick=True, models=("ast", *ast.VARIANTS))
    rows = [row["model"] for row in study.tables["overall"]]
    assert rows == ["ast", *ast.VARIANTS, *COUNTING] and "| ast-paper | 1 |" in study.page
    first = {name: [own for model, own in made if model == name] for name in ("ast", "ast-paper")}
    assert ["vectors" in own for own in first["ast-paper"]] == [True]
    assert not any("vectors" in own for own in first["ast"])
    taken = [own for own in first["ast"] if own != first["ast"][0]]
    assert {key for own in taken for key in own if own[key] != first["ast"][0].get(key)} == {
        *("pretrain", "residual", "sparse", "scale", "relay", "heads"),
    }  # fmt: skip


def test_figure_1_by_hand() -> None:
    rows = sparse_weights()
    assert [(row["length"], row["normaliser"]) for row in rows] == [
        (length, name) for length in (5, 25) for name in ("softmax", "sparsemax")
    ]
    for row in rows:
        weights = np.array(row["weights"])
        assert weights.shape == (row["length"], row["length"])
        np.testing.assert_allclose(weights.sum(1), 1, atol=2e-3)
        assert row["share of zeros"] == round(float((weights == 0).mean()), 3) or row["normaliser"] == "softmax"
    soft, sparse = rows[2], rows[3]
    assert soft["share of zeros"] == 0 < sparse["share of zeros"]
    assert sparse["words that share 90 %"] < soft["words that share 90 %"]
    assert "of 25 words" in weights_sentence(rows)


def test_seeds_are_drawn_too() -> None:
    import base64

    figures = np.array([[0.2] * len(METRICS), [0.4] * len(METRICS)])
    cells = [
        {
            "figures": dict(zip(METRICS, row, strict=True)),
            "draws": base64.b64encode(np.rint(np.tile(row, (RESAMPLES, 1)) * 65535).astype("<u2").tobytes()).decode(),
        }
        for row in figures
    ]
    both, first = bootstrap_of(cells), bootstrap_of(cells[:1])
    assert [*both.by_name().values()] == pytest.approx([0.3] * len(METRICS))
    assert both.interval()["mrr"] == pytest.approx((0.2, 0.4), abs=1e-4)
    assert first.interval()["mrr"] == pytest.approx((0.2, 0.2), abs=1e-4)
    gap = first.against(bootstrap_of(cells[1:]), "mrr")
    assert gap["difference"] == pytest.approx(-0.2) and gap["p_value"] == pytest.approx(2 / 1001)


def test_quick_and_vectors(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ast, "QUICK", TINY)
    assert find_vectors(data) == find_vectors(data / "links") == data / "text" / "vectors" / "sgns100.npz"
    assert find_vectors(tmp_path) is None
    study, watcher = run(data, quick=True, models=("ast",))
    assert watcher.trained == 2 and "Quick run" in study.page
    assert any("not cached" in line for line in watcher.told)


def test_an_installed_encoder_adds_two_rows(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch)
    kept, encoder = tmp_path / "cells.json", tmp_path / "some" / "where" / "stand-in"
    encoder.mkdir(parents=True)
    study, _ = run(data, kept, models=("best", f"sbert={encoder}"))
    rows = {row["model"]: row for row in study.tables["overall"] if row["data"] == "politifact"}
    assert [*rows] == ["best", "sbert", "best+sbert", "best+sbert-alone", *COUNTING]
    assert rows["sbert"]["mrr"] < rows["best+sbert"]["mrr"]
    assert "sbert is the cosine of an installed encoder, stand-in," in study.page
    assert {row["other"] for row in study.tables["paired_tests"] if row["model"] == "best+sbert"} == {
        *("best", "sbert", "best+sbert-alone"), *COUNTING,
    }  # fmt: skip
    with pytest.raises(SettingError, match="encoder 'nowhere' cannot be read"):
        run(data, models=("ast", "sbert=nowhere"))
    assert "some/where" not in kept.read_text() + study.page + json.dumps(study.tables)


def test_what_cannot_be_done(data: Path, tmp_path: Path) -> None:
    with pytest.raises(
        SettingError, match="model 'bert' has no row in this study; choose from cnn, gru, bigru, ast, ast-paper, "
    ):
        run(data, models=("bert",))
    with pytest.raises(DataError, match="none of politifact, clickbait22 exists"):
        run(tmp_path)
    write(tmp_path / "politifact", articles=2)
    with pytest.raises(DataError, match="no post is of part 'test'; the study needs all three"):
        run(tmp_path)


def test_it_is_a_paper_and_its_printed_figures_fit_each_other() -> None:
    assert "ast" in PAPERS and ast.HEADS.keys() == set(METRICS)
    for name, own in OVERALL.items():
        known = [row[name] for row in PRECISION.values()]
        # mRP is the mean over the seven r and the number of true pairs, so the eighth precision lies between 0 and 60.
        assert 0 < 8 * own["mrp"] - sum(known) < 60
