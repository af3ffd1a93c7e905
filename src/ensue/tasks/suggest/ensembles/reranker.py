"""What suggestions are ordered by: weights of a few features, and the cost of a word, chosen on held-out sessions.

First a mixture of the network and the counting models (:mod:`ensue.tasks.suggest.ensembles.mixture`), then a
conditional logit (McFadden 1974): the chance that a candidate is the true next query is the softmax, over its pool, of
the weighted sum of its features. The weights make the true queries of held-out sessions likeliest under a normal prior
on standardised features around 1 for the logarithm of the mixture and 0 for all else: where nothing can be learned, the
mixture orders. How strong the prior is, the other sessions say, a fifth at a time. Targets whose truth is in no pool
say nothing, nor to the mixture: the network gives each some probability, and that is not what it is asked for.

No counting model is left behind: where one ranks the held-out sessions higher than all that, or nothing ranks anything
at all, counting is what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn import functional

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.data.queries import Queries, prefixes
from ensue.metrics import Floats
from ensue.tasks.suggest.candidates import COUNTED, FEATURES, MIXED, MIXTURE, NETWORK, Pool, features, parts, shares
from ensue.tasks.suggest.catalogue import COUNTING
from ensue.tasks.suggest.dataset import latest
from ensue.tasks.suggest.ensembles.consensus import choose_cost
from ensue.tasks.suggest.ensembles.mixture import learn_mixture
from ensue.tasks.suggest.infer import GROUP, count, pools, values
from ensue.tasks.suggest.state import SuggestState
from ensue.vocabulary import FIRST

MOST = 1000
"""Held-out targets that are looked at, drawn at random, the same ones every time."""
PRIORS = (1.0, 10.0, 100.0)
"""Strengths of the prior that are tried; above the last the mixture orders alone."""
FOLDS = 5
SHOWN = 10


class _Asked(NamedTuple):
    """Held-out targets."""

    sessions: Histories
    true: pl.Series
    owners: Index
    """(targets,) the session of each, from 0."""


def learn_order(state: SuggestState, held: Queries) -> str | None:
    """Choose on held-out sessions what suggestions are ordered by, and note what that did there.

    Returns:
        The counting model that ranks better than all of it, if one does.
    """
    own, metadata = state.shared, state.metadata
    if not own.retrieved and own.first == "likeliest":
        return None
    asked = _draw(held, own.turns)
    if own.retrieved:
        metadata.mixture = dict.fromkeys(MIXED, 1 / len(MIXED))
    candidates: list[Pool] = []
    for low in range(0, len(asked.true), GROUP):
        part = asked.sessions.select(slice(low, low + GROUP))
        candidates += pools(state, part, SHOWN, [""] * len(part))
    floor = _learn_mix(state, asked, candidates) if own.retrieved else None
    if own.first == "consensus" and floor is None:
        weighed = [([own.text for own in pool], shares(values(state, pool))) for pool in candidates]
        metadata.word_cost, metadata.validation_bleu = choose_cost(weighed, asked.true)
    return floor


def _draw(held: Queries, turns: int) -> _Asked:
    short = latest(held.histories, 8 * turns)
    sessions, targets = prefixes(short, turns)
    drawn = np.sort(np.random.default_rng(0).permutation(len(targets))[:MOST])
    owners = np.repeat(np.arange(len(short)), np.maximum(short.lengths - 1, 0))[drawn]
    texts = pl.Series("query", short.vocabulary.values, dtype=pl.String)
    true = texts.gather(targets[drawn].astype(np.int64) - FIRST)
    return _Asked(sessions.select(drawn), true, np.unique(owners, return_inverse=True)[1])


def _learn_mix(state: SuggestState, asked: _Asked, candidates: Sequence[Pool]) -> str | None:
    """The mixture and the weights; returns the counting model that is better, if one is."""
    metadata, tokens, exponent = state.metadata, state.metadata.tokens, state.shared.exponent
    answers = np.array(
        [
            next((place for place, own in enumerate(pool) if own.text == text), -1)
            for pool, text in zip(candidates, asked.true, strict=True)
        ],
        np.int64,
    )
    came = [pool[answer] for pool, answer in zip(candidates, answers.tolist(), strict=True) if answer >= 0]
    weights = learn_mixture(parts(came, tokens))
    metadata.mixture = {name: float(f"{weight:.6g}") for name, weight in zip(MIXED, weights.tolist(), strict=True)}
    tables = [features(pool, exponent, metadata.mixture, tokens) for pool in candidates]
    metadata.found_in_pool = round(float((answers >= 0).mean()), 4)
    names = [*FEATURES, *COUNTED]
    alone = {NETWORK: "a_token", MIXTURE: MIXTURE}
    columns = {key: [table[:, names.index(name)] for table in tables] for key, name in alone.items()}
    ranked = {key: _reciprocal(columns[key], answers) for key in alone}
    strength, ranked["mixed"] = _choose_strength(tables, answers, asked.owners % FOLDS, ranked[MIXTURE])
    mix = logit(*_known(tables, answers), strength)
    metadata.mix = {name: float(f"{weight:.6g}") for name, weight in zip(names, mix.tolist(), strict=True)}
    for name in COUNTING:
        found = count(state, name, asked.sessions, SHOWN)
        ranked[name] = metrics.reciprocal_rank(metrics.text_ranks(found.texts, found.offsets, asked.true), SHOWN)
    metadata.validation_mrr = {name: round(float(own.mean()), 5) for name, own in ranked.items()}
    return _better(metadata.validation_mrr)


def _better(figures: Mapping[str, float]) -> str | None:
    """The best counting model, where it is ahead of what is learned or that has learned nothing."""
    best = max(COUNTING, key=lambda name: figures[name])
    return best if figures[best] > figures["mixed"] or not figures["mixed"] else None


def _choose_strength(
    tables: Sequence[Floats], answers: Index, folds: Index, mixture: Floats
) -> tuple[float | None, Floats]:
    """The strength of the prior that ranks other sessions best (``None``: the mixture alone), and how they rank."""
    best: tuple[float | None, Floats] = (None, mixture)
    for strength in PRIORS[::-1]:
        ranks = np.zeros(len(tables))
        for fold in range(FOLDS):
            learned, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            weights = logit(*_known([tables[row] for row in learned.tolist()], answers[learned]), strength)
            ranks[asked] = _reciprocal([tables[row] @ weights for row in asked.tolist()], answers[asked])
        if ranks.mean() > best[1].mean():
            best = strength, ranks
    return best


def _known(tables: Sequence[Floats], answers: Index) -> tuple[list[Floats], Index]:
    """The pools that hold the truth, and where."""
    rows = np.flatnonzero(answers >= 0)
    return [tables[row] for row in rows.tolist()], answers[rows]


def logit(pools_of: Sequence[Floats], answers: Index, strength: float | None) -> Floats:
    """(features,) the weights that make the answers likeliest under a prior around 1 for the last feature.

    Args:
        pools_of: (candidates, features) a target.
        answers: which candidate came.
        strength: of the prior, on standardised features; ``None``: the prior alone.
    """
    size = len(FEATURES) + len(COUNTED) if not len(pools_of) else pools_of[0].shape[1]
    prior = np.zeros(size)
    prior[-1] = 1.0
    if strength is None or not len(pools_of):
        return prior
    every = np.concatenate(pools_of)
    mean, scale = every.mean(0), every.std(0)
    says = scale >= 1e-9  # what says nothing keeps its weight
    scale[~says] = 1.0
    width = max(map(len, pools_of))
    padded = np.zeros((len(pools_of), width, size))
    mask = np.zeros((len(pools_of), width), np.bool_)
    for row, own in enumerate(pools_of):
        padded[row, : len(own)], mask[row, : len(own)] = (own - mean) / scale * says, True
    table, open_, target = torch.from_numpy(padded), torch.from_numpy(mask), torch.from_numpy(answers)
    center = torch.from_numpy(prior * scale)
    weights = center.clone().requires_grad_()
    search = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        scores = (table @ weights).masked_fill(~open_, -torch.inf)
        away = (weights - center).square().sum()
        value = functional.cross_entropy(scores, target, reduction="sum") + strength / 2 * away
        torch.autograd.backward(value)
        return value

    search.step(loss)  # type: ignore[no-untyped-call]
    unscaled: Floats = weights.detach().numpy() / scale
    return unscaled


def _reciprocal(scores: Sequence[Floats], answers: Index) -> Floats:
    """(targets,) one over the rank of each answer, after all that tie with it; 0 beyond ``SHOWN``, and of -1."""
    ranks = [
        np.inf if answer < 0 else int((own >= own[answer]).sum())
        for own, answer in zip(scores, answers.tolist(), strict=True)
    ]
    return metrics.reciprocal_rank(np.array(ranks, np.float64), SHOWN)
