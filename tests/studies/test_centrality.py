"""The study of centrality on made-up sets: rows and keys, cells that are not trained again, and what the page says."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC

from ensue import DataError, SettingError, Text, __version__
from ensue.data.texts import Texts
from ensue.evaluation.bootstrap import RESAMPLES
from ensue.evaluation.classify import LabelledTexts, TextLabels
from ensue.evaluation.comparison import evaluate
from ensue.tasks.classify.catalogue import COUNTING
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue_studies import PAPERS, centrality
from ensue_studies.centrality import (
    METRICS,
    PRINTED,
    SETTINGS,
    STATISTICS,
    Answers,
    by_length,
    convergence,
    find_sets,
    half_width,
    labels_of,
    leaked,
    resample,
    svc_answers,
)
from ensue_studies.results import Study
from ensue_studies.runner import Plan, Request
from tests.studies.watcher import Watcher

MODELS = ("centrality", "self-attention")
DETAILS = {"between": True, "graphs": 10, "batch": 4, "long": 6, "repeats": 1, "timed": {}}
TINY = Plan(options={"epochs": 1, "hidden": 4, "head": 4, "score_dim": 3}, test_size=25, resamples=100, details=DETAILS)
WORDS = {"good": "1", "fine": "1", "bad": "0", "dull": "0"}
FILLER = ("a", "film", "plot", "the", "it", "and")


def sentences(num: int, seed: int) -> list[tuple[str, str]]:
    """(label, text): the one word of ``WORDS`` in it says the label."""
    random, found = np.random.default_rng(seed), []
    for index in range(num):
        words = list(random.choice(FILLER, int(random.integers(2, 7))))
        said = list(WORDS)[index % len(WORDS)]
        words.insert(int(random.integers(len(words))), said)
        found.append((WORDS[said], " ".join(words)))
    return found


def pack(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_sst2(folder: Path, seed: int = 0) -> None:
    for place, (part, num) in enumerate({"train": 60, "dev": 20, "test": 30}.items()):
        pack(folder / "sst2" / f"{part}.tsv.xz", (f"{a}\t{b}" for a, b in sentences(num, seed + place)))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds SST-2, SNLI and vectors, in the layouts of the real ones."""
    folder = tmp_path_factory.mktemp("data")
    write_sst2(folder / "text")
    for part, place, num in (("dev", "snli", 20), ("test", "snli", 10), ("original.train", "snli_cad", 8)):
        rows = (f"{a}\tpremise {i // 2} {part}\t{b}" for i, (a, b) in enumerate(sentences(num, num)))
        pack(folder / "text" / place / f"{part}.tsv.xz", rows)
    rows = (f"1\tpremise 0 {i}\tit is good" for i in range(3))
    pack(folder / "text" / "snli_cad" / "revised_combined.train.tsv.xz", rows)
    words = np.array([*WORDS, *FILLER])
    vectors = np.random.default_rng(0).normal(size=(len(words), 6)).astype(np.float16)
    (folder / "text" / "vectors").mkdir()
    np.savez(folder / "text" / "vectors" / "sgns100.npz", vectors=vectors, words="\n".join(words))
    return folder


def run(
    data: Path, monkeypatch: pytest.MonkeyPatch, cache: Path | None = None, **options: object
) -> tuple[Study, Watcher]:
    monkeypatch.setattr(centrality, "FULL", TINY)
    watcher = Watcher()
    chosen = {"models": MODELS, "quick": False, "seeds": 1, **options}
    found = centrality.run(data, Request(**chosen, log=watcher.log, progress=watcher.progress, cache=cache))  # type: ignore[arg-type]
    return found, watcher


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Watcher, Path]:
    kept = tmp_path_factory.mktemp("kept") / "centrality.runs.json"
    with pytest.MonkeyPatch.context() as monkeypatch:
        return (*run(data, monkeypatch, kept, seeds=2), kept)


