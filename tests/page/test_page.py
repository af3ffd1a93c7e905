"""The page as people use it: by mouse, by keyboard, on a phone, in the dark, with the service gone or locked."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from ensue import figures
from scripts.site.files import write_all
from tests.page.conftest import Open, Served, browser, serving
from tests.processes import Started
from tests.test_text_figures import long_text

PANELS = ["about", "says", "shares", "reads", "searches"]
NAMES = ["Posts about it", "What they say", "Who passes it on", "What is read next", "What is searched next"]


def until(page: Any, expression: str, arg: Any = None) -> None:
    """Wait until an expression is true. The page's policy forbids to compile text, so it is asked from here."""
    end = time.monotonic() + 60
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


def ready(page: Any, panel: str) -> None:
    """Wait until an answer stands there with its picture."""
    page.wait_for_selector(f"#panel-{panel} .answers[aria-busy=false] .choice")
    page.wait_for_selector(f"#panel-{panel} .evidence[aria-busy=false]")
    page.wait_for_selector(f"#panel-{panel} .plot .main-svg")
    until(page, f"() => document.querySelector('#panel-{panel} .words').textContent.length > 10")


def test_every_panel_by_mouse(served: str, visit: Open) -> None:
    page = visit(served)
    page.wait_for_selector("[role=tab]")
    assert page.locator("[role=tab]").all_inner_texts() == NAMES
    assert page.locator("h1").inner_text() == "A bridge closes in Harrowmere"
    for panel, name in zip(PANELS, NAMES, strict=True):
        page.get_by_role("tab", name=name).click()
        ready(page, panel)
        own = page.locator(f"#panel-{panel}")
        asked = own.locator(".subject").inner_text()
        own.locator(".card").nth(1).click()
        until(
            page,
            "([panel, before]) => document.querySelector(`#panel-${panel} .subject`).innerText !== before",
            [panel, asked],
        )
        ready(page, panel)
        assert "made-up event" in own.locator(".outcome").inner_text()
        second = own.locator(".choice").nth(1)
        value = second.locator(".value").inner_text()
        second.click()
        until(
            page,
            "([panel, value]) => document.querySelector(`#panel-${panel} h3 em`).textContent === value",
            [panel, value],
        )
        ready(page, panel)
        assert own.locator(".test h4").is_visible()
        assert page.locator("[role=tabpanel]:visible").count() == 1
    assert page.locator("#scores tbody tr").count() == len(PANELS)


def test_every_panel_by_keyboard(served: str, visit: Open) -> None:
    page = visit(served)
    ready(page, "about")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("[role=tab]").first.focus()
    for panel in [*PANELS[1:], PANELS[0]]:
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == f"tab-{panel}"
        assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
        ready(page, panel)
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.id") == "tab-searches"
    page.keyboard.press("Home")
    page.keyboard.press("Tab")  # into the panel
    page.keyboard.press("Tab")  # the chosen item
    before = page.locator("#panel-about .subject").inner_text()
    page.keyboard.press("ArrowDown")
    until(page, "(before) => document.querySelector('#panel-about .subject').innerText !== before", before)
    ready(page, "about")
    page.locator("#panel-about .choice input").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#panel-about .choice input").nth(1).is_checked()
    assert page.evaluate("getComputedStyle(document.activeElement.closest('.choice')).outlineStyle") == "solid"


def test_a_text_of_ones_own_is_asked_and_stays_text(served: str, visit: Open) -> None:
    page = visit(f"{served}/#says")
    ready(page, "says")
    mine = "<img src=x onerror=alert(1)> Somebody should resign over <b>the detour</b>."
    page.locator("#panel-says textarea").fill(mine)
    page.locator("#panel-says").get_by_role("button", name="Ask").click()
    until(page, "() => document.querySelector('#panel-says blockquote').textContent.includes('<b>')")
    ready(page, "says")
    assert page.locator("#panel-says .subject blockquote").text_content() == mine
    assert page.locator("#panel-says img, #panel-says .subject b").count() == 0
    assert page.locator("#panel-says .card input:checked").count() == 0
    page.locator("#panel-says textarea").fill(" ")
    page.keyboard.press("Control+Enter")
    assert page.locator("#panel-says form .note").inner_text() == "Write something first."


