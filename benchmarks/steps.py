"""Processor time of a training step by two ways to the same gradients, in turns on one thread, data to optimiser.

``sansr``: made-up sessions of Diginetica's number of items and lengths; the sampled loss with its gradient at once, and
by autograd. ``ast``: made-up articles and posts of PolitiFact's lengths; compiled windows, and windows by torch. Two
networks start the same and learn the same batches. Their losses part by what rounding leaves, which Adam enlarges.

    python benchmarks/steps.py [--steps N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import torch

from ensue.data.histories import Histories, offsets_of
from ensue.nn import fused_window, sampling
from ensue.tasks.link.batches import Links
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.settings import FROM_ARTICLES, LinkSettings
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.dataset import Windows
from ensue.text.tokens import Tokens
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST, Vocabulary
from ensue_studies.results import provenance

ITEMS, SESSIONS, MEAN, LONGEST, WARM = 43_097, 60_000, 4.8, 70, 5
ARTICLES = (467, 600)
POSTS = (2_000, 16)
WORDS = 20_000
"""How many, of how many words; and how many distinct ones."""
WORTH = {"at once": sampling.WORTH, "autograd": 2**62}
"""From how many scores on the gradient is taken at once."""


class Case(NamedTuple):
    """One model and what it learns."""

    about: Mapping[str, Any]
    plan: list[Any]
    batches: Callable[[Any], Any]
    """Of the network, what makes a batch of an entry of the plan."""
    learner: Callable[[], tuple[Any, Any]]
    """A network and its optimiser."""
    ways: Mapping[str, Any]
    """What is in force while a way learns: the second is what the first is measured by."""


def sessions() -> Case:
    """Sessions of two clicks and more, few of them long; items by a power law, every one at least once."""
    random = np.random.default_rng(0)
    offsets = offsets_of((1 + random.geometric(1 / (MEAN - 1), SESSIONS)).clip(2, LONGEST).astype(np.int64))
    ids = random.zipf(1.3, offsets[-1]) % ITEMS
    ids[:ITEMS] = random.permutation(ITEMS)
    data = Histories((ids + FIRST).astype(np.int32), offsets, Vocabulary(map(str, range(ITEMS))))
    counts = torch.from_numpy(np.bincount(data.ids, minlength=ITEMS + FIRST).astype(np.float32))
    _, settings, schedule = MODELS["sansr"]
    kind = MODELS["sansr"].make
    assert schedule is not None
    make = partial(make_optimizer, schedule=schedule)
    size = schedule.batch_size

    def learner() -> tuple[Any, Any]:
        network = kind(settings, ITEMS + FIRST).train()
        network.sampler.count(counts)
        return network, make(network)

    ways = {way: patch.object(sampling, "WORTH", worth) for way, worth in WORTH.items()}
    plan = Windows(data, learner()[0].reach).plan(size, 0)
    about = {"model": "sansr", "items": ITEMS, "batch": size}
    return Case(about, plan, lambda net: Windows(data, net.reach).batch, learner, ways)


def texts() -> Case:
    """Articles and posts of words by a power law, each post about one article; lengths vary by a half."""
    random = np.random.default_rng(0)

    def tokens(num: int, mean: int) -> Tokens:
        lengths = (mean * random.lognormal(-0.125, 0.5, num)).astype(np.int64).clip(2)
        ids = (random.zipf(1.3, lengths.sum()) % WORDS + FIRST).astype(np.int64)
        return Tokens(ids, offsets_of(lengths), np.arange(num + 1))

    pairs = np.stack([random.integers(ARTICLES[0], size=POSTS[0]), np.arange(POSTS[0])], 1)
    data = Links(tokens(*ARTICLES), tokens(*POSTS), pairs)
    settings = LinkSettings(pretrain="none")

    def learner() -> tuple[Any, Any]:
        network = Linker(settings, WORDS + FIRST, 300).train()
        return network, make_optimizer(
            network, FROM_ARTICLES, undecayed=[network.table.weight], slow=network.encoder.parameters()
        )

    size = FROM_ARTICLES.batch_size
    ways = {"compiled": nullcontext(), "torch": patch.object(fused_window, "fits", lambda rows: False)}
    about = {"model": "ast", "articles": ARTICLES[0], "words": ARTICLES[1], "batch": size}
    return Case(about, data.plan(size, 0), lambda net: data.batch, learner, ways)


def learners(case: Case) -> Iterator[tuple[Any, Any]]:
    """For each way a network that starts the same, and its optimiser."""
    for _ in case.ways:
        torch.manual_seed(0)
        yield case.learner()


def measure(case: Case, steps: int) -> dict[str, Any]:
    """Milliseconds of the processor of all steps after the first few, and how far the losses are apart."""
    (first, second), made = case.ways, dict(zip(case.ways, learners(case), strict=True))
    batches = {way: case.batches(network) for way, (network, _) in made.items()}
    took: dict[str, list[float]] = {way: [] for way in case.ways}
    furthest = 0.0
    plan = case.plan * -(-steps // len(case.plan))
    for step, index in enumerate(plan[:steps]):
        losses = []
        for way in (first, second)[:: 1 if step % 2 else -1]:
            network, optimizer = made[way]
            torch.manual_seed(step)
            with case.ways[way]:
                start_time = time.process_time()
                optimizer.zero_grad()
                loss = network.loss(batches[way](index))
                loss.backward()
                optimizer.step()
                took[way].append(1000 * (time.process_time() - start_time))
            losses.append(loss.item())
        furthest = max(furthest, abs(losses[0] - losses[1]))
    own = {way: np.array(times[WARM:]) for way, times in took.items()}
    row: dict[str, Any] = {**case.about, "steps": steps - WARM}
    row |= {f"{way.replace(' ', '_')}_mean_ms": round(float(times.mean()), 1) for way, times in own.items()}
    row[f"over_{second}"] = round(float(own[first].sum() / own[second].sum()), 3)
    return {**row, "largest_loss_difference": float(f"{furthest:.1e}")}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for case in (sessions(), texts()):
        rows.append(measure(case, args.steps))
        print(rows[-1], flush=True)
    if args.json:
        args.json.write_text(json.dumps({**provenance(), "threads": 1, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
