"""A prepared log is what the reader gives, on every layout with an event a row, wherever pieces and parts end."""

from __future__ import annotations

import gzip
import json
import random
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ensue import DataError, EnsueError, SettingError
from ensue.data.histories import Histories
from ensue.data.schema import SequencesReport
from ensue.data.sequences import batches, prepare, read
from ensue.data.sequences.prepared import MANIFEST, LogSize
from ensue.data.table import ReadOptions
from tests.data.sequences.test_real_files import DATA
from tests.data.sequences.test_sources import same

pytest.importorskip("duckdb", reason="the extra large is not there")

START = 1_400_000_000
STAGES = ("read", "put in order", "written")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 7 rows or some lines, batches of 20 rows, windows of 16."""
    for module, name, value in (
        (batches, "PIECE", 7),
        (batches, "BYTES", 150),
        (batches, "ROWS", 20),
        (prepare, "WINDOW", 16),
    ):
        monkeypatch.setattr(module, name, value)


def log(seed: int = 0, events: int = 150) -> pl.DataFrame:
    """Users that take turns, with pauses, times in no order, and values that come back."""
    chance = random.Random(seed)
    users = [chance.choice([3, 14, 15, 92, 65, 35, 89, 79, -4, 2**40]) for _ in range(events)]
    items = [int(chance.paretovariate(0.7)) % 40 for _ in range(events)]
    times = [START + 500 * at + chance.randrange(-9000, 9000) for at in range(events)]
    return pl.DataFrame({"user_id": users, "item_id": items, "timestamp": times})


def run(path: Path, output: Path, sort: bool = True, gap: float | None = None, **options: Any) -> SequencesReport:
    shutil.rmtree(output, ignore_errors=True)
    report, counts = prepare.prepare([path], output, ReadOptions(**options), sort=sort, gap=gap)
    held = read(output)[0]
    assert counts == LogSize(len(held), len(held.ids), len(held.vocabulary.values))
    return report


def agree(path: Path, output: Path, **options: Any) -> tuple[Histories, SequencesReport]:
    """Prepare, and compare with what the reader gives; the report but for its path, too."""
    report = run(path, output, **options)
    expected, understood = read(path, **options)
    found, again = read(output)
    same(found, expected)
    assert (report, again.path) == (understood, str(output))
    assert again == SequencesReport(**{**vars(understood), "path": str(output)})
    return found, understood


def iso(frame: pl.DataFrame, form: str) -> pl.DataFrame:
    return frame.with_columns(pl.from_epoch("timestamp").dt.strftime(form))


def commas(text: str) -> str:
    """1400000000.5 as 1400000000,5, in a table with semicolons."""
    return text.replace(",", ";").replace(".5", ",5")


QUOTED = 'user_id,item_id,timestamp\n7,"a\nb",5\n' + "".join(
    f'{at % 5},"x, ""{at % 3}""\n{at}",{at}\n' for at in range(40)
)
ROWS = log()
TEXTS: dict[str, Callable[[], str]] = {
    "log.csv": ROWS.write_csv,
    "log.tsv": lambda: ROWS.write_csv(separator="\t"),
    "bare.csv": ROWS.drop("timestamp").write_csv,
    "empty rows.csv": lambda: ROWS.write_csv().replace("\n", "\n,,\n", 40),
    "blank lines.csv": lambda: ROWS.write_csv().replace("\n", "\n\n", 40),
    "quoted.csv": lambda: QUOTED,
    "sessions.csv": ROWS.rename({"user_id": "session_id"}).write_csv,
    "iso.csv": lambda: iso(ROWS, "%Y-%m-%dT%H:%M:%S").write_csv(),
    "month.csv": lambda: iso(ROWS, "%m/%d/%Y %H:%M:%S").write_csv(),
    "day.csv": lambda: iso(ROWS.with_columns(pl.col("timestamp") * 9 - 8 * START), "%d.%m.%Y %H:%M:%S").write_csv(),
    "commas.csv": lambda: commas(ROWS.with_columns(pl.col("timestamp") + 0.5).write_csv()),
    "ms.csv": lambda: ROWS.with_columns(pl.col("timestamp") * 1000).rename({"timestamp": "time_ms"}).write_csv(),
    "log.jsonl": ROWS.write_ndjson,
    "views.csv": lambda: (
        "session_id;user_id;item_id;timeframe;eventdate\n"
        + "".join(f"{at % 9};NA;{at % 13};{997 * at % 5000};2016-05-{9 + at % 9 % 3:02}\n" for at in range(90))
    ),
    "clicks.dat": lambda: "".join(
        f"{at % 9},2014-04-07T10:{at % 60:02}:0{at % 7}.{at % 10}00Z,{at * at % 31},0\n" for at in range(90)
    ),
    "events.csv": lambda: (
        "timestamp,visitorid,event,itemid,transactionid\n"
        + "".join(f"{1433221332117 + 900_000 * (at * 7 % 31)},{at % 9},view,{at % 13},\n" for at in range(90))
    ),
    "log.inter": lambda: (
        "user_id:token\titem_id:token\ttimestamp:float\n"
        + "".join(f"{at % 9}\t{at % 13}\t{START + 997 * at % 5000}\n" for at in range(90))
    ),
}  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", TEXTS)
def test_text(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXTS[name]())
    agree(tmp_path / name, tmp_path / "out")


FRAMES = {
    "numbers": ROWS,
    "short numbers": ROWS.with_columns(pl.col("user_id") % 100, pl.col("item_id").cast(pl.UInt8)),
    "texts": ROWS.cast({"user_id": pl.String, "item_id": pl.String}),
    "categories": ROWS.with_columns(pl.col("user_id", "item_id").cast(pl.String).cast(pl.Categorical)),
    "decimals": ROWS.cast({"user_id": pl.Float64, "item_id": pl.Float32, "timestamp": pl.Float64}),
    "wide numbers": ROWS.with_columns(pl.col("item_id") * 2**50, pl.col("user_id").cast(pl.String)),
    "dates": ROWS.with_columns(pl.from_epoch("timestamp", time_unit="s")),
    "days": ROWS.with_columns(pl.from_epoch("timestamp", time_unit="s").dt.date()),
    "texts of dates": iso(ROWS, "%Y-%m-%d %H:%M:%S"),
    "hours": ROWS.with_columns((pl.col("timestamp") - START) / 3600).rename({"timestamp": "time_h"}),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", FRAMES)
def test_parquet(tmp_path: Path, name: str) -> None:
    FRAMES[name].write_parquet(tmp_path / "log.parquet", row_group_size=30)
    agree(tmp_path / "log.parquet", tmp_path / "out")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "options", [{"gap": 0}, {"gap": 5.5}, {"time_unit": "ms"}, {"columns": {"item": "user_id", "session": "item_id"}}]
)
def test_options(tmp_path: Path, options: dict[str, Any]) -> None:
    ROWS.write_csv(tmp_path / "log.csv")
    agree(tmp_path / "log.csv", tmp_path / "out", **options)


@pytest.mark.usefixtures("small")
def test_a_folder_with_numbers_texts_and_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "day=1").mkdir(parents=True)
    ROWS[:40].write_parquet(folder / "day=1" / "a.parquet")
    ROWS[:0].write_parquet(folder / "b.parquet")
    ROWS[40:].cast({"user_id": pl.String, "item_id": pl.Int32}).write_parquet(folder / "c.parquet")
    _, understood = agree(folder, tmp_path / "out")
    assert understood.notes[0] == "3 files read as one log, ordered by name; 1 file holds no event"


@pytest.mark.usefixtures("small")
def test_a_packed_file(tmp_path: Path) -> None:
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(ROWS.write_csv().encode()))
    agree(tmp_path / "log.csv.gz", tmp_path / "out")


def test_a_file_with_a_sequence_a_row(tmp_path: Path) -> None:
    (tmp_path / "cascades").write_text("".join(f"a{at},b,c:{at},{at + 1},{at + 2}\n" for at in range(9)))
    agree(tmp_path / "cascades", tmp_path / "out")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data at {DATA}; set ENSUE_DATA")
@pytest.mark.parametrize("name", ["sessions/ml-100k"])
def test_real_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(batches, "BYTES", 2**20)
    monkeypatch.setattr(batches, "ROWS", 2**18)
    monkeypatch.setattr(prepare, "WINDOW", 2**17)
    path = DATA / name
    if path.is_dir():
        (path,) = path.glob("*.inter*")
    agree(path, tmp_path / "out")


class KilledError(Exception):
    """What a progress raises that kills."""


@pytest.mark.usefixtures("small")
def test_what_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, output = tmp_path / "log.csv", tmp_path / "out"
    iso(ROWS, "%m/%d/%Y %H:%M:%S").write_csv(path)
    expected, _ = read(path)
    seen = list[tuple[str, int, int]]()
    prepare.prepare([path], output, ReadOptions(), progress=lambda *said: seen.append(said))
    shutil.rmtree(output)
    assert [step for step in STAGES if any(step == said[0] for said in seen)] == list(STAGES)
    reading = sum(said[0] == "read" for said in seen)
    # At every third batch that is read, and at every twentieth step that follows, the last among them.
    for last in (*range(0, reading, 3), *range(len(seen) - 1, reading - 1, -20)):
        steps = iter(range(last))

        def progress(*said: object, steps: Iterator[int] = steps) -> None:
            if next(steps, None) is None:
                raise KilledError

        with pytest.raises(KilledError):
            prepare.prepare([path], output, ReadOptions(), progress=progress)
        assert not output.exists()
        again = list[tuple[str, int, int]]()
        prepare.prepare([path], output, ReadOptions(), progress=lambda *said, to=again: to.append(said))
        same(read(output)[0], expected)
        assert sorted(left.name for left in tmp_path.iterdir()) == ["log.csv", "out"]
        read_again = [said for said in again if said[0] == "read"]
        # Of 8 batches and the line at the end, after 3 batches 5 are left and that line.
        assert len(read_again) == max(0, reading - last - 2) + 1
        shutil.rmtree(output)


@pytest.mark.usefixtures("small")
def test_other_files_or_options_begin_anew(tmp_path: Path) -> None:
    path, output = tmp_path / "log.csv", tmp_path / "out"
    ROWS.write_csv(path)

    def kill(*said: object) -> None:
        raise KilledError

    changes: list[Callable[[], object]] = [lambda: log(1).write_csv(path), lambda: None]
    for change in changes:
        with pytest.raises(KilledError):
            prepare.prepare([path], output, ReadOptions(), progress=kill)
        change()
        prepare.prepare([path], output, ReadOptions(), gap=5)
        same(read(output)[0], read(path, gap=5)[0])
        shutil.rmtree(output)


@pytest.mark.usefixtures("small")
def test_half_a_batch_is_read_again(tmp_path: Path) -> None:
    path, output = tmp_path / "log.csv", tmp_path / "out"
    ROWS.write_csv(path)

    def kill(step: str, *said: object) -> None:
        if step != "read":
            raise KilledError

    with pytest.raises(KilledError):
        prepare.prepare([path], output, ReadOptions(), progress=kill)
    work = tmp_path / ".out.preparing"
    (work / "000001.parquet").write_bytes((work / "000001.parquet").read_bytes()[:-4])
    prepare.prepare([path], output, ReadOptions())
    same(read(output)[0], read(path)[0])


def refused(path: Path, error: type[EnsueError] = DataError, output: str = "out", **options: Any) -> str:
    folder = path.parent / output
    with pytest.raises(error) as caught:
        prepare.prepare([path], folder, ReadOptions(**options.pop("options", {})), **options)
    assert not folder.exists() or output != "out"
    assert bool([*path.parent.glob(".*")]) == ("cannot be written" in str(caught.value))
    return str(caught.value).replace(f"{path.parent}/", "")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            "7,,1400000000",
            "log.csv, line 102: column 'item_id' is empty; every event needs the item: leave such rows out with "
            "--missing "
            "drop",
        ),
        ("7,1", "log.csv, line 102: 2 fields, but the header has 3; is a quote left open?"),
        (
            "7,1,",
            "log.csv, line 102: time is empty; give every event a time, or leave such rows out with --missing drop",
        ),
        ("7,1,soon", "log.csv, line 102: time 'soon' is not a time; use seconds since 1970, ISO 8601, or --time-unit"),
        (
            "7,1,1400000000000",
            "log.csv, line 102: time 1400000000000 looks like milliseconds since 1970, but others, such as "
            "1400000487, look "
            "like seconds; give all times in one unit",
        ),
    ],
)
def test_errors_name_the_line(tmp_path: Path, row: str, expected: str) -> None:
    lines = ROWS.write_csv().splitlines()
    (tmp_path / "log.csv").write_text("\n".join([*lines[:101], row, *lines[101:]]))
    assert refused(tmp_path / "log.csv") == expected


@pytest.mark.usefixtures("small")
def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    ROWS.write_csv(path)
    found = refused(path, sort=False)
    assert found.startswith("log.csv: sequence '") and found.endswith("remove --no-sort")
    ROWS.drop("timestamp").write_csv(path)
    assert refused(path, SettingError, gap=30) == (
        "log.csv: has no times, so --session-gap cannot cut sessions; remove --session-gap"
    )
    assert refused(path, SettingError, gap=-1).startswith("gap: -1 is not a pause")
    path.write_text("user_id,item_id\n")
    assert refused(path) == "log.csv: none of 1 file holds an event"
    (tmp_path / "there").mkdir()
    expected = "there: already exists; choose another folder, or remove it first"
    assert refused(path, SettingError, "there") == expected
    assert refused(tmp_path / "none.csv") == "none.csv: no such file; check the name"
    log().rename({"item_id": "thing"}).write_csv(path)
    assert refused(path).startswith("log.csv: no column is recognised as the item; the columns are 'user_id', 'thing'")


@pytest.mark.usefixtures("small")
def test_times_of_two_kinds(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    iso(ROWS[:30], "%Y-%m-%d").write_csv(folder / "a.csv")
    ROWS[30:].write_csv(folder / "b.csv")
    assert refused(folder) == (
        "logs/b.csv, line 2: times are numbers here, but ISO dates at logs/a.csv, line 2; write all times in the "
        "same way"
    )


@pytest.mark.usefixtures("small")
def test_a_full_disk_leaves_nothing_and_the_same_command_goes_on(tmp_path: Path) -> None:
    path, output = tmp_path / "log.csv", tmp_path / "out"
    log(events=400).write_csv(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        found = refused(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found.startswith("out: cannot be written (")
    assert found.endswith("); nothing was written; the same command resumes once there is space")
    prepare.prepare([path], output, ReadOptions())
    same(read(output)[0], read(path)[0])


def test_a_damaged_folder(tmp_path: Path) -> None:
    path, output = tmp_path / "log.csv", tmp_path / "out"
    ROWS.write_csv(path)
    run(path, output)

    def said() -> str:
        with pytest.raises(DataError) as caught:
            read(output)
        return str(caught.value).removeprefix(f"{output}: ")

    whole = (output / "ids").read_bytes()
    for bad in (whole[:-4], whole[:-4] + b"abcd"):
        (output / "ids").write_bytes(bad)
        assert said() == "ids is damaged or was replaced; run `ensue prepare` again"
    (output / "ids").unlink()
    assert said() == "ids cannot be read (No such file or directory); run `ensue prepare` again"
    (output / "ids").write_bytes(whole)
    manifest = json.loads((output / MANIFEST).read_text())
    (output / MANIFEST).write_text(json.dumps({**manifest, "format": 99}))
    assert said().startswith("was prepared by a newer ensue (")
    (output / MANIFEST).write_text("[]")
    assert said().startswith(f"{MANIFEST} is not what `ensue prepare` writes")
    (output / MANIFEST).write_text(json.dumps({**manifest, "report": {}}))
    assert said().startswith(f"{MANIFEST} is damaged (")


def test_columns_are_mapped_and_never_written(tmp_path: Path) -> None:
    ROWS.write_csv(tmp_path / "log.csv")
    run(tmp_path / "log.csv", tmp_path / "out")
    histories, _ = read(tmp_path / "out")
    for column in (histories.ids, histories.offsets, histories.times):
        assert isinstance(column.base, np.memmap)
    before = (tmp_path / "out" / "ids").read_bytes()
    histories.ids[0] += 1
    assert (tmp_path / "out" / "ids").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"gap": 0}, "--session-gap"),
        ({"columns": {"item": "x"}}, "--columns"),
        ({"time_unit": "s"}, "--time-unit"),
        ({"sort": False}, "--no-sort"),
        ({"encoding": "cp1252"}, "--encoding"),
    ],
)
def test_a_prepared_log_was_read(tmp_path: Path, options: dict[str, Any], name: str) -> None:
    ROWS.write_csv(tmp_path / "log.csv")
    run(tmp_path / "log.csv", tmp_path / "out")
    with pytest.raises(SettingError) as caught:
        read(tmp_path / "out", **options)
    assert str(caught.value) == (
        f"{tmp_path / 'out'}: is a prepared log; remove {name} here and give it to `ensue prepare`"
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("form", ["csv", "parquet", "folder"])
def test_a_large_log_goes_through_a_folder_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    path = tmp_path / f"log.{form}"
    if form == "folder":
        path.mkdir()
    ROWS.write_csv(path) if form == "csv" else ROWS.write_parquet(path / "a.parquet" if form == "folder" else path)
    expected, before = read(path)
    monkeypatch.setattr("ensue.data.sequences.LARGE_ROWS", 100)
    monkeypatch.setattr("ensue.data.sequences.LARGE_BYTES", 2000)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    found, understood = read(path)
    same(found, expected)
    assert isinstance(found.ids.base, np.memmap)
    assert understood.notes[:-1] == before.notes
    assert understood.notes[-1] == (
        f"the log is large (more than 100 rows of Parquet, or 2e-06 GB of text) and was prepared in {tmp_path} "
        "first; `ensue prepare` does that once for all commands"
    )
    assert [*tmp_path.iterdir()] == [path]
