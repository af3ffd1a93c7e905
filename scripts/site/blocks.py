"""Run the commands and the Python of a page of Markdown, and put what they print below them.

    python scripts/site/blocks.py [--check] [PAGE ...]

All blocks of a page run in their order, in one folder of small files that ``files.py`` makes, and in this one process:

- A fence of the language ``console`` holds commands, each after ``$ ``, and below each what it prints. After
  ``console``, ``first=3`` and ``last=2`` limit what is shown to the first and last lines, with ``…`` between them;
  ``rows`` shows the rows of tables only, and ``hide=1`` nothing that the first command prints. ``trained`` says that
  the numbers are those of a network trained on little data.
- ``python`` is run, all of a page in one namespace; a fence of the language ``text`` below it holds what it prints.
- ``<!-- run: COMMAND -->`` runs, and shows nothing.
- ``sh`` holds commands that cannot be run here, because they install, start other machines or never end. Their verbs
  and options are checked to exist.

What depends on the clock of a machine is shown as ``…``. With ``--check`` nothing is written, and the exit code is 1
where a page does not show what is printed today. A training on little data ends elsewhere when another processor rounds
sums in another order: in a block marked ``trained`` numbers may differ by any amount, and some lines by their words.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from scripts.site.files import write_all  # noqa: E402

FENCE = re.compile(r"^```(\S*)(.*)\n((?:(?!```$).*\n)*?)```$", re.MULTILINE)
HIDDEN = re.compile(r"^<!-- run: (.*) -->$", re.MULTILINE)
PORT = "8000"
"""The port that pages speak of; what is started here listens on a free one."""
TIMED = [
    (re.compile(r"(?<=, )[\d,.]+ s(?=,|$)", re.MULTILINE), "… s"),
    (re.compile(r"(?<= at )[\d,]+(?=/s)"), "…"),
    (re.compile(r"(?<= at most )[\d,]+ s(?= left)|(?<= in )[\d,]+ s(?=, loss)"), "… s"),
]
NUMBER = re.compile(r"(?<![\w.])[-+±]?\d[\d,]*\.?\d*(?:e-?\d+)?")
RELATIVE, ABSOLUTE = 0.05, 0.06
"""Allowed differences of a number from the shown one: another processor adds in another order."""


@dataclass
class Page:
    """A page that is being run.

    Attributes:
        folder: where its commands run.
        scope: what its Python has defined.
        port: of what it serves.
        started: processes that it leaves running.
    """

    folder: Path
    scope: dict[str, Any] = field(default_factory=dict)
    port: str = PORT
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)


def run_page(text: str) -> str:
    """The page with what its blocks print today."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        write_all(folder)
        page = Page(folder)
        former = Path.cwd()
        modules = set(sys.modules)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        try:
            return "".join(_pieces(text, page))
        finally:
            os.chdir(former)
            sys.path.remove(str(folder))
            for module in set(sys.modules) - modules:
                if str(getattr(sys.modules[module], "__file__", "")).startswith(str(folder)):
                    del sys.modules[module]
            stop(page)


def stop(page: Page) -> None:
    """End what a page has started."""
    for process in page.started:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _pieces(text: str, page: Page) -> Iterator[str]:
    """The text, fence by fence."""
    position = 0
    printed = None
    steps = sorted([*FENCE.finditer(text), *HIDDEN.finditer(text)], key=lambda found: found.start())
    for found in steps:
        between = text[position : found.start()]
        output = found.re is FENCE and found[1] == "text" and not between.strip()
        if printed and not output:
            yield f"\n\n```text\n{printed}```"
        yield between
        position = found.end()
        if output and printed is not None:
            yield f"```text{found[2]}\n{printed}```" if printed else ""
            printed = None
            continue
        printed = None
        yield found[0] if found.re is HIDDEN or found[1] != "console" else ""
        if found.re is HIDDEN:
            run_command(found[1], page)
        elif found[1] == "console":
            yield f"```console{found[2]}\n{_console(found[3], found[2], page)}```"
        elif found[1] == "python":
            printed = _python(found[3], page)
    if printed:
        yield f"\n\n```text\n{printed}```"
    yield text[position:]


def _console(body: str, options: str, page: Page) -> str:
    """Each command of a block with what it prints."""
    limits = dict(re.findall(r"(first|last|hide)=(\d+)", options))
    lines = []
    for number, command in enumerate(commands(body), 1):
        lines += [f"$ {command}".replace("\n", "\n> ")]
        printed = masked(run_command(command, page)).splitlines()
        if " rows" in options:
            printed = [line for line in printed if line.startswith(("┃", "│"))]
        if number <= int(limits.get("hide", 0)):
            continue
        last = int(limits.get("last", 0))
        first = int(limits.get("first", 0 if last else len(printed)))
        if first + last < len(printed):
            printed = [*printed[:first], "…", *printed[len(printed) - last :]]
        lines += printed
    return "".join(f"{line}\n" for line in lines)


def commands(body: str) -> list[str]:
    """The commands of a block, without prompts; one may go on over several lines."""
    results: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            results.append(line[2:])
        elif line.startswith("> ") and results[-1].endswith("\\"):
            results[-1] += f"\n{line[2:]}"
    return results


def run_command(command: str, page: Page) -> str:
    """Return what a command prints; ``ensue`` runs in this process, all else in a shell."""
    line = command.replace("\\\n", " ").replace(f":{PORT}", f":{page.port}")
    if line.endswith(" &"):
        return _start(line.removesuffix(" &"), page)
    stages = line.split(" | ")
    index = next((number for number, stage in enumerate(stages) if stage.startswith("ensue ")), None)
    if index is None:
        return _shell(line, "", page)
    stdin = _shell(" | ".join(stages[:index]), "", page) if index else ""
    words = shlex.split(stages[index])
    redirected = None
    if len(words) > 2 and words[-2] == ">":
        *words, _, redirected = words
    printed = _ensue(words[1:], stdin)
    if redirected:
        Path(redirected).write_text(printed, encoding="utf-8")
        return ""
    return _shell(" | ".join(stages[index + 1 :]), printed, page) if stages[index + 1 :] else printed


