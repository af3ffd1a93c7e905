"""Figures of Plotly: a notebook, an HTML file and the web page draw the same ones."""

from ensue.figures.cascades import cascade
from ensue.figures.document import document
from ensue.figures.page import write_explanation, write_html
from ensue.figures.queries import query_weights
from ensue.figures.series import bars, lines, spreaders, stream
from ensue.figures.texts import deletions
from ensue.figures.word_graph import word_graph

__all__ = [
    "bars",
    "cascade",
    "deletions",
    "document",
    "lines",
    "query_weights",
    "spreaders",
    "stream",
    "word_graph",
    "write_explanation",
    "write_html",
]
