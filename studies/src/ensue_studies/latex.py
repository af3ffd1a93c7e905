"""The tables of a study's page for LaTeX: the same rows and figures, the best of what was measured in bold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ensue.evaluation.result import escaped

_HEADING = re.compile(r"#+ (Table \d+.*)")
_MEASURED = re.compile(r"(-?[\d,.]+) ± [\d.]+")
LEAST = ("ECE", "calibration error", "log loss")
"""Columns of which the least is best."""


class PageTable(NamedTuple):
    """A table of a page."""

    caption: str
    """The heading, such as ``Table 2: memes``, and the paragraph above the table."""
    rows: list[list[str]]
    """Cells of Markdown without its emphasis; the head first."""


def tables(page: str) -> Iterator[PageTable]:
    """The tables that stand under headings of the paper's own tables, in order."""
    title, words, rows = "", "", list[list[str]]()
    for line in [*page.splitlines(), ""]:
        if line.startswith("|"):
            rows.append([_plain(cell) for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]])
            continue
        if rows:
            if title:
                yield PageTable(f"{title}. {words}".strip(), [row for row in rows if set("".join(row)) != {"-"}])
            words, rows = "", []
        if line.startswith("#"):
            found = _HEADING.match(line)
            title, words = found[1] if found else "", ""
        elif line:
            words = _plain(line)


def to_latex(page: str) -> str:
    """All of them (packages ``booktabs`` and ``graphicx``), each as wide as the page at most."""
    return "\n".join(_table(*table) for table in tables(page))


def _table(caption: str, rows: list[list[str]]) -> str:
    head, *body = rows
    best = [_best(name, [row[column] for row in body]) for column, name in enumerate(head)]
    lines = [r"\begin{table}", r"  \centering", rf"  \caption{{{escaped(caption)}}}"]
    lines += [r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"]
    lines += [rf"  \begin{{tabular}}{{{''.join('r' if own else 'l' for own in best)}}}", r"    \toprule"]
    lines += [f"    {' & '.join(map(escaped, head))} \\\\", r"    \midrule"]
    for row in body:
        cells = [_cell(cell, own) for cell, own in zip(row, best, strict=True)]
        lines.append(f"    {' & '.join(cells)} \\\\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}}", r"\end{table}", ""])


def _cell(cell: str, best: str) -> str:
    found = _MEASURED.match(cell)
    if not found or found[1] != best:
        return escaped(cell)
    return rf"\textbf{{{best}}}{escaped(cell[len(best) :])}"


def _best(name: str, cells: Sequence[str]) -> str:
    """The best figure that has an interval, as it is shown; nothing where none has. The paper's own are no rivals."""
    shown = [found[1] for cell in cells if "paper" not in name and (found := _MEASURED.match(cell))]
    best = min if name in LEAST else max
    return best(shown, key=lambda own: float(own.replace(",", "")), default="")


def _plain(text: str) -> str:
    return re.sub(r"\*\*|`", "", text).replace("\\|", "|").strip()
