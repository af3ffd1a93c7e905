"""A result as a table for other programs: a frame, CSV, Markdown, LaTeX, and what a notebook shows."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Protocol

import polars as pl

from ensue.evaluation.rows import PLAIN, Row, cell, figure, label, table

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
_LATEX |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_CAPTION = ("data", "targets", "unknown", "candidates", "repeats", "averaging", "ties", "interval", "leaked")
"""What of a card a caption says, where the card has it."""
LEAST = ("calibration_error", "log_loss")
"""Measures of which the least is best."""


class Tabled(Protocol):
    """A result, as far as its table goes."""

    @property
    def rows(self) -> Sequence[Row]:
        """A row a model."""
        ...

    @property
    def shown(self) -> list[str]:
        """The measures that are shown unless others are asked for."""
        ...

    @property
    def card(self) -> dict[str, str]:
        """What the figures mean, by name."""
        ...

    @property
    def verdict(self) -> str:
        """The line under the table."""
        ...


def to_frame(result: Tabled, measures: Sequence[str] = ()) -> pl.DataFrame:
    """A row a model: each measure as a fraction, and the ends of its 95 % in ``MEASURE_low`` and ``MEASURE_high``."""
    rows = []
    for row in result.rows:
        own: dict[str, object] = {"model": row.model}
        for name in measures or row.figures:
            low, high = row.interval[name]
            own |= {name: row.figures[name], f"{name}_low": low, f"{name}_high": high}
        rows.append(own | {"seconds_per_1000": row.seconds_per_1000, "at_chance_level": bool(row.warning)})
    return pl.DataFrame(rows, infer_schema_length=None)


def to_latex(result: Tabled, measures: Sequence[str] = ()) -> str:
    """A table for LaTeX (package ``booktabs``): the best figure of a column in bold, the protocol in its caption."""
    names = [*(measures or result.shown)]
    best = {name: _best(result.rows, name) for name in names}
    lines = [r"\begin{table}", r"  \centering", rf"  \caption{{{escaped(caption(result))}}}"]
    lines += [rf"  \begin{{tabular}}{{l{'r' * len(names)}}}", r"    \toprule"]
    lines += [f"    {' & '.join(['Model', *(escaped(label(name)) for name in names)])} \\\\", r"    \midrule"]
    for row in result.rows:
        cells = [escaped(f"{row.model} (at chance level)" if row.warning else row.model)]
        for name in names:
            low, high = row.interval[name]
            own = figure(row.figures[name], name)
            bold = rf"\textbf{{{own}}}" if own == best[name] else own
            cells.append(rf"{bold} $\pm$ {figure((high - low) / 2, name)}")
        lines.append(f"    {' & '.join(cells)} \\\\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def to_markdown(result: Tabled, measures: Sequence[str] = ()) -> str:
    """A table for Markdown, and the protocol below it."""
    return f"{table(result, [*(measures or result.shown)])}\n\n{caption(result)}\n"


def to_html(result: Tabled, measures: Sequence[str] = ()) -> str:
    """What a notebook shows: the table, its protocol and the verdict; nothing is fetched, nothing runs."""
    names = [*(measures or result.shown)]
    best = {name: _best(result.rows, name) for name in names}
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("model", *map(label, names)))
    body = []
    for row in result.rows:
        cells = [f"<th>{html.escape(row.model)}{' (at chance level)' if row.warning else ''}</th>"]
        for name in names:
            text, own = cell(row, name), figure(row.figures[name], name)
            cells.append(f"<td><b>{text}</b></td>" if own == best[name] else f"<td>{text}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    said = f"<p>{html.escape(result.verdict)}</p>"
    table = f"<table><caption>{html.escape(caption(result))}</caption><thead><tr>{head}</tr></thead>"
    return f"{table}<tbody>{''.join(body)}</tbody></table>{said}"


def caption(result: Tabled) -> str:
    """The protocol in words: what the figures mean."""
    card = result.card
    scale = "metrics in %" + (" (log loss in nats)" if {*result.shown} & {*PLAIN} else "")
    said = "; ".join(f"{name}: {card[name]}" for name in _CAPTION if card.get(name))
    return f"Protocol {card['name']}, {scale} ± half of the 95 % interval. {said[:1].upper()}{said[1:]}."


def _best(rows: Sequence[Row], name: str) -> str:
    """The best figure of a column as it is shown."""
    best = min if name in LEAST else max
    return figure(best(row.figures[name] for row in rows), name)


def escaped(text: str) -> str:
    """Text as LaTeX reads it."""
    return re.sub(r"[\\~^±&%$#_{}]", lambda found: _LATEX[found[0]], text)
