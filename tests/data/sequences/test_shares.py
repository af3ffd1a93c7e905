"""Shares of a log, each prepared alone, come to the bytes that the whole log comes to."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ensue import DataError, EnsueError, SettingError
from ensue.data.sequences import prepare
from ensue.data.sequences.batches import MANIFEST, Share
from ensue.data.table import ReadOptions
from tests.data.sequences.test_prepare import KilledError, iso, log, small

__all__ = ["small"]  # a fixture
pytestmark = pytest.mark.usefixtures("small")


def write(folder: Path, form: str) -> Path:
    """Seven files, one of them large and one empty, by one of several ways to write a log."""
    folder.mkdir()
    rows = log(events=260)
    if form in ("texts", "iso"):
        long = pl.col("item_id").cast(pl.String) + " is a value with a long name"
        rows = iso(rows, "%m/%d/%Y %H:%M:%S").with_columns(long)
    ends = [0, 3, 140, 141, 180, 180, 200, 260]
    for number, (low, high) in enumerate(pairwise(ends)):
        part, path = rows[low:high], folder / f"part-{number}"
        part.write_csv(path.with_suffix(".csv")) if form == "iso" else part.write_parquet(path.with_suffix(".parquet"))
    return folder


def whole(path: Path, output: Path, **options: Any) -> tuple[object, dict[str, bytes]]:
    shutil.rmtree(output, ignore_errors=True)
    found = prepare.prepare([path], output, ReadOptions(), **options)
    held = {file.name: file.read_bytes() for file in output.iterdir()}
    shutil.rmtree(output)
    return found, held


@pytest.mark.parametrize(("form", "of"), [("numbers", 1), ("texts", 3), ("iso", 7)])
def test_shares_in_any_order_come_to_the_same_bytes(tmp_path: Path, form: str, of: int) -> None:
    path, output = write(tmp_path / "logs", form), tmp_path / "out"
    expected = whole(path, output, gap=100)
    numbers = [*range(1, of + 1)]
    random.Random(of).shuffle(numbers)
    events = 0
    for number in numbers:
        folder, found = prepare.prepare_share([path], output, ReadOptions(), Share(number, of), gap=100)
        assert folder == tmp_path / "out.shares" / f"{number}-of-{of}"
        events += found
    assert events == 260
    assert whole(path, output, gap=100, merge=True) == expected


def test_shares_are_of_about_the_same_size() -> None:
    def shared(sizes: list[int], of: int) -> list[tuple[int, int]]:
        return [Share(number, of).of_files(sizes) for number in range(1, of + 1)]

    assert shared([1] * 8, 4) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert shared([9, 1, 1, 1], 2) == [(0, 1), (1, 4)]
    assert shared([1, 1, 1, 9], 3) == [(0, 2), (2, 3), (3, 4)]
    chance = random.Random(1)
    for _ in range(200):
        sizes = [chance.randrange(100) for _ in range(chance.randrange(1, 30))]
        of = chance.randrange(1, len(sizes) + 1)
        bounds = shared(sizes, of)
        assert bounds[0][0] == 0 and bounds[-1][1] == len(sizes)
        assert all(low < high for low, high in bounds)
        assert all(one[1] == other[0] for one, other in pairwise(bounds))


@pytest.mark.parametrize("merge", [False, True])
def test_what_was_killed_goes_on(tmp_path: Path, merge: bool) -> None:
    path, output = write(tmp_path / "logs", "texts"), tmp_path / "out"
    expected = whole(path, output)
    if merge:
        for number in (1, 2):
            prepare.prepare_share([path], output, ReadOptions(), Share(number, 2))

    def step(progress: Callable[..., None]) -> None:
        if merge:
            prepare.prepare([path], output, ReadOptions(), merge=True, progress=progress)
        else:
            prepare.prepare_share([path], output, ReadOptions(), Share(1, 2), progress=progress)

    for last in range(0, 100, 2):
        steps = iter(range(last))

        def killing(*said: object, steps: Iterator[int] = steps) -> None:
            if next(steps, None) is None:
                raise KilledError

        try:
            step(killing)
        except KilledError:
            continue
        break
    assert last > 2
    if merge:
        assert {file.name: file.read_bytes() for file in output.iterdir()} == expected[1]
    else:
        prepare.prepare_share([path], output, ReadOptions(), Share(2, 2))
        assert whole(path, output, merge=True) == expected


def refused(path: Path, output: Path, error: type[EnsueError] = DataError, **options: Any) -> str:
    with pytest.raises(error) as caught:
        prepare.prepare([path], output, ReadOptions(), merge=True, **options)
    assert not output.exists()
    return str(caught.value).replace(f"{output.parent}/", "")


def test_what_is_refused(tmp_path: Path) -> None:
    path, output = write(tmp_path / "logs", "numbers"), tmp_path / "out"
    shares = tmp_path / "out.shares"
    assert refused(path, output) == "out.shares: holds no share; prepare each with --share 1/N, 2/N, … first"
    for number in (1, 3):
        prepare.prepare_share([path], output, ReadOptions(), Share(number, 4))
    assert refused(path, output) == "out.shares: '2/4', '4/4' of all shares are missing; prepare --share 2/4"
    for number in (2, 4):
        prepare.prepare_share([path], output, ReadOptions(), Share(number, 4))
    with pytest.raises(SettingError, match="4-of-4: already exists"):
        prepare.prepare_share([path], output, ReadOptions(), Share(4, 4))
    assert refused(path, output, gap=5.0).startswith(
        "out.shares/1-of-4: was prepared with gap None, and here it is 5.0;"
    )
    prepare.prepare_share([path], output, ReadOptions(), Share(1, 2))
    assert refused(path, output) == "out.shares: holds shares of 2 and 4, which overlap; remove those of one number"
    shutil.rmtree(shares / "1-of-2")
    shutil.move(shares / "2-of-4", tmp_path / "second")
    shutil.copytree(shares / "3-of-4", shares / "2-of-4")
    assert refused(path, output).startswith("out.shares/2-of-4: holds share 3 of 4, which overlaps; remove that folder")
    shutil.rmtree(shares / "2-of-4")
    shutil.move(tmp_path / "second", shares / "2-of-4")
    held = (shares / "2-of-4" / "000000.parquet").read_bytes()
    (shares / "2-of-4" / "000000.parquet").write_bytes(held[:-4])
    assert refused(path, output).startswith("out.shares/2-of-4: is damaged or incomplete")
    (shares / "2-of-4" / "000000.parquet").write_bytes(held)
    manifest = (shares / "2-of-4" / MANIFEST).read_text()
    for bad in ("", "[]", json.dumps({**json.loads(manifest), "of": "4"}), manifest[:-9]):
        (shares / "2-of-4" / MANIFEST).write_text(bad)
        assert refused(path, output).startswith(f"out.shares/2-of-4: {MANIFEST} cannot be read (")
    (shares / "2-of-4" / MANIFEST).write_text(manifest)
    pl.read_parquet(path / "part-0.parquet")[:2].write_parquet(path / "part-0.parquet")
    assert "out.shares/1-of-4: has read part-0.parquet of " in refused(path, output)
    (path / "part-0.parquet").unlink()
    assert "; give all shares the same files, or remove that folder" in refused(path, output)


@pytest.mark.parametrize("text", ["", "2", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/3/5"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(SettingError, match="is not a share; write 2/8 for the second of eight"):
        Share.parse(text)


def test_more_shares_than_files(tmp_path: Path) -> None:
    path = write(tmp_path / "logs", "numbers")
    with pytest.raises(SettingError, match=r"--share 1/8: 7 files can be shared by 7 at most"):
        prepare.prepare_share([path], tmp_path / "out", ReadOptions(), Share(1, 8))


def test_times_of_two_kinds_in_two_shares(tmp_path: Path) -> None:
    path, output = tmp_path / "logs", tmp_path / "out"
    path.mkdir()
    rows = log()
    iso(rows[:30], "%Y-%m-%d").write_csv(path / "a.csv")
    rows[30:].write_csv(path / "b.csv")
    for number in (1, 2):
        prepare.prepare_share([path], output, ReadOptions(), Share(number, 2))
    expected = (
        "logs/b.csv, line 2: times are numbers here, but ISO dates at logs/a.csv, line 2; write all times in the "
        "same way"
    )
    assert refused(path, output).replace(f"{tmp_path}/", "") == expected
