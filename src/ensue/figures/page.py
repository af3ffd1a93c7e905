"""Figures as one HTML page that needs nothing else."""

from __future__ import annotations

from pathlib import Path

import plotly.graph_objects as go

from ensue.errors import ModelFolderError, SettingError
from ensue.store.folder import write_file


def write_html(figure: go.Figure, path: Path, *more: go.Figure) -> None:
    """Write a page with figures and the code that draws them; a reader of the path sees the old page or the new one.

    Raises:
        SettingError: the page cannot be written there.
    """
    options = {"config": {"displaylogo": False}}
    page = figure.to_html(include_plotlyjs=True, div_id="figure", **options)
    for number, other in enumerate(more, 2):
        part = other.to_html(include_plotlyjs=False, full_html=False, div_id=f"figure{number}", **options)
        before, after = page.rsplit("</body>", 1)
        page = f"{before}{part}</body>{after}"
    if not path.absolute().parent.is_dir():
        raise SettingError(f"{path}: the figure cannot be written there (no folder {path.parent}); give another path")
    try:
        write_file(path, page.encode())
    except ModelFolderError as error:
        raise SettingError(f"{error}; give another path for the figure") from error
