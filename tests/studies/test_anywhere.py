"""The study of cuts on made-up sets: what each cut holds, who is judged by whom, and that nothing is trained twice."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ensue import DataError, SettingError
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.tasks.next.catalogue import COUNTING
from ensue_studies import anywhere
from ensue_studies.anywhere import find_subsets
from ensue_studies.results import Study
from ensue_studies.runner import Request
from ensue_studies.sansr import YOOCHOOSE
from tests.studies.watcher import Watcher

TINY = anywhere.Plan(
    sizes={"sessions": (40, 0), "labels": (20, 0), "queries": (10,), "posts": (4, 0)},
    test_size=30,
    compared={"next": ("bpr-mf",)},
    max_compared=40,
    max_repeated=dict.fromkeys(anywhere.METRICS, 40),
)


def write_sessions(folder: Path) -> None:
    """Walks round a circle of 30 items, which what followed what tells all of."""
    folder.mkdir(parents=True)
    for part, num in (("train", 90), ("test", 40)):
        random = np.random.default_rng(num)
        walks = (
            (start + np.arange(length)) % 30 + 100
            for start, length in zip(random.integers(0, 30, num), random.integers(2, 6, num), strict=True)
        )
        with gzip.open(folder / f"{part}.txt.gz", "wt") as file:
            file.writelines(" ".join(map(str, walk)) + "\n" for walk in walks)


def write_log(folder: Path) -> None:
    """Users of a log with a clock, not in the order of their time."""
    folder.mkdir(parents=True)
    rows = [
        f"u{user},{1.5e9 + 1e5 * (user * 7 % 60) + step},i{(user + step) % 9}" for user in range(60) for step in (0, 1)
    ]
    (folder / "clicks.csv").write_text("\n".join(["session,time_s,item", *rows]) + "\n")


def write_links(folder: Path) -> None:
    folder.mkdir(parents=True)
    articles = [{"id": f"a{n}", "title": f"topic{n}", "body": f"topic{n} word{n} thing{n}"} for n in range(6)]
    posts = [
        {"id": f"p{n}", "text": f"about topic{n % 6} and {n}", "articles": [f"a{n % 6}"], "split": split}
        for n, split in enumerate(["train"] * 12 + ["valid"] * 3 + ["test"] * 3)
    ]
    for name, rows in (("articles", articles), ("posts", posts)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three of the five kinds."""
    folder = tmp_path_factory.mktemp("data")
    write_sessions(folder / "sessions" / YOOCHOOSE)
    write_log(folder / "sessions" / "globo")
    write_links(folder / "links" / "politifact")
    return folder


def test_a_cut_is_the_newest_part_and_all_are_scored_on_the_same(data: Path) -> None:
    cuts, absent = find_subsets(data, TINY)
    assert absent == ["cascades", "text", "queries"]
    sessions = {cut.part: cut for cut in cuts if cut.data == YOOCHOOSE}
    assert list(sessions) == ["newest 40 sessions", "all 90 sessions"]
    few, every = (cut.train for cut in sessions.values())
    assert isinstance(few, Histories) and isinstance(every, Histories)
    assert [len(cut.test) for cut in sessions.values()] == [30, 30]
    assert few.ids.tolist() == every.ids[every.offsets[50] :].tolist()


def test_where_there_is_a_clock_the_newest_are_the_latest(data: Path) -> None:
    few, every = (cut for cut in find_subsets(data, TINY)[0] if cut.data == "globo")
    for cut in (few, every):
        assert isinstance(cut.train, Histories) and isinstance(cut.test, Histories)
        assert float(cut.train.times.max()) < float(cut.test.times.min())
    assert isinstance(few.train, Histories) and isinstance(every.train, Histories)
    starts = np.sort(every.train.times[every.train.offsets[:-1]])
    assert float(few.train.times.min()) == starts[-40]
    whole, part = (
        find_subsets(data, replace(TINY, sizes={**TINY.sizes, "sessions": (0,)}, test_size=num))[0][1].test
        for num in (6, 2)
    )
    assert isinstance(whole, Histories) and isinstance(part, Histories)
    assert (len(whole), len(part)) == (6, 2) and float(part.times.max()) < np.sort(whole.times)[4]  # those that follow


def test_posts_are_cut_by_number_and_by_article_and_those_scored_are_not_among_them(data: Path) -> None:
    cuts = {cut.part: cut for cut in find_subsets(data, TINY)[0] if cut.task == "link"}
    halves = ["posts of the first half of the articles", "posts of the second half of the articles"]
    assert list(cuts) == ["4 labelled posts", "12 labelled posts", *halves]
    about = []
    for cut in cuts.values():
        assert isinstance(cut.train, Corpus) and isinstance(cut.test, Corpus)
        assert cut.train.posts.parts is None  # as of a file without parts
        assert not {*cut.train.posts.ids} & {*cut.test.posts.ids} and len(cut.train.articles) == 6
        about.append({*cut.train.posts.about})
    assert about[2] == {"a0", "a2", "a4"} and about[3] == {"a1", "a3", "a5"}


