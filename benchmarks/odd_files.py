"""Made-up files for the readers: every layout they know, mutated, packed, cut, or odd in what it holds.

The same seed and number give the same file.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import zipfile
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import xlsxwriter

from ensue.data.file_bytes import zstd

NAMES = (
    *("session", "item", "time", "user", "value", "values", "times", "id", "text", "label", "query", "split", "about"),
    *(
        "title",
        "body",
        "url",
        "publish_date",
        "timestamp",
        "texts",
        "sentence1",
        "sentence2",
        "gold_label",
        "eventdate",
    ),
    *("timeframe", "item_id:token", "item_id_list:token_seq", "timestamp:float", "session_id:token", "_source", "word"),
    *("author", "thread_id", "created_at", "visitorid", "event", "itemid", "transactionid", "AnonID", "QueryTime", ""),
)
TEXTS = {
    "csv": "session_id,item_id,timestamp\ns2,007,1400000000\ns1,7,1400000005\ns2,7,1400000010\n",
    "semicolon": 'user;item;time\nu;"a\n;b";1400000000,5\nu;c;1400000001,25\nv;d;1400000002,0\n',
    "dates": "session,item,time\n1,a,2024-01-01T10:00:00+02:00\n1,b,2024-01-01 09:00:00Z\n2,c,2024-01-02\n",
    "gru4rec": "SessionId\tItemId\tTime\n1\t2\t1400000000\n1\t3\t1400000009\n",
    "recbole": "user_id:token\titem_id:token\ttimestamp:float\n1\t2\t1400000000\n1\t3\t1400000009\n",
    "recbole lists": "session_id:token\titem_id_list:token_seq\titem_id:token\n1\t2 3 4\t5\n2\t7\t8\n",
    "yoochoose": "1,2014-04-07T10:51:09.277Z,214536502,0\n1,2014-04-07T10:54:09.868Z,214536500,0\n",
    "diginetica": "session_id;user_id;item_id;timeframe;eventdate\n1;NA;81766;526309;2016-05-09\n1;NA;3;1;2016-05-09\n",
    "retailrocket": "timestamp,visitorid,event,itemid,transactionid\n1433221332117,u,view,a,\n1433221332118,u,b,c,\n",
    "hidan": "a,b,c:1,2.5,3\nd,e:1,2\n",
    "forest": "a,1 b,2 c,3\nd,4 e,5\n",
    "cyan": "c1,a,1,b,2\nc2,d,1,e,2,f,3\n",
    "sessions": "i1 i2 i3\ni2 i9\n",
    "histories": '{"values": ["a", "b"], "times": [1, 2.5], "id": "x"}\n{"values": ["c"], "times": [1]}\n',
    "events": '{"session": "1", "item": 5, "time": 1}\n{"session": "1", "item": "b", "time": 2}\n',
    "texts": 'text,label\n"a fine, ""film""\nwith two lines",good\nbad,bad\nso,\n',
    "labelled": "good\ta fine film\nbad\tno\n",
    "fasttext": "__label__good a fine film\n__label__bad no\n",
    "trees": "(3 (2 It) (4 (2 really) (4 works)))\n(1 (2 It) (1 fails))\n",
    "ss": "u1\t\tp1\t\t4\t\tgood food . <sssss> again .\nu2\t\tp1\t\t1\t\tbad .\n",
    "imdb": "neg/0\ttt1\t3\tWeak. Very.\npos/7\ttt2\t10\tStrong.\n",
    "snli": '{"gold_label": "entailment", "sentence1": "a b", "sentence2": "c"}\n',
    "text lists": '{"texts": ["a", "b"], "label": "x"}\n{"texts": ["c", "d"], "label": "y"}\n',
    "queries": "user,query,time\nu,ferry,1400000000\nu,ferry times,1400000060\nv,bread,1400000000\nv,rye,1400000001\n",
    "aol": "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n1\ta\t2006-03-01 10:00:00\t\t\n"
    "1\tb\t2006-03-01 10:01:00\t1\tu\n",
    "ubi": '{"_source": {"client_id": "c", "query_id": "q", "user_query": "a", "timestamp": "2024-01-01T10:00:00Z"}}\n'
    '{"_source": {"client_id": "c", "query_id": "r", "user_query": "b", "timestamp": "2024-01-01T10:01:00Z"}}\n',
    "session lists": "split\toverlap\tqueries\ntrain\tnovel\ta\tb\tc\ntest\t\td\te\n",
    "query lists": "ferry\tferry times\nbread\trye bread\trye\n",
    "posts": 'id,text,about,split\n1,"a <b>post</b> &amp;\nmore",x|y,train\n2,https://t.co/x,,test\n3,third,x,test\n',
    "twarc v1": '{"id_str": "1", "full_text": "RT @a: cut…", "user": {}, "retweeted_status": {"full_text": "whole"}}\n',
    "twarc v2": '{"data": [{"id": "1", "text": "a", "author_id": "2", "referenced_tweets": [{"type": "retweeted", "id":'
    ' "9"}]}], "includes": {"tweets": [{"id": "9", "text": "whole"}]}}\n',
    "zeeschuimer": '{"item_id": "1", "nav_index": "a", "source_platform": "x", "data": {"desc":'
    ' "a video \\ud83e\\uddc0"}}\n',
    "bluesky": '{"posts": [{"uri": "at://a/b/c", "record": {"text": "hello"}, "author": {"handle": "x"}}]}\n',
    "document": '[{"id": 1, "text": "a"},\n {"id": 2, "text": "b", "about": ["x", "y"]}]\n',
    "4cat": "id,thread_id,timestamp,body,author\n1,1,2024-01-01 10:00:00,a post,ann\n2,1,2024-01-01 10:01:00,b,bo\n",
    "media cloud": "stories_id,publish_date,title,url,language\n1,2024-01-01,A title,https://a.b/c,en\n",
    "articles": '{"id": "1", "title": "t", "body": ["one", "two"]}\n{"id": "2", "title": "u", "body": "<p>x</p>"}\n',
    "vectors": "2 3\nword 1 2 3\nferry 4 5 6\n",
}
_TOKENS = (
    *(
        b"\0",
        b'"',
        b"'",
        b"\n",
        b"\r",
        b"\r\n",
        b",",
        b"\t",
        b";",
        b"\\ud83d",
        b"\\ude00",
        b"\\",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(b"\xed\xa0\xbd", b"nan", b"1e999", b"-1", b"99999999999999999999", b"1" * 500, b"[" * 3000, b'{"a":' * 1500),
    *(
        b"x" * 200_000,
        b"null",
        b"{}",
        b"[]",
        b"\x1b[2J",
        b"\xe2\x80\xae",
        b"(",
        b")",
        b"__label__",
        b"\x1f\x8b",
        b"PAR1",
    ),
    *(b"0001-01-01", b"9999-12-31T23:59:59-12:00", b"0x10", b"1_0", b"1e-400", b"true", b"\xf0\x9f\xa7\x80"),
)


def make(number: int, seed: int) -> tuple[str, bytes]:
    """A file by its number: what it is, and its bytes."""
    draw = random.Random(f"{seed} {number}")
    kind, data = draw.choice(_KINDS)(draw)
    for _ in range(draw.choice((0, 1, 1, 2, 4, 16))):
        data = _mutate(draw, data)
    if draw.random() < 0.25:
        packer = draw.choice(("gzip", "xz", "zst"))
        kind, data = f"{kind}.{packer}", _PACKERS[packer](data)
        for _ in range(draw.choice((0, 0, 1, 3))):
            data = _mutate(draw, data)
    return kind, data


def _text(draw: random.Random) -> tuple[str, bytes]:
    name = draw.choice(list(TEXTS))
    text = TEXTS[name] * draw.choice((1, 1, 1, 3, 200))
    encoding = draw.choice(("utf-8",) * 6 + ("utf-8-sig", "utf-16", "cp1252", "utf-16-be"))
    return f"{name} {encoding}", text.encode(encoding, "replace")


def _mutate(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data) + 1)
    length = draw.choice((1, 1, 2, 4, 8, 64, 1000))
    way = draw.randrange(8)
    if way == 0:
        return data[:at]
    if way == 1:
        return data[:at] + data[at + length :]
    if way == 2:
        return data[:at] + draw.randbytes(length) + data[at + length :]
    if way == 3:
        return data[:at] + data[max(0, at - length) : at] * draw.choice((1, 2, 50)) + data[at:]
    if way == 4:
        number = draw.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 0x10000)).to_bytes(4, "little")
        return data[:at] + number + data[at + 4 :]
    if way == 5 and data:
        at = min(at, len(data) - 1)
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if way == 6:
        other = TEXTS[draw.choice(list(TEXTS))].encode()
        return data[:at] + other[draw.randrange(len(other)) :]
    return data[:at] + draw.choice(_TOKENS) + data[at:]


def _cell(draw: random.Random, deep: int = 0) -> Any:
    """Anything that JSON can hold."""
    way = draw.randrange(12 if deep < 4 else 9)
    if way < 3:
        return draw.choice(
            ("a", "b", "", " ", "a fine film", "007", "1400000000", "x" * 300, "\ud83d", "🧀", "\0", "\x1b[")
        )
    if way < 6:
        return draw.choice((0, 1, -1, 7, 1400000000, 2**31, 2**63, 10**30, -(2**63), 10**400))
    if way == 6:
        return draw.choice((0.5, 1e300, -0.0, float("nan"), float("inf"), 1e-320))
    if way < 9:
        return draw.choice((None, True, False))
    if way < 11:
        return [_cell(draw, deep + 1) for _ in range(draw.randrange(4))]
    return {draw.choice(NAMES): _cell(draw, deep + 1) for _ in range(draw.randrange(4))}


def _json(draw: random.Random) -> tuple[str, bytes]:
    """Objects whose known fields hold anything."""
    names = draw.sample(NAMES, draw.randrange(1, 6))
    results: list[Any] = [{name: _cell(draw) for name in names} for _ in range(draw.choice((1, 2, 5, 150)))]
    if draw.random() < 0.1:
        results[draw.randrange(len(results))] = _cell(draw)
    if draw.random() < 0.2:
        return "json document", json.dumps(results, indent=draw.choice((None, 1))).encode()
    return "json lines", "".join(json.dumps(line) + "\n" for line in results).encode()


def _table(draw: random.Random) -> tuple[str, bytes]:
    """A table of any cells under known names, some twice, rows of any width."""
    separator = draw.choice((",", ",", ";", "\t", "|"))
    names = [draw.choice(NAMES) for _ in range(draw.choice((1, 2, 3, 4, 6, 400)))]
    rows = [names]
    for _ in range(draw.choice((0, 1, 3, 20))):
        width = len(names) + draw.choice((0,) * 9 + (-1, 1))
        rows.append([str(_cell(draw, 9)) for _ in range(width)])
    text = draw.choice(("\n", "\r\n")).join(separator.join(row) for row in rows)
    return "table", text.encode("utf-8", "replace")


def _columns(draw: random.Random, height: int) -> pl.Series:
    """A column of a type that Parquet knows."""
    some: list[Callable[[], Any]] = [
        lambda: pl.Series(
            [draw.choice(("a", "b", "", None, "007", "🧀", "x" * 99)) for _ in range(height)], dtype=pl.String
        ),
        lambda: pl.Series(
            [draw.choice((0, 1, 1400000000, -(2**62), 2**62, None)) for _ in range(height)], dtype=pl.Int64
        ),
        lambda: pl.Series(
            [draw.choice((0.5, float("nan"), float("inf"), 1e300, None)) for _ in range(height)], dtype=pl.Float64
        ),
        lambda: pl.Series([draw.choice((True, False, None)) for _ in range(height)], dtype=pl.Boolean),
        lambda: pl.Series([date(2024, 1, 1), date(1, 1, 1), None] * height, dtype=pl.Date)[:height],
        lambda: pl.Series([datetime(2024, 1, 1), datetime(9999, 12, 31), None] * height)[:height].cast(
            pl.Datetime(draw.choice(("ms", "us", "ns")), draw.choice((None, "UTC", "Europe/Berlin"))), strict=False
        ),
        lambda: pl.Series([time(1, 2), None] * height, dtype=pl.Time)[:height],
        lambda: pl.Series([timedelta(days=1), None] * height, dtype=pl.Duration("us"))[:height],
        lambda: pl.Series([Decimal("1.25"), None] * height, dtype=pl.Decimal(20, 2))[:height],
        lambda: pl.Series([b"\xff", b"a", None] * height, dtype=pl.Binary)[:height],
        lambda: pl.Series([None] * height, dtype=pl.Null),
        lambda: pl.Series(["a", "b", None] * height, dtype=pl.Categorical)[:height],
        lambda: pl.Series(["a", "b", None] * height, dtype=pl.Enum(["a", "b"]))[:height],
        lambda: pl.Series([["a", None], [], None] * height, dtype=pl.List(pl.String))[:height],
        lambda: pl.Series([[1, 2], [3, 2], None] * height, dtype=pl.List(pl.Int64))[:height],
        lambda: pl.Series([[0.5, float("nan")], [], None] * height, dtype=pl.List(pl.Float64))[:height],
        lambda: pl.Series([[["a"]], None] * height, dtype=pl.List(pl.List(pl.String)))[:height],
        lambda: pl.Series([{"text": "a", "x": 1}, None] * height)[:height],
        lambda: pl.Series([[{"a": 1}], None] * height)[:height],
        lambda: pl.Series([[1, 2]] * height, dtype=pl.Array(pl.Int64, 2)),
        lambda: pl.Series([2**64 - 1, None] * height, dtype=pl.UInt64)[:height],
        lambda: pl.Series([2**100, None] * height, dtype=pl.Int128)[:height],
    ]
    column = draw.choice(some)()
    return column if isinstance(column, pl.Series) else pl.Series([column] * height)


def _parquet(draw: random.Random) -> tuple[str, bytes]:
    height = draw.choice((0, 1, 2, 3, 50, 5000))
    names = draw.sample(NAMES, draw.randrange(1, 7))
    buffer = io.BytesIO()
    packing = draw.choice(("uncompressed", "zstd", "snappy", "gzip", "lz4", "brotli"))
    frame = pl.DataFrame({name: _columns(draw, height) for name in names})
    frame.write_parquet(buffer, compression=packing, row_group_size=draw.choice((None, 1, 7)))  # type: ignore[arg-type]
    return "parquet", buffer.getvalue()


def _runs(draw: random.Random) -> tuple[str, bytes]:
    """Equal values by the million: small on disk."""
    height = draw.choice((10_000, 1_000_000, 4_000_000))
    buffer = io.BytesIO()
    pl.select(session=pl.repeat("a", height), item=pl.repeat("b", height)).write_parquet(buffer)
    return "parquet runs", buffer.getvalue()


def _excel(draw: random.Random) -> tuple[str, bytes]:
    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer, {"in_memory": True, "nan_inf_to_errors": True}) as book:
        form = book.add_format({"num_format": draw.choice(("yyyy-mm-dd", "hh:mm:ss", "0%", "dd/mm/yy hh:mm"))})
        for _ in range(draw.choice((1, 1, 1, 3))):
            sheet = book.add_worksheet()
            for row in range(draw.choice((0, 1, 3, 20))):
                for column in range(draw.choice((1, 3, 5))):
                    cell = _cell(draw, 9) if row else draw.choice(NAMES)
                    if isinstance(cell, str):
                        sheet.write_string(row, column, cell.encode("utf-8", "replace").decode())
                    elif isinstance(cell, bool):
                        sheet.write_boolean(row, column, cell)
                    elif isinstance(cell, int | float) and abs(cell) < 1e300:
                        sheet.write_number(row, column, cell, form)
            if draw.random() < 0.1:
                sheet.write_formula(1, 1, "=1/0")
                sheet.merge_range(2, 0, 2, 3, "merged")
    data = buffer.getvalue()
    return ("excel", data) if draw.random() < 0.4 else ("excel, edited", _repacked(draw, data))


def _repacked(draw: random.Random, data: bytes) -> bytes:
    """A workbook with a part of it changed, so that the archive itself stays whole."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        parts = old.infolist()
        chosen = draw.choice(parts).filename
        for part in parts:
            inner = old.read(part)
            if part.filename == chosen:
                for wanted, other in ((b'r="B2"', b'r="XFD1048576"'), (b'r="A1"', b'r="A0"')):
                    inner = inner.replace(wanted, other) if draw.random() < 0.3 else inner
                inner = _mutate(draw, inner)
            new.writestr(part.filename, inner)
    return buffer.getvalue()


