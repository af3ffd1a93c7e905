"""Whatever goes in: exit code 2, one line that says where, what and what to do; and nothing half written."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ensue import cli
from tests.cli.conftest import SMALL, Ensue, Logs, Ran, listed
from tests.folders import resum

HEAD = "session,item,time\n"
DECREASING = HEAD + "1,a,5\n1,b,1\n2,a,1\n2,b,4\n3,a,1\n3,b,2\n"

# content, what the one line says after the file's name
FILES: dict[str, tuple[str | bytes, str]] = {
    "missing column": (
        "a,item,time\n1,2,3\n",
        ": no column is recognised as the session; the columns are 'a', 'item', 'time'; name them with --columns "
        "session=…,item=item,time=time",
    ),
    "text in the time column": (
        HEAD + "1,a,5\n1,b,soon\n",
        ", line 3: time 'soon' is not a time; use seconds since 1970, ISO 8601, or --time-unit",
    ),
    "NaN": (HEAD + "1,a,5\n1,b,nan\n", ", line 3: time nan is not a finite number"),
    "infinite": (HEAD + "1,a,5\n1,b,inf\n", ", line 3: time inf is not a finite number"),
    "empty": ("", ": is empty"),
    "header only": (HEAD, ": has a header but no event"),
    "mixed units": (
        HEAD + "1,a,1400000000\n1,b,1400000005000\n",
        ", line 3: time 1400000005000 looks like milliseconds since 1970, but others, such as 1400000000, look like "
        "seconds; give all times in one unit",
    ),
    "broken UTF-8": (
        HEAD.encode() + b"1,a,5\n1,b\xff,6\n",
        ", line 3: not UTF-8 text; save the file as UTF-8, or name its encoding, as in --encoding cp1252",
    ),
    "truncated gzip": (
        gzip.compress((HEAD + "1,a,5\n" * 999).encode())[:60],
        ": the gzip data is truncated or damaged; fetch or pack the file again",
    ),
    "a line of 10 MB": (
        HEAD.encode() + b"1,a,5\n1," + b"x" * 10_000_000 + b",6\n",
        ", line 3: a line is longer than 8 MiB; put one event or session on each line",
    ),
    "binary": (
        b"\x7fELF\0\0\0",
        ": is binary, neither text nor Parquet; give CSV, TSV, JSON Lines, Parquet, Feather, Excel or cascades",
    ),
    "bad JSON": ('{"values": ["a", "b"]}\n{"values": ["a"\n', ", line 2: not JSON ("),
    "deep JSON": (
        '{"values": ["a", "b"]}\n' + '{"values":' + "[" * 10_000 + "]" * 10_000 + "}\n",
        ", line 2: not JSON (",
    ),
    "NaN in JSON": (
        '{"values": ["a", "b"], "times": [1, 2]}\n{"values": ["a", "b"], "times": [1, NaN]}\n',
        ", line 2: history '': times[1] is nan; times must be finite numbers",
    ),
}


def contents(parent: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in parent.rglob("*") if path.is_file()}


def check_refused(ran: Ran, start: str) -> str:
    """Exit code 2, nothing on stdout, one line on stderr."""
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert len(ran.lines) == 1, ran.err
    assert ran.err.endswith("\n")
    assert "Traceback" not in ran.err
    assert ran.err.startswith(f"ensue: {start}"), ran.err
    return ran.lines[0].removeprefix("ensue: ")


Command = Callable[[Path, Path, Logs], list[object]]
COMMANDS: dict[str, Command] = {
    "check": lambda bad, folder, logs: ["check", bad],
    "fit": lambda bad, folder, logs: ["fit", "next", bad, "-o", folder, "--replace", *SMALL],
    "fit anew": lambda bad, folder, logs: ["fit", "next", bad, "-o", folder.with_name("new"), *SMALL],
    "fit --validation": lambda bad, folder, logs: [
        "fit",
        "next",
        logs.train,
        "-o",
        folder,
        "--replace",
        "--validation",
        bad,
        *SMALL,
    ],
    "evaluate": lambda bad, folder, logs: ["evaluate", folder, bad],
    "predict": lambda bad, folder, logs: ["predict", folder, bad],
    "explain": lambda bad, folder, logs: ["explain", folder, bad],
    "compare": lambda bad, folder, logs: ["compare", "next", bad, "--test", logs.test],
}


@pytest.mark.parametrize("command", ["fit", "fit anew", "evaluate", "predict"])
@pytest.mark.parametrize("name", FILES)
def test_a_bad_file(ensue: Ensue, logs: Logs, own: Path, tmp_path: Path, name: str, command: str) -> None:
    content, expected = FILES[name]
    path = tmp_path / "log"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    before = contents(own.parent)
    message = check_refused(ensue(*COMMANDS[command](path, own, logs)), f"{path}{expected}")
    assert message == f"{path}{expected}" or expected.endswith("(")
    assert contents(own.parent) == before
    assert [path.name for path in own.parent.iterdir()] == ["m"]  # no folder, no temporary sibling, no checkpoint


@pytest.mark.parametrize("command", ["check", "explain", "compare", "fit --validation"])
def test_a_bad_file_through_the_other_verbs(ensue: Ensue, logs: Logs, own: Path, tmp_path: Path, command: str) -> None:
    content, expected = FILES["text in the time column"]
    (tmp_path / "log").write_bytes(str(content).encode())
    before = contents(own.parent)
    ran = ensue(*COMMANDS[command](tmp_path / "log", own, logs))
    if command == "fit --validation":  # the first file was fine, and says so
        assert ran.lines[0].startswith(str(logs.train))
        ran = ran._replace(err=ran.lines[1] + "\n")
    check_refused(ran, f"{tmp_path / 'log'}{expected}")
    assert contents(own.parent) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_and_a_folder(ensue: Ensue, logs: Logs, own: Path, tmp_path: Path, command: str) -> None:
    before = contents(own.parent)
    for bad, expected in (
        (tmp_path / "none", "no such file; check the name"),
        (tmp_path, "is a folder; name a file in"),
    ):
        ran = ensue(*COMMANDS[command](bad, own, logs))
        check_refused(ran._replace(err=ran.lines[-1] + "\n"), f"{bad}: {expected}")
    assert contents(own.parent) == before


@pytest.mark.parametrize("option", [[], ["--sort"]])
def test_a_file_out_of_order_is_sorted_and_that_is_said(
    ensue: Ensue, own: Path, tmp_path: Path, option: list[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(DECREASING)
    ran = ensue("fit", "next", path, "-o", tmp_path / "new", *option, *SMALL)
    assert ran.code == 0, ran.err
    assert "  note: 1 of 3 sessions had decreasing times: sorted by time" in ran.lines
    for command in ("evaluate", "predict", "explain"):
        assert ensue(command, own, path, "--json", *option).code == 0
    (first, *_) = json.loads(ensue("check", path, "--json", *option).out)["rows"]
    assert (first["values"], first["times"]) == (["b", "a"], [1.0, 5.0])


def test_half_an_emoji_on_a_pipe_is_replaced_and_counted(ensue: Ensue, own: Path) -> None:
    ran = ensue("predict", own, "-", "--json", stdin='{"values": ["u001"], "id": "\\ud83d"}\n{"values": ["\\udc00"]}\n')
    assert ran.code == 0, ran.err
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == ["\ufffd", ""]
    assert ran.lines == ["-: 2 halves of characters, as cut emoji leave, replaced by \ufffd"]


@pytest.mark.parametrize("command", ["check", "fit anew", "evaluate", "predict", "explain"])
def test_with_no_sort_a_file_out_of_order_is_refused(
    ensue: Ensue, logs: Logs, own: Path, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(DECREASING)
    ran = ensue(*COMMANDS[command](path, own, logs), "--no-sort")
    check_refused(
        ran,
        f"{path}, line 3: time 1.0 comes after 5.0 in the same session; times must not decrease: remove --no-sort",
    )
    assert not own.with_name("new").exists()


def test_sequences_of_one_event(ensue: Ensue, own: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "1,u001,5\n2,u002,6\n3,u001,7\n")
    before = contents(own.parent)
    for command, expected in (
        (
            ["fit", "next", path, "-o", own, "--replace", *SMALL],
            "so there is nothing to predict",
        ),
        (["evaluate", own, path], "nothing to score: no session has two events"),
    ):
        ran = ensue(*command)
        assert ran.lines[0].startswith(f"{path}: csv ")
        message = check_refused(ran._replace(err=ran.lines[1] + "\n"), "")
        assert expected in message
        assert len(ran.lines) == 2
    assert contents(own.parent) == before
    assert ensue("predict", own, path, "--json").out.count("\n") == 3  # one event is enough to ask what comes next


# --- folders ---------------------------------------------------------------------------------------------------------


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def rewrite(**changes: Any) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        path = folder / "settings.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return apply


FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "none": (shutil.rmtree, ": no such model folder; make one with `ensue fit TASK DATA -o {}`"),
    "no settings": (
        lambda folder: (folder / "settings.json").unlink(),
        ": settings.json is missing or unreadable (No such file or directory); the model folder is incomplete",
    ),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        ": model.safetensors is missing or unreadable (No such file or directory); the model folder is incomplete",
    ),
    "weights cut": (cut, "/model.safetensors: damaged ("),
    "not JSON": (lambda folder: (folder / "settings.json").write_text("{"), "/settings.json: not JSON ("),
    "foreign": (
        lambda folder: (folder / "settings.json").write_text("{}"),
        "/settings.json: not written by ensue; give a folder made by `ensue fit`",
    ),
    "newer": (
        rewrite(format=99, ensue="9.0"),
        ": written by ensue 9.0 in format 99, this version reads format 2; fit the model again",
    ),
    "other sizes": (rewrite(settings={"dim": 16}), ": damaged ("),
    "unknown model": (rewrite(model="os.system"), ": model 'os.system' is not known"),
    "another tree": (
        lambda folder: (folder / "fitted.json").write_text('["a"]'),
        ": damaged (",
    ),
}


@pytest.mark.parametrize("command", ["evaluate", "predict", "explain"])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_bad_folder(ensue: Ensue, logs: Logs, own: Path, name: str, command: str) -> None:
    damage, expected = FOLDERS[name]
    damage(own)
    resum(own)
    before = contents(own.parent)
    check_refused(ensue(command, own, logs.test), f"{own}{expected.format(own)}")
    assert contents(own.parent) == before


# --- options ---------------------------------------------------------------------------------------------------------

MODELS = ", ".join(["best", *(model["name"] for model in listed("next"))])
OPTIONS: dict[str, tuple[list[str], str]] = {
    "task": (["fit", "maybe", "TRAIN", "-o", "NEW"], "task 'maybe' is not known; choose from next"),
    "task of compare": (
        ["compare", "maybe", "TRAIN", "--test", "TEST"],
        "task 'maybe' is not known; choose from next",
    ),
    "model": (
        ["fit", "next", "TRAIN", "-o", "NEW", "--model=gpt"],
        f"model 'gpt' is not known for task next; choose from {MODELS}",
    ),
    "one model of several": (
        ["compare", "next", "TRAIN", "--test", "TEST", "--models=hidan,gpt"],
        f"model 'gpt' is not known for task next; choose from {MODELS}",
    ),
    "seeds": (["compare", "next", "TRAIN", "--test", "TEST", "--seeds=0"], "--seeds 0: give at least 1"),
    "protocol of compare, before any training": (
        ["compare", "next", "TRAIN", "--test", "TEST", "--protocol=x"],
        "protocol 'x' is not known for task next; choose from full, last, paper, macro, sampled",
    ),
    "at": (["evaluate", "MODEL", "TEST", "--cutoffs", "x"], "--cutoffs 'x' is not a list of ranks such as 10,20"),
    "at nought": (
        ["evaluate", "MODEL", "TEST", "--cutoffs", "0"],
        "--cutoffs '0' is not a list of ranks such as 10,20",
    ),
    "at nothing": (["evaluate", "MODEL", "TEST", "--cutoffs", ""], "--cutoffs '' is not a list of ranks such as 10,20"),
    "set": (["fit", "next", "TRAIN", "-o", "NEW", "--set", "dim"], "'dim' is not of the form key=value"),
    "set the unknown": (
        ["fit", "next", "TRAIN", "-o", "NEW", "--set", "nonsense=1"],
        "setting 'nonsense' is not known; choose from batch_size, beta2, cascade_attention, ",
    ),
    "set a text": (["fit", "next", "TRAIN", "-o", "NEW", "--set", "dim=wide"], "setting dim: "),
    "set nought": (["fit", "next", "TRAIN", "-o", "NEW", "--set", "dim=0"], "dim is 0; it must be at least 1"),
    "set NaN": (
        ["fit", "next", "TRAIN", "-o", "NEW", "--set", "learning_rate=nan"],
        "learning_rate is nan; it must be above 0",
    ),
    "seed": (["fit", "next", "TRAIN", "-o", "NEW", "--seed=-1"], "seed is -1; it must be a whole number, 0 or more"),
    "device": (
        ["fit", "next", "TRAIN", "-o", "NEW", "--device=nonsense"],
        "device 'nonsense' is not available; choose from cpu",
    ),
    "columns": (["check", "TRAIN", "--columns=item"], "'item' is not of the form key=value"),
    "role": (
        ["check", "CSV", "--columns=user=item"],
        "columns: role 'user' is not known; the roles are session, item, time",
    ),
    "unit": (
        ["check", "CSV", "--time-unit=m"],
        "time_unit: 'm' is not known; the units are s, ms, us, ns, h, days, iso",
    ),
    "k": (["predict", "MODEL", "-k", "0"], "k is 0; give at least 1"),
    "k of explain": (["explain", "MODEL", "-", "-k", "0"], "k is 0; give at least 1"),
    "page": (["explain", "MODEL", "-", "--html", "/nowhere/page.html"], "/nowhere/page.html: the figure cannot be"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_bad_option(ensue: Ensue, logs: Logs, model: Path, tmp_path: Path, name: str) -> None:
    arguments, expected = OPTIONS[name]
    (tmp_path / "log.csv").write_text(HEAD + "1,a,5\n1,b,6\n")
    places = {
        "TRAIN": str(logs.train),
        "TEST": str(logs.test),
        "MODEL": str(model),
        "CSV": str(tmp_path / "log.csv"),
        "NEW": str(tmp_path / "new"),
    }
    ran = ensue(*(places.get(argument, argument) for argument in arguments), stdin='{"values": ["u001"]}\n')
    check_refused(ran, expected)
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_the_protocol_of_evaluate(ensue: Ensue, logs: Logs, model: Path) -> None:
    ran = ensue("evaluate", model, logs.test, "--protocol=x")
    check_refused(
        ran._replace(err=ran.lines[-1] + "\n"),
        "protocol 'x' is not known for task next; choose from full, last, paper, macro, sampled",
    )


@pytest.mark.parametrize("arguments", [["fit"], ["fit", "next", "x", "--nonsense"], ["sing"], ["compare", "--seeds=x"]])
def test_what_is_no_command_exits_with_2(ensue: Ensue, arguments: list[str]) -> None:
    ran = ensue(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err


def test_a_loss_that_is_no_number(ensue: Ensue, logs: Logs, own: Path) -> None:
    before = contents(own.parent)
    ran = ensue("fit", "next", logs.train, "-o", own, "--replace", *SMALL, "--set=learning_rate=1e30", "--set=epochs=5")
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines[-1].startswith("ensue: the loss became ")
    assert ran.lines[-1].endswith("; try a smaller learning_rate")
    assert contents(own.parent) == before


@pytest.mark.parametrize("taken", ["folder", "settings", "file", "parent"])
def test_an_output_that_cannot_be_written_is_found_out_before_the_work(
    ensue: Ensue, logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("ensue.cli.tasks.next_event.read_log", never)
    place = tmp_path / "m"
    if taken in ("folder", "settings"):
        place.mkdir()
        (place / ("settings.json" if taken == "settings" else "thesis.tex")).write_text("{}")
    else:
        place.write_text("in the way")
    before = contents(tmp_path)
    output = place / "m" if taken == "parent" else place
    problem = "cannot be written here (File exists)" if taken == "parent" else "exists and is not a model folder"
    message = check_refused(ensue("fit", "next", logs.train, "-o", output), str(output))
    assert message == f"{output}: {problem}; use another folder"
    assert contents(tmp_path) == before


# --- records on a pipe -----------------------------------------------------------------------------------------------

GOOD = '{"values": ["u001"]}\n'
RECORDS: dict[str, tuple[str | bytes, str]] = {
    "not JSON": ("{", "stdin, line 2: not JSON ("),
    "a list": ("[1]", 'stdin, line 2: field "values" is missing; expected {"values": ["a", "b"]}'),
    "a number": ("3", 'stdin, line 2: field "values" is missing; expected {"values": ["a", "b"]}'),
    "no values": ('{"times": [1]}', 'stdin, line 2: field "values" is missing; expected {"values": ["a", "b"]}'),
    "unknown field": (
        '{"values": [], "user": "x"}',
        "stdin, line 2: field 'user' is not known; a history has values, times and id",
    ),
    "values": ('{"values": "u001"}', 'stdin, line 2: field "values" must be a list of texts or whole numbers'),
    "null": ('{"values": [null]}', 'stdin, line 2: field "values" must be a list of texts or whole numbers'),
    "NaN value": ('{"values": [NaN]}', 'stdin, line 2: field "values" must be a list of texts or whole numbers'),
    "times": ('{"values": ["a"], "times": ["x"]}', 'stdin, line 2: field "times" must be a list of numbers (seconds)'),
    "NaN": (
        '{"values": ["a"], "times": [NaN]}',
        "stdin, line 2: history '': times[0] is nan; times must be finite numbers",
    ),
    "infinite": (
        '{"values": ["a"], "times": [1e999]}',
        "stdin, line 2: history '': times[0] is inf; times must be finite numbers",
    ),
    "huge": ('{"values": ["a"], "times": [1' + "0" * 400 + "]}", "stdin, line 2: "),
    "too many digits": ('{"values": ["a"], "times": [1' + "0" * 5000 + "]}", "stdin, line 2: not JSON ("),
    "counts": (
        '{"values": ["a", "b"], "times": [1], "id": "x"}',
        "stdin, line 2: history 'x': 2 values but 1 time; give one time per value, or none",
    ),
    "decreasing": (
        '{"values": ["a", "b"], "times": [2, 1]}',
        "stdin, line 2: history '': times[1] = 1.0 comes after 2.0; times must not decrease",
    ),
    "deep": ("[" * 10_000 + "]" * 10_000, "stdin, line 2: not JSON ("),
    "deep inside": ('{"values": ' + "[" * 10_000 + "]" * 10_000 + "}", "stdin, line 2: not JSON ("),
    "broken UTF-8": (b'{"values": ["\xff"]}', "-: not UTF-8 ("),
}


@pytest.mark.parametrize("command", ["predict", "explain"])
@pytest.mark.parametrize("name", RECORDS)
def test_a_bad_record_on_a_pipe_names_its_line(ensue: Ensue, model: Path, name: str, command: str) -> None:
    line, expected = RECORDS[name]
    given = GOOD.encode() + (line.encode() if isinstance(line, str) else line) + b"\n"
    message = check_refused(ensue(command, model, "-", "--json", stdin=given), expected)
    assert message == expected or not expected.endswith(("}", "numbers", "none", "id", "decrease", "(seconds)"))


# --- real processes --------------------------------------------------------------------------------------------------


def test_the_exit_code_of_a_real_process(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "ensue", "check", tmp_path / "none.csv"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"ensue: {tmp_path / 'none.csv'}: no such file; check the name\n"


def test_a_reader_that_goes_away_is_no_crash(model: Path) -> None:
    """As in ``ensue predict … | head -1``."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "ensue", "predict", str(model), "-", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(GOOD.encode() * 2000)
    process.stdin.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert errors == b""
    assert process.wait(60) in (1, 141)


