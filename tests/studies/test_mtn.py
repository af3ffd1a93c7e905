"""The study of MTN on made-up sets: rows and keys, cells that are not trained again, and what the page says."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ensue import DataError, SettingError, __version__
from ensue.evaluation import bootstrap
from ensue.evaluation.comparison import compare
from ensue.evaluation.examples import means_of
from ensue.evaluation.suggest import METRICS
from ensue.tasks.suggest.catalogue import COUNTING, MODELS
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue_studies import PAPERS, mtn
from ensue_studies.mtn import (
    LENGTHS,
    PAPER,
    Targets,
    baselines,
    find_sets,
    pack,
    resample,
    step_times,
    targets_of,
    unpack,
)
from ensue_studies.results import Study
from ensue_studies.runner import CachedRuns, Plan, Request
from tests.studies.watcher import Watcher

ROOMS = (Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "queries").resolve()
real = pytest.mark.skipif(not ROOMS.is_dir(), reason=f"{ROOMS} is not there")
CHOSEN = ("mtn", "seq2seq")
SMALL = {"dim": 8, "embedding": 8}
ATTENDING = {**SMALL, "wide": 8, "heads": 2, "warm_up": 4}
TINY = Plan(
    options={"min_users": 1, "min_count": 1, "epochs": 1, "dropout": 0.0, "batch_size": 8},
    options_of={
        "seq2seq": SMALL,
        **{name: {**ATTENDING, "depth": "1+1"} for name in ("transformer", "flat-transformer")},
        **{name: {**ATTENDING, "depth": "1+1+1"} for name in ("mtn", "best")},
    },
    max_seeds=mtn.FULL.max_seeds,
    test_size=9,
    resamples=50,
    details={
        "depths": [("transformer", "4+4"), ("mtn", "1+1+1"), ("mtn", "2+1+1")],
        "batch": 3,
        "repeats": 1,
    },
)
THINGS = ("boat", "car", "kite", "lamp", "shoe")


def sessions(num: int, seed: int) -> list[list[str]]:
    """Two to four questions about a thing."""
    random, found = np.random.default_rng(seed), []
    for _ in range(num):
        thing = random.choice(THINGS)
        asked = [f"What is a {thing}?", f"where to buy a {thing}", f"how much is a {thing}?", f"is a {thing} old"]
        found.append(asked[: random.integers(2, 5)])
    return found


def write(folder: Path, seed: int = 0) -> None:
    """MS MARCO's layout: a part, whether it is novel, a name, the queries."""
    rows = []
    for place, (name, num) in enumerate({"train": 24, "valid": 8, "test": 14}.items()):
        for number, own in enumerate(sessions(num, seed + place)):
            marked = "-" if name == "train" else ("novel" if number else "overlap")
            rows.append("\t".join([name, marked, f"{name}{number}", *own]))
    (folder / "msmarco").mkdir(parents=True)
    with gzip.open(folder / "msmarco" / "sessions.tsv.gz", "wt") as file:
        file.write("split\toverlap\tsession\tqueries (tab separated, in order)\n" + "\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder / "queries")
    return folder


def run(
    data: Path, monkeypatch: pytest.MonkeyPatch, cache: Path | None = None, **options: object
) -> tuple[Study, Watcher]:
    monkeypatch.setattr(mtn, "FULL", TINY)
    watcher = Watcher()
    chosen = {"models": CHOSEN, "quick": False, "seeds": 1, **options}
    found = mtn.run(data, Request(**chosen, log=watcher.log, progress=watcher.progress, cache=cache))  # type: ignore[arg-type]
    return found, watcher


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Watcher, Path]:
    kept = tmp_path_factory.mktemp("kept") / "mtn.runs.json"
    with pytest.MonkeyPatch.context() as monkeypatch:
        return (*run(data, monkeypatch, kept, seeds=2), kept)


