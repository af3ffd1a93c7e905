"""Ranking of suggestions: feature weights and the cost per word, fitted on held-out sessions.

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

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.data.queries import Queries, prefixes
from ensue.metrics import Floats
from ensue.significance import significantly_positive
from ensue.tasks.suggest.candidates import EVERY, MIXED, MIXTURE, NETWORK, Pool, features, parts, shares
from ensue.tasks.suggest.catalogue import COUNTING, RERANKER
from ensue.tasks.suggest.dataset import latest
from ensue.tasks.suggest.ensembles.consensus import choose_cost
from ensue.tasks.suggest.ensembles.mixture import learn_mixture
from ensue.tasks.suggest.infer import GROUP, count, pools, scored, values
from ensue.tasks.suggest.metadata import Metadata
from ensue.tasks.suggest.state import SuggestState
from ensue.vocabulary import FIRST

MOST = 1000
"""Held-out targets that are looked at, drawn at random, the same ones every time."""
MOST_COUNTED = 5000
"""Maximum number of held-out targets without a network, where scoring is cheap."""
PRIORS = (1.0, 10.0, 100.0)
"""Strengths of the prior that are tried; above the last the mixture orders alone."""
FOLDS = 5
CENTER = np.array([float(name == MIXTURE) for name in EVERY])
"""Mean of the prior, under which the mixture ranks."""
STEPS, CLOSE = 50, 1e-6
"""Newton's steps at most, and the expected gain in nats at which they end."""
SHOWN = 10


class _Asked(NamedTuple):
    """Held-out targets."""

    sessions: Histories
    true: pl.Series
    owners: Index
    """(targets,) the session of each, from 0."""


class _Targets(NamedTuple):
    """Candidates of held-out targets."""

    pools: list[Pool]
    true: pl.Series
    folds: Index
    """(targets,) those of a fold are learned together."""
    drawn: int
    """Number of targets, those without candidates included."""