def test_suggestions_follow_each_letter(served: str, visit: Open) -> None:
    answered = "#panel-searches .answers[aria-busy=false] .choice"  # what counts has no weights to draw
    page = visit(f"{served}/#searches")
    page.wait_for_selector(answered)
    field = page.locator("#panel-searches .add input")
    field.press_sequentially("re", delay=30)
    until(
        page,
        "() => [...document.querySelectorAll('#panel-searches .value')].length > 0 &&"
        "[...document.querySelectorAll('#panel-searches .value')].every((one) => one.textContent.startsWith('re'))",
    )
    field.press("ArrowDown")
    assert page.evaluate("document.activeElement.type") == "radio"
    steps = page.locator("#panel-searches .steps li").count()
    field.fill("relief fund form")
    field.press("Enter")
    assert page.locator("#panel-searches .steps li").count() == steps + 1
    page.wait_for_timeout(500)  # longer than a pause between letters: nobody asks for what stands in the field no more
    page.wait_for_selector(answered)


def test_steps_are_taken_away_and_added(served: str, visit: Open) -> None:
    page = visit(f"{served}/#reads")
    ready(page, "reads")
    steps = page.locator("#panel-reads .steps li")
    count = steps.count()
    page.locator("#panel-reads .drop").last.click()
    assert steps.count() == count - 1
    page.locator("#panel-reads .add input").fill("Swans are back on the mill pond")
    page.keyboard.press("Enter")
    assert steps.last.locator("span").inner_text() == "Swans are back on the mill pond"
    ready(page, "reads")
    while page.locator("#panel-reads .drop").count():
        page.locator("#panel-reads .drop").first.click()
    assert page.locator("#panel-reads .answers").inner_text() == "Add articles, and the ranking follows."


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
def test_it_fits_and_can_be_read(served: str, visit: Open, tmp_path: Path, width: int, scheme: str) -> None:
    page = visit(served, width=width, color_scheme=scheme, reduced_motion="reduce")
    for panel in PANELS:
        page.locator(f"#tab-{panel}").click()
        ready(page, panel)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, panel
        assert page.evaluate(SMALLEST) >= 11
        assert page.evaluate(CONTRAST) == []
        page.screenshot(path=tmp_path / f"{panel}.png", full_page=True)
        assert (tmp_path / f"{panel}.png").stat().st_size > 20_000


@pytest.mark.parametrize("width", [390, 1440])
def test_no_two_words_of_the_graph_overlap(served: str, visit: Open, tmp_path: Path, width: int) -> None:
    words = [f"{'extraordinarily' if place % 3 == 0 else 'ferry'}{place}" for place in range(60)]
    page = visit(f"{served}/#says", width=width)
    ready(page, "says")
    for count in (5, 23, 60):
        if not page.locator("#panel-says textarea").is_visible():
            page.locator("#panel-says summary").click()
        page.locator("#panel-says textarea").fill(" ".join(words[:count]))
        page.locator("#panel-says textarea").press("Control+Enter")
        until(page, "(number) => document.querySelectorAll('#panel-says .textpoint').length === number", min(count, 40))
        ready(page, "says")
        assert page.evaluate(OVERLAPS) == []
    figures.write_html(figures.word_graph(long_text(60, graph=True)), tmp_path / "graph.html")
    alone = visit("about:blank", width=width)
    alone.set_content((tmp_path / "graph.html").read_text(encoding="utf-8"))
    alone.wait_for_selector(".textpoint")
    assert alone.evaluate(OVERLAPS) == []


def test_everything_has_a_name(served: str, visit: Open) -> None:
    page = visit(served)
    for panel in PANELS:
        page.locator(f"#tab-{panel}").click()
        ready(page, panel)
        assert page.evaluate(NAMELESS) == []
        assert page.locator(f"#panel-{panel} .plot").get_attribute("aria-label")
        assert page.locator(f"#panel-{panel} .answers").get_attribute("aria-live") == "polite"


def test_an_error_shows_the_services_line_and_can_be_tried_again(served: str, visit: Open) -> None:
    page = visit(f"{served}/#says", allow=("status of 503",))
    ready(page, "says")
    line = {"error": "too many wait for this model", "hint": "ask again later"}
    page.route("**/predict", lambda route: route.fulfill(status=503, body=json.dumps(line)))
    page.locator("#panel-says .card").nth(2).click()
    shown = page.locator("#panel-says [role=alert]")
    shown.wait_for()
    assert shown.inner_text().splitlines()[0] == line["error"]
    page.unroute("**/predict")
    shown.get_by_role("button", name="Try again").click()
    ready(page, "says")


