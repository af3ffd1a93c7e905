"""Every picture as a Plotly figure: a notebook, an HTML file and the web page draw the same one."""

from ensue.figures.cascades import cascade
from ensue.figures.document import document
from ensue.figures.explanation import write_explanation
from ensue.figures.links import deletions
from ensue.figures.page import write_html
from ensue.figures.queries import leanings
from ensue.figures.series import bars, lines
from ensue.figures.spreaders import spreaders
from ensue.figures.streams import stream
from ensue.figures.word_graph import word_graph

__all__ = [
    "bars",
    "cascade",
    "deletions",
    "document",
    "leanings",
    "lines",
    "spreaders",
    "stream",
    "word_graph",
    "write_explanation",
    "write_html",
]
