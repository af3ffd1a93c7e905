"""Every picture as a Plotly figure: a notebook, an HTML file and the web page draw the same one."""

from ensue.figures.document import document
from ensue.figures.events import dependency, stream
from ensue.figures.links import deletions
from ensue.figures.page import write_html
from ensue.figures.queries import leanings
from ensue.figures.series import bars, lines
from ensue.figures.word_graph import word_graph

__all__ = ["bars", "deletions", "dependency", "document", "leanings", "lines", "stream", "word_graph", "write_html"]
