"""Pictures of events: who leaned on whom inside one history, and a stream by the hour."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

import plotly.graph_objects as go

from ensue.answers import Explanation
from ensue.stream.board import Hour

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
DATED = 1e8
"""Times after this (seconds, 1973) count from 1970."""


def dependency(explanation: Explanation, *, truth: Collection[tuple[str, str]] | None = None) -> go.Figure:
    """A heat map of who leaned on whom inside one history.

    A row is an event, a column an earlier event it leaned on; the last row, "next", is the answer, and the only one
    with weights where the model weighs nothing between events. Events stand at their positions, so a value that comes
    twice has two rows. With ``truth``, pairs of values (from, to), the cells of
    true edges are outlined.
    """
    values, count = explanation.values, len(explanation.values)
    rows = [*(explanation.dependency or [()] * count), explanation.influence]
    labels = [html.escape(value, quote=False) for value in values]
    labels.append("next")
    texts = [
        [_hover(explanation, labels, row, column) for column in range(len(line[:row]))] for row, line in enumerate(rows)
    ]
    figure = go.Figure(
        go.Heatmap(
            z=[[*line[:row], *[None] * (count - len(line[:row]))] for row, line in enumerate(rows)],
            text=[[*line, *[""] * (count - len(line))] for line in texts],
            hovertemplate="%{text}<extra></extra>",
            hoverongaps=False,
            colorscale="Viridis",
            zmin=0,
            xgap=1,
            ygap=1,
            colorbar={"title": {"text": "weight"}},
        )
    )
    if truth is not None:
        pairs = ((row, column) for row in range(count) for column in range(row))
        figure.add_trace(_outlines((row, column) for row, column in pairs if (values[column], values[row]) in truth))
    ticks = list(range(count + 1))
    figure.update_layout(
        title={"text": "Weights: what the model leaned on, not causes"},
        template="simple_white",
        xaxis={"title": {"text": "earlier event"}, "tickvals": ticks[:-1], "ticktext": labels[:-1]},
        yaxis={"title": {"text": "event"}, "tickvals": ticks, "ticktext": labels, "autorange": "reversed"},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"},
        height=max(420, 18 * count + 160),
    )
    return figure


def stream(hours: Sequence[Hour]) -> go.Figure:
    """HR@20 by hour of the events' own time: the model that learns, and everyone beside it."""
    names = list(dict.fromkeys(name for row in hours for name in row.sums))
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
        template="simple_white",
        xaxis={"title": {"text": "hour of the events (UTC)" if dated else "hour of the events"}},
        yaxis={"title": {"text": "HR@20"}, "rangemode": "tozero"},
        hovermode="x unified",
        height=480,
    )
    return figure


def _hover(explanation: Explanation, labels: list[str], row: int, column: int) -> str:
    """What one cell says: both values, the weight, and the time between the two events where there is one."""
    answer = row == len(explanation.values)
    weight = explanation.influence[column] if answer else explanation.dependency[row][column]
    text = f"{labels[row]} leaned on {labels[column]}<br>weight {weight:.3f}"
    if answer or not explanation.times:
        return text
    return f"{text}<br>{_duration(explanation.times[row] - explanation.times[column])} between"


def _duration(seconds: float) -> str:
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), (1.0, "s"))
    return f"{seconds / size:.3g} {unit}"


def _outlines(cells: Iterable[tuple[int, int]]) -> go.Scatter:
    """One line around each (row, column); ``None`` lifts the pen between two cells."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row, column in cells:
        x += [column - 0.5, column + 0.5, column + 0.5, column - 0.5, column - 0.5, None]
        y += [row - 0.5, row - 0.5, row + 0.5, row + 0.5, row - 0.5, None]
    return go.Scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": "orangered", "width": 2},
        name="true edge",
        hoverinfo="skip",
        showlegend=True,
    )
