"""`ensue split`, fractions that `evaluate` and `compare` hold out, and data on stdin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Ensue

CLICKS = "session,item,time\n" + "".join(f"s{n // 3},i{n % 5},{1_700_000_000 + 60 * n}\n" for n in range(30))
TEXTS = "text,label\n" + "".join(f"a good film {n},yes\na bad film {n},no\n" for n in range(5))
SEARCHES = "user,query,time\n" + "".join(
    f"u{user},{query},{1_700_000_000 + 9000 * user + 60 * turn}\n"
    for user in range(6)
    for turn, query in enumerate(("ferry", "night ferry"))
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, content in {"clicks": CLICKS, "texts": TEXTS, "searches": SEARCHES}.items():
        (tmp_path / f"{name}.csv").write_text(content)
    return tmp_path


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_sessions_are_split_by_time(ensue: Ensue, files: Path) -> None:
    ran = ensue("split", files / "clicks.csv", "-o", files / "parts", "--json")
    train, test = files / "parts" / "train.csv", files / "parts" / "test.csv"
    assert json.loads(ran.out) == {
        "train": {"file": str(train), "rows": 8},
        "test": {"file": str(test), "rows": 2},
    }
    assert lines(train)[0] == lines(test)[0] == "session,item,time"
    assert [line.split(",")[0] for line in lines(test)[1:]] == ["s8"] * 3 + ["s9"] * 3
    assert lines(test)[1] == "s8,i4,1700001440.0"
    refused = ensue("split", files / "clicks.csv", "-o", files / "parts")
    assert (refused.code, refused.lines[-1]) == (
        2,
        f"ensue: {test}: exists already; name another folder with --output",
    )


def test_texts_keep_their_labels_in_proportion(ensue: Ensue, files: Path) -> None:
    ran = ensue("split", files / "texts.csv", "-o", files / "parts", "--test", "0.4")
    assert ran.lines[-2:] == [
        f"wrote {files / 'parts' / 'train.csv'}: 6 for training",
        f"wrote {files / 'parts' / 'test.csv'}: 4 for the test",
    ]
    assert (
        sorted(line.split(",")[1] for line in lines(files / "parts" / "test.csv"))
        == ["label", "no", "no"] + ["yes"] * 2
    )


def test_users_of_a_query_log_are_on_one_side(ensue: Ensue, files: Path) -> None:
    assert ensue("split", files / "searches.csv", "-o", files / "parts", "--by", "user", "--test", "0.5").code == 0
    train, test = ({line.split(",")[2] for line in lines(files / "parts" / f"{side}.csv")[1:]} for side in sides())
    assert (len(train), len(test), train & test) == (3, 3, set())
    refused = ensue("split", files / "clicks.csv", "-o", files / "other", "--by", "user")
    assert refused.lines[-1] == "ensue: this data cannot be split by 'user'; choose time or random"


def sides() -> tuple[str, str]:
    return "train", "test"


def test_compare_and_evaluate_hold_out_a_fraction(ensue: Ensue, files: Path) -> None:
    ran = ensue("compare", "next", files / "clicks.csv", "--models", "popularity", "--split", "0.3", "--json")
    assert f"{files / 'clicks.csv'}: 7 for training, 3 held out as test data" in ran.lines
    assert json.loads(ran.out)["protocol"]["data"].startswith("3 ")
    by_default = ensue("compare", "next", files / "clicks.csv", "--models", "popularity", "--json")
    assert json.loads(by_default.out)["protocol"]["data"].startswith("2 ")
    assert ensue("fit", "next", files / "clicks.csv", "-o", files / "m", "--model", "popularity").code == 0
    ran = ensue("evaluate", files / "m", files / "clicks.csv", "--split", "0.2", "--json")
    assert json.loads(ran.out)["protocol"]["data"].startswith("2 ")
    assert any(line.startswith("warning: a model that was trained on all of") for line in ran.lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "clicks.csv", "--split", "0.2"), "--split 0.2: only evaluate and compare hold out a fraction"),
        (("check", "clicks.csv", "--split", "test"), "--split test: a log of events has no named parts"),
        (("split", "clicks.csv", "-o", "parts", "--test", "1"), "test is 1.0; it must be a number between 0 and 1"),
    ],
)
def test_refused(
    ensue: Ensue, files: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(files)
    ran = ensue(*arguments)
    assert ran.code == 2
    assert message in ran.lines[-1]
    assert not (files / "parts").exists()


def test_data_comes_from_stdin(ensue: Ensue, files: Path) -> None:
    from_file = ensue("check", files / "clicks.csv", "--json")
    from_stdin = ensue("check", "-", "--json", stdin=CLICKS)
    found = [json.loads(ran.out) for ran in (from_file, from_stdin)]
    assert {Path(one["understood"].pop("path")).name for one in found} == {"clicks.csv", "stdin"}
    assert found[0] == found[1]
