"""Bars, lines, streams and spreaders: metrics over time, and users by measure with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ensue.figures.layout import TEMPLATE, escaped, ticks
from ensue.stream.metrics import Hour
from ensue.tasks.next.spreaders import MEASURES, Spreader

Series = Mapping[str, Sequence[float | None]]
"""Name of a series -> (names,) values."""


def bars(title: str, axis: str, names: Sequence[str], series: Series) -> go.Figure:
    """Draw one bar per series and name, side by side, with its value above it."""
    figure = go.Figure()
    for name, values in series.items():
        # A missing value is a gap, and not a bar of height 0.
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


DATED = 1e8
"""Seconds (in 1973) from which times are taken to count from 1970."""


def stream(hours: Sequence[Hour]) -> go.Figure:
    """Draw HR@20 by hour of the events' own time: of the model that trains, and of its baselines."""
    names = list(dict.fromkeys(name for row in hours for name in row.sums))
    # Made-up logs count from 0: their hours are numbers, not dates of 1970.
    dated = all(row.to_dict()["begins"] > DATED for row in hours)
    figure = go.Figure()
    for name in names:
        rows = [(row, row.figures().get(name)) for row in hours]
        begins = [row.to_dict()["begins"] for row, _ in rows]
        figure.add_scatter(
            x=[datetime.fromtimestamp(time, UTC) for time in begins] if dated else [time / 3600 for time in begins],
            y=[None if measures is None else measures["hr@20"] for _, measures in rows],
            customdata=[[row.targets, None if measures is None else measures["mrr@20"]] for row, measures in rows],
            hovertemplate="HR@20 %{y:.3f}, MRR@20 %{customdata[1]:.3f}, %{customdata[0]:,} targets",
            mode="lines",
            name=name,
            line={"width": 3 if name == "model" else 1.5},
        )
    figure.update_layout(
        title={"text": "HR@20 by hour: each event predicted before it was learned"},
        template=TEMPLATE,
        xaxis={"title": {"text": "hour of the events (UTC)" if dated else "hour of the events"}},
        yaxis={"title": {"text": "HR@20"}, "rangemode": "tozero"},
        hovermode="x unified",
        height=480,
    )
    return figure


TITLES = {
    "first": "number of cascades started",
    "followed": "number of later users",
    "credit": "total attention weight from later users",
}


def spreaders(users: Sequence[Spreader]) -> go.Figure:
    """Draw one point per user and measure, with the middle 95 % over resampled cascades."""
    names = escaped(user.value for user in users)
    measures = [name for name in MEASURES if users and getattr(users[0], name) is not None]
    figure = make_subplots(
        cols=max(1, len(measures)), shared_yaxes=True, subplot_titles=[TITLES[name] for name in measures] or None
    )
    for column, measure in enumerate(measures, 1):
        counts = [getattr(user, measure) for user in users]
        texts = [f"{count.total:.4g} ({count.low:.4g} to {count.high:.4g})" for count in counts]
        figure.add_scatter(
            x=[count.total for count in counts],
            y=list(range(len(counts))),
            mode="markers",
            marker={"color": "midnightblue", "size": 9},
            error_x={
                "array": [count.high - count.total for count in counts],
                "arrayminus": [count.total - count.low for count in counts],
                "color": "steelblue",
            },
            text=[f"{name}: {text}" for name, text in zip(names, texts, strict=True)],
            hovertemplate="%{y}: %{text}<extra></extra>",
            name=measure,
            row=1,
            col=column,
        )
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(**ticks(names), autorange="reversed")
    return figure.update_layout(
        title={"text": "Who leads: counts and weights, not causes"},
        template=TEMPLATE,
        showlegend=False,
        height=max(320, 24 * len(names) + 160),
    )
