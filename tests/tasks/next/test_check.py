"""Warnings about sequences, each by hand and against a plain loop."""

import json
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

from ensue import DataError, History
from ensue.data.histories import Histories
from ensue.data.schema import SequencesReport
from ensue.tasks.next.check import Findings, check
from ensue.tasks.next.training_data import require_targets


def understood(absolute: bool = True) -> SequencesReport:
    return SequencesReport(path="f", layout="csv", columns={}, time="seconds", unit="s", absolute=absolute, notes=())


def histories(*rows: str, times: bool = True, start: float = 0.0) -> Histories:
    return Histories.of(
        History(tuple(row), tuple(start * i + t for t in range(len(row))) if times else (), str(i))
        for i, row in enumerate(rows)
    )


def found(data: Histories, absolute: bool = True, **others: Histories) -> Findings:
    return check(data, understood(absolute), others)


FEW = "only 3 distinct items; metrics at cutoffs 50 and 100 are meaningless"


def test_counts_and_rows() -> None:
    findings = found(histories("abcabcabc", "a", "bc", "ca", start=9))
    counts = (findings.sequences, findings.events, findings.distinct, findings.longest, findings.single)
    assert counts == (4, 14, 3, 9, 1)
    assert (findings.mean_length, findings.median_length) == (3.5, 2.0)
    assert findings.rows[0] == History(tuple("abcabc"), (0.0, 1.0, 2.0, 3.0, 4.0, 5.0), "0")
    assert len(findings.rows) == 3
    assert json.loads(json.dumps(asdict(findings)))["warnings"] == [
        "1 of 4 (25.0 %) sessions has one event and no target",
        FEW,
    ]


def test_nothing_to_warn_about() -> None:
    rows = [[f"v{i}", f"v{i + 1}"] for i in range(60)]
    data = Histories.of(History(tuple(row), (1.4e9 + i, 1.4e9 + i + 1)) for i, row in enumerate(rows))
    assert found(data).warnings == ()


def test_duplicates_within_and_across() -> None:
    train = histories("abc", "cba", "abc", "ab", start=1)
    # Another vocabulary in another order: "cba" is the shared one, "zzz" is new, "bca" only has the same values.
    test = histories("zzz", "cba", "bca", start=1)
    assert found(train, test=test).warnings == (
        "1 of 4 (25.0 %) sessions repeats an earlier one exactly",
        FEW,
        "1 of 3 (33.3 %) sessions of test is here too, as exact duplicates",
        "3 of 9 (33.3 %) events of test have an item unseen here",
    )


def test_duplicates_equal_a_plain_count() -> None:
    chance = np.random.default_rng(0)
    rows = ["".join(chance.choice(list("abc"), chance.integers(1, 5))) for _ in range(300)]
    double = len(rows) - len(Counter(rows))
    expected = f"{double} of 300 ({double / 3:.1f} %) sessions repeat an earlier one exactly"
    assert expected in found(histories(*rows)).warnings


def test_ties() -> None:
    data = Histories.of([History(("a", "b", "c"), (5.0, 5.0, 6.0)), History(("b", "a"), (6.0, 7.0))])
    assert (
        "1 of 5 (20.0 %) events happens at the time of the one before: their order is undefined" in found(data).warnings
    )


def test_clocks() -> None:
    none = "no usable times: a split by time is impossible, and models cannot use time"
    assert none in found(histories("ab", times=False), False).warnings
    same = "every session starts at time 0: a global split by time is impossible"
    assert same in found(histories("ab", "ba"), False).warnings
    assert not any("split by time" in warning for warning in found(histories("ab", "ba", start=1), False).warnings)


def test_require_targets() -> None:
    require_targets(histories("a", "ab"), "f")
    with pytest.raises(DataError) as caught:
        require_targets(histories("a", "b"), "f.csv")
    assert str(caught.value) == ("f.csv: every session has one event, so there is nothing to predict")
