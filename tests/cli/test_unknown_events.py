"""Events that the training data lacks, at the command line: one rule for every row, named on the card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ensue

TRAIN = {"s1": "aabc", "s2": "abac", "s3": "aab"}
"""Events: a 6, b 3, c 2; sessions repeat values."""
TEST = {"t1": "xaxb", "t2": "xyc", "t3": "ax", "t4": "b"}
"""Targets: t1 a (after nothing known), x (held already), b; t2 y, c (after nothing known); t3 x. By counting a is
first, b second, c third."""


def csv(path: Path, sessions: dict[str, str]) -> Path:
    """A log with a session, an item and a time in seconds in each row."""
    rows = [
        f"{session},{item},{1_700_000_000 + 60 * place}"
        for session, items in sessions.items()
        for place, item in enumerate(items)
    ]
    path.write_text("\n".join(["session_id,item_id,timestamp", *rows, ""]))
    return path


@pytest.fixture
def folder(ensue: Ensue, tmp_path: Path) -> Path:
    ran = ensue("fit", "next", csv(tmp_path / "train.csv", TRAIN), "-o", tmp_path / "m", "--model", "popularity")
    assert ran.code == 0, ran.err
    csv(tmp_path / "test.csv", TEST)
    return tmp_path / "m"


def evaluated(ensue: Ensue, folder: Path, *options: object) -> dict[str, Any]:
    """The JSON of an evaluation."""
    ran = ensue("evaluate", folder, folder.parent / "test.csv", "--cutoffs", "1,2", "--json", *options)
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


BLIND = "2 after unseen events only (ranked by popularity)"


@pytest.mark.parametrize(
    ("options", "targets", "reciprocal", "hits"),
    [
        ((), f"6: every event after the first; 3 not in the training data (misses), {BLIND}", 11 / 6 / 6, 1 / 6),
        (
            ("--unknown", "drop"),
            f"3: every event after the first; 3 more in no training data (not scored), {BLIND}",
            11 / 6 / 3,
            1 / 3,
        ),
        (
            ("--protocol", "last"),
            "3: the last event of each session; 1 not in the training data (misses), "
            "1 after unseen events only (ranked by popularity)",
            (1 / 2 + 1 / 3) / 3,
            0,
        ),
        (
            ("--protocol", "last", "--unknown", "drop"),
            "2: the last event of each session; 1 more in no training data (not scored), "
            "1 after unseen events only (ranked by popularity)",
            (1 / 2 + 1 / 3) / 2,
            0,
        ),
    ],
)
def test_popularity_counts_whatever_a_session_holds(
    ensue: Ensue, folder: Path, options: tuple[str, ...], targets: str, reciprocal: float, hits: float
) -> None:
    found = evaluated(ensue, folder, *options)
    assert found["protocol"]["targets"] == targets
    assert found["protocol"]["unknown"].partition(":")[0] == ("drop" if "drop" in options else "miss")
    assert found["protocol"]["published"].startswith(
        "leave-one-out: SASRec and BERT4Rec" if "last" in options else "all items ranked after every event: GRU4Rec"
    )
    row = found["rows"][0]
    assert (row["model"], row["hit@1"]) == ("popularity", pytest.approx(hits))
    assert row["mrr"] == pytest.approx(reciprocal)


def test_unknown_events_are_ranked_by_every_row_only_where_that_is_asked_for(ensue: Ensue, folder: Path) -> None:
    plain, ranked = (evaluated(ensue, folder, "--unknown", rule, "--protocol", "macro") for rule in ("miss", "rank"))
    assert "3 not in the training data (1 ranked, 2 misses)" in ranked["protocol"]["targets"]
    assert ranked["protocol"]["unknown"].startswith("rank: ")
    for one, other in zip(plain["rows"], ranked["rows"], strict=True):
        assert one["model"] == other["model"] and one["mrr"] < other["mrr"]
    shown = ensue("evaluate", folder, folder.parent / "test.csv", "--unknown", "rank").out
    assert (
        "\n  unknown: rank: targets unseen in training are ranked where the session has them\n" in shown
        and "- unknown: rank: targets unseen in training are ranked where the session has them\n"
        in (folder / "CARD.md").read_text()
    )


def test_predict_answers_what_the_default_scores(ensue: Ensue, folder: Path) -> None:
    record = '{"values": ["x", "a"]}\n'
    for options, values in (((), {"a", "b", "c"}), (("--rank-unknown",), {"a", "b", "c", "x"})):
        ran = ensue("predict", folder, "-", "--json", *options, stdin=record)
        assert {choice["value"] for choice in json.loads(ran.out)["choices"]} == values


def test_drop_leaves_out_what_no_compared_model_was_trained_on(ensue: Ensue, folder: Path, tmp_path: Path) -> None:
    more = csv(tmp_path / "more.csv", {**TRAIN, "s4": "xab"})
    ensue("fit", "next", more, "-o", tmp_path / "more", "--model", "markov")
    run = tmp_path / "theirs.run"
    run.write_text("t1 Q0 b 1 2 x\nt2 Q0 c 1 2 x\nt3 Q0 x 1 2 x\n")
    options = ("--folder", folder, "--folder", tmp_path / "more", "--json", "--cutoffs", "1")
    data = tmp_path / "test.csv"
    found = json.loads(ensue("score", run, data, *options, "--unknown", "drop").out)
    expected = (
        "3: the last event of each session; 0 more in no training data (not scored), "
        "1 not in the training data of popularity (misses), "
    )
    assert found["protocol"]["name"] == "last"
    assert [(row["model"], row["hit@1"]) for row in found["rows"][:2]] == [("theirs", 1), ("popularity", 0)]
    assert found["protocol"]["targets"].startswith(expected)
    alone = json.loads(ensue("score", run, data, *options[:2], *options[4:]).out)
    assert alone["rows"][0]["hit@1"] == pytest.approx(2 / 3)  # x is a miss for another program's list too


@pytest.mark.parametrize("verb", ["evaluate", "compare", "score"])
def test_a_rule_that_there_is_not_is_refused(ensue: Ensue, folder: Path, verb: str) -> None:
    data = folder.parent / "test.csv"
    arguments = {
        "evaluate": (folder, data),
        "compare": ("next", data, "--test", data, "--models", "markov"),
        "score": (data, data, "--folder", folder),
    }
    ran = ensue(verb, *arguments[verb], "--unknown", "skip")
    assert ran.code == 2
    assert ran.lines[-1] == "ensue: unknown 'skip' is not known for task next; choose from miss, drop, rank"


def test_nothing_but_unknown_targets_cannot_be_scored_without_them(ensue: Ensue, folder: Path) -> None:
    data = csv(folder.parent / "new.csv", {"t1": "ax", "t2": "by"})
    ran = ensue("evaluate", folder, data, "--unknown", "drop")
    assert ran.code == 2
    assert ran.lines[-1] == (
        "ensue: nothing to score: the training data has none of the 2 targets; --unknown miss counts them as misses"
    )


def test_other_tasks_have_no_rule(ensue: Ensue, tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\n" + "".join(f"good film {n},yes\nbad film {n},no\n" for n in range(10)))
    ran = ensue("compare", "classify", texts, "--test", texts, "--unknown", "drop")
    assert (ran.code, ran.lines[-1]) == (2, "ensue: --unknown means nothing to task classify; leave it out")
