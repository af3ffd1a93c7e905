"""Tables at a terminal of 80 columns: nothing is cut off, and what is not above chance says so."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ensue.cli import show
from ensue.evaluation import Card, Result, Row
from ensue.metrics import names

AT = (10, 20, 50, 100)


def shown(monkeypatch: pytest.MonkeyPatch, at: tuple[int, ...], warning: str = "") -> list[str]:
    """The lines of a table of two rows, at 80 columns."""
    measures = names(at)
    figures = dict.fromkeys(measures, 1.0)
    interval = dict.fromkeys(measures, (0.8, 1.0))
    rows = (Row("cooccurrence", figures, interval, 123.45, warning=warning), Row("vsknn", figures, interval, 1.0))
    card = Card("full", "data", "targets", "all", "kept", "micro")
    text = io.StringIO()
    monkeypatch.setattr(show, "out", Console(file=text, width=80, soft_wrap=True, emoji=False))
    show.result(Result(card, rows, "vsknn", False, 1.0), at)
    return text.getvalue().splitlines()


@pytest.mark.parametrize("at", [AT, (10, 20), (5,)])
def test_a_table_fits_80_columns_and_cuts_nothing_off(monkeypatch: pytest.MonkeyPatch, at: tuple[int, ...]) -> None:
    lines = shown(monkeypatch, at)
    table = [line for line in lines if line[:1] in "┏┃┡│└"]
    assert table and max(map(len, table)) <= 80
    text = "\n".join(table)
    assert "…" not in text and "100.00" in text and "±10.00" in text and "│ 123 " in text
    for name in ("cooccurrence", "mrr", *(f"hit@{k}" for k in at), f"ndcg@{at[0]}"):
        assert name in text
    assert ("ndcg@20" in text) == (at == (10, 20))


def test_a_row_at_chance_says_so_beside_it_and_below(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, (10, 20), "cooccurrence: HR@10 0.1 is not above chance")
    row = next(number for number, line in enumerate(lines) if line.startswith("│ cooccurrence"))
    assert lines[row + 1].startswith("│ chance! ")
    assert "  warning: cooccurrence: HR@10 0.1 is not above chance" in lines
    assert sum("chance!" in line for line in lines) == 1