def _bomb(draw: random.Random) -> tuple[str, bytes]:
    """Much out of little: packed zeros, letters, lines, or packed once more."""
    inner = draw.choice((bytes(1 << 26), b"a" * (1 << 26), b"session,item\n" + b"1,a\n" * (1 << 24)))
    packer = draw.choice(("gzip", "xz", "zst"))
    packed = _PACKERS[packer](inner)
    return f"bomb.{packer}", _PACKERS[draw.choice(list(_PACKERS))](packed) if draw.random() < 0.3 else packed


def _long(draw: random.Random) -> tuple[str, bytes]:
    """A line, a cell, a nesting or a number without an end."""
    text = draw.choice(list(TEXTS.values())).encode()
    long = draw.choice(
        (b"x" * 9_000_000, b"[" * 100_000, b"9" * 100_000, b'"' * 10_001, b"(1 " * 50_000, b"1 " * 500_000)
    )
    lines = text.split(b"\n")
    at = draw.randrange(len(lines))
    lines[at] += long
    return "long", b"\n".join(lines)


def _arrays(draw: random.Random) -> tuple[str, bytes]:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, vectors=np.ones((2, 3), np.float32), words=np.array(["word", "ferry"]))
    return "npz", buffer.getvalue()


_PACKERS = {
    "gzip": lambda data: gzip.compress(data, 6, mtime=0),
    "xz": lambda data: lzma.compress(data, preset=1),
    "zst": lambda data: zstd.compress(data),
}
_KINDS = [_text] * 26 + [_json] * 20 + [_table] * 14 + [_parquet] * 22 + [_excel] * 14 + [_arrays] * 2 + [_long] * 2
_KINDS += [_runs, _bomb]
