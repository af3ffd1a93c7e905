"""An update of task ``link`` is tested on held-out posts of the fit, where the folder keeps them.

They are numbers of their words with their articles (``remembered``); else titles of known articles (without one, the
first words of the text) are asked for, each to find its own. The figure is MRR. Of ``best`` the network that it weighs
is asked alone too.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Posts
from ensue.metrics import Floats
from ensue.records import Post
from ensue.refresh.trial import Ask, Slice, Trial
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.scores import reciprocal_ranks

NUM = 200
"""Titles asked, at most."""
FIRST_WORDS = 12


def learn(old: LinkPredictor, candidate: LinkPredictor, data: Corpus, ask: Ask) -> Trial:
    """Let a candidate learn, then ask it and the old one what the posts that they remember are about."""
    loss = float(candidate.update(data).loss)
    return Trial(slices(old, candidate) if ask.tested else (), loss=loss)


def slices(old: LinkPredictor, new: LinkPredictor) -> tuple[Slice, ...]:
    """Return both predictors on the posts that the old one remembers, or on titles of its articles.

    The network of ``best`` is tested on its own too: what it learns wrong changes no order for a while.
    """
    posts = old.remembered
    if posts is None:
        return _slice("titles", _own_titles(old, old), _own_titles(new, old))
    parts = {"remembered": ""}
    if posts.tokens and old.shared.network:
        parts["network"] = old.shared.network
    ids = old.articles.ids
    tests: tuple[Slice, ...] = ()
    for name, part in parts.items():
        tests += _slice(name, reciprocal_ranks(old, posts, ids, part), reciprocal_ranks(new, posts, ids, part))
    return tests


def _slice(name: str, old: Floats, new: Floats) -> tuple[Slice, ...]:
    """Return the slice of (posts,) reciprocal ranks of both models; none without posts."""
    return (Slice.of(name, {"mrr": old}, {"mrr": new}),) if len(old) else ()


def _own_titles(predictor: LinkPredictor, old: LinkPredictor) -> Floats:
    """Return the (articles,) reciprocal rank of each article among those of the old model, for its own title."""
    articles = old.articles
    num_articles = len(articles)
    rows = np.sort(np.random.default_rng(old.seed).permutation(num_articles)[:NUM])
    words = pl.Series(articles.texts).str.split(" ").list.head(FIRST_WORDS).list.join(" ")
    titles = pl.select(pl.when(articles.titles.str.len_chars() > 0).then(articles.titles).otherwise(words)).to_series()
    posts = Posts.of([Post(text) for text in titles.gather(rows).to_list()])
    scores = np.asarray(predictor.scores(posts).whole())[:, :num_articles]
    targets = scores[np.arange(len(rows)), rows][:, None]
    reciprocal: Floats = 1 / (scores >= targets).sum(1).clip(1).astype(np.float64)
    return reciprocal
