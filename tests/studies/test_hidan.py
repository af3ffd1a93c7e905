"""The study of HiDAN on made-up cascades: rows, near copies, sources, cached runs, the page."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ensue import DataError, History, SettingError
from ensue.data.histories import Histories
from ensue.evaluation.comparison import compare
from ensue.tasks.next.catalogue import COUNTING
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies import PAPERS, hidan
from ensue_studies.hidan import (
    METRICS,
    PROTOCOLS,
    find_sets,
    near_copies,
    resample,
    sources,
    sums,
    unpack,
    with_end,
    without_each,
)
from ensue_studies.results import Study
from ensue_studies.runner import Plan, Request
from tests.studies.watcher import Watcher

CHOSEN = ("att-lstm", "hidan", "cascade-blend")
TINY = Plan(
    options={"epochs": 1, "dim": 8, "table_dim": 8},
    max_seeds={"forest-twitter": 2, "cascade-blend": 2},
    resamples=60,
)
USERS = 12


def walks(num: int, seed: int) -> list[list[int]]:
    """Each user passes on to the next two in a ring."""
    random, found = np.random.default_rng(seed), []
    for _ in range(num):
        cascade = [int(random.integers(USERS))]
        for _ in range(int(random.integers(3, 7))):
            cascade.append((cascade[-1] + int(random.integers(1, 3))) % USERS)
        found.append(list(dict.fromkeys(cascade)))
    return found


def times(size: int, start: float, random: np.random.Generator) -> list[float]:
    return [start, *(start + np.cumsum(random.uniform(0.1, 9.0, size - 1))).tolist()]


def write(folder: Path) -> None:
    """HiDAN's own layout, the later papers' and the graph's; the fourth test cascade of the later ones is a copy."""
    for place in ("hidan", "twitter", "hc-exp"):
        (folder / place).mkdir(parents=True)
    random = np.random.default_rng(0)
    for file, num, seed in (
        ("hidan/meme-cascades-time-val", 40, 1),
        ("hidan/meme-cascades-time-test", 14, 2),
        ("hc-exp/hc-exp-cascades-train", 40, 3),
        ("hc-exp/hc-exp-cascades-val", 9, 4),
        ("hc-exp/hc-exp-cascades-test", 12, 5),
    ):
        lines = []
        for walk in walks(num, seed):
            when = ",".join(f"{time:.4f}" for time in times(len(walk), 0.0, random))
            lines.append(f"{','.join(map(str, walk))}:{when}")
        _zip(folder / f"{file}.gz", lines)
    edges = [f"{user} {(user + step) % USERS} 0.5" for user in range(USERS) for step in (1, 2)]
    (folder / "hc-exp" / "hc-exp-graph").write_text("\n".join(edges) + "\n")
    parts = {}
    for name, num, seed in (("", 40, 6), ("valid", 9, 7), ("test", 12, 8)):
        parts[name] = [
            " ".join(
                f"{user},{time:.4f}"
                for user, time in zip(walk, times(len(walk), 338000.0 + 99 * n, random), strict=True)
            )
            for n, walk in enumerate(walks(num, seed))
        ]
    parts["test"][3] = parts[""][5]
    for name, lines in parts.items():
        _zip(folder / "twitter" / f"cascade{name}.txt.gz", lines)


def _zip(path: Path, lines: list[str]) -> None:
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


def run(data: Path, monkeypatch: pytest.MonkeyPatch, cache: Path | None, **options: object) -> tuple[Study, Watcher]:
    monkeypatch.setattr(hidan, "FULL", TINY)
    watcher = Watcher()
    chosen = {"models": CHOSEN, "quick": False, "seeds": 1, **options}
    found = hidan.run(data, Request(**chosen, log=watcher.log, progress=watcher.progress, cache=cache))  # type: ignore[arg-type]
    return found, watcher


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder / "cascades")
    return folder


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Watcher, Path]:
    kept = tmp_path_factory.mktemp("kept") / "hidan.runs.json"
    with pytest.MonkeyPatch.context() as monkeypatch:
        return (*run(data, monkeypatch, kept, seeds=2), kept)


