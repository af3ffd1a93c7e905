"""Every documented name has an example, and it runs: in a folder of small files, and a service where one is asked."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.site.api import documented
from scripts.site.blocks import PORT, Page, run_command, stop
from scripts.site.files import write_all

SERVED = "ensue.client"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A folder with the files of the guides."""
    page = Page(tmp_path_factory.mktemp("examples") / "work")
    write_all(page.folder)
    yield page
    stop(page)


@pytest.mark.parametrize(("module", "name"), documented())
def test_the_example_runs(page: Page, module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(page.folder)
    if module == SERVED and not page.started:
        run_command("ensue fit next clicks.csv -o models/next --model markov", page)
        run_command("ensue serve models/next &", page)
    text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    text = text.replace(f":{PORT}", f":{page.port}")
    test = doctest.DocTestParser().get_doctest(text, {}, f"{module}.{name}", None, 0)
    assert test.examples, "there is no example"
    assert any(one.want or one.exc_msg for one in test.examples), "it shows nothing"
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not failed, "".join(said)


def test_an_example_that_is_wrong_is_found(tmp_path: Path) -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test, out=lambda _: None).failed == 1
