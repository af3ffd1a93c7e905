"""Task ``suggest`` as a person runs it: every verb, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.cli.conftest import Ensue, Ran, listed, run
from tests.test_figures import fetches

SIZES = {
    "dim": 16, "embedding": 16, "wide": 32, "heads": 2, "depth": "1+1+1", "dropout": 0, "smoothing": 0,
    "batch_size": 20, "learning_rate": 0.01, "warm_up": 20, "epochs": 2, "min_count": 1, "retrieved": 3,
}  # fmt: skip
SMALL = [*(f"--set={name}={value}" for name, value in SIZES.items()), "--min-users=2"]
COUNTING = [model["name"] for model in listed("suggest") if model["counting"]]
THINGS = ("boat", "car", "kite", "lamp")


class Files(NamedTuple):
    """Small logs, and the folder of a model that learned one."""

    train: Path
    test: Path
    model: Path


def write(path: Path, num: int, seed: int) -> Path:
    """A user a session: two queries about a thing; one user types an address between them."""
    random = np.random.default_rng(seed)
    lines = ["user,query,time"]
    for number, thing in enumerate(random.choice(THINGS, num)):
        secret = [f"u{number},jane@roe.example,{number * 9999 + 30}"] if number == 3 else []
        lines += [f"u{number},Find {thing},{number * 9999}", *secret, f"u{number},buy {thing},{number * 9999 + 60}"]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Tests read them and leave them alone."""
    place = tmp_path_factory.mktemp("queries")
    found = Files(write(place / "train.csv", 50, 0), write(place / "test.csv", 12, 1), place / "m")
    with pytest.MonkeyPatch.context() as patch:
        ran = run(patch, "fit", "suggest", found.train, "-o", found.model, *SMALL, "--device=cpu")
    assert ran.code == 0, ran.err
    assert "can be suggested: 8 queries, and combinations of 6 words (typed by at least 2 users" in ran.err
    return found


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.evaluation.bootstrap.RESAMPLES", 20)


def check_refused(ran: Ran, message: str) -> None:
    """Exit code 2, nothing on stdout, and this as the last line."""
    assert (ran.code, ran.out, ran.lines[-1]) == (2, "", f"ensue: {message}")


def test_check_knows_a_query_log_by_its_shape(ensue: Ensue, files: Files) -> None:
    ran = ensue("check", files.train, "--compare-to", files.test)
    assert ran.code == 0, ran.err
    assert ran.lines[0].startswith(f"{files.train}: csv (query=query, user=user, time=time); time: ")
    rule = "typed by at least 5 users, or every two of its words typed in one query by that many"
    assert ran.cells[:3] == [
        ("sessions", "50", ""),
        ("queries", "101", "9 distinct"),
        ("queries per session", "mean 2.0, max 3", ""),
    ]
    assert ran.cells[4:7] == [
        ("can be suggested", "99.0 % of the queries", rule),
        ("below the k-anonymity threshold", "1 distinct query", ""),
        ("possible personal data", "0 distinct queries", ""),
    ]
    assert "jane" not in ran.out and "of the pairs of" in ran.out


def test_check_counts_what_the_rules_leave_out(ensue: Ensue, files: Files) -> None:
    ran = ensue("check", files.train, "--session-gap", "0.5", "--rules", "min_queries=2,max_words=1", "--json")
    assert ran.code == 2 and ran.lines[-1].startswith(f"ensue: {files.train}: no session of 2 or more queries is left")
    found = json.loads(ensue("check", files.train, "--rules", "max_queries=2", "--json").out)
    assert found["sessions"] == 49 and found["understood"]["dropped"]["long_sessions"] == 1
    assert found["understood"]["rules"]["max_queries"] == 2


def test_check_looks_at_the_floor_that_is_asked_for(ensue: Ensue, files: Files) -> None:
    ran = ensue("check", files.train, "--min-users", "1", "--json")
    assert ran.code == 0, ran.err
    floor = json.loads(ran.out)["floor"]
    assert (floor["min_users"], floor["below"], floor["personal"]) == (1, 0, 1)  # the one address
    assert ensue("check", files.train, "--min-users", "0").lines[-1].startswith("ensue: min_users: 0 is below 1")


def test_predict_answers_a_line_of_json(ensue: Ensue, files: Files) -> None:
    lines = '{"values": ["Find  CAR"], "id": "s1"}\n\n{"values": []}\n'
    ran = ensue("predict", files.model, "-", "-k", "2", "--json", stdin=lines)
    assert ran.code == 0, ran.err
    one, other = map(json.loads, ran.out.splitlines())
    assert (one["id"], one["in_vocabulary"], one["events"], len(one["choices"])) == ("s1", 1, 1, 2)
    assert one["choices"][0]["attributions"][0]["value"] == "find car" and other["events"] == 0
    shown = ensue("predict", files.model, "-", "--prefix", "Buy", stdin=lines)
    assert "in vocabulary (at least one word): 1 of 1 query" in shown.out and "nothing is typed: the most" in shown.out
    begun = ensue("predict", files.model, "-", "--prefix", "Buy", "--json", stdin=lines)
    values = [choice["value"] for line in begun.out.splitlines() for choice in json.loads(line)["choices"]]
    assert values and all(value.startswith("buy") for value in values)


