"""The picture of a link: the drop of the best article's score without each word of the post."""

from __future__ import annotations

import html

import plotly.graph_objects as go

from ensue.answers import LinkExplanation


def deletions(explanation: LinkExplanation) -> go.Figure:
    """A bar a word of the post: how far the score of the best article falls without it.

    It is empty where the post has no word.
    """
    words = [html.escape(word, quote=False) for word in explanation.words[: len(explanation.score_drops)]]
    drops = list(explanation.score_drops)
    best = explanation.answer.choices[0].value if explanation.answer.choices else "none"
    figure = go.Figure(
        go.Bar(
            x=drops,
            y=list(range(len(drops))),
            orientation="h",
            text=words,
            textposition="none",
            marker={"color": ["seagreen" if value > 0 else "silver" for value in drops]},
            hovertemplate="%{text}<br>score drop without it %{x:.3f}<extra></extra>",
        )
    )
    figure.update_layout(
        title={"text": f"article {html.escape(best, quote=False)}: score drop when a word is taken out"},
        template="simple_white",
        xaxis={"title": {"text": "score drop"}},
        yaxis={"tickvals": list(range(len(words))), "ticktext": words, "autorange": "reversed"},
        height=max(300, 22 * len(words) + 160),
    )
    return figure
