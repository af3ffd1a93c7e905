"""The picture of a suggestion: which earlier words its words leaned on, or which queries were counted for it."""

from __future__ import annotations

import html

import plotly.graph_objects as go

from ensue.answers import QueryExplanation


def leanings(explanation: QueryExplanation) -> go.Figure:
    """A heat map: a row a word of the best suggestion, a column a word typed before, query after query.

    Lines stand between the queries. Of a model that counts, a row a suggestion and a column a query typed before: the
    part of its share that what was counted of the query brings, 0 where it is only what is common.
    """
    if not explanation.weights:
        return _counted(explanation)
    words = [html.escape(word, quote=False) for query in explanation.words for word in query]
    suggested = [html.escape(word, quote=False) for word in explanation.suggested]
    rows = explanation.weights
    figure = go.Figure(
        go.Heatmap(
            z=[list(row) for row in rows],
            text=[
                [f"{mine} attends to {word}<br>weight {weight:.3f}" for word, weight in zip(words, row, strict=True)]
                for mine, row in zip(suggested, rows, strict=False)
            ],
            hovertemplate="%{text}<extra></extra>",
            colorscale="Viridis",
            zmin=0,
            xgap=1,
            ygap=1,
            colorbar={"title": {"text": "weight"}},
        )
    )
    edge = -0.5
    for query in explanation.words[:-1]:
        edge += len(query)
        figure.add_vline(x=edge, line={"color": "orangered", "width": 1})
    best = html.escape(" ".join(explanation.suggested), quote=False)
    figure.update_layout(
        title={"text": f"“{best}”: attention weights of words, not causes"},
        template="simple_white",
        xaxis={"title": {"text": "typed before"}, "tickvals": list(range(len(words))), "ticktext": words},
        yaxis={"tickvals": list(range(len(suggested))), "ticktext": suggested, "autorange": "reversed"},
        height=max(360, 28 * len(suggested) + 240),
    )
    return figure


def _counted(explanation: QueryExplanation) -> go.Figure:
    """The shares of queries."""
    typed = [html.escape(query, quote=False) for query in explanation.queries]
    choices = explanation.answer.choices
    brings = [{attribution.value: attribution.weight for attribution in choice.attributions} for choice in choices]
    figure = go.Figure(
        go.Heatmap(
            z=[[own.get(query, 0.0) for query in explanation.queries] for own in brings],
            colorscale="Viridis",
            zmin=0,
            zmax=1,
            xgap=1,
            ygap=1,
            colorbar={"title": {"text": "share"}},
        )
    )
    suggested = [html.escape(choice.value, quote=False) for choice in choices]
    figure.update_layout(
        title={"text": "queries whose counts brought the suggestions, not causes"},
        template="simple_white",
        xaxis={"title": {"text": "typed before"}, "tickvals": list(range(len(typed))), "ticktext": typed},
        yaxis={"tickvals": list(range(len(suggested))), "ticktext": suggested, "autorange": "reversed"},
        height=max(360, 28 * len(suggested) + 240),
    )
    return figure
