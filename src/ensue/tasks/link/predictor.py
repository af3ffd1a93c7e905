"""The predictor of task ``link``: a post in, the articles it may be about out; or a corpus of posts, to be ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import polars as pl
from torch import Tensor

from ensue.answers import LinkAnswer, LinkExplanation
from ensue.arguments import require_records
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.learning import life
from ensue.metrics import Floats
from ensue.records import Post
from ensue.tasks.link import encode, explain, infer, scores, train, update
from ensue.tasks.link.save import FOLDERS
from ensue.tasks.link.scores import LinkScores
from ensue.tasks.link.state import LinkState
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report


class LinkPredictor(LinkState):
    """Says which articles a post is about, and which posts belong to a story; arguments as of :class:`LinkState`."""

    data_type = Corpus
    folders = FOLDERS

    def fit(
        self, data: Corpus, valid: Corpus | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Learn, yielding a report a step; the predictor can be used once the loop is over.

        All articles of the data become known, whether a post is about them or not. All labelled posts teach weights
        and probabilities, each fold of them scored by what the others taught. A network learns the posts of training
        alone; without ``valid`` the file's own parts are used, or a tenth of the posts, with all posts about the same
        articles, is held out: it stops the training, and alone teaches weights and probabilities.

        Args:
            data: articles and posts; of a file with parts, the posts of ``train`` are learned.
            valid: what is held out, in place of a part of the data; its articles become known too.
            checkpoint: a file that lets a killed run continue.
            resume: continue from there.

        Raises:
            DataError: no post is about an article, or there is only one article.
            SettingError: the loss is no longer a number, or another run's checkpoint.
        """
        self.require_data(data, valid)
        return life.fit(train, self, data, valid, Checkpoint(checkpoint, resume))

    def learn(self, posts: Posts) -> Iterator[Report]:
        """Learn of articles and posts alone, without a label, yielding a report a step: what a passage was cut from.

        Args:
            posts: the corpus; of many posts a sample is read.
        """
        return train.learn(self, posts)

    def update(self, data: Corpus) -> Report:
        """Learn new articles, and posts about them, on top of what is known, in one pass.

        New articles are welcome without any post; weights and probabilities stay as they are.

        Raises:
            DataError: neither an article nor a link is new.
        """
        self.require_data(data)
        return update.update(self, data)

    def predict(self, records: Sequence[Post], k: int = 10, *, evidence: bool = True) -> list[LinkAnswer]:
        """The ``k`` likeliest articles of each post; every post is answered alone.

        Args:
            records: posts.
            k: articles a post.
            evidence: whether to find the article's sentence that is closest to the post.

        Raises:
            SettingError: not trained, or ``k`` below 1.
        """
        return infer.predict(self, require_records(records, Post), k, evidence=evidence)

    def explain(self, records: Sequence[Post], k: int = 3) -> list[LinkExplanation]:
        """The drop of the best article's score without each word of the post, and the sentences it matches.

        Raises:
            SettingError: not trained.
        """
        return explain.explain(self, require_records(records, Post), k)

    def scores(self, posts: Posts, name: str | None = None) -> LinkScores:
        """Scores of posts with the articles, a block of posts at a time.

        Args:
            posts: the posts.
            name: a lexical model in place of this one: ``tfidf`` or ``bm25``.

        Raises:
            SettingError: not trained.
        """
        return scores.scores_of(self, posts, name)

    def joined(self, articles: Articles) -> tuple[Self, list[int]]:
        """A copy with more articles, and the columns of these.

        The original stays as it is. An article that is there with the same text is not added again.

        Raises:
            SettingError: not trained.
        """
        return encode.joined(self, articles)

    def probabilities(self, scores: Floats) -> Floats | None:
        """P(relevant) of scores, or ``None`` where nothing was labelled to learn it from."""
        return infer.probabilities(self, scores)

    def vectors(self, texts: pl.Series) -> Tensor:
        """(texts, width) unit vectors of the network on the CPU; 0 for texts without a word.

        Raises:
            SettingError: there is no network; a sentence encoder is missing, or not the one that was learned with.
        """
        return encode.vectors_of(self, texts)

    @property
    def trained(self) -> object | None:
        """The articles; ``None`` before."""
        return self._article_index

    @classmethod
    def untrained(
        cls, articles: Articles, posts: Posts, model: str = "best", encoder: str = "", *, network: str = ""
    ) -> Self:
        """A predictor that works at once: lexical scores, the posts counted too for how rare a word is, no probability.

        Args:
            articles: the articles.
            posts: the posts.
            model: a name in ``WITHOUT_TRAINING``.
            encoder: of best and sbert: name or folder of an installed sentence-transformers model, whose cosine best
                gives half of the weight.
            network: of best: ``bag`` where :meth:`learn` is to follow.

        Raises:
            SettingError: a model that must be trained first; an encoder that is missing or cannot be read.
        """
        return train.untrained(cls, articles, posts, model, encoder, network=network)
