"""Answers to single posts: their articles with the closest sentences, and attributions by deletion of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ensue.answers import Link, LinkAnswer, LinkExplanation
from ensue.metrics import Floats
from ensue.records import Post
from ensue.settings import require_k
from ensue.tasks.link.encode import encode_post_texts
from ensue.tasks.link.quotes import Quotes
from ensue.tasks.link.scores import LinkScores
from ensue.tasks.link.settings import LinkSettings
from ensue.tasks.link.state import LinkState
from ensue.text.tokens import word_lists

GROUP = 256
"""Number of posts that are answered at once."""
TESTED = 60
"""Maximum number of words of a post that are deleted, one at a time."""
SENTENCES = 5
"""Maximum number of sentences in an explanation."""


def predict(state: LinkState, records: Sequence[Post], k: int, *, evidence: bool) -> list[LinkAnswer]:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.predict`."""
    require_k(k)
    state.article_index  # noqa: B018 trained?
    answers: list[LinkAnswer] = []
    for low in range(0, len(records), GROUP):
        block = records[low : low + GROUP]
        texts = [record.text for record in block]
        scores = scores_alone(state, texts)
        # A stable sort: of articles with equal scores the first one comes first.
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        in_vocabulary, lengths = _known_words(state, texts)
        for row, record in enumerate(block):
            columns = best[row].tolist()
            quotes = closest_sentences(state, record.text, columns) if evidence else [""] * len(columns)
            choices = _choices(state, columns, scores[row], quotes)
            answers.append(LinkAnswer(choices, in_vocabulary[row], lengths[row], id=record.id))
    return answers


def scores_alone(state: LinkState, texts: Sequence[str]) -> Floats:
    """(texts, articles) scores of texts, each as the only one of its corpus."""
    state.article_index  # noqa: B018 trained?
    column = pl.Series("text", texts, dtype=pl.String)
    name = state.model_name
    scores = LinkScores(state, len(texts), lambda rows: encode_post_texts(state, column[rows], name), name, alone=True)
    return scores.whole()


def closest_sentences(state: LinkState, text: str, columns: Sequence[int]) -> list[str]:
    """Return the sentence of each article that matches a post best, "" where they share no term."""
    quotes = Quotes(state.articles.texts.gather(list(columns)))
    (cosines,) = quotes.cosines(pl.Series("text", [text], dtype=pl.String))
    return [quotes.best(cosines, index) for index in range(len(columns))]


def _choices(state: LinkState, columns: Sequence[int], scores: Floats, quotes: Sequence[str]) -> tuple[Link, ...]:
    article_ids = state.articles.ids
    ids = [article_ids[column] for column in columns]  # gather takes ten times as long for a few rows
    chosen_scores = scores[list(columns)]
    calibrated = state.probabilities(chosen_scores)
    probabilities = [None] * len(columns) if calibrated is None else calibrated.tolist()
    return tuple(map(Link, ids, chosen_scores.tolist(), probabilities, quotes))


def _known_words(state: LinkState, texts: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return (texts,) how many words of each text are in the vocabulary, and how many it has.

    The vocabulary of a model without a network is every word of its articles and of its training posts, and
    the stop words, which it ignores.
    """
    column = pl.Series("text", texts, dtype=pl.String)
    if isinstance(state.settings, LinkSettings) and state.model_name != "best":
        tokens = state.tokenizer.encode(column)
        return tokens.num_known.tolist(), tokens.lengths.tolist()
    known_words = state.article_index.known_words(state.post_terms)
    lists = word_lists(column)
    return [sum(map(known_words.__getitem__, words)) for words in lists], [len(words) for words in lists]


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
