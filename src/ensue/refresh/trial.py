"""The test of an update: what a candidate trains on, and slices of examples scored by it and by the active model.

Task next holds out the newest tenth of the new log and a part of the remembered histories. The other tasks test on what
the folder remembers of its first fit: held-out texts with their labels, held-out posts with their articles, and the
query that followed each query most often. All metrics are those of the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories, dated, hold_out
from ensue.data.posts.dataset import Posts
from ensue.evaluation.next_event import SessionTargets
from ensue.lazy import lazy
from ensue.metrics import Floats
from ensue.records import History, Post
from ensue.refresh.slices import NEWEST, Ask, Columns, Learn, Slice, Trial
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.scores import reciprocal_ranks
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.training_data import require_targets, shared_part
from ensue.tasks.next.update import passes

if TYPE_CHECKING:
    from ensue.evaluation import suggest
    from ensue.tasks.suggest.predictor import SuggestPredictor
else:
    suggest = lazy("ensue.evaluation.suggest")

CUTOFF = 20
MIN_TESTED = 5
"""Fewer new histories are all trained on, and the test is on remembered ones alone."""
MAX_REMEMBERED = 1000
"""Remembered histories that are tested on, at most; also at most a tenth of them."""


def update_next(old: NextPredictor, candidate: NextPredictor, data: Histories, ask: Ask) -> Trial:
    """Train a candidate, on the newest tenth only after the test; a table of new items alone is not tested.

    The test ranks the whole catalogue, so its index is built once, for a candidate that takes over.
    """
    # New rows of the item table count for all that follows, the test included.
    if data.items is not None:
        candidate.add_items(data.items)
        if not len(data):
            return Trial(learn_rest=candidate.index_items)
    data = shared_part(data, candidate.shared.min_users, "new data")
    if not ask.tested:
        ask.follow(passes(candidate, data))
        return Trial(learn_rest=candidate.index_items)
    early = data
    newest = None
    held_out = ""
    if len(data) >= MIN_TESTED:
        early, newest, held_out = hold_out(data, by_time=dated(data))
        require_targets(early, "all but the newest tenth of the new data")
        require_targets(newest, "the newest tenth of the new data")
    remembered, replayed = candidate.reservoir.part(min(MAX_REMEMBERED, len(candidate.reservoir) // 10), ask.standing)
    # Remembered histories that are tested are not replayed in this pass: they would be scored on what was just
    # trained.
    ask.follow(passes(candidate, early, replayed))
    tested = {NEWEST: newest, "remembered": remembered if len(remembered) else None}
    slices = tuple(_next_slice(name, old, candidate, log) for name, log in tested.items() if log is not None)

    def learn_rest() -> None:
        if newest is not None:
            ask.follow(replace(report, stage="update, newest tenth") for report in passes(candidate, newest))
        candidate.index_items()

    return Trial(slices, held_out, learn_rest=learn_rest)


def _next_slice(name: str, old: NextPredictor, new: NextPredictor, data: Histories) -> Slice:
    """Score both models and the baselines of the candidate, under the protocol ``full``."""

    def columns(predictor: NextPredictor, baseline: str | None = None) -> Columns:
        metric = SessionTargets([[predictor]], data, cutoffs=(CUTOFF,)).score(predictor, baseline).metrics()
        return {name: metric[name] for name in ("mrr", f"hit@{CUTOFF}")}

    baselines = {model: columns(new, model) for model in new.baselines}
    return Slice.of(name, columns(old), columns(new), baselines)


def _update_by(slices: Callable[[Any, Any], tuple[Slice, ...]]) -> Learn:
    """Return the update of a task that trains on all new data, and tests what the active model remembers."""

    def learn(old: Any, candidate: Any, data: Any, ask: Ask) -> Trial:
        """Train the candidate on all new data and test both on what the active model remembers."""
        loss = float(candidate.update(data).loss)
        return Trial(slices(old, candidate) if ask.tested else (), loss=loss)

    return learn


def classify_slices(old: ClassifyPredictor, new: ClassifyPredictor) -> tuple[Slice, ...]:
    """Return the accuracy, or LRAP, of both predictors on the texts that the old one remembers."""
    if old.remembered is None or not len(old.remembered[1]):
        return ()
    texts, targets = old.remembered

    def columns(predictor: ClassifyPredictor) -> Columns:
        probabilities = predictor.probabilities(texts)
        if predictor.metadata.sets:
            is_true = targets.astype(np.bool_)
            exact = metrics.subset_accuracy(predictor.predicted_sets(probabilities), is_true)
            return {"lrap": metrics.label_ranking_precision(probabilities, is_true), "subset_accuracy": exact}
        return {"accuracy": (probabilities.argmax(1) == targets).astype(np.float64)}

    return (Slice.of("remembered", columns(old), columns(new)),)


MAX_PROBES = 200
"""Titles and queries that are tested on, at most."""
FIRST_WORDS = 12
"""Words of an article without a title that stand for its title."""


def link_slices(old: LinkPredictor, new: LinkPredictor) -> tuple[Slice, ...]:
    """Return the MRR of both predictors on the posts that the old one remembers, or on titles of its articles.

    The network of ``best`` is tested on its own too: what it learns wrong changes no order for a while.
    """
    posts = old.remembered
    # Without stored posts each article is asked for by its own title.
    if posts is None:
        return _link_slice("titles", _title_ranks(old, old), _title_ranks(new, old))
    scorers = {"remembered": ""}
    if posts.tokens and old.shared.network:
        scorers["network"] = old.shared.network
    ids = old.articles.ids
    tests: tuple[Slice, ...] = ()
    for name, scorer in scorers.items():
        tests += _link_slice(name, reciprocal_ranks(old, posts, ids, scorer), reciprocal_ranks(new, posts, ids, scorer))
    return tests


def _link_slice(name: str, old: Floats, new: Floats) -> tuple[Slice, ...]:
    """Return the slice of (posts,) reciprocal ranks of both models; none without posts."""
    return (Slice.of(name, {"mrr": old}, {"mrr": new}),) if len(old) else ()


def _title_ranks(predictor: LinkPredictor, old: LinkPredictor) -> Floats:
    """Return the (articles,) reciprocal rank of each article among those of the old model, for its own title."""
    articles = old.articles
    num_articles = len(articles)
    rows = np.sort(np.random.default_rng(old.seed).permutation(num_articles)[:MAX_PROBES])
    # The first words of an article stand for a title that it lacks.
    words = pl.Series(articles.texts).str.split(" ").list.head(FIRST_WORDS).list.join(" ")
    titles = pl.select(pl.when(articles.titles.str.len_chars() > 0).then(articles.titles).otherwise(words)).to_series()
    posts = Posts.of([Post(text) for text in titles.gather(rows).to_list()])
    # Columns beyond the old articles are new ones, which no title of the old asks for.
    scores = np.asarray(predictor.scores(posts).whole())[:, :num_articles]
    targets = scores[np.arange(len(rows)), rows][:, None]
    # Rank = number of articles with at least the target's score, so that ties count against it.
    return 1 / (scores >= targets).sum(1).clip(1).astype(np.float64)


def suggest_slices(old: SuggestPredictor, new: SuggestPredictor) -> tuple[Slice, ...]:
    """Return the MRR of both predictors for the query that followed each query most often, as the old model counts."""
    counts = old.following
    # Queries with at least one follower: row i has the followers rows[i] to rows[i + 1].
    rows = np.flatnonzero(np.diff(counts.rows))
    if not len(rows):
        return ()
    if len(rows) > MAX_PROBES:
        probabilities = counts.totals[rows] / counts.totals[rows].sum()
        rows = np.sort(np.random.default_rng(old.seed).choice(rows, MAX_PROBES, replace=False, p=probabilities))
    queries = Histories.of([History((query,)) for query in counts.queries.gather(rows).to_list()])
    # The first follower of a row is the most frequent one.
    followers = counts.queries.gather(counts.followers[counts.rows[rows]])

    def columns(predictor: SuggestPredictor) -> Columns:
        lists = predictor.suggest(queries, suggest.SHOWN)
        rank = metrics.text_ranks(lists.texts, lists.offsets, followers)
        return {f"mrr@{suggest.SHOWN}": metrics.reciprocal_rank(rank, suggest.SHOWN)}

    return (Slice.of("remembered", columns(old), columns(new)),)


update_classify = _update_by(classify_slices)
update_link = _update_by(link_slices)
update_suggest = _update_by(suggest_slices)
