"""Cost of ``ensue fit next|classify DATA`` with default settings, next to another commit and a peer.

Each set is a slice of a public one, in time order where there is one: the earlier part is fitted, the later part is
scored. Every fit is a process of its own on one thread; the metrics of its model carry 95 % intervals. Peers are
``implicit`` (item-to-item cosine, through ``--peer`` with an interpreter that has it) and scikit-learn's LinearSVC on
words and characters. Results of earlier runs stay in the JSON file, so sets and commits can be measured one by one.

    python benchmarks/defaults.py DATA --tree before=OTHER_CHECKOUT [--tree after=.] [--sets NAMES] [--json FILE]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from ensue_studies.results import provenance, write_result

Table = tuple[list[str], list[tuple[str, ...]], list[tuple[str, ...]]]
"""Header, rows to fit, and rows to score."""
METRICS = {"next": ("mrr", "hit@20", "ndcg@20"), "classify": ("accuracy", "macro_f1", "log_loss")}

ITEM_PEER = """
import csv, sys
import numpy as np
from implicit.nearest_neighbours import CosineRecommender
from scipy.sparse import csr_matrix
def sessions(path):
    held = {}
    for session, item, *_ in [*csv.reader(open(path))][1:]:
        held.setdefault(session, []).append(item)
    return list(held.values())
train, test = map(sessions, sys.argv[1:3])
ids = {item: at for at, item in enumerate(dict.fromkeys(item for session in train for item in session))}
rows = np.repeat(np.arange(len(train)), [len(session) for session in train])
columns = [ids[item] for session in train for item in session]
table = csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (len(train), len(ids)))
model = CosineRecommender(K=100)
model.fit(table, show_progress=False)
pairs = [(session[:at], session[at]) for session in test for at in range(1, len(session))]
asked = csr_matrix((len(pairs), len(ids)), dtype=np.float32).tolil()
for row, (past, _) in enumerate(pairs):
    for item in past:
        if item in ids:
            asked[row, ids[item]] = 1
found, scores = model.recommend(np.arange(len(pairs)), asked.tocsr(), N=20, filter_already_liked_items=False)
right = [ids.get(target, -1) in row[score > 0] for (_, target), row, score in zip(pairs, found, scores)]
print(sum(right) / len(right))
"""
TEXT_PEER = """
import csv, sys
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC
(labels, texts), (right, asked) = (zip(*[*csv.reader(open(path), delimiter="\\t")][1:]) for path in sys.argv[1:3])
grams = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
runs = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
model = make_pipeline(make_union(grams, runs), LinearSVC()).fit(texts, labels)
print((model.predict(asked) == right).mean())
"""


def sessions(name: str) -> Callable[[Path], Table]:
    """Return the last sessions of a set: 5,600 to fit and 2,000 to score."""

    def make(data: Path) -> Table:
        lines = [*_lines(data / "sessions" / name / "train.txt.gz")][-7600:]
        rows = [[(str(at), item) for item in line.split()] for at, line in enumerate(lines)]
        return ["session", "item"], [*_joined(rows[:5600])], [*_joined(rows[5600:])]

    return make


def long_histories(data: Path) -> Table:
    """Return runs of 50 ratings of one user, by the time of the last: 1,090 to fit, the others to score."""
    users: dict[str, list[tuple[int, str]]] = {}
    for line in islice(_lines(data / "sessions" / "ml-100k" / "ml-100k.inter.gz"), 1, None):
        user, item, _, time = line.split("\t")
        users.setdefault(user, []).append((int(time), item))
    runs = []
    for events in users.values():
        events.sort(key=lambda event: event[0])
        runs += [events[low : low + 50] for low in range(0, len(events) - 49, 50)]
    runs.sort(key=lambda run: run[-1][0])
    rows = [[(str(at), item) for _, item in run] for at, run in enumerate(runs)]
    return ["session", "item"], [*_joined(rows[:1090])], [*_joined(rows[1090:])]


def cascades(data: Path) -> Table:
    """Return the cascades of Memes, with their times."""
    parts = []
    for part in ("val", "test"):
        lines = islice(
            _lines(data / "cascades" / "hidan" / f"meme-cascades-time-{part}.gz"), 4300 if part == "val" else 1000
        )
        columns = ([column.split(",") for column in line.strip().split(":")] for line in lines)
        parts.append(
            [*_joined(zip([str(at)] * len(ids), ids, times, strict=True) for at, (ids, times) in enumerate(columns))]
        )
    return ["session", "item", "time"], *parts


def texts(name: str) -> Callable[[Path], Table]:
    """Return the training and the test part of a set."""

    def make(data: Path) -> Table:
        parts = [_lines(data / "text" / name / f"{part}.tsv.xz") for part in ("train", "test")]
        return ["label", "text"], *([tuple(line.split("\t", 1)) for line in part] for part in parts)

    return make


def films(data: Path) -> Table:
    """Return 10,003 sentences of reviews of 77 films, to tell the film; each fifth review is scored."""
    reviews: dict[str, list[list[str]]] = {}
    for line in _lines(data / "text" / "imdb50k" / "train.tsv.xz"):
        _, film, _, text = line.split("\t")
        sentences = (sentence.strip() for sentence in text.split("<sssss>"))
        reviews.setdefault(film, []).append([*islice((own for own in sentences if 5 <= len(own.split()) <= 30), 20)])
    size = {film: sum(map(len, own)) for film, own in reviews.items()}
    train = []
    test = []
    for film in sorted(size, key=lambda film: (-size[film], film))[:77]:
        of_train = [own for at, review in enumerate(reviews[film]) if at % 5 < 4 for own in review]
        train += [(film, own) for own in of_train[:130]]
        test += [(film, own) for review in reviews[film][4::5] for own in review][:39]
    return ["label", "text"], train[:10003], test


SETS: dict[str, tuple[str, Callable[[Path], Table]]] = {
    "diginetica": ("next", sessions("diginetica")),
    "yoochoose": ("next", sessions("yoochoose-1-64")),
    "ml-100k": ("next", long_histories),
    "memes": ("next", cascades),
    "sst2": ("classify", texts("sst2")),
    "trec": ("classify", texts("trec")),
    "films": ("classify", films),
}


def main() -> None:
    """Measure the sets and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--peer", default=sys.executable, help="interpreter of the peers")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = json.loads(options.json.read_bytes())["sets"] if options.json and options.json.exists() else {}
    for name in options.sets.split(","):
        task, make = SETS[name]
        row = results.setdefault(name, {"task": task})
        with tempfile.TemporaryDirectory() as folder:
            header, *parts = make(options.data)
            files = [
                _write(Path(folder), f"{part}.tsv" if task == "classify" else f"{part}.csv", header, rows)
                for part, rows in zip(("train", "test"), parts, strict=True)
            ]
            row["rows"] = len(parts[0])
            for tree in options.tree:
                key, _, checkout = tree.partition("=")
                row[key] = _measure(task, files, Path(folder) / key, Path(checkout))
                print(name, key, row[key], flush=True)
            row["peer"] = _peer(task, files, options.peer) or row.get("peer")
            print(name, "peer", row["peer"], flush=True)
        if "before" in row and "after" in row:
            row["ratio"] = row["after"]["cpu_seconds"] / row["before"]["cpu_seconds"]
        if options.json:
            write_result(options.json, {**provenance(), "sets": results})


