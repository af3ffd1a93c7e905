"""New users through ``update``: how well they are found afterwards, and how far old answers move.

The latest fifth of the training cascades is kept back. A model learns the others, answers the test cascades, learns the
kept ones by ``update`` (one pass, remembered cascades among them), and answers again. Beside it stands the same model
trained on all from its beginning. Users are ruled out once they have taken part; unknown users are misses.

    python benchmarks/newcomers.py FOLDER --model cascade-blend [--set epochs=8] [--json FILE]

FOLDER holds ``cascade``, ``cascadevalid`` and ``cascadetest`` (.txt, .txt.gz or .txt.xz).
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from ensue import metrics
from ensue.data.histories import Histories
from ensue.data.sequences import read
from ensue.records import History
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST
from ensue_studies.results import provenance

KEPT_BACK = 0.2
ASKED = 400
"""Test cascades of which the answer before and after is compared, each without its last event."""


def find(folder: Path, stem: str) -> Path:
    """The file, whichever way it is packed."""
    (result,) = sorted(folder.glob(f"{stem}.txt*"))[:1] or [folder / f"{stem}.txt"]
    return result


def trained(model: str, settings: dict[str, Any], data: Histories, valid: Histories) -> tuple[NextPredictor, float]:
    """The model and the seconds that it took."""
    start_time = time.perf_counter()
    predictor = NextPredictor(model, settings=settings)
    for _ in predictor.fit(data, valid):
        pass
    return predictor, time.perf_counter() - start_time


def scores(predictor: NextPredictor, test: Histories, newcomers: frozenset[str]) -> dict[str, dict[str, float]]:
    """Micro MRR and hits of what followed, of known users and of newcomers; what the model does not know is a miss."""
    known = test.encode(predictor.vocabulary, drop_unknown=True)
    ranks, _, location = predictor.ranks(known, hide=True)
    new = np.array([predictor.vocabulary.value(int(known.ids[at])) in newcomers for at in location], bool)
    first = np.zeros(len(test.ids), bool)
    first[test.offsets[:-1]] = True
    names = np.array([False] * FIRST + [value in newcomers for value in test.vocabulary.values])
    all_new = int((names[test.ids] & ~first).sum())
    results = {}
    for name, own, targets in (("known", ranks[~new], int((~new).sum())), ("newcomers", ranks[new], all_new)):
        hits = {f"hit@{k}": float((own <= k).sum() / max(1, targets)) for k in (10, 100)}
        results[name] = {"targets": targets, "mrr": float(metrics.reciprocal_rank(own).sum() / max(1, targets)), **hits}
    return results


def moved(before: NextPredictor, after: NextPredictor, asked: list[History]) -> dict[str, float]:
    """How far the answers about the users that both know are apart."""
    answers = [predictor.predict(asked, 10, evidence=False) for predictor in (before, after)]
    lists = [[[choice.value for choice in answer.choices] for answer in own] for own in answers]
    pairs = list(zip(*lists, strict=True))
    shares = [[sum(choice.score for choice in answer.choices) for answer in own] for own in answers]
    return {
        "asked": len(asked),
        "first of ten stays": float(np.mean([old[:1] == new[:1] for old, new in pairs])),
        "of ten stay": float(np.mean([len(set(old) & set(new)) / max(1, len(old)) for old, new in pairs])),
        "share of the ten before": float(np.mean(shares[0])),
        "share of the ten after": float(np.mean(shares[1])),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="cascade-blend")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    settings = {name: json.loads(value) for name, value in (pair.split("=", 1) for pair in args.set)}
    data, valid, test = (read(find(args.folder, stem))[0] for stem in ("cascade", "cascadevalid", "cascadetest"))
    order = np.argsort(data.times[data.offsets[:-1]], kind="stable")
    cut = int(len(data) * (1 - KEPT_BACK))
    early = data.select(np.sort(order[:cut]))
    late = data.select(np.sort(order[cut:]))
    newcomers = frozenset(map(data.vocabulary.value, np.setdiff1d(late.ids, early.ids).tolist()))

    predictor, _ = trained(args.model, settings, early, valid)
    before = scores(predictor, test, newcomers)
    old = copy.deepcopy(predictor)
    start_time = time.perf_counter()
    predictor.update(late)
    update = time.perf_counter() - start_time
    whole, again = trained(args.model, settings, data, valid)
    asked = [
        History(record.values[:-1], record.times[:-1], record.id)
        for record in test.records()
        if len(record.values) > 1 and not newcomers & set(record.values)
    ][:ASKED]
    results = {
        "data": args.folder.name,
        "model": args.model,
        "settings": settings,
        "learned": len(early),
        "updated with": len(late),
        "new users": len(newcomers),
        "seconds": {"update": update, "training on all": again},
        "before": before,
        "after update": scores(predictor, test, newcomers),
        "trained on all": scores(whole, test, newcomers),
        "answers after update": moved(old, predictor, asked),
        "answers of training on all": moved(old, whole, asked),
    }
    print(json.dumps(results, indent=1))
    if args.json:
        args.json.write_text(json.dumps({**provenance(), **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
