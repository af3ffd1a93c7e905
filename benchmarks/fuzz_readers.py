"""Thousands of made-up files through every reader: an answer or one of the library's own errors, and never much time.

Each file goes through all readers in a process of its own kind: its address space is limited, an alarm ends what hangs,
and the highest memory is read anew for each file. A process that dies is a finding, as is every other error.

    python benchmarks/fuzz_readers.py [--files 20000] [--seed 0] [--only NUMBER] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ensue.data.items import read_items
from ensue.data.kinds import is_plain, kind_of
from ensue.data.posts.corpus import read_corpus, read_judgements
from ensue.data.posts.dataset import read_articles, read_posts
from ensue.data.queries import read_queries
from ensue.data.queries.rules import QueryRules
from ensue.data.sequences import read
from ensue.data.sequences.telling import telling_columns
from ensue.data.texts import read_texts
from ensue.errors import EnsueError
from ensue.text.vectors import read_vectors

MOST_SECONDS = 10
MOST_BYTES = 10**9
ADDRESSES = 6 * 2**30
"""Bytes of address space; threads and allocators reserve more than they touch."""


def _posts(path: Path) -> None:
    posts, _ = read_posts(path)
    posts.originals()


READERS: dict[str, Callable[[Path], Any]] = {
    "kind": kind_of,
    "plain": is_plain,
    "log": read,
    "unsorted log": lambda path: read(path, sort=False, encoding="cp1252"),
    "texts": read_texts,
    "phrases": lambda path: read_texts(path, phrases=True, unlabelled=True),
    "queries": lambda path: read_queries(path, rules=QueryRules(min_queries=1)),
    "posts": _posts,
    "articles": read_articles,
    "corpus": lambda path: read_corpus(path, path),
    "judgements": read_judgements,
    "items": read_items,
    "telling columns": telling_columns,
    "vectors": lambda path: read_vectors(path, ["word", "ferry"]),
}


def work(first: int, last: int, seed: int, folder: Path) -> None:
    """Read the files ``first`` to ``last``: a line on stdout before each and after."""
    from odd_files import make

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    path = folder / "file"
    for number in range(first, last):
        kind, data = make(number, seed)
        path.write_bytes(data)
        Path("/proc/self/clear_refs").write_text("5")  # the highest memory starts anew
        ended: dict[str, str] = {}
        slowest = 0.0
        results = []
        for name, reader in READERS.items():
            print(json.dumps({"begin": number, "kind": kind, "reader": name}), flush=True)
            signal.alarm(MOST_SECONDS + 5)  # nobody catches it: it ends the process
            start = time.perf_counter()
            try:
                reader(path)
                ended[name] = "read"
            except EnsueError as error:
                ended[name] = type(error).__name__
                if "\n" in str(error) or len(str(error)) > 3000 or not str(error).replace("\ufffd", "").isprintable():
                    results.append(f"{name}: not one printable line: {str(error)[:300]!r}")
            except BaseException as error:  # noqa: BLE001  whatever comes is a finding
                ended[name] = "other"
                results.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            signal.alarm(0)
            slowest = max(slowest, time.perf_counter() - start)
        peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        done = {
            "end": number,
            "ended": ended,
            "seconds": slowest,
            "bytes": int(peak.split()[1]) * 1024,
            "found": results,
        }
        print(json.dumps(done | {"kind": kind}), flush=True)


def run(files: int, seed: int, first: int = 0, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """All files; a process that dies is started again after the file that it died of."""
    ends: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    results: list[str] = []
    seconds = 0.0
    most = 0
    slow = ""
    large = ""
    number = first
    last = first + files
    with tempfile.TemporaryDirectory() as folder:
        while number < last:
            command = [
                sys.executable,
                __file__,
                "--work",
                str(number),
                str(last),
                "--seed",
                str(seed),
                "--folder",
                folder,
            ]
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert worker.stdout is not None
            job: dict[str, Any] = {}
            for line in worker.stdout:
                output = json.loads(line)
                if "begin" in output:
                    job = output
                    continue
                number = output["end"] + 1
                kind = output["kind"]
                ends.update(output["ended"].values())
                kinds[kind.split(" ")[0].split(".")[0].strip(",")] += 1
                results += [f"{output['end']} ({kind}) {what}" for what in output["found"]]
                for what in output["found"]:
                    tell(f"{output['end']} ({kind}) {what}")
                if output["seconds"] > seconds:
                    seconds = output["seconds"]
                    slow = f"{output['end']} ({kind})"
                if output["bytes"] > most:
                    most = output["bytes"]
                    large = f"{output['end']} ({kind})"
                if output["seconds"] > MOST_SECONDS or output["bytes"] > MOST_BYTES:
                    results.append(
                        f"{output['end']} ({kind}) {output['seconds']:.1f} s, {output['bytes'] / 1e6:.0f} MB"
                    )
                    tell(results[-1])
                if number % 1000 == 0:
                    tell(f"{number} files: {dict(ends)}, {len(results)} findings, {seconds:.1f} s, {most / 1e6:.0f} MB")
            if worker.wait() != 0:
                results.append(f"{job['begin']} ({job['kind']}) {job['reader']}: died with {worker.returncode}")
                tell(results[-1])
                number = job["begin"] + 1
    return {
        "files": files,
        "seed": seed,
        "ends": dict(ends),
        "kinds": dict(kinds),
        "slowest_seconds": round(seconds, 2),
        "slowest": slow,
        "most_megabytes": round(most / 1e6),
        "largest": large,
        "findings": results,
    }


def main() -> None:
    """Parse the options, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this file alone")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*options.work, options.seed, options.folder)
        return
    result = run(
        1 if options.only is not None else options.files,
        options.seed,
        options.only or 0,
        lambda line: print(line, flush=True),
    )
    print(json.dumps(result, indent=1))
    if options.json:
        from ensue_studies.results import provenance

        options.json.write_text(json.dumps(provenance() | result, indent=1) + "\n", encoding="utf-8")
    sys.exit(bool(result["findings"]))


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    main()
