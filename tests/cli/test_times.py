"""Times as logs of all kinds write them: one moment in many forms, what is warned of, and what is refused."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
import xlsxwriter

from ensue import DataError, SettingError
from ensue.data.queries import read_queries
from ensue.data.schema import DataSchema
from ensue.data.sequences import read
from ensue.data.sequences.prepare import prepare
from ensue.data.sequences.prepared import read_prepared
from ensue.data.table import ReadOptions
from tests.cli.conftest import Ensue

MOMENT = 1700000000  # 2023-11-14 22:13:20 UTC
FORMS = {
    "seconds": ("1700000000", MOMENT),
    "fractional seconds": ("1700000000.25", MOMENT + 0.25),
    "milliseconds": ("1700000000123", MOMENT + 0.123),
    "microseconds": ("1700000000123456", MOMENT + 0.123456),
    "nanoseconds": ("1700000000123456789", MOMENT + 0.123457),
    "thousands": ('"1,700,000,000"', MOMENT),
    "excel": ("45244.9259259259", MOMENT),
    "iso": ("2023-11-14T22:13:20", MOMENT),
    "iso, space": ("2023-11-14 22:13:20", MOMENT),
    "iso, Z": ("2023-11-14T22:13:20Z", MOMENT),
    "iso, offset": ("2023-11-14T23:13:20+01:00", MOMENT),
    "iso, offset after a space": ("2023-11-14 17:43:20 -0430", MOMENT),
    "iso, hour alone": ("2023-11-14 23:13:20+01", MOMENT),
    "bigquery": ("2023-11-14 22:13:20.123456 UTC", MOMENT + 0.123456),
    "bigquery, whole": ("2023-11-14 22:13:20 UTC", MOMENT),
    "go": ("2023-11-14 22:13:20.123456789 +0000 UTC", MOMENT + 0.123456),
    "decimal comma": ('"2023-11-14 22:13:20,250"', MOMENT + 0.25),
    "slashes, year first": ("2023/11/14 22:13:20", MOMENT),
    "no leading zeros": ("2023-11-14 22:13:20", MOMENT),
    "afternoon": ("2023-11-14 10:13:20 PM", MOMENT),
    "compact": ("20231114T221320Z", MOMENT),
    "compact number": ("20231114221320", MOMENT),
    "compact day": ("20231114", MOMENT - 80_000),
    "day": ("2023-11-14", MOMENT - 80_000),
    "twitter": ("Tue Nov 14 22:13:20 +0000 2023", MOMENT),
    "ctime": ("Tue Nov 14 22:13:20 2023", MOMENT),
    "java": ("Tue Nov 14 22:13:20 UTC 2023", MOMENT),
    "rfc 2822": ('"Tue, 14 Nov 2023 23:13:20 +0100"', MOMENT),
    "http": ('"Tue, 14 Nov 2023 22:13:20 GMT"', MOMENT),
    "javascript": ("Tue Nov 14 2023 23:13:20 GMT+0100 (Central European Standard Time)", MOMENT),
    "facebook": ('"November 14, 2023 10:13:20 PM"', MOMENT),
    "takeout": ('"Nov 14, 2023, 10:13:20 PM UTC"', MOMENT),
    "oracle": ("14-Nov-2023 22:13:20", MOMENT),
    "day first": ("14/11/2023 22:13:20", MOMENT),
    "month first": ("11/14/2023 10:13:20 PM", MOMENT),
    "points": ("14.11.2023 22:13:20", MOMENT),
}


def write(folder: Path, *times: object, name: str = "log.csv", column: str = "timestamp") -> Path:
    """Write a log with one session for two events."""
    path = folder / name
    rows = [f"s{number // 2},i{number},{time}" for number, time in enumerate(times)]
    path.write_text("\n".join([f"session_id,item_id,{column}", *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("form", FORMS)
def test_one_moment_in_many_forms(tmp_path: Path, form: str) -> None:
    text, expected = FORMS[form]
    histories, report = read(write(tmp_path, text, text))
    assert histories.times.tolist() == [pytest.approx(expected, abs=1e-6)] * 2
    assert report.absolute
    assert not report.warnings


@pytest.mark.parametrize(
    ("dtype", "zone"),
    [(pl.Datetime(unit, zone), zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")],
)
def test_parquet_of_any_unit_and_zone(tmp_path: Path, dtype: pl.Datetime, zone: str | None) -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, tzinfo=ZoneInfo("UTC"))
    local = moment.replace(tzinfo=None) if zone is None else moment.astimezone(ZoneInfo(zone))
    times = pl.Series("timestamp", [local, local + timedelta(seconds=1)], dtype)
    pl.DataFrame({"session_id": ["s", "s"], "item_id": ["a", "b"], "timestamp": times}).write_parquet(tmp_path / "a.pq")
    assert read(tmp_path / "a.pq")[0].times.tolist() == [MOMENT, MOMENT + 1]


def test_days_and_times_of_day(tmp_path: Path) -> None:
    frame = pl.DataFrame({"session_id": ["s", "s"], "item_id": ["a", "b"], "date": [date(2023, 11, 14)] * 2})
    frame.write_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[0].times.tolist() == [MOMENT - 80_000] * 2
    clock = pl.Series("time", [datetime(2023, 11, 14, 22).time()] * 2)
    frame.drop("date").with_columns(clock).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(
        DataError, match=r"b\.parquet row 1: column 'time' has times of day without a date; add the date"
    ):
        read(tmp_path / "b.parquet")


def test_excel_days_cut_sessions_and_date_cells_are_dates(tmp_path: Path) -> None:
    path = tmp_path / "serial.csv"
    path.write_text(
        "user_id,item_id,timestamp\nu1,a,45231.5\nu1,b,45231.51\nu1,d,45232.7\nu2,a,45231.5\nu2,c,45233.5\n"
    )
    histories, report = read(path)
    assert [record.values for record in histories.records()] == [("a", "b"), ("d",), ("a",), ("c",)]
    assert histories.times[1] - histories.times[0] == 864
    assert report.time == (
        "Excel days since 1899-12-30 (inferred: all from 20,000 to 60,000), 2023-11-01 12:00 to 2023-11-03 12:00"
    )
    with xlsxwriter.Workbook(tmp_path / "cells.xlsx") as book:
        page = book.add_worksheet()
        format_ = book.add_format({"num_format": "dd/mm/yyyy hh:mm:ss"})
        page.write_row(0, 0, ["session_id", "item_id", "timestamp", "days"])
        for row in (1, 2):
            page.write_row(row, 0, ["s", f"i{row}"])
            page.write_datetime(row, 2, datetime(2023, 11, 14, 22, 13, 20), format_)
            page.write_number(row, 3, 45244.9259259259)
    assert read(tmp_path / "cells.xlsx")[0].times.tolist() == [MOMENT] * 2
    days, said = read(tmp_path / "cells.xlsx", columns={"time": "days"}, time_unit="days")
    assert days.times.tolist() == [MOMENT] * 2
    assert said.unit == "days"


def test_seconds_of_a_day_are_no_excel_days(tmp_path: Path) -> None:
    for times, column in (((20_000, 59_000), "time"), ((45_231.5, 45_231.6), "position")):
        assert read(write(tmp_path, *times, column=column), columns={"time": column})[1].unit == "s"


@pytest.mark.parametrize(
    ("times", "warning"),
    [
        (
            [1704100000, 1704100010, 0, 1704100021, -1, 1704100021],
            "2 of 6 events are years apart from the others (2024-01-01 09:06 to 2024-01-01 09:07): {0}, line 6: -1, "
            "{0}, line 4: 0",
        ),
        (
            ["0001-01-01T00:00:00Z", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z", "9999-12-31T00:00:00Z"],
            "2 of 4 events are years apart from the others (2024-01-01 00:00 to 2024-01-01 00:00): {0}, line 2: "
            "0001-01-01T00:00:00Z, {0}, line 5: 9999-12-31T00:00:00Z",
        ),
        (
            [*(1700000000000 + 1000 * step for step in range(40)), 0],
            "1 of 41 events is years apart from the others (2023-11-14 22:13 to 2023-11-14 22:13): {0}, line 42: 0",
        ),
        (
            [253402300799, *(1700000000 + step for step in range(40))],
            "1 of 41 events is years apart from the others (2023-11-14 22:13 to 2023-11-14 22:13): {0}, line 2: "
            "253402300799",
        ),
    ],
)
def test_events_years_apart_are_counted(tmp_path: Path, ensue: Ensue, times: list[object], warning: str) -> None:
    path = write(tmp_path, *times)
    advice = "; correct the time or remove the event, because order and splits depend on it"
    _, report = read(path)
    assert report.warnings == (warning.format(path) + advice,)
    ran = ensue("check", path)
    assert f"warning: {report.warnings[0]}" in ran.out
    assert "warning:" not in ran.err, "check prints each warning once"
    pytest.importorskip("duckdb", reason="the extra large is not there")
    prepare([path], tmp_path / "prepared", ReadOptions(), sort=True, gap=None)
    prepared, again = read_prepared(tmp_path / "prepared")
    assert again.warnings == report.warnings
    assert (again.time, sorted(prepared.times)) == (report.time, sorted(read(path)[0].times))


def test_a_long_log_has_no_outliers(tmp_path: Path) -> None:
    years = [f"{year}-06-01" for year in (2001, *range(2012, 2024))]
    assert not read(write(tmp_path, *years, *years))[1].warnings


REFUSED: dict[str, tuple[list[object], bool | None, str]] = {
    "spreadsheet": (["1.7041E+09"] * 2, None, "log.csv, line 2: time 1.7041E+09 was cut to 5 digits by a spreadsheet"),
    "two units": (
        [1700000000, 1700000001, 1700000002000],
        None,
        "log.csv, line 4: time 1700000002000 looks like milliseconds",
    ),
    "ns among us": ([1700000000000000, 1700000000000001, 1700000000000000002], None, "looks like nanoseconds"),
    "no order": (
        ["03/04/2024", "05/06/2024"],
        None,
        "log.csv, line 2: time '03/04/2024' may be day-first or month-first",
    ),
    "against --day-first": (["03/14/2024"] * 2, True, "begins with the month, which contradicts --day-first"),
    "against --month-first": (["14/03/2024"] * 2, False, "begins with the day, which contradicts --month-first"),
    "unknown zone": (
        ["2023-11-14 22:13:20 CET"] * 2,
        None,
        "log.csv, line 2: time '2023-11-14 22:13:20 CET' is not a time",
    ),
    "two digits of a year": (["14/11/23"] * 2, None, "log.csv, line 2: time '14/11/23' is not a time"),
    "no such day": (["2023-11-14", "2023-02-30"], None, "log.csv, line 3: time '2023-02-30' is not a time"),
    "a zero among dates": (
        ["2023-11-14", "2023-11-15", "0"],
        None,
        "log.csv, line 4: time '0' is not a time",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    times, day_first, message = REFUSED[case]
    with pytest.raises(DataError, match=re.escape(message)):
        read(write(tmp_path, *times), day_first=day_first)


def test_a_stated_order_of_day_and_month(tmp_path: Path, ensue: Ensue) -> None:
    path = write(tmp_path, "03/04/2024", "03/04/2024")
    assert (
        read(path, day_first=True)[1].time
        == "dates as day/month/year, read as UTC, 2024-04-03 00:00 to 2024-04-03 00:00"
    )
    assert read(path, day_first=False)[0].times[0] == datetime(2024, 3, 4, tzinfo=ZoneInfo("UTC")).timestamp()
    ran = ensue("check", path)
    assert ran.code == 2
    assert "set --day-first or --month-first" in ran.err
    assert "dates as month/day/year" in ensue("check", path, "--month-first").err


@pytest.mark.parametrize("unit", ["us", "ns", "days", "iso"])
def test_units_can_be_stated(tmp_path: Path, ensue: Ensue, unit: str) -> None:
    text = {"us": "1700000000000000", "ns": "1700000000000000000", "days": "45244.9259259259", "iso": "20231114"}[unit]
    path = write(tmp_path, text, text)
    ran = ensue("check", path, "--time-unit", unit)
    assert ran.code == 0, ran.err
    assert "2023-11-14" in ran.err
    with pytest.raises(SettingError, match="the units are s, ms, us, ns, h, days, iso"):
        read(path, time_unit="weeks")


@pytest.mark.parametrize(
    "column",
    ["When", "event_timestamp", "created_at", "Date", "datetime", "ts", "occurred_at", "clickTime", "event_time_us"],
)
def test_names_of_times(tmp_path: Path, column: str) -> None:
    _, report = read(write(tmp_path, 1700000000000000, 1700000001000000, column=column))
    assert report.columns["time"] == column
    assert report.unit == "us"


def test_queries_read_the_same_times(tmp_path: Path) -> None:
    path = tmp_path / "searches.csv"
    times = [f"2023-11-14 22:13:2{step}.5 UTC" for step in range(4)]
    path.write_text("\n".join(["user,query,When", *(f"u,word{step},{time}" for step, time in enumerate(times))]) + "\n")
    queries, report = read_queries(path)
    assert queries.histories.times.tolist() == [MOMENT + step + 0.5 for step in range(4)]
    assert report.columns["time"] == "When"


def test_a_folder_remembers_unit_and_order_of_dates(tmp_path: Path, ensue: Ensue) -> None:
    folder = tmp_path / "m"
    proved = write(tmp_path, *(f"{day}/03/2024" for day in range(10, 20)))
    assert ensue("fit", "next", proved, "-o", folder, "--model", "markov").code == 0
    ambiguous = write(tmp_path, "03/04/2024", "04/04/2024", name="new.csv")
    ran = ensue("evaluate", folder, ambiguous, "--json")
    assert ran.code == 0, ran.err
    assert "dates as day/month/year, read as UTC, 2024-04-03 00:00 to 2024-04-04 00:00" in ran.err
    hours = write(tmp_path, *range(10), name="hours.csv")
    assert ensue("fit", "next", hours, "-o", tmp_path / "h", "--model", "markov", "--time-unit", "h").code == 0
    assert "hours from 0 (as in the training data)" in ensue("evaluate", tmp_path / "h", hours, "--json").err


DAYS = {
    "ISO": ("2023-11-14", "22:13:20"),
    "to the minute": ("2023-11-14", "22:13"),
    "in Germany": ("14.11.2023", "22:13:20"),
    "in America": ("11/14/2023", "10:13:20 PM"),
    "digits": ("20231114", "22:13:20.0"),
    "midnight": ("2023-11-14 00:00:00", "22:13:20Z"),
    "an hour": ("2023-11-14", "22"),
}


@pytest.mark.parametrize(
    "names", [("date", "time"), ("day", "hour"), ("event_date", "event_time"), ("Datum", "Uhrzeit")]
)
@pytest.mark.parametrize(("day", "clock"), DAYS.values(), ids=DAYS.keys())
def test_a_day_and_a_time_of_day_are_one_time(tmp_path: Path, names: tuple[str, str], day: str, clock: str) -> None:
    if clock == "22" and names[1] != "hour":
        return
    path = tmp_path / "a.csv"
    path.write_text(f"session_id,{names[1]},item_id,{names[0]}\ns,{clock},b,{day}\n")
    histories, report = read(path)
    precision = {"22": 3600, "22:13": 60}.get(clock, 1)
    assert histories.times.tolist() == [MOMENT // precision * precision]
    assert report.columns == {"session": "session_id", "item": "item_id", "time": names[0], "clock": names[1]}
    assert f"time is the day '{names[0]}' plus '{names[1]}'" in report.notes


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_day_and_a_time_of_day_in_another_file(tmp_path: Path, form: str) -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20)
    frame = pl.DataFrame({"session": ["s"], "item": ["a"], "date": [moment.date()], "time": [moment.time()]})
    if form == "parquet":
        frame.write_parquet(tmp_path / "a")
    else:
        frame.cast(pl.String).write_ndjson(tmp_path / "a")
    assert read(tmp_path / "a")[0].times.tolist() == [MOMENT]


def test_a_day_and_a_time_of_day_of_queries(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,query,date,time\nu,red shoes,2023-11-14,22:13:20\nu,blue shoes,2023-11-14,22:13:30\n")
    assert read_queries(path)[0].histories.times.tolist() == [MOMENT, MOMENT + 10]


def test_days_and_times_of_day_are_stated_and_remembered(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    header = "session,item,start_date,start_time,order_date,order_time"
    path.write_text(f"{header}\ns,a,2023-11-14,22:13:20,2023-11-15,22:13:20\n")
    report = read(path, columns={"time": "order_date", "clock": "order_time"})[1]
    assert read(path, schema=DataSchema(columns=report.columns))[0].times.tolist() == [MOMENT + 86_400]
    path.write_text("session,item,date,visit_date,time\ns,a,2023-11-14,2023-11-15,22:13:20\n")
    with pytest.raises(DataError, match=r"'date', 'visit_date' may be the day and 'time' its time of day"):
        read(path)


def test_a_time_of_day_that_may_be_seconds_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("session,item,date,time\ns,a,20231114,221320\n")
    with pytest.raises(
        DataError, match=r"'date' may be the day and 'time' its time of day; choose with --columns time=date,clock=time"
    ):
        read(path)
    assert read(path, columns={"time": "time"})[0].times.tolist() == [221_320]
    assert read(path, columns={"time": "date", "clock": "time"})[0].times.tolist() == [MOMENT]


def test_a_day_without_its_time_of_day_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("session,item,date,time\ns,a,2023-11-14,22:13:20\ns,b,2023-11-14,\n")
    with pytest.raises(DataError, match=r"a\.csv, line 3: time is empty"):
        read(path)
    assert read(path, missing="drop")[0].times.tolist() == [MOMENT]


def test_a_duration_is_no_time_of_day(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("session,item,date,time_spent\ns,a,2023-11-14,00:13:20\n")
    assert read(path)[1].columns == {"session": "session", "item": "item", "time": "date"}


@pytest.mark.parametrize("form", ["{:06}", "{}", "{}.0"])
def test_digits_are_a_time_of_day_where_all_of_many_are(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.csv"
    clocks = [5, 930, *range(32_810, 32_820), 235_959]
    rows = "".join(f"s,i{clock},20240305,{form.format(clock)}\n" for clock in clocks)
    path.write_text(f"session,item,date,time\n{rows}")
    seconds = (read(path)[0].times - datetime(2024, 3, 5, tzinfo=UTC).timestamp()).tolist()
    assert seconds == [5, 570, *range(12_490, 12_500), 86_399]
    path.write_text(path.read_text().replace("32815", "32875"))  # no time of day has 75 seconds
    with pytest.raises(DataError, match="'date' may be the day and 'time' its time of day"):
        read(path)
    assert read(path, columns={"time": "time"})[1].columns["time"] == "time"
    assert read(path, time_unit="s")[1].columns["time"] == "time"


def test_a_date_with_its_hour_is_a_calendar(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("session,item,dateHour\ns,a,2023111422\ns,b,2023111500\n")
    assert read(path)[0].times.tolist() == [MOMENT // 3600 * 3600, MOMENT // 3600 * 3600 + 7200]


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000])
def test_a_day_beside_a_time_since_1970_is_not_joined_to_it(tmp_path: Path, unit: int) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"s,i{second},20231114,{(MOMENT + second) * unit}\n" for second in range(20))
    path.write_text(f"session,item,event_date,event_timestamp\n{rows}")
    histories, report = read(path)
    assert histories.times.tolist() == [MOMENT + second for second in range(20)]
    assert report.columns["time"] == "event_timestamp"
