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

from ensue.data.histories import Index, Mask
from ensue.data.near_copies import near_copies
from ensue.data.posts.dataset import Articles, Posts
from ensue.metrics import Floats
from ensue.tasks.link.cut import SuggestedCut, suggested_cut
from ensue.tasks.link.folds import folds_of
from ensue.tasks.link.link_metrics import AtCut, Calibration, at_counts, calibrate, cross_fitted
from ensue.tasks.link.quotes import Quotes
from ensue.tasks.link.review.reranker import ReviewReranker
from ensue.tasks.link.review.review import start_odds
from ensue.tasks.link.scores import scores_of
from ensue.tasks.link.state import LinkState
from ensue.tasks.link.train import training_hashes
from ensue.text.lexical import Lexical
from ensue.text.sparse import SparseRows

MAX_QUOTED = 1000
"""Posts from the best down whose sentence is looked for; below that the reader has long stopped."""
COLUMNS = ("probability", "article", "sentence", "copy_of")
"""Columns that are added to those of the input; ``score`` where there are no probabilities."""
EVEN = 0.5
LABEL_NAMES = {1: "yes", 0: "no", -1: "unsure"}


@dataclass(frozen=True, slots=True)
class FileLabels:
    """Labels in a file of posts, as its ranking uses them; one that names no article of the story counts as a no."""

    story: int
    """Posts that are labelled as about the story."""
    learned: int
    """Number of them that the model was trained on."""
    taught: bool
    """True if the probabilities were fitted to these labels; precision and recall of the cut are then those of each
    fold of the posts under a calibration that was fitted to the other folds."""


@dataclass(frozen=True, eq=False)
class RankedCorpus:
    """Posts ranked for a story.

    Attributes:
        articles: the story.
        posts: all posts, in their own order.
        order: (posts,) their numbers, best first.
        scores: (posts,) with the article that suits each best.
        columns: (posts,) number of that article.
        copies: (posts,) number of the best ranked post that says the same, which may be the post itself.
        probabilities: (posts,) P(relevant), or ``None`` where there are no labels to fit it on.
        cut: what a probability of one half catches, where posts have labels and probabilities differ.
        source: where the probabilities come from, for people.
        labels: what the labels of the file are to all this; ``None`` where none tells one post from another.
        suggested: where the list stops being about the story, told from the scores; ``None`` where probabilities say
            it, or where it cannot be told.
        votes: after a review, number of a post -> reader -> 1 for yes, 0 for no, -1 for unsure.
        alone: (posts,) probabilities of each without what the others tell; ``None`` where they tell nothing, or no
            review was asked for.
    """

    articles: Articles
    posts: Posts
    order: Index
    scores: Floats
    columns: Index
    copies: Index
    probabilities: Floats | None = None
    cut: AtCut | None = None
    source: str = ""
    labels: FileLabels | None = None
    suggested: SuggestedCut | None = None
    votes: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    alone: Floats | None = None

    def table(self, num: int | None = None) -> pl.DataFrame:
        """The best posts as the columns of ``COLUMNS``; ``score`` is the first where nothing is probable."""
        return self.table_of(self.order[:num])

    def repeats(self) -> dict[int, int]:
        """Return the number of copies of each post that others repeat."""
        best, counts = np.unique(self.copies, return_counts=True)
        return {post: num - 1 for post, num in zip(best.tolist(), counts.tolist(), strict=True) if num > 1}

    def table_of(self, rows: Index) -> pl.DataFrame:
        """The columns of ``COLUMNS`` of some posts."""
        name, values = ("score", self.scores) if self.probabilities is None else (COLUMNS[0], self.probabilities)
        copies = [
            self.posts.ids[copy] if copy != row else ""
            for row, copy in zip(rows.tolist(), self.copies[rows].tolist(), strict=True)
        ]
        quoted_rows = rows[:MAX_QUOTED]
        sentences = self._quotes.closest(self.posts.texts.gather(quoted_rows), self.columns[quoted_rows])
        frame = pl.DataFrame(
            {
                name: values[rows],
                COLUMNS[1]: self.articles.ids.gather(self.columns[rows]),
                COLUMNS[2]: sentences + [""] * (len(rows) - len(quoted_rows)),
                COLUMNS[3]: copies,
            }
        )
        if not self.votes:
            return frame
        votes = [self.votes.get(row, {}) for row in rows.tolist()]
        texts = [
            ", ".join(f"{reader}: {LABEL_NAMES[label]}" for reader, label in by_reader.items()) for by_reader in votes
        ]
        return frame.with_columns(reviewed=pl.Series(texts, dtype=pl.String))

    def written(self, *, flat: bool = False) -> pl.DataFrame:
        """All columns of the posts' file (of JSON, if ``flat``, its fields as columns) and ours, best first."""
        return self.posts.select(self.order).beside(self.table(), flat)

    def review_start(self) -> tuple[Floats, SparseRows]:
        """Return the start of a review: log-odds of the posts, and their TF-IDF rows."""
        lexical = Lexical.of("words", self.posts.texts)
        spread = float(self.scores.std()) or 1.0
        # A rough prior: a post two deviations above the mean belongs as likely as not.
        odds = (self.scores - self.scores.mean()) / spread - 2  # without labels, an order is all there is
        if probabilities := [values for values in (self.probabilities, self.alone) if values is not None]:
            odds = start_odds(*probabilities)
        return odds, lexical.rows(self.posts.texts)

    def reviewed(
        self,
        start: Floats,
        rows: SparseRows,
        read: Index,
        labels: npt.NDArray[np.bool_],
        votes: Mapping[int, Mapping[str, int]] | None = None,
    ) -> RankedCorpus:
        """Return the posts ranked again by the labels of a review; posts that were read are certain.

        Args:
            start: of :meth:`review_start`.
            rows: of :meth:`review_start`.
            read: numbers of the labelled posts.
            labels: whether each belongs to the story.
            votes: label of each annotator of a post, also of those who were unsure.
        """
        if not len(read):
            return replace(self, votes=votes or {})
        odds = ReviewReranker(start, rows).odds(read, labels).copy()
        # Read posts are certain, and come first or last.
        odds[read] = np.where(labels, np.inf, -np.inf)
        probabilities = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        order = np.lexsort((-self.scores, -odds))
        copies = _copies(order, self.copies)
        source = f"after {len(read):,} labels, {int(labels.sum()):,} of them yes"
        reviewed = RankedCorpus(self.articles, self.posts, order, odds, self.columns, copies, probabilities)
        return replace(reviewed, source=source, votes=votes or {}, alone=self.alone)

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
    joined_state, story = state.joined(articles)
    scores, columns = scores_of(joined_state, posts).best(story)
    # Best first; of equals the earlier post.
    order = np.argsort(-scores, kind="stable")
    related = _related(articles, posts)
    labels = labels_of(state, articles, posts)
    groups = near_copies(posts.texts) if grouped and len(posts) else np.arange(len(posts))
    ranking = RankedCorpus(articles, posts, order, scores, columns, _copies(order, groups), labels=labels)
    calibration = state.calibration
    source = "fitted on held-out posts"
    if labels is not None and labels.taught:
        calibration = calibrate(scores, related)
        source = "fitted on the labels of this file"
    if calibration is None:
        is_lexical = state.model is None and not state.learned_scale
        return replace(ranking, suggested=suggested_cut(scores, state.model_name) if is_lexical else None)
    probabilities = calibration.probabilities(scores)
    cut = single = None
    if not calibration.slope:
        source += f"; they are constant, {probabilities[0]:.2f} for every post, because labels do not rise with scores"
    elif labels is not None:
        folds = folds_of(posts, related, state.seed)
        # Labels that the calibration was fitted on must not judge it.
        held_out = cross_fitted(scores, related, folds) if labels.taught else probabilities
        cut = _at_cut(held_out >= EVEN, columns, articles, posts, calibration)
    if reviewed and state.pulls:
        single = calibration.probabilities(scores_of(joined_state, posts, alone=True).best(story)[0])
    return replace(ranking, probabilities=probabilities, cut=cut, source=source, alone=single)