def test_every_set_has_a_row_for_each_pooling_and_each_counting_model(finished: tuple[Study, Watcher, Path]) -> None:
    study, watcher, _ = finished
    rows = study.tables["overall"]
    names = [(row["data"], row["model"]) for row in rows]
    expected = [("sst2", name) for name in (*MODELS, *COUNTING, "linear-svc")]
    assert names == expected + [("snli", name) for name in (*MODELS, *COUNTING)]  # no SVM of pairs of texts
    assert watcher.trained == 2 * len(MODELS) * 2  # sets, poolings, seeds
    for row in rows:
        assert (row["seeds"], "epoch_seconds" in row) == ((2, True) if row["model"] in MODELS else (1, False))
        assert row["tested"] == (25 if row["data"] == "sst2" else 10)
        for measure in METRICS:
            low, high = row["interval"][measure]
            assert 0 <= low <= row[measure] <= high <= 1
    sst2 = {row["model"]: row for row in rows[: len(MODELS) + len(COUNTING)]}
    assert sst2["tfidf"]["accuracy"] == 1.0  # one word says the label
    assert sst2["centrality"]["paper"] == 88.5 and sst2["self-attention"]["paper"] == 86.4
    assert sst2["tfidf"]["paper"] is None


def test_settings_curves_steps_and_cost(finished: tuple[Study, Watcher, Path]) -> None:
    study, _, _ = finished
    here, paper = study.tables["settings"][:2]
    assert (here["dim"], here["hidden"], here["learning_rate"], here["smallest_batch"]) == (6, 4, 3e-4, 16)
    assert (paper["dim"], paper["hidden"], paper["learning_rate"], paper["smallest_batch"]) == (300, 300, 3e-4, 16)
    assert study.tables["settings"][2]["weight_decay"] == 1e-20  # the column SNLI of Table 2
    curves = [(row["data"], row["model"], row["epoch"], row["best"]) for row in study.tables["curves"]]
    assert curves == [("sst2", "centrality", 1, True), ("snli", "centrality", 1, True)]
    assert all(0 <= row["second_eigenvalue"] <= row["dobrushin"] <= 1 for row in study.tables["curves"])
    steps = [row for row in study.tables["convergence"] if row["data"] == "sst2"]
    assert sum(row["graphs"] for row in steps) == DETAILS["graphs"] and {row["graphs_of"] for row in steps} == {"words"}
    assert all(1 <= row["median"] <= row["largest"] <= 5000 for row in steps)
    cost = [(row["lengths"], row["model"]) for row in study.tables["cost"]]
    assert cost == [(kind, name) for kind in ("like SST", "6 each") for name in ("self-attention", "centrality")]
    assert [row["ratio"] for row in study.tables["cost"] if row["model"] == "self-attention"] == [1.0, 1.0]


def test_data_and_leaks(finished: tuple[Study, Watcher, Path], tmp_path: Path) -> None:
    study, _, _ = finished
    sst2, paper, snli, _ = study.tables["statistics"]
    assert (sst2["train"], sst2["dev"], sst2["test"], sst2["classes"]) == (60, 20, 30, 2)
    assert sst2["vocabulary"] == len(WORDS) + len(FILLER) and paper["train"] == 6920
    assert (snli["train"], snli["dev"], snli["test"]) == (20 + 8 + 3, 0, 10)
    assert [row["also_trained_on"] for row in study.tables["leaks"]] == [0, 0]
    pack(tmp_path / "trec" / "train.tsv.xz", ["1\tWho is it ?", "0\tWhy | not ?", "1\tWhere ?"])
    pack(tmp_path / "trec" / "test.tsv.xz", ["1\twho  is it ?", "1\twhy | not ?", "0\tWhen ?"])
    (texts,), _ = find_sets(tmp_path)
    found = leaked(texts)
    assert (found["test_texts"], found["also_trained_on"], found["under_another_label"]) == (3, 2, 1)
    assert found["example"] == "who is it ?"


