"""Names and axes that several figures share."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

TEMPLATE = "simple_white"


class Edge(NamedTuple):
    """A weight from one row to another: of an event that attended to a source, or of a word that leads to another."""

    source: int
    target: int
    weight: float


def escaped(texts: Iterable[str]) -> list[str]:
    """Return texts that a figure shows as they are: Plotly reads tags of HTML."""
    return [html.escape(text, quote=False) for text in texts]


def ticks(names: Sequence[str]) -> dict[str, object]:
    """Return an axis with a name at each whole number."""
    return {"tickvals": list(range(len(names))), "ticktext": list(names)}


def name_rows(
    figure: go.Figure,
    title: str,
    axis: str,
    rows: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    height: tuple[int, int, int],
) -> go.Figure:
    """Title a figure and its horizontal axis, and name its rows from the top and its columns.

    Args:
        figure: what is drawn; row 0 is at the height 0.
        title: of the figure.
        axis: of the horizontal axis.
        rows: a name per row.
        columns: a name per column, if columns have names.
        height: pixels per row, pixels around them, and the least height.
    """
    per_row, around, min_height = height
    # Row 0 is drawn at the top: people read downwards.
    return figure.update_layout(
        title={"text": title},
        template=TEMPLATE,
        xaxis={"title": {"text": axis}, **({} if columns is None else ticks(columns))},
        yaxis={**ticks(rows), "autorange": "reversed"},
        height=max(min_height, per_row * len(rows) + around),
    )