def labels_of(state: LinkState, articles: Articles, posts: Posts) -> FileLabels | None:
    """Return the labels of posts for a story; ``None`` where all posts have the same label."""
    related = _related(articles, posts)
    if not related.any() or related.all():
        return None
    is_trained = np.isin(training_hashes(posts.select(related)), state.train_prints)
    return FileLabels(int(related.sum()), int(is_trained.sum()), state.calibration is None)


def _related(articles: Articles, posts: Posts) -> Mask:
    """(posts,) whether a post is labelled as about any article of the story."""
    related = np.zeros(len(posts), bool)
    related[posts.pairs(articles)[0][:, 1]] = True
    return related


def _at_cut(chosen: Mask, columns: Index, articles: Articles, posts: Posts, calibration: Calibration) -> AtCut:
    """A post counts once: under the article it is about, or under the one that suits it best."""
    numbers, rows = posts.pairs(articles)[0].T
    articles_of = np.full(len(posts), len(articles))
    np.minimum.at(articles_of, rows, numbers)  # the first of those it is about
    related = articles_of < len(articles)
    articles_of = np.where(related, articles_of, columns)
    size = len(articles)
    return at_counts(
        calibration.cut(EVEN),
        np.bincount(articles_of[chosen & related], minlength=size),
        np.bincount(articles_of[chosen], minlength=size),
        np.bincount(articles_of[related], minlength=size),
    )


def _copies(order: Index, groups: Index) -> Index:
    """(posts,) the best ranked of each post's group."""
    first = np.full(len(order), -1, np.int64)
    first[groups[order[::-1]]] = order[::-1]  # the best ranked of a group is written last
    return first[groups]
