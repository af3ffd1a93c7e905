"""Figures that are typed into a page are those of the file of results that the page names."""

from __future__ import annotations

import re

from scripts.site.blocks import ROOT
from scripts.site.tables import load

REVIEW = (ROOT / "docs" / "guides" / "review.md").read_text(encoding="utf-8")
ROWS = {
    "suggested cut": "suggested",
    "one fixed score for all stories": "fixed score",
    "Otsu's method": "otsu",
    "the largest gap": "largest gap",
    "the best cut, for one who knows the labels": "best cut",
}


def test_the_cuts_of_reviews_are_those_that_were_measured() -> None:
    found = [
        row for row in load("benchmarks/results/cuts.json")["rows"] if (row["part"], row["score"]) == ("test", "best")
    ]
    assert [row["set"] for row in found] == ["politifact", "clickbait22"]
    for shown, name in ROWS.items():
        cells = " | ".join(f"{row[name]:.3f}".lstrip("0") for row in found)
        assert f"| {shown} | {cells} |" in REVIEW
    covered = [f"{100 * row['covered']:.0f}" for row in found]
    assert f"| stories whose best cut lies in the interval | {covered[0]} % | {covered[1]} % |" in REVIEW
    assert f"of {covered[0]} and {covered[1]} % of new ones" in REVIEW
    table = REVIEW.split("| F1, mean over stories |")[1].split("\n\n")[0]
    assert len(re.findall(r"\.\d{3}", table)) == 2 * len(ROWS)
