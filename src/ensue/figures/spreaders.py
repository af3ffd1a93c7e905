"""The figure of spreaders: the leading users by each measure, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ensue.figures.layout import TEMPLATE, escaped, ticks
from ensue.tasks.next.spreaders import MEASURES, Spreader

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
