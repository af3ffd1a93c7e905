"""The page and what it needs, read into memory once: no path of a request ever reaches the disk."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from plotly.offline import get_plotlyjs
from starlette.requests import Request
from starlette.responses import Response

from ensue.serve.problems import RequestError

PAGE = Path(__file__).parent / "page"
INDEX, DOCS = "index.html", "docs.html"
PLOTLY = "plotly.min.js"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/vnd.microsoft.icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
PACKED = (".html", ".js", ".css", ".svg", ".json")


class File:
    """One file in memory.

    Args:
        data: its bytes.
        suffix: what tells its type.
    """

    def __init__(self, data: bytes, suffix: str) -> None:
        self.data, self.suffix = data, suffix
        self.tag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'

    @cached_property
    def packed(self) -> bytes:
        """Its bytes by gzip, made when they are first asked for."""
        return gzip.compress(self.data, 6, mtime=0)

    async def response(self, request: Request) -> Response:
        """The file, or that the client's copy still holds."""
        headers = {"etag": self.tag, "cache-control": "public, max-age=0, must-revalidate", "vary": "accept-encoding"}
        # The tag is a digest of the contents, so that an update of ensue is seen at once.
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if self.suffix in PACKED and "gzip" in request.headers.get("accept-encoding", ""):
            # In a thread: Plotly's code is large, and takes long to pack the first time.
            packed = await asyncio.to_thread(lambda: self.packed)
            return Response(packed, headers={**headers, "content-encoding": "gzip"}, media_type=TYPES[self.suffix])
        return Response(self.data, headers=headers, media_type=TYPES[self.suffix])


class Files:
    """The page's files by name.

    Args:
        folder: where they stand; what has another type than a page needs is left out.
    """

    def __init__(self, folder: Path = PAGE) -> None:
        self._files: Mapping[str, File] = {
            path.relative_to(folder).as_posix(): File(path.read_bytes(), path.suffix)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in TYPES
        } | {PLOTLY: File(get_plotlyjs().encode(), ".js")}

    async def response(self, name: str, request: Request) -> Response:
        """A file by its name.

        Raises:
            RequestError: 404.
        """
        if name not in self._files:
            raise RequestError(404, "there is no such page")
        return await self._files[name].response(request)
