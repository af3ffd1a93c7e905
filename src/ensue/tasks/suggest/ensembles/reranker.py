"""Ranking of suggestions: feature weights and the cost per word, fitted on held-out sessions.

First a mixture of the network and the count-based models (:func:`learn_mixture`), then a
conditional logit (:mod:`ensue.learning.ensemble`): the probability that a candidate is the true next query is the
softmax, over its pool, of the weighted sum of its features. The prior on standardised features has mean 1 for the
logarithm of the mixture and 0 for all others: where nothing can be learned, the mixture ranks. The strength of the
prior is chosen by five-fold cross-validation over sessions. Targets whose true query is in no pool are left out, in the
mixture too: the network gives each some probability, which is not what it is used for.

Where a count-based model ranks the held-out sessions better than all that, or nothing ranks anything, it is used alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.data.queries import Queries, prefixes
from ensue.learning import ensemble
from ensue.metrics import Floats
from ensue.significance import exceeds_standard_error, significantly_positive
from ensue.tasks.suggest.candidates import (
    ALL_FEATURES,
    MIXED,
    MIXTURE,
    NETWORK,
    CandidateRows,
    features,
    probabilities,
    shares,
)
from ensue.tasks.suggest.catalogue import COUNTING, RERANKER
from ensue.tasks.suggest.dataset import latest
from ensue.tasks.suggest.ensembles.consensus import choose_cost
from ensue.tasks.suggest.infer import consider, count, scored, shortlisted, values
from ensue.tasks.suggest.metadata import SuggesterMetadata
from ensue.tasks.suggest.state import SuggestState
from ensue.vocabulary import FIRST

MAX_TARGETS = 1000
"""Held-out targets that are looked at, drawn at random, the same ones every time."""
MAX_COUNTED_TARGETS = 5000
"""Maximum number of held-out targets without a network, where scoring is cheap."""
PRIORS = (1.0, 10.0, 100.0)
"""Strengths of the prior that are tried; above the last the mixture orders alone."""
FOLDS = 5
SHORTLISTS = (10, 20, 40)
"""Numbers of retrieved queries per answer that the network scores; where none is enough, it scores all."""
CENTER = np.array([float(name == MIXTURE) for name in ALL_FEATURES])
"""Mean of the prior, under which the mixture ranks."""
CUTOFF = 10
MIXTURE_STEPS = 100
"""Steps of expectation maximisation."""
MIXTURE_PRIOR = 1.0
"""Targets that each part of the mixture is taken to have explained already."""


class _HeldOut(NamedTuple):
    """Held-out targets."""

    sessions: Histories
    true: pl.Series
    owners: Index
    """(targets,) the session of each, from 0."""


class _Targets(NamedTuple):
    """Candidates of held-out targets."""

    candidates: CandidateRows
    """Their owners are the targets."""
    true: pl.Series
    folds: Index
    """(targets,) those of a fold are learned together."""
    num_targets: int
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
    # Whole sessions are drawn, so that no fold scores a session that it has counted.
    folds = np.random.default_rng(0).integers(FOLDS, size=len(data))
    groups: list[CandidateRows] = []
    targets_of: list[Index] = []
    true: list[str] = []
    owners = [np.empty(0, np.int64)]
    fold_of = [np.empty(0, np.int64)]
    ranked: dict[str, list[Floats]] = {name: [] for name in COUNTING}
    # Who reaches the floor in all of the log reaches that part of it in the other folds; users count over the file.
    pair_users = -(-state.shared.min_users * (FOLDS - 1) // FOLDS)
    min_query_users = state.shared.min_users if len(data.users) else pair_users
    num_targets = 0
    for fold in range(FOLDS):
        held_out, training = data.select(folds == fold), data.select(folds != fold)
        if not len(held_out) or not len(training) or int(held_out.histories.lengths.max()) < 2:
            continue
        targets = _draw(held_out, state.shared.turns, MAX_COUNTED_TARGETS // FOLDS)
        num_targets += len(targets.true)
        other = state.counted_on(training, min_query_users, pair_users)
        is_rankable = np.array(
            [
                other.following.vocabulary.id(text) >= FIRST or text in record.values
                for text, record in zip(targets.true, targets.sessions.records(), strict=True)
            ],
            np.bool_,
        )
        sessions = targets.sessions.select(is_rankable)
        queries = targets.true.filter(is_rankable)
        groups.append(consider(other, sessions, CUTOFF, [""] * len(sessions)))
        targets_of.append(np.arange(len(true), len(true) + len(queries)))
        true += queries.to_list()
        # Sessions of a later fold are numbered behind those of the earlier ones.
        owners.append(targets.owners[is_rankable] + owners[-1].max(initial=-1) + 1)
        fold_of.append(np.full(len(queries), fold))
        for name in COUNTING:
            ranked[name].append(_ranks(other, name, sessions, queries))
    if not groups:
        groups = [consider(state, data.histories.select(slice(0, 0)), CUTOFF, [])]
        targets_of = [np.empty(0, np.int64)]
    candidates = CandidateRows.join(groups, targets_of)
    pooled = _Targets(candidates, pl.Series("query", true, dtype=pl.String), np.concatenate(fold_of), num_targets)
    reciprocal = {name: np.concatenate([np.empty(0), *ranks]) for name, ranks in ranked.items()}
    mixed = _learn_mix(state, pooled, reciprocal, writes=False)
    figures = state.metadata.validation_mrr
    assert figures is not None
    best = max(COUNTING, key=lambda name: figures[name])
    is_better = significantly_positive(mixed - reciprocal[best], np.concatenate(owners))
    return _better(figures) or RERANKER, is_better


def learn_order(state: SuggestState, held: Queries, counted: SuggesterMetadata | None = None) -> str | None:
    """Choose on held-out sessions what suggestions are ordered by, and note what that did there.

    Args:
        state: whose network is trained.
        held: sessions that it did not learn.
        counted: what :func:`learn_counted_order` noted.

    Returns:
        ``RERANKER`` or the counting model that ranks better than all of it, if one does.
    """
    settings = state.shared
    metadata = state.metadata
    if not settings.retrieved and settings.first == "likeliest":
        return None
    targets = _draw(held, settings.turns, MAX_TARGETS)
    if settings.retrieved:
        metadata.mixture = dict.fromkeys(MIXED, 1 / len(MIXED))
    candidates = consider(state, targets.sessions, CUTOFF, [""] * len(targets.true))
    pooled = _Targets(candidates, targets.true, targets.owners % FOLDS, len(targets.true))
    if not settings.retrieved:
        _choose_first(state, pooled)
        return None
    ranked = {name: _ranks(state, name, targets.sessions, targets.true) for name in COUNTING}
    if counted is not None:
        looked_up = candidates.select(candidates.counts > 0)
        scores = scored(looked_up, counted, settings.exponent, metadata.tokens)
        ranked[RERANKER] = _reciprocal(scores, looked_up.owners, _answers(looked_up, targets.true))
    _learn_mix(state, pooled, ranked, writes=True)
    assert metadata.validation_mrr is not None
    return _better(metadata.validation_mrr)


def _draw(held: Queries, turns: int, most: int) -> _HeldOut:
    histories = latest(held.histories, 8 * turns)
    sessions, targets = prefixes(histories, turns)
    # A fixed sample of the targets, in their order.
    rows = np.sort(np.random.default_rng(0).permutation(len(targets))[:most])
    owners = np.repeat(np.arange(len(histories)), np.maximum(histories.lengths - 1, 0))[rows]
    texts = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
    true = texts.gather(targets[rows].astype(np.int64) - FIRST)
    return _HeldOut(sessions.select(rows), true, np.unique(owners, return_inverse=True)[1])


def _ranks(state: SuggestState, name: str, sessions: Histories, true: pl.Series) -> Floats:
    """(targets,) one over the rank of what came by a counting model."""
    suggestions = count(state, name, sessions, CUTOFF)
    return metrics.reciprocal_rank(metrics.text_ranks(suggestions.texts, suggestions.offsets, true), CUTOFF)


def _learn_mix(state: SuggestState, targets: _Targets, ranked: Mapping[str, Floats], *, writes: bool) -> Floats:
    """The mixture, the weights and what leads; returns (targets,) one over the rank of what came.

    Args:
        state: trained, or counted.
        targets: what was considered.
        ranked: (targets,) one over the rank of what came, by each counting model.
        writes: whether a network takes part.
    """
    metadata = state.metadata
    tokens = state.metadata.tokens
    candidates = targets.candidates
    answers = _answers(candidates, targets.true)
    weights = learn_mixture(probabilities(candidates.select(answers[answers >= 0]), tokens)[:, 0 if writes else 1 :])
    # Without a network its weight in the mixture is 0.
    weights = weights if writes else np.concatenate([[0.0], weights])
    metadata.mixture = {name: float(f"{weight:.6g}") for name, weight in zip(MIXED, weights.tolist(), strict=True)}
    table = features(candidates, state.shared.exponent, metadata.mixture, tokens)
    metadata.found_in_pool = round(float((answers >= 0).sum()) / max(targets.num_targets, 1), 4)
    alone = {NETWORK: "a_token", MIXTURE: MIXTURE} if writes else {MIXTURE: MIXTURE}
    reciprocal = {
        key: _reciprocal(table[:, ALL_FEATURES.index(name)], candidates.owners, answers) for key, name in alone.items()
    }
    strength, reciprocal["mixed"] = _choose_strength(
        table, candidates.owners, answers, targets.folds, reciprocal[MIXTURE]
    )
    mix = fit_order(table, candidates.owners, answers, strength, CENTER)
    metadata.mix = {name: float(f"{weight:.6g}") for name, weight in zip(ALL_FEATURES, mix.tolist(), strict=True)}
    ranks = {**reciprocal, **ranked}
    metadata.validation_mrr = {
        name: round(float(ranks_of_model.sum()) / max(targets.num_targets, 1), 5)
        for name, ranks_of_model in ranks.items()
    }
    if writes:
        candidates = _cut_pools(state, candidates, answers)
    _choose_first(state, targets._replace(candidates=candidates))
    return reciprocal["mixed"]


def _cut_pools(state: SuggestState, candidates: CandidateRows, answers: Index) -> CandidateRows:
    """Choose how many retrieved queries the network scores, and return the candidates that are left by that.

    The choice is the smallest number with which the MRR is within a standard error of that of all, paired by targets.
    """
    metadata = state.metadata
    exponent = state.shared.exponent
    scores = scored(candidates, metadata, exponent, metadata.tokens)
    reciprocal = _reciprocal(scores, candidates.owners, answers)
    for size in SHORTLISTS:
        is_scored = shortlisted(candidates, metadata, exponent, metadata.tokens, size)
        in_pool = np.append(is_scored, False)[answers]
        ranks = _reciprocal(np.where(is_scored, scores, -np.inf), candidates.owners, np.where(in_pool, answers, -1))
        if not exceeds_standard_error(reciprocal - ranks):
            metadata.shortlist = size
            return candidates.select(is_scored)
    return candidates


def learn_mixture(probabilities: Floats) -> Floats:
    """Return the mixture weights under which the true queries are likeliest, (parts,); they sum to 1.

    They are the maximum a posteriori by expectation maximisation (Jelinek & Mercer 1980), under a Dirichlet prior of
    one target per part: with few held-out targets the parts count alike, and none is ever out of the mixture.

    Args:
        probabilities: (targets, parts) of each true query; a target that has no probability under any part is left out.
    """
    explained = probabilities[probabilities.sum(1) > 0]
    # Start from equal weights, from which expectation maximisation cannot leave out a part.
    weights: Floats = np.full(probabilities.shape[1], 1 / probabilities.shape[1])
    for _ in range(MIXTURE_STEPS):
        # Expectation: the part of each target that each model explains.
        owed = explained * weights
        owed /= owed.sum(1, keepdims=True)
        # Maximisation under the Dirichlet prior: pseudo-counts are added to the sums.
        weights = (owed.sum(0) + MIXTURE_PRIOR) / (len(explained) + MIXTURE_PRIOR * len(weights))
    return weights


def _answers(candidates: CandidateRows, true: pl.Series) -> Index:
    """(targets,) the candidate that came, -1 where none did."""
    rows = np.flatnonzero(candidates.texts == true.to_numpy()[candidates.owners])
    answers = np.full(len(true), -1)
    # At most one candidate per target: texts are distinct in a session.
    answers[candidates.owners[rows]] = rows
    return answers


def _choose_first(state: SuggestState, targets: _Targets) -> None:
    """Choose the cost per word for the suggestion ranked first."""
    if state.shared.first == "consensus":
        candidates = targets.candidates.select(targets.candidates.owners < MAX_TARGETS)
        weights = shares(values(state, candidates), candidates.owners)
        state.metadata.word_cost, state.metadata.validation_bleu = choose_cost(
            candidates.texts.tolist(), weights, candidates.owners, targets.true[:MAX_TARGETS]
        )


def _better(figures: Mapping[str, float]) -> str | None:
    """The best counting model, where it is ahead of what is learned or that has learned nothing."""
    best = max((name for name in (*COUNTING, RERANKER) if name in figures), key=lambda name: figures[name])
    return best if figures[best] > figures["mixed"] or not figures["mixed"] else None


def _choose_strength(
    table: Floats, owners: Index, answers: Index, folds: Index, mixture: Floats
) -> tuple[float | None, Floats]:
    """Return the strongest prior whose cross-validated MRR is within a standard error of the best, and its ranks.

    The standard error is of differences paired by targets; ``None`` is the mixture alone.
    """
    tried: list[tuple[float | None, Floats]] = [(None, mixture)]
    weights: dict[int, Floats | None] = dict.fromkeys(range(FOLDS))
    for strength in PRIORS[::-1]:
        scores = np.zeros(len(table))
        for fold in range(FOLDS):
            # Targets of the fold are left out of the fit; their candidates are scored below.
            training_answers = np.where(folds == fold, -1, answers)
            weights[fold] = fold_weights = fit_order(table, owners, training_answers, strength, CENTER, weights[fold])
            held_out = folds[owners] == fold
            scores[held_out] = table[held_out] @ fold_weights
        tried.append((strength, _reciprocal(scores, owners, answers)))
    best = max((ranks for _, ranks in tried), key=lambda ranks: float(ranks.sum()))
    return next((strength, ranks) for strength, ranks in tried if not exceeds_standard_error(best - ranks))


def fit_order(
    table: Floats, owners: Index, answers: Index, strength: float | None, prior: Floats, start: Floats | None = None
) -> Floats:
    """Return the feature weights under which the answers are likeliest, (features,).

    Args:
        table: (candidates, features).
        owners: (candidates,) the target of each, never falling.
        answers: (targets,) the candidate that came; -1 leaves the target out.
        strength: precision of a normal prior on standardised features; ``None``: the mean of the prior alone.
        prior: (features,) mean of the prior.
        start: (features,) initial weights. [default: the mean of the prior]
    """
    has_answer = answers >= 0
    if strength is None or not has_answer.any():
        return prior
    rows = np.flatnonzero(has_answer[owners])
    mean, scale = table[rows].mean(0), table[rows].std(0)
    varies = scale >= 1e-9  # a constant feature keeps its weight
    scale[~varies] = 1.0
    # One row per target with an answer, its candidates side by side.
    sizes = np.bincount(owners[rows], minlength=len(answers))[has_answer]
    is_candidate = np.arange(sizes.max()) < sizes[:, None]
    features = np.zeros((*is_candidate.shape, len(prior)))
    features[is_candidate] = (table[rows] - mean) / scale * varies
    true = np.zeros(is_candidate.shape, np.bool_)
    true[is_candidate] = rows == answers[owners[rows]]
    candidates = ensemble.Candidates(features, true, np.where(is_candidate, 0.0, -np.inf))
    precision = np.full(len(prior), strength)
    weights = ensemble.fit_weights(
        [candidates], prior * scale, precision, start=None if start is None else start * scale
    )
    # Back from standardised features to the features themselves; the means cancel in the softmax.
    return weights / scale


def _reciprocal(scores: Floats, owners: Index, answers: Index) -> Floats:
    """(targets,) one over the rank of each answer, after all that tie with it; 0 beyond ``CUTOFF``, and of -1."""
    has_answer = answers >= 0
    of_answers = np.append(scores, np.inf)[answers]
    # Ties count against the answer, so that equal scores never look good.
    ranks = np.bincount(owners, scores >= of_answers[owners], len(answers))
    return metrics.reciprocal_rank(np.where(has_answer, ranks, np.inf), CUTOFF)
