"""The predictor of task ``link``: a post in, the articles it may be about out; or a corpus of posts, to be ranked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ensue.answers import LinkAnswer
from ensue.data.corpus import Corpus
from ensue.data.posts import Articles, Posts
from ensue.data.tokens import Tokenizer, Tokens
from ensue.errors import SettingError
from ensue.metrics import Floats
from ensue.nn.device import find_device, room_for
from ensue.nn.encoder import Encoder
from ensue.records import Post
from ensue.schedule import require_fixed
from ensue.settings import changed, require_k, require_seed
from ensue.store.folder import read_model, write_folder
from ensue.tasks.link import MODELS, SHARED, WITHOUT_TRAINING, explaining, fitting, storage, updating
from ensue.tasks.link.explaining import LinkExplanation
from ensue.tasks.link.index import VectorIndex
from ensue.tasks.link.keeping import Remembered
from ensue.tasks.link.measures import Calibration
from ensue.tasks.link.network import Linker, LinkSettings
from ensue.tasks.link.sbert import SbertSettings, unit_vectors
from ensue.tasks.link.scoring import EncodedPosts, LinkScores, Shelf
from ensue.tasks.link.task import encode_texts
from ensue.training.loop import Report
from ensue.training.optimizer import LateOptimizer


class LinkPredictor:
    """Says which articles a post is about, and which posts belong to a story.

    Args:
        model: a name in ``MODELS``; ``best`` weighs lexical scores and, where ``learned`` names a network, its cosine.
        settings: settings of the model, of its schedule and of ``SHARED`` to change, by name.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: where a network runs; a GPU is used when there is one.

    Raises:
        SettingError: an unknown model or setting.
    """

    task = "link"
    optimizer = LateOptimizer()

    def __init__(
        self,
        model: str = "best",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        if model not in MODELS:
            raise SettingError(f"model {model!r} is not known for task link; choose from {', '.join(MODELS)}")
        given, (_, own, schedule) = dict(settings or {}), MODELS[model]
        self.model_name = model
        if model == "best" and given.get("encoder") and not given.get("learned"):
            given["learned"] = "sbert"
        learned = str(given.get("learned", "")) if model == "best" else ""
        if learned:
            _, own, schedule = _network(learned)
        self.settings, self.schedule, self.shared = changed(given, own, schedule, SHARED)
        if model != "best" and self.shared.learned:
            raise SettingError(f"learned is {self.shared.learned!r}; only model best weighs a learned score")
        if isinstance(own, LinkSettings) and given.get("encoder", own.encoder) != own.encoder:
            raise SettingError(f"encoder is {given['encoder']!r}; name the model {given['encoder']} instead")
        if isinstance(self.settings, SbertSettings) and not self.settings.encoder.strip():
            raise SettingError(
                "sbert needs an encoder: --set encoder=NAME (of `ensue link`, --encoder NAME), a folder or a name that "
                "sentence-transformers knows"
            )
        require_fixed(self.schedule, "link", "mrr")
        self.seed, self.device = require_seed(seed), find_device(device)
        self.shelf: Shelf | None = None
        self.tokenizer, self.model = Tokenizer(), None
        self.optimizer = None
        self.weights: dict[str, float] = {}
        self.pull = self.nothing = 0.0
        self.calibration: Calibration | None = None
        self.facts: dict[str, Any] = {}
        self.linked: tuple[str, ...] = ()
        self.train_prints = torch.zeros(0, dtype=torch.int64)
        self.remembered: Remembered | None = None
        self.seconds_an_epoch: float | None = None
        self.index: VectorIndex | None = None

    model: Any

    @property
    def known(self) -> Shelf:
        """The articles that posts are compared with.

        Raises:
            SettingError: nothing was trained or loaded yet.
        """
        if self.shelf is None:
            raise SettingError("this predictor is not trained yet: loop over fit(data), or load a folder")
        return self.shelf

    @property
    def articles(self) -> Articles:
        """The known articles, in the order of the columns of :meth:`scores`."""
        return self.known.articles

    def fit(
        self, data: Corpus, valid: Corpus | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Learn, yielding a report a step; the predictor can be used once the loop is over.

        All articles of the data become known, whether a post is about them or not. Without ``valid`` the file's own
        parts are used, or a tenth of the posts, with all posts about the same articles, is held out: it stops the
        training, weighs the scores and turns them into probabilities.

        Args:
            data: articles and posts; of a file with parts, the posts of ``train`` are learned.
            valid: what is held out, in place of a part of the data; its articles become known too.
            checkpoint: a file that lets a killed run continue.
            resume: continue from there.

        Raises:
            DataError: no post is about an article, or there is only one article.
            SettingError: the loss is no longer a number, or another run's checkpoint.
        """
        return fitting.fit(self, data, valid, checkpoint, resume)

    def update(self, data: Corpus) -> Report:
        """Learn new articles, and posts about them, on top of what is known, in one pass.

        New articles are welcome without any post; weights and probabilities stay as they are.

        Raises:
            DataError: neither an article nor a link is new.
        """
        return updating.update(self, data)

    def predict(self, records: Sequence[Post], k: int = 10, *, evidence: bool = True) -> list[LinkAnswer]:
        """The ``k`` likeliest articles of each post; every post is answered alone.

        Args:
            records: posts.
            k: articles a post.
            evidence: whether to find the article's sentence that is closest to the post.

        Raises:
            SettingError: not trained, or ``k`` below 1.
        """
        require_k(k)
        self.known  # noqa: B018 trained?
        return explaining.answers_of(self, records, k, evidence=evidence) if len(records) else []

    def explain(self, records: Sequence[Post], k: int = 3) -> list[LinkExplanation]:
        """What the best article's probability loses without each word of the post, and the sentences it matches.

        Raises:
            SettingError: not trained.
        """
        return [explaining.explanation(self, *pair) for pair in zip(records, self.predict(records, k), strict=True)]

    def scores(self, posts: Posts, name: str | None = None) -> LinkScores:
        """Scores of posts with the known articles, a block of posts at a time.

        Args:
            posts: the posts.
            name: a lexical model in place of this one: ``tfidf`` or ``bm25``.

        Raises:
            SettingError: not trained.
        """
        self.known  # noqa: B018 trained?
        model = name or self.model_name
        return LinkScores(self, len(posts), lambda chosen: EncodedPosts.of(self, posts.select(chosen), model), model)

    def joined(self, articles: Articles) -> tuple[LinkPredictor, list[int]]:
        """A copy that knows more articles, and where the asked ones stand among its columns.

        The original stays as it is. An article that is known with the same text is not added again.

        Raises:
            SettingError: not trained.
        """
        shelf, places, new = self.known.joined(articles)
        made = object.__new__(type(self))
        made.__dict__ = {**self.__dict__, "shelf": shelf}
        if self.model is not None and len(new):
            shelf.vectors = torch.cat([self.known.vectors, self.vectors(articles.select(np.array(new)).texts)])
        return made, places

    def probabilities(self, scores: Floats) -> Floats | None:
        """P(relevant) of scores, or ``None`` where nothing was labelled to learn it from."""
        return None if self.calibration is None else self.calibration.probabilities(scores)

    def vectors(self, texts: pl.Series) -> Tensor:
        """(texts, width) unit vectors of the network on the CPU; 0 for texts without a word.

        Raises:
            SettingError: there is no network; a sentence encoder is missing, or not the one that was learned with.
        """
        if self.model is None:
            raise SettingError(f"model {self.model_name} has no network, so it makes no vectors")
        if isinstance(self.model, Encoder):
            self.model.require(self.facts["encoder"])
            return unit_vectors(self.model, texts)
        return self.vectors_of(self.tokenizer.encode(texts, max_words=self.settings.max_words))

    def vectors_of(self, tokens: Tokens) -> Tensor:
        """(texts, width) unit vectors of the network on the CPU, of texts as ids of words."""
        parts = [found for _, found in encode_texts(self.model.eval(), tokens)]
        return torch.cat(parts) if parts else torch.zeros(0, self.model.width)

    def new_network(self, num_words: int, dim: int) -> Linker:
        """An untrained network on this predictor's device."""
        with room_for(self.settings.encoder):
            return Linker(self.settings, num_words, dim).to(self.device)

    def summary(self) -> dict[str, Any]:
        """What was learned from what, and how: goes into ``settings.json`` and the card."""
        own = asdict(self.settings) if self.settings is not None else {}
        return {
            "task": self.task,
            "model": self.model_name,
            "settings": {**own, **asdict(self.shared)},
            "schedule": asdict(self.schedule) if self.schedule else None,
            "seed": self.seed,
            "facts": {
                **self.facts,
                "weights": self.weights,
                "nothing": self.nothing,
                "pull": self.pull,
                "calibration": asdict(self.calibration) if self.calibration else None,
            },
        }

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the model folder at once; an older model there is replaced whole.

        Args:
            folder: where.
            card: the text of ``CARD.md``.

        Raises:
            ModelFolderError: not writable, full, or taken by something that is no model.
            SettingError: not trained.
        """
        self.known  # noqa: B018 trained?
        write_folder(Path(folder), storage.files(self, card))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a folder written by :meth:`save`.

        Raises:
            ModelFolderError: it is half, foreign, damaged, or of a newer ensue.
        """
        return read_model(Path(folder), partial(cls, device=device), storage.fill)


