"""Off-policy estimates against literal loops, against the answers of ``predict``, and over made-up worlds."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import ensue
from ensue.data.histories import Histories, offsets_of
from ensue.errors import DataError, SettingError
from ensue.evaluation.off_policy import (
    NUM_FOLDS,
    PRIOR,
    PolicyEstimate,
    clustered_mean,
    fold_of,
    item_rewards,
    policy_estimates,
)
from ensue.vocabulary import FIRST, Vocabulary
from tests.cli.conftest import run

ROOT = Path(__file__).parent.parent
COLUMNS = {"weight": "clicked", "propensity": "shown_with"}


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    """A log to train on, in which items come in a circle, and one of items shown by a policy that explores."""
    draws = np.random.default_rng(1)
    clicks, shown = [], []
    for session in range(60):
        last = int(draws.integers(6))
        for step in range(5):
            time = 1_700_000_000 + 3600 * session + 60 * step
            # Items differ in popularity, so that no two of them have one score.
            clicks += [(f"t{session}", f"i{(last + step) % 6}", time)] * (step < 2 + session % 4)
            propensities = np.full(6, 0.1)
            propensities[(last + 2) % 6] = 0.5
            item = int(draws.choice(6, p=propensities))
            is_clicked = bool(draws.random() < (0.6 if item == (last + 1) % 6 else 0.15))
            shown.append((f"s{session}", f"i{item}", time, int(is_clicked), propensities[item]))
            last = item if is_clicked else last
    pl.DataFrame(clicks, schema=["session", "item", "time"], orient="row").write_csv(tmp_path / "clicks.csv")
    schema = ["session", "item", "time", "clicked", "shown_with"]
    pl.DataFrame(shown, schema=schema, orient="row").write_csv(tmp_path / "shown.csv")
    return tmp_path / "clicks.csv", tmp_path / "shown.csv"


def test_estimates_equal_loops() -> None:
    """The formulas of Horvitz & Thompson, Swaminathan & Joachims, and Dudik, Langford & Li, event by event."""
    draws = np.random.default_rng(0)
    num, num_items = 200, 7
    policy = draws.dirichlet(np.ones(num_items), num)
    predicted = draws.random((num, num_items))
    items = draws.integers(num_items, size=num)
    propensities = draws.random(num) + 0.1
    rewards = draws.random(num)
    weights = np.array([policy[event, items[event]] / propensities[event] for event in range(num)])
    ips = weighted = total = robust = 0.0
    for event, item in enumerate(items.tolist()):
        ips += weights[event] * rewards[event] / num
        weighted += weights[event] * rewards[event]
        total += weights[event]
        expected = sum(policy[event, other] * predicted[event, other] for other in range(num_items))
        robust += (expected + weights[event] * (rewards[event] - predicted[event, item])) / num
    estimates = policy_estimates(
        rewards, weights, (policy * predicted).sum(1), predicted[np.arange(num), items], draws.integers(50, size=num)
    )
    values = [estimates[name].value for name in ("ips", "snips", "dr", "gain")]
    assert values == pytest.approx([ips, weighted / total, robust, robust - rewards.mean()])


def test_an_interval_of_symmetric_terms_is_that_of_student() -> None:
    """Two sessions of terms around 3: with sums -2 and 2 of deviations the error is sqrt(2 / 1 * 8) / 4 = 1."""
    estimate = clustered_mean(np.array([2.0, 2.0, 4.0, 4.0]), np.array([0, 0, 1, 1]))
    assert (estimate.value, estimate.high - 3, 3 - estimate.low) == pytest.approx((3, 12.7062, 12.7062), rel=1e-4)
    assert clustered_mean(np.ones(4), np.array([0, 0, 1, 1])) == PolicyEstimate(1, 1, 1)
    skewed = clustered_mean(np.array([0.0] * 30 + [30.0]), np.arange(31))
    assert skewed.high - skewed.value > skewed.value - skewed.low


def test_rewards_of_items_are_those_of_other_folds() -> None:
    draws = np.random.default_rng(0)
    lengths = draws.integers(1, 5, 40)
    ids = (draws.integers(4, size=lengths.sum()) + FIRST).astype(np.int32)
    log = Histories(ids, offsets_of(lengths), Vocabulary(map(str, range(4))), weights=draws.random(len(ids)))
    table = item_rewards(log, FIRST + 4)
    folds = fold_of(log.sequence_index()).tolist()
    for fold in range(NUM_FOLDS):
        others = [event for event in range(len(ids)) if folds[event] != fold]
        mean = sum(log.weights[event] for event in others) / len(others)
        for item in range(FIRST, FIRST + 4):
            rewards = [log.weights[event] for event in others if ids[event] == item]
            assert table[fold, item] == pytest.approx((sum(rewards) + PRIOR * mean) / (len(rewards) + PRIOR))


@pytest.mark.parametrize("policy", ["softmax", "top=2"])
def test_the_policy_is_what_predict_answers(logs: tuple[Path, Path], policy: str) -> None:
    clicks, shown = logs
    model = ensue.NextEvent("markov").fit(clicks)
    result = model.evaluate_off_policy(shown, policy=policy, columns=COLUMNS)
    rows = pl.read_csv(shown).rows()
    weighted, ratios = [], []
    sessions: dict[str, list[str]] = {}
    for session, item, _, clicked, propensity in rows:
        answer = model.predict([sessions.setdefault(session, [])], k=6)[0]
        choices = {choice.value: choice.score for choice in answer.choices}
        if policy != "softmax":
            choices = dict.fromkeys([*choices][:2], 0.5)
        ratios.append(choices.get(item, 0.0) / propensity)
        weighted.append(ratios[-1] * clicked)
        if clicked:
            sessions[session].append(item)
    value = result.values["markov"]
    assert (result.events, result.sessions, next(iter(result.values))) == (300, 60, "markov")
    assert value.ips.value == pytest.approx(np.mean(weighted), rel=1e-5)
    assert value.snips.value == pytest.approx(np.sum(weighted) / np.sum(ratios), rel=1e-5)
    assert value.mean_weight.value == pytest.approx(np.mean(ratios), rel=1e-5)
    assert result.logged.value == pytest.approx(np.mean([row[3] for row in rows]))
    assert result.to_frame().height == 3 * len(result.values) + 1 and "markov: IPS" in str(result)


def test_the_command_line(logs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = partial(run, monkeypatch)
    clicks, shown = logs
    assert command("fit", "next", clicks, "-o", tmp_path / "m", "--model", "markov").code == 0
    stated = ("evaluate", tmp_path / "m", shown, "--columns", "weight=clicked,propensity=shown_with", "--off-policy")
    ran = command(*stated, "softmax")
    assert ran.code == 0 and ran.cells[0][0] == "markov" and "300 shown items of 60 sessions" in ran.out
    values = json.loads(command(*stated, "top=1", "--json").out)
    assert values["policy"] == "top=1" and values["values"]["markov"]["num_clipped"] == 0
    for arguments, message in (
        ((*stated, "best"), "off-policy: 'best' is not known; choose softmax, or top=10 for one of the 10 best items"),
        ((*stated, "softmax", "--max-per", "brand=1"), "--max-per has no meaning with --off-policy"),
        ((*stated, "softmax", "-o", tmp_path / "t.csv"), "--output has no meaning with --off-policy"),
        (("evaluate", tmp_path / "m", shown, "--off-policy", "softmax"), "needs the propensity of each event"),
    ):
        ran = command(*arguments)
        assert ran.code == 2 and message in ran.lines[-1]


def test_bad_logs_are_refused(logs: tuple[Path, Path], tmp_path: Path) -> None:
    clicks, shown = logs
    model = ensue.NextEvent("markov").fit(clicks)
    with pytest.raises(
        DataError,
        match=r"every event has reward 1, so every policy would earn the same: name a column of rewards, weight=…",
    ):
        model.evaluate_off_policy(shown, columns={"propensity": "shown_with"})
    with pytest.raises(SettingError, match=r"choose softmax"):
        model.evaluate_off_policy(shown, policy="top=0", columns=COLUMNS)
    for value, problem in ((0.0, "holds '0.0'"), (1.5, "holds '1.5'"), (None, "is empty")):
        frame = pl.read_csv(shown)
        frame[3, "shown_with"] = value
        frame.write_csv(tmp_path / "bad.csv")
        message = rf"bad.csv, line 5: column 'shown_with' \(propensity\) {problem}; give a probability above 0"
        with pytest.raises(DataError, match=message):
            model.evaluate_off_policy(tmp_path / "bad.csv", columns=COLUMNS)


def test_what_a_log_never_shows_is_warned_of(logs: tuple[Path, Path]) -> None:
    clicks, shown = logs
    model = ensue.NextEvent("markov").fit(clicks)
    frame = pl.read_csv(shown)
    halved = frame.with_columns(pl.col("shown_with") / 2)
    warnings = model.evaluate_off_policy(halved, columns=COLUMNS).warnings()
    assert any("is not 1: propensities are wrong" in sentence for sentence in warnings)


def test_intervals_cover_the_truth(tmp_path: Path) -> None:
    """A small run of the benchmark, whose 500 worlds have 400 sessions each."""
    script = ROOT / "benchmarks" / "off_policy.py"
    path = tmp_path / "worlds.json"
    arguments: list[str | Path] = [sys.executable, script, "--worlds", "100", "--sessions", "200", "--json", path]
    subprocess.run(arguments, check=True, capture_output=True)
    for row in json.loads(path.read_text())["rows"]:
        assert row["covered"] >= 0.88 and abs(row["mean_error"]) < 0.01


def test_propensities_are_refused_where_nothing_reads_them(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("session,item,shown_with\ns1,a,0.5\ns1,b,0.5\n")
    with pytest.raises(SettingError, match="propensity is read for off-policy evaluation alone; remove it here"):
        ensue.read(log, task="next", columns={"propensity": "shown_with"})
