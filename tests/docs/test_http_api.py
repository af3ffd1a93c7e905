"""The guide is run."""

import pytest

from tests.docs.pages import check_page


def test_the_guide_shows_what_is_printed() -> None:
    for extra in ("fastapi", "uvicorn", "httpx"):
        pytest.importorskip(extra, reason=f"{extra} is not installed")
    check_page("docs/guides/http_api.md")