def test_the_page_says_what_it_must(finished: tuple[Study, Watcher, Path]) -> None:
    page = finished[0].page
    assert "Quick run" not in page and "with 2 seeds" in page
    assert "## Table 1: the data" in page and "## Table 2: the settings" in page and "### Leaks" in page
    assert "## Table 3: sst2" in page and "## Table 4: snli" in page
    row = next(line for line in page.splitlines() if line.startswith("| centrality |"))
    assert row.endswith("| 88.5 ± 1.5 |")  # 1.96 sqrt(88.5 x 11.5 / 1821) = 1.465
    assert "trained on thirty times the pairs" in page and "intra-attention, 84.2" in page
    assert "Not available: sst1, sst2-phrases, trec, imdb, imdb-ratings." in page
    assert "centrality is right on " in page and " tfidf (" in page and "majority (" not in page
    assert "**centrality is not better than self-attention here**" in page and "| 1 (kept) |" in page
    # Ten texts of SST-2, and ten pairs of SNLI with two graphs each.
    assert "200 steps of the paper's cap: 100.0 % of 30 graphs of centrality." in page
    assert "5 times the time of attentive pooling" in page
    assert "2,201; the standard split has 2,210" in page


def test_the_figures_hold_the_tables(finished: tuple[Study, Watcher, Path], tmp_path: Path) -> None:
    study, _, _ = finished
    titles = [figure.layout.title.text for figure in study.plots]
    assert titles == [
        "Table 3: accuracy (sst2)",
        "|lambda_2| by epoch (sst2)",
        "Figure 4: steps to converge (sst2, centrality)",
        "Table 4: accuracy (snli)",
        "|lambda_2| by epoch (snli)",
        "Figure 4: steps to converge (snli, centrality)",
        "Time of a training step over self-attention's",
    ]
    rows = [row for row in study.tables["overall"] if row["data"] == "sst2"]
    here, paper = study.plots[0].data
    assert list(here.y) == [100 * row["accuracy"] for row in rows] and list(paper.y)[:2] == [88.5, 86.4]
    study.write(tmp_path / "centrality.json")
    assert json.loads((tmp_path / "centrality.json").read_text())["tables"].keys() == study.tables.keys()
    assert (tmp_path / "centrality.md").read_text() == study.page


