"""What held-out posts decide once everything else is learned: weights, probabilities, and what stays of them."""

from __future__ import annotations

import numpy as np

from ensue.data.posts import Corpus
from ensue.metrics import Floats
from ensue.tasks.link.encode import encode_posts, has_vectors, terms_of, vectors_of
from ensue.tasks.link.ensembles.weighted_sum import STRENGTHS, fit_weights, log_shares, transductive_prior, weighted_sum
from ensue.tasks.link.measures import Mask, at_cut, average_precision, by_row, calibrate
from ensue.tasks.link.metadata import Validation
from ensue.tasks.link.remembered import Remembered
from ensue.tasks.link.scores import features, scores_of
from ensue.tasks.link.state import LinkState

EVEN = 0.5
"""The probability of the cut that the metadata report."""


def choose_weights(state: LinkState, held: Corpus) -> None:
    """Let held-out posts choose the weights, the number of none, and how far posts tell of each other."""
    posts = encode_posts(state, held.posts, state.model_name)
    scores, related = features(state, posts), held.related
    state.weights, state.null_logit = fit_weights(scores, related)
    sums = weighted_sum(scores.items(), state.weights)
    if not state.shared.together:
        return
    figures = {}
    for strength in STRENGTHS:
        prior = transductive_prior(sums, strength, state.null_logit)
        figures[strength] = _worth(log_shares(sums, prior, state.null_logit), related)
    state.prior_strength = max(STRENGTHS, key=lambda strength: (figures[strength], -strength))


def learn_probabilities(state: LinkState, held: Corpus) -> None:
    """Turn scores into probabilities by held-out posts, and note what a cut at one half gives there."""
    scores, related = scores_of(state, held.posts).whole(), held.related
    state.calibration = calibrate(scores, related)
    even = at_cut(state.calibration.probabilities(scores), related, EVEN)
    state.metadata.validation = Validation(
        mrr=float(by_row(scores, related)[:, 0].mean()),
        precision=even.precision,
        precision_interval=even.precision_interval,
        recall=even.recall,
        recall_interval=even.recall_interval,
    )


def remember(state: LinkState, held: Corpus, num: int) -> Remembered | None:
    """At most ``num`` held-out posts that have a word and an article of the index, drawn at random; ``None`` for none.

    Args:
        state: trained.
        held: posts with the state's articles.
        num: how many.
    """
    usable = np.intersect1d(held.pairs[:, 1], held.posts.texts.str.contains(r"\w").arg_true().to_numpy())
    drawn = np.sort(np.random.default_rng(state.seed).permutation(usable)[:num])
    if not len(drawn):
        return None
    part, name, tokens, vectors = held.select(drawn), state.model_name, None, None
    texts = part.posts.texts
    if has_vectors(state, name) and state.schedule is not None:
        tokens = state.tokenizer.encode(texts, max_words=state.network_settings.max_words)
    elif has_vectors(state, name):
        vectors = vectors_of(state, texts)
    return Remembered(len(drawn), part.pairs, terms_of(texts, name), tokens, vectors)


def _worth(scores: Floats, related: Mask) -> float:
    """The sum of MRR, recall@10 and pooled average precision, over the articles that posts are about."""
    pool = related.any(0)
    return float(by_row(scores, related)[:, :2].mean(0).sum()) + average_precision(scores[:, pool], related[:, pool])
