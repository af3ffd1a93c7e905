"""CPU seconds of fit and evaluate against the size of a log: 3, 10, 30 and 100 % of Diginetica, on one thread.

A part is its newest training sessions. ``vsknn`` is counted with all baselines, which ``evaluate`` scores next to it;
``core`` trains one epoch. The same test sessions are evaluated for every part, each target among all items of the part:
the time of an evaluation is targets times items. The exponent is the slope of log(seconds) over log(events), by least
squares.

    python benchmarks/growth.py DIGINETICA [--models vsknn,core] [--parts 0.03,0.1,0.3,1] [--json FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ensue.data.histories import Histories
from ensue.evaluation.comparison import evaluate
from ensue.records import History
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.results import provenance

SETTINGS: dict[str, dict[str, object]] = {"vsknn": {}, "core": {"epochs": 1, "refit": False}}


TEST_SESSIONS = 1500


def read(path: Path) -> list[History]:
    """Return the sessions of a file, oldest first."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return [History(tuple(line.split())) for line in lines]


def measure(model: str, train: list[History], test: list[History]) -> dict[str, Any]:
    """Return the size of a part, and CPU seconds of fit and evaluate."""
    data = Histories.of(train)
    held_out = Histories.of(test)
    predictor = NextPredictor(model, settings=SETTINGS[model], device="cpu")
    start_time = time.process_time()
    for _ in predictor.fit(data):
        pass
    fitted = time.process_time()
    evaluate(predictor, held_out)
    return {
        "model": model,
        "events": len(data.ids),
        "items": predictor.metadata.values,
        "fit": round(fitted - start_time, 2),
        "evaluate": round(time.process_time() - fitted, 2),
    }


def exponent(rows: list[dict[str, Any]], step: str) -> float:
    """Return the slope of log(seconds) over log(events)."""
    events, seconds = (np.log([row[name] for row in rows]) for name in ("events", step))
    return round(float(np.polyfit(events, seconds, 1)[0]), 2)


def main() -> None:
    """Measure every part and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", default="vsknn,core")
    parser.add_argument("--parts", default="0.03,0.1,0.3,1")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    train, test = (read(args.data / f"{part}.txt.gz") for part in ("train", "test"))
    test = test[:TEST_SESSIONS]
    rows = []
    exponents = {}
    for model in args.models.split(","):
        for part in map(float, args.parts.split(",")):
            row = measure(model, train[-round(part * len(train)) :], test)
            rows.append({"part": part, **row})
            print(rows[-1], flush=True)
        exponents[model] = {
            step: exponent([row for row in rows if row["model"] == model], step) for step in ("fit", "evaluate")
        }
        print(model, exponents[model], flush=True)
    if args.json:
        result = {**provenance(), "test_sessions": len(test), "rows": rows, "exponents": exponents}
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
