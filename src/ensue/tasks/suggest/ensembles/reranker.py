"""What suggestions are ordered by: weights of a few features, and the cost of a word, chosen on held-out sessions.

Weights put what is written and what is looked up on one scale; for the cost see
:mod:`ensue.tasks.suggest.ensembles.consensus`.
A conditional logit (McFadden 1974): the chance that a candidate is the true next query is the softmax, over its pool,
of the weighted sum of ``FEATURES``. The weights make the true queries of held-out sessions likeliest, with a little L2
on standardised features. Targets whose truth is in none say nothing and are left out; where fewer than ``LEAST`` are
left, nothing is mixed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn import functional

from ensue.data.queries import Queries, prefixes
from ensue.metrics import Floats
from ensue.tasks.suggest.candidates import FEATURES, Pool, features, shares
from ensue.tasks.suggest.dataset import latest
from ensue.tasks.suggest.ensembles.consensus import choose_cost
from ensue.tasks.suggest.infer import GROUP, pools, values
from ensue.tasks.suggest.state import SuggestState

MOST = 1000
"""Held-out targets that are looked at, drawn at random, the same ones every time."""
LEAST = 20
PENALTY = 1e-2
SHOWN = 10


def learn_order(state: SuggestState, held: Queries) -> None:
    """Choose on held-out sessions what suggestions are ordered by, and note what that did there."""
    own = state.shared
    if not own.retrieved and own.first == "likeliest":
        return
    sessions, targets = prefixes(latest(held.histories, 8 * own.turns), own.turns)
    drawn = np.sort(np.random.default_rng(0).permutation(len(targets))[:MOST])
    sessions, true = sessions.select(drawn), [sessions.vocabulary.value(id) for id in targets[drawn].tolist()]
    candidates: list[Pool] = []
    for low in range(0, len(drawn), GROUP):
        part = sessions.select(slice(low, low + GROUP))
        candidates += pools(state, part, SHOWN, [""] * len(part))
    if own.retrieved:
        _learn_mix(state, candidates, true)
    if own.first == "consensus":
        weighed = [([own.text for own in pool], shares(values(state, pool))) for pool in candidates]
        cost, figures = choose_cost(weighed, pl.Series("query", true, dtype=pl.String))
        state.metadata.word_cost, state.metadata.validation_bleu = cost, figures


def _learn_mix(state: SuggestState, candidates: Sequence[Pool], true: Sequence[str]) -> None:
    kept, answers, before = [], [], []
    for pool, text in zip(candidates, true, strict=True):
        places = [place for place, own in enumerate(pool) if own.text == text]
        if places:
            kept.append(features(pool, state.shared.exponent))
            answers.append(places[0])
            before.append(kept[-1][:, FEATURES.index("a_token")])
    metadata = state.metadata
    metadata.found_in_pool = round(len(kept) / max(1, len(true)), 4)
    if len(kept) < LEAST:
        metadata.notes.append(
            f"the pools hold {len(kept)} of {len(true):,} true next queries of held-out sessions; {LEAST} are needed "
            "to weigh what is written against what is looked up, so the order is the network's own"
        )
        return
    weights = logit(kept, answers)
    metadata.mix = {name: float(f"{weight:.6g}") for name, weight in zip(FEATURES, weights.tolist(), strict=True)}
    after = [rows @ weights for rows in kept]
    metadata.validation_mrr = {
        name: round(sum(map(_reciprocal, scored, answers)) / len(true), 5)
        for name, scored in (("network", before), ("mixed", after))
    }


def logit(pools_of: list[Floats], answers: list[int]) -> Floats:
    """(features,) the weights that make the answers likeliest.

    Args:
        pools_of: (candidates, features) a target.
        answers: which candidate came.
    """
    every = np.concatenate(pools_of)
    mean, scale = every.mean(0), every.std(0)
    scale[scale < 1e-9] = np.inf  # says nothing: its weight becomes 0
    width = max(map(len, pools_of))
    padded = np.zeros((len(pools_of), width, len(mean)))
    mask = np.zeros((len(pools_of), width), np.bool_)
    for row, own in enumerate(pools_of):
        padded[row, : len(own)], mask[row, : len(own)] = (own - mean) / scale, True
    table, open_, target = torch.from_numpy(padded), torch.from_numpy(mask), torch.tensor(answers)
    weights = torch.zeros(len(mean), dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        scores = (table @ weights).masked_fill(~open_, -torch.inf)
        value = functional.cross_entropy(scores, target) + PENALTY / 2 * weights.square().sum()
        torch.autograd.backward(value)
        return value

    search.step(loss)  # type: ignore[no-untyped-call]
    unscaled: Floats = weights.detach().numpy() / scale
    return unscaled


def _reciprocal(scores: Floats, answer: int) -> float:
    rank = int((scores >= scores[answer]).sum())
    return 1 / rank if rank <= SHOWN else 0.0
