"""What compiled kernels change: answers of saved models with and without them, in turns on one thread, processor time.

Of each folder of task ``suggest``, ``next`` or ``classify``, every question is answered once with the kernels and once
without (they take turns in going first), and the lists are compared: values in order, and the largest difference of a
score. Values change places, or one takes the last place of another, where scores are as good as equal (``TIE``, of the
score): ties.

    python benchmarks/kernels.py --suggest FOLDER SESSIONS --next FOLDER [FOLDER ...]
        --classify FOLDER TEXTS [--asked N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from answers import made_up
from suggestions import questions

from ensue import kernels
from ensue.answers import Answer, TextAnswer
from ensue.data.queries import read_queries
from ensue.data.texts import read_texts
from ensue.records import History, Text
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue_studies.results import provenance

TIE, WARM = 1e-4, 20
Answered = Answer | TextAnswer
Ask = Callable[[Any], Answered]


def timed(ask: Ask, record: History | Text, level: str) -> tuple[float, Answered]:
    """Milliseconds of the processor, and the answer."""
    kernels.load(level)
    start_time = time.process_time()
    answer = ask(record)
    return 1000 * (time.process_time() - start_time), answer


def differs(ours: Answered, theirs: Answered) -> bool:
    """Whether two lists differ beyond ties: in the score of a place or of a value."""
    if len(ours.choices) != len(theirs.choices):
        return True
    scores = {choice.value: choice.score for choice in theirs.choices}
    last = min(scores.values(), default=0.0)
    places = any(abs(a.score - b.score) > TIE * b.score for a, b in zip(ours.choices, theirs.choices, strict=True))
    values = any(abs(choice.score - scores.get(choice.value, last)) > TIE * choice.score for choice in ours.choices)
    return places or values


def compare(name: str, ask: Ask, records: Sequence[History | Text]) -> dict[str, Any]:
    """One row."""
    times: dict[str, list[float]] = {"compiled": [], "reference": []}
    other = 0
    furthest = 0.0
    same = 0
    levels = {"compiled": kernels.LEVELS[-1], "reference": "off"}
    for number, record in enumerate(records):
        order = list(levels) if number % 2 else list(levels)[::-1]
        results = {kind: timed(ask, record, levels[kind]) for kind in order}
        for kind, (took, _) in results.items():
            times[kind].append(took)
        ours = results["compiled"][1]
        peer = results["reference"][1]
        same += [choice.value for choice in ours.choices] == [choice.value for choice in peer.choices]
        other += differs(ours, peer)
        scores = {choice.value: choice.score for choice in peer.choices}
        gaps = [abs(choice.score - scores[choice.value]) for choice in ours.choices if choice.value in scores]
        furthest = max([furthest, *gaps])
    row: dict[str, Any] = {"model": name, "asked": len(records), "lists_equal": same, "differ_beyond_ties": other}
    row["largest_score_difference"] = float(f"{furthest:.1e}")
    for kind, own in times.items():
        middle, late = np.percentile(own[WARM:], [50, 95])
        row |= {f"{kind}_median_ms": round(float(middle), 2), f"{kind}_p95_ms": round(float(late), 2)}
    pairs = np.array(times["reference"][WARM:]) / np.array(times["compiled"][WARM:])
    return {**row, "times_faster": round(float(np.median(pairs)), 2)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suggest", nargs=2, type=Path, metavar=("FOLDER", "SESSIONS"))
    parser.add_argument("--next", nargs="*", type=Path, default=[])
    parser.add_argument("--classify", nargs=2, type=Path, metavar=("FOLDER", "TEXTS"))
    parser.add_argument("--asked", type=int, default=400)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for folder in args.next:
        reader = NextPredictor.load(folder)
        ask: Ask = lambda record, own=reader: own.predict([record], 20, evidence=False)[0]  # type: ignore[misc]  # noqa: E731
        rows.append(compare(reader.model_name, ask, made_up()[: args.asked]))
        print(rows[-1], flush=True)
    if args.suggest:
        writer = SuggestPredictor.load(args.suggest[0])
        asked = questions(read_queries(args.suggest[1])[0], args.asked)
        rows.append(compare(writer.model_name, lambda record: writer.predict([record], 5, evidence=False)[0], asked))
        print(rows[-1], flush=True)
    if args.classify:
        labeller = ClassifyPredictor.load(args.classify[0])
        texts = list(read_texts(args.classify[1])[0].records())[: args.asked]
        rows.append(compare(labeller.model_name, lambda text: labeller.predict([text], evidence=False)[0], texts))
        print(rows[-1], flush=True)
    if args.json:
        about = {"kernels": kernels.load(kernels.LEVELS[-1]), "threads": 1, "clock": "processor"}
        args.json.write_text(json.dumps({**provenance(), **about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
