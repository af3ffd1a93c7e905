"""The latent graph of words (Fig. 5 of Gong et al. 2020).

It is drawn for poolings without a graph too, and for counting models: weights, and no connections.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from ensue.answers import Passage, TextExplanation
from ensue.errors import SettingError
from ensue.figures.layout import Edge
from ensue.figures.texts import laid_out, name_of, note
from ensue.lines import cut

NODES = 40
"""Words of a graph that are drawn, at most: the most central ones."""
EDGES = 2
"""Edges a word that are drawn: the strongest of all."""
_WIDTHS = (0.8, 1.6, 2.8, 4.5)
_LISTED = 5


def word_graph(explanation: TextExplanation, passage: int | None = None) -> go.Figure:
    """Draw words around a circle, clockwise in reading order: shade and number show centrality, arrows connections.

    Args:
        explanation: of one text.
        passage: which of its passages; the one with the largest share unless stated.

    Raises:
        SettingError: there is no such passage, as in a text without words.
    """
    passages = explanation.passages
    if passage is None:
        passage = max(range(len(passages)), key=lambda index: passages[index].weight, default=0)
    if not 0 <= passage < len(passages):
        raise SettingError(f"passage {passage} does not exist; the text has {len(passages)}")
    chosen_passage = passages[passage]
    # The most central words, put back in reading order.
    nodes = np.sort(np.argsort(-np.array(chosen_passage.weights), kind="stable")[:NODES]).tolist()
    positions = {word: _position(number, len(nodes)) for number, word in enumerate(nodes)}
    edges = _strongest(chosen_passage, nodes)
    figure = go.Figure([*_arrows(chosen_passage, edges, positions), _nodes(chosen_passage, positions)])
    notes = [_of_words(chosen_passage, len(nodes)), _connections(chosen_passage, edges), *note(explanation)]
    return laid_out(figure, explanation, f"word graph of {name_of(explanation, passage)}", notes).update_layout(
        xaxis={"visible": False, "range": [-2.4, 2.4]},
        yaxis={"visible": False, "range": [-1.15, 1.15]},
        height=640 + 20 * len(notes),
    )


def _position(number: int, count: int) -> tuple[float, float]:
    """Return the position of a word on the circle: the first at the top, down the right side, and up the left.

    Words of a side are evenly spread in height, so that a line of text fits between them at every width.
    """
    num_right = count // 2 + 1  # with the first; one at the bottom where there is an even number
    if number < num_right:
        # Equal steps from the top (1) to the bottom (-1), and the x of the circle at that height.
        y = 1 - 2 * number / max(num_right - 1 + (count % 2) / 2, 1)
        return math.sqrt(max(1 - y * y, 0.0)), y
    # The left side mirrors the right one.
    x, y = _position(count - number, count)
    return -x, y


def _nodes(passage: Passage, positions: dict[int, tuple[float, float]]) -> go.Scatter:
    weights = [passage.weights[word] for word in positions]
    names = [html.escape(cut(passage.words[word], 20), quote=False) for word in positions]
    return go.Scatter(
        x=[x for x, _ in positions.values()],
        y=[y for _, y in positions.values()],
        mode="markers+text",
        text=[f"{name} {weight:.2f}" for name, weight in zip(names, weights, strict=True)],
        textposition=[_label_position(x, y) for x, y in positions.values()],
        hovertext=[
            f"{html.escape(passage.words[word], quote=False)}, word {word + 1}<br>weight {passage.weights[word]:.3f}"
            for word in positions
        ],
        hoverinfo="text",
        name="words",
        marker={
            "size": 22,
            "color": weights,
            "colorscale": "Blues",
            "cmin": 0,
            "line": {"color": "black", "width": 1},
            "colorbar": {"title": {"text": "centrality" if passage.graph else "weight"}, "thickness": 12, "x": 1.02},
        },
        cliponaxis=False,
    )


def _label_position(x: float, y: float) -> str:
    if abs(x) < 1e-6:
        return "top center" if y > 0 else "bottom center"
    return "middle right" if x > 0 else "middle left"


def _strongest(passage: Passage, nodes: Sequence[int]) -> list[Edge]:
    """Return the strongest connections between drawn words, strongest first, without those of a word to itself."""
    if not passage.graph:
        return []
    graph = np.array(passage.graph)[np.ix_(nodes, nodes)]
    np.fill_diagonal(graph, 0.0)
    order = np.argsort(-graph, axis=None, kind="stable")[: EDGES * len(nodes)]
    weighted = [(*divmod(index, len(nodes)), float(graph.flat[index])) for index in order.tolist()]
    return [Edge(nodes[source], nodes[target], weight) for target, source, weight in weighted if weight > 0]


def _arrows(passage: Passage, edges: Sequence[Edge], positions: dict[int, tuple[float, float]]) -> list[go.Scatter]:
    """Return bent lines in a few widths, and an arrow head in the middle of each with its weight."""
    if not edges:
        return []
    curves = [_curve(positions[edge.source], positions[edge.target]) for edge in edges]
    max_weight = edges[0].weight
    ranks = [min(int(edge.weight / max_weight * len(_WIDTHS)), len(_WIDTHS) - 1) for edge in edges]
    traces = []
    for rank, width in enumerate(_WIDTHS):
        curves_of_rank = [curve for curve, other in zip(curves, ranks, strict=True) if other == rank]
        if curves_of_rank:
            points = [point for curve in curves_of_rank for point in (*curve, (None, None))]
            line = {"width": width, "color": f"rgba(70, 70, 70, {0.25 + 0.2 * rank:.2f})"}
            x, y = ([point[axis] for point in points] for axis in (0, 1))
            traces.append(go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", name="connections"))
    middles = [point for curve in curves for point in curve[len(curve) // 2 - 1 : len(curve) // 2 + 1]]
    heads = go.Scatter(  # two points an edge: the first, unseen, says where the head at the second comes from
        x=[x for x, _ in middles],
        y=[y for _, y in middles],
        mode="markers",
        marker={
            "symbol": "arrow",
            "size": [0, 9] * len(edges),
            "line": {"width": 0},
            "color": "rgb(70, 70, 70)",
            "angleref": "previous",
        },
        hovertext=[text for edge in edges for text in ("", _hands(passage, edge))],
        hoverinfo="text",
        name="arrows",
    )
    return [*traces, heads]


def _curve(begin: tuple[float, float], end: tuple[float, float], steps: int = 12) -> list[tuple[float, float]]:
    """Return a quadratic Bézier curve that bends to the middle, and a little right: opposite arrows do not coincide."""
    normal = (end[1] - begin[1], begin[0] - end[0])
    bend = [0.35 * (begin[axis] + end[axis]) + 0.12 * normal[axis] for axis in (0, 1)]

    def at(share: float, axis: int) -> float:
        coefficients = ((1 - share) ** 2, 2 * share * (1 - share), share**2)
        return coefficients[0] * begin[axis] + coefficients[1] * bend[axis] + coefficients[2] * end[axis]

    return [(at(step / (steps - 1), 0), at(step / (steps - 1), 1)) for step in range(steps)]


def _hands(passage: Passage, edge: Edge) -> str:
    source, target = (html.escape(passage.words[word], quote=False) for word in (edge.source, edge.target))
    return f"{source} hands {edge.weight:.3f} of its weight to {target}"


def _connections(passage: Passage, edges: Sequence[Edge]) -> str:
    if not passage.graph:
        return "This model has no graph of words: weights alone."
    listed = "; ".join(_hands(passage, edge) for edge in edges[:_LISTED])
    return f"Strongest: {listed}." if listed else "One word: there is nothing it could be connected with."


def _of_words(passage: Passage, num_words: int) -> str:
    return f"The {num_words} most central of {len(passage.words):,} words." if num_words < len(passage.words) else ""
