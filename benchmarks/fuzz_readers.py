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

MOST_SECONDS, MOST_BYTES = 10, 10**9
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
        slowest, found = 0.0, []
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
                    found.append(f"{name}: not one printable line: {str(error)[:300]!r}")
            except BaseException as error:  # noqa: BLE001  whatever comes is a finding
                ended[name] = "other"
                found.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            signal.alarm(0)
            slowest = max(slowest, time.perf_counter() - start)
        peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
        done = {"end": number, "ended": ended, "seconds": slowest, "bytes": int(peak.split()[1]) * 1024, "found": found}
        print(json.dumps(done | {"kind": kind}), flush=True)


def run(files: int, seed: int, first: int = 0, tell: Callable[[str], None] = print) -> dict[str, Any]:
    """All files; a process that dies is started again after the file that it died of."""
    ends: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    found: list[str] = []
    seconds, most, slow, large = 0.0, 0, "", ""
    number, last = first, first + files
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
            begun: dict[str, Any] = {}
            for line in worker.stdout:
                told = json.loads(line)
                if "begin" in told:
                    begun = told
                    continue
                number, kind = told["end"] + 1, told["kind"]
                ends.update(told["ended"].values())
                kinds[kind.split(" ")[0].split(".")[0].strip(",")] += 1
                found += [f"{told['end']} ({kind}) {what}" for what in told["found"]]
                for what in told["found"]:
                    tell(f"{told['end']} ({kind}) {what}")
                if told["seconds"] > seconds:
                    seconds, slow = told["seconds"], f"{told['end']} ({kind})"
                if told["bytes"] > most:
                    most, large = told["bytes"], f"{told['end']} ({kind})"
                if told["seconds"] > MOST_SECONDS or told["bytes"] > MOST_BYTES:
                    found.append(f"{told['end']} ({kind}) {told['seconds']:.1f} s, {told['bytes'] / 1e6:.0f} MB")
                    tell(found[-1])
                if number % 1000 == 0:
                    tell(f"{number} files: {dict(ends)}, {len(found)} findings, {seconds:.1f} s, {most / 1e6:.0f} MB")
            if worker.wait() != 0:
                found.append(f"{begun['begin']} ({begun['kind']}) {begun['reader']}: died with {worker.returncode}")
                tell(found[-1])
                number = begun["begin"] + 1
    return {
        "files": files,
        "seed": seed,
        "ends": dict(ends),
        "kinds": dict(kinds),
        "slowest_seconds": round(seconds, 2),
        "slowest": slow,
        "most_megabytes": round(most / 1e6),
        "largest": large,
        "findings": found,
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
    given = parser.parse_args()
    if given.work:
        work(*given.work, given.seed, given.folder)
        return
    found = run(
        1 if given.only is not None else given.files, given.seed, given.only or 0, lambda line: print(line, flush=True)
    )
    print(json.dumps(found, indent=1))
    if given.json:
        from ensue_studies.results import provenance

        given.json.write_text(json.dumps(provenance() | found, indent=1) + "\n", encoding="utf-8")
    sys.exit(bool(found["findings"]))


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    main()
