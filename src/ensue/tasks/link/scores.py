"""Scores of posts with articles: blocks of posts against the whole article index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index
from ensue.data.posts.dataset import Posts
from ensue.errors import SettingError
from ensue.metrics import Floats
from ensue.tasks.link.encode import LEXICAL, EncodedPosts, encode_posts, encode_remembered
from ensue.tasks.link.ensembles.neighbours import PostNeighbours
from ensue.tasks.link.ensembles.selection import UNTRAINED
from ensue.tasks.link.ensembles.weighted_sum import log_shares, standardised, transductive_prior, weighted_sum
from ensue.tasks.link.link_metrics import by_row
from ensue.tasks.link.state import LinkState, RememberedPosts
from ensue.text.encoder import Encoder
from ensue.text.terms import Terms, concatenated_terms

SUM, TOPICS, LEARNED = "sum", "topics", "learned"
"""The names of scores beside ``UNTRAINED``, :func:`mean_cosine`: the sum of it and of ``ADDED``, standardised; the
cosine of latent semantic analysis; that of a network or an encoder."""
ADDED = {"characters": 1.0, "bm25": 1.0, "stems": 1.0, "pairs": 0.5, "topics": 1.5}
"""Weights of the sum that ranks the posts outside the tests best, among those tried: those of PolitiFact at an MRR of
.497 (without topics .494, nor pairs .486, nor stems .482, the mean cosine alone .440), those of Clickbait22 at .845
(.842, .834, .820, .787)."""
SAMPLE = 20_000
"""Number of posts from which the prior of each article is estimated, at most."""
_CELLS, _POSTS = 1 << 22, 1 << 12
"""Scores, and posts, of a block at most."""


class LinkScores:
    """The scores of a corpus of posts, made a block at a time, as often as they are asked for.

    Args:
        state: trained.
        num: posts of the corpus; under ``best`` they are ranked together.
        encode: gives some of them as numbers.
        name: the model.
        alone: whether each post is ranked without the others of the corpus.
    """

    def __init__(
        self,
        state: LinkState,
        num: int,
        encode: Callable[[slice | Index], EncodedPosts],
        name: str,
        *,
        alone: bool = False,
    ) -> None:
        self.state = state
        self.num = num
        self.encode = encode
        self.name = name
        self.alone = alone or not state.shared.cross_post_prior
        self._corpus: tuple[Floats, PostNeighbours | None] | None = None

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """The number of the first post of a block, and the (posts, articles) scores of the block."""
        step = self._step
        for low in range(0, self.num, step):
            block = self._of(self.encode(slice(low, min(low + step, self.num))), low)
            if not (block < np.inf).all():  # nothing is below NaN
                raise SettingError(
                    f"the scores of {self.name} are not finite numbers; fit it again with settings closer to the "
                    "defaults"
                )
            yield low, block

    def whole(self) -> Floats:
        """(posts, articles)."""
        blocks = [block for _, block in self.blocks()]
        if len(blocks) == 1:
            return blocks[0]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.state.article_index)))

    def best(self, columns: Sequence[int]) -> tuple[Floats, Index]:
        """Return the highest score with any of some articles, (posts,), and its index among them, (posts,).

        Of articles with equal scores it is the first one. One block of scores is held at a time.
        """
        scores = np.zeros(self.num)
        # One block of scores is in memory at a time.
        indices = np.zeros(self.num, np.int64)
        for low, block in self.blocks():
            story = block[:, list(columns)]
            rows = slice(low, low + len(block))
            indices[rows] = story.argmax(1)
            scores[rows] = story.max(1)
        return scores, indices

    @property
    def _step(self) -> int:
        return min(_POSTS, max(1, _CELLS // max(len(self.state.article_index), 1)))

    def _of(self, posts: EncodedPosts, low: int) -> Floats:
        state = self.state
        if self.name in LEXICAL:
            return posts.lexical_scores(state.article_index, LEXICAL[self.name]).astype(np.float64)
        if self.name != "best":
            return posts.cosines(state.article_index.vectors)
        if not state.weights:
            return mean_cosine(state, posts)
        # The prior of the corpus is estimated once, before the first block.
        prior, neighbours = self._corpus = self._corpus or self._of_corpus()
        logs = log_shares(weighted_sums(state, posts), prior, state.null_logit)
        if neighbours is None:
            return logs
        return neighbours.mixed(logs, posts.terms["words"], self._rows(low, posts.num), state.neighbour_weight)

    def _of_corpus(self) -> tuple[Floats, PostNeighbours | None]:
        """Return the prior of each article, and the neighbours by which posts of a sample vote for articles."""
        state = self.state
        strength, weight = (0.0, 0.0) if self.alone else (state.prior_strength, state.neighbour_weight)
        sample = self._sample if strength or weight else self._sample[:0]
        sums = np.zeros((len(sample), len(state.article_index)))
        terms = []
        for low in range(0, len(sample), self._step):
            posts = self.encode(sample[low : low + self._step])
            sums[low : low + posts.num] = weighted_sums(state, posts)
            if weight:
                owners, keys, counts = posts.terms["words"]
                terms.append(Terms(owners + low, keys, counts))
        prior = transductive_prior(sums, strength, state.null_logit)
        if not terms:
            return prior, None
        shares = np.exp(log_shares(sums, prior, state.null_logit))
        return prior, PostNeighbours(concatenated_terms(terms), shares, state.article_index.lexical["words"])

    @property
    def _sample(self) -> Index:
        """Return rising numbers of evenly spaced posts, (sample,)."""
        return np.linspace(0, self.num - 1, min(SAMPLE, self.num)).astype(np.int64)

    def _rows(self, low: int, num: int) -> Index:
        """Return the index of each post in the sample, (num,) from the post ``low`` on; -1 for posts outside it."""
        sample = self._sample
        posts = np.arange(low, low + num)
        indices = np.searchsorted(sample, posts).clip(max=len(sample) - 1)
        # A post of the sample must not vote for itself.
        return np.where(sample[indices] == posts, indices, -1)


def scores_of(state: LinkState, posts: Posts, name: str | None = None, *, alone: bool = False) -> LinkScores:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.scores`."""
    state.article_index  # noqa: B018 trained?
    model = name or state.model_name

    def encode(chosen: slice | Index) -> EncodedPosts:
        return encode_posts(state, posts.select(chosen), model)

    return LinkScores(state, len(posts), encode, model, alone=alone)


