"""The predictor of task ``link``: a post in, the articles it may be about out; or a corpus of posts, to be ranked."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
import polars as pl
from pydantic import Field

from ensue.answers import LinkAnswer, LinkExplanation
from ensue.arguments import require_records
from ensue.data.files import read_stored
from ensue.data.histories import Index, Mask
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.errors import DataError
from ensue.lazy import lazy
from ensue.learning import life
from ensue.learning.life import NO_TRAINING, resize_embeddings, train_update
from ensue.learning.state import Contents
from ensue.lines import plural
from ensue.nn.validation import require_table
from ensue.records import Post
from ensue.store.folder import read_file
from ensue.store.graph import Graph
from ensue.store.pack import NETWORK, read_tensors
from ensue.tasks.link import answers, scores, train
from ensue.tasks.link.article_index import TABLE_NAMES, ArticleIndex
from ensue.tasks.link.encode import require_remembered
from ensue.tasks.link.link_metrics import Calibration
from ensue.tasks.link.onnx_network import OnnxLinker
from ensue.tasks.link.scores import LinkScores, names_of
from ensue.tasks.link.settings import LinkSettings, SbertSettings
from ensue.tasks.link.state import LinkState, RememberedPosts
from ensue.tasks.link.train import training_hashes
from ensue.text.encoder import Encoder, Vectors
from ensue.text.latent import Latent
from ensue.text.lexical import Lexical, require_rising
from ensue.text.terms import Keys
from ensue.text.tokens import Tokenizer
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report

if TYPE_CHECKING:  # needs torch
    from ensue.tasks.link import fit_network
else:
    fit_network = lazy("ensue.tasks.link.fit_network")

Number = Annotated[float, Field(ge=-1e9, le=1e9)]
_COLUMNS = ("bodies", "titles", "ids")


@dataclass(eq=False)
class FittedLinker:
    """Fitted values in a folder of a linker, without its articles and the weights of the network.

    Attributes are those of :class:`~ensue.tasks.link.state.LinkState` and, of its index of articles, of
    :class:`~ensue.tasks.link.article_index.ArticleIndex`.
    """

    tokenizer: Tokenizer
    terms: dict[str, Lexical]
    latent: Latent
    vectors: Vectors
    train_prints: Index
    post_terms: Keys
    linked: tuple[str, ...]
    weights: dict[str, Number]
    null_logit: Number
    prior_strength: Number
    neighbour_weight: Number
    calibration: Calibration | None = None
    remembered: RememberedPosts | None = None

    def __post_init__(self) -> None:
        """Check that the tables are whole.

        Raises:
            ValueError: they are not.
        """
        if {*self.terms} != {*TABLE_NAMES}:
            raise ValueError(f"terms: the kinds are not {', '.join(TABLE_NAMES)}")
        require_table("train_prints", self.train_prints, np.int64, [None])
        require_rising("post_terms", self.post_terms)


_OF_STATE = (
    "tokenizer", "train_prints", "post_terms", "linked", "weights", "null_logit", "prior_strength", "neighbour_weight",
    "calibration", "remembered",
)  # fmt: skip
_OF_INDEX = ("terms", "latent", "vectors")


def _fill_network(state: LinkState, path: Path) -> None:
    tensors = read_tensors(path, NETWORK)
    num_words = len(state.tokenizer.vocabulary)
    require_table("table.weight", tensors["table.weight"], np.float32, [num_words, None])
    dim = tensors["table.weight"].shape[1] - state.network_settings.beside
    if dim < 0:
        raise ValueError("the vectors of words are too short for the settings")
    state.read_network(path, tensors, num_words, dim)


def _articles(path: Path) -> Articles:
    try:
        frame = read_stored(
            path / "articles.parquet", read_file(path, "articles.parquet"), dict.fromkeys(_COLUMNS, pl.String)
        )
    except DataError as error:
        raise ValueError(str(error).removeprefix(f"{path}/")) from error
    return Articles(*(frame[name].rename("") for name in _COLUMNS))


class LinkPredictor(LinkState):
    """Says which articles a post is about, and which posts belong to a story; arguments as of :class:`LinkState`."""

    data_type = Corpus
    fitted = FittedLinker

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
        return fit_network.learn(self, posts)

    def update(self, data: Corpus) -> Report:
        """Learn new articles, and posts about them, on top of what is known, in one pass.

        New articles are welcome without any post; weights and probabilities stay as they are.

        Raises:
            DataError: neither an article nor a link is new.
        """
        self.require_data(data)
        index, _, new = self.article_index.joined(data.articles)
        linked = replace(data, articles=index.articles).linked()
        # An update that changes nothing is a mistake in the data.
        if not new and not len(linked):
            raise DataError(
                "new data: no article is new, and no post is about a known one; there is nothing to train on"
            )
        self.article_index = index
        self.post_index = None
        metadata = self.metadata
        metadata.updates += 1
        self.linked = tuple(sorted({*self.linked, *linked.posts.about}))
        if len(linked):
            self.train_prints = np.union1d(self.train_prints, training_hashes(linked.posts))
            self.post_terms = np.union1d(self.post_terms, index.word_terms(linked.posts.texts))
        metadata.articles = len(index)
        metadata.posts += len(linked)
        metadata.links += len(linked.pairs)
        report = NO_TRAINING
        if self.model is not None:
            if len(linked) and self.schedule is not None:
                linked_articles = linked.articles.select(np.unique(linked.pairs[:, 0]))
                texts = [linked_articles.texts, linked.posts.texts]
                self.tokenizer.add(texts, min_count=self.network_settings.least_count)
                # New words get rows before they are trained.
                resize_embeddings(self, len(self.tokenizer.vocabulary))
                *_, report = train_update(self, fit_network.links(self, linked))
                self.network.eval()
            index.vectors = self.vectors(index.articles.texts)
        return report

    def predict(self, records: Sequence[Post], k: int = 10, *, evidence: bool = True) -> list[LinkAnswer]:
        """The ``k`` likeliest articles of each post; every post is answered alone.

        Args:
            records: posts.
            k: articles a post.
            evidence: whether to find the article's sentence that is closest to the post.

        Raises:
            SettingError: not trained, or ``k`` below 1.
        """
        return answers.predict(self, require_records(records, Post), k, evidence=evidence)

    def explain(self, records: Sequence[Post], k: int = 3) -> list[LinkExplanation]:
        """The drop of the best article's score without each word of the post, and the sentences it matches.

        Raises:
            SettingError: not trained.
        """
        return answers.explain(self, require_records(records, Post), k)

    def vectors_of_items(self) -> tuple[Sequence[str], Vectors]:
        """Return the ids of the articles, and (articles, dim) their unit vectors."""
        if self.model is None:
            raise self.without_vectors("articles", "ast")
        return self.articles.ids.to_list(), np.asarray(self.article_index.vectors, np.float32)

    def vectors_of(self, records: Sequence[Post]) -> tuple[Vectors, Mask]:
        """Return the unit vector of each post, and which posts have a word that the model knows."""
        if self.model is None:
            raise self.without_vectors("posts", "ast")
        vectors = np.asarray(
            self.vectors(pl.Series([post.text for post in require_records(records, Post)], dtype=pl.String)), np.float32
        )
        has_word: Mask = np.any(vectors, axis=1)
        return vectors, has_word

    def scores(self, posts: Posts, name: str | None = None) -> LinkScores:
        """Scores of posts with the articles, a block of posts at a time.

        Args:
            posts: the posts.
            name: a lexical model in place of this one: ``tfidf`` or ``bm25``.

        Raises:
            SettingError: not trained.
        """
        return scores.scores_of(self, posts, name)

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

    def _collect(self) -> FittedLinker:
        """Return the fitted values of a linker."""
        index = self.article_index
        return FittedLinker(
            **{name: getattr(self, name) for name in _OF_STATE}, **{name: getattr(index, name) for name in _OF_INDEX}
        )

    def _restore(self, fitted: FittedLinker, path: Path) -> None:
        """Take the fitted values, the articles and the network of a folder."""
        for name in _OF_STATE:
            setattr(self, name, getattr(fitted, name))
        if isinstance(self.settings, SbertSettings):
            if self.metadata.encoder is None:
                raise ValueError("facts.encoder: is missing")
            self.model = Encoder(self.settings.encoder, self.device)
        if isinstance(self.settings, LinkSettings) and self.metadata.exported is not None:
            self.model = OnnxLinker(Graph.read(path), fitted.vectors.shape[1])
        elif isinstance(self.settings, LinkSettings):
            _fill_network(self, path)
        self.article_index = index = ArticleIndex(_articles(path), fitted.terms, fitted.vectors, fitted.latent)
        if not isinstance(self.model, Encoder):
            width = 0 if self.model is None else self.model.width
            require_table("vectors", index.vectors, np.float32, [len(index), width])
        if not self.weights.keys() <= {*names_of(self)}:
            raise ValueError("weights: belong to another model")
        if self.remembered is not None:
            require_remembered(self, self.remembered)

    def stored_data(self) -> list[str]:
        """Return what the folder stores of the articles and posts that it was trained on."""
        articles = "- every article in full, in `articles.parquet`, and its terms as numbers in `baselines.safetensors`"
        posts = "- a 64-bit fingerprint of each post and of each of its words, no text; of networks, their words too"
        vectors = "- vectors of the posts that `ensue link --folder` ranked last, next to the folder in `NAME.posts`"
        lines = [f"{articles}.", f"{posts}.", f"{vectors}."]
        if num := self.metadata.remembered:
            remembered = f"{plural(num, 'held-out post')} as word ids, with their articles, in"
            lines.append(
                f"- {remembered} `baselines.safetensors`, to test updates on; whoever guesses a word can look for it;"
            )
            lines.append("  `ensue fit --set remembered=0` stores none.")
        return lines

    def _shown(self) -> dict[str, object]:
        """Return the weights of the scores, and the calibration."""
        return {
            "weights": self.weights,
            "nothing": self.null_logit,
            "pull": self.prior_strength,
            "neighbours": self.neighbour_weight,
            "calibration": asdict(self.calibration) if self.calibration else None,
        }

    def _own_files(self) -> Contents:
        """Return the file of the articles."""
        buffer = io.BytesIO()
        pl.DataFrame({name: getattr(self.articles, name) for name in _COLUMNS}).write_parquet(buffer)
        return {"articles.parquet": buffer.getvalue()}
