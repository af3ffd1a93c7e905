"""Posts over HTTP: which articles they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, cast

import plotly.graph_objects as go
from pydantic import BeforeValidator, Field

from ensue import figures
from ensue.answers import LinkAnswer, LinkExplanation
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.errors import DataError
from ensue.records import Article, Post
from ensue.serve.bodies import Bodies, Limit, Limits, Update, too_long
from ensue.serve.tasks import NUM_EXAMPLES, Kind, Question, TaskService, change_in_words, choice_at
from ensue.tasks import LINK
from ensue.tasks.link.answers import explanation
from ensue.tasks.link.predictor import LinkPredictor

TITLE = 200
"""Characters of an article's title, or of its body, that the page offers as a post."""
POST: dict[str, object] = {"text": "The bridge is closed again"}
ARTICLE = {"body": "The old bridge was closed on Monday.", "id": "n4", "title": "Bridge closed"}


def _articles(limits: Limits, kind: object) -> object:
    """New articles."""
    max_characters = limits.settings.article_characters

    def read(articles: object) -> object:
        if not isinstance(articles, list):
            return articles  # which is refused as no list
        return [_article(article, f"articles[{at}]", max_characters) for at, article in enumerate(articles)]

    return Annotated[list[Article], BeforeValidator(read)]


def _article(fields: object, location: str, max_characters: int) -> Article:
    if not isinstance(fields, dict):
        raise DataError(f'{location}: must be an object such as {{"body": "an article", "id": "n1"}}')
    # Measured before it is read, which cuts it into sentences.
    if (size := sum(len(text) for text in fields.values() if isinstance(text, str))) > max_characters:
        raise too_long(location, size, "characters", max_characters, "an article", "article_characters")
    return Article.from_fields(fields, location)


class UpdateLinks(Update):
    """Posts, and articles that are new."""

    articles: Annotated[list[Article], Limit(_articles)] = Field([], description="articles that are new")

    @property
    def empty(self) -> bool:
        """True where there is neither a post nor an article."""
        return not self.records and not self.articles


def _draw(predictor: LinkPredictor, kind: Kind, question: Question) -> tuple[go.Figure, str]:
    """Draw the drop of the article's score without each word of the post."""
    post = cast(Post, question.record)
    (answer,) = predictor.predict([post], kind.k)
    choice = choice_at(answer.choices, kind.choice)
    attended = explanation(predictor, post, replace(answer, choices=(choice,)))
    if not attended.score_drops:
        raise DataError("record: the post has no words to draw")
    # The word without which the score falls most.
    at = max(range(len(attended.score_drops)), key=attended.score_drops.__getitem__)
    sentences = [
        f"Article {choice.value}: the score {change_in_words(attended.score_drops[at])} without "
        f"“{attended.words[at]}”, more than without any other word of the post."
    ]
    if choice.sentence:
        sentences.append(f"Its sentence closest to the post: “{choice.sentence}”")
    return figures.deletions(attended), " ".join(sentences)


def _example_records(predictor: LinkPredictor) -> list[dict[str, object]]:
    """Return titles of its articles, or the beginnings of those that have none."""
    titles, bodies = predictor.articles.titles.head(NUM_EXAMPLES), predictor.articles.bodies.head(NUM_EXAMPLES)
    return [{"text": (title or body)[:TITLE]} for title, body in zip(titles, bodies, strict=True)]


SERVICE = TaskService(
    task=LINK,
    view="posts",
    bodies=Bodies(update=UpdateLinks),
    answer_type=LinkAnswer,
    explanation_type=LinkExplanation,
    examples={
        "predict": {LINK.name: {"records": [POST], "k": 3}},
        "explain": {LINK.name: {"records": [POST]}},
        "figure": {LINK.name: {"record": POST, "choice": 1}},
        "update": {LINK.name: {"records": [{**POST, "id": "p9", "about": ["n4"]}], "articles": [ARTICLE]}},
    },
    draw=_draw,
    first_record=lambda predictor: Post("a"),
    describe=lambda predictor: {"articles": len(predictor.articles)},
    example_records=_example_records,
    training_data=lambda predictor, body: Corpus(Articles.of(body.articles), Posts.of(body.records)),
)
