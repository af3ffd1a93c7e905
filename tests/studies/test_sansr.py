"""The study of SANSR on a made-up set: every row under both protocols, and finished cells are not trained again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensue import DataError, SettingError, __version__
from ensue_studies import PAPERS, sansr
from ensue_studies.results import Study
from ensue_studies.runner import Plan, Request
from ensue_studies.sansr import METRICS, YOOCHOOSE
from tests.cli.conftest import listed
from tests.studies.watcher import Watcher

MODELS = ("bpr-mf", "sansr", "sansr-rc", "esasrec", "sr-gnn")
"""Models of the paper, and two that it does not have."""
SMALL = {"part": 2, "options": {"epochs": 1, "refit": False}, "dim": 120}
TINY = Plan(
    options={"epochs": 1, "refit": False, "dim": 4},
    test_size=20,
    details={"part": 1, "small": {**SMALL, "heads": [2], "blocks": [0, 2], "sizes": [4, 8]}},
)
COUNTING = [model["name"] for model in listed("next") if model["counting"]]
CELLS = len(COUNTING) + len(MODELS) + 2 + 2  # k = 0 is one cell


def write(folder: Path, num: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    walks = (
        (start + np.arange(length)) % 30 + 100
        for start, length in zip(random.integers(0, 30, num), random.integers(2, 6, num), strict=True)
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder, "wt") as file:
        file.writelines(" ".join(map(str, walk)) + "\n" for walk in walks)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds one of the two sets, one session a line."""
    folder = tmp_path_factory.mktemp("data")
    for part, num in (("train", 120), ("test", 40)):
        write(folder / "sessions" / YOOCHOOSE / f"{part}.txt.gz", num, num)
    return folder


def run(
    data: Path, monkeypatch: pytest.MonkeyPatch, cache: Path | None = None, **options: object
) -> tuple[Study, Watcher]:
    monkeypatch.setattr(sansr, "FULL", TINY)
    watcher = Watcher()
    chosen = {"models": MODELS, "quick": False, "seeds": 1, **options}
    found = sansr.run(data, Request(**chosen, log=watcher.log, progress=watcher.progress, cache=cache))  # type: ignore[arg-type]
    return found, watcher


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Watcher, Path]:
    kept = tmp_path_factory.mktemp("kept") / "sansr.runs.json"
    with pytest.MonkeyPatch.context() as monkeypatch:
        return (*run(data, monkeypatch, kept), kept)


def test_every_row_stands_under_both_protocols(finished: tuple[Study, Watcher, Path]) -> None:
    study, watcher, _ = finished
    rows = [(row["model"], row["protocol"]) for row in study.tables["overall"]]
    assert rows == [(name, protocol) for name in (*COUNTING, *MODELS) for protocol in ("full", "sampled")]
    for row in [row for name in ("overall", "grid", "sizes") for row in study.tables[name]]:
        assert row["data"] == YOOCHOOSE and row["ensue"] == __version__ and row["seed"] == 0
        for measure in METRICS:
            low, high = row["interval"][measure]
            assert 0 <= low <= row[measure] <= high <= 1
    markov = [row["hit@10"] for row in study.tables["overall"] if row["model"] == "markov"]
    assert min(markov) > 0.95  # the walk is learned by counting, whatever the protocol
    assert watcher.trained == len(MODELS) + 2 + 2  # Table 1, the grid without the second k = 0, and two widths


def test_grid_widths_costs_and_data(finished: tuple[Study, Watcher, Path]) -> None:
    study, _, _ = finished
    assert [(row["heads"], row["blocks"]) for row in study.tables["grid"]] == [(1, 0)] * 2 + [(2, 2)] * 2
    assert {row["options"]["dim"] for row in study.tables["grid"]} == {120}
    assert [row["size"] for row in study.tables["sizes"]] == [4, 4, 8, 8]
    for row in study.tables["overall"]:
        assert ("epoch_seconds" in row) == (row["model"] in MODELS)
    here, paper = study.tables["statistics"]
    assert (here["training"], here["test"], here["items"]) == (120, 40, 30)
    assert (paper["training"], paper["mean length"]) == (1_877_867, 8.5)


def test_the_page_shows_the_papers_figures_and_marks_what_cannot_be(finished: tuple[Study, Watcher, Path]) -> None:
    page = finished[0].page
    assert "| sansr | paper | 0.9516 † | 0.9698 † | 0.8217 † | 0.8186 † | 0.8538 † | 0.8550 † |" in page
    assert "| narm | paper |" not in page  # not asked for
    assert "| sr-gnn | full | 0." in page and "| sr-gnn | paper |" not in page
    assert "## Contradictions in the printed tables" in page
    assert "| 1 | yoochoose-1-64 | sansr | MRR@10, MRR@20 | 0.8217 at 10 exceeds 0.8186 at 20" in page
    assert "| 2 | paper | 0.8159 † | 0.8223 |" in page  # Table 3, h = 2, k = 0 and 2
    assert "the newest 1/2" in page and "the newest 20 test sessions" in page
    assert "Quick run" not in page


