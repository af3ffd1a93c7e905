"""Plots as an HTML page: one page per explanation of any task."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go

from ensue.answers import Explained, Explanation, LinkExplanation, QueryExplanation, TextExplanation
from ensue.data.edges import Edges
from ensue.errors import ModelFolderError, SettingError
from ensue.figures.cascades import cascade
from ensue.figures.document import document
from ensue.figures.queries import query_weights
from ensue.figures.texts import deletions
from ensue.figures.word_graph import word_graph
from ensue.store.folder import write_file


def write_html(figure: go.Figure, path: Path, *more_figures: go.Figure) -> None:
    """Write a page with figures and the code that draws them; a reader of the path sees the old page or the new one.

    Raises:
        SettingError: the page cannot be written there.
    """
    options = {"config": {"displaylogo": False}}
    page = figure.to_html(include_plotlyjs=True, div_id="figure", **options)
    for number, other in enumerate(more_figures, 2):
        div = other.to_html(include_plotlyjs=False, full_html=False, div_id=f"figure{number}", **options)
        # One page holds the code of Plotly once; further figures are put before its end.
        head, tail = page.rsplit("</body>", 1)
        page = f"{head}{div}</body>{tail}"
    # write_file would make the folder, and a typing error would make one too.
    if not path.absolute().parent.is_dir():
        raise SettingError(f"{path}: the figure cannot be written there (no folder {path.parent}); give another path")
    try:
        write_file(path, page.encode())
    except ModelFolderError as error:
        raise SettingError(f"{error}; give another path for the figure") from error


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
            first, *more_figures = [*(word_graph(explanation, index) for index in strongest), document(explanation)]
            write_html(first, path, *more_figures)
