"""Pages that are no guide are run, and what cannot be run here is checked for what can be known of it."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from ensue.cli import make_app
from ensue.serve.monitoring import Metrics
from scripts.site.blocks import FENCE, ROOT, commands, differences, masked, pages, run_page
from tests.docs.pages import check_page

RUN = {"console", "python"}
"""Languages of blocks that are run."""
CHECKED = {"sh", "yaml", "ini", "nginx", "toml"}
"""Languages of blocks that are checked below."""
SHOWN = {"text", "py", "{toctree}", "{include}", "{image}", "{literalinclude}", "{eval-rst}"}
MISTAKE = re.compile(r"^ensue: |No such file or directory|Traceback|command not found")
VERBS: Any = get_command(make_app())


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, body) of every block of a language."""
    return [
        (path.relative_to(ROOT).as_posix(), body)
        for path in pages()
        for kind, _, body in FENCE.findall(path.read_text(encoding="utf-8"))
        if kind == language
    ]


OTHERS = sorted(
    page
    for page in {page for language in RUN for page, _ in blocks(language)}
    if not (Path(__file__).parent / f"test_{Path(page).stem}.py").is_file()
)
"""Pages that have no test file of their own."""


@pytest.mark.parametrize("page", OTHERS)
def test_a_page_shows_what_is_printed(page: str) -> None:
    check_page(page)


def test_no_block_is_left_out() -> None:
    kinds = {kind for path in pages() for kind, *_ in FENCE.findall(path.read_text(encoding="utf-8"))}
    assert kinds <= RUN | CHECKED | SHOWN


def test_every_line_of_console_is_run() -> None:
    """What looks like a command stands behind a prompt, or it would not be run."""
    for page, body in blocks("console"):
        assert body.startswith("$ "), page
        assert not [line for line in body.splitlines() if line.startswith("ensue ")], page
        assert commands(body), page


def test_a_mistake_is_shown_only_where_a_page_means_to() -> None:
    wrong = [(page, line) for page, body in blocks("console") for line in body.splitlines() if MISTAKE.search(line)]
    assert {page for page, _ in wrong} == {
        "docs/formats.md",
        "docs/guides/predict_shares.md",
        "docs/guides/rules.md",
        "docs/operate/export.md",
        "docs/troubleshooting.md",
    }, wrong


@pytest.mark.parametrize(("page", "body"), blocks("sh"))
def test_commands_that_are_not_run_exist(page: str, body: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    known = 0
    for line in body.splitlines():
        for verb, rest in re.findall(r"(?:^|[ /])ensue ([a-z]+)((?: [^|&;]*)?)", line.split(" #")[0]):
            if verb in VERBS.commands:
                options = {option for one in VERBS.commands[verb].params for option in [*one.opts, *one.secondary_opts]}
                assert {word.split("=")[0] for word in rest.split() if re.match(r"--?[a-z]", word)} <= options, line
                known += 1
        for extra in re.findall(r"ensue\[(\w+)\]", line):
            assert extra in extras, line
        for script in re.findall(r"(?:^|python )((?:scripts|benchmarks)/\S+)", line):
            assert (ROOT / script).is_file(), line
        for named in re.findall(r"docker compose -f (\S+)", line):
            assert (ROOT / named).is_file(), line
            known += 1
        for verb in re.findall(r":8000/v1/models/\w+/(\w+)", line):
            assert verb in ("predict", "explain", "figure", "similar", "update", "lists"), line
            known += 1
        known += bool(re.match(r"(pip install|scripts/|python (?:scripts|benchmarks)/|docker build|#|$)", line))
    assert known, f"{page}: nothing of this block is checked"


def test_every_alert_speaks_of_a_metric_that_there_is() -> None:
    (text,) = (body for page, body in blocks("yaml") if page == "docs/operate/monitoring.md")
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    assert len(rules) == 5
    families = set(re.findall(r"^# TYPE (\S+) ", Metrics().text().decode(), re.MULTILINE))
    named = set(re.findall(r"\bensue_\w+", " ".join(rule["expr"] for rule in rules)))
    assert named
    for name in named:
        assert {name, re.sub(r"_bucket$", "", name)} & families, name


def test_the_unit_starts_a_service_that_there_is(tmp_path: Path) -> None:
    (text,) = (body for page, body in blocks("ini") if page == "docs/operate/deploy.md")
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    words = unit["Service"]["ExecStart"].split()
    assert words[1] == "serve"
    options = {option for one in VERBS.commands["serve"].params for option in one.opts}
    assert {word for word in words if word.startswith("--")} <= options
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("there is no systemd-analyze on this machine")
    path = tmp_path / "ensue.service"
    path.write_text(text.replace("/opt/ensue/bin/ensue", sys.executable).replace("User=ensue\n", ""))
    ran = subprocess.run([verify, "verify", str(path)], capture_output=True, text=True, check=False)
    assert not [line for line in ran.stderr.splitlines() if "ensue.service" in line], ran.stderr


def test_the_proxy_is_well_formed(tmp_path: Path) -> None:
    (text,) = (body for page, body in blocks("nginx") if page == "docs/operate/deploy.md")
    assert text.count("{") == text.count("}")
    for line in (line.strip() for line in text.splitlines() if line.strip()):
        assert line.endswith((";", "{", "}")), line
    nginx = shutil.which("nginx")
    if nginx is None:
        pytest.skip("there is no nginx on this machine")
    plain = re.sub(r" *(ssl_certificate\w* .*|listen .*);\n", "", text)
    (tmp_path / "nginx.conf").write_text(f"events {{}}\nhttp {{\n{plain}}}\n")
    done = subprocess.run([nginx, "-t", "-p", str(tmp_path), "-c", "nginx.conf"], capture_output=True, text=True)
    assert "syntax is ok" in done.stderr


def test_what_a_page_would_get_wrong_is_found() -> None:
    """The runner itself: another number, a missing line and another word are seen; the clock is not."""
    page = "```console\n$ printf 'a 1.00\\nb, 3 s, c\\n'\na 1.00\nb, … s, c\n```\n"
    assert differences(page, run_page(page)) == []
    for wrong in (
        page.replace("a 1.00\nb", "a 1.50\nb"),
        page.replace("a 1.00\nb", "b"),
        page.replace("\na 1", "\nc 1"),
    ):
        assert differences(wrong, run_page(wrong))
    python = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    assert run_page(python).endswith("```text\n2\n```\n")
    assert (
        masked("saved, 12 s\n┏━┓\n┃ s / 1,000 ┃\n│ 0.51      │\n") == "saved, … s\n┏━┓\n┃ s / 1,000 ┃\n│ …         │\n"
    )


def test_a_training_may_end_elsewhere_on_another_processor() -> None:
    lines = [f"item{index} {index}.5" for index in range(30)]
    page = "```console trained\n$ train\n" + "\n".join(lines) + "\n```\n\nText 1.\n"
    other = page.replace(".5", ".9").replace("item3 ", "item4 ")
    assert differences(page, other) == []
    assert differences(page.replace(" trained", ""), other.replace(" trained", ""))
    assert differences(page, page.replace("item", "user")), "more than a few lines have other words"
    assert differences(page, page.replace("Text 1", "Text 2")), "outside the block nothing may differ"
