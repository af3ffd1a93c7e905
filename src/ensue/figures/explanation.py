"""An explanation of any task as a page."""

from __future__ import annotations

from pathlib import Path

from ensue.answers import Explained, Explanation, LinkExplanation, QueryExplanation, TextExplanation
from ensue.data.edges import Edges
from ensue.figures.cascades import cascade
from ensue.figures.document import document
from ensue.figures.links import deletions
from ensue.figures.page import write_html
from ensue.figures.queries import query_weights
from ensue.figures.word_graph import word_graph


def write_explanation(explanation: Explained, path: Path, truth: Edges | None = None) -> None:
    """Write the figures of an explanation to an HTML file.

    Args:
        explanation: attention between events, between words, or a deletion test.
        path: the file.
        truth: true edges between events (next only).
    """
    match explanation:
        case Explanation():
            write_html(cascade(explanation, truth=truth), path)
        case QueryExplanation():
            write_html(query_weights(explanation), path)
        case LinkExplanation():
            write_html(deletions(explanation), path)
        case TextExplanation(passages=passages):
            # The graph of the passage that counts most, of pairs one for each text, and then all words.
            sides = ([index for index, passage in enumerate(passages) if passage.side == side] for side in (0, 1))
            strongest = [max(side, key=lambda index: passages[index].weight) for side in sides if side]
            first, *others = [*(word_graph(explanation, index) for index in strongest), document(explanation)]
            write_html(first, path, *others)