def test_main_lets_other_errors_through(monkeypatch: pytest.MonkeyPatch, ensue: Ensue, logs: Logs) -> None:
    """A bug must look like a bug: it is no line of advice."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("ensue.cli.tasks.next_event.read_log", broken)
    with pytest.raises(ZeroDivisionError):
        ensue("check", logs.train)
    assert cli.main.__doc__


def test_pipes_are_read_once(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    """What looks a file over first, and what reads it then, both see all of it."""
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    with ThreadPoolExecutor() as threads:
        for words in (
            ["check"],
            ["fit", "next", "-o", tmp_path / "m", "--model", "markov"],
            ["predict", tmp_path / "m"],
        ):
            written = threads.submit(fifo.write_bytes, gzip.compress(logs.test.read_bytes()))
            ran = ensue(*words, fifo)
            assert ran.code == 0, ran.err
            assert written.result(30) and "/log: jsonl histories" in ran.err


def test_a_pipe_that_does_not_end_is_refused(ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    monkeypatch.setattr("ensue.cli.options.disk_usage", lambda _: SimpleNamespace(free=2000))
    with ThreadPoolExecutor() as threads:
        written = threads.submit(fifo.write_bytes, bytes(1001))
        ran = ensue("check", fifo)
        written.result(30)
    assert (ran.code, ran.out) == (2, "")
    assert f"{fifo}: does not end within 1e-06 GB, the memory at hand or half of the room in " in ran.err


# --- odd files -------------------------------------------------------------------------------------------------------

WRITERLESS = "is a pipe without a writer; start its writer first, or give a file"


@pytest.mark.parametrize(
    "words",
    [
        ["check", "PIPE"],
        ["check", "LOG", "--compare-to", "PIPE"],
        ["fit", "next", "PIPE", "-o", "NEW"],
        ["fit", "next", "LOG", "-o", "NEW", "--validation", "PIPE"],
        ["predict", "MODEL", "PIPE"],
        ["predict", "MODEL", "LOG", "--exclude", "PIPE"],
        ["evaluate", "MODEL", "PIPE"],
        ["explain", "MODEL", "PIPE"],
        ["update", "MODEL", "PIPE"],
        ["prepare", "PIPE", "-o", "NEW"],
        ["score", "PIPE", "LOG"],
        ["link", "LOG", "PIPE"],
        ["check", "LOG", "--qrels", "PIPE"],
    ],
    ids=" ".join,
)
def test_a_pipe_without_a_writer_holds_nobody_up(
    ensue: Ensue, logs: Logs, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr("ensue.data.file_bytes.PIPE_WAIT", 0.05)
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    places = {"PIPE": pipe, "LOG": logs.test, "MODEL": own, "NEW": tmp_path / "new"}
    ran = ensue(*(places.get(word, word) for word in words))
    assert (ran.code, ran.lines[-1]) == (2, f"ensue: {pipe}: {WRITERLESS}")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"new\nline\x1b[31m.csv", r"new\nline\x1b[31m.csv"),
        (b"no\xffname.csv", r"no\udcffname.csv"),
        ("\u202ereversed.csv".encode(), r"\u202ereversed.csv"),
    ],
    ids=["newline", "bytes", "reversed"],
)
def test_names_of_files_are_shown_in_one_line(
    ensue: Ensue, logs: Logs, tmp_path: Path, name: bytes, shown: str
) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_text("a,b\n1\n")
    ran = ensue("check", path)
    assert ran.code == 2 and len(ran.lines) == 1
    assert ran.lines[0].startswith(f"ensue: {tmp_path}/{shown}: no column is recognised as the session")
    path.write_text(logs.test.read_text())
    ran = ensue("check", path)
    assert ran.code == 0 and ran.lines[0].startswith(f"{tmp_path}/{shown}: jsonl histories")
