"""Item tables on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

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