def test_a_service_that_is_gone_is_said(served: str, visit: Open) -> None:
    page = visit("about:blank", allow=("net::ERR_FAILED",))
    page.route("**/v1/**", lambda route: route.abort())
    page.goto(served)
    page.locator("[role=alert]").wait_for()
    assert "does not answer" in page.locator("[role=alert]").inner_text()
    page.unroute("**/v1/**")
    page.get_by_role("button", name="Try again").click()
    ready(page, "about")


def test_models_of_ones_own_behind_a_token(place: Served, visit: Open) -> None:
    own = [place.folders[name] for name in ("posts", "reading", "sharing")]
    with serving(own, token="secret") as address:
        page = visit(address, allow=("status of 401", "status of 404"))  # there is no story
        page.locator("#token-field").wait_for()
        page.locator("#token-field").fill("secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=tab]")
        assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 1, ""]
        assert page.locator("[role=tab]").all_inner_texts() == ["Posts about it", "What comes next"]
        ready(page, "about")  # an example is asked at once
        told = page.locator("#panel-about .facts dd").all_inner_texts()
        assert told[:4] == ["posts", "link", "best", "1"] and re.fullmatch(r"\d{4}-\d\d-\d\d", told[4])
        assert told[5] == "not evaluated yet; run: ensue evaluate FOLDER TEST"
        assert told[6] == "no requests in 7 days"
        assert (
            page.locator("#panel-about .card .said").first.inner_text()
            == "Lantern Bridge closed after inspectors find crack"
        )
        assert page.locator("#lead").inner_text().startswith("posts, reading, sharing: query")
        page.locator("textarea").fill("The night ferry was full again.")
        page.get_by_role("button", name="Ask").click()
        ready(page, "about")
        assert page.locator("#scores").is_hidden()
        page.keyboard.press("Escape")
        page.locator("#tab-next").click()
        page.locator("#panel-next .add input").fill("bridge-closes")
        page.keyboard.press("Enter")
        ready(page, "next")
        first = page.locator("#panel-next .value").first.inner_text()
        page.locator("#panel-next select").select_option("1")
        until(page, "(first) => document.querySelector('#panel-next .value').textContent !== first", first)
        ready(page, "next")
        assert "Nothing in the input is known" in page.locator("#panel-next .answers").inner_text()


def test_true_edges_stand_in_the_picture_of_who_passed_it_on(served: str, visit: Open) -> None:
    page = visit(f"{served}/#shares")
    ready(page, "shares")
    assert re.search(r"Dotted: \d+ true edges? between these", page.locator("#panel-shares .words").inner_text())
    drawn = page.evaluate(
        "() => document.querySelector('#panel-shares .plot').data.map((one) => [one.name, one.line?.dash])"
    )
    assert ["true edge", "dot"] in drawn


def test_a_model_says_how_it_scored_and_what_it_does_not_know(place: Served, visit: Open, tmp_path: Path) -> None:
    folder = shutil.copytree(place.folders["reading"], tmp_path / "reading")
    log = tmp_path / "log.jsonl"
    log.write_text('{"values": ["bridge-closes", "ferry-night", "bridge-closes", "ferry-night"]}\n' * 5)
    evaluating = Started("evaluate", folder, log)
    evaluating.communicate(60)
    assert evaluating.returncode == 0
    with serving([folder]) as address:
        page = visit(address, allow=("status of 404",))
        for _ in range(2):  # what the first look asked is counted at the second
            page.goto(address)
            ready(page, "next")
        told = dict(
            zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
        )
        assert " ± " in told["Score"] and told["Protocol"]
        assert re.fullmatch(r"[\d.<> ]+ % of \d+ ids and words in requests in 7 days were unknown to it", told["Drift"])
        assert page.locator(".facts .note").inner_text()


