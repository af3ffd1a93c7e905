"""The service: any model folder over HTTP, with its page. Needs the extra ``serve``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ensue.errors import SettingError
from ensue.serve.settings import ServeSettings

__all__ = ["serve"]


def serve(
    folders: Mapping[str, Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    story: Path | None = None,
    edges: Mapping[str, Path] | None = None,
    queue: str | None = None,
    token: str = "",
    update_token: str = "",
    settings: ServeSettings | None = None,
) -> None:
    """Serve model folders until a signal says stop; what is in flight then is finished.

    Args:
        folders: name to model folder; a folder that is replaced is swapped in while requests go on.
        host: the address to listen on.
        port: 0 takes any that is free; which one stands on stderr.
        workers: processes that answer, at one port; they share what is loaded.
        story: a file of JSON that the page shows, at ``/v1/story``.
        edges: name of a model of histories to a file of true edges, ``from to`` a line, which its pictures show.
        queue: where ``/v1/events`` puts what comes: ``sqlite:queue.db`` or ``redis://host:port/0?stream=NAME``.
        token: what a client must show; needed unless ``host`` is of this machine alone.
        update_token: what a client must show to update and to send events; unless given, whoever may ask may do so,
            but may not leave out the test of an update.
        settings: limits and times.

    Raises:
        SettingError: the extra or a needed token is missing, or a name or an address means nothing.
        ModelFolderError: a folder is none, or damaged.
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise SettingError(f"the service needs {error.name}; install it with: pip install 'ensue[serve]'") from error
    from ensue.serve.server import run

    run(
        folders,
        host=host,
        port=port,
        workers=workers,
        story=story,
        edges=edges or {},
        queue=queue,
        token=token,
        update_token=update_token,
        settings=settings,
    )
