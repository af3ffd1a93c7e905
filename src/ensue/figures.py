"""Every picture as a Plotly figure: a notebook, an HTML file and the web page draw the same one."""

from __future__ import annotations

import html
import os
from collections.abc import Collection, Iterable
from pathlib import Path

import plotly.graph_objects as go

from ensue.errors import SettingError
from ensue.records import Explanation

UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def dependency(explanation: Explanation, *, truth: Collection[tuple[str, str]] | None = None) -> go.Figure:
    """A heat map of who leaned on whom inside one history.

    A row is an event, a column an earlier event it leaned on; the last row, "next", is the answer. Events stand at
    their positions, so a value that comes twice has two rows. With ``truth``, pairs of values (from, to), the cells of
    true edges are outlined.
    """
    values, count = explanation.values, len(explanation.values)
    rows = [*explanation.dependency, explanation.influence]
    labels = [*(html.escape(value, quote=False) for value in values), "next"]
    texts = [[_hover(explanation, labels, row, column) for column in range(row)] for row in range(count + 1)]
    figure = go.Figure(
        go.Heatmap(
            z=[[*line[:row], *[None] * (count - row)] for row, line in enumerate(rows)],
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


def write_html(figure: go.Figure, path: Path) -> None:
    """Write a page that holds the figure and all it needs; whoever reads the path sees the old page or the new one.

    Raises:
        SettingError: the page cannot be written there.
    """
    page = figure.to_html(include_plotlyjs=True, div_id="figure", config={"displaylogo": False})
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(page, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SettingError(
            f"{path}: the figure cannot be written there ({error.strerror}); give another path"
        ) from error


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
