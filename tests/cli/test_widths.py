"""Every verb that prints a table, at terminals of any width and in a pipe: no figure is cut, and nothing overflows."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ensue.cli import display
from tests.cli.conftest import Ensue, Logs, run
from tests.cli.test_show import WIDTHS, framed, terminal
from tests.tasks.classify.contract import planted as texts
from tests.tasks.link.checks import planted as corpus
from tests.tasks.suggest.contract import planted as sessions


class Places(NamedTuple):
    """A folder of small files, and of models that learned them."""

    folder: Path
    log: Path
    hidan: Path


def write(path: Path, *rows: Sequence[object]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture(scope="module")
def places(logs: Logs, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Places:
    folder = tmp_path_factory.mktemp("widths")
    write(folder / "texts.csv", ("text", "label"), *((text.texts[0], text.label) for text in texts(60, 0)))
    queries = ((f"u{row}", query) for row, session in enumerate(sessions(40, 0)) for query in session.values)
    write(folder / "queries.csv", ("session", "query"), *queries)
    found = corpus()
    write(folder / "posts.csv", ("text", "about"), *((one.text, one.about[0]) for one in found.posts.records()))
    articles = zip(found.articles.ids, found.articles.texts, strict=True)
    write(folder / "articles.csv", ("article_id", "body"), *articles)
    for task, name, data in (("classify", "tfidf", "texts.csv"), ("suggest", "most-frequent-next", "queries.csv")):
        with pytest.MonkeyPatch.context() as patch:
            ran = run(patch, "fit", task, folder / data, "-o", folder / name, "--model", name)
        assert ran.code == 0, ran.err
    return Places(folder, logs.test, model)


VERBS = (
    "check {log} --task next",
    "check {folder}/texts.csv --task classify",
    "check {folder}/queries.csv --task suggest",
    "check {folder}/posts.csv --articles {folder}/articles.csv",
    "models",
    "models next",
    "evaluate {hidan} {log}",
    "evaluate {folder}/tfidf {folder}/texts.csv",
    "evaluate {folder}/most-frequent-next {folder}/queries.csv",
    "predict {hidan} {log} -k 3",
    "predict {folder}/tfidf {folder}/texts.csv",
    "explain {hidan} {log}",
    "explain {folder}/tfidf {folder}/texts.csv",
    "link {folder}/articles.csv {folder}/posts.csv",
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("words", VERBS)
def test_no_verb_cuts_a_figure_or_overflows(
    words: str, width: int | None, places: Places, ensue: Ensue, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells: list[str] = []
    every: list[str] = []
    real = display.table

    def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, wraps: Collection[str] = (), **more: Any) -> None:
        found = [list(row) for row in rows]
        cells.extend(cell for row in found for head, cell in zip(heads, row, strict=True) if head not in wraps)
        every.extend(cell for row in found for cell in row)
        real(heads, found, wraps=wraps, **more)

    monkeypatch.setattr(display, "table", table)
    text = terminal(monkeypatch, width)
    ran = ensue(*(word.format(**places._asdict()) for word in words.split()))
    found = text.getvalue()
    assert ran.code == 0, ran.err
    assert every, "a verb without a table needs no test"
    assert "".join(framed(found)).count("…") <= "".join(every).count("…")  # but for what a glance leaves out itself
    assert max(map(len, framed(found)), default=0) <= (width or 10_000)
    shown = set(found.translate(str.maketrans("┃│:", "   ")).split())
    assert {part for cell in cells for part in cell.replace("±", " ±").replace(":", " ").split()} <= shown
