"""Pictures of texts: what is drawn where, numbers beside shades, the deletion test in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from ensue import Choice, Deletion, Passage, SettingError, TextAnswer, TextExplanation, figures
from tests.test_figures import fetches

ANSWER = TextAnswer((Choice("pos", 0.9), Choice("neg", 0.1)), 3, 3, deletion=Deletion(1, 0.25, 0.05, 5))
# Columns sum to 1: "film" hands 0.7 of its weight to "fine" and keeps 0.2, "a" gets the rest.
GRAPH = ((0.1, 0.3, 0.1), (0.8, 0.5, 0.7), (0.1, 0.2, 0.2))
FINE = TextExplanation((Passage(("a", "fine", "film"), (0.2, 0.6, 0.2), GRAPH),), (), ANSWER)
TWO = TextExplanation(
    (Passage(("dull", "start"), (0.5, 0.5), weight=0.25), Passage(("fine", "end", "."), (0.8, 0.1, 0.1), weight=0.75)),
    (),
    ANSWER,
)

NODES, EDGES = 40, 2
"""Words of a graph that are drawn, and edges per word."""


def long_text(num_words: int, *, graph: bool) -> TextExplanation:
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.ones(num_words))
    rows = tuple(map(tuple, random.dirichlet(np.ones(num_words), num_words).T.tolist())) if graph else ()
    words = tuple(f"w{place}" for place in range(num_words))
    return TextExplanation((Passage(words, tuple(weights.tolist()), rows),), (), ANSWER)


def notes(figure: go.Figure) -> str:
    (below,) = figure.layout.annotations
    return str(below.text)


# --- the graph -------------------------------------------------------------------------------------------------------


def test_words_stand_on_a_circle_with_their_numbers() -> None:
    *_, nodes = figures.word_graph(FINE).data
    assert list(nodes.text) == ["a 0.20", "fine 0.60", "film 0.20"]
    assert list(nodes.marker.color) == [0.2, 0.6, 0.2]
    assert (nodes.x[0], nodes.y[0]) == (0.0, 1.0)  # the first word at the top, the second to its right
    assert nodes.x[1] > 0 and np.hypot(nodes.x, nodes.y) == pytest.approx([1, 1, 1])
    assert nodes.hovertext[1] == "fine, word 2<br>weight 0.600"


def test_arrows_are_the_connections_strongest_first_and_none_leads_to_itself() -> None:
    *lines, heads, nodes = figures.word_graph(FINE).data
    assert list(heads.hovertext[1::2]) == [
        "a hands 0.800 of its weight to fine",
        "film hands 0.700 of its weight to fine",
        "fine hands 0.300 of its weight to a",
        "fine hands 0.200 of its weight to film",
        "film hands 0.100 of its weight to a",
        "a hands 0.100 of its weight to film",
    ]
    # Each curve begins at the word that hands weight on and ends at the one that gets it.
    ends = []
    for line in lines:
        cuts = [place for place, x in enumerate(line.x) if x is None]
        for low, high in zip([0, *(cut + 1 for cut in cuts)], cuts, strict=False):
            ends.append(
                tuple(round(value, 9) for value in (line.x[low], line.y[low], line.x[high - 1], line.y[high - 1]))
            )
    spots = [(round(x, 9), round(y, 9)) for x, y in zip(nodes.x, nodes.y, strict=True)]
    pairs = [(0, 1), (2, 1), (1, 0), (1, 2), (2, 0), (0, 2)]
    assert sorted(ends) == sorted((*spots[source], *spots[target]) for source, target in pairs)
    widths = [line.line.width for line in lines]
    assert widths == sorted(widths) and len(set(widths)) == len(widths)  # weak ones thin, strong ones thick


def test_an_arrow_points_along_its_curve() -> None:
    """Two words, one at the top and one at the bottom: the head of the arrow from the first comes from above."""
    two = Passage(("up", "down"), (0.5, 0.5), ((0.0, 0.4), (1.0, 0.6)))
    *_, heads, nodes = figures.word_graph(replace(FINE, passages=(two,))).data
    assert list(nodes.y) == pytest.approx([1, -1])
    assert heads.hovertext[1] == "up hands 1.000 of its weight to down"
    assert heads.marker.angleref == "previous" and list(heads.marker.size) == [0, 9, 0, 9]
    assert heads.y[0] > heads.y[1] and heads.y[2] < heads.y[3]
    assert heads.x[1] == pytest.approx(-heads.x[3], abs=0.02) and abs(heads.x[1]) > 0.05  # there and back lie apart


@pytest.mark.parametrize("num_words", [*range(1, 41), 60])
@pytest.mark.parametrize(("width", "height", "line"), [(330, 444, 16), (720, 504, 18), (240, 490, 16), (1100, 490, 16)])
def test_no_two_labels_overlap(num_words: int, width: int, height: int, line: int) -> None:
    """Boxes in pixels on the page (phone, desktop) and in a file of its own; a letter is at most 8 pixels wide."""
    figure = figures.word_graph(long_text(num_words, graph=True))
    *_, nodes = figure.data
    (left, right), (low, high) = figure.layout.xaxis.range, figure.layout.yaxis.range
    boxes = []
    for x, y, text, where in zip(nodes.x, nodes.y, nodes.text, nodes.textposition, strict=True):
        across, down = (x - left) / (right - left) * width, (high - y) / (high - low) * height
        vertical, horizontal = where.split()
        above = {"top": -11 - line, "middle": -line / 2, "bottom": 11}[vertical]
        before = {"left": -11 - 8 * len(text), "center": -4 * len(text), "right": 11}[horizontal]
        boxes.append((across + before, down + above, across + before + 8 * len(text), down + above + line))
    for place, (x0, y0, x1, y1) in enumerate(boxes):
        for a0, b0, a1, b1 in boxes[place + 1 :]:
            assert x1 <= a0 or a1 <= x0 or y1 <= b0 or b1 <= y0


def test_only_the_strongest_connections_of_the_most_central_words_are_drawn() -> None:
    story = long_text(60, graph=True)
    *_, heads, nodes = figures.word_graph(story).data
    (part,) = story.passages
    shown = sorted(sorted(range(60), key=lambda word: -part.weights[word])[:NODES])
    assert [text.split()[0] for text in nodes.text] == [f"w{word}" for word in shown]
    assert len(heads.x) == 2 * EDGES * NODES
    weights = sorted((part.graph[i][j] for i in shown for j in shown if i != j), reverse=True)
    drawn = [float(text.split(" hands ")[1].split()[0]) for text in heads.hovertext[1::2]]
    assert drawn == pytest.approx(weights[: EDGES * NODES], abs=5e-4)
    assert "The 40 most central of 60 words." in notes(figures.word_graph(story))


def test_without_a_graph_there_are_words_and_no_arrows() -> None:
    figure = figures.word_graph(long_text(5, graph=False))
    assert [part.name for part in figure.data] == ["words"]
    assert "This model has no graph of words: weights alone." in notes(figure)
    assert figure.data[0].marker.colorbar.title.text == "weight"


def test_the_passage_that_counts_most_is_drawn_unless_another_is_asked_for() -> None:
    assert figures.word_graph(TWO).data[0].text[0] == "fine 0.80"
    assert "passage 2 of the text" in figures.word_graph(TWO).layout.title.text
    assert figures.word_graph(TWO, 0).data[0].text[0] == "dull 0.50"
    with pytest.raises(SettingError, match=r"^passage 2 does not exist; the text has 2$"):
        figures.word_graph(TWO, 2)
    with pytest.raises(SettingError, match=r"^passage 0 does not exist; the text has 0$"):
        figures.word_graph(replace(FINE, passages=()))


def test_one_word_alone() -> None:
    figure = figures.word_graph(replace(FINE, passages=(Passage(("fine",), (1.0,), ((1.0,),)),)))
    assert list(figure.data[0].text) == ["fine 1.00"]
    assert "One word: there is nothing it could be connected with." in notes(figure)


# --- the document ----------------------------------------------------------------------------------------------------


def test_each_word_has_a_place_and_each_passage_its_share() -> None:
    figure = figures.document(TWO)
    (bars,) = figure.data
    # An even share is 1/2 and 1/3; "fine" has 0.8 * 3 = 2.4 times that and carries its number.
    assert list(bars.text) == ["dull", "start", "fine 0.80", "end", "."]
    assert list(bars.y) == [0, 0, 1, 1, 1]
    assert list(bars.marker.color) == pytest.approx([1, 1, 2.4, 0.3, 0.3])
    assert bars.hovertext[2] == "fine: 0.800 of its passage, 2.4 times an even share"
    assert list(figure.layout.yaxis.tickvals) == [0, 1]
    assert list(figure.layout.yaxis.ticktext) == ["passage 1 of the text: 0.25", "passage 2 of the text: 0.75"]


def test_pairs_name_their_sides() -> None:
    pair = replace(TWO, passages=(TWO.passages[0], replace(TWO.passages[1], side=1)))
    assert list(figures.document(pair).layout.yaxis.ticktext) == ["the first text: 0.25", "the second text: 0.75"]


@pytest.mark.parametrize("num_words", [1, 300])
def test_rows_are_filled_and_words_never_overlap(num_words: int) -> None:
    (bars,) = figures.document(long_text(num_words, graph=False)).data
    assert [text.split()[0] for text in bars.text] == [f"w{place}" for place in range(num_words)]
    places = list(zip(bars.y, bars.base, bars.x, strict=True))
    for (row, begin, length), (next_row, next_begin, _) in pairwise(places):
        assert (next_row == row and next_begin >= begin + length) or (next_row == row + 1 and next_begin < 1)
    assert all(begin + length <= 101 for _, begin, length in places)
    rows = max(bars.y) + 1
    assert rows == 1 if num_words == 1 else 5 < rows < 40


def test_a_word_longer_than_a_row_is_cut_on_the_page_alone() -> None:
    (bars,) = figures.document(replace(FINE, passages=(Passage(("x" * 500, "y"), (0.5, 0.5)),))).data
    assert len(bars.text[0]) < 100 and bars.text[0].endswith("…") and "x" * 500 in bars.hovertext[0]


def test_a_very_long_text_says_how_much_is_drawn() -> None:
    figure = figures.document(long_text(6000, graph=False))
    assert len(figure.data[0].text) == 5000
    assert "The first 5,000 of 6,000 words are drawn; all of them were read." in notes(figure)


def test_a_text_without_words_is_drawn_too() -> None:
    silent = TextExplanation((), (), replace(ANSWER, deletion=None))
    figure = figures.document(silent)
    assert len(figure.data[0].text) == 0 and figure.layout.title.text.startswith("pos, probability 0.90")


# --- what stands below -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [figures.word_graph, figures.document])
def test_the_deletion_test_stands_below_in_words(draw: Callable[..., go.Figure]) -> None:
    below = notes(draw(FINE))
    assert "Attention weights are not causes." in below
    assert (
        "Deletion test: without the 1 word with the largest weights, the probability of pos falls by 0.25; without "
        "1 word at random, it falls by 0.05 (mean of 5 draws)."
    ) in below
    assert "tell nothing" not in below
    weak = replace(FINE, answer=replace(ANSWER, deletion=Deletion(3, -0.02, 0.0, 5)))
    assert "with the largest weights, the probability of pos rises by 0.02; without 3 words at random, it" in notes(
        draw(weak)
    )
    assert "Words at random matter as much: the weights tell nothing here." in notes(draw(weak))
    none = replace(FINE, answer=replace(ANSWER, deletion=None))
    assert "No deletion test: no word has weight." in notes(draw(none))


@pytest.mark.parametrize("draw", [figures.word_graph, figures.document])
def test_words_and_labels_are_text_never_markup(draw: Callable[..., go.Figure], tmp_path: Path) -> None:
    word = "<a href='https://x'>&</a>"
    part = Passage((word, "fine"), (0.7, 0.3), ((0.5, 0.5), (0.5, 0.5)))
    answer = replace(ANSWER, choices=(Choice("<b>", 0.9),))
    figure = draw(TextExplanation((part,), (), answer))
    shown = f"{figure.data} {figure.layout.title.text} {notes(figure)}"
    assert "<a" not in shown and "<b>" not in shown and "&lt;b&gt;" in shown
    figures.write_html(figure, tmp_path / "page.html")
    assert fetches((tmp_path / "page.html").read_text(encoding="utf-8")) == []