def test_every_model_has_a_row_under_each_protocol(finished: tuple[Study, Watcher, Path]) -> None:
    study, watcher, _ = finished
    assert watcher.trained == 2 * 3 * 3  # two seeds, three models, three sets; memes is trained once more on all
    rows = study.tables["prediction"]
    for data in ("memes", "forest-twitter", "hc-exp"):
        for protocol in (*PROTOCOLS, *(("end",) if data == "forest-twitter" else ())):
            own = [row for row in rows if (row["data"], row["protocol"], row["cascades"]) == (data, protocol, "all")]
            assert [row["model"] for row in own] == [*CHOSEN, *COUNTING]
            for row in own:
                for name in METRICS:
                    low, high = row["interval"][name]
                    assert 0 <= low <= high <= 1 and 0 <= row[name] <= 1
                assert row["mrr@100"] <= row["mrr"] + 1e-12 and row["hit@10"] <= row["hit@50"] <= row["hit@100"]
                assert ("paper" in row) == ((data, protocol) == ("memes", "macro") and row["model"] in CHOSEN[:2])
    reported = [row for row in rows if row["protocol"] == "theirs"]
    assert [(row["data"], row["model"]) for row in reported] == [("forest-twitter", "GRASS")]


def test_near_copies_are_found_and_left_out(data: Path, finished: tuple[Study, Watcher, Path]) -> None:
    sets, absent = find_sets(data)
    assert [own.name for own in sets] == ["memes", "forest-twitter", "hc-exp"]
    assert absent == ["weibo", "twitter", "memetracker"]
    later = sets[1]
    assert bool(near_copies(later)[3])
    known = {tuple(record.values) for record in later.train.records()}
    same = {
        (user, round(time))
        for record in later.train.records()
        for user, time in zip(record.values, record.times, strict=True)
    }
    for copied, record in zip(near_copies(later).tolist(), later.test.records(), strict=True):
        shared = sum((user, round(time)) in same for user, time in zip(record.values, record.times, strict=True))
        assert copied == (tuple(record.values) in known or 2 * shared >= len(record.values))
    parts = {row["cascades"] for row in finished[0].tables["prediction"] if row["data"] == "forest-twitter"}
    assert parts == {"all", "no near copies"}


def test_figures_are_the_referees(data: Path) -> None:
    own = find_sets(data)[0][1]
    predictor = NextPredictor("cooccurrence")
    for _ in predictor.fit(own.train):
        pass
    cell = sums(predictor, own.test)
    everyone = np.ones(len(own.test), np.bool_)
    for protocol in PROTOCOLS:
        (row, *_) = compare([[predictor]], own.test, protocol=protocol, cutoffs=(10, 50, 100)).rows
        drawn = resample({"it": [unpack(cell[protocol])]}, protocol, everyone, 20)["it"]
        for name, figure in drawn.by_name().items():
            assert figure == pytest.approx(row.figures[name], abs=1e-6)


def test_the_end_is_a_target_among_users(data: Path) -> None:
    own = find_sets(data)[0][1]
    predictor = NextPredictor("markov")
    for _ in predictor.fit(own.train):
        pass
    rank, sequence = with_end(predictor, own.test)
    found = {number: sorted(rank[sequence == number].tolist()) for number in range(len(own.test))}
    for number, record in enumerate(own.test.records()):
        expected = []
        for step in range(1, len(record.values) + 1):
            (answer,) = predictor.predict([replace(record, values=record.values[:step], times=())], 99)
            stop = float(predictor.length_delay.stop_chances(np.array([step]))[0])
            shares = {choice.value: choice.score * (1 - stop) for choice in answer.choices}
            ended = step == len(record.values)
            wanted = stop if ended else shares[record.values[step]]
            others = [*shares.values(), stop]
            others.remove(wanted)
            expected.append(1.0 + sum(share >= wanted * (1 - 1e-9) for share in others))
        assert found[number] == sorted(expected)


def test_verdicts_compare_the_same_cascades(finished: tuple[Study, Watcher, Path]) -> None:
    rows = {
        (row["data"], row["protocol"], row["cascades"], row["model"]): row for row in finished[0].tables["prediction"]
    }
    verdicts = finished[0].tables["paired_tests"]
    assert {row["model"] for row in verdicts} == {"hidan", "cascade-blend"}
    for row in verdicts:
        key = row["data"], row["protocol"], row["cascades"]
        mine, other = rows[(*key, row["model"])], rows[(*key, row["other"])]
        assert row["difference"] == pytest.approx(mine[row["metric"]] - other[row["metric"]])
        assert row["low"] <= row["difference"] + 0.2 and row["high"] >= row["difference"] - 0.2
        assert 0 < row["p_value"] <= 1