TASKS_FITTED = {
    "next": ("next", "clicks.csv", "--model=core", "--set=dim=8", "--set=negatives=8"),
    "says": ("classify", "coded.csv", "--model=tfidf"),
    "searches": ("suggest", "searches.tsv", "--model=mtn", "--set=dim=8", "--set=heads=2"),
    "about": ("link", "linked.jsonl", "--articles", "stories.csv", "--model=best"),
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each task as `ensue fit` writes it, of the guides' files."""
    browser()
    place = tmp_path_factory.mktemp("own")
    write_all(place)
    for name, (task, data, *options) in TASKS_FITTED.items():
        paths = [str(place / one) if (place / one).exists() else one for one in (data, *options)]
        epochs = [] if task in ("classify", "link") else ["--set=epochs=1"]
        fitting = Started("fit", task, *paths, *epochs, "-o", place / "models" / name)
        said = fitting.communicate(120)
        assert fitting.returncode == 0, said
    return place / "models"


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark"), (1280, "light")])
def test_held_out_records_are_asked_about(own: Path, visit: Open, tmp_path: Path, width: int, scheme: str) -> None:
    with serving([own / name for name in TASKS_FITTED]) as address:
        page = visit(address, width=width, color_scheme=scheme, reduced_motion="reduce", allow=("status of 404",))
        for panel in TASKS_FITTED:
            page.goto(f"{address}/#{panel}")
            page.reload()
            ready(page, panel)
            part = page.locator(f"#panel-{panel}")
            assert part.locator(".picks legend").inner_text() == "Held-out examples"
            assert 1 <= part.locator(".card").count() <= 6
            part.locator(".card").last.click()
            ready(page, panel)
            assert part.locator(".outcome").inner_text().startswith("True answer in the held-out data:")
            assert "then used for training" in part.locator(".picks .note").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert page.evaluate(CONTRAST) == [] and page.evaluate(NAMELESS) == []
            page.screenshot(path=tmp_path / f"{panel}.png", full_page=True)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_the_api_is_described_readably(served: str, visit: Open, width: int, scheme: str) -> None:
    page = visit(f"{served}/docs", width=width, color_scheme=scheme)
    page.wait_for_selector(".operation")
    whole = json.loads(page.request.get(f"{served}/openapi.json").text())
    every = [f"{method.upper()} {path}" for path, methods in whole["paths"].items() for method in methods]
    assert page.locator(".operation h3").all_inner_texts() == every
    assert page.locator("#contents a").count() == len(every)
    own = page.locator("#post-v1-models-name-predict")
    assert "list of up to 256 History" in own.inner_text() and "PredictNext" in own.inner_text()
    own.locator("summary").first.click()
    assert own.locator("pre").first.inner_text().startswith(f"curl -X POST {served}/v1/models/")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(CONTRAST) == [] and page.evaluate(NAMELESS) == [] and page.evaluate(SMALLEST) >= 11


def test_the_api_is_described_to_who_has_the_token(place: Served, visit: Open) -> None:
    with serving([place.folders["reading"]], token="secret") as address:
        page = visit(f"{address}/docs", allow=("status of 401",))
        page.locator("#token-field").wait_for()
        assert page.locator(".operation").count() == 0
        page.locator("#token-field").fill("secret")
        page.keyboard.press("Enter")
        page.wait_for_selector(".operation")


SMALLEST = """() => Math.min(...[...document.querySelectorAll('body *')]
  .filter((one) => one.checkVisibility() && [...one.childNodes].some((part) => part.nodeType === 3 && part.data.trim()))
  .filter((one) => !one.closest('.unseen, option, datalist, noscript'))
  .map((one) => parseFloat(getComputedStyle(one).fontSize)))"""

OVERLAPS = """() => { const boxes = [...document.querySelectorAll('.textpoint')].filter((one) => one.checkVisibility())
  .map((one) => [one.textContent, one.getBoundingClientRect()]);
  return boxes.flatMap(([name, a], at) => boxes.slice(at + 1)
    .filter(([, b]) => Math.min(a.right, b.right) > Math.max(a.left, b.left) + 0.5
      && Math.min(a.bottom, b.bottom) > Math.max(a.top, b.top) + 0.5).map(([other]) => [name, other])); }"""

NAMELESS = """() => [...document.querySelectorAll('button, input, textarea, select, a, summary')]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') || (one.labels && one.labels.length)))
  .map((one) => one.outerHTML)"""

# WCAG 2.2, 1.4.3: the ratio of luminances, 4.5 for text. Grounds that are see-through are mixed with what is below.
CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const paint = (stack) => { canvas.clearRect(0, 0, 1, 1);
    for (const one of stack) { canvas.fillStyle = one; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const bend = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (rgb) => { const [r, g, b] = rgb.map((v) => bend(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const found = [];
  for (const one of document.querySelectorAll('body *')) {
    if (!one.checkVisibility() || one.closest('.unseen, svg, .plot, option, datalist, noscript')) continue;
    if (![...one.childNodes].some((part) => part.nodeType === 3 && part.data.trim())) continue;
    const stack = [];
    for (let at = one; at; at = at.parentElement) stack.unshift(getComputedStyle(at).backgroundColor);
    const [ground, text] = [light(paint(stack)), light(paint([...stack, getComputedStyle(one).color]))];
    const ratio = (Math.max(ground, text) + 0.05) / (Math.min(ground, text) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${one.className} ${one.textContent.trim().slice(0, 30)}`);
  }
  return found;
}"""
