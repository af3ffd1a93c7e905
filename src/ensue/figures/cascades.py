"""The figure of a session or cascade: events along time, and a line from each to those that attended to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import plotly.graph_objects as go

from ensue.answers import Explanation
from ensue.figures.layout import Edge, escaped, name_rows

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
ANSWER = "next"
"""The name of the last row."""
SOURCES = 3
"""Lines that end at an event, at most: those of its strongest sources."""
MIN_WEIGHT = 0.05
"""Weights below this get no line."""
WIDTHS = ((0.8, 7.0), (0.6, 5.5), (0.4, 4.0), (0.2, 2.5), (MIN_WEIGHT, 1.2))
"""Lines of a weight of at least the first are as wide, in pixels, as the second."""


def cascade(explanation: Explanation, *, truth: Collection[tuple[str, str]] | None = None) -> go.Figure:
    """Draw events along time, each in a row of its own, joined to the earlier ones that it attended to.

    The width of a line shows the weight; the ``SOURCES`` strongest of each event are drawn. The last row, "next", is
    the answer, and the only one with lines where the model has no weights between events. Without times, or where all
    are the same, events are at equal distances. With ``truth``, pairs of values (from, to), true edges are dashed.
    """
    values = explanation.values
    answered = bool(explanation.influence)
    # A row of weights per event, and one for the answer where it has weights.
    rows = [*(explanation.dependency or [()] * len(values)), *[explanation.influence] * answered]
    labels = escaped(values) + [ANSWER] * answered
    x, axis = _along(explanation, len(labels))
    figure = go.Figure()
    edges = [edge for target, row in enumerate(rows) for edge in _strongest(row[:target], target)]
    # Plotly has one width per trace, so that each band of weights is a trace of its own.
    for at, (min_weight, width) in enumerate(WIDTHS):
        upper = WIDTHS[at - 1][0] if at else float("inf")
        band = [edge for edge in edges if min_weight <= edge.weight < upper]
        figure.add_trace(_lines(band, x, name="attention", line={"color": "steelblue", "width": width}, opacity=0.55))
    if truth is not None:
        pairs = [(row, column) for row in range(len(values)) for column in range(row)]
        true = (Edge(column, row, 1.0) for row, column in pairs if (values[column], values[row]) in truth)
        line = {"color": "orangered", "width": 2, "dash": "dot"}
        figure.add_trace(_lines(true, x, name="true edge", line=line, showlegend=True))
    figure.add_trace(_middles(edges, x, labels, explanation))
    figure.add_trace(_people(rows, x, labels, explanation))
    name_rows(figure, "Attention weights are not causes", axis, labels, height=(24, 140, 320))
    return figure.update_layout(
        xaxis={"zeroline": False}, legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"}
    )


def _strongest(row: Iterable[float], target: int) -> list[Edge]:
    edges = [Edge(source, target, weight) for source, weight in enumerate(row) if weight >= MIN_WEIGHT]
    return sorted(edges, key=lambda edge: -edge.weight)[:SOURCES]


def _along(explanation: Explanation, count: int) -> tuple[list[float], str]:
    """Return the position of each event, the answer a little after the last one, and the title of the axis."""
    times = explanation.times
    # Without times, or where all are equal, events are at equal distances.
    span = times[-1] - times[0] if times else 0.0
    if span <= 0:
        return [float(number) for number in range(count)], "event"
    size, unit = _unit(span)
    points = [(time - times[0]) / size for time in times]
    # The answer has no time: it stands a little after the last event.
    return [*points, *[points[-1] + 0.06 * span / size] * (count - len(points))], f"{unit} after the first event"


def _lines(edges: Iterable[Edge], x: list[float], **options: object) -> go.Scatter:
    """Return one trace of many lines; ``None`` separates two of them."""
    across: list[float | None] = []
    down: list[float | None] = []
    for edge in edges:
        across += [x[edge.source], x[edge.target], None]
        down += [edge.source, edge.target, None]
    return go.Scatter(x=across, y=down, mode="lines", **{"hoverinfo": "skip", "showlegend": False, **options})


def _middles(edges: list[Edge], x: list[float], labels: list[str], explanation: Explanation) -> go.Scatter:
    """Return invisible points at the middle of the lines, whose hover texts name the line."""
    texts = []
    for source, target, weight in edges:
        text = f"{labels[target]} attends to {labels[source]}<br>weight {weight:.3f}"
        if explanation.times and target < len(explanation.times):
            text += f"<br>{duration(explanation.times[target] - explanation.times[source])} between"
        texts.append(text)
    return go.Scatter(
        x=[(x[edge.source] + x[edge.target]) / 2 for edge in edges],
        y=[(edge.source + edge.target) / 2 for edge in edges],
        mode="markers",
        marker={"size": 12, "opacity": 0},
        text=texts,
        hovertemplate="%{text}<extra></extra>",
        name="weights",
        showlegend=False,
    )


def _people(rows: list[tuple[float, ...]], x: list[float], labels: list[str], explanation: Explanation) -> go.Scatter:
    """Return one point per event; its size is the total weight that later events give it."""
    received = [0.0] * len(labels)
    for target, row in enumerate(rows):
        for source, weight in enumerate(row[:target]):
            received[source] += weight
    max_received = max(received, default=0.0) or 1.0
    texts = [
        f"{label}: total weight from later events {total:.2f}" for label, total in zip(labels, received, strict=True)
    ]
    answer = len(explanation.values)
    return go.Scatter(
        x=x,
        y=list(range(len(labels))),
        mode="markers",
        marker={
            "color": "midnightblue",
            "size": [8 + 12 * total / max_received for total in received],
            "symbol": ["diamond-open" if row == answer else "circle" for row in range(len(labels))],
        },
        text=texts,
        hovertemplate="%{text}<extra></extra>",
        name="events",
        showlegend=False,
    )


def duration(seconds: float) -> str:
    """Return a span of time with its unit: ``1.5 min``."""
    size, unit = _unit(seconds)
    return f"{seconds / size:.3g} {unit}"


def _unit(seconds: float) -> tuple[float, str]:
    return next(((size, unit) for size, unit in UNITS if seconds >= size), (1.0, "s"))
