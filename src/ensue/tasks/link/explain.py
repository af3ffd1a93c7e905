"""Attributions of an answer by deletion: each word of the post is removed and the post is scored again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ensue.answers import LinkAnswer, LinkExplanation
from ensue.records import Post
from ensue.tasks.link.infer import predict, scores_alone
from ensue.tasks.link.quotes import Quotes
from ensue.tasks.link.state import LinkState

TESTED = 60
"""Words of a post that are taken out one at a time, at most."""
SENTENCES = 5
"""Sentences that stand in an explanation."""


def explain(state: LinkState, records: Sequence[Post], k: int) -> list[LinkExplanation]:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.explain`."""
    answers = predict(state, records, k, evidence=True)
    return [explanation(state, record, answer) for record, answer in zip(records, answers, strict=True)]


def explanation(state: LinkState, record: Post, answer: LinkAnswer) -> LinkExplanation:
    """Return the attributions of an answer's best article."""
    words = [word for word in record.text.split() if word]
    tested = words[:TESTED]
    if not answer.choices or not words:
        return LinkExplanation(record.text, tuple(words), (), (), answer)
    column = int(np.flatnonzero((state.articles.ids == answer.choices[0].value).to_numpy())[0])
    without = [" ".join(words[:index] + words[index + 1 :]) for index in range(len(tested))]
    scores = scores_alone(state, [record.text, *without])[:, column]
    quotes = Quotes([state.articles.texts[column]])
    (cosines,) = quotes.cosines(pl.Series("text", [record.text]))
    order = np.argsort(-cosines, kind="stable")[:SENTENCES]
    matches = tuple((quotes.sentences[index], float(cosines[index])) for index in order.tolist() if cosines[index] > 0)
    drops = tuple((scores[0] - scores[1:]).tolist())
    return LinkExplanation(record.text, tuple(words), drops, matches, answer)