def reciprocal_ranks(state: LinkState, posts: RememberedPosts, ids: pl.Series, name: str = "") -> Floats:
    """(posts,) one over the rank of the best article that each is about, among the articles of some ids.

    An article that came since under one of the ids counts as the one of that id: it should not be found by others'
    posts.

    Args:
        state: the model that ranks.
        posts: of this model or of a former version of it.
        ids: (articles,) ids of the articles that the posts were linked to.
        name: of ``best`` the network whose cosine alone shall rank.
    """
    index_ids = state.articles.ids
    columns = index_ids.is_in(ids.implode()).arg_true().to_numpy()
    links = pl.DataFrame({"id": ids.gather(posts.pairs[:, 0]), "post": posts.pairs[:, 1]})
    links = links.join(pl.DataFrame({"id": index_ids.gather(columns), "column": np.arange(len(columns))}), on="id")
    # Mask of the true articles among those that were there at the time.
    related = np.zeros((posts.num, len(columns)), bool)
    related[links["post"].to_numpy(), links["column"].to_numpy()] = True
    scores = LinkScores(
        state, posts.num, lambda chosen: encode_remembered(state, posts, chosen), name or state.model_name
    )
    ranks = [by_row(block[:, columns], related[low : low + len(block)])[:, 0] for low, block in scores.blocks()]
    return np.concatenate(ranks)


def features(state: LinkState, posts: EncodedPosts, names: Sequence[str]) -> Iterator[tuple[str, Floats]]:
    """Yield the standardised scores of some names that ``best`` weighs."""
    index = state.article_index
    lexical = cache(partial(posts.lexical_scores, index))

    @cache
    def standard(name: str) -> Floats:
        return standardised(raw(name))

    def raw(name: str) -> npt.NDArray[np.floating]:
        if name == LEARNED:
            return posts.cosines(index.vectors)
        if name == SUM:
            available = names_of(state)
            weights = {score_name: weight for score_name, weight in ADDED.items() if score_name in available}
            return sum((weight * standard(score_name) for score_name, weight in weights.items()), standard(UNTRAINED))
        if name == TOPICS:
            assert index.latent is not None
            return index.latent.vectors(posts.terms["stems"], posts.num) @ index.topics.T
        return mean_cosine(state, posts, lexical) if name == UNTRAINED else lexical(name)

    return ((name, standard(name)) for name in names)


def names_of(state: LinkState) -> list[str]:
    """The scores that ``best`` weighs, those that need no label first."""
    index = state.article_index
    optional = {TOPICS: index.latent is not None, LEARNED: state.model is not None}
    return [SUM, UNTRAINED, *index.lexical, *(name for name, is_available in optional.items() if is_available)]


def weighted_sums(state: LinkState, posts: EncodedPosts) -> Floats:
    """(posts, articles) the weighted sums of ``best``, every post alone."""
    # A score of weight 0 is not computed.
    names = [name for name, weight in state.weights.items() if weight] or list(state.weights)
    return weighted_sum(features(state, posts, names), state.weights)


def mean_cosine(
    state: LinkState, posts: EncodedPosts, lexical: Callable[[str], npt.NDArray[np.float32]] | None = None
) -> Floats:
    """Return the mean cosine of words and character n-grams, whole and head, (posts, articles): ``best`` untrained.

    An encoder's cosine, where one was named, is half of it; that of a network which learned of the texts alone is added
    as wide as the others' mean.

    Args:
        state: a predictor with articles.
        posts: the posts.
        lexical: caches lexical scores of the posts by name. [default: they are computed]
    """
    score = lexical or partial(posts.lexical_scores, state.article_index)
    names = [name for name, terms in state.article_index.lexical.items() if terms.by_cosine]
    # Added up in place: four arrays of scores would not fit the cache.
    mean = score(names[0]).astype(np.float64)
    for name in names[1:]:
        mean += score(name)
    mean /= len(names)
    if state.learned_scale:
        return mean + state.learned_scale * posts.cosines(state.article_index.vectors)
    if not isinstance(state.model, Encoder):  # a network has to be trained first
        return mean
    return (mean + posts.cosines(state.article_index.vectors)) / 2
