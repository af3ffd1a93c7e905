"""The site is built without a warning or a broken link, holds what it must, and is looked at in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import ensue
from ensue import registry
from ensue.schedule import Schedule
from ensue.tasks import TASKS
from scripts.site import api, drawings, settings
from scripts.site.blocks import ROOT
from scripts.site.build import BUILT, MADE, Links, faults
from tests.page.conftest import CHROMIUM, browser
from tests.test_imports import FLOORS

SOURCES = ("docs", "src", "scripts", "examples", "studies", "benchmarks")
SUFFIXES = (".md", ".py", ".css", ".html", ".svg", ".png", ".json", ".js")


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built as ``scripts/docs`` builds it, unless it is newer than all that it is made of."""
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    sources = [path for name in SOURCES for path in (ROOT / name).rglob("*") if path.suffix in SUFFIXES]
    written = max(path.stat().st_mtime for path in sources if not {MADE, BUILT.parent} & {*path.parents})
    if (BUILT / "index.html").is_file() and (BUILT / "index.html").stat().st_mtime > written:
        return BUILT
    command = [sys.executable, "-W", "default", str(ROOT / "scripts" / "site" / "build.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_plain())
    assert done.returncode == 0, done.stdout + done.stderr
    return BUILT


def _plain() -> dict[str, str]:
    """The environment without what turns warnings of other packages into errors."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}


def test_it_is_built_without_a_warning(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert (site / "searchindex.js").is_file()


def test_every_page_is_reached_from_the_first_one(site: Path) -> None:
    seen, open_pages = set[Path](), [site / "index.html"]
    while open_pages:
        page = open_pages.pop()
        if page in seen:
            continue
        seen.add(page)
        for address in Links(page.read_text(encoding="utf-8")).leads:
            target = (page.parent / urlsplit(address).path).resolve()
            if not urlsplit(address).scheme and target.suffix == ".html" and target.is_file():
                open_pages.append(target)
    written = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    assert {path.relative_to(site).with_suffix("") for path in seen} >= written


def test_faults_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html">gone</a><a href="#nowhere">x</a><a href="https://example.org">fine</a>'
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//fonts.example/f.css">'
    )
    (tmp_path / "a.css").write_text("@import 'https://fonts.example/g.css'; b { background: url(//x.example/i.png) }")
    found = "\n".join(faults(tmp_path))
    assert len(faults(tmp_path)) == 6
    for culprit in ("b.html leads nowhere", "#nowhere", "x.js", "f.css", "g.css", "i.png"):
        assert culprit in found
    assert "example.org" not in found


def test_every_public_name_has_a_place() -> None:
    named = [name for _, name in api.documented()]
    assert len(named) == len(set(named))
    assert {*named, "__version__"} >= set(ensue.__all__)


@pytest.mark.parametrize("task", TASKS)
def test_every_setting_of_every_model_is_listed(task: str) -> None:
    """With default, unit, meaning and source; what all training shares is on the page that leads there."""
    page, shared, package = settings.page_of(task), settings.page(), TASKS[task].module("catalogue")
    for model in registry.models(task):
        (section,) = [one for one in page.split("\n## ")[1:] if model.name in one.split("\n")[0].split(", ")]
        lines = {line.name: line for line in settings.lines_of(task, model)}
        parts = [part for part in (*package.MODELS[model.name][1:], package.SHARED) if is_dataclass(part)]
        assert set(lines) == {field.name for part in parts for field in fields(part)}
        for line in lines.values():
            assert all((line.default, line.unit, line.meaning, line.source)), line
            places = section, page.split("\n## Of every model")[-1], shared
            assert any(f"| `{line.name}` | {line.default} | {line.unit} |" in place for place in places), line
    assert shared.count("| `") >= len(vars(Schedule()))


@pytest.mark.parametrize("page", ["architecture", "extend"])
def test_files_that_a_page_names_exist(page: str) -> None:
    names = re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert len(names) > 5
    missing = [name for name in names if not ((ROOT / "src" / "ensue" / name).exists() or (ROOT / name).exists())]
    assert not missing


@pytest.mark.parametrize("name", drawings.DRAWINGS)
def test_every_drawing_says_what_it_shows_and_is_shown(name: str) -> None:
    assert 'role="img" aria-label="' in drawings.DRAWINGS[name]()
    names = ("evaluation", "architecture", "results/speed")
    pages = [(ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in names]
    assert any(f"drawings/{name}.svg" in page for page in pages)


def test_the_drawing_of_packages_has_no_import_above_the_diagonal() -> None:
    imported = drawings.package_imports()
    circles = re.findall(r'<circle cx="(\d+)" cy="(\d+)"', drawings.packages())
    assert len(circles) > 50 and all(int(x) - 122 < int(y) - 92 for x, y in circles)
    assert "tasks" in imported["serve"] and "serve" not in imported["tasks"]


def test_the_table_of_packages_is_in_the_order_of_the_layers() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = text.partition("|---|---|\n")[2].partition("\n\n")[0].splitlines()
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    layers = [name for name in FLOORS if "." not in name and name not in ("version", "forks", "__init__", "__main__")]
    assert names == layers


PAGES = (
    "index",
    "quickstart",
    "guides/classify_texts",
    "evaluation",
    "results/hidan",
    "generated/api",
    "generated/settings_next",
)
CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const parse = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const over = (top, below) => [0, 1, 2].map(n => top[n] * top[3] + below[n] * (1 - top[3])).concat(1);
  const behind = node => {
    const layers = [];
    for (let one = node; one; one = one.parentElement) layers.push(parse(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement, style = getComputedStyle(node), box = node.getBoundingClientRect();
    if (!text.data.trim() || !box.width || !box.height || style.visibility === "hidden") continue;
    if (node.closest("svg,script,[disabled],[aria-hidden=true],dialog:not([open])")) continue;
    const ground = behind(node), ink = over(parse(style.color), ground);
    const [high, low] = [light(ink), light(ground)].sort((a, b) => b - a), ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
    const large = size >= 24 || (size >= 18.66 && bold);
    if (ratio < (large ? 3 : 4.5) - 0.01)
      found.add(`${ratio.toFixed(2)} ${style.color} ${node.tagName} ${text.data.trim().slice(0, 30)}`);
  }
  return [...found].slice(0, 8);
}
"""
REACH = """
() => [...document.querySelectorAll("a[href], button, input, summary, select")].filter(node => {
  const box = node.getBoundingClientRect(), style = getComputedStyle(node);
  return box.width && box.height && style.visibility !== "hidden" && !node.disabled && node.tabIndex < 0
    && !node.closest("[aria-hidden=true]") && !node.classList.contains("headerlink");
}).map(node => node.outerHTML.slice(0, 100))
"""


@pytest.fixture(scope="module")
def opened(site: Path) -> Iterator[Any]:
    """Opens a page of the site from the disk; fails afterwards where one asked for anything elsewhere."""
    wrong = list[str]()
    with browser().sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def note(text: str) -> None:
            wrong.append(text)

        def open_page(name: str, width: int, scheme: str) -> Any:
            context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.on("request", lambda one: note(one.url) if not one.url.startswith(("file:", "data:")) else None)
            page.on("pageerror", lambda error: note(str(error)))
            page.goto((site / f"{name}.html").as_uri())
            return page

        yield open_page
        chromium.close()
    assert wrong == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read(opened: Any, width: int, scheme: Any) -> None:
    """No page is wider than the screen, every text stands out, and what can be clicked is reached by the keyboard."""
    faulty = {}
    for name in PAGES:
        page = opened(name, width, scheme)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        found = [f"wider than the screen by {wide}"] * (wide > 0) + page.evaluate(CONTRAST) + page.evaluate(REACH)
        if found:
            faulty[name] = found
        page.context.close()
    assert faulty == {}


@pytest.mark.browser
def test_the_keyboard_reaches_what_follows(opened: Any) -> None:
    """The first stop leads past the navigation, and every stop is seen."""
    page = opened("quickstart", 1280, "light")
    stops = []
    for _ in range(12):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate(
                "() => { const one = document.activeElement, style = getComputedStyle(one);"
                " return [one.textContent.trim() || one.ariaLabel || one.title,"
                " style.outlineStyle !== 'none' || style.boxShadow !== 'none']; }"
            )
        )
    assert stops[0][0] == "Skip to main content"
    assert len({name for name, _ in stops}) > 6
    assert all(seen for _, seen in stops[1:]), stops
    page.context.close()


@pytest.mark.browser
def test_the_search_works_offline(opened: Any) -> None:
    page = opened("search", 1280, "light")
    page.goto(f"{page.url}?q=rollback")
    page.wait_for_selector("ul.search li a")
    assert "Update a model" in page.inner_text("ul.search")
    page.context.close()
