"""A corpus of posts ranked for a story: what ``ensue link`` answers.

A story is one article or many; a post belongs to it as surely as to the article that suits it best. Posts that repeat
an earlier one are grouped under the best ranked of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Index
from ensue.data.near_copies import near_copies
from ensue.data.posts.dataset import Articles, Posts
from ensue.metrics import Floats
from ensue.tasks.link.cut import SuggestedCut, suggested_cut
from ensue.tasks.link.encode import joined
from ensue.tasks.link.folds import folds_of
from ensue.tasks.link.measures import AtCut, Calibration, Mask, at_counts, calibrate, cross_fitted
from ensue.tasks.link.quotes import Quotes
from ensue.tasks.link.review.reranker import Reranker
from ensue.tasks.link.review.review import start_odds
from ensue.tasks.link.scores import scores_of
from ensue.tasks.link.state import LinkState
from ensue.tasks.link.train import training_hashes
from ensue.text.lexical import Lexical
from ensue.text.sparse import SparseRows

SHOWN = 1000
"""Posts from the best down whose sentence is looked for; below that the reader has long stopped."""
COLUMNS = ("probability", "article", "sentence", "copy_of")
"""What the output has beside the input's columns; ``score`` where there are no probabilities."""
EVEN = 0.5
_SAID = {1: "yes", 0: "no", -1: "unsure"}


@dataclass(frozen=True, slots=True)
class FileLabels:
    """What labels in a file of posts are to its ranking; one that names no article of the story counts as a no."""

    story: int
    """Posts that are labelled as about the story."""
    learned: int
    """Those among them that the model was trained on."""
    taught: bool
    """Whether the probabilities were learned from these labels; what a cut catches is then told of each fold of the
    posts by a calibration that the other folds taught."""


@dataclass(frozen=True, eq=False)
class RankedCorpus:
    """Posts ranked for a story.

    Attributes:
        articles: the story.
        posts: all posts, in their own order.
        order: (posts,) their numbers, best first.
        scores: (posts,) with the article that suits each best.
        columns: (posts,) number of that article.
        probabilities: (posts,) P(relevant), or ``None`` where nothing was labelled to learn it from.
        copies: (posts,) number of the best ranked post that says the same; its own where that is itself.
        cut: what a probability of one half catches, where posts have labels and probabilities differ.
        source: where the probabilities come from, for people.
        labels: what the labels of the file are to all this; ``None`` where none tells one post from another.
        suggested: where the list stops being about the story, told from the scores; ``None`` where probabilities say
            it, or where it cannot be told.
        said: after a review, number of a post -> reader -> 1 for yes, 0 for no, -1 for unsure.
        alone: (posts,) probabilities of each without what the others tell; ``None`` where they tell nothing, or no
            review was asked for.
    """

    articles: Articles
    posts: Posts
    order: Index
    scores: Floats
    columns: Index
    probabilities: Floats | None
    copies: Index
    cut: AtCut | None
    source: str
    labels: FileLabels | None = None
    suggested: SuggestedCut | None = None
    said: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    alone: Floats | None = None

    def table(self, num: int | None = None) -> pl.DataFrame:
        """The best posts as the columns of ``COLUMNS``; ``score`` is the first where nothing is probable."""
        return self.table_of(self.order[:num])

    def repeats(self) -> dict[int, int]:
        """Of posts that others repeat, how many do."""
        best, counts = np.unique(self.copies, return_counts=True)
        return {post: num - 1 for post, num in zip(best.tolist(), counts.tolist(), strict=True) if num > 1}

    def table_of(self, rows: Index) -> pl.DataFrame:
        """The columns of ``COLUMNS`` of some posts."""
        name, values = ("score", self.scores) if self.probabilities is None else (COLUMNS[0], self.probabilities)
        copies = [
            self.posts.ids[copy] if copy != row else ""
            for row, copy in zip(rows.tolist(), self.copies[rows].tolist(), strict=True)
        ]
        shown = rows[:SHOWN]
        sentences = self._quotes.closest(self.posts.texts.gather(shown), self.columns[shown])
        frame = pl.DataFrame(
            {
                name: values[rows],
                COLUMNS[1]: self.articles.ids.gather(self.columns[rows]),
                COLUMNS[2]: sentences + [""] * (len(rows) - len(shown)),
                COLUMNS[3]: copies,
            }
        )
        if not self.said:
            return frame
        said = [self.said.get(row, {}) for row in rows.tolist()]
        told = [", ".join(f"{reader}: {_SAID[own]}" for reader, own in by.items()) for by in said]
        return frame.with_columns(reviewed=pl.Series(told, dtype=pl.String))

    def written(self, *, flat: bool = False) -> pl.DataFrame:
        """All columns of the posts' file (of JSON, if ``flat``, its fields as columns) and ours, best first."""
        return self.posts.select(self.order).beside(self.table(), flat)

    def review_start(self) -> tuple[Floats, SparseRows]:
        """What a review starts from: log-odds of the posts, and their TF-IDF rows."""
        lexical = Lexical("words")
        lexical.add(self.posts.texts)
        spread = float(self.scores.std()) or 1.0
        odds = (self.scores - self.scores.mean()) / spread - 2  # without labels, an order is all there is
        if said := [own for own in (self.probabilities, self.alone) if own is not None]:
            odds = start_odds(*said)
        return odds, lexical.rows(self.posts.texts)

    def reviewed(
        self,
        start: Floats,
        rows: SparseRows,
        read: Index,
        labels: npt.NDArray[np.bool_],
        said: Mapping[int, Mapping[str, int]] | None = None,
    ) -> RankedCorpus:
        """The same posts ranked anew by the labels of a review; those that were read are sure.

        Args:
            start: of :meth:`review_start`.
            rows: of :meth:`review_start`.
            read: numbers of the labelled posts.
            labels: whether each belongs to the story.
            said: by whom what was said, those who were unsure among them.
        """
        if not len(read):
            return replace(self, said=said or {})
        odds = Reranker(start, rows).odds(read, labels).copy()
        odds[read] = np.where(labels, np.inf, -np.inf)
        sure = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        order = np.lexsort((-self.scores, -odds))
        copies = _copies(order, self.copies)
        source = f"after {len(read):,} labels, {int(labels.sum()):,} of them yes"
        return replace(
            self,
            scores=odds,
            order=order,
            probabilities=sure,
            copies=copies,
            source=source,
            cut=None,
            labels=None,
            suggested=None,
            said=said or {},
        )

    @cached_property
    def _quotes(self) -> Quotes:
        return Quotes(self.articles.texts)


