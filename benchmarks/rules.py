"""Rules of requests at the size of a shop: what they forbid, what they cost, and metrics of lists against RecTools.

    python benchmarks/rules.py [--items 43097] [--requests 10000] [--json FILE]
    python benchmarks/rules.py --rectools PYTHON

A network with a table of made-up items answers requests with random filters, lists and limits. Every answer is compared
with the rules evaluated item by item, apart from the service's own code. Then the processor time of single requests is
compared with that of the same requests without rules, in turn; ``stored`` names a list of 100,000 items.

``--rectools`` is the Python of an environment with RecTools (``pip install rectools``). It computes the metrics of the
same lists (:mod:`ensue.evaluation.beyond_accuracy`), from a file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ensue import NextEvent
from ensue.evaluation.beyond_accuracy import list_metrics
from ensue.records import History
from ensue.tasks.next.infer import predict_each
from ensue.tasks.next.item_filter import Rules, StoredList
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.results import provenance

NOW = 1_717_200_000.0
BRANDS, CATEGORIES = 800, 60
STORED = 100_000
SESSIONS, LENGTH = 30_000, 5
K = 10
TIMED = 400
"""Requests whose time is measured, with and without rules."""
RECTOOLS = """
import json, sys
import numpy as np, pandas as pd
from rectools import Columns
from rectools.metrics import AvgRecPopularity, CatalogCoverage, IntraListDiversity, MeanInvUserFreq, Serendipity
from rectools.metrics.distances import PairwiseDistanceCalculator

data = json.load(open(sys.argv[1]))
rows = [(user, item, rank) for user, items in enumerate(data["lists"]) for rank, item in enumerate(items, 1)]
reco = pd.DataFrame(rows, columns=[Columns.User, Columns.Item, Columns.Rank])
events = [(user, item) for user, items in enumerate(data["train"]) for item in items]
train = pd.DataFrame(events, columns=[Columns.User, Columns.Item])
test = pd.DataFrame(enumerate(data["targets"]), columns=[Columns.User, Columns.Item])
distances = np.array(data["distances"])
number = {item: at for at, item in enumerate(data["catalog"])}


class Distance(PairwiseDistanceCalculator):
    def _get_distances_for_item_pairs(self, first, second):
        return distances[[number[item] for item in first], [number[item] for item in second]]


