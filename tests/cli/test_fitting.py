"""``fit`` never replaces a trained model without being told to, and never alone: the former is kept as a version."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ensue.predictor import load
from ensue.store import versions
from ensue.store.swap import only_writer
from ensue.training.report import Report
from tests.cli.conftest import SMALL, Ensue, Logs
from tests.processes import Started

COUNTED = ("--model", "popularity")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_a_trained_model_is_not_replaced_unasked(
    ensue: Ensue, logs: Logs, own: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the log was read")

    monkeypatch.setattr("ensue.cli.tasks.next_event.read_log", never)
    before = contents(own.parent)
    ran = ensue("fit", "next", logs.train, "-o", own, *COUNTED, *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines == [f"ensue: {own}: holds a model; --replace replaces it and keeps it as a version"]
    assert contents(own.parent) == before


def test_what_is_replaced_is_kept_and_can_be_put_back(ensue: Ensue, logs: Logs, own: Path) -> None:
    before = contents(own)
    assert ensue("fit", "next", logs.train, "-o", own, "--replace", *COUNTED).code == 0
    assert (load(own).model_name, versions.current(own), versions.kept(own)) == ("popularity", 2, [1])
    assert contents(own.with_name(f"{own.name}.versions") / "1") == before
    assert ensue("fit", "next", logs.train, "-o", own, "--replace", "--model", "markov").code == 0
    assert (load(own).model_name, versions.current(own), versions.kept(own)) == ("markov", 3, [1, 2])
    assert ensue("update", own, "--rollback", "1").code == 0
    assert contents(own) == before


def test_resume_goes_on_with_what_was_to_replace_a_model(
    ensue: Ensue, logs: Logs, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is stopped after its first epoch; the same command with ``--resume`` ends as if nothing had happened."""
    assert ensue("fit", "next", logs.train, "-o", tmp_path / "whole", *SMALL).code == 0
    before = contents(own)
    command = ("fit", "next", logs.train, "-o", own, "--replace", *SMALL)

    @contextmanager
    def stop() -> Iterator[Callable[[Report], None]]:
        yield lambda report: os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr("ensue.cli.display.epochs", stop)
        assert ensue(*command).code == 128 + signal.SIGTERM
    assert contents(own) == before and own.with_name(f".{own.name}.checkpoint").exists()
    assert ensue(*command, "--resume").code == 0
    assert versions.kept(own) == [1] and contents(own.with_name(f"{own.name}.versions") / "1") == before
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (own / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert [path.name for path in own.parent.glob(f".{own.name}.*")] == []


def test_two_fits_into_one_new_folder_are_one_too_many(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    new = tmp_path / "new"
    with only_writer(new):  # as the first holds it from before it reads
        ran = ensue("fit", "next", logs.train, "-o", new, *COUNTED)
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines == [f"ensue: {new}: another process updates it; stop that one, or wait until it has finished"]
    assert not new.exists()
    assert ensue("fit", "next", logs.train, "-o", new, *COUNTED).code == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".new")] == []


