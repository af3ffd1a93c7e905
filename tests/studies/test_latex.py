"""A study's tables for LaTeX are those of its page, cell by cell, and a real engine takes them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ensue_studies.latex import tables, to_latex
from ensue_studies.results import Study

RESULTS = Path(__file__).parents[2] / "studies" / "results"
PAPERS = sorted(path.stem for path in RESULTS.glob("*.md"))
PAGE = """# A study

| no | table |
|---|---|
| of | ours |

## Table 2: a_b

**macro** (100 %).

| model | MRR | ECE | paper |
|---|---|---|---|
| `x` | 9.50 ± 0.10 | 3.10 ± 0.2 | 99.0 ± 1 |
| y&z | 10.25 ± 0.20 | 2.90 ± 0.2 |  |

## Before comparing

| not | this |
|---|---|
| one | either |
"""


def cells(latex: str) -> list[list[list[str]]]:
    """Of each table its rows of cells, as they read."""
    found = []
    for table in latex.split(r"\begin{table}")[1:]:
        body = table.split(r"\toprule")[1].split(r"\bottomrule")[0].replace("    \\midrule\n", "")
        rows = re.sub(r"\\textbf\{([^}]*)\}", r"\1", body).replace(r"$\pm$", "±")
        rows = re.sub(r"\\text(backslash|ascii\w+)\{\}", lambda own: {"backslash": "\\"}.get(own[1], own[1]), rows)
        lines = [line.strip().removesuffix("\\\\") for line in rows.strip().splitlines()]
        found.append(
            [[re.sub(r"\\([&%$#_{}])", r"\1", one).strip() for one in re.split(r"(?<!\\)&", own)] for own in lines]
        )
    return found


def test_a_table_by_hand() -> None:
    text = Study("x", {}, PAGE).to_latex()
    assert text == to_latex(PAGE) and text.count(r"\begin{table}") == 1
    assert r"\caption{Table 2: a\_b. macro (100 \%).}" in text and r"\begin{tabular}{lrrl}" in text
    assert r"x & 9.50 $\pm$ 0.10 & 3.10 $\pm$ 0.2 & 99.0 $\pm$ 1 \\" in text
    assert r"y\&z & \textbf{10.25} $\pm$ 0.20 & \textbf{2.90} $\pm$ 0.2 &  \\" in text


@pytest.mark.parametrize("paper", PAPERS)
def test_of_each_study_they_are_those_of_the_results_page(paper: str) -> None:
    page = (RESULTS / f"{paper}.md").read_text(encoding="utf-8")
    shown = [table.rows for table in tables(page)]
    assert cells(to_latex(page)) == shown and len(shown) >= 2
    lines = {re.sub(r"[*`]", "", line).replace("\\|", "|") for line in page.splitlines() if line.startswith("|")}
    for row in (row for table in shown for row in table):
        assert f"| {' | '.join(row)} |" in lines


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX with booktabs and graphicx")
@pytest.mark.parametrize("paper", PAPERS)
def test_latex_takes_them(paper: str, tmp_path: Path) -> None:
    page = to_latex((RESULTS / f"{paper}.md").read_text(encoding="utf-8"))
    head = "\\documentclass{article}\n\\usepackage{booktabs,graphicx}\n\\extrafloats{200}\n\\begin{document}\n"
    (tmp_path / "page.tex").write_text(
        head + page.replace("\\end{table}", "\\end{table}\\clearpage") + "\\end{document}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "page.pdf").stat().st_size > 10_000
