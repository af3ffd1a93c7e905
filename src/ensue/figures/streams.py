"""The figure of a stream, by the hour."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import plotly.graph_objects as go

from ensue.figures.layout import TEMPLATE
from ensue.stream.metrics import Hour

DATED = 1e8
"""Seconds (in 1973) from which times are taken to count from 1970."""


def stream(hours: Sequence[Hour]) -> go.Figure:
    """Draw HR@20 by hour of the events' own time: of the model that trains, and of its baselines."""
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
        template=TEMPLATE,
        xaxis={"title": {"text": "hour of the events (UTC)" if dated else "hour of the events"}},
        yaxis={"title": {"text": "HR@20"}, "rangemode": "tozero"},
        hovermode="x unified",
        height=480,
    )
    return figure