def untrained(articles: Articles, posts: Posts, model: str = "best", encoder: str = "") -> LinkPredictor:
    """A predictor that works at once: lexical scores, how rare a word is taken from the posts too, no probabilities.

    Args:
        articles: the articles.
        posts: the posts.
        model: a name in ``WITHOUT_TRAINING``.
        encoder: of best and sbert: name or folder of an installed sentence-transformers model, whose cosine best gives
            half of the weight.

    Raises:
        SettingError: a model that must be trained first; an encoder that is missing or cannot be read.
    """
    if model not in WITHOUT_TRAINING:
        raise SettingError(
            f"model {model!r} must be trained first: `ensue fit link POSTS --articles ARTICLES --model {model} -o "
            f"FOLDER`, then --folder FOLDER; without training there are {', '.join(WITHOUT_TRAINING)}"
        )
    if encoder and model not in ("best", "sbert"):
        raise SettingError(f"model {model} asks no encoder; leave it out, or take best or sbert")
    made = LinkPredictor(model, settings={"encoder": encoder} if encoder else None)
    made.shelf = Shelf.of(articles)
    made.shelf.observe(posts.texts)
    if encoder:
        fitting.use_encoder(made)
    return made


def _network(name: str) -> tuple[Any, LinkSettings | SbertSettings, Any]:
    networks = [own for own, (module, _, _) in MODELS.items() if module is not None]
    if name not in networks:
        raise SettingError(f"learned is {name!r}; choose from {', '.join(networks)}, or leave it out")
    module, own, schedule = MODELS[name]
    assert own is not None
    return module, replace(own), schedule
