"""Errors of requests as JSON: ``{"error": "…", "hint": "…"}``."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ensue.errors import EnsueError, ModelFolderError


class RequestError(Exception):
    """A request that cannot be answered.

    Args:
        status: of HTTP.
        error: one line that says what is wrong.
        hint: what to do, where the line does not say so.
        headers: such as when to come back.
    """

    def __init__(self, status: int, error: str, hint: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.status, self.error, self.hint, self.headers = status, error, hint, dict(headers or {})

    def response(self) -> Response:
        """Return the answer to the client."""
        body = {"error": self.error, **({"hint": self.hint} if self.hint else {})}
        return Response(
            json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
            self.status,
            {**self.headers, "cache-control": "no-store"},
            "application/json",
        )


UNROUTED = {404: "there is nothing at this address", 405: "this address does not take that method"}


def problem_of(error: RequestError | EnsueError | HTTPException) -> RequestError:
    """Return what a client is told of an error: 409 for a folder in the way, 422 for others of the library."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, HTTPException):  # of the router
        hint = "GET /openapi.json lists all routes"
        return RequestError(error.status_code, UNROUTED.get(error.status_code, str(error.detail)), hint, error.headers)
    return RequestError(409 if isinstance(error, ModelFolderError) else 422, str(error))


def busy(error: str, seconds: int = 1) -> RequestError:
    """Return 429, and when to come back."""
    return RequestError(429, error, "come back a little later", {"retry-after": str(seconds)})


def late(error: str) -> RequestError:
    """Return 503, and when to come back."""
    return RequestError(503, error, "come back a little later", {"retry-after": "1"})
