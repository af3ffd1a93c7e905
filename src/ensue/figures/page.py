"""Figures as one HTML page that needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import plotly.graph_objects as go

from ensue.errors import SettingError


def write_html(figure: go.Figure, path: Path, *more: go.Figure) -> None:
    """Write a page that holds the figures and all they need; whoever reads the path sees the old page or the new one.

    Raises:
        SettingError: the page cannot be written there.
    """
    page = figure.to_html(include_plotlyjs=True, div_id="figure", config={"displaylogo": False})
    for number, other in enumerate(more, 2):
        part = other.to_html(
            include_plotlyjs=False, full_html=False, div_id=f"figure{number}", config={"displaylogo": False}
        )
        before, after = page.rsplit("</body>", 1)
        page = f"{before}{part}</body>{after}"
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(page, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SettingError(
            f"{path}: the figure cannot be written there ({error.strerror}); give another path"
        ) from error
