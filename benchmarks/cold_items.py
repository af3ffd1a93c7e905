"""Items without training events: how well their features rank them, and what that costs the items of the training data.

The first ``TRAINED`` of the events train a model with an item table; sessions that begin later are the test data. A
target is cold where the training data lacks its item. "without features" is the same model trained without a table, in
whose answers no cold item can be. Two baselines score the new items in that model:

- nearest by features: the mean score of the 10 trained items with the most similar features;
- popularity among new items: how often each was chosen in the test data so far, whatever the session.

Both add one number to the scores of all new items, chosen so that trained items have the HR@k that they have with
features. So the rows differ in which new items they show, not in how many trained items make room for them.

    python benchmarks/cold_items.py --data LOG --items TABLE [--model core] [--seeds 1] [--json FILE]
    python benchmarks/cold_items.py --model sansr [--json FILE]        the made-up town of the demonstration
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn import functional

from ensue.data.histories import CATEGORY, TEXT, Histories, Index, Items
from ensue.data.items import read_items
from ensue.data.sequences import read
from ensue.demo.town import histories_of, make_town
from ensue.metrics import Floats
from ensue.tasks.next.dataset import Windows, hide_seen
from ensue.tasks.next.item_features import KnownItems
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST
from ensue_studies.results import provenance

TRAINED = 0.8
"""Fraction of the events, in order of time, that train."""
NEIGHBOURS = 10
RESAMPLED = 1000
TOWN_DAY = 9
"""First day of the made-up town's test sessions: five articles of 24 are published on it or later."""
TOWN_SETTINGS = {"dim": 32, "learning_rate": 1e-2, "dropout": 0.1, "batch_size": 64, "epochs": 14}


class Targets(NamedTuple):
    """Test targets.

    Attributes:
        scores: (targets, ids).
        ruled_out: (targets, ids) True where the session holds an item already, and for padding and unknown.
        ids: (targets,) which id came.
        cold: (targets,) True where the training data lacks it.
        sessions: (targets,) the session of each.
        times: (targets,) when each came.
    """

    scores: Tensor
    ruled_out: Tensor
    ids: Tensor
    cold: Tensor
    sessions: Index
    times: Floats


def split(data: Histories) -> tuple[Histories, Histories]:
    """Return the training and the test sessions: none of the test sessions begins before the last training event."""
    cut = np.sort(data.times)[int(TRAINED * len(data.times))]
    starts = data.times[data.offsets[:-1]]
    before = data.select(np.flatnonzero(starts < cut))
    return before.keep(before.times < cut), data.select(np.flatnonzero(starts >= cut))


@torch.no_grad()
def score(predictor: NextPredictor, test: Histories, start: int) -> Targets:
    """Return the scores at each event of the test sessions but the first; ids from ``start`` on are new."""
    network, data = predictor.network.eval(), test.encode(predictor.vocabulary, drop_unknown=True)
    windows = Windows(data, network.reach)
    scores, ruled_out, ids, positions = [], [], [], []
    for index in windows.groups(512):
        batch, position = windows.batch(index), windows.positions(index)
        scores.append(network(batch).scores)
        hidden = hide_seen(torch.zeros_like(scores[-1]), data, position, predictor.metadata.exclusion)
        hidden[:, :FIRST] = -torch.inf
        ruled_out.append(hidden < 0)
        ids.append(batch.targets)
        positions.append(position)
    target, all_ids = np.concatenate(positions) + 1, torch.cat(ids)
    cold = all_ids >= start
    sessions = data.sequence_index()[target]
    return Targets(torch.cat(scores), torch.cat(ruled_out), all_ids, cold, sessions, data.times[target])


def ranks(targets: Targets, new: Tensor | None = None) -> Tensor:
    """Return the rank of each target among all items, (targets,).

    Args:
        targets: the targets.
        new: (targets, new items) scores in place of those of the new items.
    """
    scores = targets.scores if new is None else torch.cat([targets.scores[:, : -new.shape[1]], new], dim=1)
    scores = scores.masked_fill(targets.ruled_out, -torch.inf)
    own = scores.gather(1, targets.ids[:, None])
    return torch.where(own[:, 0] > -torch.inf, (scores > own).sum(1) + 1.0, torch.inf)


def nearest_by_features(known: KnownItems, values: Sequence[str], targets: Targets, start: int) -> Tensor:
    """Return scores of new items, (targets, new items): those of the nearest trained items by tokens, averaged.

    A score is linear in the vector of its item, so this is the score of the averaged vectors.
    """
    rows = [known.items.ids.index_of(value) for value in values]
    tokens, weights = (part[rows] for part in known.encoder.encode(known.items))
    dense = torch.zeros(len(tokens), known.encoder.num_tokens).scatter_add_(1, tokens, weights)
    dense, num_trained = functional.normalize(dense[:, 1:], dim=1), start - FIRST
    similarity, index = (dense[num_trained:] @ dense[:num_trained].T).topk(NEIGHBOURS, dim=1)
    fractions = similarity.clamp(min=1e-6)
    fractions = fractions / fractions.sum(1, keepdim=True)
    mixing = torch.zeros(len(index), start - FIRST).scatter_add_(1, index, fractions)
    return targets.scores[:, FIRST:start] @ mixing.T


