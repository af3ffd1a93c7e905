"""Posts over HTTP: which articles they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, cast

import plotly.graph_objects as go
from pydantic import BeforeValidator, Field

from ensue import figures
from ensue.answers import LinkAnswer, LinkExplanation
from ensue.data.posts import Articles, Corpus, Posts
from ensue.errors import DataError
from ensue.records import Article, Post
from ensue.serve.bodies import Bodies, Limit, Limits, Update
from ensue.serve.lengths import too_long
from ensue.serve.sentences import chosen, falls
from ensue.serve.tasks import SHOWN, Drawn, TaskService
from ensue.tasks.link.explain import explanation
from ensue.tasks.link.predictor import LinkPredictor

TITLE = 200
"""Characters of an article's title, or of its body, that the page offers as a post."""


def _articles(limits: Limits, kind: object) -> object:
    """Articles that are new."""
    most = limits.settings.article_characters

    def read(articles: object) -> object:
        if not isinstance(articles, list):
            return articles  # which is refused as no list
        return [_article(article, f"articles[{at}]", most) for at, article in enumerate(articles)]

    return Annotated[list[Article], BeforeValidator(read)]


def _article(fields: object, where: str, most: int) -> Article:
    if not isinstance(fields, dict):
        raise DataError(f'{where}: must be an object such as {{"body": "an article", "id": "n1"}}')
    if (size := sum(len(part) for part in fields.values() if isinstance(part, str))) > most:
        raise too_long(where, size, "characters", most, "an article", "article_characters")
    return Article.from_fields(fields, where)


class UpdateLinks(Update):
    """Posts, and articles that are new."""

    articles: Annotated[list[Article], Limit(_articles)] = Field([], description="articles that are new")

    @property
    def empty(self) -> bool:
        """Whether there is neither a post nor an article."""
        return not self.records and not self.articles


class LinkService(TaskService[LinkPredictor, Post]):
    """See :class:`ensue.serve.tasks.TaskService`."""

    view = "posts"
    bodies = Bodies(update=UpdateLinks)
    answer_type, explanation_type = LinkAnswer, LinkExplanation

    def examples(self) -> Mapping[str, Mapping[str, object]]:
        """Posts about a bridge."""
        name, post = self.task.name, {"text": "The bridge is closed again"}
        article = {"body": "The old bridge was closed on Monday.", "id": "n4", "title": "Bridge closed"}
        return {
            "predict": {name: {"records": [post], "k": 3}},
            "explain": {name: {"records": [post]}},
            "figure": {name: {"record": post, "choice": 1}},
            "update": {name: {"records": [{**post, "id": "p9", "about": ["n4"]}], "articles": [article]}},
        }

    def texts_of(self, question: Post) -> Sequence[str]:
        """The text."""
        return (question.text,)

    def draw(self, predictor: LinkPredictor, drawn: Drawn, question: Post) -> tuple[go.Figure, str]:
        """The drop of the article's score without each word of the post."""
        (answer,) = predictor.predict([question], drawn.k)
        choice = chosen(answer.choices, drawn.choice)
        attended = explanation(predictor, question, replace(answer, choices=(choice,)))
        if not attended.score_drops:
            raise DataError("record: the post has no words to draw")
        at = max(range(len(attended.score_drops)), key=attended.score_drops.__getitem__)
        sentences = [
            f"Article {choice.value}: the score {falls(attended.score_drops[at])} without “{attended.words[at]}”, "
            "more than without any other word of the post."
        ]
        if choice.sentence:
            sentences.append(f"Its sentence closest to the post: “{choice.sentence}”")
        return figures.deletions(attended), " ".join(sentences)

    def first_question(self, predictor: LinkPredictor) -> Post:
        """A word."""
        return Post("a")

    def describe(self, predictor: LinkPredictor) -> dict[str, object]:
        """How many articles it ranks."""
        return {"articles": len(predictor.articles)}

    def shown(self, predictor: LinkPredictor) -> list[dict[str, object]]:
        """Titles of its articles, or how those begin that have none."""
        titles, bodies = predictor.articles.titles.head(SHOWN), predictor.articles.bodies.head(SHOWN)
        return [{"text": (title or body)[:TITLE]} for title, body in zip(titles, bodies, strict=True)]

    def data_of(self, predictor: LinkPredictor, body: Update) -> Corpus:
        """Posts, and articles that are new."""
        assert isinstance(body, UpdateLinks)
        return Corpus(Articles.of(body.articles), Posts.of(cast(list[Post], body.records)))
