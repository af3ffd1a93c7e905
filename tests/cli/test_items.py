"""Item tables on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from ensue.data.histories import Items
from ensue.data.items import read_items
from ensue.errors import DataError
from tests.cli.conftest import Ensue
from tests.tasks.next.test_item_features import TABLE, sessions


def test_the_command_line_fits_updates_and_lists_similar_items(ensue: Ensue, tmp_path: Path) -> None:
    table = tmp_path / "items.csv"
    table.write_text(TABLE)
    log = tmp_path / "log.csv"
    rows = (f"{row},{item},{60 * row + step}\n" for row, s in enumerate(sessions(1)) for step, item in enumerate(s))
    log.write_text("session,item,time\n" + "".join(rows))
    folder = tmp_path / "m"
    options = ("--model", "core", "--set", "dim=16", "--set", "epochs=6", "--set", "min_steps=150", "--no-refit")
    assert ensue("fit", "next", log, "--items", table, *options, "-o", folder).code == 0
    new = tmp_path / "new.csv"
    new.write_text("sku,title,topic,price,added\nboat99,The fast boat,boat,3.5,2024-01-12\n")
    assert ensue("update", folder, "--items", new).code == 0
    asked = tmp_path / "asked.csv"
    asked.write_text("session,item,time\nq,boat1,1\nq,boat2,2\n")
    answer = json.loads(ensue("predict", folder, asked, "-k", "12", "--json").out)
    shown = {choice["value"]: choice.get("title") for choice in answer["choices"]}
    assert shown["boat99"] == "The fast boat"
    near = json.loads(ensue("similar", folder, "boat99", "-k", "3", "--json").out)
    assert all(choice["value"].startswith("boat") for choice in near["choices"])
    assert "The boat no" in ensue("similar", folder, "boat99").out
    assert ensue("similar", folder, "nobody").code == 2
    brief = ("--models", "core", "--set", "dim=8", "--set", "epochs=1", "--set", "min_steps=1")
    compared = json.loads(ensue("compare", "next", log, "--items", table, *brief, "--json").out)
    by_item = compared["rows"][0]["by_item"]
    assert by_item["new"]["targets"] == 0 < by_item["trained"]["targets"]
    later = tmp_path / "later.csv"
    later.write_text("session,item,time\nq,boat1,1\nq,boat2,2\nq,boat8,3\n")
    scored = ensue("evaluate", folder, later, "--cutoffs", "20")
    assert re.search(r"core +│ trained items +│ 1 ", scored.out) and re.search(r"core +│ new items +│ 1 ", scored.out)
    assert re.search(r"core +│ new items by nearest features +│ 1 ", scored.out)
    assert re.search(r"core +│ new items by popularity +│ 1 ", scored.out)
    result = json.loads(ensue("evaluate", folder, later, "--cutoffs", "20", "--json").out)
    subsets = {row["model"]: row["by_item"]["new"] for row in result["rows"]}
    assert subsets["core"]["hit@20"] == 1 and subsets["core"]["mrr"] > subsets["popularity"]["mrr"]
    assert ensue("fit", "next", log, "--item-columns", "item=sku", *options, "-o", tmp_path / "n").code == 2


def items_of(
    path: Path, columns: dict[str, str] | None = None
) -> tuple[dict[str, list[str | None]], Items, tuple[str, ...]]:
    items, warnings = read_items(path, columns=columns)
    return {name: items.columns[name].to_list() for name in items.columns.columns}, items, warnings


def test_cells_may_hold_lists(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"item_id": ["a", "b", "c"], "tags": [["Red", "blue"], [], ["red"]], "codes": [[1, 2], [2], None]}
    )
    expected = {"tags": ["Red|blue", None, "red"], "codes": ["1|2", "2", None]}
    frame.write_parquet(tmp_path / "items.parquet")
    frame.write_ndjson(tmp_path / "items.jsonl")
    texts = frame.with_columns(pl.col("tags", "codes").map_elements(lambda cell: str(cell.to_list()), pl.String))
    texts.write_csv(tmp_path / "items.csv")
    for name in ("items.parquet", "items.jsonl", "items.csv"):
        cells, items, _ = items_of(tmp_path / name)
        assert cells == expected, name
        assert items.kinds == {"tags": "category", "codes": "category"}


def test_a_column_that_is_left_out_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('{"item_id": "a", "price": 3, "size": {"w": 1}}\n{"item_id": "b", "price": 4, "size": "big"}\n')
    with pytest.raises(DataError, match=r"'size' holds something other .* with --item-columns NAME=ignore"):
        read_items(path)
    assert items_of(path, {"size": "ignore", "size.w": "ignore"})[0] == {"price": ["3", "4"]}


def test_fields_of_inner_objects_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text('{"item_id": "a", "size": {"w": 1, "h": 5}}\n{"item_id": "b", "size": {"w": 2}}\n')
    assert items_of(path)[0] == {"size.w": ["1", "2"], "size.h": ["5", None]}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["1.234,50", "7,5", "12", ""], ["1234.50", "7.5", "12", None]),
        (["1,234.50", "7.5", "1,234,567", ""], ["1234.50", "7.5", "1234567", None]),
        (["1,5", "2,25"], ["1.5", "2.25"]),
        (["1.234", "2.500"], ["1.234", "2.500"]),
    ],
)
def test_numbers_may_have_commas(tmp_path: Path, written: list[str], read: list[str | None]) -> None:
    path = tmp_path / "items.csv"
    rows = "".join(f'i{number};{cell};"thing {number}"\n' for number, cell in enumerate(written))
    path.write_text(f"item_id;price;name\n{rows}")
    cells, items, warnings = items_of(path)
    assert cells["price"] == read and items.kinds["price"] == "number"
    assert bool(warnings) == (written[0] != read[0])
    if warnings:
        assert f"'price' has commas in its numbers: {written[0]} is read as {read[0]}; if this is wrong" in warnings[0]


def test_numbers_that_may_be_two_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("item_id;price;name\na;1,234;the a\nb;2,345;the b\n")
    _, items, _ = items_of(path)
    assert items.left_out == ("price",)
    with pytest.raises(DataError, match="line 2: price '1,234' is not a number"):
        read_items(path, columns={"price": "number"})
