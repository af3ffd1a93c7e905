"""Run a notebook from its first cell to its last, in a kernel of its own, and render it as a page.

    python scripts/site/notebook.py NOTEBOOK FOLDER [--write]

``FOLDER`` gets the notebook with today's outputs and an HTML page of it, which asks no other machine for anything. With
``--write`` the outputs go into the notebook itself too. It needs ``nbclient``, ``nbconvert`` and ``ipykernel``.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

LIMIT = 900
"""Seconds that the kernel may take to start, and that any one cell may take."""


def run(path: Path, folder: Path) -> Path:
    """The page of a notebook, and beside it the notebook with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell ended with an error.
    """
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    notebook = nbformat.read(path, nbformat.NO_CONVERT)
    sockets = str(Path(os.environ["IPYTHONDIR"]) / "s")  # no port that another program may take
    kernel = AsyncKernelManager(transport="ipc", ip=sockets, kernel_name="python3")
    client = NotebookClient(notebook, km=kernel, startup_timeout=LIMIT, timeout=LIMIT, record_timing=False)
    client.execute()
    nbformat.write(notebook, folder / path.name)
    page, _ = HTMLExporter(
        template_name="lab", mathjax_url="", require_js_url="", mermaid_js_url=""
    ).from_notebook_node(notebook)
    written = (folder / path.name).with_suffix(".html")
    written.write_text(page, encoding="utf-8")
    return written


def main() -> None:
    """Run the notebook that is named."""
    words = [word for word in sys.argv[1:] if word != "--write"]
    path = Path(words[0]).resolve()
    folder = Path(words[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="nb") as ours:  # short, for a socket's path has few characters
        for name in ("CONFIG", "DATA", "RUNTIME"):
            os.environ[f"JUPYTER_{name}_DIR"] = ours
        os.environ["IPYTHONDIR"] = ours
        folder.mkdir(parents=True, exist_ok=True)
        print(run(path, folder))
    if "--write" in sys.argv:
        shutil.copyfile(folder / path.name, path)


if __name__ == "__main__":
    main()
