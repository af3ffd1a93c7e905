"""``ensue stream``: what it prints, where it stops, and what it leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from ensue.predictor import load
from ensue.store.swap import only_writer
from tests.cli.conftest import Ensue
from tests.processes import Started


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "m"))


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """Six hours of events, and one line that is none."""
    path = tmp_path / "clicks.jsonl"
    events = [{"session": f"s{at // 4}", "item": f"u{at % 5}", "time": 1_700_000_000 + 60 * at} for at in range(360)]
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events) + "no event\n")
    return path


def test_hours_as_json_and_a_summary(ensue: Ensue, folder: Path, clicks: Path, tmp_path: Path) -> None:
    ran = ensue("stream", folder, clicks, "--no-follow", "--json", "--plot", tmp_path / "page.html")
    assert ran.code == 0, ran.err
    *hours, last = (json.loads(line) for line in ran.out.splitlines())
    assert [hour["begins"] % 3600 for hour in hours] == [0] * 6
    assert hours == last["hours"][:6]
    assert (last["events"], last["rejected"], last["behind"]) == (360, 1, {"amount": 0, "unit": "bytes"})
    assert set(last["figures"]) == {"model", "popular 15 min", "popular 1 h", "popular 6 h", "followers"}
    assert ran.lines[0] == f"{clicks}: session=session, item=item, time=time; times in seconds"
    reason = "not JSON (Expecting value: line 1 column 1 (char 0))"
    place = f"clicks.jsonl: byte {clicks.stat().st_size - 9}"
    assert ran.lines[1] == (f"warning: {clicks}: 1 event rejected, the first at {place}: {reason}; see m.rejects.jsonl")
    assert last["rejects"] == {"file": "m.rejects.jsonl", "first": [{"place": place, "reason": reason}]}
    assert "360 events at" in ran.lines[-1]
    assert "1 rejected" in ran.lines[-1]
    page = (tmp_path / "page.html").read_text()
    assert "HR@20 by hour" in page
    assert (tmp_path / "m.rejects.jsonl").exists()
    again = ensue("stream", folder, clicks, "--no-follow", "--json")
    (same,) = (json.loads(line) for line in again.out.splitlines())  # every hour was told before
    assert same["figures"] == last["figures"]


def test_one_on_standby_takes_over(ensue: Ensue, folder: Path, clicks: Path) -> None:
    with only_writer(folder):
        refused = ensue("stream", folder, clicks, "--no-follow")
        assert refused.code == 2 and "another process updates it" in refused.err
        waiting = Started("stream", folder, clicks, "--no-follow", "--json", "--standby")
        assert waiting.stderr.readline() == f"{folder}: another process trains this model; on standby\n"
        assert waiting.poll() is None
    out, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["events"] == 360


def test_a_table_for_people(ensue: Ensue, folder: Path, clicks: Path) -> None:
    ran = ensue("stream", folder, clicks, "--no-follow", "--max-events", "300")
    rows = ran.out.splitlines()
    assert " ".join(rows[0].split()).startswith("2023-11-14 22:00 47 events 35 targets model 0.")
    assert rows[-1].startswith("all hours, followers: HR@20 ")
    assert json.loads((folder / "stream.json").read_text())["counts"]["events"] == 300


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["none.jsonl"], "none.jsonl: no such file or folder; give a JSON Lines file or a folder of them"),
        (
            ["clicks.jsonl", "--time-unit", "min"],
            "--time-unit 'min' is not known; choose from s, ms, us, ns, h, days, iso",
        ),
        (
            ["clicks.jsonl", "--session-gap", "0"],
            "gap must be above 0, commit_interval 0 or more, batch and step at least 1, replay in [0, 1)",
        ),
        (["redis://127.0.0.1:1/0"], "no stream is named"),
        (["sqlite:none.db"], "none.db: no such queue"),
    ],
)
def test_mistakes_are_one_line(
    ensue: Ensue, folder: Path, clicks: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: str
) -> None:
    monkeypatch.chdir(clicks.parent)
    ran = ensue("stream", folder, *options, "--no-follow")
    assert ran.code == 2
    assert len(ran.lines) == 1
    assert told in ran.err


def test_a_source_without_one_event_is_refused(ensue: Ensue, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"session": "s1", "item": "a", "time": "noon"}\n{"session": "s1"}\n')
    ran = ensue("stream", folder, path, "--no-follow")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"ensue: {path}: 2 events rejected, the first at bad.jsonl: byte 0: time 'noon' is not a number or an ISO "
        "date; see m.rejects.jsonl; not one event was left\n"
    )
    assert len((tmp_path / "m.rejects.jsonl").read_text().splitlines()) == 2


def test_events_with_impossible_times_are_rejected(ensue: Ensue, folder: Path, clicks: Path, tmp_path: Path) -> None:
    """One of 2099 and one of 1970 among those of 2023: the hours are those of the log without them."""
    lines = clicks.read_text().splitlines()[:-1]
    clicks.write_text("".join(f"{line}\n" for line in lines))
    ensue("stream", shutil.copytree(folder, tmp_path / "clean" / "m"), clicks, "--no-follow")
    lines[200:200] = [json.dumps({"session": "x", "item": "u1", "time": time}) for time in (4_070_908_800, 1)]
    lines.append(json.dumps({"session": "x", "item": "u1", "time": 1_500_000_000}))
    clicks.write_text("".join(f"{line}\n" for line in lines))
    ran = ensue("stream", folder, clicks, "--no-follow", "--json")
    assert ran.code == 0, ran.err
    *_, last = (json.loads(line) for line in ran.out.splitlines())
    assert [line["reason"].partition(";")[0] for line in last["rejects"]["first"]] == [
        "time 2099-01-01 00:00 is in the future",
        "time 1 s is 19,676 days before the stream's clock (2023-11-15 01:25)",
        "time 2017-07-14 02:40 is 2,315 days before the stream's clock (2023-11-15 04:05)",
    ]
    state, clean = (json.loads((place / "m" / "stream.json").read_text()) for place in (tmp_path, tmp_path / "clean"))
    assert state["hours"] == clean["hours"]
    assert (state["counts"]["events"], state["counts"]["rejected"]) == (360, 3)


def test_one_writer_a_folder(ensue: Ensue, folder: Path, clicks: Path) -> None:
    with only_writer(folder):
        ran = ensue("stream", folder, clicks, "--no-follow")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"ensue: {folder}: another process updates it; stop that one, or wait until it has finished\n"


def test_no_model_folder(ensue: Ensue, clicks: Path, tmp_path: Path) -> None:
    ran = ensue("stream", tmp_path / "none", clicks)
    assert ran.code == 2
    assert "no such model folder" in ran.err


def wait(folder: Path, events: int) -> bool:
    """Until so many events are committed."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if (folder / "stream.json").exists() and counted(folder) >= events:
            return True
        time.sleep(0.02)
    return False


