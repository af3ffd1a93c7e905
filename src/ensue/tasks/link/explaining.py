"""Answers to single posts, the sentence of an article that a post is closest to, and what an answer leaned on.

``lost`` is measured, not read off weights: each word of the post is taken out, and the post is scored anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ensue.answers import Link, LinkAnswer
from ensue.data.posts import Posts
from ensue.data.sentences import sentences
from ensue.data.tokens import split_words
from ensue.metrics import Floats
from ensue.records import Post
from ensue.tasks.link.lexical import Lexical
from ensue.vocabulary import UNKNOWN

if TYPE_CHECKING:
    from ensue.tasks.link.predictor import LinkPredictor

GROUP = 256
"""Posts that are answered at once."""
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


def answers_of(predictor: LinkPredictor, records: Sequence[Post], k: int, *, evidence: bool) -> list[LinkAnswer]:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.predict`."""
    found: list[LinkAnswer] = []
    for low in range(0, len(records), GROUP):
        part = records[low : low + GROUP]
        scores = alone(predictor, [record.text for record in part])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        known, given = _known(predictor, [record.text for record in part])
        for row, record in enumerate(part):
            columns = best[row].tolist()
            said = sentences_of(predictor, record.text, columns) if evidence else [""] * len(columns)
            choices = _choices(predictor, columns, scores[row], said)
            found.append(LinkAnswer(choices, known[row], given[row], record.id))
    return found


def alone(predictor: LinkPredictor, texts: Sequence[str]) -> Floats:
    """(texts, articles) scores of texts, each as the only one of its corpus."""
    posts = Posts.of(Post(text) for text in texts)
    asked = predictor.joined(predictor.articles.select(slice(0, 0)))[0]
    asked.pull, asked.index = 0.0, None
    return asked.scores(posts).whole()


def closest(texts: Sequence[str], asked: Sequence[str]) -> Floats:
    """(asked, texts) cosines over the words and over the runs of characters of some texts: their mean."""
    found = []
    for kind in ("words", "characters"):
        lexical = Lexical(kind)
        lexical.add(pl.Series("text", texts, dtype=pl.String))
        found.append(lexical.scores(pl.Series("text", asked, dtype=pl.String)))
    mean: Floats = np.mean(found, axis=0, dtype=np.float64)
    return mean


def sentences_of(predictor: LinkPredictor, text: str, columns: Sequence[int]) -> list[str]:
    """For each of some articles the sentence that a post is closest to, or an empty one where they share nothing."""
    parts = [sentences(predictor.articles.texts[column]) for column in columns]
    flat = [part for own in parts for part in own]
    if not flat:
        return [""] * len(columns)
    (scores,) = closest(flat, [text])
    found, low = [], 0
    for own in parts:
        part = scores[low : low + len(own)]
        found.append(own[int(part.argmax())] if len(part) and part.max() > 0 else "")
        low += len(own)
    return found


def explanation(predictor: LinkPredictor, record: Post, answer: LinkAnswer) -> LinkExplanation:
    """What the best article of an answer leaned on."""
    words = [part for part in record.text.split() if part]
    tested = words[:TESTED]
    if not answer.choices or not words:
        return LinkExplanation(record.text, tuple(words), (), (), answer)
    column = int(np.flatnonzero((predictor.articles.ids == answer.choices[0].value).to_numpy())[0])
    without = [" ".join(words[:place] + words[place + 1 :]) for place in range(len(tested))]
    scores = alone(predictor, [record.text, *without])[:, column]
    parts = sentences(predictor.articles.texts[column])
    (near,) = closest(parts, [record.text])
    order = np.argsort(-near, kind="stable")[:SENTENCES]
    shown = tuple((parts[place], float(near[place])) for place in order.tolist() if near[place] > 0)
    lost = tuple((scores[0] - scores[1:]).tolist())
    return LinkExplanation(record.text, tuple(words), lost, shown, answer)


def _choices(predictor: LinkPredictor, columns: Sequence[int], scores: Floats, said: Sequence[str]) -> tuple[Link, ...]:
    sure = predictor.probabilities(scores[list(columns)])
    return tuple(
        Link(
            predictor.articles.ids[column],
            float(scores[column]),
            None if sure is None else float(sure[place]),
            said[place],
        )
        for place, column in enumerate(columns)
    )


def _known(predictor: LinkPredictor, texts: Sequence[str]) -> tuple[list[int], list[int]]:
    """(texts,) how many words of each the model knows, and how many it has."""
    column = pl.Series("text", texts, dtype=pl.String)
    if predictor.schedule is not None and predictor.model_name != "best":
        tokens = predictor.tokenizer.encode(column)
        starts = tokens.sentences[tokens.texts]
        sums = np.concatenate([[0], np.cumsum(tokens.ids != UNKNOWN)])
        return np.diff(sums[starts]).tolist(), tokens.lengths.tolist()
    lexical = predictor.known.lexical["words"]
    split = split_words(column)
    lengths = np.diff(split.sentences[split.texts])
    rows = lexical.rows(split.words)
    known = np.zeros(len(split.words), np.int64)
    known[rows.cells[0]] = 1
    sums = np.concatenate([[0], np.cumsum(known)])
    return np.diff(sums[split.sentences[split.texts]]).tolist(), lengths.tolist()
