"""How a linker is trained: articles first, then a network where one is asked for, then weights and probabilities."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ensue.data.corpus import Corpus
from ensue.data.near_copies import plain_words
from ensue.data.posts import Posts
from ensue.errors import DataError, SettingError
from ensue.lines import plural
from ensue.metrics import Floats
from ensue.nn.encoder import Encoder
from ensue.settings import require_encoder, require_file
from ensue.tasks.classify.embedding import learn_words, start_vectors
from ensue.tasks.classify.optimizer import new_optimizer
from ensue.tasks.link import storage
from ensue.tasks.link.hybrid import PULLS, log_shares, mixed, popularity, weigh
from ensue.tasks.link.index import fingerprints
from ensue.tasks.link.keeping import remember
from ensue.tasks.link.measures import at_cut, average_precision, by_row, calibrate
from ensue.tasks.link.network import LEARNED_DIM
from ensue.tasks.link.sbert import SbertSettings
from ensue.tasks.link.scoring import EncodedPosts, Shelf, features
from ensue.tasks.link.task import Links
from ensue.training.loop import Report, train

if TYPE_CHECKING:
    from ensue.tasks.link.predictor import LinkPredictor

SAMPLE = 512
"""Posts by which a trained network is compared with the untrained one."""
EVEN = 0.5
"""The probability of the cut that the facts report."""


def fit(
    predictor: LinkPredictor, data: Corpus, valid: Corpus | None, checkpoint: Path | None, resume: bool
) -> Iterator[Report]:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.fit`."""
    require_file("vectors", getattr(predictor.settings, "vectors", None))
    if isinstance(predictor.settings, SbertSettings):
        require_encoder(predictor.settings.encoder)
    require_links(data, "training data")
    if valid is not None:
        require_links(valid, "validation data")
        part, held, rule = (data.part("train") if "train" in data.parts else data), valid, "as given"
        shelf, _, _ = Shelf.of(data.articles).joined(valid.articles)
    else:
        part, held, rule = data.split(predictor.seed)
        shelf = Shelf.of(data.articles)
    part, held = _linked(part, shelf, "training data"), _linked(held, shelf, "validation data")
    predictor.shelf, predictor.facts = shelf, _facts(part, held, rule)
    predictor.linked = tuple(part.posts.about.unique().sort())
    predictor.train_prints = torch.from_numpy(np.unique(prints(part.posts)))
    predictor.pull, predictor.weights, predictor.calibration, predictor.index = 0.0, {}, None, None
    if predictor.schedule is not None:
        yield from _train(predictor, part, held, checkpoint, resume)
    elif isinstance(predictor.settings, SbertSettings):
        use_encoder(predictor)
    if predictor.model_name == "best":
        _weigh(predictor, held)
    _calibrate(predictor, held)
    predictor.remembered = remember(predictor, held, predictor.shared.remembered)
    predictor.facts["remembered"] = 0 if predictor.remembered is None else predictor.remembered.num


def use_encoder(predictor: LinkPredictor) -> None:
    """Give the articles vectors of the encoder that the settings name.

    Raises:
        SettingError: the package is missing, or the model cannot be read.
    """
    predictor.model = Encoder(predictor.settings.encoder, predictor.device)
    predictor.facts["encoder"] = predictor.model.probe()
    predictor.known.vectors = predictor.vectors(predictor.articles.texts)


def require_links(data: Corpus, where: str) -> None:
    """Refuse data without two articles, or without a post about one of them.

    Raises:
        DataError: naming what to do.
    """
    if len(data.articles) < 2:
        raise DataError(f"{where}: there is one article, so there is nothing to choose from; give at least two")
    if not len(data.posts.about):
        raise DataError(f"{where}: no post is about an article; name their column with --columns about=…")
    if not len(data.pairs):
        name = data.posts.about[0]
        raise DataError(
            f"{where}: no post is about an article that is there; the first names {name!r}, the first article is "
            f"{data.articles.ids[0]!r}: name the columns of ids with --columns about=…,article_id=…"
        )


def prints(posts: Posts) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(posts,) fingerprints of the texts, case, links, mentions and marks aside."""
    return fingerprints(plain_words(posts.texts)).view(np.int64)


def _linked(data: Corpus, shelf: Shelf, where: str) -> Corpus:
    """The posts about an article of the shelf, whose articles are the shelf's."""
    found = replace(data, articles=shelf.articles).linked()
    if not len(found):
        raise DataError(f"{where}: no post is about an article that is there; give posts with links")
    return found


def _facts(part: Corpus, held: Corpus, rule: str) -> dict[str, object]:
    return {
        "articles": len(part.articles),
        "posts": len(part),
        "links": len(part.pairs),
        "held_out": rule,
        "validation_posts": len(held),
        "notes": [],
    }


