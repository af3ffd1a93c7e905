"""Common mistakes: each is one line that names the culprit and the way out, exit code 2, and nothing is written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Ensue, run
from tests.cli.test_bad_input import contents

LOG = "session,item,time\n" + "".join(f"s{n // 3},i{n % 5},{1_700_000_000 + 60 * n}\n" for n in range(60))
TEXTS = "text,label\n" + "a good film,yes\na bad film,no\n" * 10
FILES: dict[str, bytes] = {
    "log.csv": LOG.encode(),
    "texts.csv": TEXTS.encode(),
    "posts.jsonl": b'{"text": "the ferry sails", "about": ["a1"]}\n',
    "plain.csv": b"text\na fine film\n",
    "one.csv": b"text,label\na good one,yes\nanother,yes\n",
    "head.csv": b"session,item,time\n",
    "latin.csv": "session,item\n1,café\n1,b\n".encode("latin-1"),
    "dates.csv": b"session,item,time\n1,a,yesterday\n1,b,tomorrow\n",
    "half.jsonl": b'{"values": ["a", "b"]}\n{"values": ["a"\n',
    "cut.csv.gz": b"\x1f\x8b\x08\x00broken",
    "picture.png": b"\x89PNG\r\n\x1a\n\0\0\0\0",
    "page.html": b"<html><body>log</body></html>",
}
FIT = "fit next log.csv -o new"
MISTAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    # files
    "a wrong path": ("check lgo.csv", ("lgo.csv: no such file", "check the name")),
    "a folder in place of a file": ("check next", ("next: is a folder", "name a file in it")),
    "a header and nothing else": ("check head.csv", ("head.csv: has a header but no event",)),
    "another encoding": ("check latin.csv", ("latin.csv, line 2: not UTF-8", "--encoding cp1252")),
    "an encoding that there is not": ("check log.csv --encoding utf-99", ("'utf-99' is not known", "cp1252")),
    "times that are words": (
        "check dates.csv",
        ("dates.csv, line 2: time 'yesterday'", "use seconds since 1970, ISO 8601, or --time-unit"),
    ),
    "half a line of JSON": ("check half.jsonl", ("half.jsonl, line 2: not JSON", "expected one object per line")),
    "a packed file cut short": ("check cut.csv.gz", ("cut.csv.gz: the gzip data", "fetch or pack the file again")),
    "a picture": ("check picture.png", ("picture.png: is binary", "give CSV, TSV, JSON Lines")),
    "a page of the web": ("check page.html", ("page.html, line 1: '<html>", "give one, such as session,item,time")),
    # columns
    "a column misspelt": ("check log.csv --columns session=sesion", ("column 'sesion'", "the columns are 'session'")),
    "a role that there is not": ("check log.csv --columns user=item", ("role 'user'", "the roles are session, item")),
    "a column without a role": ("check log.csv --columns item", ("'item' is not of the form key=value",)),
    "a unit that there is not": (
        "check log.csv --time-unit minutes",
        ("'minutes'", "the units are s, ms, us, ns, h, days, iso"),
    ),
    "no known column": ("fit next texts.csv -o new", ("no column is recognised as the session", "--columns session=…")),
    "clicks as texts": ("fit classify log.csv -o new", ("the columns are 'session'", "--columns text=…,label=…")),
    "clicks as queries": ("fit suggest log.csv -o new", ("recognised as the query", "--columns query=…")),
    "texts without labels": ("fit classify plain.csv -o new", ("the texts have no labels", "--columns label=…")),
    "one label": ("fit classify one.csv -o new", ("every text has the label 'yes'", "at least two labels")),
    "posts without articles": ("fit link posts.jsonl -o new", ("holds posts", "--articles FILE")),
    "a story in the place of posts": ("link plain.csv page.html", ("page.html:", "the story comes first: ensue link")),
    # what is typed
    "an option that there is not": ("fit --sideways", ("No such option: --sideways", "see `ensue fit --help`")),
    "an option misspelt": ("predict next --jsn", ("--jsn", "--json", "see `ensue predict --help`")),
    "a value of another kind": ("predict next -k three", ("'-k'", "valid integer", "see `ensue predict --help`")),
    "an option without its value": (f"{FIT} --model", ("'--model' requires an argument", "see `ensue fit --help`")),
    "an argument left out": ("evaluate", ("Missing argument 'folder'", "see `ensue evaluate --help`")),
    "an option that must be": ("fit next log.csv", ("Missing option", "--output", "see `ensue fit --help`")),
    "one argument too many": ("settings hidan sansr", ("unexpected extra argument", "see `ensue settings --help`")),
    "a verb that there is not": ("fitt next log.csv", ("No such command 'fitt'", "Did you mean", "see `ensue --help`")),
    # tasks and models
    "a task misspelt": ("fit nxt log.csv -o new", ("'nxt'", "did you mean 'next'?")),
    "a task left out": ("fit log.csv -o new", ("task 'log.csv'", "give the task first, then the file")),
    "a model misspelt": (f"{FIT} --model hidn", ("model 'hidn'", "did you mean 'hidan'?")),
    "a model of another task": (f"{FIT} --model tfidf", ("model 'tfidf' is not known for task next", "choose from")),
    "a model's file that is not there": (f"{FIT} --model mine.py:Mine", ("mine.py: there is no such file",)),
    "settings of no model": ("settings hiden", ("model 'hiden'", "`ensue models` lists")),
    "a paper that there is not": ("reproduce hydan --data .", ("paper 'hydan'", "choose from")),
    # settings and values
    "a setting misspelt": (f"{FIT} --model core --set dropuot=.1", ("'dropuot'", "did you mean 'dropout'?")),
    "a dash for a line below": (f"{FIT} --model core --set learning-rate=1", ("did you mean 'learning_rate'?",)),
    "a setting without a value": (f"{FIT} --set dim", ("'dim' is not of the form key=value",)),
    "a word for a number": (f"{FIT} --model core --set dim=big", ("setting dim:", "valid integer (got 'big')")),
    "a value out of range": (f"{FIT} --model core --set dropout=1.5", ("dropout is 1.5", "at least 0 and below 1")),
    "a width of nought": (f"{FIT} --model core --set dim=0", ("dim is 0", "it must be at least 1")),
    "vectors that are not there": ("fit classify texts.csv -o new --set vectors=glove.txt", ("'glove.txt'",)),
    "a device that is not at hand": (f"{FIT} --device tpu", ("device 'tpu'", "choose from cpu")),
    "no choice asked for": ("predict next log.csv -k 0", ("k is 0", "give at least 1")),
    "a share above one": ("update next log.csv --max-drop 5", ("--max-drop 5", "give a fraction in [0, 1)")),
    "ranks that are words": ("evaluate next log.csv --cutoffs ten", ("--cutoffs 'ten'", "such as 10,20")),
    "a protocol that there is not": ("evaluate next log.csv --protocol hard", ("'hard'", "choose from full, last")),
    "an option of another task": ("predict next log.csv --prefix fer", ("--prefix means nothing to task next",)),
    # folders
    "a folder misspelt": ("evaluate nxt log.csv", ("nxt: no such model folder", "ensue fit TASK DATA")),
    "folder and file exchanged": ("evaluate log.csv next", ("log.csv: is a file, not a model folder", "wrote first")),
    "a folder that holds a model": ("fit next log.csv -o next", ("next: holds a model;", "--replace")),
    "a place that is taken": ("fit next log.csv -o page.html", ("page.html: exists", "use another folder")),
    "a place below a file": ("fit next log.csv -o page.html/m", ("page.html/m: cannot be written", "another folder")),
    "a version that is not kept": ("update next --rollback 9", ("version 9 is not stored",)),
    "a stream for another task": ("stream mood log.csv --no-follow", ("mood: is of task classify", "only task next")),
    # output and service
    "an ending that is no table": ("evaluate next log.csv -o table.pdf", ("table.pdf", ".csv, .md, .tex, .json")),
    "an ending that is no sheet": ("predict next log.csv -o out.doc", ("out.doc", "must end in .csv, .tsv")),
    "a page in no folder": ("explain next log.csv --html nowhere/x.html", ("nowhere/x.html", "give another path")),
    "edges that are not there": ("explain next log.csv --edges edgs.csv", ("edgs.csv: no such file",)),
    "edges of a model that is none": ("serve next --edges nxt=log.csv", ("--edges nxt=…", "served by this name")),
    "edges of nobody": ("serve next --edges log.csv", ("--edges log.csv", "write NAME=FILE")),
    "a limit misspelt": ("serve next --set patince=5", ("'patince'", "did you mean 'patience'?")),
    "all the world without a token": ("serve next --host 0.0.0.0", ("0.0.0.0", "set ENSUE_TOKEN", "127.0.0.1")),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, and two model folders that count."""
    place = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for line in ("fit next log.csv -o next --model markov", "fit classify texts.csv -o mood --model majority"):
            assert run(patch, *shlex.split(line)).code == 0
    return place


