"""Items without training events: how well their features rank them, and what that costs the items of the training data.

The first ``TRAINED`` of the events train a model with an item table; sessions that begin later are the test data. A
target is cold where the training data lacks its item. "without features" is the same model trained without a table, in
whose answers no cold item can be. The two baselines that ``ensue evaluate`` reports next to a model with an item table
score the new items too (:mod:`ensue.evaluation.new_items`): rows differ in which new items they show, not in how many
trained items make room for them.

    python benchmarks/cold_items.py --data LOG --items TABLE [--model core] [--seeds 1] [--json FILE]
    python benchmarks/cold_items.py --model sansr [--json FILE]        the made-up town of the demonstration
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue import metrics
from ensue.data.histories import CATEGORY, TEXT, Histories, Index, Items
from ensue.data.items import read_items
from ensue.data.sequences import read
from ensue.demo.town import histories_of, make_town
from ensue.evaluation.new_items import NewItemBaselines
from ensue.metrics import Floats
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST
from ensue_studies.results import provenance

TRAINED = 0.8
"""Fraction of the events, in order of time, that train."""
RESAMPLED = 1000
TOWN_DAY = 9
"""First day of the made-up town's test sessions: five articles of 24 are published on it or later."""
TOWN_SETTINGS = {"dim": 32, "learning_rate": 1e-2, "dropout": 0.1, "batch_size": 64, "epochs": 14}


def split(data: Histories) -> tuple[Histories, Histories]:
    """Return the training and the test sessions: none of the test sessions begins before the last training event."""
    cut = np.sort(data.times)[int(TRAINED * len(data.times))]
    starts = data.times[data.offsets[:-1]]
    before = data.select(np.flatnonzero(starts < cut))
    return before.keep(before.times < cut), data.select(np.flatnonzero(starts >= cut))


def ranks_of(predictor: NextPredictor, data: Histories) -> Floats:
    """Return the rank of each event among all items, (events,); ``metrics.MISS`` where it has none."""
    ranks = np.full(len(data.ids), metrics.MISS)
    rank, _, events = predictor.ranks(data, exclusion=predictor.metadata.exclusion)
    ranks[events] = rank
    return ranks


def metrics_of(ranks: Floats, sessions: Index, cold: npt.NDArray[np.bool_], k: int) -> dict[str, object]:
    """Return HR@k and MRR of trained and of cold targets in percent, with 95 % intervals over resampled sessions."""
    draw = np.random.default_rng(0)
    names, session = np.unique(sessions, return_inverse=True)
    row: dict[str, object] = {}
    for name, chosen in (("warm", ~cold), ("cold", cold)):
        for metric, gain in ((f"HR@{k}", (ranks <= k).astype(np.float64)), ("MRR", 1 / ranks)):
            sums = np.bincount(session[chosen], gain[chosen], len(names))
            counts = np.bincount(session[chosen], minlength=len(names))
            drawn = draw.integers(0, len(names), (RESAMPLED, len(names)))
            means = sums[drawn].sum(1) / counts[drawn].sum(1).clip(min=1)
            interval = np.quantile(means, [0.025, 0.975])
            row[f"{name} {metric}"] = round(100 * float(sums.sum() / counts.sum()), 2)
            row[f"{name} {metric} interval"] = [round(100 * float(end), 2) for end in interval]
    return row


def measure(plain: NextPredictor, model: NextPredictor, test: Histories, k: int) -> dict[str, Any]:
    """Return one row of metrics for each way to score new items.

    Args:
        plain: trained without an item table.
        model: trained with one.
        test: the test sessions.
        k: cutoff of the hit rate.
    """
    start = len(plain.vocabulary)
    assert model.vocabulary.values[: start - FIRST] == plain.vocabulary.values
    data = test.encode(model.vocabulary, drop_unknown=True)
    features = ranks_of(model, data)
    rows = {"without features": ranks_of(plain, data.encode(plain.vocabulary)), "features": features}
    baselines = NewItemBaselines(model, data, model.metadata.exclusion)
    rows |= {f"new items by {name}": ranks for name, ranks in baselines.ranks(features, k).items()}
    # The first event of a session has no event before it to be ranked after.
    is_target = np.ones(len(data.ids), np.bool_)
    is_target[data.offsets[:-1][data.lengths > 0]] = False
    cold = data.ids[is_target] >= start
    sessions = data.sequence_index()[is_target]
    return {
        "warm targets": int((~cold).sum()),
        "cold targets": int(cold.sum()),
        "new items": len(model.vocabulary) - start,
        "rows": {name: metrics_of(ranks[is_target], sessions, cold, k) for name, ranks in rows.items()},
    }


def town() -> tuple[Histories, Histories, Items]:
    """Return the reading sessions of the made-up town, of the days before ``TOWN_DAY`` and later, and its articles."""
    world = make_town()
    articles = sorted(world.articles, key=lambda article: article.id)
    columns = pl.DataFrame(
        {"title": [entry.title for entry in articles], "topic": [world.interests[entry.id] for entry in articles]}
    )
    kinds = {"title": TEXT, "topic": CATEGORY}
    items = Items(pl.Series([entry.id for entry in articles]), columns, kinds, "title")
    early, late = (
        tuple(entry for entry in world.reading if (entry.day < TOWN_DAY) is before) for before in (True, False)
    )
    return histories_of(early), histories_of(late), items


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="log with times; the made-up town without it")
    parser.add_argument("--items", type=Path)
    parser.add_argument("--model", default="core")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="results are added under the name of the log")
    args = parser.parse_args()
    if args.data is None:
        name = "town"
        k = 5
        settings = TOWN_SETTINGS
        train, test, items = town()
    else:
        name = args.data.name
        k = 20
        settings = {}
        (train, test), (items, _) = split(read(args.data)[0]), read_items(args.items)
    outcomes = []
    for seed in range(args.seeds):
        plain, model = (NextPredictor(args.model, settings=settings, seed=seed, device="cpu") for _ in range(2))
        for predictor, data in ((plain, train), (model, replace(train, items=items))):
            for _ in predictor.fit(data):
                pass
        outcomes.append({"seed": seed, **measure(plain, model, test, k)})
        for label, row in outcomes[-1]["rows"].items():
            print(seed, label, row, flush=True)
    if args.json:
        results = json.loads(args.json.read_text()) if args.json.exists() else {}
        results |= {f"{name} {args.model}": outcomes, **provenance()}
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