def counted(folder: Path) -> int:
    try:
        return int(json.loads((folder / "stream.json").read_text())["counts"]["events"])
    except FileNotFoundError:  # between two folders, where the system cannot swap them
        return 0


def test_an_interrupt_commits_and_ends(folder: Path, clicks: Path) -> None:
    process = Started("stream", folder, clicks, "--commit-interval", 0)
    assert wait(folder, 360)
    with clicks.open("a") as file:  # it is live: what is written now is learned too
        file.write('{"session": "new", "item": "u1", "time": 1700021600}\n')
    assert wait(folder, 361)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "all hours, model" in out
    assert "361 events" in err.splitlines()[-1]
    assert "s after the latest event" in err.splitlines()[-1]
    assert load(folder).summary()["facts"]["steps"] > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_commits_too(ensue: Ensue, folder: Path, clicks: Path, number: signal.Signals) -> None:
    def end() -> None:
        wait(folder, 360)  # by then the verb listens; a stream that is late ends too
        os.kill(os.getpid(), number)

    before = signal.signal(number, signal.SIG_DFL)  # where tests run under nohup, SIGHUP is ignored
    thread = threading.Thread(target=end)
    thread.start()
    ran = ensue("stream", folder, clicks, "--commit-interval", "0")
    thread.join()
    assert ran.code == 0, ran.err
    assert signal.signal(number, before) == signal.SIG_DFL
    assert "all hours, model" in ran.out
