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
from ensue.refresh.trial import Ask, Slice, Trial, slices_of
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
    """What both predictors come to on what the old one remembers."""
    return slices_of("mrr", _ranked(old, new))


def _ranked(old: LinkPredictor, new: LinkPredictor) -> dict[str, tuple[Floats, Floats]]:
    """(posts,) of both models, one over the rank of the article that each remembered post is about.

    Of ``best`` the network that it weighs is asked alone too: what it learns wrong changes no order for a while.
    """
    kept = old.remembered
    if kept is None:
        return {"titles": _own_titles(old, new)}
    asked = {"remembered": "", **({"network": old.shared.network} if kept.tokens and old.shared.network else {})}
    known = old.articles.ids
    return {
        part: (reciprocal_ranks(old, kept, known, name), reciprocal_ranks(new, kept, known, name))
        for part, name in asked.items()
    }


def _own_titles(old: LinkPredictor, new: LinkPredictor) -> tuple[Floats, Floats]:
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
    return found[0], found[1]