def test_finished_cells_are_not_trained_again(
    finished: tuple[Study, Watcher, Path], data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study, _, kept = finished
    copy = tmp_path / "again.runs.json"
    copy.write_bytes(kept.read_bytes())
    again, watcher = run(data, monkeypatch, copy, seeds=2)
    assert watcher.trained == 0 and again.tables == study.tables and again.page == study.page
    cells = json.loads(copy.read_text())["runs"]
    assert len(cells) == 2 * (len(MODELS) * 2 + 1) + 2  # the linear SVM of sst2, and the time of a step
    assert all(cell["ensue"] == __version__ for cell in cells.values())
    assert str(data) not in copy.read_text()  # other machines keep their data elsewhere
    gone = next(name for name in cells if json.loads(name).get("model") == "self-attention")
    copy.write_text(json.dumps({"runs": {name: cell for name, cell in cells.items() if name != gone}}))
    once, watcher = run(data, monkeypatch, copy, seeds=2)
    figures = [[row[m] for row in found.tables["overall"] for m in METRICS] for found in (study, once)]
    assert watcher.trained == 1 and figures[0] == figures[1]  # the same seed


def test_other_data_or_seeds_are_other_cells(
    finished: tuple[Study, Watcher, Path], data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "more.runs.json"
    copy.write_bytes(finished[2].read_bytes())
    _, watcher = run(data, monkeypatch, copy, models=("self-attention",), seeds=3)
    assert watcher.trained == 2  # the third seed of either set
    write_sst2(tmp_path / "other", seed=7)
    alone, watcher = run(tmp_path / "other", monkeypatch, copy, models=("self-attention",))
    assert watcher.trained == 1 and "trained vectors" in alone.page
    assert [row["model"] for row in alone.tables["overall"]] == ["self-attention", "tfidf", "majority", "linear-svc"]
    assert [(row["model"], row["other"]) for row in alone.tables["paired_tests"]] == [("tfidf", "linear-svc")]
    assert "No pooling by a word graph was trained." in alone.page


def test_quick_says_so(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(centrality, "QUICK", TINY)
    write_sst2(tmp_path)
    study, watcher = run(tmp_path, monkeypatch, models=("mean",), quick=True)
    assert "**Quick run**" in study.page and "compares with the paper's" in study.page
    assert watcher.told[0].startswith("finished runs are not cached; with --json FILE")


def test_quick_leaves_out_what_needs_the_long_run(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centrality, "QUICK", replace(TINY, sets=("sst2",), details={**DETAILS, "between": False}))
    study, _ = run(data, monkeypatch, quick=True)
    assert {row["data"] for row in study.tables["overall"]} == {"sst2"}
    assert {row["other"] for row in study.tables["paired_tests"]} == {"tfidf", "vectors", "linear-svc"}
    assert "the long run (without `--quick`): snli, paired tests between poolings." in study.page


def test_baselines_can_be_run_alone(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, watcher = run(data, monkeypatch, models=("linear-svc",))
    names = [row["model"] for row in study.tables["overall"] if row["data"] == "sst2"]
    assert names == ["tfidf", "vectors", "majority", "linear-svc"] and watcher.trained == 0
    (texts, _), _ = find_sets(data)
    answers = Answers.unpack(svc_answers(texts))
    vectorizers = [TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)]
    vectorizers += [TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)]
    pipeline = make_pipeline(make_union(*vectorizers), LinearSVC(random_state=0))
    pipeline.fit(texts.train.texts[0].to_list(), texts.train.labels)
    predicted = pipeline.predict(texts.test.texts[0].to_list()).tolist()
    assert [labels_of(texts)[code] for code in answers.predicted] == predicted
    assert np.all((answers.probability >= 0) & (answers.probability <= 1))


def test_resampling_is_the_referees(data: Path) -> None:
    (texts, _), _ = find_sets(data)
    predictor = ClassifyPredictor("tfidf", settings={"strength": 0.1})
    list(predictor.fit(texts.train, texts.valid))
    expected = evaluate(predictor, texts.test).rows[0]
    labels = ["0", "1"]
    examples = LabelledTexts([[predictor]], texts.test)
    assert sorted(examples.labels) == labels == examples.labels
    scored = examples.score(predictor)
    assert isinstance(scored, TextLabels)
    packed = json.loads(json.dumps(Answers(scored.predicted, scored.probability).pack()))
    answers = Answers.unpack(packed)
    assert answers.predicted.tolist() == scored.predicted.tolist()
    assert np.abs(answers.probability - scored.probability).max() <= 0.5 / 65_535 + 1e-12
    found = resample({"tfidf": [answers]}, scored.targets, np.arange(len(texts.test)), RESAMPLES)["tfidf"]
    for measure in METRICS:
        assert found.by_name()[measure] == pytest.approx(expected.figures[measure], abs=1e-5)
        low, high = expected.interval[measure]
        assert found.interval(centred=True)[measure] == pytest.approx((low, high), abs=1e-4)


def test_paired_verdict_by_hand() -> None:
    # Three owners of two texts each. One model is right on all, the other on none of owner 0: 4 of 6.
    targets, owners = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 0, 1, 1, 2, 2])
    good = Answers(targets, np.full(6, 0.8))
    worse = Answers(np.array([1, 0, 0, 1, 0, 1]), np.full(6, 0.8))
    found = resample({"good": [good], "worse": [worse]}, targets, owners, resamples=2000)
    verdict = found["good"].against(found["worse"], "accuracy")
    assert verdict["difference"] == pytest.approx(1 / 3)
    # Owner 0 is never drawn in (2/3)^3 of the resamples, which is when the difference is 0: p = 2 x 0.296.
    assert verdict["p_value"] == pytest.approx(2 * (2 / 3) ** 3, abs=0.06)
    assert (verdict["low"], verdict["high"]) == (0.0, 1.0)  # 1 where owner 0 is drawn three times: 3.7 % of the time
    assert [*found["good"].by_name().values()] == pytest.approx([1.0, 1.0, 0.2])  # right on all, and 0.8 sure: 0.2 off
    assert [*found["worse"].by_name().values()] == pytest.approx([4 / 6, 4 / 6, 0.8 - 4 / 6])