k = data["k"]
print(json.dumps({
    f"coverage@{k}": CatalogCoverage(k, normalize=True).calc(reco, data["catalog"]),
    f"novelty@{k}": MeanInvUserFreq(k).calc(reco, train),
    f"serendipity@{k}": Serendipity(k).calc(reco, test, train, data["catalog"]),
    f"diversity@{k}": IntraListDiversity(k, distance_calculator=Distance()).calc(reco),
    f"popularity@{k}": AvgRecPopularity(k).calc(reco, train),
}))
"""


def shop(num_items: int) -> tuple[NextPredictor, list[dict[str, Any]]]:
    """Return a fitted network, and its item table as rows."""
    random = np.random.default_rng(0)
    rows = [
        {
            "item": f"i{number}",
            "category": f"c{random.integers(CATEGORIES)}|c{random.integers(CATEGORIES)}",
            "brand": f"b{random.integers(BRANDS)}",
            "price": "" if random.random() < 0.05 else f"{random.lognormal(3, 1):.2f}",
            "published": f"{2024 - random.integers(2)}-{random.integers(1, 6):02d}-{random.integers(1, 29):02d}",
        }
        for number in range(num_items)
    ]
    # Popularity falls as in real logs, and no session repeats an item.
    draws = (num_items * random.random((SESSIONS, LENGTH)) ** 3).astype(int)
    sessions = [[f"i{item}" for item in dict.fromkeys(row)] for row in draws.tolist()]
    sessions += [[f"i{low}", f"i{low + 1}"] for low in range(0, num_items - 1, 2)]
    model = NextEvent("core", epochs=1, refit=False, max_steps=40)
    return model.fit(sessions, items=pl.DataFrame(rows)).predictor_, rows


def random_rules(random: np.random.Generator, ids: list[str]) -> tuple[Rules, Callable[[dict[str, Any]], bool]]:
    """Return rules, and a function that says whether they permit an item."""
    price, days = float(random.lognormal(3, 1)), int(random.integers(1, 300))
    categories = {f"c{number}" for number in random.integers(0, CATEGORIES, 3)}
    exclude, allow = ({ids[at] for at in random.integers(0, len(ids), random.integers(0, 2_000))} for _ in range(2))
    since = np.datetime64(int(NOW), "s") - np.timedelta64(days, "D")
    parts: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
        (f"price < {price}", lambda item: item["price"] != "" and float(item["price"]) < price),
        (f"not price < {price}", lambda item: item["price"] != "" and float(item["price"]) >= price),
        (f"published within {days} d", lambda item: bool(since <= np.datetime64(item["published"]) <= NOW_DAY)),
        (
            f"category in {json.dumps(sorted(categories))}",
            lambda item: bool(categories & {*item["category"].split("|")}),
        ),
    ]
    chosen = [parts[at] for at in random.permutation(len(parts))[: random.integers(0, 3)]]
    uses_lists = bool(random.random() < 0.5), bool(random.random() < 0.2)
    rules = Rules.of(
        exclude if uses_lists[0] else (),
        allow if uses_lists[1] else None,
        [text for text, _ in chosen],
        NOW,
        {"brand": 1} if random.random() < 0.2 else None,
    )

    def permits(item: dict[str, Any]) -> bool:
        listed = not (uses_lists[0] and item["item"] in exclude) and not (uses_lists[1] and item["item"] not in allow)
        return listed and all(is_true(item) for _, is_true in chosen)

    return rules, permits


NOW_DAY = np.datetime64(int(NOW), "s")


def forbidden(predictor: NextPredictor, rows: list[dict[str, Any]], num_requests: int) -> dict[str, int]:
    """Return the number of forbidden items in answers, and of answers that are shorter than they could be."""
    random = np.random.default_rng(1)
    ids = [row["item"] for row in rows]
    by_id = {row["item"]: row for row in rows}
    leaked = short = 0
    for _ in range(num_requests):
        rules, permits = random_rules(random, ids)
        record = History(tuple(ids[at] for at in random.integers(0, len(ids), 3)))
        (answer,) = predict_each(predictor, [record], predictor.filters_of([rules]), K, evidence=False)
        items = [by_id[choice.value] for choice in answer.choices]
        brands = [item["brand"] for item in items]
        leaked += sum(not permits(item) for item in items) + (bool(rules.max_per) and len({*brands}) < len(brands))
        if len(items) < K and not rules.max_per:
            short += sum(permits(row) and row["item"] not in record.values for row in rows) > len(items)
    return {"requests": num_requests, "forbidden": int(leaked), "short": int(short)}


def costs(predictor: NextPredictor, rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the processor time of a request with rules, in milliseconds and as a ratio to one without."""
    random = np.random.default_rng(2)
    ids = [row["item"] for row in rows]
    stored = StoredList([*ids[: len(ids) // 2], *(f"other {number}" for number in range(STORED - len(ids) // 2))])
    ways = {
        "plain": Rules(),
        "one filter": Rules.of(filters=["price < 50"]),
        "three filters": Rules.of(
            filters=['category == "c1" or category in ["c2", "c3", "c4"]', "not price < 5", "published within 90 d"],
            now=NOW,
        ),
        "stored": Rules.of(exclude=stored),
        "stored, filter, one excluded": Rules((stored, ["i5"]), (), ("price < 50",)),
        "two per brand": Rules.of(max_per={"brand": 2}),
        "mmr": Rules.of(diversify="mmr=0.3"),
    }
    taken = {name: np.zeros(TIMED) for name in ways}
    for turn in range(TIMED):
        record = History(tuple(ids[at] for at in random.integers(0, len(ids), 3)))
        for number in random.permutation(len(ways)).tolist():
            name = [*ways][number]
            cpu = time.thread_time()
            # Every request has rules of its own, as if it came over HTTP.
            filters = predictor.filters_of([Rules(*ways[name])])
            predict_each(predictor, [record], filters, K, evidence=False)
            taken[name][turn] = 1000 * (time.thread_time() - cpu)
    plain = float(np.median(taken["plain"]))
    medians = {name: float(np.median(values)) for name, values in taken.items()}
    return {name: {"ms": round(value, 3), "ratio": round(value / plain, 3)} for name, value in medians.items()}


def against_rectools(python: str) -> dict[str, list[float]]:
    """Return each metric of made-up lists as computed here and by RecTools."""
    random = np.random.default_rng(3)
    catalog = [f"i{number}" for number in range(200)]
    # An item comes once in a session, so that its events are its sessions.
    train = [[catalog[at] for at in np.unique((200 * random.random(6) ** 2).astype(int))] for _ in range(500)]
    train.append(catalog)
    predictor = NextEvent("cooccurrence").fit(train).predictor_
    lists = [[catalog[at] for at in random.permutation(200)[:K]] for _ in range(300)]
    targets = [items[random.integers(K)] if random.random() < 0.5 else catalog[random.integers(200)] for items in lists]
    ids = predictor.vocabulary.ids(catalog).astype(np.int64)
    distances = 1 - predictor.item_similarity().of_all(ids, ids)
    ours = list_metrics(
        np.array([predictor.vocabulary.ids(items) for items in lists], np.int64),
        predictor.vocabulary.ids(targets).astype(np.int64),
        predictor,
    )
    data = {"k": K, "catalog": catalog, "train": train, "lists": lists, "targets": targets}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lists.json")
        path.write_text(json.dumps({**data, "distances": distances.tolist()}))
        ran = subprocess.run([python, "-c", RECTOOLS, str(path)], check=True, capture_output=True, text=True)
    theirs = json.loads(ran.stdout)
    for name, value in theirs.items():
        assert abs(ours[name] - value) <= 1e-9 * max(1.0, abs(value)), (name, ours[name], value)
    return {name: [ours[name], value] for name, value in theirs.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=43_097)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rectools", default="", help="Python with RecTools: compare metrics of lists only")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.rectools:
        for name, pair in against_rectools(args.rectools).items():
            print(f"{name}: {pair[0]:.9f}, RecTools {pair[1]:.9f}")
        return
    predictor, rows = shop(args.items)
    results = {"items": args.items, "costs": costs(predictor, rows), **forbidden(predictor, rows, args.requests)}
    print(json.dumps(results, indent=1))
    if args.json:
        args.json.write_text(json.dumps(results | provenance(), indent=1) + "\n")


if __name__ == "__main__":
    main()
