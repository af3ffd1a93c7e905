"""Every network on the CPU and on a GPU: the same data, settings and seed, compared by seconds, metrics and answers.

The first table trains each network of the four tasks for one epoch on made-up data and compares the answers of both
devices. The second trains the largest networks on real sets, as long as ``--epochs`` says, and takes the seconds of an
epoch after the first.

    python benchmarks/gpu.py [--data FOLDER] [--epochs 2] [--device cuda] [--json FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ensue import NextEvent, PostLinker, QuerySuggester, TextClassifier
from ensue.errors import EnsueError
from ensue.registry import models, settings_of
from ensue.training.report import Report
from ensue_studies.results import provenance

ESTIMATORS = {"next": NextEvent, "classify": TextClassifier, "suggest": QuerySuggester, "link": PostLinker}
MIN_STEPS = "min_steps"
FAILURES = (RuntimeError, TypeError, ValueError, EnsueError)
"""Errors of a network that one device cannot train: they are measured, not raised."""
WORDS = [f"{a}{b}" for a in ("fer", "bri", "sto", "har", "mar", "lan") for b in ("ry", "dge", "rm", "bour", "ket")]


class Times:
    """A callback that keeps the seconds at which each epoch of the first stage ended."""

    def __init__(self) -> None:
        self.stage = ""
        self.ends = {0: 0.0}
        self.metric: float | None = None

    def __call__(self, report: Report) -> None:
        self.stage = self.stage or report.stage
        if report.stage == self.stage and not report.note and report.valid is not None:
            self.ends[report.epoch] = report.seconds
            self.metric = report.valid

    @property
    def seconds(self) -> float:
        """Seconds of the last epoch: the first one warms up."""
        last = max(self.ends)
        return round(self.ends[last] - self.ends.get(last - 1, 0.0), 2)


def made_up(task: str, size: int = 400) -> tuple[tuple[Any, ...], Any]:
    """Return training data and queries of a task."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=12)) for _ in range(size)]
    if task == "next":
        chains = [[f"i{(start + step * step) % 60}" for step in range(6)] for start in range(size)]
        return (chains,), [chain[:3] for chain in chains[:50]]
    if task == "classify":
        return (texts, ["yes" if "ferry" in text else "no" for text in texts]), texts[:50]
    if task == "suggest":
        chains = [[f"{WORDS[(n + step) % 30]} {WORDS[(n * step) % 30]}" for step in range(3)] for n in range(40)]
        return (chains * (size // 40),), [chain[:2] for chain in chains]
    articles = {f"a{n}": ". ".join(texts[n : n + 3]) for n in range(40)}
    posts = [(texts[n % 40], [f"a{n % 40}"]) for n in range(size)]
    return (posts, articles), [text for text, _ in posts[:50]]


def answers(estimator: Any, queries: Any) -> list[set[object]]:
    """Return the five best answers of each query, or its label."""
    if isinstance(estimator, TextClassifier):
        return [{label} for label in estimator.predict(queries).tolist()]
    return [set(row) for row in estimator.predict(queries, k=5).values]


def compared(task: str, model: str, device: str) -> dict[str, Any]:
    """Train one model on both devices and compare their answers."""
    data, queries = made_up(task)
    names = {setting.name for setting in settings_of(task, model) if setting.default != 0}
    settings = {name: 1 for name in ("epochs", MIN_STEPS, "min_users") if name in names}
    row: dict[str, Any] = {"task": task, "model": model}
    results = []
    for name in ("cpu", device):
        start_time = time.perf_counter()
        try:
            estimator = ESTIMATORS[task](model, seed=0, device=name, **settings).fit(*data)
            results.append(answers(estimator, queries))
        except FAILURES as error:
            return {**row, "failed_on": name, "error": f"{type(error).__name__}: {error}"[:300]}
        row[f"seconds_{name}"] = round(time.perf_counter() - start_time, 2)
    same = sum(len(first & second) for first, second in zip(*results, strict=True))
    return {**row, "same_answers": round(same / sum(map(len, results[0])), 4)}


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a packed text file."""
    opened = lzma.open if path.suffix == ".xz" else gzip.open
    with opened(path, "rt", encoding="utf-8") as stream:
        yield from (line.rstrip("\n") for line in stream)


def sessions(path: Path) -> list[list[str]]:
    """Return one list of items per line."""
    return [line.replace(",", " ").split() for line in lines(path)]


def labelled(path: Path) -> tuple[list[str], list[str]]:
    """Return texts and labels."""
    rows = [line.split("\t", 1) for line in lines(path)]
    return [text for _, text in rows], [label for label, _ in rows]


def queries(path: Path) -> list[list[str]]:
    """Return the sessions of queries that are for training."""
    rows = [line.split("\t") for line in lines(path)][1:]
    return [row[3:] for row in rows if row[0] == "train"]


def at_size(data: Path, epochs: int, device: str, tasks: Collection[str]) -> Iterable[dict[str, Any]]:
    """Train the largest networks on real sets, on both devices."""
    work: Sequence[tuple[str, str, Path, Callable[[Path], Any], dict[str, Any]]] = [
        ("next", "sansr", data / "sessions/yoochoose-1-64/train.txt.gz", sessions, {MIN_STEPS: 1}),
        ("next", "core", data / "sessions/yoochoose-1-64/train.txt.gz", sessions, {MIN_STEPS: 1}),
        ("next", "gru4rec", data / "sessions/yoochoose-1-64/train.txt.gz", sessions, {MIN_STEPS: 1}),
        ("next", "sansr", data / "sessions/diginetica/train.txt.gz", sessions, {"dim": 256, MIN_STEPS: 1}),
        ("classify", "centrality", data / "text/sst1/train.tsv.xz", labelled, {}),
        ("suggest", "mtn", data / "queries/msmarco/sessions.tsv.gz", queries, {"min_users": 1, MIN_STEPS: 1}),
        ("suggest", "mtn-paper", data / "queries/msmarco/sessions.tsv.gz", queries, {"min_users": 1, MIN_STEPS: 1}),
    ]
    for task, model, path, read, settings in work:
        if task not in tasks or not path.exists():
            continue
        read_data = read(path)
        row = {"task": task, "model": model, "data": path.parent.name, "settings": settings}
        for name in (device, "cpu"):
            times = Times()
            estimator = ESTIMATORS[task](model, seed=0, device=name, epochs=epochs, refit=False, **settings)
            try:
                estimator.fit(*(read_data if task == "classify" else (read_data,)), callbacks=[times])
            except FAILURES as error:
                row[f"failed_on_{name}"] = f"{type(error).__name__}: {error}"[:300]
                continue
            row[f"seconds_an_epoch_{name}"], row[f"validation_{name}"] = times.seconds, times.metric
        yield row


def main() -> None:
    """Run the benchmark as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tasks", nargs="+", default=list(ESTIMATORS))
    parser.add_argument("--models", nargs="+", help="of the first table [default: every network]")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {**provenance(), "networks": [], "at_size": []}
    tables: list[tuple[str, Iterable[dict[str, Any]]]] = [
        (
            "networks",
            (
                compared(task, model.name, options.device)
                for task in options.tasks
                for model in models(task)
                if not model.counting and model.name != "sbert" and model.name in (options.models or [model.name])
            ),
        ),
        ("at_size", at_size(options.data, options.epochs, options.device, options.tasks)),
    ]
    for table, rows in tables:
        for row in rows:
            print(json.dumps(row), flush=True)
            results[table].append(row)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
