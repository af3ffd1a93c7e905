"""The figure of a suggestion: the earlier words that its words attended to, or the queries it was counted after."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from ensue.answers import QueryExplanation
from ensue.figures.layout import escaped, name_rows


def query_weights(explanation: QueryExplanation) -> go.Figure:
    """Draw a heat map: one row per word of the best suggestion, one column per word typed before, query after query.

    Lines separate the queries. A count-based model has one row per suggestion and one column per query typed before:
    the fraction of the suggestion's score that the counts of the query bring, 0 where only common queries do.
    """
    if not explanation.weights:
        return _count_weights(explanation)
    words = escaped(word for query in explanation.words for word in query)
    suggested = escaped(explanation.suggested)
    rows = explanation.weights
    texts = [
        [f"{suggestion} attends to {word}<br>weight {weight:.3f}" for word, weight in zip(words, row, strict=True)]
        for suggestion, row in zip(suggested, rows, strict=False)
    ]
    title = f"“{' '.join(suggested)}”: attention weights of words, not causes"
    figure = _heat_map(
        [list(row) for row in rows],
        title,
        suggested,
        words,
        "weight",
        text=texts,
        hovertemplate="%{text}<extra></extra>",
    )
    # Cells are centred at whole numbers, so that the line between two queries is at a half.
    edge = -0.5
    for query in explanation.words[:-1]:
        edge += len(query)
        figure.add_vline(x=edge, line={"color": "orangered", "width": 1})
    return figure


def _count_weights(explanation: QueryExplanation) -> go.Figure:
    """Draw the fraction that each query brings."""
    choices = explanation.answer.choices
    weights = [{attribution.value: attribution.weight for attribution in choice.attributions} for choice in choices]
    rows = [[weights_of_choice.get(query, 0.0) for query in explanation.queries] for weights_of_choice in weights]
    title = "queries whose counts brought the suggestions, not causes"
    suggested = escaped(choice.value for choice in choices)
    return _heat_map(rows, title, suggested, escaped(explanation.queries), "share", zmax=1)


def _heat_map(
    values: list[list[float]], title: str, rows: Sequence[str], columns: Sequence[str], legend: str, **options: object
) -> go.Figure:
    """Draw (rows, columns) values from 0 up."""
    # From 0: a scale that begins at the smallest weight would make it look like none.
    heat = go.Heatmap(
        z=values, colorscale="Viridis", zmin=0, xgap=1, ygap=1, colorbar={"title": {"text": legend}}, **options
    )
    return name_rows(go.Figure(heat), title, "typed before", rows, columns=columns, height=(28, 240, 360))
