"""Logs with an event type a row: ``check`` says which there are, and ``--events`` chooses in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ensue import SettingError, load
from tests.cli.conftest import Ensue

ROWS = [(f"s{row}", "abcde"[(row + step) % 5], step) for row in range(12) for step in range(4)]
HEADER = "session,item,time,action"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Four views a session, the second item put into the cart and bought at once."""
    lines = [HEADER]
    for number, (session, item, step) in enumerate(ROWS):
        time = 1_700_000_000 + 600 * number
        lines.append(f"{session},{item},{time},view")
        lines += [f"{session},{item},{time + 9},cart", f"{session},{item},{time + 20},purchase"] * (step == 1)
    path = tmp_path / "shop.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_check_names_the_types_and_the_option(ensue: Ensue, shop: Path) -> None:
    warning = (
        "warning: column 'action' holds 3 event types, 'view' 48, 'cart' 12, 'purchase' 12: all are treated the "
        "same; choose the types to predict, such as --events view"
    )
    assert warning in ensue("check", shop).out.splitlines()
    chosen = ensue("check", shop, "--events", "view,purchase")
    assert "event types" not in chosen.out and chosen.cells[:2] == [("sessions", "12", ""), ("events", "60", "")]
    assert "  note: only events of type view, purchase are read ('action')" in chosen.lines
    assert "  note: event types that are not read: 'cart' 12" in chosen.lines
    shop.write_text(shop.read_text().replace(",cart", ","))
    assert "  note: event types that are not read: '' 12" in ensue("check", shop, "--events", "view,purchase").lines


def test_a_log_without_any_type_of_the_training_data_is_refused(ensue: Ensue, shop: Path, tmp_path: Path) -> None:
    assert ensue("fit", "next", shop, "--events", "view", "-o", tmp_path / "m", "--model", "markov").code == 0
    other = tmp_path / "other.csv"
    other.write_text(shop.read_text().replace("view", "click").replace("cart", "View"))
    ran = ensue("evaluate", tmp_path / "m", other)
    assert ran.code == 2
    assert ran.err.strip() == (
        f"ensue: {other}: no row has an event type of the training data (view); there are 'click' 48, 'View' 12, "
        "'purchase' 12; choose some with --events"
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "folder", "prepared"])
def test_every_command_reads_the_chosen_types(ensue: Ensue, shop: Path, tmp_path: Path, kind: str) -> None:
    import polars as pl

    frame, path = pl.read_csv(shop), tmp_path / f"log.{kind}"
    if kind == "jsonl":
        frame.write_ndjson(path)
    elif kind == "parquet":
        frame.write_parquet(path)
    elif kind == "folder":
        path.mkdir()
        for part in range(2):
            frame[part * 36 : part * 36 + 36].write_csv(path / f"{part}.csv")
    elif kind == "prepared":
        pytest.importorskip("duckdb", reason="the extra large is not there")
        assert ensue("prepare", shop, "-o", path, "--events", "view").code == 0
    else:
        path = shop
    options = () if kind == "prepared" else ("--events", "view")
    fitted = ensue("fit", "next", path, "-o", tmp_path / "m", "--model", "markov", *options)
    assert fitted.code == 0, fitted.err
    facts = json.loads((tmp_path / "m" / "settings.json").read_text())["facts"]
    assert (facts["events"], facts["reading"]["events"], facts["reading"]["columns"]["kind"]) == (48, "view", "action")
    found = json.loads(ensue("evaluate", tmp_path / "m", shop, "--json").out)  # the folder remembers
    assert found["protocol"]["data"] == "12 sessions, 48 events"
    found = json.loads(ensue("evaluate", tmp_path / "m", shop, "--json", "--events", "view,cart").out)
    assert found["protocol"]["data"] == "12 sessions, 60 events"
    plain = tmp_path / "plain.csv"
    plain.write_text("session,item,time\n" + "".join(f"{s},{i},{1_700_000_000 + 600 * t}\n" for s, i, t in ROWS))
    found = json.loads(ensue("evaluate", tmp_path / "m", plain, "--json").out)  # a log of views alone
    assert found["protocol"]["data"] == "12 sessions, 48 events"


def test_what_cannot_be_chosen_is_refused(ensue: Ensue, shop: Path, tmp_path: Path) -> None:
    for options, message in (
        (
            ("--events", "view,buy"),
            f"{shop}: --events buy: no row has this event type; there are 'view' 48, 'cart' 12, ",
        ),
        (("--events", "view", "--columns", "kind=kind"), f"{shop}: column 'kind' (kind) is missing; "),
        (("--columns", "kind=action"), "columns: kind=action needs --events, the event types that are read"),
    ):
        ran = ensue("check", shop, *options)
        assert ran.code == 2 and ran.lines[-1].startswith(f"ensue: {message}")
    bare = tmp_path / "bare.csv"
    bare.write_text("session,item,time,how\n" + "".join(f"s,{item},{place},view\n" for place, item in enumerate("abc")))
    ran = ensue("check", bare, "--events", "view")
    assert ran.code == 2 and ran.lines[-1].endswith("name it with --columns kind=…")
    assert ensue("check", bare, "--events", "view", "--columns", "sequence=session,kind=how").code == 2
    named = ensue("check", bare, "--events", "view", "--columns", "session=session,item=item,time=time,kind=how")
    assert named.code == 0 and named.cells[:2] == [("sessions", "1", ""), ("events", "3", "")]
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"values": ["a", "b"]}\n')
    ran = ensue("check", lists, "--events", "view")
    assert (ran.code, ran.lines[-1]) == (
        2,
        f"ensue: {lists}: the layout jsonl histories has no column of event types; remove --events",
    )
    assert ensue("fit", "classify", shop, "--events", "view", "-o", tmp_path / "c").lines[-1] == (
        "ensue: --events means nothing to task classify; leave it out"
    )
    assert "--events buy: no row has this event type" in ensue("check", shop, "--events", "buy").err
    assert json.loads(ensue("check", shop, "--events", "cart", "--json").out)["events"] == 12


def test_an_update_refuses_a_prepared_log_where_kinds_have_weights(ensue: Ensue, shop: Path, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="the extra large is not there")
    folder, log = tmp_path / "m", tmp_path / "prepared"
    weights = ("--events", "view=1,purchase=5")
    assert ensue("fit", "next", shop, *weights, "-o", folder, "--model", "markov").code == 0
    assert ensue("prepare", shop, "-o", log, "--events", "view,purchase").code == 0
    message = (
        "a prepared log stores no weights of events, but the model was trained with view=1,purchase=5; give the log"
    )
    ran = ensue("update", folder, log)
    assert ran.code == 2 and ran.err.startswith(f"ensue: {log}: {message}")
    with pytest.raises(SettingError, match="a prepared log stores no weights"):
        load(folder).update(log)
    # Scores do not depend on weights.
    assert ensue("evaluate", folder, log).code == 0