def test_every_model_has_a_row(finished: tuple[Study, Watcher, Path]) -> None:
    study, watcher, _ = finished
    rows = study.tables["overall"]
    assert [row["model"] for row in rows] == [*CHOSEN, *COUNTING]
    assert watcher.trained == 2 * 2 + 2  # two models, two seeds; and one more depth, the other is the row's own
    for row in rows:
        trained = row["model"] in CHOSEN
        assert (row["seeds"], "epochs" in row, len(row["bleu_by_seed"])) == ((2, True, 2) if trained else (1, False, 1))
        for measure in METRICS:
            low, high = row["interval"][measure]
            assert 0 <= low <= high <= 1 and 0 <= row[measure] <= 1
    mine = next(row for row in rows if row["model"] == "mtn")
    assert mine["bleu"] == pytest.approx(np.mean(mine["bleu_by_seed"]), abs=1e-5)
    deep = [(row["model"], row["depth"], row["paper"]) for row in study.tables["depths"]]
    assert deep == [("mtn", "1+1+1", None), ("mtn", "2+1+1", None)]  # no Transformer was asked for
    assert study.tables["depths"][0]["bleu"] == mine["bleu"]
    assert study.tables["depths"][1]["parameters"] > mine["parameters"]


def test_parts_add_up(finished: tuple[Study, Watcher, Path]) -> None:
    study, _, _ = finished
    for table, by in (("lengths", "queries before"), ("pairs", "pair")):
        for whole in study.tables["overall"]:
            own = [row for row in study.tables[table] if row["model"] == whole["model"]]
            assert sum(row["targets"] for row in own) == whole["targets"] and len({row[by] for row in own}) == len(own)
            exact = sum(row["exact"] * row["targets"] for row in own) / whole["targets"]
            assert exact == pytest.approx(whole["exact"])
    assert {row["queries before"] for row in study.tables["lengths"]} <= set(LENGTHS)
    cost = {row["model"]: row for row in study.tables["cost"]}
    assert [*cost] == ["seq2seq", "transformer", "mtn"] and cost["transformer"]["ratio"] == 1.0


def test_verdicts_are_differences_of_rows(finished: tuple[Study, Watcher, Path]) -> None:
    tables = finished[0].tables
    bleu = {row["model"]: row["bleu"] for row in tables["overall"]}
    own = [row for row in tables["paired_tests"] if row["metric"] == "bleu"]
    assert [(row["model"], row["other"]) for row in own] == [("mtn", name) for name in ("seq2seq", *COUNTING)]
    for row in own:
        assert row["difference"] == pytest.approx(bleu["mtn"] - bleu[row["other"]])
        assert row["low"] <= row["high"] and 0 < row["p_value"] <= 1


def test_floors_are_of_the_whole_test_part(finished: tuple[Study, Watcher, Path]) -> None:
    rows = finished[0].tables["baselines"]
    assert [(row["caps"], row["model"]) for row in rows] == [
        (caps, name) for caps in ("none", "the paper's") for name in COUNTING
    ]
    assert rows[0]["targets"] > finished[0].tables["overall"][0]["targets"]  # there, nine of 13


def test_the_page_says_what_it_must(finished: tuple[Study, Watcher, Path]) -> None:
    page = finished[0].page
    assert "Quick run" not in page and "with 2 seeds" in page and "## Table 2: msmarco" in page
    assert "Only sessions that the file marks as novel are used for validation and testing" in page and "caps" in page
    assert "Not available: sqa." in page
    row = next(line for line in page.splitlines() if line.startswith("| mtn |"))
    assert row.endswith("| 14.62 |")
    assert "- Highest BLEU: " in page and "mtn against the others by BLEU: seq2seq " in page
    assert "MTN over the best recurrent row (seq2seq)" in page
    assert "mtn by BLEU at least 1.1 x repeat-last: " in page
    assert "### Depth: msmarco" in page and "### By pair: msmarco" in page and "## Cost of training" in page
    assert [figure.layout.title.text for figure in finished[0].plots] == [
        "Figure 3: BLEU (msmarco)",
        "BLEU by queries before the target (msmarco)",
        "Time of a training step over the Transformer's",
    ]


