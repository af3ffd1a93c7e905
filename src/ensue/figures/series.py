"""Numbers by name: bars and lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from ensue.figures.layout import TEMPLATE

Series = Mapping[str, Sequence[float | None]]
"""Name of a series -> (names,) values."""


def bars(title: str, axis: str, names: Sequence[str], series: Series) -> go.Figure:
    """Draw one bar per series and name, side by side, with its value above it."""
    figure = go.Figure()
    for name, values in series.items():
        text = ["" if value is None else f"{value:.3g}" for value in values]
        figure.add_bar(x=list(names), y=list(values), name=name, text=text, textposition="outside")
    return _titled(figure, title, axis)


def lines(title: str, axis: str, names: Sequence[str], series: Series) -> go.Figure:
    """Draw one line per series over names at equal distances, such as sizes that double."""
    figure = go.Figure()
    for name, values in series.items():
        figure.add_scatter(x=list(names), y=list(values), name=name, mode="lines+markers")
    return _titled(figure, title, axis)


def _titled(figure: go.Figure, title: str, axis: str) -> go.Figure:
    return figure.update_layout(
        title={"text": title},
        template=TEMPLATE,
        xaxis={"type": "category"},
        yaxis={"title": {"text": axis}, "rangemode": "tozero"},
        showlegend=len(figure.data) > 1,
        height=420,
    )