def _ensue(words: list[str], given: str) -> str:
    """Both streams of one command, as a person sees them."""
    from ensue import cli

    combined = io.StringIO()
    former = sys.argv, sys.stdin
    sys.argv = ["ensue", *words]
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8")
    try:
        with (
            contextlib.redirect_stdout(combined),
            contextlib.redirect_stderr(combined),
            contextlib.suppress(SystemExit),
        ):
            cli.main()
    finally:
        sys.argv, sys.stdin = former
    return combined.getvalue()


def _shell(line: str, given: str, page: Page) -> str:
    done = subprocess.run(
        ["bash", "-c", line], input=given, capture_output=True, text=True, cwd=page.folder, env=environment()
    )
    return (done.stdout + done.stderr).replace(f":{page.port}", f":{PORT}")


def _start(line: str, page: Page) -> str:
    """Start a service in the background and wait until it listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        page.port = str(free.getsockname()[1])
    ours = environment()
    words = shlex.split(line)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        ours[name] = value
    log = page.folder.with_name(f"{page.port}.log")
    with log.open("w", encoding="utf-8") as output:
        command = [sys.executable, "-m", *words, "--port", page.port]
        process = subprocess.Popen(command, cwd=page.folder, env=ours, stdout=output, stderr=output)
    page.started.append(process)
    for _ in range(1200):
        if '"listening"' in log.read_text(encoding="utf-8"):
            return ""
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"{line}: did not start: {log.read_text(encoding='utf-8')}")


def environment() -> dict[str, str]:
    """Return the environment of started processes: this Python and these sources, and a terminal of a known width."""
    variables = {"COLUMNS": "100", "LC_ALL": "C.UTF-8", "ROOT": str(ROOT)}
    for name, first in (("PYTHONPATH", ROOT / "src"), ("PATH", Path(sys.executable).parent)):
        variables[name] = os.pathsep.join([str(first), os.environ.get(name, "")])
    return {**os.environ, **variables}


def _python(code: str, page: Page) -> str:
    """Return what a block of Python prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace(f":{PORT}", f":{page.port}"), "<page>", "exec"), page.scope)
    return masked(printed.getvalue())


def masked(printed: str) -> str:
    """Return output with times replaced by an ellipsis, and without spaces at ends of lines."""
    for pattern, listed in TIMED:
        printed = pattern.sub(listed, printed)
    lines = []
    timed = False
    for line in printed.splitlines():
        if line.startswith("┏"):
            timed = False
        if "s / 1,000" in line:
            timed = True
        elif timed and line.startswith("│"):
            head, _, cell = line.rstrip("│").rpartition("│")
            line = f"{head}│ {'…':<{len(cell) - 1}}│"
        lines.append(f"{line.rstrip()}\n")
    return "".join(lines)


def differences(shown: str, printed: str, *, trained: bool = False) -> list[str]:
    """Lines that differ by more than a number's last digits, each as ``shown`` and as it is printed today.

    Args:
        shown: a page, or what a notebook shows.
        printed: the same of today.
        trained: whether all lines come of a network trained on little data; of a page, the marked blocks do.
    """
    start = shown.splitlines()
    now = printed.splitlines()
    if len(start) != len(now):
        return [f"{len(start)} lines are shown, {len(now)} are printed", *now]
    pairs = list(zip(start, now, strict=True))
    of_training = [trained] * len(pairs)
    for index, line in enumerate(start[:-1]):
        if line.startswith("```"):
            trained = line.endswith(" trained")
        of_training[index + 1] = trained
    other = [pair for pair, free in zip(pairs, of_training, strict=True) if not free and not _alike(*pair)]
    free = [pair for pair, free in zip(pairs, of_training, strict=True) if free]
    words = [pair for pair in free if _words(pair[0]) != _words(pair[1])]
    if len(words) > max(2, len(free) // 10):
        other += words
    return [f"shown:   {entry}\nprinted: {two}" for entry, two in other]


def _words(line: str) -> str:
    return re.sub(r"[━─]+|\s+", " ", NUMBER.sub("#", line))


def _alike(shown: str, printed: str) -> bool:
    if _words(shown) != _words(printed):
        return False
    numbers = [
        [float(result.replace(",", "").lstrip("±")) for result in NUMBER.findall(line)] for line in (shown, printed)
    ]
    return all(abs(entry - two) <= max(ABSOLUTE, RELATIVE * abs(entry)) for entry, two in zip(*numbers, strict=True))


def pages() -> list[Path]:
    """The README and every page of the site that is written by hand."""
    created = {ROOT / "docs" / name for name in ("generated", "_build")}
    return [
        ROOT / "README.md",
        *(path for path in sorted((ROOT / "docs").rglob("*.md")) if not created & {*path.parents}),
    ]


def main() -> None:
    """Run pages."""
    words = sys.argv[1:]
    selected = [Path(word).resolve() for word in words if word != "--check"] or pages()
    stale = False
    for path in selected:
        old = path.read_text(encoding="utf-8")
        new = run_page(old)
        for line in differences(old, new):
            print(f"{path.relative_to(ROOT)}: {line}")
            stale = True
        if "--check" not in words:
            path.write_text(new, encoding="utf-8")
    sys.exit(stale and "--check" in words)


if __name__ == "__main__":
    main()