def learn_counted_order(state: SuggestState, data: Queries) -> tuple[str, bool]:
    """Choose what is ordered by where no network takes part, each session asked of the counts of all other fifths.

    Only targets that somebody else typed, or the session itself, are looked at: the others no counting model can rank.

    Args:
        state: that counted all of ``data``.
        data: sessions.

    Returns:
        The model that ranks best, ``RERANKER`` or a counting one; and whether the learned order is significantly
        better than all counting models, paired by sessions.
    """
    folds = np.random.default_rng(0).integers(FOLDS, size=len(data))
    candidates: list[Pool] = []
    true: list[str] = []
    owners, where = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    ranked: dict[str, list[Floats]] = {name: [] for name in COUNTING}
    # Who reaches the floor in all of the log reaches that part of it in the other folds; users count over the file.
    pair_users = -(-state.shared.min_users * (FOLDS - 1) // FOLDS)
    least = state.shared.min_users if len(data.users) else pair_users
    drawn = 0
    for fold in range(FOLDS):
        part, rest = data.select(folds == fold), data.select(folds != fold)
        if not len(part) or not len(rest) or int(part.histories.lengths.max()) < 2:
            continue
        asked = _draw(part, state.shared.turns, MOST_COUNTED // FOLDS)
        drawn += len(asked.true)
        other = state.counted_on(rest, least, pair_users)
        can = np.array(
            [
                other.following.vocabulary.id(text) >= FIRST or text in record.values
                for text, record in zip(asked.true, asked.sessions.records(), strict=True)
            ],
            np.bool_,
        )
        sessions, came = asked.sessions.select(can), asked.true.filter(can)
        for low in range(0, len(came), GROUP):
            group = sessions.select(slice(low, low + GROUP))
            candidates += pools(other, group, SHOWN, [""] * len(group))
        true += came.to_list()
        owners.append(asked.owners[can] + owners[-1].max(initial=-1) + 1)
        where.append(np.full(len(came), fold))
        for name in COUNTING:
            ranked[name].append(_ranks(other, name, sessions, came))
    targets = _Targets(candidates, pl.Series("query", true, dtype=pl.String), np.concatenate(where), drawn)
    found = {name: np.concatenate([np.empty(0), *own]) for name, own in ranked.items()}
    mixed = _learn_mix(state, targets, found, writes=False)
    figures = state.metadata.validation_mrr
    assert figures is not None
    best = max(COUNTING, key=lambda name: figures[name])
    is_better = significantly_positive(mixed - found[best], np.concatenate(owners))
    return _better(figures) or RERANKER, is_better


def learn_order(state: SuggestState, held: Queries, counted: Metadata | None = None) -> str | None:
    """Choose on held-out sessions what suggestions are ordered by, and note what that did there.

    Args:
        state: whose network is trained.
        held: sessions that it did not learn.
        counted: what :func:`learn_counted_order` noted.

    Returns:
        ``RERANKER`` or the counting model that ranks better than all of it, if one does.
    """
    own, metadata = state.shared, state.metadata
    if not own.retrieved and own.first == "likeliest":
        return None
    asked = _draw(held, own.turns, MOST)
    if own.retrieved:
        metadata.mixture = dict.fromkeys(MIXED, 1 / len(MIXED))
    candidates: list[Pool] = []
    for low in range(0, len(asked.true), GROUP):
        part = asked.sessions.select(slice(low, low + GROUP))
        candidates += pools(state, part, SHOWN, [""] * len(part))
    targets = _Targets(candidates, asked.true, asked.owners % FOLDS, len(asked.true))
    if not own.retrieved:
        _choose_first(state, targets)
        return None
    ranked = {name: _ranks(state, name, asked.sessions, asked.true) for name in COUNTING}
    if counted is not None:
        looked_up = [[own for own in pool if own.count] for pool in candidates]
        scores = [scored(pool, counted, own.exponent, metadata.tokens) for pool in looked_up]
        ranked[RERANKER] = _reciprocal(scores, _answers(looked_up, asked.true))
    _learn_mix(state, targets, ranked, writes=True)
    assert metadata.validation_mrr is not None
    return _better(metadata.validation_mrr)


def _draw(held: Queries, turns: int, most: int) -> _Asked:
    short = latest(held.histories, 8 * turns)
    sessions, targets = prefixes(short, turns)
    drawn = np.sort(np.random.default_rng(0).permutation(len(targets))[:most])
    owners = np.repeat(np.arange(len(short)), np.maximum(short.lengths - 1, 0))[drawn]
    texts = pl.Series("query", short.vocabulary.values, dtype=pl.String)
    true = texts.gather(targets[drawn].astype(np.int64) - FIRST)
    return _Asked(sessions.select(drawn), true, np.unique(owners, return_inverse=True)[1])


def _ranks(state: SuggestState, name: str, sessions: Histories, true: pl.Series) -> Floats:
    """(targets,) one over the rank of what came by a counting model."""
    found = count(state, name, sessions, SHOWN)
    return metrics.reciprocal_rank(metrics.text_ranks(found.texts, found.offsets, true), SHOWN)


def _learn_mix(state: SuggestState, targets: _Targets, ranked: Mapping[str, Floats], *, writes: bool) -> Floats:
    """The mixture, the weights and what leads; returns (targets,) one over the rank of what came.

    Args:
        state: trained, or counted.
        targets: what was considered.
        ranked: (targets,) one over the rank of what came, by each counting model.
        writes: whether a network takes part.
    """
    metadata, tokens, exponent, candidates = state.metadata, state.metadata.tokens, state.shared.exponent, targets.pools
    answers = _answers(candidates, targets.true)
    came = [pool[answer] for pool, answer in zip(candidates, answers.tolist(), strict=True) if answer >= 0]
    weights = learn_mixture(parts(came, tokens)[:, 0 if writes else 1 :])
    weights = weights if writes else np.concatenate([[0.0], weights])
    metadata.mixture = {name: float(f"{weight:.6g}") for name, weight in zip(MIXED, weights.tolist(), strict=True)}
    tables = [features(pool, exponent, metadata.mixture, tokens) for pool in candidates]
    metadata.found_in_pool = round(float((answers >= 0).sum()) / max(targets.drawn, 1), 4)
    alone = {NETWORK: "a_token", MIXTURE: MIXTURE} if writes else {MIXTURE: MIXTURE}
    columns = {key: [table[:, EVERY.index(name)] for table in tables] for key, name in alone.items()}
    reciprocal = {key: _reciprocal(columns[key], answers) for key in alone}
    strength, reciprocal["mixed"] = _choose_strength(tables, answers, targets.folds, reciprocal[MIXTURE])
    mix = logit(*_known(tables, answers), strength, CENTER)
    metadata.mix = {name: float(f"{weight:.6g}") for name, weight in zip(EVERY, mix.tolist(), strict=True)}
    every = {**reciprocal, **ranked}
    metadata.validation_mrr = {name: round(float(own.sum()) / max(targets.drawn, 1), 5) for name, own in every.items()}
    _choose_first(state, targets)
    return reciprocal["mixed"]


def _answers(pools_of: Sequence[Pool], true: pl.Series) -> Index:
    """(targets,) which candidate came, -1 where none did."""
    found = (
        next((place for place, own in enumerate(pool) if own.text == text), -1)
        for pool, text in zip(pools_of, true, strict=True)
    )
    return np.fromiter(found, np.int64, len(true))


def _choose_first(state: SuggestState, targets: _Targets) -> None:
    """Choose the cost per word for the suggestion ranked first."""
    if state.shared.first == "consensus":
        weighed = [([own.text for own in pool], shares(values(state, pool))) for pool in targets.pools[:MOST]]
        state.metadata.word_cost, state.metadata.validation_bleu = choose_cost(weighed, targets.true[:MOST])


def _better(figures: Mapping[str, float]) -> str | None:
    """The best counting model, where it is ahead of what is learned or that has learned nothing."""
    best = max((name for name in (*COUNTING, RERANKER) if name in figures), key=lambda name: figures[name])
    return best if figures[best] > figures["mixed"] or not figures["mixed"] else None


def _choose_strength(
    tables: Sequence[Floats], answers: Index, folds: Index, mixture: Floats
) -> tuple[float | None, Floats]:
    """The strongest prior that ranks other sessions as well as the best does, and how it ranks them.

    As well is within a standard error, paired by targets (Breiman et al. 1984, 3.4.3); ``None`` is the mixture alone.
    """
    tried: list[tuple[float | None, Floats]] = [(None, mixture)]
    weights: dict[int, Floats | None] = dict.fromkeys(range(FOLDS))
    for strength in PRIORS[::-1]:
        ranks = np.zeros(len(tables))
        for fold in range(FOLDS):
            learned, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            known = _known([tables[row] for row in learned.tolist()], answers[learned])
            weights[fold] = own = logit(*known, strength, CENTER, weights[fold])
            ranks[asked] = _reciprocal([tables[row] @ own for row in asked.tolist()], answers[asked])
        tried.append((strength, ranks))
    best = max((ranks for _, ranks in tried), key=lambda ranks: float(ranks.sum()))
    lost = ((best - ranks, chosen) for chosen in tried for ranks in chosen[1:])
    return next(chosen for fall, chosen in lost if fall.sum() <= np.sqrt(max(len(fall), 1)) * _spread(fall))


def _spread(values: Floats) -> float:
    return float(values.std()) if len(values) else 0.0


def _known(tables: Sequence[Floats], answers: Index) -> tuple[list[Floats], Index]:
    """The pools that hold the truth, and where."""
    rows = np.flatnonzero(answers >= 0)
    return [tables[row] for row in rows.tolist()], answers[rows]


def logit(
    pools_of: Sequence[Floats], answers: Index, strength: float | None, prior: Floats, start: Floats | None = None
) -> Floats:
    """(features,) the weights that make the answers likeliest, by Newton's steps.

    Args:
        pools_of: (candidates, features) a target.
        answers: which candidate came.
        strength: of a normal prior on standardised features; ``None``: the prior alone.
        prior: (features,) its mean.
        start: where to begin; at the prior unless stated.
    """
    if strength is None or not len(pools_of):
        return prior
    every = np.concatenate(pools_of)
    mean, scale = every.mean(0), every.std(0)
    says = scale >= 1e-9  # what says nothing keeps its weight
    scale[~says] = 1.0
    every = (every - mean) / scale * says
    sizes = np.array([len(own) for own in pools_of])
    starts = np.cumsum(sizes) - sizes
    came, center = every[starts + answers].sum(0), prior * scale

    def at(weights: Floats) -> tuple[float, Floats]:
        """Loss and the share of each candidate in its pool."""
        scores = every @ weights
        scores -= np.repeat(np.maximum.reduceat(scores, starts), sizes)
        shares = np.exp(scores)
        sums = np.add.reduceat(shares, starts)
        away = weights - center
        loss = float(np.log(sums).sum() - scores[starts + answers].sum() + strength / 2 * away @ away)
        return loss, shares / np.repeat(sums, sizes)

    weights = center if start is None else start * scale
    loss, chances = at(weights)
    for _ in range(STEPS):
        weighed = every * chances[:, None]
        means = np.add.reduceat(weighed, starts)
        slope = means.sum(0) - came + strength * (weights - center)
        curve = every.T @ weighed - means.T @ means + strength * np.eye(len(weights))
        step, size = np.linalg.solve(curve, slope), 1.0
        if slope @ step < CLOSE:
            break
        while (found := at(weights - size * step))[0] > loss - size / 4 * (slope @ step) and size > 1e-6:
            size /= 2
        weights, (loss, chances) = weights - size * step, found
    unscaled: Floats = weights / scale
    return unscaled


def _reciprocal(scores: Sequence[Floats], answers: Index) -> Floats:
    """(targets,) one over the rank of each answer, after all that tie with it; 0 beyond ``SHOWN``, and of -1."""
    ranks = [
        np.inf if answer < 0 else int((own >= own[answer]).sum())
        for own, answer in zip(scores, answers.tolist(), strict=True)
    ]
    return metrics.reciprocal_rank(np.array(ranks, np.float64), SHOWN)