def test_finished_cells_are_not_trained_again(
    finished: tuple[Study, Watcher, Path], data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study, _, kept = finished
    copy = tmp_path / "again.runs.json"
    copy.write_bytes(kept.read_bytes())
    again, watcher = run(data, monkeypatch, copy, seeds=2)
    assert watcher.trained == 0
    assert [row["bleu"] for row in again.tables["overall"]] == [row["bleu"] for row in study.tables["overall"]]
    cells = json.loads(copy.read_text())["runs"]
    assert len(cells) == 4 + 2 + len(COUNTING) + 1 and all(cell["ensue"] == __version__ for cell in cells.values())
    gone = next(name for name in cells if json.loads(name).get("model") == "seq2seq")
    copy.write_text(json.dumps({"runs": {name: cell for name, cell in cells.items() if name != gone}}))
    once, watcher = run(data, monkeypatch, copy, seeds=2)
    rows = [[row[m] for row in found.tables["overall"] for m in METRICS] for found in (study, once)]
    assert watcher.trained == 1 and rows[0] == rows[1]  # the same seed
    write(tmp_path / "other", seed=7)
    _, watcher = run(tmp_path / "other", monkeypatch, copy, models=("seq2seq",))
    assert watcher.trained == 1  # other sessions are other cells


def test_quick_says_so(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtn, "QUICK", TINY)
    study, watcher = run(data, monkeypatch, models=("best",), quick=True)
    assert "**Quick run**" in study.page and "best by MRR@10 at least 2 x most-frequent-next" in study.page
    assert watcher.told[0].startswith("finished runs are not cached; with --json FILE")


def test_figures_are_the_referees(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 50)
    (own,), _ = find_sets(data)
    predictor = SuggestPredictor("most-frequent-next", settings={"min_users": 1})
    list(predictor.fit(own.train))
    rows = {row.model: row for row in compare([[predictor]], own.test).rows}
    targets = targets_of(own)
    for name in COUNTING:
        cell = json.loads(json.dumps(pack(predictor.suggest(targets.before, 10, name), targets.true)))
        sums = unpack(cell, targets.true)
        found = resample({name: [sums]}, targets.owners, 50)[name]
        expected = rows[name]
        assert [*found.by_name().values()] == pytest.approx([expected.figures[measure] for measure in METRICS])
        if name == "most-frequent-next":  # the first row, so it meets the same draws
            assert found.interval() == {m: pytest.approx(expected.interval[m]) for m in METRICS}
        for place, label in enumerate(LENGTHS):
            if (targets.length == place).any():
                assert means_of([sums], targets.length == place, METRICS) == pytest.approx(
                    expected.notes["by_length"][label]
                )


def test_figures_by_hand() -> None:
    true = pl.Series(["a b c d", "x y"])
    # 5 of 6 words right, 4 of 4 pairs of words, 2 of 2 and 1 of 1: (5/6)^(1/4); no reference is longer.
    sums = unpack({"first": ["a b c d", "x z"], "rank": [1, 4]}, true)
    found = means_of([sums], np.ones(2, np.bool_), METRICS)
    assert found["precision@1"] == 5 / 6 and found["precision@2"] == 3 / 4 and found["precision@4"] == 1
    assert found["bleu"] == pytest.approx((5 / 6 * 3 / 4) ** 0.25)
    assert (found["exact"], found["mrr@10"], found["recall@10"]) == (1 / 2, (1 + 1 / 4) / 2, 1)


def test_a_verdict_by_hand() -> None:
    # Three sessions of one target. One model is right on all, the other not on the first: exact, so MRR, 1 and 2/3.
    true = pl.Series(["a b c d"] * 3)
    good = unpack({"first": ["a b c d"] * 3, "rank": [1, 1, 1]}, true)
    worse = unpack({"first": ["e", "a b c d", "a b c d"], "rank": [0, 1, 1]}, true)
    found = resample({"good": [good], "worse": [worse]}, np.arange(3), 2000)
    verdict = found["good"].against(found["worse"], "mrr@10")
    assert verdict["difference"] == pytest.approx(1 / 3) and verdict["ratio"] == pytest.approx(3 / 2)
    # The first session is never drawn in (2/3)^3 of the resamples, which is when the difference is 0: p = 2 x 0.296.
    assert verdict["p_value"] == pytest.approx(2 * (2 / 3) ** 3, abs=0.06)


@pytest.mark.parametrize(
    ("bleu", "says"), [(0.12, "reached, 12.00 against 10.00 x 1.1 = 11.00"), (0.105, "**not reached**, 10.50 against")]
)
def test_what_must_be_reached(bleu: float, says: str) -> None:
    def row(model: str, value: float) -> dict[str, object]:
        return {"data": "msmarco", "model": model, **dict.fromkeys(METRICS, value)}

    lines = mtn.sentences([row("mtn", bleu), row("repeat-last", 0.1)], [])
    assert any(line.startswith(f"mtn by BLEU at least 1.1 x repeat-last: {says}") for line in lines)


def test_networks_have_as_many_weights() -> None:
    """Within 10 % at the vocabulary of MS MARCO, and the plan's sizes are settings that exist."""
    targets = Targets.of(*(SessionsOf(("a b", "c d e")).histories for _ in range(2)))
    options = {name: mtn.FULL.settings("", name) for name in mtn.NETWORKS}
    rows = step_times(options, targets, num_ids=4880, batch=1, repeats=1)
    weights = {row["model"]: row["parameters"] for row in rows}
    assert max(weights.values()) <= 1.1 * min(weights.values())
    assert sorted(weights) == sorted(mtn.NETWORKS) and set(mtn.NETWORKS) <= set(MODELS)
    for name in mtn.TRAINED:
        SuggestPredictor(name, settings=mtn.FULL.settings("", name))


class SessionsOf:
    """A few sessions as columns."""

    def __init__(self, *values: tuple[str, ...]) -> None:
        from ensue.data.histories import Histories
        from ensue.records import History

        self.histories = Histories.of(History(own) for own in values)


def test_the_papers_numbers() -> None:
    bleu, depths = PAPER["bleu"], PAPER["depths"]
    assert depths["mtn"]["3+2+3"] == bleu["mtn"] == 14.62 and depths["transformer"]["5+5"] == 13.89
    assert bleu["mtn"] / bleu["transformer"] == pytest.approx(1.05, abs=0.005)
    trained = [tuple(pair) for pair in mtn.FULL.details["depths"]]
    assert trained == [(model, depth) for model, row in depths.items() for depth in row]
    assert mtn.FULL.settings("msmarco", "mtn")["depth"] == "3+2+3"


@real
def test_the_floors_are_those_that_are_known() -> None:
    sets, absent = find_sets(ROOMS.parent)
    assert absent == [] and [(own.name, len(targets_of(own))) for own in sets] == [("msmarco", 1881), ("sqa", 1480)]
    watcher = Watcher()
    runs = CachedRuns(None, watcher.log, watcher.progress)
    rows = {(row["caps"], row["model"]): round(100 * row["bleu"], 2) for row in baselines(sets[0], runs)}
    assert rows["none", "repeat-last"] == 8.33 and rows["none", "most-frequent-next"] == 6.29
    assert rows["the paper's", "repeat-last"] == 7.96
    targets = targets_of(sets[0])
    assert not targets.seen.any() and 0.6 < targets.known.mean() < 0.75


def test_refusals(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(
        SettingError, match=r"model 'repeat-last' has no row in this study; choose from seq2seq, .*\(baselines"
    ):
        run(data, monkeypatch, models=("repeat-last",))
    with pytest.raises(DataError) as nothing:
        run(tmp_path, monkeypatch)
    assert str(nothing.value) == (
        f"{tmp_path}: none of msmarco/sessions.tsv (plain, .gz or .xz), sqa/sequences.tsv (plain, .gz or .xz) exists; "
        "name the folder that holds them"
    )
    (tmp_path / "msmarco").mkdir()
    (tmp_path / "msmarco" / "sessions.tsv").write_text(
        "split\toverlap\tsession\tqueries (tab separated, in order)\ntrain\t-\tm1\ta b\tc d\n"
    )
    with pytest.raises(DataError, match=r"sessions\.tsv: it has no part test, valid; the study needs train, valid"):
        run(tmp_path, monkeypatch)


def test_the_command_line_finds_it() -> None:
    assert "mtn" in PAPERS
