"""Training of a linker: articles first, then a network if one is set, then weights and calibration.

Last stage of training, on labelled posts: weights, calibration, and the posts that are stored.

Where a network was trained on some of the posts, only the others take part as long as it is weighed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.data.near_copies import plain_words
from ensue.data.posts.corpus import Corpus, require_links
from ensue.data.posts.dataset import Articles, Posts
from ensue.errors import DataError, SettingError
from ensue.lazy import lazy
from ensue.learning.life import Example, Split, of_texts
from ensue.lines import plural
from ensue.settings import require_encoder, require_file
from ensue.tasks.link.article_index import ArticleIndex
from ensue.tasks.link.catalogue import WITHOUT_TRAINING
from ensue.tasks.link.folds import FOLDS
from ensue.tasks.link.scores import LEARNED
from ensue.tasks.link.settings import LinkSettings, SbertSettings
from ensue.tasks.link.state import LinkerMetadata, LinkState, LinkStateT
from ensue.tasks.link.vector_index import text_hashes
from ensue.text.encoder import Encoder
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report

if TYPE_CHECKING:  # needs torch
    from ensue.tasks.link import fit_network
else:
    fit_network = lazy("ensue.tasks.link.fit_network")
from ensue.metrics import Floats
from ensue.significance import exceeds_standard_error
from ensue.tasks.link.encode import encode_posts, terms_of
from ensue.tasks.link.ensembles.selection import Labelled, Selection, clusters, is_alike, select_weights
from ensue.tasks.link.folds import folds_of
from ensue.tasks.link.link_metrics import at_cut, by_row, calibrate, cross_fitted
from ensue.tasks.link.scores import features, names_of, posts_per_block, scores_of
from ensue.tasks.link.state import RememberedPosts, Validation
from ensue.text.lexical import chosen_terms, counted_terms

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
    scores = np.empty((len(labelled), len(state.article_index), len(names)), np.float32)
    step = posts_per_block(state)
    for low in range(0, len(labelled), step):
        block = slice(low, low + step)
        posts = encode_posts(state, labelled.posts.select(block), state.model_name)
        scores[block] = np.moveaxis(features(state, posts, names), 0, -1)
    words = counted_terms(labelled.posts.texts, "words")
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


def split(state: LinkState, data: Corpus, valid: Corpus | None) -> Split[Corpus]:
    """Return the file's own parts, or hold out a tenth of the posts, and index the articles of all."""
    if isinstance(state.settings, LinkSettings):
        require_file("vectors", state.settings.vectors)
    if isinstance(state.settings, SbertSettings):
        require_encoder(state.settings.encoder)
    require_links(data, "training data")
    index = ArticleIndex.of(data.articles)
    if valid is not None:
        require_links(valid, "validation data")
        train = data.part("train") if "train" in data.parts else data
        held_out = valid
        rule = "as given"
        index, _, _ = index.joined(valid.articles)
    else:
        train, held_out, rule = data.split(state.seed)
    train = _linked(train, index, "training data")
    held_out = _linked(held_out, index, "validation data")
    # Without a network, weights are fitted to all labelled posts in folds.
    posts = _both(train.posts, held_out.posts)
    if valid is None and not {"train", "valid"} <= data.parts:
        posts = replace(posts, parts=None)
    state.article_index = index
    return Split(train, held_out, replace(train, posts=posts), rule)


def train(state: LinkState, split: Split[Corpus], checkpoint: Checkpoint) -> Generator[Report, None, Split[Corpus]]:
    """Train a network if one is set, then fit weights and probabilities to labelled posts.

    Where a network was trained on the training posts, only held-out ones are used, unless the network is left out.
    """
    assert split.valid is not None and split.full is not None
    state.metadata = LinkerMetadata(articles=len(state.article_index), posts=0, links=0)
    state.prior_strength = 0.0
    state.neighbour_weight = 0.0
    state.weights = {}
    state.calibration = None
    state.post_index = None
    if state.schedule is not None:
        yield from fit_network.fit(state, split.train, split.valid, checkpoint)
    elif isinstance(state.settings, SbertSettings):
        _use_encoder(state)
    elif isinstance(state.settings, LinkSettings):
        yield from fit_network.fit_texts(state, fit_network.articles_to_read(state, split.train), checkpoint)
    has_network = state.schedule is not None
    held_out = replace(split.valid, posts=replace(split.valid.posts, parts=None))  # its own parts are one part here
    labelled = sample(state, held_out if has_network else split.full)
    scores = None
    # A network that turns out not to help leaves the posts that it was trained on to the weights.
    can_use_all = has_network and state.model_name == "best" and len(split.full) <= max_labelled(state)
    if state.model_name == "best":
        labelled, scores = choose_weights(state, labelled, split.full if can_use_all else None)
    fit_probabilities(state, labelled, scores)
    state.metadata.validation_posts = len(labelled)
    uses_all = not has_network or (can_use_all and LEARNED not in state.weights)
    return split if uses_all else replace(split, full=None)