def test_sources_by_hand(data: Path) -> None:
    own = find_sets(data)[0][2]
    assert ("0", "1") in own.details and ("1", "0") not in own.details
    predictor = NextPredictor("hidan", settings=TINY.options)
    for _ in predictor.fit(own.train, own.valid):
        pass
    found = sources(predictor, own.test, own.details)
    steps, chance, latest = 0, 0.0, 0.0
    for record in own.test.records():
        for step in range(2, len(record.values) - 1):  # who comes last is a target, and is not read
            true = [(user, record.values[step]) in own.details for user in record.values[:step]]
            if any(true) and not all(true):
                steps, chance, latest = steps + 1, chance + sum(true) / len(true), latest + true[-1]
    assert found["steps"] == steps > 10
    assert found["chance"] == pytest.approx(chance / steps) and found["latest"] == pytest.approx(latest / steps)
    assert {"weight", "credit"} <= set(found) and 0 <= found["credit"] <= 1 and 0 <= found["without"] <= 1


@pytest.mark.parametrize("model", ["hidan", "att-lstm"])
def test_who_is_left_out_is_not_read(data: Path, model: str) -> None:
    own = find_sets(data)[0][2]
    predictor = NextPredictor(model, settings=TINY.options)
    for _ in predictor.fit(own.train, own.valid):
        pass
    known = own.test.encode(predictor.vocabulary, drop_unknown=True)
    number = int(np.flatnonzero(known.lengths >= 5)[0])
    record, begin = known.record(number), int(known.offsets[number])
    found = without_each(predictor, known, np.array([begin + 4, begin + 2]), np.array([3, 2]))
    literal = [  # users 1 to 3 before user 4, then users 0 and 1 before user 2
        (record.values[place], [event for event in events if event != left_out])
        for place, events in ((4, (1, 2, 3)), (2, (0, 1)))
        for left_out in events
    ]
    for value, (target, events) in zip(found, literal, strict=True):
        cascade = History(
            tuple(record.values[event] for event in events), tuple(record.times[event] for event in events)
        )
        windows = Windows(Histories.of([cascade], predictor.vocabulary), None, last_only=True)
        scores = predictor.scores(windows, np.array([0]))[0].scores[0]
        place = predictor.vocabulary.ids(pl.Series([target]))[0]
        assert value == pytest.approx(float(scores[place] - np.logaddexp.reduce(scores)), abs=1e-5)


def test_kept_cells_are_not_trained_again(
    data: Path, finished: tuple[Study, Watcher, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, _, kept = finished
    again, watcher = run(data, monkeypatch, kept, seeds=2)
    assert watcher.trained == 0 and again.tables == study.tables and again.page == study.page
    before = len(json.loads(kept.read_text())["runs"])
    third, more = run(data, monkeypatch, kept, seeds=3, models=("hidan",))
    assert more.trained == 2  # two trainings of HiDAN are enough in the later papers' set
    assert len(json.loads(kept.read_text())["runs"]) == before + 2
    assert "and all in the later papers' sets, with 2)" in third.page and "the others" not in study.page


def test_the_page_says_what_it_shows(finished: tuple[Study, Watcher, Path]) -> None:
    study = finished[0]
    for text in (
        "## Table 1",
        "## Table 2: memes",
        "without near copies",
        "GRASS",
        "## Table 3",
        "## Figure 4 as a number",
        "the latest user",
        "weibo, twitter, memetracker",
        "27.91",
    ):
        assert text in study.page
    assert "Quick run" not in study.page and "nan" not in study.page
    titles = [figure.layout.title.text for figure in study.plots]
    assert len(titles) == 3 * 2 + 3 + 1 and any("Figure 4" in title for title in titles)


def test_wrong_names_and_places(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "hidan" in PAPERS
    with pytest.raises(SettingError, match="has no row in this study; choose from rnn"):
        run(data, monkeypatch, None, models=("sansr",))
    with pytest.raises(DataError, match="none of memes"):
        run(tmp_path, monkeypatch, None)
    (tmp_path / "hidan").mkdir()
    (tmp_path / "hidan" / "meme-cascades-time-val.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"meme-cascades-time-test.gz: does not exist"):
        run(tmp_path, monkeypatch, None)
