"""Predict, then learn: a news site's clicks as a stream, the model beside its rivals, hour by hour.

A model is fitted on the sessions that begin on the first day; then every click of the others is predicted, scored and
learned in order of time. It is compared with popularity over the last 15 minutes, hour and six hours, and with
the latest followers of the last article. All rank all articles known so far.

    python benchmarks/globo.py CLICKS [--model core] [--events N] [--set dim=64] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import polars as pl

from ensue.data.sequences import read
from ensue.settings import parse
from ensue.store.swap import only_writer
from ensue.stream.brokers import open_source
from ensue.stream.engine import Stream
from ensue.stream.metrics import Hour
from ensue.stream.state import StreamSettings, StreamStatus
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.results import provenance, write_result

DAY, LEAST = 86400, 1000
"""Seconds; targets an hour needs to be compared."""


def split(clicks: Path, folder: Path) -> tuple[Path, Path]:
    """The sessions that begin within a day of the first click, as CSV; all other clicks in order of time, as JSON."""
    table = pl.read_csv(clicks).sort("time_s", maintain_order=True)
    begins = pl.col("time_s").min().over("session")
    early = begins < table["time_s"].min() + DAY
    first = folder / "first.csv"
    rest = folder / "rest.jsonl"
    table.filter(early).write_csv(first)
    table.filter(~early).write_ndjson(rest)
    return first, rest


def verdict(hours: list[Hour]) -> dict[str, Any]:
    """In how many hours the model is above each rival, of those with enough targets; and the hours where it is not."""
    full = [hour.to_dict() for hour in hours if hour.targets >= LEAST]
    rivals = [name for name in full[0]["figures"] if name != "model"]
    results: dict[str, Any] = {"hours": len(full), "least_targets": LEAST}
    for name in rivals:
        pairs = [(hour["figures"]["model"]["hr@20"], hour["figures"].get(name, {}).get("hr@20", 0.0)) for hour in full]
        results[name] = {"above": sum(ours > peer for ours, peer in pairs)}
        results[name]["closest"] = round(min(ours - peer for ours, peer in pairs), 4)
    return results


def main() -> None:
    """Fit, stream, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clicks", type=Path)
    parser.add_argument("--model", default="core")
    parser.add_argument("--events", type=int)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        first, rest = split(args.clicks, Path(name))
        model = Path(name) / "model"
        predictor = NextPredictor(args.model, settings=parse(args.set), device="cpu")
        for report in predictor.fit(read(first)[0]):
            if report.stopped:
                print(report, flush=True)
        predictor.save(model)
        start_time = time.perf_counter()
        last = None
        with only_writer(model):
            running = Stream(model, open_source(str(rest), print), StreamSettings())
            for status in running.run(follow=False, until=args.events):
                last = status
                print(f"{time.perf_counter() - start_time:.0f} s: {status.sentence}", flush=True)
                for hour in status.closed:
                    print(hour.to_dict(), flush=True)
        assert isinstance(last, StreamStatus)
        result = last.to_dict() | {"seconds": round(time.perf_counter() - start_time, 1)}
        result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        result["hour_by_hour"] = verdict(last.board.rows())
    print(json.dumps({name: value for name, value in result.items() if name != "hours"}, indent=1))
    if args.json:
        write_result(args.json, {**provenance(), "model": args.model, **result})


if __name__ == "__main__":
    main()
