"""Build sdist and wheel, install the wheel in empty environments, and use it there as a stranger would.

``scripts/package [PYTHON ...]``; without names, that of ``.venv`` and the newest other one on the path that starts.
First the wheel alone, with no extra, so without torch: every module that needs no more is imported, a log is checked,
learned, scored and asked, and networks are refused with the command that installs torch.
Then with ``torch``, ``serve``, ``redis`` and ``client``: every module is imported, the commands of
``docs/first_answers.md`` run, the service is asked, and of the first Python the demonstration runs, page and all.
Everything lies outside the checkout and goes when it is over.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts.site.files import write_all  # noqa: E402
from scripts.site.first_answer import ways  # noqa: E402

CONSTRAINTS = ROOT / "constraints.txt"
SOURCES = ("src", "native", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", ".gitignore")
"""Contents of an sdist, besides its metadata."""
NEWER = ("python3.14", "python3.13", "python3.12")
EXTRAS = ("torch", "serve", "redis", "client")
NEED_SERVE = "ensue.serve."
"""Prefix of modules that may need the extra ``serve``; all others are imported without it."""
KERNELS = "ensue/kernels/libkernels.so.1"
"""Library that is compiled where a compiler is; the same wheel then serves every Python 3 of the platform."""
LIMIT = 600
"""Seconds that any one command may take."""
Said = subprocess.CompletedProcess[str]

WALK = """
import importlib, json, pkgutil, ensue
failed = {}
for found in pkgutil.walk_packages(ensue.__path__, "ensue."):
    try:
        importlib.import_module(found.name)
    except ImportError as error:
        failed[found.name] = error.name
for name in ensue.__all__:
    getattr(ensue, name)
print(json.dumps(failed))
"""
ASK = """
import sys
from ensue import History
from ensue.client import Client
(answer,) = Client(sys.argv[1]).predict("model", [History(("i3", "i4"))], 3)
print(len(answer.choices), answer.in_vocabulary)
"""

ASK_PAGE = """
import json, sys
from urllib.request import Request, urlopen
address, headers = sys.argv[1], {"content-type": "application/json"}
panels = json.loads(urlopen(f"{address}/v1/story").read())["panels"]
for name, (first, *_) in panels.items():
    body = json.dumps({"record": first["record"], "k": 3}).encode()
    urlopen(Request(f"{address}/v1/models/{name}/figure", body, headers)).read()