def test_steps_are_those_of_a_plain_loop(data: Path) -> None:
    (texts, _), _ = find_sets(data)
    settings = {**TINY.options, "score_dim": 2}
    predictor = ClassifyPredictor("centrality-bilinear", settings=settings)
    list(predictor.fit(texts.train, texts.valid))
    network: Any = predictor.module
    with torch.no_grad():
        for parameter in network.words.pool.score.parameters():
            parameter *= 4  # slower walks
    longest = texts.test.select(texts.test.texts[0].str.split(" ").list.len().to_numpy() == 7)
    (row,) = convergence(predictor, longest, 3)
    chosen = longest.select(np.linspace(0, len(longest) - 1, 3).astype(np.int64))
    steps = []
    for record in chosen.records():
        batch = predictor.passages(predictor.encode(Texts.of([record]))).batch(np.arange(1))
        (graph,) = network.double()(batch).words[0].graph.detach()
        share, moved, taken = torch.full((7,), 1 / 7).double(), 1.0, 0
        while moved > 1e-10:
            share, before, taken = graph @ share, share, taken + 1
            moved = float((share - before).abs().sum())
        steps.append(taken)
    assert (row["length"], row["graphs"], row["largest"]) == ("5-8", 3, max(steps))
    assert row["median"] == sorted(steps)[1] and row["within_200"] == np.mean(np.array(steps) <= 200)


def test_classes_of_length_by_hand() -> None:
    graphs = np.array([[1, 2, 4, 5, 200, 300], [1, 10, 30, 250, 7, 9], [0.0, 0.1, 0.3, 0.9, 0.5, 0.7]])
    short, middle, long = by_length("words", graphs)  # the graph of one word is left out
    assert (short["length"], short["graphs"], short["median"], short["largest"]) == ("2-4", 2, 20, 30)
    assert (middle["length"], middle["within_200"], middle["second_eigenvalue"]) == ("5-8", 0.0, 0.9)
    assert (long["length"], long["median"], long["within_200"]) == ("129+", 8, 1.0)
    assert long["second_eigenvalue"] == pytest.approx(0.6)


def test_trees_are_read_as_polarity(tmp_path: Path) -> None:
    trees = ["(3 (2 It) (4 works))", "(1 (2 It) (0 fails))", "(2 (2 It) (2 is))", "(4 (2 It) (3 works))"]
    for part in ("train", "dev", "test"):
        pack(tmp_path / "sst_trees" / f"{part}.txt.xz", trees)
    (texts,), absent = find_sets(tmp_path)
    rows = [(record.texts[0], record.label) for record in texts.train.records()]
    # "It works" is 3 and 4, both positive, and stands once; so does "works"; what is neutral is left out.
    assert rows == [("It works", "1"), ("works", "1"), ("It fails", "0"), ("fails", "0")]
    assert list(texts.test.records()) == [
        Text(("It works",), "1"),
        Text(("It fails",), "0"),
        Text(("It works",), "1"),
    ]
    assert texts.name == "sst2-phrases" and "sst2" in absent


def test_reviews_have_polarity_and_ratings(tmp_path: Path) -> None:
    lines = [
        f"{'pos' if i % 2 else 'neg'}/{i}\tfilm{i // 4}\t{(2, 9, 1, 10)[i % 4]}\tIt . <sssss> So ." for i in range(16)
    ]
    for part in ("train", "test"):
        pack(tmp_path / "imdb50k" / f"{part}.tsv.xz", lines)
    (polar, rated), _ = find_sets(tmp_path)
    assert [texts.train.labels[1] for texts in (polar, rated) if texts.train.labels is not None] == ["pos", "9"]
    assert polar.fingerprint != rated.fingerprint
    assert rated.train.groups is not None and rated.train.groups[4] == "film1"
    assert len(rated.subset(5, 3).train) == 5 and len(rated.subset(5, 3).test) == 3


@pytest.mark.parametrize(
    ("slow", "says"),
    [
        (0.01, "is plain self-attention"),
        (0.1, "differ in 23 % of their weight. At 0 centrality is self-attention"),
        (0.6, "weighed in another way"),
    ],
)
def test_what_the_curve_says(slow: float, says: str) -> None:
    found = centrality.explain(slow, 0.23)
    assert says in found and f"is {slow:.3f} on average" in found


