"""What an update of texts, queries or links is tested on: examples that the folder of the old model knows for certain.

``classify``: held-out texts of the fit, as ids of words with their labels, where the folder keeps them
    (``remembered``); the figure is accuracy.
``suggest``: a query above the privacy floor and the one that followed it most, as the old model counts them; MRR@10.
``link``: held-out posts of the fit, as numbers with their articles, where the folder keeps them (``remembered``);
    else titles of known articles (without one, the first words of the text), each to find its own; MRR. Of ``best``
    the network that it weighs is asked alone too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ensue.data.histories import Histories
from ensue.data.posts import Posts
from ensue.metrics import Floats
from ensue.records import History, Post
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.scores import reciprocal_ranks
from ensue.tasks.suggest.predictor import SuggestPredictor

NUM = 200
"""Examples asked, at most."""
FIRST_WORDS = 12
LABELS = {"mrr": "MRR", "mrr@10": "MRR@10", "accuracy": "accuracy"}


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of examples, and the figures on it, as fractions."""

    name: str
    targets: int
    old: dict[str, float]
    new: dict[str, float]
    counting: dict[str, float]
    best_counting: str
    figure: str = "mrr"
    """The figure that decides."""
    error: float = 0.0
    """Standard error of its mean change."""

    @property
    def label(self) -> str:
        """The figure that decides, for people."""
        return LABELS[self.figure]

    @property
    def before(self) -> float:
        """The old model's figure."""
        return self.old[self.figure]

    @property
    def after(self) -> float:
        """The candidate's figure."""
        return self.new[self.figure]

    @property
    def change(self) -> float:
        """Relative change from old to new; 0 where the old one is 0."""
        return self.after / self.before - 1 if self.before else 0.0

    def falls(self, max_drop: float) -> bool:
        """Whether the figure fell by more than a share, and by more than chance."""
        return self.change < -max_drop and self.after - self.before + 2 * self.error < 0


def standard_error(old: Floats, new: Floats) -> float:
    """Of the mean of paired differences; infinite of fewer than two."""
    return float((new - old).std(ddof=1) / np.sqrt(len(old))) if len(old) > 1 else float("inf")


def of(old: Any, new: Any) -> tuple[Slice, ...]:
    """The slices of a model that stands and a candidate that has learned more; none where there is nothing to ask.

    Args:
        old: a predictor of task ``classify``, ``suggest`` or ``link``.
        new: the same one after an update.
    """
    parts: dict[str, list[Floats]]
    figure = "mrr"
    if isinstance(old, ClassifyPredictor):
        parts, figure = {"remembered": [_right(one, old) for one in (old, new)]}, "accuracy"
    elif isinstance(old, SuggestPredictor):
        parts, figure = {"remembered": _following(old, new)}, "mrr@10"
    else:
        parts = _found(old, new)
    return tuple(_slice(name, pair[0], pair[1], figure) for name, pair in parts.items() if len(pair[0]))


def _slice(name: str, before: Floats, after: Floats, figure: str) -> Slice:
    own, its = {figure: float(before.mean())}, {figure: float(after.mean())}
    return Slice(name, len(before), own, its, {}, "", figure, standard_error(before, after))


def _right(predictor: ClassifyPredictor, old: ClassifyPredictor) -> Floats:
    """(texts,) whether each remembered text gets its label."""
    if old.remembered is None:
        return np.zeros(0)
    sides, targets = old.remembered
    found: Floats = (predictor.probabilities(sides).argmax(1) == targets).astype(np.float64)
    return found


def _following(old: SuggestPredictor, new: SuggestPredictor) -> list[Floats]:
    """(queries,) of both models, one over the rank of what followed each query most."""
    counted = old.following
    asked = np.flatnonzero(np.diff(counted.rows))
    if len(asked) > NUM:
        shares = counted.totals[asked] / counted.totals[asked].sum()
        asked = np.sort(np.random.default_rng(old.seed).choice(asked, NUM, replace=False, p=shares))
    queries = counted.queries.gather(asked).to_list()
    followers = counted.queries.gather(counted.followers[counted.rows[asked]]).to_list()
    found = []
    for predictor in (old, new):
        said = predictor.suggest(Histories.of([History((query,)) for query in queries]), 10)
        lists = [[text for text, _ in said.of(at)] for at in range(len(queries))]
        places = [own.index(true) if true in own else np.inf for own, true in zip(lists, followers, strict=True)]
        found.append(1 / (1 + np.array(places)))
    return found


def _found(old: LinkPredictor, new: LinkPredictor) -> dict[str, list[Floats]]:
    """(posts,) of both models, one over the rank of the article that each remembered post is about.

    Of ``best`` the network that it weighs is asked alone too: what it learns wrong changes no order for a while.
    """
    kept = old.remembered
    if kept is None:
        return {"titles": _own_titles(old, new)}
    asked = {"remembered": "", **({"network": old.shared.learned} if kept.tokens and old.shared.learned else {})}
    known = old.articles.ids
    return {
        part: [reciprocal_ranks(predictor, kept, known, name) for predictor in (old, new)]
        for part, name in asked.items()
    }


def _own_titles(old: LinkPredictor, new: LinkPredictor) -> list[Floats]:
    """(articles,) of both models, one over the rank of each article among those the old one knows."""
    articles, num = old.articles, len(old.articles)
    asked = np.sort(np.random.default_rng(old.seed).permutation(num)[:NUM])
    words = pl.Series(articles.texts).str.split(" ").list.head(FIRST_WORDS).list.join(" ")
    titles = pl.select(pl.when(articles.titles.str.len_chars() > 0).then(articles.titles).otherwise(words)).to_series()
    posts = Posts.of([Post(text) for text in titles.gather(asked).to_list()])
    found = []
    for predictor in (old, new):
        scores = np.asarray(predictor.scores(posts).whole())[:, :num]
        own = scores[np.arange(len(asked)), asked][:, None]
        found.append(1 / (scores >= own).sum(1).clip(1).astype(np.float64))
    return found
