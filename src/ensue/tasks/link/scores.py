"""Scores of posts with articles: blocks of posts against the whole article index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from ensue.data.histories import Index
from ensue.data.posts.dataset import Posts
from ensue.errors import SettingError
from ensue.metrics import Floats
from ensue.tasks.link.article_index import COSINES
from ensue.tasks.link.encode import LEXICAL, EncodedPosts, encode_posts, encode_remembered
from ensue.tasks.link.ensembles.neighbours import PostNeighbours
from ensue.tasks.link.ensembles.selection import UNTRAINED
from ensue.tasks.link.ensembles.weighted_sum import log_shares, standardised, transductive_prior
from ensue.tasks.link.link_metrics import by_row
from ensue.tasks.link.state import LinkState, RememberedPosts
from ensue.text.encoder import Encoder
from ensue.text.terms import Terms, concatenated_terms

SUM, TOPICS, LEARNED = "sum", "topics", "learned"
"""The names of scores beside ``UNTRAINED``, see :func:`raw_scores`: the sum of it and of ``ADDED``, standardised; the
cosine of latent semantic analysis; that of a network or an encoder."""
ADDED = {"characters": 1.0, "bm25": 1.0, "stems": 1.0, "pairs": 0.5, "topics": 1.5}
"""Weights of the sum that ranks the posts outside the tests best, among those tried: those of PolitiFact at an MRR of
.497 (without topics .494, nor pairs .486, nor stems .482, the mean cosine alone .440), those of Clickbait22 at .845
(.842, .834, .820, .787)."""
SAMPLE = 20_000
"""Number of posts from which the prior of each article is estimated, at most."""
_CELLS, _POSTS = 1 << 19, 1 << 12
"""Maximum number of scores of one name, and of posts, of a block."""


@dataclass(frozen=True, eq=False)
class LinkScores:
    """The scores of a corpus of posts, made a block at a time, as often as they are asked for.

    Attributes:
        state: trained.
        num: posts of the corpus; under ``best`` they are ranked together.
        encode: gives some of them as numbers.
        name: the model.
        alone: whether each post is ranked without the others of the corpus.
    """

    state: LinkState
    num: int
    encode: Callable[[slice | Index], EncodedPosts]
    name: str
    alone: bool = False

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """The number of the first post of a block, and the (posts, articles) scores of the block."""
        step = posts_per_block(self.state)
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

    def _of(self, posts: EncodedPosts, low: int) -> Floats:
        state = self.state
        if self.name != "best" or not state.weights:
            name = UNTRAINED if self.name == "best" else LEXICAL.get(self.name, LEARNED)
            return raw_scores(state, posts, [name])[name]
        prior, neighbours = self._corpus
        logs = log_shares(weighted_sums(state, posts), prior, state.null_logit)
        if neighbours is None:
            return logs
        return neighbours.mixed(logs, posts.terms["words"], self._rows(low, posts.num), state.neighbour_weight)

    @cached_property
    def _corpus(self) -> tuple[Floats, PostNeighbours | None]:
        """Return the prior of each article, and the neighbours by which posts of a sample vote for articles."""
        state = self.state
        strength, weight = state.prior_strength, state.neighbour_weight
        if self.alone or not state.shared.cross_post_prior or not (strength or weight):
            return np.zeros(len(state.article_index) + 1), None
        sample, step = self._sample, posts_per_block(state)
        sums = np.zeros((len(sample), len(state.article_index)))
        terms = []
        for low in range(0, len(sample), step):
            posts = self.encode(sample[low : low + step])
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


def posts_per_block(state: LinkState) -> int:
    """Return the number of posts that are scored at once."""
    return min(_POSTS, max(1, _CELLS // max(len(state.article_index), 1)))


def scores_of(state: LinkState, posts: Posts, name: str | None = None, *, alone: bool = False) -> LinkScores:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.scores`."""
    state.article_index  # noqa: B018 trained?
    model = name or state.model_name
    return LinkScores(state, len(posts), lambda chosen: encode_posts(state, posts.select(chosen), model), model, alone)


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


def features(state: LinkState, posts: EncodedPosts, names: Sequence[str]) -> Floats:
    """(names, posts, articles) the standardised scores of some names that ``best`` weighs."""
    added = {name: weight for name, weight in ADDED.items() if SUM in names and name in names_of(state)}
    scores = raw_scores(state, posts, {*names, *added, *([UNTRAINED] if added else [])})
    standard = dict(zip(scores, standardised([*scores.values()]), strict=True))
    if added:
        total = standard[UNTRAINED] + sum(weight * standard[name] for name, weight in added.items())
        standard[SUM] = standardised(total)
    return np.stack([standard[name] for name in names])


def raw_scores(state: LinkState, posts: EncodedPosts, names: Collection[str]) -> dict[str, Floats]:
    """Return (posts, articles) scores by name, of all but ``SUM``; cosines that ``UNTRAINED`` is made of may be there.

    ``UNTRAINED`` is the mean of the cosines. Of an encoder that was named, its cosine is half of it; of a network that
    learned from the texts alone, its cosine is added as wide as the others' mean.
    """
    index = state.article_index
    rows = [name for name in index.lexical if name in names or (UNTRAINED in names and name in COSINES)]
    scores = dict(zip(rows, index.lexical.scores(rows, posts.terms, posts.num), strict=True)) if rows else {}
    if TOPICS in names:
        assert index.latent is not None
        scores[TOPICS] = index.latent.vectors(posts.terms["stems"], posts.num) @ index.topics.T
    if LEARNED in names:
        scores[LEARNED] = posts.cosines(index.vectors)
    if UNTRAINED in names:
        mean = np.add.reduce([scores[name] for name in COSINES]) / len(COSINES)
        if state.learned_scale:
            mean += state.learned_scale * posts.cosines(index.vectors)
        elif isinstance(state.model, Encoder):  # a network has to be trained first
            mean = (mean + posts.cosines(index.vectors)) / 2
        scores[UNTRAINED] = mean
    return scores


def names_of(state: LinkState) -> list[str]:
    """The scores that ``best`` weighs, those that need no label first."""
    index = state.article_index
    optional = {TOPICS: index.latent is not None, LEARNED: state.model is not None}
    return [SUM, UNTRAINED, *index.lexical, *(name for name, is_available in optional.items() if is_available)]


def weighted_sums(state: LinkState, posts: EncodedPosts) -> Floats:
    """(posts, articles) the weighted sums of ``best``, every post alone."""
    # A score of weight 0 is not computed.
    names = [name for name, weight in state.weights.items() if weight] or list(state.weights)
    # A product of BLAS would round the sums of a single post otherwise than those of many.
    return np.einsum("n,npa->pa", [state.weights[name] for name in names], features(state, posts, names))