def running_popularity(predictor: NextPredictor, test: Histories, targets: Targets, start: int) -> Tensor:
    """Return log(events so far + 0.1) of each new item at the time of each target, (targets, new items)."""
    data = test.encode(predictor.vocabulary, drop_unknown=True)
    counts = np.zeros((len(targets.times), len(predictor.vocabulary) - start), np.float32)
    for event in np.flatnonzero(data.ids >= start):
        counts[targets.times > data.times[event], data.ids[event] - start] += 1
    return torch.from_numpy(counts).add(0.1).log()


def at_equal_cost(targets: Targets, new: Tensor, warm_hits: float, k: int) -> Tensor:
    """Return ranks with the offset of new items at which trained items have about this HR@k."""
    new = new - new.mean() + targets.scores[:, FIRST:].mean()
    low, high = -40.0, 40.0
    for _ in range(12):
        offset = (low + high) / 2
        found = ranks(targets, new + offset)
        enough = float((found[~targets.cold] <= k).float().mean()) >= warm_hits
        low, high = (offset, high) if enough else (low, offset)
    return ranks(targets, new + low)


def metrics_of(found: Tensor, targets: Targets, k: int) -> dict[str, object]:
    """Return HR@k and MRR of trained and of cold targets in percent, with 95 % intervals over resampled sessions."""
    draw = np.random.default_rng(0)
    names, session = np.unique(targets.sessions, return_inverse=True)
    row: dict[str, object] = {}
    for name, mask in (("warm", ~targets.cold), ("cold", targets.cold)):
        chosen, gains = mask.numpy(), {f"HR@{k}": (found <= k).double(), "MRR": 1 / found.double()}
        for metric, gain in gains.items():
            sums = np.bincount(session[chosen], gain.numpy()[chosen], len(names))
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
    start, known = len(plain.vocabulary), model.known_items
    assert known is not None and model.vocabulary.values[: start - FIRST] == plain.vocabulary.values
    plain.add_values(model.vocabulary.values)
    with_features, without = score(model, test, start), score(plain, test, start)
    num_new = len(model.vocabulary) - start
    found = ranks(with_features)
    warm_hits = float((found[~with_features.cold] <= k).float().mean())
    nearest = nearest_by_features(known, model.vocabulary.values, without, start)
    popularity = running_popularity(plain, test, without, start)
    rows = {
        "without features": ranks(without, torch.full((len(found), num_new), -torch.inf)),
        "features": found,
        "nearest by features": at_equal_cost(without, nearest, warm_hits, k),
        "popularity among new items": at_equal_cost(without, popularity, warm_hits, k),
    }
    return {
        "warm targets": int((~without.cold).sum()),
        "cold targets": int(without.cold.sum()),
        "new items": num_new,
        "rows": {name: metrics_of(row, without, k) for name, row in rows.items()},
    }


def town() -> tuple[Histories, Histories, Items]:
    """Return the reading sessions of the made-up town, of the days before ``TOWN_DAY`` and later, and its articles."""
    world = make_town()
    articles = sorted(world.articles, key=lambda article: article.id)
    columns = pl.DataFrame(
        {"title": [one.title for one in articles], "topic": [world.interests[one.id] for one in articles]}
    )
    kinds = {"title": TEXT, "topic": CATEGORY}
    items = Items(pl.Series([one.id for one in articles]), columns, kinds, "title")
    early, late = (tuple(one for one in world.reading if (one.day < TOWN_DAY) is before) for before in (True, False))
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
        name, k, settings = "town", 5, TOWN_SETTINGS
        train, test, items = town()
    else:
        name, k, settings = args.data.name, 20, {}
        (train, test), (items, _) = split(read(args.data)[0]), read_items(args.items)
    found = []
    for seed in range(args.seeds):
        plain, model = (NextPredictor(args.model, settings=settings, seed=seed, device="cpu") for _ in range(2))
        for predictor, data in ((plain, train), (model, replace(train, items=items))):
            for _ in predictor.fit(data):
                pass
        found.append({"seed": seed, **measure(plain, model, test, k)})
        for label, row in found[-1]["rows"].items():
            print(seed, label, row, flush=True)
    if args.json:
        results = json.loads(args.json.read_text()) if args.json.exists() else {}
        results |= {f"{name} {args.model}": found, **provenance()}
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
