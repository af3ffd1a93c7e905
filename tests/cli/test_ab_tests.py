"""Experiments: assignment, interleaving, and their statistics next to loops, SciPy and simulations."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ensue.cli.results import show_experiment
from ensue.data.histories import Histories
from ensue.errors import DataError, SettingError
from ensue.evaluation.ab_tests import (
    ExperimentResult,
    evaluate_experiments,
    mismatch_p_value,
    preference,
    ratio,
    read_shown,
)
from ensue.experiments import Experiment, assign, interleave, read_interleaved, read_split
from ensue.metrics import Floats
from ensue.records import History
from ensue.significance import student_quantile
from tests.cli.conftest import Ensue


def test_assignment_follows_the_shares_and_differs_by_experiment() -> None:
    shares = {"a": 0.2, "b": 0.5, "c": 0.3}
    assigned = [assign("home", f"s{at}", shares) for at in range(30_000)]
    assert assigned == [assign("home", f"s{at}", shares) for at in range(30_000)]
    counts = Counter(assigned)
    observed = np.array([counts[name] for name in shares], np.float64)
    assert mismatch_p_value(observed, np.array([*shares.values()])) > 0.01
    # Whoever sees a in one experiment is spread over all variants of another one.
    others = Counter(assign("cart", f"s{at}", shares) for at, name in enumerate(assigned) if name == "a")
    assert others["b"] / counts["a"] == pytest.approx(0.5, abs=0.03)


def test_team_drafts_are_fair_and_keep_the_order_of_both_lists() -> None:
    first, second = ["a", "b", "c", "d"], ["c", "a", "e", "f"]
    places = np.zeros((2, 4))
    for seed in range(2_000):
        drafted = interleave([first, second], 4, str(seed))
        items = [(first, second)[team][position] for team, position in drafted]
        assert len({*items}) == 4 and [team for team, _ in drafted].count(0) == 2
        for round_ in (0, 2):
            assert {team for team, _ in drafted[round_ : round_ + 2]} == {0, 1}
        for team in (0, 1):
            positions = [position for of, position in drafted if of == team]
            assert positions == sorted(positions)
        for at, (team, _) in enumerate(drafted):
            places[team, at] += 1
    np.testing.assert_allclose(places / 2_000, 0.5, atol=0.04)
    assert interleave([["a"], ["a", "b"]], 5, "x") in ([(0, 0), (1, 1)], [(1, 0), (1, 1)])
    assert interleave([[], []], 5, "x") == []


@pytest.mark.parametrize(
    ("read", "text", "error"),
    [
        (read_split, "home:a=.5,b=.4", "sum to 1"),
        (read_split, "home:a=1", "above 0"),
        (read_split, "home:a=.5,a=.5", "appears twice"),
        (read_split, "home:a,b", "no VARIANT=SHARE"),
        (read_split, "a=.5,b=.5", "name of the experiment"),
        (read_interleaved, "home:a", "two different models"),
        (read_interleaved, "home:a,a", "two different models"),
        (read_interleaved, ":a,b", "name of the experiment"),
    ],
)
def test_wrong_options_are_refused(read: Any, text: str, error: str) -> None:
    with pytest.raises(SettingError, match=error):
        read(text)


def test_experiments_are_read() -> None:
    assert read_split("home:a=.25,b=.75") == Experiment("home", {"a": 0.25, "b": 0.75})
    assert read_interleaved("home:a,b") == Experiment("home", {"a": 0.5, "b": 0.5}, interleaved=True)


def test_statistics_are_those_of_scipy() -> None:
    for counts in ([5_210, 4_790], [10, 20, 30], [10, 20, 30, 25]):
        fractions = np.full(len(counts), 1 / len(counts))
        expected = stats.chisquare(counts, fractions * sum(counts)).pvalue
        assert mismatch_p_value(np.array(counts, np.float64), fractions) == pytest.approx(expected, rel=1e-12)
    for degrees in (1, 3, 40, 100_000):
        assert student_quantile(0.975, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-9)
    for wins, losses in ((30, 12), (5, 5), (0, 7), (3, 0), (5_100, 4_900)):
        result, test = preference("b", "a", wins, losses, 4), stats.binomtest(wins, wins + losses)
        interval = test.proportion_ci(method="exact")
        assert result.p_value == pytest.approx(test.pvalue, rel=1e-12)
        assert (result.low, result.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert preference("b", "a", 0, 0, 3).p_value == 1


def test_the_variance_of_a_ratio_is_that_of_the_delta_method() -> None:
    """Deng, Knoblich & Lu (2018): from the variances of both means and their covariance."""
    random = np.random.default_rng(0)
    counts = random.integers(1, 6, 50).astype(np.float64)
    sums = random.binomial(counts.astype(int), 0.3).astype(np.float64)
    mean, variance = ratio(sums, counts)
    (var_s, cov), (_, var_n) = np.cov(sums, counts)
    expected = (var_s - 2 * mean * cov + mean**2 * var_n) / counts.mean() ** 2 / len(sums)
    assert mean == sums.sum() / counts.sum() and variance == pytest.approx(expected, rel=1e-12)


def drawn(random: np.random.Generator, num_units: int, mean: float) -> tuple[Floats, Floats]:
    """Clicks and lists of sessions whose own rates differ: lists of one session depend on each other."""
    counts = 1 + random.poisson(2, num_units)
    rates = random.beta(5 * mean, 5 * (1 - mean), num_units)
    return random.binomial(counts, rates).astype(np.float64), counts.astype(np.float64)


def test_false_positives_are_5_percent_and_intervals_cover_95_percent() -> None:
    random = np.random.default_rng(1)
    covered = rejected = naive = 0
    for _ in range(2_000):
        (a, var_a), (b, var_b) = (ratio(*drawn(random, 300, mean)) for mean in (0.2, 0.25))
        covered += abs(b - a - 0.05) < 1.959964 * (var_a + var_b) ** 0.5
        pairs = [drawn(random, 300, 0.2) for _ in range(2)]
        (a, var_a), (b, var_b) = (ratio(*pair) for pair in pairs)
        rejected += abs(b - a) > 1.959964 * (var_a + var_b) ** 0.5
        independent = sum(mean * (1 - mean) / counts.sum() for mean, (_, counts) in zip((a, b), pairs, strict=True))
        naive += abs(b - a) > 1.959964 * independent**0.5
    assert 0.94 < covered / 2_000 < 0.96 and 0.04 < rejected / 2_000 < 0.06
    # As if the lists of a session were independent: this is what the clusters are for.
    assert naive / 2_000 > 0.08


CLICKS = [
    History(("x", "i1", "i3", "i2"), (99.0, 101.0, 105.0, 111.0), "s1"),
    History(("i2", "i9"), (100.5, 130.0), "s2"),
    History(("i1",), (50.0,), "s3"),
    History(("i5",), (101.0,), "s4"),
]
SHOWN = [
    ("s1", 100.0, "a", ["i1", "i2", "i3"]),  # i1 first, then i3
    ("s1", 110.0, "a", ["i4", "i2", "i5"]),  # i2 at rank 2
    ("s2", 100.0, "b", ["i1", "i2", "i3"]),  # i2 at rank 2
    ("s2", 120.0, "b", ["i1", "i2", "i3"]),  # i9 is on no list
    ("s3", 100.0, "b", ["i1", "i2", "i3"]),  # its click was before
    ("s4", 100.0, "a", ["i5"]),
    ("s4", 102.0, "b", ["i5"]),  # saw both
]


def write(path: Path, shown: list[Any], **more: Any) -> Path:
    rows = [{"experiment": "home", "id": id, "time": time, "variant": name, "ranking": items, **more}
            for id, time, name, items in shown]  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_metrics_of_variants_are_those_counted_by_hand(tmp_path: Path) -> None:
    path = write(tmp_path / "shown.jsonl", SHOWN)
    (result,) = evaluate_experiments([path], Histories.of(CLICKS), [1])
    a, b = result.variants
    assert (a.name, a.units, a.lists, b.name, b.units, b.lists) == ("a", 1, 2, "b", 2, 3)
    expected = {"ctr": 1, "hit@1": 0.5, "mrr@1": 0.5, "hit@3": 1, "mrr@3": 0.75}
    assert a.metrics == pytest.approx(expected)
    assert b.metrics == pytest.approx({"ctr": 1 / 3, "hit@1": 0, "mrr@1": 0, "hit@3": 1 / 3, "mrr@3": 1 / 6})
    assert result.warnings == ("1 of 4 sessions saw more than one variant: left out",)
    assert result.differences[0].difference == pytest.approx(-2 / 3)


def test_shown_lists_are_read_packed(tmp_path: Path) -> None:
    line = '{"time": 9, "experiment": "home", "id": "s1", "variant": "a", "ranking": ["i1", "i2"]}\n'
    packed = tmp_path / "shown.jsonl"
    packed.write_bytes(gzip.compress(line.encode()))
    (shown_list,) = read_shown([packed])["home"]
    assert (shown_list.variant, shown_list.ranking) == ("a", ("i1", "i2"))


def test_a_sample_ratio_mismatch_is_a_warning(tmp_path: Path) -> None:
    shown = [(f"s{at}", 1.0, "a" if at < 400 else "b", ["i1"]) for at in range(1_000)]
    clicks = Histories.of([History(("i1",), (2.0,), f"s{at}") for at in range(0, 1_000, 3)])
    (result,) = evaluate_experiments([write(tmp_path / "shown.jsonl", shown)], clicks, [10])
    assert "sample ratio mismatch: sessions are a 400, b 600, but the shares are 50 %, 50 %" in result.warnings[0]
    rows = write(tmp_path / "stated.jsonl", shown[:400], share=0.4).read_text()
    rows += write(tmp_path / "rest.jsonl", shown[400:], share=0.6).read_text()
    (tmp_path / "stated.jsonl").write_text(rows)
    (result,) = evaluate_experiments([tmp_path / "stated.jsonl"], clicks, [10])
    assert not result.warnings


def test_a_variant_without_any_list_is_a_warning(tmp_path: Path) -> None:
    shown = [(f"s{at}", 1.0, "ab"[at % 2], ["i1"]) for at in range(100)]
    clicks = Histories.of([History(("i1",), (2.0,), f"s{at}") for at in range(0, 100, 3)])
    (result,) = evaluate_experiments([write(tmp_path / "shown.jsonl", shown, share=0.4)], clicks, [10])
    assert "the shares of the variants that were shown sum to 80 %: a variant has no list" in result.warnings[0]


def test_an_item_that_a_list_holds_twice_was_clicked_at_its_first_place(tmp_path: Path) -> None:
    shown = [(id, time, name, [*items, items[0]]) for id, time, name, items in SHOWN]
    path = write(tmp_path / "shown.jsonl", shown)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as editors of Windows save it
    (result,) = evaluate_experiments([path], Histories.of(CLICKS), [1])
    assert result.variants[0].metrics["mrr@1"] == 0.5


def test_clicks_of_users_belong_to_their_lists_whatever_pauses_are_between_them(tmp_path: Path, ensue: Ensue) -> None:
    lists = [(f"u{at}", 1.7e9 + day * 86_400, "ab"[at % 2], ["i1"]) for at in range(8) for day in range(3)]
    shown = write(tmp_path / "shown.jsonl", lists)
    clicks = tmp_path / "clicks.csv"
    rows = [f"{id},i1,{time + 5}" for id, time, name, _ in lists if name == "a"]
    clicks.write_text("\n".join(["user_id,item_id,timestamp", *rows, ""]))
    (result,) = json.loads(ensue("score", shown, clicks, "--by", "variant", "--json").out)
    assert [variant["metrics"]["ctr"] for variant in result["variants"]] == [1, 0]


def test_interleaved_clicks_count_for_the_model_of_the_item(tmp_path: Path, capsys: Any) -> None:
    shown = [(f"s{at}", 1.0, "interleave", ["i1", "i2"]) for at in range(20)]
    # i1 is from b, and clicked in 15 sessions; i2 from a is clicked in 2, both are in 1, none in 2.
    items = [["i1"]] * 15 + [["i2"]] * 2 + [["i1", "i2"]] + [["x"]] * 2
    clicks = [History(tuple(values), (2.0,) * len(values), f"s{at}") for at, values in enumerate(items)]
    path = write(tmp_path / "shown.jsonl", shown, sources=["b", "a"])
    (result,) = evaluate_experiments([path], Histories.of(clicks), [10])
    assert result.preference is not None
    assert (result.preference.variant, result.preference.wins, result.preference.losses) == ("b", 15, 2)
    assert result.preference.ties == 3 and [variant.metrics["ctr"] for variant in result.variants] == [0.15, 0.8]
    show_experiment(result)
    assert (
        "b is preferred to a: b has more clicks in 15 sessions, a in 2, 3 ties; 88.2 % (95 % CI"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "line 1: not JSON"),
        ('{"experiment": "e e"}', 'line 1: field "experiment" must be a name'),
        ('{"experiment": "e", "variant": "a", "ranking": 3, "id": "s", "time": 1}', '"ranking" and "sources"'),
        ('{"experiment": "e", "variant": "a", "ranking": [], "time": 1}', 'field "id" is missing'),
        (
            '{"experiment": "e", "variant": "a", "ranking": [], "id": "s", "time": "noon"}',
            '"time" must be ISO 8601',
        ),
        ('{"experiment": "e", "variant": "a", "ranking": ["i"], "id": "s", "time": 1, "share": 0}', '"share" must be'),
        ('{"experiment": "e", "variant": "interleave", "ranking": ["i"], "id": "s", "time": 1}', '"sources" must name'),
        ('{"experiment": "e", "variant": "a", "ranking": ["i1"], "id": "s1", "time": 1}', "nothing to compare"),
        ('{"experiment": "e", "variant": "a", "ranking": ["q"], "id": "s1", "time": 1}', "no click of the log"),
        ("", "is empty"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, line: str, error: str) -> None:
    (tmp_path / "shown.jsonl").write_text(f"{line}\n")
    with pytest.raises(DataError, match=error.replace("(", r"\(")) as raised:
        evaluate_experiments([tmp_path / "shown.jsonl"], Histories.of(CLICKS), [10])
    assert "\n" not in str(raised.value)


def test_the_command_prints_the_variants(tmp_path: Path, ensue: Ensue) -> None:
    shown = write(tmp_path / "shown.jsonl", SHOWN)
    clicks = tmp_path / "clicks.csv"
    rows = [
        f"{record.id},{item},{time}"
        for record in CLICKS
        for item, time in zip(record.values, record.times, strict=True)
    ]
    clicks.write_text("\n".join(["session,item,time", *rows, ""]))
    result = ensue("score", shown, clicks, "--by", "variant", "--cutoffs", "1", "--time-unit", "s")
    assert "home: metrics in %" in result.out and "points to a" in result.out
    assert "warning: home: 1 of 4 sessions saw more than one variant" in " ".join(result.out.split())
    decoded = json.loads(ensue("score", shown, clicks, "--by", "variant", "--time-unit", "s", "--json").out)
    assert decoded[0]["variants"][0]["name"] == "a" and ExperimentResult(**decoded[0]).name == "home"
    for arguments, error in (
        (["--by", "user"], "--by user: write --by variant"),
        (["--by", "variant", "--pairwise"], "--pairwise has no meaning with --by variant"),
    ):
        assert error in ensue("score", shown, clicks, *arguments).err
    assert "give the lists that" in ensue("score", clicks, "--by", "variant").err