def test_who_waited_for_the_lock_does_not_replace_what_was_saved_meanwhile(
    ensue: Ensue, logs: Logs, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    new = tmp_path / "new"

    def meanwhile(place: Path) -> None:
        load(own).save(place)

    monkeypatch.setattr("ensue.cli.fit.sweep", meanwhile)  # the first thing that happens under the lock
    ran = ensue("fit", "next", logs.train, "-o", new, *COUNTED)
    assert ran.code == 2 and "holds a model;" in ran.err
    assert load(new).model_name == "hidan"


def test_the_summary_and_the_card_show_the_members_of_an_ensemble(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    ran = ensue("fit", "next", logs.train, "-o", folder, "--model", "blend", "--set=dim=8", "--set=epochs=1")
    assert ran.code == 0, ran.err
    (line,) = [line for line in ran.lines if line.startswith("largest weights of the ensemble: ")]
    assert line.endswith("; all are in CARD.md") and re.search(r"(core|vsknn|markov|interpolated) -?[\d.]+", line)
    (members,) = [line for line in (folder / "CARD.md").read_text().splitlines() if line.startswith("- members: ")]
    assert re.findall(r"(\S+) -?[\d.e-]+(?:,|$)", members) == ["core", "vsknn", "markov", "interpolated", "own-items"]


def test_replay_0_says_what_it_leaves_out(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    ran = ensue("fit", "next", logs.train, "-o", tmp_path / "m", "--set=replay=0", *SMALL)
    assert ran.code == 0
    assert ran.lines[-2:] == ["replay=0: no single session is stored in the folder", f"saved {tmp_path / 'm'}"]
    small = [option for option in SMALL if "model" not in option]
    ran = ensue("fit", "next", logs.train, "-o", tmp_path / "b", "--model=cascade-blend", "--set=replay=0", *small)
    assert ran.lines[-2].endswith("in the folder, so cascade-blend predicts with its network alone")
    ran = ensue("fit", "next", logs.train, "-o", tmp_path / "v", "--model=vsknn", "--set=replay=0")
    assert ran.code == 2 and "setting 'replay' is not known" in ran.err


def test_held_out_records_stay_in_the_folder_unless_nobody_is_to_be_kept(
    ensue: Ensue, logs: Logs, tmp_path: Path
) -> None:
    facts = []
    for name, more in (("kept", ()), ("none", ("--no-examples",))):
        ran = ensue("fit", "next", logs.train, "-o", tmp_path / name, *SMALL, *more, "--json")
        assert ran.code == 0 and "examples" not in json.loads(ran.out)["facts"]
        facts.append(json.loads((tmp_path / name / "settings.json").read_text())["facts"])
    assert 1 <= len(facts[0]["examples"]["held_out"]) <= 6 and "examples" not in facts[1]


# --- signals ---------------------------------------------------------------------------------------------------------

PIPED = (  # the program sends itself a signal once it has begun to read the pipe
    "import os, signal\n"
    "from ensue import cli\n"
    "from ensue.cli import options\n"
    "signal.signal(int(os.environ['SIGNAL']), signal.SIG_DFL)\n"
    "options.disk_usage = lambda place: os.kill(os.getpid(), int(os.environ['SIGNAL']))\n"
    "cli.main()\n"
)
SAVING = (  # a signal while the folder is written
    "import os, signal\n"
    "from ensue import cli\n"
    "from ensue.store import folder\n"
    "own = folder.put_in_place\n"
    "def put(new, place):\n"
    "    if 'versions' not in place.parent.name:\n"  # a second signal would be of somebody impatient
    "        os.kill(os.getpid(), int(os.environ['SIGNAL']))\n"
    "    own(new, place)\n"
    "signal.signal(int(os.environ['SIGNAL']), signal.SIG_DFL)\n"
    "folder.put_in_place = put\n"
    "cli.main()\n"
)
CHECKING = (  # a signal while the place is looked at
    "import os, signal\n"
    "from ensue import cli\n"
    "from ensue.store import folder\n"
    "signal.signal(int(os.environ['SIGNAL']), signal.SIG_DFL)\n"
    "folder.locked = lambda path, how: os.kill(os.getpid(), int(os.environ['SIGNAL']))\n"
    "cli.main()\n"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("code", [PIPED, CHECKING], ids=["reads a pipe", "looks at the place"])
def test_a_fit_that_a_signal_ends_leaves_nothing(tmp_path: Path, logs: Logs, code: str, number: signal.Signals) -> None:
    (tmp_path / "tmp").mkdir()
    data = tmp_path / "log.jsonl"
    os.mkfifo(data)

    def write() -> None:
        with suppress(BrokenPipeError):  # the reader ends in the midst of it
            data.write_bytes(logs.train.read_bytes())

    threading.Thread(target=write, daemon=True).start()
    environment = {"SIGNAL": str(int(number)), "TMPDIR": str(tmp_path / "tmp")}
    stopped = Started("fit", "next", data, "-o", tmp_path / "m", *COUNTED, code=code, environment=environment)
    out, err = stopped.communicate(60)
    assert (stopped.returncode, out, err) == (128 + number, "", f"ensue: stopped ({number.name})\n")
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp", "log.jsonl"]


def test_a_signal_while_the_folder_is_written_waits_for_it(logs: Logs, own: Path) -> None:
    """What stands in the end is the new model, the old one is kept, and nothing else lies beside them."""
    environment = {"SIGNAL": str(int(signal.SIGTERM))}
    command = ("fit", "next", logs.train, "-o", own, "--replace", *COUNTED)
    saved = Started(*command, code=SAVING, environment=environment)
    _, err = saved.communicate(60)
    assert saved.returncode == 0, err
    assert (load(own).model_name, versions.kept(own)) == ("popularity", [1])
    assert [path.name for path in own.parent.glob(f".{own.name}.*")] == []