def _measure(task: str, files: list[Path], model: Path, tree: Path) -> dict[str, Any]:
    """Fit a model with the code of a checkout, and score it."""
    paths = os.pathsep.join(str(tree.resolve() / part) for part in ("src", "studies/src"))
    ensue = [sys.executable, "-m", "ensue"]
    printed, cost = _run([*ensue, "fit", task, str(files[0]), "-o", str(model), "--json"], PYTHONPATH=paths)
    fitted = json.loads(printed)
    result = json.loads(_run([*ensue, "evaluate", str(model), str(files[1]), "--json"], PYTHONPATH=paths)[0])
    row = next(row for row in result["rows"] if row["model"] == fitted["model"])
    metrics = {metric: {"value": row[metric], "interval": row["interval"].get(metric)} for metric in METRICS[task]}
    return {**cost, "model": fitted["model"], "metrics": metrics}


def _peer(task: str, files: list[Path], python: str) -> dict[str, Any] | None:
    """Fit and score the peer, or return None where its package is missing."""
    try:
        printed, cost = _run([python, "-c", ITEM_PEER if task == "next" else TEXT_PEER, *map(str, files)])
    except subprocess.CalledProcessError as error:
        print(error.stderr[-300:])
        return None
    return {**cost, "hit@20" if task == "next" else "accuracy": float(printed)}


def _run(command: list[str], **environment: str) -> tuple[str, dict[str, float]]:
    """Run a command on one thread and return what it prints, its CPU seconds and its peak memory."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=err.read())
        cost = {"cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1024}
        return out.read(), cost


def _lines(path: Path) -> Iterable[str]:
    """Yield the lines of a compressed file."""
    with (gzip if path.suffix == ".gz" else lzma).open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def _joined(rows: Iterable[Iterable[tuple[str, ...]]]) -> Iterable[tuple[str, ...]]:
    """Yield the rows of all sessions."""
    for session in rows:
        yield from session


def _write(folder: Path, name: str, header: list[str], rows: list[tuple[str, ...]]) -> Path:
    """Write a table."""
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([header, *rows])
    return path


if __name__ == "__main__":
    main()