@pytest.mark.parametrize(
    ("accuracy", "difference", "p_value", "says"),
    [
        (0.8, 0.00, 1.0, "here** (80.00 against 80.00). |lambda_2| of its word graphs is 0.100 on average"),
        (0.8, -0.05, 0.01, "little room to differ, and so to gain. That it is significantly worse comes then from"),
        (0.52, -0.28, 0.01, "not clearly above the most frequent label (51.00): it is hardly trained"),
        (0.9, 0.10, 0.01, ""),
    ],
)
def test_the_reason_fits_the_figures(accuracy: float, difference: float, p_value: float, says: str) -> None:
    def row(model: str, value: float) -> dict[str, object]:
        interval = dict.fromkeys(METRICS, (value - 0.02, value + 0.02))
        return {
            "data": "trec",
            "model": model,
            **dict.fromkeys(METRICS, value),
            "interval": interval,
            "paper": None,
            "seeds": 1,
        }

    rows = [row("centrality", accuracy), row("self-attention", accuracy - difference), row("majority", 0.51)]
    verdict = {"other": "self-attention", "difference": difference, "low": -1.0, "high": 1.0, "p_value": p_value}
    epoch = {"epoch": 1, "second_eigenvalue": 0.1, "dobrushin": 0.2, "accuracy": 0.5, "best": True}
    shared = {"data": "trec", "model": "centrality"}
    empty: dict[str, list[dict[str, object]]] = {
        name: [] for name in ("statistics", "leaks", "settings", "convergence", "cost")
    }
    tables = {**empty, "overall": rows, "paired_tests": [{**shared, **verdict}]}
    page = centrality.write("", {**tables, "curves": [{**shared, **epoch}]})
    assert says in page and ("is not better than" in page) == bool(says)


def test_the_papers_numbers() -> None:
    assert PRINTED["sst1"]["centrality"] == 51.6 and PRINTED["sst2"]["max"] == 87.0
    assert PRINTED["snli"]["mean"] == 83.4 and "routing" not in PRINTED["snli"] and "trec" not in PRINTED
    assert PRINTED["imdb-10"]["centrality"] - PRINTED["imdb-10"]["routing"] == pytest.approx(3.1)
    assert STATISTICS["sst1"]["test"] == 2201 and SETTINGS["snli"]["decay_steps"] == 20_000
    # One run each: the 95 % of a share on so many texts. 1.96 sqrt(51.6 x 48.4 / 2210) = 2.08.
    assert half_width(51.6, 2210) == pytest.approx(2.08, abs=0.01)
    assert PRINTED["sst1"]["centrality"] - half_width(51.6, 2210) < PRINTED["sst1"]["routing"]


def test_refusals(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"'tfidf' has no row in this study; choose from centrality, .*\(baselines"):
        run(data, monkeypatch, models=("tfidf",))
    with pytest.raises(DataError) as nothing:
        run(tmp_path, monkeypatch)
    assert str(nothing.value) == (
        f"{tmp_path}: none of sst1, sst2, sst_trees, trec, imdb50k, snli exists; name the folder that holds them"
    )
    (tmp_path / "trec").mkdir()
    with pytest.raises(DataError, match=r"train\.tsv: does not exist, plain, \.gz or \.xz; a data set needs all"):
        run(tmp_path, monkeypatch)


def test_the_command_line_finds_it() -> None:
    assert "centrality" in PAPERS


def test_a_blend_brings_the_row_of_its_network(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, watcher = run(data, monkeypatch, models=("blend", "centrality"))
    assert watcher.trained == 2  # sets
    alone, _ = run(data, monkeypatch, models=("centrality",))
    expected = [row for row in alone.tables["overall"] if row["model"] == "centrality"]
    found = [row for row in both.tables["overall"] if row["model"] == "centrality"]
    times = ("epoch_seconds", "seconds_to_score")
    assert len(expected) == 2
    for mine, theirs in zip(found, expected, strict=True):
        assert {key: mine[key] for key in mine if key not in times} == {
            key: theirs[key] for key in mine if key not in times
        }
    assert both.tables["curves"] == alone.tables["curves"] and both.tables["convergence"] == alone.tables["convergence"]


def test_reviews_have_the_rows_of_their_plan() -> None:
    assert set(centrality.FULL.models) == {"sst2-phrases", "imdb", "imdb-ratings"}
    assert all(set(rows) <= set(centrality.TRAINED) for rows in centrality.FULL.models.values())
