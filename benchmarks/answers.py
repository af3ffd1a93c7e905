"""How long an answer takes: the top 20 of a session's next click out of 43,097 items, raw ids in, ``Answer`` out.

One at a time on one thread (median and 95th percentile; wall clock, and processor time, which a busy machine hides
less), and in batches of 256 on all of them (answers a second); with and without the evidence (what each choice leaned
on, and what it loses without). The models are fitted on made-up sessions: how long an answer takes does not depend on
how good it is.

    python benchmarks/answers.py [--models sansr,core,vsknn,blend] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import torch

from ensue.data.histories import Histories
from ensue.records import History
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.results import provenance

ITEMS, SESSIONS, CLICKS, SINGLE, BATCHES, BATCH, K = 43_097, 60_000, 5, 400, 12, 256, 20


def made_up() -> list[History]:
    """Sessions of five clicks; every item occurs."""
    random = np.random.default_rng(0)
    ids = random.zipf(1.3, (SESSIONS, CLICKS)) % ITEMS
    ids.reshape(-1)[:ITEMS] = random.permutation(ITEMS)
    return [History(tuple(f"item{value}" for value in row)) for row in ids.tolist()]


def measure(predictor: NextPredictor, asked: list[History], *, evidence: bool) -> dict[str, Any]:
    """Milliseconds of single answers on one thread, and answers a second in batches on all."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    results = []
    for record in asked[: SINGLE + 20]:
        start_time = time.perf_counter()
        worked = time.process_time()
        predictor.predict([record], K, evidence=evidence)
        results.append((1000 * (time.perf_counter() - start_time), 1000 * (time.process_time() - worked)))
    torch.set_num_threads(threads)
    rates = []
    for number in range(BATCHES + 2):
        part = asked[number * BATCH : (number + 1) * BATCH]
        start_time = time.perf_counter()
        predictor.predict(part, K, evidence=evidence)
        rates.append(BATCH / (time.perf_counter() - start_time))
    (middle, cpu_middle), (late, cpu_late) = np.percentile(results[20:], [50, 95], axis=0).round(2).tolist()
    return {
        "evidence": evidence,
        "median_ms": middle,
        "p95_ms": late,
        "cpu_median_ms": cpu_middle,
        "cpu_p95_ms": cpu_late,
        "answers_a_second": round(float(np.median(rates[2:]))),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="sansr,core,vsknn,blend")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sessions = made_up()
    rows = []
    for name in args.models.split(","):
        given = {"epochs": 1, "negatives": 256} if MODELS[name].schedule else {}
        predictor = NextPredictor(name, settings=given, device="cpu")
        for _ in predictor.fit(Histories.of(sessions), Histories.of(sessions[:100])):
            pass
        for evidence in (False, True):
            rows.append({"model": name, "items": ITEMS, **measure(predictor, sessions, evidence=evidence)})
            print(rows[-1], flush=True)
    if args.json:
        results = {**provenance(), "threads": torch.get_num_threads(), "batch": BATCH, "k": K, "rows": rows}
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
