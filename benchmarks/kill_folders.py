"""What else must lose and double nothing; run by ``kill.py``.

Trainings that are killed or asked to end; updates that are killed, alone and in the service; a full disk while a stream
learns; an update against the service's own; a clock that is set back. A case returns a row: what was done, and how
often something was ``wrong`` (0, or the folder is not what it must be).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from kill import fit, forked, made_up, run, state

from ensue.data.histories import Histories
from ensue.errors import EnsueError
from ensue.predictor import load
from ensue.records import History
from ensue.refresh import refresh
from ensue.serve.monitoring import ServiceLog
from ensue.serve.server import run as serve_folders
from ensue.serve.settings import ServeSettings
from ensue.store import versions

NEW = 60
"""Histories an update."""
YEAR = 365 * 86400.0
FAILED = 3
"""How a child leaves after an error of the library's own."""
BUSY = "another ensue learns into it"


def records(seed: int = 5) -> list[History]:
    """What is new."""
    draw = random.Random(seed)
    return [History(tuple(f"v{draw.randrange(40)}" for _ in range(4)), (0.0, 1.0, 2.0, 3.0)) for _ in range(NEW)]


def learn(folder: Path) -> None:
    """Update a folder, as the verb does."""
    refresh(folder, Histories.of(records()), max_drop=0.99, keep=100)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def ended(child: int) -> int:
    """The exit status of a forked child."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def left(folder: Path) -> list[str]:
    """Half-written folders, and locks, beside a folder."""
    return [path.name for path in folder.parent.glob(f".{folder.name}.*")]


def made(place: Path) -> Path:
    """A small model, alone in its parent."""
    folder = place / "models" / "m"
    assert ended(forked(lambda: fit(folder))) == 0
    return folder


def copied(folder: Path, name: str) -> Path:
    directory = folder.parent.with_name(name)
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(folder, directory / "m")
    return directory / "m"


def histories(folder: Path) -> dict[int, int]:
    """How many histories each version, kept or standing, has learned."""
    results = {versions.current(folder): folder}
    results |= {number: folder.with_name(f"{folder.name}.versions") / str(number) for number in versions.kept(folder)}
    return {number: load(location).metadata.sequences for number, location in results.items()}


def wrong_history(folder: Path, accepted: int, base: int) -> bool:
    """Whether a version, kept or standing, has not learned just what its number says."""
    return histories(folder) != {number: base + NEW * (number - 1) for number in range(1, accepted + 2)}


def update(kills: int, place: Path, draw: random.Random) -> dict[str, Any]:
    """Kill an update at a random moment; the folder is the old one or the new one, and so is what is kept."""
    model = made(place)
    whole = copied(model, "whole")
    start_time = time.perf_counter()
    assert ended(forked(lambda: learn(whole))) == 0
    lasts = time.perf_counter() - start_time
    before = contents(model)
    after = contents(whole)
    hit = halves = wrong = updated = 0
    folder = copied(model, "killed")
    while hit < kills:
        child = forked(partial(learn, folder))
        if hit % 2:
            wait_for_writing(folder, child)
            time.sleep(0.005 * draw.random())
        else:
            time.sleep(1.05 * lasts * draw.random())
        os.kill(child, signal.SIGKILL)
        hit += ended(child) == -signal.SIGKILL
        halves += any(name.endswith(".tmp") for name in left(folder))
        result = contents(folder)
        kept = versions.kept(folder)
        wrong += result not in (before, after) or (result == after and kept != [1])
        wrong += any(contents(folder.with_name("m.versions") / str(number)) != before for number in kept)
        load(folder)
        if result == after:
            updated += 1
            folder = copied(model, "killed")
    assert ended(forked(lambda: learn(folder))) == 0
    wrong += contents(folder) != after or left(folder) != []
    return {"case": "update", "kills": hit, "kills_within_a_write": halves, "took_place": updated, "wrong": wrong}


SMALL = ("--model=sansr", "--set=dim=8", "--set=epochs=6", "--set=negatives=16", "--device=cpu")
ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def fit_killed(kills: int, place: Path, draw: random.Random) -> dict[str, Any]:
    """Kill ``ensue fit --replace`` at a random moment, and ask it to end as often; then let the next one resume.

    The old model stands and answers until the new one does; the next run removes what was left, and ends with the bytes
    of a run that nobody touched. What is asked to end says so in a line and leaves a checkpoint at most.
    """
    data = place / "log.jsonl"
    temporary = place / "tmp"
    data.write_text("".join(f"{record.to_json()}\n" for record in records()))
    temporary.mkdir()
    model = made(place)
    wrong = list[str]()
    before = contents(model)

    def begin(folder: Path, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ensue", "fit", "next", str(data), f"-o{folder}", "--replace", *SMALL, *more]
        environment = {**os.environ, "TMPDIR": str(temporary)}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    whole = copied(model, "whole")
    start_time = time.perf_counter()
    begin(whole).communicate()
    lasts = time.perf_counter() - start_time
    after = contents(whole)
    hit = dict.fromkeys((signal.SIGKILL, *ASKED), 0)
    halves = 0
    took_place = 0
    resumed = 0
    folder = copied(model, "killed")
    while sum(hit.values()) < 2 * kills:
        number = signal.SIGKILL if hit[signal.SIGKILL] * 2 <= sum(hit.values()) else draw.choice(ASKED)
        earlier = left(folder)  # of a run that was killed, before the next one removes it
        child = begin(folder, *(["--resume"] if resumed else []))
        if draw.random() < 0.3:
            wait_for_writing(folder, child.pid)
            time.sleep(0.005 * draw.random())
        else:
            time.sleep(lasts * (0.2 + 0.8 * draw.random()))
        child.send_signal(number)
        output = child.communicate()[1]
        if child.returncode == 0:  # it had ended, or was about to
            wrong += ["ended otherwise than whole"] * (contents(folder) != after)
            folder = copied(model, "killed")
            resumed = 0
            continue
        hit[number] += 1
        names = [name for name in left(folder) if name not in earlier]
        halves += any(name.endswith(".tmp") for name in names)
        if number in ASKED and child.returncode != -number:  # else it had hardly begun
            last = output.splitlines()[-1:]
            wrong += [f"{number}: {child.returncode}, {last}"] * (child.returncode != 128 + number)
            wrong += [f"{number}: said {last}"] * ("Traceback" in output or "stopped" not in "".join(last))
            wrong += [f"{number}: left {name}" for name in names if not name.startswith(".m.checkpoint")]
            wrong += [f"{number}: left {name}" for name in names if name.endswith(".tmp")]
            wrong += [f"{number}: left {path}" for path in temporary.iterdir()]
        result = contents(folder)
        wrong += ["half a folder"] * (result not in (before, after))
        load(folder).predict(records()[:1])
        took_place += result == after
        resumed += 1
        if result == after or resumed == 3:
            if result == before:
                output = begin(folder, "--resume").communicate()[1]
                wrong += [f"resumed otherwise: {output[-200:]}"] * (contents(folder) != after)
                wrong += [f"left {name}" for name in left(folder)]
                wrong += [f"left {path}" for path in temporary.iterdir()]
            folder = copied(model, "killed")
            resumed = 0
    row = {"case": "fit", "kills": hit[signal.SIGKILL], "signals": sum(hit[number] for number in ASKED)}
    row |= {"kills_within_a_write": halves, "took_place": took_place, "wrong": len(wrong)}
    return row | ({"what": wrong} if wrong else {})


def wait_for_writing(folder: Path, child: int) -> None:
    """Return when the child writes the folder, or has ended."""
    old = left(folder)
    while not any(name.endswith(".tmp") for name in left(folder) if name not in old):
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.0002)


TOKEN = "benchmark"
"""The token of updates: one that may lose more accuracy than usual needs it."""


@contextmanager
def served(folder: Path) -> Iterator[tuple[int, int]]:
    """A service of the folder: its process, and its port."""
    hear, say = os.pipe()

    def task() -> None:
        os.close(hear)
        with os.fdopen(say, "w") as lines:
            serve_folders(
                {"m": folder}, port=0, update_token=TOKEN, settings=ServeSettings(keep=100), log=ServiceLog(lines)
            )

    process = forked(task)
    os.close(say)
    with os.fdopen(hear) as lines:
        line = next(line for line in lines if '"listening"' in line)
        threading.Thread(target=lines.read, daemon=True).start()
        try:
            yield process, int(json.loads(line)["address"].rpartition(":")[2])
        finally:
            os.kill(process, signal.SIGKILL)
            ended(process)


def post(port: int, key: str = "") -> tuple[int, str]:
    """Status (0: no answer) and body of an update over HTTP."""
    body = json.dumps({"records": [json.loads(record.to_json()) for record in records()], "max_drop": 0.99})
    headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    if key:
        headers["idempotency-key"] = key
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("POST", "/v1/models/m/update", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, HTTPException):
        return 0, ""
    finally:
        connection.close()


def children(process: int) -> list[int]:
    with suppress(OSError):
        tasks = Path(f"/proc/{process}/task").iterdir()  # a thread has started the learning process
        return [int(text) for task in tasks for text in (task / "children").read_text().split()]
    return []


def serve(kills: int, place: Path, draw: random.Random) -> dict[str, Any]:
    """Kill the service while it updates, every other time its learning process too; the client sends it once more.

    Each update has a key of its own and ends up learned exactly once, however often it was sent.
    """
    folder = made(place)
    base = load(folder).metadata.sequences
    accepted = 0
    unanswered = 0
    wrong: list[str] = []

    def require(true: bool, said: object) -> None:
        if not true:
            wrong.append(str(said))

    with served(folder) as (_, port):
        start_time = time.perf_counter()
        answer = post(port)
        assert answer[0] == 200, answer
        lasts = time.perf_counter() - start_time
        accepted = 1
    for number in range(kills):
        with served(folder) as (process, port):
            if number:
                said = post(port, f"update {number - 1}")
                require(said[0] == 200, said)
                accepted += 1
            require(not wrong_history(folder, accepted, base), f"history before kill {number}")
            answers: list[tuple[int, str]] = []
            client = threading.Thread(target=lambda port=port, to=answers: to.append(post(port, f"update {number}")))  # type: ignore[misc]  # noqa: B023
            client.start()
            time.sleep(1.05 * lasts * draw.random())
            learning = children(process)
            os.kill(process, signal.SIGKILL)
            for child in learning:
                with suppress(ProcessLookupError):
                    if number % 2:
                        os.kill(child, signal.SIGKILL)
                while Path(f"/proc/{child}").exists():  # it sees by itself that nobody waits any more
                    time.sleep(0.01)
            client.join()
        stands = versions.current(folder) - 1
        require(stands in (accepted, accepted + 1), f"{stands} updates stand after {accepted} and kill {number}")
        require(answers[0][0] != 200 or stands > accepted, f"kill {number}: answered, and does not stand")
        unanswered += stands > accepted and answers[0][0] != 200
    with served(folder) as (_, port):
        said = post(port, f"update {kills - 1}")
        require(said[0] == 200, said)
    require(not wrong_history(folder, accepted + 1, base), f"history at the end: {histories(folder)}")
    require(not (rest := left(folder)), f"left at the end: {rest}")
    row = {"case": "serve", "kills": kills, "took_place": accepted, "took_place_unanswered": unanswered}
    return {**row, "wrong": len(wrong), **({"what": wrong} if wrong else {})}


def both(kills: int, place: Path, draw: random.Random) -> dict[str, Any]:
    """``ensue update`` and ``/update`` at once: each takes place once, or is refused in a line."""
    folder = made(place)
    new = place / "new.jsonl"
    new.write_text("".join(f"{record.to_json()}\n" for record in records()))
    base = load(folder).metadata.sequences
    accepted = 0
    refused = 0
    wrong = 0
    rounds = max(2, kills // 5)
    command = [sys.executable, "-m", "ensue", "update", str(folder), str(new), "--max-drop=0.99", "--keep-versions=100"]
    with served(folder) as (_, port):
        for _ in range(rounds):
            verb = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(draw.random() / 2)
            status, body = post(port)
            output = verb.communicate()[1]
            accepted += (verb.returncode == 0) + (status == 200)
            refused += (verb.returncode == 2) + (status == 409)
            wrong += verb.returncode not in (0, 2) or status not in (200, 409) or "Traceback" in output
            wrong += (verb.returncode == 2 and BUSY not in output) or (status == 409 and BUSY not in body)
    wrong += wrong_history(folder, accepted, base) or left(folder) != []
    return {"case": "both", "rounds": rounds, "took_place": accepted, "refused": refused, "wrong": wrong}


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system in memory that holds so many bytes; it needs root."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def told(task: Callable[[], None]) -> Callable[[], None]:
    """The same task; an error of the library's own leaves with a status of its own."""

    def tried() -> None:
        try:
            task()
        except EnsueError as error:
            os._exit(FAILED if "\n" not in str(error) else 1)

    return tried


