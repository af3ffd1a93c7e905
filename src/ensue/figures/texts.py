"""Layout of figures of texts: the answer above them, notes on the weights and the deletion test below.

The figure of a link: the drop of the best article's score without each word of the post.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from ensue.answers import LinkExplanation, TextExplanation
from ensue.figures.layout import TEMPLATE, escaped, name_rows


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


def laid_out(figure: go.Figure, explanation: TextExplanation, name: str, notes: Sequence[str]) -> go.Figure:
    """Put the answer into the title of a figure, and notes below it."""
    best = explanation.answer.choices[0] if explanation.answer.choices else None
    answer = f"{html.escape(best.value, quote=False)}, probability {best.score:.2f}: " if best is not None else ""
    annotation = {
        "text": "<br>".join(note for note in notes if note),
        "showarrow": False,
        "align": "left",
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 0,
        "xanchor": "left",
        "yanchor": "top",
        "yshift": -12,
    }
    return figure.update_layout(
        title={"text": f"{answer}{name}"},
        template=TEMPLATE,
        annotations=[annotation],
        showlegend=False,
        margin={"b": 50 + 20 * len(notes)},
    )


def note(explanation: TextExplanation) -> Iterator[str]:
    """Yield what the weights are, and the result of the deletion test."""
    yield "Attention weights are not causes."
    test = explanation.answer.deletion
    best = explanation.answer.choices[:1]
    if test is None or not best:
        yield "No deletion test: no word has weight."
        return
    words = f"{test.words} word{'s' * (test.words != 1)}"
    label = html.escape(best[0].value, quote=False)
    yield (
        f"Deletion test: without the {words} with the largest weights, the probability of {label} "
        f"{_moves(test.score_drop)}; without {words} at random, it {_moves(test.random)} (mean of {test.draws} "
        "draws)."
    )
    if test.score_drop <= test.random:
        yield "Words at random matter as much: the weights tell nothing here."


def _moves(score_drop: float) -> str:
    return f"{'falls' if score_drop >= 0 else 'rises'} by {abs(score_drop):.2f}"


def name_of(explanation: TextExplanation, passage: int) -> str:
    """Return the name of a passage, counted within its text."""
    sides = [item.side for item in explanation.passages]
    side, alone = sides[passage], sides.count(sides[passage]) == 1
    # Passages of the second text have side 1: without one there is a single text.
    text = ("the first text", "the second text")[side] if 1 in sides else "the text"
    return text if alone else f"passage {passage - sides.index(side) + 1} of {text}"
