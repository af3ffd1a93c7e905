"""Last stage of training, on labelled posts: weights, calibration, and the posts that are stored.

Where a network was trained on some of the posts, only the others take part as long as it is weighed.
"""

from __future__ import annotations

import numpy as np

from ensue.data.histories import Index
from ensue.data.posts.corpus import Corpus
from ensue.lines import plural
from ensue.metrics import Floats
from ensue.significance import exceeds_standard_error
from ensue.tasks.link.encode import encode_posts, terms_of
from ensue.tasks.link.ensembles.selection import Labelled, Selection, clusters, is_alike, select_weights
from ensue.tasks.link.folds import FOLDS, folds_of
from ensue.tasks.link.link_metrics import at_cut, by_row, calibrate, cross_fitted
from ensue.tasks.link.scores import LEARNED, features, names_of, scores_of
from ensue.tasks.link.settings import LinkSettings
from ensue.tasks.link.state import LinkState, RememberedPosts, Validation
from ensue.text.lexical import chosen_terms

EVEN = 0.5
"""The probability of the cut that the metadata report."""
_POSTS, _CELLS = 1 << 13, 1 << 23
"""Posts, and scores of a name, that teach at most: a dozen numbers are learned."""


def max_labelled(state: LinkState) -> int:
    """Labelled posts that can teach at once."""
    return min(_POSTS, max(_CELLS // max(len(state.article_index), 1), 2 * FOLDS))


def sample(state: LinkState, labelled: Corpus) -> Corpus:
    """Return at most as many posts as can be fitted at once, drawn at random."""
    if len(labelled) <= max_labelled(state):
        return labelled
    return labelled.select(np.sort(np.random.default_rng(state.seed).permutation(len(labelled))[: max_labelled(state)]))


def folds(state: LinkState, labelled: Corpus) -> Index:
    """(posts,) the fold of each."""
    return folds_of(labelled.posts, np.ones(len(labelled), bool), state.seed)


def choose_weights(state: LinkState, labelled: Corpus, every: Corpus | None = None) -> tuple[Corpus, Floats]:
    """Let labelled posts choose the weights, the number of none, and how far posts tell of each other.

    Where a part of them was given as validation data, the others teach only if that part is not the worse for it.

    Args:
        state: what else it has to learn is learned.
        labelled: the posts.
        every: of a network that was trained on posts those and then the labelled ones, where all can teach: they do,
            and the network's cosine is not weighed, unless the labelled ones, each alone, are ranked better with it
            by what they teach, by more than one standard error.

    Returns:
        The posts that taught, and (posts, articles) the scores of each fold of them by what the other folds taught.
    """
    num = len(labelled)
    names = names_of(state)
    notes = state.metadata.notes
    labelled, fit = _chosen(state, labelled, names)
    if every is not None:
        all_labelled, other_fit = _chosen(state, every, [name for name in names if name != LEARNED])
        # Held-out posts come last among all labelled ones.
        gains = fit.single_ranks - other_fit.single_ranks[-len(labelled) :]
        if not exceeds_standard_error(gains, clusters(labelled.related)):
            num = len(every)
            labelled = all_labelled
            fit = other_fit
            notes.append("the network is left out: it does not improve the ranking of held-out posts")
    if len(labelled) < num:
        unused = plural(num - len(labelled), "other post")
        notes.append(f"{unused} are not used to fit weights: validation posts become less likely with them")
    state.weights = fit.weights
    state.null_logit = fit.null_logit
    state.prior_strength = fit.prior.strength
    state.neighbour_weight = fit.prior.neighbour_weight
    state.metadata.floors = fit.score_mrr
    state.metadata.penalty = fit.penalty
    state.metadata.alone = next(iter(fit.weights)) if len(fit.weights) == 1 else None
    return labelled, fit.prior.scores


def _chosen(state: LinkState, labelled: Corpus, names: list[str]) -> tuple[Corpus, Selection]:
    """The posts that taught, and what they chose of some scores."""
    posts = encode_posts(state, labelled.posts, state.model_name)
    scores = np.empty((len(labelled), len(state.article_index), len(names)), np.float32)
    # One score after the other, so that only one is in 64 bits at a time.
    for column, (_, values) in enumerate(features(state, posts, names)):
        scores[:, :, column] = values
    words = posts.terms["words"]
    lexical = state.article_index.lexical["words"]
    data = Labelled(names, scores, labelled.related, folds(state, labelled), words, lexical)
    is_validation = (labelled.posts.parts == "valid").to_numpy() if labelled.posts.parts is not None else None
    if is_validation is not None and not is_alike(data, is_validation, state.seed):
        labelled = labelled.select(is_validation)
        # Renumbered, because posts without validation labels are left out.
        words = chosen_terms(words, np.flatnonzero(is_validation))
        data = Labelled(names, scores[is_validation], labelled.related, folds(state, labelled), words, lexical)
    return labelled, select_weights(data, state.seed, together=state.shared.cross_post_prior)


def fit_probabilities(state: LinkState, labelled: Corpus, scores: Floats | None = None) -> None:
    """Turn scores into probabilities by labelled posts, and note what a cut at one half gives on held-out folds.

    Args:
        state: trained.
        labelled: the posts.
        scores: (posts, articles) where folds of the posts taught them to each other.
    """
    post_scores = scores_of(state, labelled.posts).whole() if scores is None else scores
    related = labelled.related
    shares = scores is not None
    state.calibration = calibrate(post_scores, related, shares=shares)
    probabilities = (
        cross_fitted(post_scores, related, folds(state, labelled), shares=shares)
        if len(labelled) > 1
        else state.calibration.probabilities(post_scores)
    )
    even = at_cut(probabilities, related, EVEN)
    first = post_scores.argmax(1)
    rows = np.arange(len(post_scores))
    state.metadata.validation = Validation(
        mrr=float(by_row(post_scores, related)[:, 0].mean()),
        precision=even.precision,
        precision_interval=even.precision_interval,
        recall=even.recall,
        recall_interval=even.recall_interval,
        first_said=float(probabilities[rows, first].mean()),
        first_right=float(related[rows, first].mean()),
    )


def remember(state: LinkState, held: Corpus, num: int) -> RememberedPosts | None:
    """At most ``num`` held-out posts that have a word and an article of the index, drawn at random; ``None`` for none.

    Args:
        state: trained.
        held: posts with the state's articles.
        num: how many.
    """
    # Posts that have an article and a letter or digit.
    usable = np.intersect1d(held.pairs[:, 1], held.posts.texts.str.contains(r"\w").arg_true().to_numpy())
    sampled = np.sort(np.random.default_rng(state.seed).permutation(usable)[:num])
    if not len(sampled):
        return None
    selected = held.select(sampled)
    texts = selected.posts.texts
    tokens = vectors = None
    if state.has_vectors() and isinstance(state.settings, LinkSettings):
        tokens = state.encode(texts)
    elif state.has_vectors():
        vectors = state.vectors(texts)
    return RememberedPosts(len(sampled), selected.pairs, terms_of(texts, state.model_name), tokens, vectors)