print(len(panels), len(urlopen(address).read()) > 1000)
"""


def main() -> None:
    """Run the script."""
    pythons = sys.argv[1:] or default_pythons()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        environments = [pool.submit(Environment, python, folder / str(at)) for at, python in enumerate(pythons)]
        build = Build(folder)
        checks = pool.submit(build.check)
        for number, environment in enumerate(future.result() for future in environments):
            began = time.monotonic()
            environment.use_core(build.wheel)
            environment.use_extras(build.wheel, pool, demo=not number)
            told(f"{environment.version}: the wheel works, alone and with {','.join(EXTRAS)}", began)
        checks.result()


def default_pythons() -> list[str]:
    """The interpreter of ``.venv``, and a newer one; a name may be a shim for a Python that is not there."""
    for name in NEWER:
        result = shutil.which(name)
        probe = [result or "", "-c", "import sys, venv; print(sys.version_info[:2] > tuple(map(int, sys.argv[1:])))"]
        if result is not None:
            ran = subprocess.run([*probe, *map(str, sys.version_info[:2])], capture_output=True, text=True, check=False)
            if ran.stdout.strip() == "True":
                return [sys.executable, result]
    told(f"no newer Python starts here ({', '.join(NEWER)}): left out")
    return [sys.executable]


class Build:
    """The wheel, made of the sdist, as a stranger makes it.

    Args:
        folder: for what is built.

    Attributes:
        wheel: its file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._began = time.monotonic()
        run([sys.executable, "-m", "venv", folder / "build"])
        self.python = folder / "build" / "bin" / "python"
        run([self.python, "-m", "pip", "install", "--quiet", "hatchling"])
        self._hatch(ROOT, "sdist", "sdist")
        (self.sdist,) = (folder / "sdist").iterdir()
        with tarfile.open(self.sdist) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        (self.sources,) = (folder / "unpacked").iterdir()
        # Later builds leave files among the sources.
        self.files = {path.relative_to(self.sources).as_posix() for path in self.sources.rglob("*") if path.is_file()}
        self.wheel = self._hatch(self.sources, "wheel", "dist")

    def _hatch(self, sources: Path, target: str, name: str) -> Path:
        """Build one file in a folder of that name."""
        run([self.python, "-m", "hatchling", "build", "-t", target, "-d", self.folder / name], sources)
        (path,) = (self.folder / name).iterdir()
        return path

    def check(self) -> None:
        """Compare: the sdist holds the sources and nothing else, and the checkout gives the same wheel."""
        tracked = set(run(["git", "ls-files", "--", *SOURCES], ROOT).stdout.splitlines())
        same(self.files - {"PKG-INFO"}, tracked, "files of the sdist and files that git knows")
        of_checkout = self._hatch(ROOT, "wheel", "checkout")
        same(contents(self.wheel), contents(of_checkout), "contents of the sdist's wheel and the checkout's")
        code = {f"ensue/{name.removeprefix('src/ensue/')}" for name in tracked if name.startswith("src/ensue/")}
        compiled = {KERNELS} if shutil.which("c++") or shutil.which("g++") else set()
        held_code = {name for name, _ in contents(self.wheel) if name.startswith("ensue/")}
        same(held_code, code | compiled, "code in the wheel and in src")
        self._check_bare(code)
        self._check_studies()
        told(f"{self.sdist.name} and {self.wheel.name} hold what they should, {len(self.files)} files", self._began)

    def _check_bare(self, code: set[str]) -> None:
        """Build where no compiler is on the path: the build says so and gives a wheel for any platform."""
        bare = {**environment(), "PATH": str(self.python.parent), "CXX": ""}
        words = [self.python, "-m", "hatchling", "build", "-t", "wheel", "-d", self.folder / "bare"]
        output = subprocess.run(
            words, cwd=self.sources, env=bare, text=True, timeout=LIMIT, check=False, capture_output=True
        )
        same(
            (output.returncode, "no C++ compiler" in output.stderr + output.stdout),
            (0, True),
            f"a build without ({output.stderr})",
        )
        (wheel,) = (self.folder / "bare").iterdir()
        same(wheel.name.endswith("-py3-none-any.whl"), True, f"a wheel for any platform ({wheel.name})")
        same(
            {name for name, _ in contents(wheel) if name.startswith("ensue/")},
            code,
            "code in the bare wheel and in src",
        )

    def _check_studies(self) -> None:
        """Build the wheel of the studies, which holds their sources and what the papers print."""
        wheel = self._hatch(ROOT / "studies", "wheel", "studies")
        tracked = run(["git", "ls-files", "--", "studies/src"], ROOT).stdout.splitlines()
        code = {name.removeprefix("studies/src/") for name in tracked}
        in_wheel = {name for name, _ in contents(wheel) if name.startswith("ensue_studies/")}
        same(in_wheel, code, "code in the wheel of the studies and in studies/src")