def test_a_session_that_the_rules_leave_nothing_of_has_an_empty_answer(
    ensue: Ensue, files: Files, tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"session,query\na,find boat\nb,{'x' * 501}\nc,find car\nd,{'y' * 600}\n")
    ran = ensue("predict", files.model, log, "-o", tmp_path / "out.csv")
    assert ran.code == 0, ran.err
    assert f"{log}: 2 of 4 sessions hold no query that the rules keep: an empty answer" in ran.lines
    rows = (tmp_path / "out.csv").read_text().splitlines()[1:]
    answered = [(row.split(",")[0], row.split(",")[1] != "") for row in rows]
    assert answered == [("a", True), ("b", False), ("c", True), ("d", False)]
    every = [json.loads(line) for line in ensue("predict", files.model, log, "--json").out.splitlines()]
    assert [bool(answer["choices"]) for answer in every] == [True, False, True, False]
    assert len(ensue("explain", files.model, log, "--json").out.splitlines()) == 2
    ran = ensue("check", files.train, "--rules", "min_queries=0")
    assert (ran.code, ran.lines[-1]) == (2, "ensue: min_queries is 0; it must be at least 1")


@pytest.mark.parametrize("key", ["", ', "id": "s9"'])
def test_answers_keep_the_ids_of_a_file_or_the_numbers_of_its_sessions(
    ensue: Ensue, files: Files, tmp_path: Path, key: str
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(f'{{"values": ["  "]}}\n{{"values": ["find boat"]{key}}}\n{{"values": ["find car"]}}\n')
    answers = ensue("predict", files.model, log, "-k", "1", "--no-attributions", "--json").out.splitlines()
    assert [json.loads(answer)["id"] for answer in answers] == ["s9" if key else "2", "3"]


def test_predict_and_explain_read_logs(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    ran = ensue("predict", files.model, files.test, "-k", "1", "--no-attributions", "--json")
    assert ran.code == 0 and len(ran.out.splitlines()) == 12
    page = tmp_path / "why.html"
    ran = ensue("explain", files.model, files.test, "--html", page)
    assert ran.code == 0 and "attends most to (query, weight)" in ran.out, ran.err
    text = page.read_text()
    assert "attention weights of words, not causes" in text and fetches(text) == []


def test_evaluate_writes_the_card(ensue: Ensue, files: Files) -> None:
    ran = ensue("evaluate", files.model, files.test)
    assert ran.code == 0, ran.err
    assert "protocol full: metrics in %" in ran.out and ": BLEU +" in ran.out and ": MRR@10 +" in ran.out
    card = (files.model / "CARD.md").read_text()
    assert "| model | BLEU | n-gram precision@1 |" in card and "most-frequent-next" in card and "## Stored data" in card
    found = json.loads(ensue("evaluate", files.model, files.test, "--json").out)
    assert [row["model"] for row in found["rows"]] == ["mtn", *COUNTING]
    assert found["rows"][0]["by_length"]["1"]["targets"] == 12
    ran = ensue("evaluate", files.model, files.test, "--protocol", "paper")
    assert "data: 1 session, 3 queries, sessions of 3 to 5 queries of at most 10 words" in ran.out
    check_refused(
        ensue("evaluate", files.model, files.test, "--protocol", "macro"),
        "protocol 'macro' is not known for task suggest; choose from full, paper",
    )


def test_compare_counts_beside(ensue: Ensue, files: Files) -> None:
    ran = ensue(
        *("compare", "suggest", files.train, "--test", files.test, "--models", "most-frequent-next", "--json"),
        *("--min-users", "2"),
    )
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert [row["model"] for row in found["rows"]] == [*COUNTING]
    assert found["rows"][0]["mrr@10"] > 0.8 and found["verdict"].startswith("only baselines were scored: ")


def test_update_keeps_the_former_version(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    assert ensue("fit", "suggest", files.train, "-o", tmp_path / "m", "--model=most-frequent-next").code == 0
    ran = ensue("update", tmp_path / "m", files.test)
    assert ran.code == 0, ran.err
    assert "accepted: version 2 is active" in ran.out
    assert ensue("update", tmp_path / "m", "--rollback").code == 0


def test_mistakes_are_one_line(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    check_refused(
        ensue("predict", files.model, "-", stdin='{"values": 3}\n'),
        'stdin, line 1: field "values" must be a list of texts or whole numbers',
    )
    check_refused(
        ensue("predict", files.model, "-", stdin=b"\xff\n"),
        "-: not UTF-8 (invalid start byte at byte 0); send UTF-8",
    )
    check_refused(
        ensue("evaluate", files.model, files.test, "--split", "test"), "there is no part 'test'; the file has none"
    )
    check_refused(
        ensue("evaluate", files.model, files.test, "--split", "test:old"),
        "--split test:old: only novel may follow the colon, as in test:novel",
    )
    check_refused(
        ensue("evaluate", files.model, files.test, "--cutoffs", "10"),
        "--cutoffs means nothing to task suggest; leave it out",
    )
    bad = tmp_path / "bad.csv"
    bad.write_text("user,question\nu1,a\n")
    check_refused(
        ensue("fit", "suggest", bad, "-o", tmp_path / "x"),
        f"{bad}: there is no time, and no session column either, so sessions cannot be separated; the columns are "
        "'user', 'question'; name them with --columns query=…,user=…,time=…, or session=…",
    )
    alone = tmp_path / "alone.csv"
    alone.write_text("session,query\ns1,a\ns2,b\n")
    ran = ensue("fit", "suggest", alone, "-o", tmp_path / "x")
    assert ran.code == 2 and ran.lines[-1].startswith(
        f"ensue: {alone}: no session of 2 or more queries is left after cleaning: "
    )
    check_refused(
        ensue("fit", "link", files.train, "-o", tmp_path / "x", "--min-users", "3"),
        "--min-users means nothing to task link; leave it out",
    )
