"""What becomes of a result: rows by example that give the same figures, who is ahead of whom, tables for papers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ensue import Article, History, Post, Text
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.queries import Queries
from ensue.data.texts import Texts
from ensue.evaluation.bootstrap import holm
from ensue.evaluation.comparison import evaluate
from ensue.evaluation.result import Result, Row
from ensue.predictor import make

MRR = (1 / pl.col("rank")).fill_null(0).mean()


def log(lines: list[str]) -> Histories:
    return Histories.of(History(tuple(line)) for line in lines)


def next_result() -> Result:
    random = np.random.default_rng(0)
    walks = ["".join("abcdefgh"[(start + step) % 8] for step in range(4)) for start in random.integers(0, 8, 60)]
    predictor = make("next", "markov")
    list(predictor.fit(log(walks[:30])))
    # z is unknown, and what follows it alone cannot be ranked; one that stands in the history already can.
    return evaluate(predictor, log([*walks[30:], "za", "azbz", "q"]))


def text_result() -> Result:
    texts = [Text((f"good {word}",), "a", word) for word in "uvwxyz"] + [Text((f"bad {word}",), "b") for word in "uvw"]
    predictor = make("classify", "tfidf")
    list(predictor.fit(Texts.of(texts), Texts.of(texts)))
    return evaluate(predictor, Texts.of([*texts, Text(("good or bad",), "b"), Text(("neither",), "c")]))


def query_result() -> Result:
    sessions = [("red boat", "buy red boat")] * 3 + [("red boat", "red car")] * 2 + [("a kite", "buy a kite")] * 2
    predictor = make("suggest", "most-frequent-next", settings={"min_users": 1})
    list(predictor.fit(Queries(Histories.of(History(own) for own in sessions))))
    asked = [("red boat", "red car", "what is a kite"), ("a kite", "buy a kite")]
    return evaluate(predictor, Queries(Histories.of(History(own, id=f"s{n}") for n, own in enumerate(asked))))


def link_result() -> Result:
    articles = [Article("red boat harbour", "a"), Article("blue kite wind", "b"), Article("green lamp wind", "c")]
    posts = [Post("red boat", "1", ("a",)), Post("wind lamp", "2", ("b", "a")), Post("kite", "3", ("b",))]
    corpus = Corpus(Articles.of(articles), Posts.of(posts))
    predictor = make("link", "tfidf")
    list(predictor.fit(corpus, corpus))
    return evaluate(predictor, corpus)


RESULTS: dict[str, tuple[Callable[[], Result], str, pl.Expr]] = {
    "next": (next_result, "mrr", MRR),
    "classify": (text_result, "accuracy", (pl.col("label") == pl.col("target")).mean()),
    "suggest": (query_result, "mrr@10", MRR),
    "link": (link_result, "mrr", MRR),
}


@pytest.mark.parametrize("task", RESULTS)
def test_rows_by_example_give_the_figures_of_the_table(task: str) -> None:
    made, measure, by_hand = RESULTS[task]
    found = made()
    assert found.examples is not None
    frame = found.examples.to_frame()
    assert frame.columns[:4] == ["model", "seed", "id", "unit"] and "target" in frame.columns
    again = dict(frame.group_by("model").agg(by_hand.alias("figure")).iter_rows())
    assert again == pytest.approx({row.model: row.figures[measure] for row in found.rows})
    one = frame.filter(model=found.rows[0].model)
    assert len(one) * len(found.rows) == len(frame) and one["id"].null_count() == 0


def test_every_event_after_the_first_has_a_row_with_its_place() -> None:
    found = next_result()
    assert found.examples is not None
    frame = found.examples.to_frame().filter(model="markov")
    *_, last = frame.partition_by("unit", maintain_order=True)
    assert last.select("id", "place", "target").rows() == [("32", 1, "z"), ("32", 2, "b"), ("32", 3, "z")]
    # z is unknown and a miss; b follows z alone and is ranked by popularity.
    assert last["rank"].to_list()[::2] == [None, None] and frame.filter(id="31")["rank"].to_list() == [2]


def test_ids_of_the_data_stand_in_the_rows() -> None:
    found = query_result()
    assert found.examples is not None
    assert found.examples.to_frame().filter(model="most-frequent-next")["id"].to_list() == ["s0", "s0", "s1"]


def test_verdicts_are_those_of_an_independent_paired_bootstrap() -> None:
    found = next_result()
    assert found.examples is not None
    frame = found.examples.to_frame().with_columns(worth=(1 / pl.col("rank")).fill_null(0))
    sums = {
        name: own.group_by("unit", maintain_order=True).agg(pl.col("worth").sum(), pl.len())
        for (name,), own in frame.group_by("model", maintain_order=True)
    }
    counts = next(iter(sums.values()))["len"].to_numpy()
    drawn = np.random.default_rng(1).integers(len(counts), size=(4_000, len(counts)))
    pairs = found.verdicts()
    assert len(pairs) == len(found.rows) * (len(found.rows) - 1) // 2
    for pair in pairs:
        ahead = sums[str(pair.model)]["worth"].to_numpy() - sums[str(pair.other)]["worth"].to_numpy()
        assert pair.difference == pytest.approx(ahead.sum() / counts.sum()) and pair.difference >= 0
        again = ahead[drawn].sum(1) / counts[drawn].sum(1)
        assert [pair.low, pair.high] == pytest.approx(np.percentile(again, [2.5, 97.5]).tolist(), abs=0.02)
        assert pair.corrected >= pair.p_value
    sure, unsure = pairs[0], max(pairs, key=lambda pair: pair.p_value)
    assert sure.sure and sure.low > 0 and not unsure.sure


def test_p_values_are_corrected_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.6, 0.5])).tolist() == [1.0, 1.0]


class Cells(HTMLParser):
    """Rows of cells; an element that is never closed, or more than a table and a sentence, is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: object) -> None:
        assert tag in ("table", "caption", "thead", "tbody", "tr", "th", "td", "b", "p") and not attributes
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"th", "td"} & {*self.open}:
            self.rows[-1][-1] += data


@pytest.mark.parametrize("task", RESULTS)
def test_a_table_is_the_same_in_every_form(task: str) -> None:
    found = RESULTS[task][0]()
    shown = found.table_metrics
    frame = pl.read_csv(found.to_csv().encode())
    assert frame["model"].to_list() == [row.model for row in found.rows]
    assert frame[f"{shown[0]}_low"].to_list() == pytest.approx([row.interval[shown[0]][0] for row in found.rows])
    cells = Cells()
    cells.feed(found._repr_html_())
    assert cells.open == [] and len(cells.rows) == 1 + len(found.rows)
    figure = f"{100 * found.rows[0].figures[shown[0]]:.2f}"
    assert cells.rows[1][1].startswith(figure) and figure in found.to_markdown() and figure in found.to_latex()
    assert len(repr(found).splitlines()) == 2


def test_names_of_strangers_cannot_leave_their_cell() -> None:
    found = next_result()
    first = found.rows[0]
    strange = Row("a&b_<i>%|#", first.figures, first.interval)
    found = replace(found, rows=(strange, *found.rows[1:]))
    cells = Cells()
    cells.feed(found._repr_html_())
    assert cells.rows[1][0] == "a&b_<i>%|#"
    assert r"a\&b\_<i>\%|\# &" in found.to_latex()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX with booktabs")
@pytest.mark.parametrize("task", RESULTS)
def test_latex_compiles(task: str, tmp_path: Path) -> None:
    table = RESULTS[task][0]().to_latex()
    page = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n" + table + "\\end{document}\n"
    (tmp_path / "page.tex").write_text(page)
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
