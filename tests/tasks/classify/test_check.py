"""Warnings about texts, each count and warning by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import polars as pl
import pytest

from ensue import DataError, Text
from ensue.data import leaks
from ensue.data.schema import ReadReport
from ensue.data.texts import Texts
from ensue.tasks.classify.check import TextFindings, check

UNDERSTOOD = ReadReport(path="f", layout="csv", columns={}, notes=())
PLENTY = [(f"{'ab'[place % 2]} text {place}", "ab"[place % 2]) for place in range(40)]


def texts(rows: Sequence[tuple[str, str]], groups: Sequence[str] | None = None) -> Texts:
    found = Texts.of([Text((text,), label) for text, label in rows])
    return Texts(found.texts, found.labels, None, None if groups is None else pl.Series(groups))


def found(data: Texts, **others: Texts) -> TextFindings:
    return check(data, UNDERSTOOD, others)


def test_counts_and_rows() -> None:
    data = texts([*PLENTY[:20], ("Fine. It works, really.", "a"), ("", "b"), ("x" * 300, "b")])
    findings = found(data)
    assert (findings.texts, findings.paired, findings.silent) == (23, False, 1)
    assert findings.labels == {"b": 12, "a": 11}
    # Twenty texts of 3 words, one of 7 ("Fine . It works , really ." in two sentences), one of none, one of 1.
    assert findings.mean_words == pytest.approx(68 / 23)
    assert (findings.median_words, findings.longest_words, findings.longest_sentences) == (3.0, 7, 2)
    assert findings.mean_sentences == pytest.approx(24 / 23)
    assert [row.texts[0] for row in findings.rows] == ["a text 0", "b text 1", "a text 2"]
    assert findings.warnings == ("1 of 23 (4.3 %) rows has a text without words",)
    assert json.loads(json.dumps(asdict(findings)))["understood"]["path"] == "f"
    assert found(texts([("x" * 300, "a")])).rows[0].texts[0] == "x" * 159 + "…"


def test_nothing_to_warn_of() -> None:
    findings = found(texts(PLENTY), test=texts([("a new one", "a")]))
    assert findings.warnings == () and findings.splits["test"].shared == 0


def test_texts_of_one_word() -> None:
    data = texts([(f"user_{place}", "ab"[place % 2]) for place in range(11)] + [("two words", "a")] * 9)
    expected = (
        "11 of 20 (55.0 %) texts are one word: is it the right column (--columns text=…), or is a script without "
        "spaces not split into words?"
    )
    assert expected in found(data).warnings
    chinese = texts([(f"电影很好{place}", "ab"[place % 2]) for place in range(20)])
    assert not any("one word" in warning for warning in found(chinese).warnings)


def test_labels_that_say_little() -> None:
    assert found(Texts.of([Text(("a",))])).warnings == (
        "no labels: `ensue fit classify` and `ensue evaluate` need them; name the column with --columns label=…",
    )
    assert found(texts([("a", "x"), ("b", "x")])).warnings == (
        "every text has the label 'x': there is nothing to classify",
    )
    assert found(texts([*PLENTY, ("c", "rare")])).warnings == (
        "1 of 3 labels have under 10 texts ('rare'): their metrics are unreliable",
    )
    each = found(texts([(f"text {place}", f"id{place:02}") for place in range(12)])).warnings
    assert each == (
        "12 of 12 labels have under 10 texts ('id00', 'id01', 'id02', …): their metrics are unreliable",
        "12 labels for 12 texts; is this the label column?",
    )


def test_texts_that_stand_twice() -> None:
    assert found(texts([*PLENTY, ("A  text 0", "a"), ("a text 0", "b")])).warnings == (
        "2 of 42 (4.8 %) rows repeat the text of an earlier one, ignoring case and spaces",
        "3 of 42 (7.1 %) rows have a text that also appears here with another label",
    )


def test_what_another_file_shares() -> None:
    test = texts([("a text 0", "a"), ("B text 1", "a"), ("new", "c"), ("newer", "a")])
    findings = found(texts(PLENTY), test=test)
    assert findings.warnings == (
        "2 of 4 (50.0 %) texts of test are here too, such as 'a text 0', 'b text 1'",
        "1 of 4 (25.0 %) texts of test is here with another label",
        "1 of 4 (25.0 %) texts of test has a label unseen here ('c')",
    )
    assert (findings.splits["test"].shared, findings.splits["test"].shared_disagree) == (2, 1)


def test_near_copies_that_were_not_looked_for_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "MOST_WORDS", 100)  # 40 texts of three words, and one of one
    assert found(texts(PLENTY), test=texts([("other", "a")])).warnings == (
        "test: near copies are not searched: both parts together hold more than 100 words",
    )


def test_groups_on_both_sides() -> None:
    groups = [f"film {place}" for place in range(40)]
    test = texts([("one", "a"), ("two", "b")], ["film 3", "film 99"])
    assert found(texts(PLENTY, groups), test=test).warnings == (
        "1 of 2 (50.0 %) rows of test belongs to a group that is here too",
    )


def test_pairs_and_single_texts_are_not_one_data_set() -> None:
    pairs = Texts.of([Text(("a", ""), "x"), Text(("b", "c"), "y")])
    findings = found(pairs)
    assert findings.paired and findings.silent == 1 and findings.mean_words == 3 / 4
    with pytest.raises(DataError, match="one part holds single texts and the other pairs"):
        found(pairs, test=texts(PLENTY))
