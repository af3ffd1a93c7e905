"""The picture of who spreads it: each measure's leaders, with their intervals."""

from __future__ import annotations

import html
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ensue.tasks.next.spreaders import MEASURES, Spreader

TITLES = {
    "first": "number of cascades started",
    "followed": "number of later users",
    "credit": "total attention weight from later users",
}


def spreaders(found: Sequence[Spreader]) -> go.Figure:
    """A point a person and a measure, beside each other, with the middle 95 % over cascades drawn anew."""
    names = [html.escape(one.value, quote=False) for one in found]
    shown = [name for name in MEASURES if found and getattr(found[0], name) is not None]
    figure = make_subplots(
        cols=max(1, len(shown)), shared_yaxes=True, subplot_titles=[TITLES[name] for name in shown] or None
    )
    for column, measure in enumerate(shown, 1):
        own = [getattr(one, measure) for one in found]
        figure.add_scatter(
            x=[one.total for one in own],
            y=list(range(len(own))),
            mode="markers",
            marker={"color": "midnightblue", "size": 9},
            error_x={
                "array": [one.high - one.total for one in own],
                "arrayminus": [one.total - one.low for one in own],
                "color": "steelblue",
            },
            text=[
                f"{name}: {one.total:.4g} ({one.low:.4g} to {one.high:.4g})"
                for name, one in zip(names, own, strict=True)
            ],
            hovertemplate="%{y}: %{text}<extra></extra>",
            name=measure,
            row=1,
            col=column,
        )
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names, autorange="reversed")
    return figure.update_layout(
        title={"text": "Who leads: counts and weights, not causes"},
        template="simple_white",
        showlegend=False,
        height=max(320, 24 * len(names) + 160),
    )