def disk(kills: int, place: Path, draw: random.Random) -> dict[str, Any]:
    """A stream meets a full disk, says so in a line, and once there is room goes on as if nothing had happened."""
    model = made(place)
    log = place / "clicks.jsonl"
    log.write_text("".join(f"{line}\n" for line in made_up(600, seed=1)))
    whole = copied(model, "whole")
    assert ended(forked(lambda: run(whole, str(log)))) == 0
    expected = state(whole)
    own = sum(map(len, contents(whole).values()))
    full = 0
    wrong = 0
    with small_disk(place / "disk", 2**20 + 8 * own) as mounted:
        for number in range(kills):
            folder = Path(shutil.copytree(model, mounted / str(number) / "m"))
            free = int(os.statvfs(mounted).f_bavail * os.statvfs(mounted).f_frsize)
            filler = mounted / "filler"
            filler.write_bytes(bytes(free - draw.randrange(2 * own)))
            code = ended(forked(told(lambda: run(folder, str(log)))))  # noqa: B023 - forked at once
            full += code == FAILED
            wrong += code not in (0, FAILED)
            load(folder)
            filler.unlink()
            wrong += ended(forked(lambda: run(folder, str(log)))) != 0 or state(folder) != expected  # noqa: B023
            wrong += any(name.endswith(".tmp") for name in left(folder))
            shutil.rmtree(folder.parent)
    return {"case": "disk", "runs": kills, "met_a_full_disk": full, "wrong": wrong}