def test_there_are_at_least_forty() -> None:
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake(ensue: Ensue, place: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    line, said = MISTAKES[name]
    monkeypatch.chdir(place)
    monkeypatch.delenv("ENSUE_TOKEN", raising=False)
    before = contents(place)
    ran = ensue(*shlex.split(line))
    assert ran.code == 2, ran.out + ran.err
    own = [one for one in ran.lines if one.startswith("ensue: ")]  # before it may stand what was understood of a file
    assert ran.lines[-1:] == own, ran.err
    for part in said:
        assert part in own[0]
    assert ran.out == ""
    assert contents(place) == before


@pytest.mark.skipif(
    not hasattr(__import__("os"), "geteuid") or __import__("os").geteuid() == 0, reason="root may write"
)
def test_a_place_without_permission(ensue: Ensue, place: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    ran = ensue("fit", "next", place / "log.csv", "-o", tmp_path / "m", "--model", "markov")
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert "cannot be written here (Permission denied); use another folder" in ran.err


def test_help_is_shown_where_it_is_asked_for_or_nothing_is(ensue: Ensue) -> None:
    asked, bare = ensue("fit", "--help"), ensue()
    assert (asked.code, bare.code) == (0, 2)
    assert "--model" in asked.out and "Usage: ensue fit" in asked.out
    assert "evaluate" in bare.out + bare.err
