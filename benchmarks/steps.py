"""Processor time of a step of SANSR over 43,097 items: the sampled loss with its gradient at once, and by autograd.

Made-up sessions of Diginetica's number of items and lengths. Two networks start the same and learn the same batches in
turns on one thread, from data to optimiser. Their losses part by what rounding leaves, which Adam enlarges.

    python benchmarks/steps.py [--steps N] [--json FILE]
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

from ensue.data.histories import Histories, offsets_of
from ensue.nn import sampling
from ensue.studies.provenance import provenance
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.dataset import Windows
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST, Vocabulary

ITEMS, SESSIONS, MEAN, LONGEST, WARM = 43_097, 60_000, 4.8, 70, 5
WAYS = {"at once": sampling.WORTH, "autograd": 2**62}
"""From how many scores on the gradient is taken at once."""


def made_up() -> Histories:
    """Sessions of two clicks and more, few of them long; items by a power law, every one at least once."""
    random = np.random.default_rng(0)
    offsets = offsets_of((1 + random.geometric(1 / (MEAN - 1), SESSIONS)).clip(2, LONGEST).astype(np.int64))
    ids = random.zipf(1.3, offsets[-1]) % ITEMS
    ids[:ITEMS] = random.permutation(ITEMS)
    return Histories((ids + FIRST).astype(np.int32), offsets, Vocabulary(map(str, range(ITEMS))))


def learner() -> tuple[Any, Any]:
    """A network and its optimiser."""
    kind, settings, schedule = MODELS["sansr"]
    assert schedule is not None
    torch.manual_seed(0)
    network = kind(settings, ITEMS + FIRST).train()
    return network, make_optimizer(network, schedule)


def measure(data: Histories, steps: int) -> dict[str, Any]:
    """Milliseconds of the processor of all steps after the first few, and how far the losses are apart."""
    schedule, learners = MODELS["sansr"][2], {way: learner() for way in WAYS}
    assert schedule is not None
    counts = torch.from_numpy(np.bincount(data.ids, minlength=ITEMS + FIRST).astype(np.float32))
    windows = {way: Windows(data, network.reach) for way, (network, _) in learners.items()}
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    furthest = 0.0
    for network, _ in learners.values():
        network.sampler.count(counts)
    for step, index in enumerate(windows["at once"].plan(schedule.batch_size, 0)[:steps]):
        losses = []
        for way in list(WAYS)[:: 1 if step % 2 else -1]:
            network, optimizer = learners[way]
            sampling.WORTH = WAYS[way]
            torch.manual_seed(step)
            begun = time.process_time()
            optimizer.zero_grad()
            loss = network.loss(windows[way].batch(index))
            loss.backward()
            optimizer.step()
            took[way].append(1000 * (time.process_time() - begun))
            losses.append(loss.item())
        furthest = max(furthest, abs(losses[0] - losses[1]))
    own = {way: np.array(times[WARM:]) for way, times in took.items()}
    row: dict[str, Any] = {"model": "sansr", "items": ITEMS, "batch": schedule.batch_size, "steps": steps - WARM}
    row |= {f"{way.replace(' ', '_')}_mean_ms": round(float(times.mean()), 1) for way, times in own.items()}
    row["over_autograd"] = round(float(own["at once"].sum() / own["autograd"].sum()), 3)
    return {**row, "largest_loss_difference": float(f"{furthest:.1e}")}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(made_up(), args.steps)]
    print(rows[0], flush=True)
    if args.json:
        args.json.write_text(json.dumps({**provenance(), "threads": 1, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
