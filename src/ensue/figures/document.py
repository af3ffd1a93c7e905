"""A text word by word, and a document sentence by sentence."""

from __future__ import annotations

import html
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import plotly.graph_objects as go

from ensue.answers import Passage, TextExplanation
from ensue.figures.texts import laid_out, name_of, note
from ensue.lines import cut

WORDS = 5000
"""Words that are drawn, at most."""
_LINE = 100  # characters a row
_EVEN = 4.0  # times an even share: the darkest shade


def document(explanation: TextExplanation) -> go.Figure:
    """Draw all words in reading order: the shade is the weight within the sentence, relative to equal weights.

    The weight of a sentence is at its first row; words of at least twice the equal weight show their own.
    """
    rows = _rows(explanation)
    bars = list[_Bar]()
    ticks = dict[int, str]()
    count = 0
    for number, (passage, line) in enumerate(rows):
        if line.start == 0:
            ticks[number] = f"{name_of(explanation, passage)}: {explanation.passages[passage].weight:.2f}"
        bars += _bars(explanation.passages[passage], line, number)
        count += len(line.words)
    figure = go.Figure(
        go.Bar(
            orientation="h",
            base=[bar.begin for bar in bars],
            x=[bar.length for bar in bars],
            y=[bar.row for bar in bars],
            text=[bar.text for bar in bars],
            hovertext=[bar.hover for bar in bars],
            hoverinfo="text",
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            textfont={"family": "monospace", "size": 12},
            width=0.86,
            marker={
                "color": [bar.shade for bar in bars],
                "colorscale": "Blues",
                "cmin": 0,
                "cmax": _EVEN,
                "colorbar": {"title": {"text": "times an<br>even share"}, "thickness": 12},
            },
        )
    )
    total = sum(len(passage.words) for passage in explanation.passages)
    capped = [f"The first {count:,} of {total:,} words are drawn; all of them were read."] if count < total else []
    notes = [*capped, *note(explanation)]
    return laid_out(figure, explanation, "word by word", notes).update_layout(
        xaxis={"visible": False, "range": [0, _LINE + 1]},
        yaxis={"tickvals": list(ticks), "ticktext": list(ticks.values()), "range": [len(rows) - 0.4, -0.6]},
        width=1180,
        barmode="overlay",
        height=24 * len(rows) + 150 + 20 * len(notes),
    )


class _TextRow(NamedTuple):
    """A row of words of one passage."""

    start: int
    words: tuple[str, ...]


class _Bar(NamedTuple):
    row: int
    begin: float
    length: float
    text: str
    hover: str
    shade: float


def _rows(explanation: TextExplanation) -> list[tuple[int, _TextRow]]:
    """Return the words of each passage in rows of ``_LINE`` characters, up to ``WORDS`` words."""
    rows = list[tuple[int, _TextRow]]()
    num_left = WORDS
    for number, passage in enumerate(explanation.passages):
        texts = [_label(passage, word) for word in range(min(len(passage.words), num_left))]
        num_left -= len(texts)
        # Greedy lines: a word that does not fit begins the next one.
        begins, used = [0], 0
        for word, text in enumerate(texts):
            used += len(text) + 1
            if used > _LINE and word > begins[-1]:
                begins.append(word)
                used = len(text) + 1
        cuts = [*begins, len(texts)]
        rows += [(number, _TextRow(low, tuple(texts[low:high]))) for low, high in pairwise(cuts) if low < high]
    return rows


def _label(passage: Passage, word: int) -> str:
    """Return a word, with its weight where that is large."""
    # Equal weights are 1 / n: at least twice that is worth a number.
    heavy = len(passage.words) > 1 and passage.weights[word] * len(passage.words) >= 2
    return f"{cut(passage.words[word], _LINE - 6)}{f' {passage.weights[word]:.2f}' if heavy else ''}"


def _bars(passage: Passage, line: _TextRow, row: int) -> Iterator[_Bar]:
    begin = 0
    for word, text in enumerate(line.words, line.start):
        # Equal weights are 1 / n each, so this is how many times an equal weight a word has.
        even = passage.weights[word] * len(passage.words)
        share = f"{passage.weights[word]:.3f} of its passage, {even:.1f} times an even share"
        hover = f"{html.escape(passage.words[word], quote=False)}: {share}"
        # A bar per word, as long as its text; .1 on both sides is the space between two.
        yield _Bar(row, begin + 0.1, len(text) + 0.8, html.escape(text, quote=False), hover, min(even, _EVEN))
        begin += len(text) + 1
