"""Public files in their original layouts: recognised, counted, and their clocks understood."""

import csv
import os
from pathlib import Path

import pytest

from ensue.data.sequences import read

DATA = Path(os.environ.get("ENSUE_DATA", Path(__file__).parents[3] / "../shared/data"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data at {DATA}; set ENSUE_DATA")

# file, layout, unit, since 1970, sequences (the sources' own counts, which are the lines of the files)
FILES = [
    ("hidan/meme-cascades-time-val.gz", "hidan", "s", True, 4249),
    ("hidan/meme-cascades-time-test.gz", "hidan", "s", True, 4250),
    ("hidan/weibo-cascades-time-val.gz", "hidan", "h", False, 4336),
    ("hidan/weibo-cascades-time-test.gz", "hidan", "h", False, 4337),
    ("hidan/twitter-cascades-time-val.gz", "hidan", "h", False, 7210),
    ("hidan/twitter-cascades-time-test.gz", "hidan", "h", False, 7211),
    ("twitter/cascade.txt.gz", "forest", "ms", True, 2768),
    ("twitter/cascadevalid.txt.gz", "forest", "ms", True, 347),
    ("twitter/cascadetest.txt.gz", "forest", "ms", True, 346),
    ("memetracker/cascade.txt.gz", "forest", "h", True, 10131),
    ("memetracker/cascadevalid.txt.gz", "forest", "h", True, 1266),
    ("memetracker/cascadetest.txt.gz", "forest", "h", True, 1266),
    ("hc-exp/hc-exp-cascades-train.gz", "hidan", "h", False, 16000),
    ("hc-exp/hc-exp-cascades-val.gz", "hidan", "h", False, 2000),
    ("hc-exp/hc-exp-cascades-test.gz", "hidan", "h", False, 2000),
    ("cp-exp/net32-cp-exp-cascades.train.gz", "cyan-rnn", "s", False, 18003),
    ("cp-exp/net32-cp-exp-cascades.val.gz", "cyan-rnn", "s", False, 987),
    ("cp-exp/net32-cp-exp-cascades.test.gz", "cyan-rnn", "s", False, 1010),
    ("rd-exp/net32-random-exp-cascades.train.gz", "cyan-rnn", "s", False, 17988),
    ("rd-exp/net32-random-exp-cascades.val.gz", "cyan-rnn", "s", False, 1022),
    ("rd-exp/net32-random-exp-cascades.test.gz", "cyan-rnn", "s", False, 990),
]


@pytest.mark.parametrize(("name", "layout", "unit", "absolute", "sequences"), FILES, ids=[row[0] for row in FILES])
def test_cascades(name: str, layout: str, unit: str, absolute: bool, sequences: int) -> None:
    histories, understood = read(DATA / "cascades" / name)
    assert (understood.layout, understood.unit, understood.absolute) == (layout, unit, absolute)
    assert (len(histories), understood.notes) == (sequences, ())


@pytest.mark.parametrize(("name", "users"), [("hidan/meme", 1109), ("hidan/weibo", 8110), ("hidan/twitter", 13309)])
def test_users_of_both_files(name: str, users: int) -> None:
    files = [DATA / "cascades" / f"{name}-cascades-time-{part}.gz" for part in ("val", "test")]
    assert len({value for file in files for value in read(file)[0].vocabulary.values}) == users


def test_globo() -> None:
    histories, understood = read(DATA / "sessions/globo/clicks.csv.gz")
    assert (len(histories), len(histories.ids), len(histories.vocabulary.values)) == (1_048_594, 2_988_181, 46_033)
    assert understood.columns == {"session": "session", "item": "item", "time": "time_s"}
    assert understood.time.startswith("seconds since 1970 (from the column's name 'time_s'), 2017-10-01 03:00 to")


def test_raw_heads() -> None:
    folder = DATA / "sessions/raw-samples"
    views, understood = read(folder / "sample_train-item-views.csv")
    assert (understood.layout, understood.unit, len(views.ids)) == ("diginetica", "iso", 12391)
    assert understood.notes == (
        "time is the day 'eventdate' plus 'timeframe', milliseconds within the session",
        "1,670 of 2,986 sessions had decreasing times: sorted by time",
    )
    # The session's rows as they stand: 81766 at 526309 ms, 31331 at 1031018, 32118 at 243569, 9654 at 75848, …
    assert views.record(0).values[:3] == ("9654", "33043", "32118")
    assert views.times[0] == 1462752000 + 75.848  # 2016-05-09
    clicks, understood = read(folder / "sample_yoochoose.dat")
    assert (understood.layout, understood.unit, len(clicks.ids)) == ("yoochoose", "iso", 1913)
    assert understood.notes == ("no header: the columns are read as session, time, item, category",)
    visits, understood = read(folder / "sample_retailrocket.csv")
    assert (understood.layout, len(visits.ids), understood.notes) == ("tsv", 10080, ())


def test_diginetica_order_equals_a_plain_loop() -> None:
    path = DATA / "sessions/raw-samples/sample_train-item-views.csv"
    rows: dict[str, list[tuple[str, int, str]]] = {}
    with path.open(newline="") as stream:
        for row in csv.DictReader(stream, delimiter=";"):
            rows.setdefault(row["session_id"], []).append((row["eventdate"], int(row["timeframe"]), row["item_id"]))
    expected = [(name, *(click[2] for click in sorted(clicks, key=lambda c: c[:2]))) for name, clicks in rows.items()]
    assert [(record.id, *record.values) for record in read(path)[0].records()] == expected


@pytest.mark.parametrize(
    ("name", "train", "test", "clicks", "items"),
    [("diginetica", 186_670, 15_963, 982_961, 43_097), ("yoochoose-1-64", 116_167, 15_324, 557_248, 17_745)],
)
def test_plain_sessions(name: str, train: int, test: int, clicks: int, items: int) -> None:
    parts = [read(DATA / "sessions" / name / f"{part}.txt.gz") for part in ("train", "test")]
    assert [understood.layout for _, understood in parts] == ["sessions", "sessions"]
    assert [understood.notes for _, understood in parts] == [(), ()]
    assert [len(histories) for histories, _ in parts] == [train, test]
    assert sum(len(histories.ids) for histories, _ in parts) == clicks
    assert len({value for histories, _ in parts for value in histories.vocabulary.values}) == items