class Environment:
    """An empty environment outside the checkout.

    Args:
        python: the interpreter.
        place: a folder for it and for what is learned there.
    """

    def __init__(self, python: str, place: Path) -> None:
        run([python, "-m", "venv", place / "venv"])
        self.place = place
        self.bin = place / "venv" / "bin"
        self.version = self.run("python", "--version").stdout.strip()

    def run(self, name: str, *arguments: str | Path, code: int = 0, stdin: str = "") -> Said:
        """Run a command of the environment and return its output."""
        return run([self.bin / name, *arguments], self.place, code=code, stdin=stdin)

    def install(self, requirement: str) -> None:
        """Install the wheel, whose modules are compiled as they are imported; everything it needs fits together."""
        pip = ("python", "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", CONSTRAINTS)
        self.run(*pip, requirement)
        self.run("python", "-m", "pip", "check")

    def use_core(self, wheel: Path) -> None:
        """The wheel alone: imports, ``check``, ``fit``, ``evaluate``, ``predict``; what is missing is named."""
        self.install(str(wheel))
        failed = json.loads(self.run("python", "-c", WALK).stdout)
        of_extras = {name for name, missing in failed.items() if missing == "torch" or name.startswith(NEED_SERVE)}
        same(
            set(failed),
            of_extras,
            f"modules that fail without an extra ({failed}) and those of networks and the service",
        )
        with ZipFile(wheel) as archive:
            compiled = KERNELS in archive.namelist()
        level = self.run("python", "-c", "import ensue.kernels; print(ensue.kernels.level())").stdout.strip()
        same(level != "off", compiled, f"kernels in use ({level}) and in the wheel")
        write_log(self.place / "log.csv")
        self.run("ensue", "check", "log.csv")
        self.run("ensue", "fit", "next", "log.csv", "--model", "markov", "-o", "model")
        self.run("ensue", "evaluate", "model", "log.csv")
        result = self.run("ensue", "predict", "model", "-", "-k", "3", "--json", stdin='{"values": ["i3", "i4"]}')
        same(len(json.loads(result.stdout)["choices"]), 3, "choices")
        output = self.run("ensue", "reproduce", "hidan", "--data", ".", code=2).stderr
        same("pip install ensue-studies" in output, True, f"the package that {output!r} should name")
        output = self.run("ensue", "fit", "next", "log.csv", "--model", "sansr", "-o", "network", code=2).stderr
        same('pip install "ensue[torch]"' in output, True, f"the extra that {output!r} should name")
        output = self.run("ensue", "fit", "next", "log.csv", "-o", "best").stderr
        same("warning: PyTorch is not installed" in output, True, f"the warning that {output!r} should hold")
        output = self.run("ensue", "serve", "model", code=2).stderr
        same("pip install 'ensue[serve]'" in output, True, f"the extra that {output!r} should name")

    def use_ways(self, pool: Executor) -> None:
        """Every way of the page of first answers, as it stands there, in a folder of small files, two side by side."""
        for _ in pool.map(self._use_way, range(len(ways())), ways().values()):
            pass

    def _use_way(self, number: int, lines: list[str]) -> None:
        folder = self.place / f"way-{number}"
        write_all(folder)
        for line in lines:
            run(["bash", "-c", f'PATH="{self.bin}:$PATH"; {line}'], folder)

    def use_extras(self, wheel: Path, pool: Executor, *, demo: bool) -> None:
        """The wheel with extras: imports, the service and its client, and beside them the demonstration."""
        self.install(f"{wheel}[{','.join(EXTRAS)}]")
        demonstrations = [pool.submit(self.run, "ensue", "demo", "--no-serve", "--output", "demo")] if demo else []
        same(json.loads(self.run("python", "-c", WALK).stdout), {}, "modules that fail with all extras")
        self.use_ways(pool)
        result = self._served(ASK, "model")
        same(result.split(), ["3", "2"], "choices and known ids, over HTTP")
        for demonstration in demonstrations:
            demonstration.result()
            models = sorted((self.place / "demo" / "models").iterdir())
            result = self._served(ASK_PAGE, *models, "--scenario", self.place / "demo" / "story.json")
            same(result.split(), [str(len(models)), "True"], "panels of the demonstration that answer, and its page")

    def _served(self, code: str, *arguments: str | Path) -> str:
        """Return what a program prints that gets the address of a service, which is ended afterwards."""
        command = [self.bin / "ensue", "serve", *arguments, "--port", "0"]
        with subprocess.Popen(command, cwd=self.place, stderr=subprocess.PIPE, env=environment(), text=True) as service:
            try:
                assert service.stderr is not None
                address = json.loads(service.stderr.readline())["address"]
                printed = self.run("python", "-c", code, address).stdout
                service.terminate()
                same(service.wait(LIMIT), 0, "exit code of the service")
            finally:
                service.kill()
        return printed


def write_log(path: Path) -> None:
    """Four hundred sessions that walk along thirty items."""
    draw = random.Random(1)
    rows = ["session,item,time"]
    for session in range(400):
        start = draw.randrange(30)
        for step in range(draw.randrange(2, 8)):
            item = (start + step * draw.choice((1, 1, 2))) % 30
            rows.append(f"s{session},i{item},{1_700_000_000 + session * 600 + step * 20}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def contents(wheel: Path) -> set[tuple[str, int]]:
    """Names and checksums of a wheel's files."""
    with ZipFile(wheel) as archive:
        return {(entry.filename, entry.CRC) for entry in archive.infolist()}


def environment() -> dict[str, str]:
    """Nothing of the checkout's Python, and a thread a process, as in the tests."""
    foreign = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "ENSUE_TOKEN")
    return {key: value for key, value in os.environ.items() if key not in foreign} | {"OMP_NUM_THREADS": "1"}


def run(words: list[str | Path], cwd: Path | None = None, *, code: int = 0, stdin: str = "") -> Said:
    """Run a command and return what it printed; end the script at another exit code, or a warning for the user."""
    arguments = [str(word) for word in words]
    completed = subprocess.run(
        arguments, cwd=cwd, env=environment(), input=stdin, text=True, timeout=LIMIT, check=False, capture_output=True
    )
    if completed.returncode != code or "Warning: " in completed.stderr:
        command = " ".join(word if len(word) < 80 else "…" for word in arguments)
        output = completed.stdout + completed.stderr
        sys.exit(f"scripts/package: {command} ended with {completed.returncode}, not {code}\n{output}")
    return completed


def same(found: object, expected: object, what: str) -> None:
    """Two things that must be equal."""
    if found != expected:
        if isinstance(found, set) and isinstance(expected, set):
            found, expected = sorted(found - expected), sorted(expected - found)
        sys.exit(f"scripts/package: {what} differ: {found} against {expected}")


def told(line: str, began: float | None = None) -> None:
    """One line of progress."""
    print(f"scripts/package: {line}{'' if began is None else f' ({time.monotonic() - began:.0f} s)'}", flush=True)


if __name__ == "__main__":
    main()
