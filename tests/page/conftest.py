"""The real service on a free port of this machine, with small models, and a browser that may go nowhere else."""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from ensue.demo.scenario import write_logs, write_story
from tests.demo.small_demo import small_demo
from tests.processes import Started

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
Open = Callable[..., Any]


def browser() -> Any:
    """Playwright, or the reason why these tests are left out."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    return playwright


class Served(NamedTuple):
    """A running service."""

    address: str
    folders: dict[str, Path]


@contextmanager
def serving(folders: list[Path], *options: str, token: str = "") -> Iterator[str]:
    """The service in a process of its own, as a person starts it; the address."""
    process = Started("serve", *folders, "--port", 0, *options, environment={"ENSUE_TOKEN": token})
    lines = []
    for line in process.stderr:
        lines.append(line)
        found = json.loads(line) if line.startswith("{") else {}
        if found.get("event") == "listening":
            break
    else:
        raise AssertionError(f"the service did not start: {lines}")
    drain = threading.Thread(target=process.stderr.read)
    drain.start()
    try:
        yield found["address"]
    finally:
        process.terminate()
        assert process.wait(30) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
        drain.join(10)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """Model folders and the story, not served yet."""
    browser()
    demo, folder = small_demo(), tmp_path_factory.mktemp("demo")
    write_story(demo, folder / "story.json", 0)
    write_logs(demo.story, folder)
    return Served(str(folder / "story.json"), demo.save(folder / "models"))


@pytest.fixture(scope="session")
def served(place: Served) -> Iterator[str]:
    """The address of the page with its story."""
    edges = f"sharing={Path(place.address).with_name('edges.tsv')}"
    with serving(list(place.folders.values()), "--scenario", place.address, "--edges", edges) as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests."""
    with browser().sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Open]:
    """Opens a page; fails afterwards where it asked another machine for anything, or wrote an error."""
    contexts, wrong, waived = [], list[str](), list[str]()

    def open_page(address: str, *, width: int = 1440, allow: tuple[str, ...] = (), **options: Any) -> Any:
        waived.extend(allow)
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.route("**/*", lambda route: guard(route))
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: note(message.type, message.text))
        page.on("pageerror", lambda error: wrong.append(f"uncaught: {error}"))
        page.goto(address)
        return page

    def guard(route: Any) -> None:
        host = urlsplit(route.request.url).hostname
        if host not in ("127.0.0.1", "localhost"):
            wrong.append(f"left the machine: {route.request.url}")
            route.abort()
        else:
            route.fallback()

    def note(kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(part in text for part in waived):
            wrong.append(f"{kind}: {text}")

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
