"""Tables at terminals of any width and in a pipe: no figure is cut, and what is not above chance says so."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ensue import Choice, Deletion, TextAnswer
from ensue.cli import display, results, tasks
from ensue.cli.tasks import classify
from ensue.evaluation.bootstrap import PairedTest, Verdict
from ensue.evaluation.classify import METRICS as LABEL_METRICS
from ensue.evaluation.result import Result, Row
from ensue.metrics import rank_metrics
from ensue.training.report import Report

AT = (10, 20, 50, 100)
WIDTHS = (40, 60, 80, 200, None)
"""Columns of a terminal; of a pipe none are known."""


def terminal(monkeypatch: pytest.MonkeyPatch, width: int | None) -> io.StringIO:
    """What ``display`` writes from here on, to a terminal or to a pipe."""
    text = io.StringIO()
    console = Console(
        file=text, width=width, force_terminal=width is not None, soft_wrap=True, emoji=False, color_system=None
    )
    monkeypatch.setattr(display, "console", lambda stderr=False: console)
    return text


def framed(text: str) -> list[str]:
    """The lines of tables."""
    return [line for line in text.splitlines() if line[:1] in "┏┃┡│└├"]


def shown(monkeypatch: pytest.MonkeyPatch, width: int | None, at: tuple[int, ...], warning: str = "") -> str:
    """A table of two models."""
    measures = list(rank_metrics(np.ones(1), at))
    figures = dict.fromkeys(measures, 1.0)
    interval = dict.fromkeys(measures, (0.8, 1.0))
    rows = (Row("cooccurrence", figures, interval, 123.45, warning=warning), Row("vsknn", figures, interval, 1.0))
    card = {"name": "full", "data": "data", "targets": "targets", "unknown": "miss", "candidates": "all"}
    text = terminal(monkeypatch, width)
    tests = (PairedTest("mrr", "hidan", "vsknn", (0.1, 0.2), 1.0),)
    results.show_result(Result("next", card, rows, tests, ("mrr", *(f"hit@{k}" for k in at))))
    return text.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("at", [AT, (10, 20), (5,)])
def test_a_table_of_figures_cuts_nothing_off(
    monkeypatch: pytest.MonkeyPatch, width: int | None, at: tuple[int, ...]
) -> None:
    text = shown(monkeypatch, width, at)
    assert max(map(len, framed(text)), default=0) <= (width or 1000)
    assert "…" not in text
    measures = ["MRR", *(f"HR@{k}" for k in at), f"NDCG@{at[0]}", *["NDCG@20"] * (at == (10, 20))]
    assert text.count("100.00") == text.count("±10.00") == 2 * len(measures)
    for name in ("cooccurrence", "vsknn", "123", "1.00", *measures):
        assert re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text), name


def test_a_small_p_value_is_printed_as_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    text = terminal(monkeypatch, None)
    pairs = [Verdict("mrr", "vsknn", other, 0.1, 0.05, 0.15, p, p) for other, p in (("markov", 4e-5), ("bm25", 0.034))]
    results.of_pairs(pairs)
    assert [line.split()[-2] for line in text.getvalue().splitlines() if "vsknn" in line] == ["<0.001", "0.034"]


def test_a_narrow_terminal_gets_a_block_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 40, (10, 20)).splitlines()[:8] == [
        "protocol full: metrics in % ± 95 % CI, seconds per 1,000 predictions",
        "model cooccurrence",
        "  MRR: 100.00 ±10.00",
        "  HR@10: 100.00 ±10.00",
        "  HR@20: 100.00 ±10.00",
        "  NDCG@10: 100.00 ±10.00",
        "  NDCG@20: 100.00 ±10.00",
        "  s / 1,000: 123",
    ]


def test_a_pipe_gets_one_line_a_row_however_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = [line for line in framed(shown(monkeypatch, None, AT)) if "vsknn" in line]
    assert row.count("100.00 ±10.00") == 6


@pytest.mark.parametrize("width", WIDTHS)
def test_columns_of_texts_give_way_to_figures(monkeypatch: pytest.MonkeyPatch, width: int | None) -> None:
    text = terminal(monkeypatch, width)
    long, id = " ".join(f"word{number}" for number in range(30)), "https://example.org/" + "x" * 60
    display.table(("#", "value", "score", "evidence"), [("1", id, "57.123", long)], wraps=("value", "evidence"))
    found = text.getvalue()
    assert "57.123" in found and "…" not in found
    assert max(map(len, framed(found)), default=0) <= (width or 1000)
    joined = re.sub(r"[\s│]", "", found)
    assert all(f"word{number}" in joined for number in range(30))
    assert found.count("x") >= 60


@pytest.mark.parametrize("width", WIDTHS)
def test_no_text_steers_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int | None) -> None:
    text = terminal(monkeypatch, width)
    evil = "\x1b]0;title\x07\x1b[2J\u202etxet\x9b1m [red]not markup[/]"
    display.table(("post", "P"), [(evil, "0.5")], wraps=("post",), title=evil)
    display.line(evil)
    display.warning("note:", evil)
    display.print_json({"id": evil})
    found = text.getvalue()
    assert not set(found) & set("\x1b\x07\u202e\x9b")
    assert "\\x1b[2J" in found and "\\u001b[2J" in found and found.count("[red]not markup[/]") >= 4


def test_a_row_at_chance_says_so_beside_it_and_below(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, 80, (10, 20), "cooccurrence: HR@10 0.1 is not above random").splitlines()
    row = next(number for number, line in enumerate(lines) if line.startswith("│ cooccurrence"))
    assert lines[row + 1].startswith("│ at chance level ")
    assert "warning: cooccurrence: HR@10 0.1 is not above random" in lines
    assert sum("at chance level" in line for line in lines) == 1


@pytest.mark.parametrize(("monitor", "name"), [("loss", "loss"), ("accuracy", "accuracy"), ("mrr", "MRR")])
def test_a_training_names_the_figure_it_watches(monkeypatch: pytest.MonkeyPatch, monitor: str, name: str) -> None:
    text = io.StringIO()
    monkeypatch.setattr(display, "console", lambda stderr: Console(file=text, soft_wrap=True, emoji=False))
    display.training([Report("fit", 1, 9, 5, 5, 0.5, 2.0, 0.0045, 0.0045, stopped=True, monitor=monitor, best_epoch=1)])
    assert text.getvalue() == f"fit: 1 epoch in 2 s, loss 0.5000; kept epoch 1: best validation {name} 0.0045\n"


@pytest.mark.parametrize("width", WIDTHS)
def test_seeds_have_their_mean_and_spread(monkeypatch: pytest.MonkeyPatch, width: int | None) -> None:
    figures, spread = {"mrr": 0.5, "log_loss": 0.25}, {"mrr": 0.015, "log_loss": 0.5}
    notes = {"seeds": 3, "by_seed": [{"seed": seed, **figures} for seed in (0, 1, 2)], "spread": spread}
    interval = {"mrr": (0.4, 0.6), "log_loss": (0.2, 0.3)}
    rows = (Row("hidan", figures, interval, notes=notes), Row("popularity", figures, interval))
    text = terminal(monkeypatch, width)
    results.metrics(rows, ["mrr", "log_loss"], "metrics")
    _, below = text.getvalue().split("over seeds: mean and standard deviation\n")
    assert "0, 1, 2" in below and "50.00 sd 1.50" in below and "0.250 sd 0.500" in below
    assert "popularity" not in below


def test_json_has_null_where_there_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    text = terminal(monkeypatch, None)
    display.print_json({"cut": float("inf"), "rows": [float("nan"), 0.5], "way": Path("a")})
    assert json.loads(text.getvalue(), parse_constant=pytest.fail) == {
        "cut": None,
        "rows": [None, 0.5],
        "way": "a",
    }


@pytest.mark.parametrize(("score_drop", "random"), [(0.3, 0.1), (0.1, 0.1), (-0.2, -0.00001)])
def test_weights_that_a_random_choice_equals_are_said_to_tell_nothing(
    monkeypatch: pytest.MonkeyPatch, score_drop: float, random: float
) -> None:
    text = terminal(monkeypatch, 80)
    tasks.show_answer(TextAnswer((Choice("[b]", 0.9),), 3, 3, deletion=Deletion(2, score_drop, random, 5)), classify)
    assert f"deletion test of [b]: score drop {score_drop:.3f} without the 2 words" in text.getvalue()
    assert "-0.000" not in text.getvalue()
    useless = score_drop <= random
    assert ("random words matter as much: these weights do not explain the answer\n" in text.getvalue()) == useless


def test_the_table_fits_80_columns_and_cuts_nothing_off(monkeypatch: pytest.MonkeyPatch) -> None:
    figures, interval = dict.fromkeys(LABEL_METRICS, 1.0), dict.fromkeys(LABEL_METRICS, (0.8, 1.0))
    rows = tuple(Row(name, figures, interval, 123.4, warning="why") for name in ("centrality-bilinear", "tfidf"))
    card = {"name": "labels", "data": "9 texts", "labels": "2", "averaging": "over texts", "interval": "95 %"}
    text = terminal(monkeypatch, 80)
    results.show_result(
        Result(
            "classify",
            card,
            rows,
            (PairedTest("accuracy", "centrality-bilinear", "tfidf", (1.0, 1.0), 1.0),),
            LABEL_METRICS,
        )
    )
    lines = text.getvalue().splitlines()
    table = "\n".join(line for line in lines if line[:1] in "┏┃┡│└")
    assert max(map(len, table.splitlines())) <= 80 and "…" not in table
    for cell in (
        "centrality-bilinear",
        "100.00",
        "±10.00",
        "1.000",
        "±0.100",
        "log loss",
        "ECE",
        "123",
        "at chance level",
    ):
        assert cell in table, cell
    assert lines[-1] == (
        "centrality-bilinear and tfidf (baseline) do not differ significantly: accuracy +0.00 points (95 % CI 0.00 to "
        "0.00, p = 1.000)"
    )