def _train(
    predictor: LinkPredictor, part: Corpus, held: Corpus, checkpoint: Path | None, resume: bool
) -> Generator[Report, None, None]:
    """Train the network from its beginning; it ends with its best weights, and the articles have vectors.

    The losses over cosines have a ceiling, so that no loss tells of weights that went astray: ranks do.
    """
    schedule, own, shelf = predictor.schedule, predictor.settings, predictor.known
    assert schedule is not None
    predictor.tokenizer = learn_words(
        [shelf.articles.texts, part.posts.texts],
        lower=own.lower, min_count=own.min_count, vectors=own.vectors, extra_words=own.extra_words,
    )  # fmt: skip
    torch.manual_seed(predictor.seed)
    words = predictor.tokenizer.vocabulary
    given = start_vectors(own.vectors, words.values, own.dim) if own.vectors is not None else None
    dim = given[1].shape[1] if given is not None else own.dim or LEARNED_DIM
    network = predictor.new_network(len(words), dim)
    if given is not None:
        network.place(*given, tuned=own.tuned)
        predictor.facts["known_vectors"] = len(given[0])
    predictor.model, predictor.optimizer = network, new_optimizer(network, schedule)
    data = links(predictor, part)
    learned = part.select(np.arange(min(len(part), SAMPLE)))
    before = _validate(predictor, learned)
    trained = yield from train(
        network,
        data,
        lambda: _validate(predictor, held),
        schedule,
        optimizer=predictor.optimizer,
        seed=predictor.seed,
        checkpoint=checkpoint,
        resume=resume,
        fingerprint=storage.fingerprint(predictor, data),
    )
    if (found := _validate(predictor, learned)) < before / 2:
        raise SettingError(
            f"training made the model worse: the MRR of posts that it learned fell from {before:.3f} to {found:.3f}; "
            f"learning_rate is {schedule.learning_rate:g}, try a smaller one"
        )
    network.eval()
    shelf.vectors = predictor.vectors(shelf.articles.texts)
    predictor.facts |= {"epochs": trained.best_epoch, "words": len(words)}
    predictor.seconds_an_epoch = trained.seconds_an_epoch


def links(predictor: LinkPredictor, data: Corpus) -> Links:
    """A corpus as training data of the network; what a cap cuts is noted."""
    cap, notes = predictor.settings.max_words, predictor.facts["notes"]
    sides = tuple(predictor.tokenizer.encode(texts, max_words=cap) for texts in (data.articles.texts, data.posts.texts))
    if cut := sum(tokens.cut_words for tokens in sides):
        texts = plural(sum(tokens.cut_texts for tokens in sides), "text")
        notes.append(f"the cap of {plural(cap or 0, 'word')} cut {plural(cut, 'word')} of {texts}")
    found = Links(sides[0], sides[1], data.pairs)
    if found.skipped:
        notes.append(f"{plural(found.skipped, 'link')} left out: a text of theirs has no word")
    return found


def _validate(predictor: LinkPredictor, held: Corpus) -> float:
    """MRR of the true article among all, for the posts that are held out."""
    articles = predictor.vectors(predictor.articles.texts)
    scores = (predictor.vectors(held.posts.texts) @ articles.T).numpy()
    predictor.model.train()
    return float(by_row(scores, held.related)[:, 0].mean())


def _weigh(predictor: LinkPredictor, held: Corpus) -> None:
    """Let held-out posts choose the weights, the number of none, and how much posts of one corpus pull together."""
    posts = EncodedPosts.of(predictor, held.posts, predictor.model_name)
    scores, related = features(predictor, posts), held.related
    predictor.weights, predictor.nothing = weigh(scores, related)
    sums = mixed(scores.items(), predictor.weights)
    if not predictor.shared.together:
        return
    tried = {}
    for pull in PULLS:
        discussed = popularity(sums, pull, predictor.nothing)
        tried[pull] = _worth(log_shares(sums, discussed, predictor.nothing), related)
    predictor.pull = max(PULLS, key=lambda pull: (tried[pull], -pull))


def _worth(scores: Floats, related: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> float:
    """The sum of MRR, recall@10 and pooled average precision, over the articles that posts are about."""
    asked = related.any(0)
    return float(by_row(scores, related)[:, :2].mean(0).sum()) + average_precision(scores[:, asked], related[:, asked])


def _calibrate(predictor: LinkPredictor, held: Corpus) -> None:
    """Turn scores into probabilities by held-out posts, and note what a cut at one half gives there."""
    scores, related = predictor.scores(held.posts).whole(), held.related
    predictor.calibration = calibrate(scores, related)
    found = at_cut(scores, related, predictor.calibration.cut(EVEN))
    predictor.facts["validation"] = {
        "mrr": float(by_row(scores, related)[:, 0].mean()),
        "precision": found.precision,
        "precision_interval": list(found.precision_interval),
        "recall": found.recall,
        "recall_interval": list(found.recall_interval),
    }


def part_of(data: Corpus, wanted: str) -> tuple[Corpus, str]:
    """Of a file with several parts the wanted one, and a word on it."""
    if wanted in data.parts and len(data.parts) > 1:
        return data.part(wanted), f"; the part {wanted} of the file"
    return data, ""