def rank(
    state: LinkState, articles: Articles, posts: Posts, *, grouped: bool = True, reviewed: bool = False
) -> RankedCorpus:
    """Rank a corpus for a story.

    Args:
        state: trained, or made by :meth:`ensue.tasks.link.predictor.LinkPredictor.untrained`.
        articles: the story.
        posts: the corpus.
        grouped: whether to look for posts that say the same.
        reviewed: whether a review is to follow, which weighs what each post says alone too.
    """
    whole, places = joined(state, articles)
    scores, columns = scores_of(whole, posts).best(places)
    order = np.argsort(-scores, kind="stable")
    related = _related(articles, posts)
    labels = labels_of(state, articles, posts)
    calibration, source = state.calibration, "fitted on held-out posts"
    if labels is not None and labels.taught:
        calibration, source = calibrate(scores, related), "fitted on the labels of this file"
    groups = near_copies(posts.texts) if grouped and len(posts) else np.arange(len(posts))
    copies = _copies(order, groups)
    if calibration is None:
        lexical = state.model is None and not state.learned_scale
        suggested = suggested_cut(scores, state.model_name) if lexical else None
        none = (None, copies, None, "", labels)
        return RankedCorpus(articles, posts, order, scores, columns, *none, suggested)
    sure, cut = calibration.probabilities(scores), None
    if not calibration.slope:
        source += f"; they are constant, {sure[0]:.2f} for every post, because labels do not rise with scores"
    elif labels is not None:
        counted = cross_fitted(scores, related, folds_of(posts, related, state.seed)) if labels.taught else sure
        cut = _at_cut(counted >= EVEN, columns, articles, posts, calibration)
    known, alone = (sure, copies, cut, source, labels), None
    if reviewed and state.pulls:
        alone = calibration.probabilities(scores_of(whole, posts, alone=True).best(places)[0])
    return RankedCorpus(articles, posts, order, scores, columns, *known, alone=alone)


def labels_of(state: LinkState, articles: Articles, posts: Posts) -> FileLabels | None:
    """What labels of posts are to a ranking of them for a story; ``None`` where none tells one post from another."""
    related = _related(articles, posts)
    if not related.any() or related.all():
        return None
    learned = np.isin(training_hashes(posts.select(related)), state.train_prints.numpy())
    return FileLabels(int(related.sum()), int(learned.sum()), state.calibration is None)


def _related(articles: Articles, posts: Posts) -> Mask:
    """(posts,) whether a post is labelled as about any article of the story."""
    related = np.zeros(len(posts), bool)
    related[posts.pairs(articles)[0][:, 1]] = True
    return related


def _at_cut(chosen: Mask, columns: Index, articles: Articles, posts: Posts, calibration: Calibration) -> AtCut:
    """A post counts once: under the article it is about, or under the one that suits it best."""
    numbers, rows = posts.pairs(articles)[0].T
    own = np.full(len(posts), len(articles))
    np.minimum.at(own, rows, numbers)  # the first of those it is about
    related = own < len(articles)
    own = np.where(related, own, columns)
    size = len(articles)
    return at_counts(
        calibration.cut(EVEN),
        np.bincount(own[chosen & related], minlength=size),
        np.bincount(own[chosen], minlength=size),
        np.bincount(own[related], minlength=size),
    )


def _copies(order: Index, groups: Index) -> Index:
    """(posts,) the best ranked of each post's group."""
    first = np.full(len(order), -1, np.int64)
    first[groups[order[::-1]]] = order[::-1]  # the best ranked of a group is written last
    copies: Index = first[groups]
    return copies
