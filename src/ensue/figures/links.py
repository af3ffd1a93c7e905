"""The figure of a link: the drop of the best article's score without each word of the post."""

from __future__ import annotations

import plotly.graph_objects as go

from ensue.answers import LinkExplanation
from ensue.figures.layout import escaped, name_rows


def deletions(explanation: LinkExplanation) -> go.Figure:
    """Draw one bar per word of the post: the drop of the best article's score without it; none without words."""
    drops = list(explanation.score_drops)
    # Long posts are tested up to a number of words.
    words = escaped(explanation.words[: len(drops)])
    best = explanation.answer.choices[0].value if explanation.answer.choices else "none"
    bars = go.Bar(
        x=drops,
        y=list(range(len(drops))),
        orientation="h",
        text=words,
        textposition="none",
        marker={"color": ["seagreen" if drop > 0 else "silver" for drop in drops]},
        hovertemplate="%{text}<br>score drop without it %{x:.3f}<extra></extra>",
    )
    title = f"article {escaped([best])[0]}: score drop when a word is taken out"
    return name_rows(go.Figure(bars), title, "score drop", words, height=(22, 160, 300))
