"""What an answer attended to.

It is measured, not read off weights: each word of the post is taken out, and the post is scored anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ensue.answers import LinkAnswer
from ensue.records import Post
from ensue.tasks.link.infer import predict, scores_alone, similarities
from ensue.tasks.link.state import LinkState
from ensue.text.sentences import sentences

TESTED = 60
"""Words of a post that are taken out one at a time, at most."""
SENTENCES = 5
"""Sentences that stand in an explanation."""


@dataclass(frozen=True, slots=True)
class LinkExplanation:
    """What the best article for a post leaned on.

    ``lost[i]`` is how far the score of the best article falls when word i of the post is taken out: a deletion test.
    ``sentences`` are the article's sentences closest to the post with their cosines, best first. Words after the first
    sixty are not tested.
    """

    post: str
    words: tuple[str, ...]
    lost: tuple[float, ...]
    sentences: tuple[tuple[str, float], ...]
    answer: LinkAnswer

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def explain(state: LinkState, records: Sequence[Post], k: int) -> list[LinkExplanation]:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.explain`."""
    answers = predict(state, records, k, evidence=True)
    return [explanation(state, record, answer) for record, answer in zip(records, answers, strict=True)]


def explanation(state: LinkState, record: Post, answer: LinkAnswer) -> LinkExplanation:
    """What the best article of an answer attended to."""
    words = [part for part in record.text.split() if part]
    tested = words[:TESTED]
    if not answer.choices or not words:
        return LinkExplanation(record.text, tuple(words), (), (), answer)
    column = int(np.flatnonzero((state.articles.ids == answer.choices[0].value).to_numpy())[0])
    without = [" ".join(words[:place] + words[place + 1 :]) for place in range(len(tested))]
    scores = scores_alone(state, [record.text, *without])[:, column]
    parts = sentences(state.articles.texts[column])
    (near,) = similarities(parts, [record.text])
    order = np.argsort(-near, kind="stable")[:SENTENCES]
    shown = tuple((parts[place], float(near[place])) for place in order.tolist() if near[place] > 0)
    drops = tuple((scores[0] - scores[1:]).tolist())
    return LinkExplanation(record.text, tuple(words), drops, shown, answer)
