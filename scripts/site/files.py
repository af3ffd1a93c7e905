"""The small raw files that the guides begin with: one made-up town, as its people would hold it.

    python scripts/site/files.py FOLDER

The same event as that of ``ensue demo``: a bridge closes; a town posts, passes on, reads and searches for two weeks.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from ensue.demo.town import VALID_DAY, Town, make_town  # noqa: E402
from scripts.site.collectors import write_exports  # noqa: E402


@cache
def town() -> Town:
    """A smaller event than that of the demonstration, so that a laptop learns it in seconds."""
    return make_town(seed=4, num_posts=1000, num_reads=1000, num_searches=800)


def write_all(folder: Path) -> None:
    """Write every file of every guide."""
    folder.mkdir(parents=True, exist_ok=True)
    for write in (write_shares, write_clicks, write_texts, write_searches, write_posts):
        write(folder)
    write_exports(folder, town())


def write_shares(folder: Path) -> None:
    """``shares.csv``, ``new.csv`` of the last posts, ``open.csv`` of one that spreads, ``follows.csv``: who hears."""
    events = [
        (part_name, name, value, _iso(time))
        for part_name, split_part in zip(("shares", "shares", "new"), town().parts, strict=True)
        for record in split_part.records()
        for name, value, time in zip([record.id] * len(record.values), record.values, record.times, strict=True)
    ]
    for name in ("shares", "new"):
        rows = [row[1:] for row in events if row[0] == name]
        _table(folder / f"{name}.csv", ("post_id", "user", "created_at"), rows)
    first = next(record for record in town().parts[2].records() if len(record.values) >= 6)
    open_rows = [(first.id, value, _iso(time)) for value, time in zip(first.values[:4], first.times[:4], strict=True)]
    _table(folder / "open.csv", ("post_id", "user", "created_at"), open_rows)
    _table(folder / "follows.csv", ("followed", "follower"), sorted(town().cascades.edges))


def write_clicks(folder: Path) -> None:
    """``clicks.csv`` and ``last_days.csv``: session_id, item_id, timestamp; as a web server's log is exported."""
    for name, late in (("clicks", False), ("last_days", True)):
        rows = [
            (entry.history.id, value, int(time))
            for entry in town().reading
            if (entry.day > VALID_DAY) == late
            for value, time in zip(entry.history.values, entry.history.times, strict=True)
        ]
        _table(folder / f"{name}.csv", ("session_id", "item_id", "timestamp"), rows)


def write_texts(folder: Path) -> None:
    """``coded.csv`` (text, label), ``control.csv`` coded later, ``posts.csv`` not coded at all."""
    coded = [(entry.post.text, entry.label) for entry in town().posts if entry.label is not None]
    _table(folder / "coded.csv", ("text", "label"), coded[:400])
    _table(folder / "control.csv", ("text", "label"), coded[400:550])
    rows = [(entry.post.id, entry.author, entry.post.text) for entry in town().posts[-200:]]
    _table(folder / "posts.csv", ("id", "author", "text"), rows)


def write_searches(folder: Path) -> None:
    """``searches.tsv`` and ``last_searches.tsv``: user, query, time; as a search box logs it."""
    for name, late in (("searches", False), ("last_searches", True)):
        rows = [
            (entry.person, query, _iso(time))
            for entry in town().searching
            if (entry.day > VALID_DAY) == late
            for query, time in zip(entry.history.values, entry.history.times, strict=True)
        ]
        _table(folder / f"{name}.tsv", ("user", "query", "time"), rows, "\t")


def write_posts(folder: Path) -> None:
    """``stories.csv`` (id, title, body), ``collected.ndjson`` (a post a line) and ``linked.jsonl`` with known links."""
    stories = [(entry.id, entry.title, entry.body) for entry in town().articles]
    _table(folder / "stories.csv", ("id", "title", "body"), stories)
    _table(folder / "story.csv", ("id", "title", "body"), stories[:2])
    posts = town().posts
    lines = [
        json.dumps(
            {"id": entry.post.id, "author": entry.author, "created_at": _iso(entry.time), "text": entry.post.text}
        )
        for entry in posts[:300]
    ]
    (folder / "collected.ndjson").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name, split_part in (("linked", posts[300:700]), ("linked_later", posts[700:900])):
        text = "".join(f"{entry.post.to_json()}\n" for entry in split_part)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def _iso(time: float) -> str:
    return datetime.fromtimestamp(round(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _table(path: Path, names: Sequence[str], rows: Iterable[Sequence[object]], separator: str = ",") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