def refit(state: LinkState, full: Corpus, checkpoint: Checkpoint) -> Iterator[Report]:
    """Note that weights and probabilities were fitted to all labelled posts, in folds."""
    posts = plural(state.metadata.validation_posts, "post")
    state.metadata.held_out = f"{FOLDS} folds of {posts}, each scored by a model trained on the others"
    return iter(())


def finish(state: LinkState, split: Split[Corpus]) -> None:
    """Note what was trained on, and store held-out posts for the tests of updates."""
    data = split.train if split.full is None else split.full
    state.metadata.posts = len(data)
    state.metadata.links = len(data.pairs)
    state.linked = tuple(data.posts.about.unique().sort())
    state.train_prints = np.unique(training_hashes(data.posts))
    state.post_terms = state.article_index.word_terms(data.posts.texts)
    assert split.valid is not None
    state.remembered = remember(state, split.valid, state.shared.remembered)
    state.metadata.remembered = 0 if state.remembered is None else state.remembered.num


def example(state: LinkState, valid: Corpus, index: int) -> Example | None:
    """Return a held-out post with its articles for the page."""
    if not state.shared.remembered:
        return None
    post = valid.posts.record(index)
    return of_texts({"text": post.text}, [post.text], post.about)


def _both(first: Posts, second: Posts) -> Posts:
    """Return the posts of both as the parts train and valid, without the file they were read from."""
    # Links of the second posts begin where those of the first end.
    offsets = np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]])
    texts, ids, links = (pl.concat([getattr(first, name), getattr(second, name)]) for name in ("texts", "ids", "about"))
    return Posts(texts, ids, links, offsets, pl.Series(["train"] * len(first) + ["valid"] * len(second)))


def untrained(
    make: Callable[..., LinkStateT], articles: Articles, posts: Posts, model: str, encoder: str, *, network: str = ""
) -> LinkStateT:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.untrained`."""
    if model not in WITHOUT_TRAINING:
        raise SettingError(
            f"model {model!r} must be trained first: `ensue fit link POSTS --articles ARTICLES --model {model} -o "
            f"FOLDER`, then --folder FOLDER; without training there are {', '.join(WITHOUT_TRAINING)}"
        )
    if encoder and model not in ("best", "sbert"):
        raise SettingError(f"model {model} uses no encoder; remove it, or use best or sbert")
    state = make(model, settings={name: value for name, value in (("encoder", encoder), ("network", network)) if value})
    state.article_index = ArticleIndex.of(articles)
    state.article_index.observe(posts.texts)
    if encoder:
        _use_encoder(state)
    return state


def _use_encoder(state: LinkState) -> None:
    """Give the articles vectors of the encoder that the settings name.

    Raises:
        SettingError: the package is missing, or the model cannot be read.
    """
    assert isinstance(state.settings, SbertSettings)
    state.model = Encoder(state.settings.encoder, state.device)
    state.metadata.encoder = state.model.probe()
    state.article_index.vectors = state.vectors(state.articles.texts)


def training_hashes(posts: Posts) -> Index:
    """Return hashes of the texts, (posts,), ignoring case, links, mentions and marks."""
    return text_hashes(plain_words(posts.texts)).view(np.int64)


def _linked(data: Corpus, index: ArticleIndex, where: str) -> Corpus:
    """Return the posts about an article of the index, with its articles."""
    linked = replace(data, articles=index.articles).linked()
    if not len(linked):
        raise DataError(f"{where}: no post is about a given article; give posts with links")
    return linked


def part_of(data: Corpus, name: str) -> tuple[Corpus, str]:
    """Return the named part of a file with several parts, and a note on it."""
    if name in data.parts and len(data.parts) > 1:
        return data.part(name), f"; the part {name} of the file"
    return data, ""
