"""The picture of a link: what the best article's score loses without each word of the post."""

from __future__ import annotations

import html

import plotly.graph_objects as go

from ensue.answers import LinkExplanation


def deletions(explanation: LinkExplanation) -> go.Figure:
    """A bar a word of the post: how far the score of the best article falls without it.

    It is empty where the post has no word.
    """
    words = [html.escape(word, quote=False) for word in explanation.words[: len(explanation.lost)]]
    lost = list(explanation.lost)
    best = explanation.answer.choices[0].value if explanation.answer.choices else "none"
    figure = go.Figure(
        go.Bar(
            x=lost,
            y=list(range(len(lost))),
            orientation="h",
            text=words,
            textposition="none",
            marker={"color": ["seagreen" if value > 0 else "silver" for value in lost]},
            hovertemplate="%{text}<br>score lost without it %{x:.3f}<extra></extra>",
        )
    )
    figure.update_layout(
        title={"text": f"article {html.escape(best, quote=False)}: score lost when a word is taken out"},
        template="simple_white",
        xaxis={"title": {"text": "score lost"}},
        yaxis={"tickvals": list(range(len(words))), "ticktext": words, "autorange": "reversed"},
        height=max(300, 22 * len(words) + 160),
    )
    return figure
