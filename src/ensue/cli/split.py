"""The work of ``ensue split``: read, split, and write both sides with column names that every reader knows."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ensue.cli import show
from ensue.cli.command import command_of
from ensue.cli.options import Reading
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.data.test_split import Data, split_data
from ensue.data.texts import Texts
from ensue.errors import SettingError
from ensue.store.folder import write_file
from ensue.tasks.base import Task
from ensue.vocabulary import FIRST


def run(
    task: Task, path: Path, output: Path, test: float, by: str, seed: int, reading: Reading, *, as_json: bool
) -> None:
    """Write ``train`` and ``test`` into the folder ``output``.

    Raises:
        SettingError: one of them exists.
    """
    if existing := [*output.glob("train.*"), *output.glob("test.*")]:
        raise SettingError(f"{min(existing)}: exists already; name another folder with --output")
    train_data, test_data = split_data(command_of(task).read(path, reading), test, seed, by)
    output.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, data in (("train", train_data), ("test", test_data)):
        frame = frame_of(data)
        nested = any(column.dtype.is_nested() for column in frame)
        file = output / f"{name}.{'jsonl' if nested else 'csv'}"
        write_file(file, (frame.write_ndjson() if nested else frame.write_csv()).encode())
        written[name] = {"file": str(file), "rows": len(data)}
    if as_json:
        show.put_json(written)
    for name, side in written.items():
        show.remark(f"wrote {side['file']}: {side['rows']:,} for {'training' if name == 'train' else 'the test'}")


def frame_of(data: Data) -> pl.DataFrame:
    """Return data as a table."""
    if isinstance(data, Texts):
        columns = {"text": data.texts[0], "second": data.texts[1] if data.paired else None, "label": data.labels}
        columns |= {"id": data.ids, "group": data.groups}
        return pl.DataFrame({name: column for name, column in columns.items() if column is not None})
    if isinstance(data, Histories | Queries):
        sessions = data if isinstance(data, Histories) else data.histories
        values = pl.Series("query" if isinstance(data, Queries) else "item", sessions.vocabulary.values)
        rows = sessions.sequence_index()
        names = sessions.names if len(sessions.names) else pl.Series(range(len(sessions)))
        frame = pl.DataFrame([names.gather(rows).alias("session"), values.gather(sessions.ids - FIRST)])
        users = data.people if isinstance(data, Queries) else sessions.ids[:0]
        frame = frame.with_columns(pl.Series("user", users[rows])) if len(users) else frame
        return frame.with_columns(pl.Series("time", sessions.times)) if sessions.timed else frame
    return pl.DataFrame([{"id": post.id, "text": post.text, "about": list(post.about)} for post in data.records()])
