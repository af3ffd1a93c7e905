"""What ``ensue tune`` gains over the defaults of five models in half an hour each, on public data.

The gain is that of the search itself, on held-out training data that no trial reads. Afterwards the defaults and the
found settings are trained once more, on as much of the training data as the search could afford, and scored on the test
part; where the defaults were kept there is no difference to measure. A set that is in the file already is replaced, the
others stay.

    python benchmarks/tuning.py DATA SET… [--minutes 30] [--storage FOLDER] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ensue.data.test_split import Data, split_data
from ensue.evaluation.comparison import score_alone
from ensue.predictor import make
from ensue.tuning import Tuning, tune
from ensue_studies import centrality, hidan, mtn, sansr
from ensue_studies.results import provenance


class Search(NamedTuple):
    """A model, the data sets of its study, and what is fixed."""

    task: str
    model: str
    sets: Callable[[Path], Any]
    settings: Mapping[str, object] = {}


SEARCHES = {
    "trec": Search("classify", "centrality", lambda data: centrality.find_sets(data / "text")[0]),
    "yoochoose-1-64": Search("next", "sansr", sansr.find_sets),
    "memes": Search("next", "hidan", lambda data: hidan.find_sets(data / "cascades")[0]),
    "msmarco": Search("suggest", "mtn", lambda data: mtn.find_sets(data)[0], {"min_users": 1}),
    "diginetica": Search("next", "gru4rec", sansr.find_sets),
}


def on_test_data(search: Search, tuning: Tuning, train: Data, test: Data) -> dict[str, float] | None:
    """Return metrics of the defaults and of the found settings on test data, and their difference."""
    if not tuning.settings:
        return None
    part = train if tuning.final_fraction == 1 else split_data(train, tuning.final_fraction)[1]
    pair = [
        make(search.task, search.model, settings={**search.settings, **changes}, seed=0)
        for changes in ({}, tuning.settings)
    ]
    for candidate in pair:
        deque(candidate.fit(part), maxlen=0)
    metric, (default, tuned) = score_alone(pair, test)
    values = {"defaults": default.by_name()[metric], "tuned": tuned.by_name()[metric]}
    return values | tuned.against(default, metric)


def measure(name: str, data: Path, minutes: float, storage: Path | None) -> dict[str, Any]:
    """Search for settings on one data set."""
    search = SEARCHES[name]
    (found,) = (data_set for data_set in search.sets(data) if data_set.name == name)
    start, cpu_start = time.monotonic(), time.process_time()
    tuning = tune(
        search.task, found.train, search.model, minutes=minutes, settings=search.settings,
        storage=storage and storage / f"{name}.db", report=lambda trial: print(name, trial, flush=True),
    )  # fmt: skip
    row = {
        "data": name,
        "task": search.task,
        "model": search.model,
        "fixed": dict(search.settings),
        "minutes": round((time.monotonic() - start) / 60, 1),
        "cpu_minutes": round((time.process_time() - cpu_start) / 60, 1),
        "trials": dict(Counter(str(trial["state"]) for trial in tuning.trials)),
        "fraction": tuning.fraction,
        "final_fraction": round(tuning.final_fraction, 3),
        "metric": tuning.metric,
        "settings": dict(tuning.settings),
        "held_out": tuning.gain,
        "kept": not tuning.settings,
    }
    print(row, flush=True)
    return row | {"test": on_test_data(search, tuning, found.train, found.test)}


def main() -> None:
    """Search set by set, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("sets", nargs="+", choices=SEARCHES)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--storage", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    for name in args.sets:
        row = {**provenance(), **measure(name, args.data, args.minutes, args.storage)}
        print(row, flush=True)
        if args.json:
            rows = json.loads(args.json.read_text())["rows"] if args.json.exists() else []
            rows = [other for other in rows if other["data"] != name] + [row]
            rows.sort(key=lambda other: list(SEARCHES).index(other["data"]))
            args.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