def set_back(seconds: float) -> None:
    """Let this process believe that it is earlier."""
    now = time.time
    time.time = lambda: now() - seconds


def clock(kills: int, place: Path, draw: random.Random) -> dict[str, Any]:
    """The clock goes back a year between two halves of a stream, and before an update; files are of the future then."""
    model = made(place)
    log = place / "clicks.jsonl"
    log.write_text("".join(f"{line}\n" for line in made_up(600, seed=1)))
    whole = copied(model, "whole")
    wrong = 0
    rounds = max(1, kills // 5)
    assert ended(forked(lambda: run(whole, str(log)))) == 0
    expected = state(whole)
    learned = copied(model, "learned")
    assert ended(forked(lambda: learn(learned))) == 0

    def later(task: Callable[[], None]) -> Callable[[], None]:
        def tried() -> None:
            set_back(YEAR)
            task()

        return tried

    for _ in range(rounds):
        folder = copied(model, "back")
        until = draw.randrange(1, 600)
        wrong += ended(forked(lambda until=until, folder=folder: run(folder, str(log), until=until))) != 0  # type: ignore[misc]
        wrong += ended(forked(later(lambda folder=folder: run(folder, str(log))))) != 0 or state(folder) != expected  # type: ignore[misc]
        folder = copied(model, "back")
        (folder.parent / ".m.killed00.tmp").mkdir()
        (folder.parent / ".m.lock").touch()
        for path in (*folder.iterdir(), folder, *folder.parent.iterdir()):
            os.utime(path, (time.time() + YEAR,) * 2)
        wrong += ended(forked(later(lambda folder=folder: learn(folder)))) != 0  # type: ignore[misc]
        wrong += contents(folder) != contents(learned) or left(folder) != []
    return {"case": "clock", "rounds": rounds, "wrong": wrong}


CASES: dict[str, Callable[[int, Path, random.Random], dict[str, Any]]] = {
    "fit": fit_killed,
    "update": update,
    "serve": serve,
    "both": both,
    "disk": disk,
    "clock": clock,
}