def run(data: Path, cache: Path | None, models: tuple[str, ...] = ()) -> tuple[Study, Watcher]:
    watcher = Watcher()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(anywhere, "FULL", TINY)
        asked = Request(models=models, quick=False, seeds=2, log=watcher.log, progress=watcher.progress, cache=cache)
        return anywhere.run(data, asked), watcher


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """The study of one set alone, so that it takes seconds."""
    folder = tmp_path_factory.mktemp("few")
    (folder / "sessions").mkdir()
    (folder / "sessions" / YOOCHOOSE).symlink_to(data / "sessions" / YOOCHOOSE)
    return run(folder, folder / "anywhere.runs.json")[0], folder


def test_best_is_judged_by_the_floor_that_scores_best(finished: tuple[Study, Path]) -> None:
    tables = finished[0].tables
    assert [row["part"] for row in tables["paired_tests"]] == ["newest 40 sessions", "all 90 sessions"]
    assert [row["seeds"] for row in tables["paired_tests"]] == [2, 1]
    for test in tables["paired_tests"]:
        own = [row for row in tables["rows"] if row["part"] == test["part"]]
        first, *others = own
        assert first["kind"] == "best" and first["mrr"] == test["best"] and len(first["seconds"]) == test["seeds"]
        baselines = {row["model"]: row["mrr"] for row in others if row["kind"] == "baseline"}
        assert {*baselines} | {first["model"]} >= {*COUNTING}
        assert test["baseline_score"] == max(
            [*baselines.values(), *([first["mrr"]] if first["model"] in COUNTING else [])]
        )
        assert test["outcome"] == anywhere.outcome(test["low"], test["high"])
        assert test["low"] <= test["difference"] <= test["high"]
        assert test["difference"] == pytest.approx(test["best"] - test["baseline_score"], abs=1e-5)
        assert max(baselines, key=baselines.__getitem__) != "popularity"  # the walk is told by what followed what


def test_rivals_are_trained_where_the_cut_is_small(finished: tuple[Study, Path]) -> None:
    rows = finished[0].tables["rows"]
    assert [row["part"] for row in rows if row["model"] == "bpr-mf"] == ["newest 40 sessions"]


def test_an_outcome_is_one_where_the_interval_leaves_nothing_open() -> None:
    assert [anywhere.outcome(*ends) for ends in ((0.01, 0.02), (-0.01, 0.02), (-0.02, -0.01))] == [
        "better",
        "equal",
        "worse",
    ]


def test_finished_cuts_are_not_trained_again(finished: tuple[Study, Path]) -> None:
    study, folder = finished
    again, watcher = run(folder, folder / "anywhere.runs.json")
    assert watcher.trained == 0 and watcher.told == [] and again.tables == study.tables
    other, watcher = run(folder, folder / "anywhere.runs.json", ("best",))  # no rivals: the small cut is another cell
    assert watcher.told == [f"{YOOCHOOSE}, newest 40 sessions: best"]
    assert "bpr-mf" not in {row["model"] for row in other.tables["rows"]}


def test_the_page_says_how_often_it_leads_and_what_is_not_there(finished: tuple[Study, Path], tmp_path: Path) -> None:
    study, _ = finished
    outcomes = [row["outcome"] for row in study.tables["paired_tests"]]
    counts = " | ".join(str(outcomes.count(outcome)) for outcome in ("better", "equal", "worse"))
    assert f"| next | 2 | {counts} |" in study.page
    assert f"over seeds where there are several (2 seeds, one for {YOOCHOOSE}, all 90 sessions)" in study.page
    assert "Not available: cascades, text, queries, links." in study.page and "Quick run" not in study.page
    assert [figure.layout.title.text for figure in study.plots] == ["next: difference to the best baseline"]
    study.write(tmp_path / "anywhere.json")
    assert (tmp_path / "anywhere.md").read_text() == study.page


def test_what_a_leak_is_worth_stands_below(finished: tuple[Study, Path]) -> None:
    study, _ = finished
    leaks = {row["leak"]: row for row in study.tables["leaks"]}
    near = leaks["adjacent prefixes in one batch"]
    assert near["data"] == YOOCHOOSE and set(near["with_leak"]) == {"hit@20", "mrr"}
    assert "## Effect of leaks" in study.page and f"| {YOOCHOOSE} | {near['leak']} |" in study.page


def test_what_is_not_there_is_said(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of the folders sessions, cascades, text, queries, links exists"):
        run(tmp_path, None)
    with pytest.raises(SettingError, match="model 'markov' has no row in this study"):
        run(data, None, ("markov",))