def test_the_figures_hold_the_tables(finished: tuple[Study, Watcher, Path], tmp_path: Path) -> None:
    study, _, _ = finished
    titles = [figure.layout.title.text for figure in study.plots]
    assert titles == [
        f"Figure 2: residuals ({YOOCHOOSE}, full)",
        f"Figure 2: residuals ({YOOCHOOSE}, sampled)",
        f"Figure 3: CPU seconds per epoch ({YOOCHOOSE})",
        f"Figure 4: width ({YOOCHOOSE}, full)",
        f"Figure 4: width ({YOOCHOOSE}, sampled)",
    ]
    row = next(row for row in study.tables["overall"] if (row["model"], row["protocol"]) == ("sansr", "sampled"))
    assert list(study.plots[1].data[0].y) == [row[measure] for measure in METRICS]
    assert list(study.plots[2].data[0].x) == list(MODELS)
    study.write(tmp_path / "sansr.json")
    assert json.loads((tmp_path / "sansr.json").read_text())["tables"].keys() == study.tables.keys()
    assert (tmp_path / "sansr.md").read_text() == study.page
    html = (tmp_path / "sansr.html").read_text()
    assert all(f'id="figure{number}"' in html for number in ("", 2, 3, 4, 5))


def test_finished_cells_are_not_trained_again(
    finished: tuple[Study, Watcher, Path], data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study, _, kept = finished
    copy = tmp_path / "again.runs.json"
    copy.write_bytes(kept.read_bytes())
    again, watcher = run(data, monkeypatch, copy)
    assert watcher.trained == 0 and again.tables == study.tables and again.page == study.page
    cells = json.loads(copy.read_text())["runs"]
    assert len(cells) == CELLS
    gone = next(name for name in cells if json.loads(name)["model"] == "sansr-rc")
    copy.write_text(json.dumps({"runs": {name: cell for name, cell in cells.items() if name != gone}}))
    once, watcher = run(data, monkeypatch, copy)
    assert watcher.trained == 1 and json.loads(copy.read_text())["runs"].keys() == cells.keys()
    figures = [[row[m] for row in found.tables["overall"] for m in METRICS] for found in (study, once)]
    assert figures[0] == figures[1]  # the same seed


def test_an_interrupted_run_keeps_what_was_finished(
    data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = tmp_path / "sansr.runs.json"
    monkeypatch.setattr(sansr, "FULL", TINY)

    class Stops(Watcher):
        def progress(self, reports: Iterable[Any]) -> None:
            super().progress(reports)
            if self.trained == 2:
                raise KeyboardInterrupt  # before the second training is scored

    stops = Stops()
    with pytest.raises(KeyboardInterrupt):
        sansr.run(
            data, Request(models=MODELS, quick=False, seeds=1, log=stops.log, progress=stops.progress, cache=kept)
        )
    done = [json.loads(name)["model"] for name in json.loads(kept.read_text())["runs"]]
    assert done == [*COUNTING, MODELS[0]]


def test_other_data_or_seeds_are_other_cells(
    finished: tuple[Study, Watcher, Path], data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "more.runs.json"
    copy.write_bytes(finished[2].read_bytes())
    more, watcher = run(data, monkeypatch, copy, models=("bpr-mf",), seeds=2)
    assert watcher.trained == 1  # the second seed alone
    assert [row["seed"] for row in more.tables["overall"] if row["model"] == "bpr-mf"] == [0, 0, 1, 1]
    assert more.tables["grid"] == [] and "Table 3" not in more.page.split("##", 1)[1]
    other = tmp_path / "other" / YOOCHOOSE
    write(other / "train.txt.gz", 120, 7)
    write(other / "test.txt.gz", 40, 8)
    _, watcher = run(tmp_path / "other", monkeypatch, copy, models=("bpr-mf",))
    assert watcher.trained == 1


def test_without_a_file_it_says_that_nothing_is_kept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, watcher = run(data, monkeypatch, models=("bpr-mf",))
    assert watcher.told[0].startswith("finished runs are not cached; with --json FILE")


def test_quick_says_so(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sansr, "QUICK", TINY)
    study, _ = run(data, monkeypatch, models=("bpr-mf",), quick=True)
    assert "**Quick run**" in study.page
    assert "Left out, for they need the long run (without `--quick`): table 3, figure 4" in study.page


def test_refusals(data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"model 'markov' has no row in this study; choose from hidan, .*sansr"):
        run(data, monkeypatch, models=("markov",))
    with pytest.raises(DataError) as nothing:
        run(tmp_path, monkeypatch)
    assert str(nothing.value) == (
        f"{tmp_path}: none of diginetica, yoochoose-1-64 exists; name the folder that holds them"
    )
    (tmp_path / "diginetica").mkdir()
    with pytest.raises(DataError, match=r"train\.txt\.gz: does not exist; each data set needs train\.txt\.gz and test"):
        run(tmp_path, monkeypatch)
    for text in ("", "[]", '{"runs": 3}', "{}"):
        kept = tmp_path / "x.runs.json"
        kept.write_text(text)
        with pytest.raises(DataError, match=r"x\.runs\.json: not a file of finished runs; delete it to start again"):
            run(data, monkeypatch, kept)


def test_it_is_registered() -> None:
    assert "sansr" in PAPERS
