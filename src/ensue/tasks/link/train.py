"""Training of a linker: articles first, then a network if one is set, then weights and calibration."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import torch

from ensue.data.near_copies import plain_words
from ensue.data.posts.corpus import Corpus, require_links
from ensue.data.posts.dataset import Articles, Posts
from ensue.errors import DataError, SettingError
from ensue.learning.life import Example, Split, of_texts, train_network
from ensue.learning.state import module_of
from ensue.lines import plural
from ensue.settings import require_encoder, require_file
from ensue.tasks.classify.embedding import learn_words, start_vectors
from ensue.tasks.link.article_index import ArticleIndex
from ensue.tasks.link.catalogue import WITHOUT_TRAINING
from ensue.tasks.link.dataset import Links
from ensue.tasks.link.encode import encode_posts, encoded, vectors_of
from ensue.tasks.link.folds import FOLDS
from ensue.tasks.link.held_out import choose_weights, learn_probabilities, most, remember, sample
from ensue.tasks.link.link_metrics import by_row
from ensue.tasks.link.metadata import Metadata
from ensue.tasks.link.models.network import LEARNED_DIM, Linker
from ensue.tasks.link.pretrain import pretrain
from ensue.tasks.link.scores import LEARNED, mean_cosine
from ensue.tasks.link.settings import LinkSettings, SbertSettings
from ensue.tasks.link.state import LinkState, LinkStateT
from ensue.tasks.link.vector_index import text_hashes
from ensue.text.encoder import Encoder
from ensue.training.checkpoint import NO_CHECKPOINT, Checkpoint
from ensue.training.report import Report

SAMPLE = 512
"""Posts by which a trained network is compared with the untrained one."""
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
"""Grid of the encoder's initial weight in the cosine."""
READ = 20_000
"""Posts at most that a network learns from without their labels, beside the articles."""


def split(state: LinkState, data: Corpus, valid: Corpus | None) -> Split[Corpus]:
    """Return the file's own parts, or hold out a tenth of the posts, and index the articles of all."""
    if isinstance(state.settings, LinkSettings):
        require_file("vectors", state.settings.vectors)
    if isinstance(state.settings, SbertSettings):
        require_encoder(state.settings.encoder)
    require_links(data, "training data")
    index = ArticleIndex.of(data.articles)
    if valid is not None:
        require_links(valid, "validation data")
        train, held_out, rule = (data.part("train") if "train" in data.parts else data), valid, "as given"
        index, _, _ = index.joined(valid.articles)
    else:
        train, held_out, rule = data.split(state.seed)
    train, held_out = _linked(train, index, "training data"), _linked(held_out, index, "validation data")
    posts = _both(train.posts, held_out.posts)
    if valid is None and not {"train", "valid"} <= data.parts:
        posts = replace(posts, parts=None)
    state.article_index = index
    return Split(train, held_out, replace(train, posts=posts), rule)


def train(state: LinkState, split: Split[Corpus], checkpoint: Checkpoint) -> Generator[Report, None, Split[Corpus]]:
    """Train a network if one is set, then fit weights and probabilities to labelled posts.

    Where a network was trained on the training posts, only held-out ones are used, unless the network is left out.
    """
    assert split.valid is not None and split.full is not None
    state.metadata = Metadata(articles=len(state.article_index), posts=0, links=0)
    state.prior_strength, state.neighbour_weight, state.weights = 0.0, 0.0, {}
    state.calibration, state.post_index = None, None
    if state.schedule is not None:
        yield from _train(state, split.train, split.valid, checkpoint)
    elif isinstance(state.settings, SbertSettings):
        _use_encoder(state)
    elif isinstance(state.settings, LinkSettings):
        yield from _of_texts(state, _read_first(state, split.train), checkpoint)
    has_network = state.schedule is not None
    held_out = replace(split.valid, posts=replace(split.valid.posts, parts=None))  # its own parts are one part here
    labelled, scores = sample(state, held_out if has_network else split.full), None
    spared = has_network and state.model_name == "best" and len(split.full) <= most(state)
    if state.model_name == "best":
        labelled, scores = choose_weights(state, labelled, split.full if spared else None)
    learn_probabilities(state, labelled, scores)
    state.metadata.validation_posts = len(labelled)
    return split if not has_network or (spared and LEARNED not in state.weights) else replace(split, full=None)


def refit(state: LinkState, full: Corpus, checkpoint: Checkpoint) -> Iterator[Report]:
    """Note that weights and probabilities were fitted to all labelled posts, in folds."""
    posts = plural(state.metadata.validation_posts, "post")
    state.metadata.held_out = f"{FOLDS} folds of {posts}, each scored by a model trained on the others"
    return iter(())


def finish(state: LinkState, split: Split[Corpus]) -> None:
    """Note what was trained on, and store held-out posts for the tests of updates."""
    data = split.train if split.full is None else split.full
    state.metadata.posts, state.metadata.links = len(data), len(data.pairs)
    state.linked = tuple(data.posts.about.unique().sort())
    state.train_prints = torch.from_numpy(np.unique(training_hashes(data.posts)))
    state.post_terms = state.article_index.word_terms(data.posts.texts)
    assert split.valid is not None
    state.remembered = remember(state, split.valid, state.shared.remembered)
    state.metadata.remembered = 0 if state.remembered is None else state.remembered.num


def example(state: LinkState, valid: Corpus, index: int) -> Example | None:
    """Return a held-out post with its articles for the page."""
    if not state.shared.remembered:
        return None
    post = valid.posts.record(index)
    return of_texts({"text": post.text}, [post.text], post.about)


def _both(first: Posts, second: Posts) -> Posts:
    """The posts of both as the parts train and valid, without the file they were read from."""
    offsets = np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]])
    texts, ids, links = (pl.concat([getattr(first, name), getattr(second, name)]) for name in ("texts", "ids", "about"))
    return Posts(texts, ids, links, offsets, pl.Series(["train"] * len(first) + ["valid"] * len(second)))


def untrained(
    make: Callable[..., LinkStateT], articles: Articles, posts: Posts, model: str, encoder: str, *, network: str = ""
) -> LinkStateT:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.untrained`."""
    if model not in WITHOUT_TRAINING:
        raise SettingError(
            f"model {model!r} must be trained first: `ensue fit link POSTS --articles ARTICLES --model {model} -o "
            f"FOLDER`, then --folder FOLDER; without training there are {', '.join(WITHOUT_TRAINING)}"
        )
    if encoder and model not in ("best", "sbert"):
        raise SettingError(f"model {model} uses no encoder; remove it, or use best or sbert")
    state = make(model, settings={name: value for name, value in (("encoder", encoder), ("network", network)) if value})
    state.article_index = ArticleIndex.of(articles)
    state.article_index.observe(posts.texts)
    if encoder:
        _use_encoder(state)
    return state


def _use_encoder(state: LinkState) -> None:
    """Give the articles vectors of the encoder that the settings name.

    Raises:
        SettingError: the package is missing, or the model cannot be read.
    """
    assert isinstance(state.settings, SbertSettings)
    state.model = Encoder(state.settings.encoder, state.device)
    state.metadata.encoder = state.model.probe()
    state.article_index.vectors = vectors_of(state, state.articles.texts)


def training_hashes(posts: Posts) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(posts,) hashes of the texts, case, links, mentions and marks aside."""
    return text_hashes(plain_words(posts.texts)).view(np.int64)


def _linked(data: Corpus, index: ArticleIndex, where: str) -> Corpus:
    """The posts about an article of the index, with its articles."""
    linked = replace(data, articles=index.articles).linked()
    if not len(linked):
        raise DataError(f"{where}: no post is about a given article; give posts with links")
    return linked


def _read_first(state: LinkState, part: Corpus) -> Articles:
    """The articles whose words are learned, and that a network is pretrained on."""
    if state.network_settings.pretrain != "inductive":
        return state.articles
    return state.articles.select(np.unique(part.pairs[:, 0]))


def learn(state: LinkState, posts: Posts) -> Iterator[Report]:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.learn`."""
    random, articles = np.random.default_rng(state.seed), state.articles
    sample = np.sort(random.permutation(len(posts))[:READ])
    texts = posts.texts.gather(sample)
    yield from _of_texts(state, Articles(*(pl.concat(pair) for pair in (
        (articles.bodies, texts), (articles.titles, pl.repeat("", len(texts), eager=True)), (articles.ids, texts)
    ))), NO_CHECKPOINT)  # fmt: skip
    encoded_sample = encode_posts(state, posts.select(sample[:SAMPLE]), "best")
    lexical, cosines = mean_cosine(state, encoded_sample), encoded_sample.cosines(state.article_index.vectors)
    state.learned_scale = float(lexical.std() / max(cosines.std(), 1e-9)) if lexical.size else 0.0


def _of_texts(state: LinkState, texts: Articles, checkpoint: Checkpoint) -> Generator[Report, None, None]:
    """Train a network of texts alone, and give the articles vectors."""
    settings = state.network_settings
    state.tokenizer = learn_words(
        [texts.texts], lower=settings.lower, min_count=settings.least_count, vectors=None, extra_words=0
    )
    torch.manual_seed(state.seed)
    state.model = state.new_network(len(state.tokenizer.vocabulary), 0)
    yield from pretrain(state, texts, checkpoint)
    state.network.eval()
    state.metadata.words = len(state.tokenizer.vocabulary)
    state.article_index.vectors = vectors_of(state, state.articles.texts)


def _train(state: LinkState, part: Corpus, held: Corpus, checkpoint: Checkpoint) -> Generator[Report, None, None]:
    """Train the network from its beginning; it ends with its best weights, and the articles have vectors.

    The losses over cosines have a ceiling, so that no loss tells of weights that went astray: ranks do.
    """
    schedule, settings, index = state.schedule, state.network_settings, state.article_index
    assert schedule is not None
    articles = _read_first(state, part)
    state.tokenizer = learn_words(
        [articles.texts, part.posts.texts],
        lower=settings.lower, min_count=settings.least_count, vectors=settings.vectors,
        extra_words=settings.extra_words,
    )  # fmt: skip
    torch.manual_seed(state.seed)
    words = state.tokenizer.vocabulary
    start = start_vectors(settings.vectors, words.values, settings.dim) if settings.vectors is not None else None
    dim = start[1].shape[1] if start is not None else settings.dim or LEARNED_DIM
    network = state.new_network(len(words), dim)
    if start is not None:
        network.place(*start, tuned=settings.tuned)
        state.metadata.known_vectors = len(start[0])
    state.model = network
    yield from pretrain(state, articles, checkpoint)
    state.optimizer = state.new_optimizer()
    data = links(state, part)
    fitted = schedule.fitted(len(data), len(data))
    if fitted != schedule:
        num_links = plural(len(data), "link")
        state.metadata.notes.append(f"{num_links}: {fitted.batch_size} per batch and at most {fitted.epochs} epochs")
    sample = part.select(np.arange(min(len(part), SAMPLE)))
    _start_share(state, sample)
    sample_mrr = _validate(state, sample)
    # Without a bag there is no pretraining to go back to.
    pretrained_mrr = _validate(state, held) if settings.bag else -1.0
    pretrained = {name: tensor.clone() for name, tensor in state.network.state_dict().items()} if settings.bag else {}
    columns = (data.pairs, data.articles.ids, data.articles.texts, data.posts.ids, data.posts.texts)
    yield from train_network(state, data, lambda: _validate(state, held), fitted, arrays=columns, checkpoint=checkpoint)
    if (trained_mrr := _validate(state, sample)) < sample_mrr / 2:
        raise SettingError(
            f"training made the model worse: the MRR of training posts fell from {sample_mrr:.3f} to "
            f"{trained_mrr:.3f}; learning_rate is {schedule.learning_rate:g}, try a smaller one"
        )
    if _validate(state, held) <= pretrained_mrr:
        state.network.load_state_dict(pretrained)
        state.metadata.notes.append("the trained part is left out: it does not improve the ranking of held-out posts")
        state.metadata.epochs = 0
    network.eval()
    index.vectors = vectors_of(state, index.articles.texts)
    state.metadata.words = len(words)


@torch.no_grad()
def _start_share(state: LinkState, sample: Corpus) -> None:
    """Set the share of the encoder next to the bag that ranks training posts best; ties go to the bag."""
    network = module_of(state.network)
    assert isinstance(network, Linker)
    if not network.settings.bag or not network.encoder.width:
        return
    width = network.encoder.width
    network.share.zero_()  # both count alike
    articles, posts = (vectors_of(state, texts) for texts in (state.articles.texts, sample.posts.texts))
    encoder, bag = (
        (posts[:, columns] @ articles[:, columns].T).numpy() for columns in (slice(width), slice(width, None))
    )

    def mrr(share: float) -> float:
        return float(by_row(share * encoder + (1 - share) * bag, sample.related)[:, 0].mean())

    network.share.fill_(torch.tensor(max(SHARES, key=mrr)).logit())


def links(state: LinkState, data: Corpus) -> Links:
    """A corpus as training data of the network; what a cap cuts is noted."""
    cap, notes = state.network_settings.max_words, state.metadata.notes
    sides = tuple(encoded(state, texts) for texts in (data.articles.texts, data.posts.texts))
    if cut := sum(tokens.cut_words for tokens in sides):
        texts = plural(sum(tokens.cut_texts for tokens in sides), "text")
        notes.append(f"the limit of {plural(cap or 0, 'word')} removed {plural(cut, 'word')} from {texts}")
    training_data = Links(sides[0], sides[1], data.pairs)
    if training_data.skipped:
        notes.append(f"{plural(training_data.skipped, 'link')} left out: a text without words")
    return training_data


def _validate(state: LinkState, held: Corpus) -> float:
    """MRR of the true article among all, for the posts that are held out."""
    articles = vectors_of(state, state.articles.texts)
    scores = (vectors_of(state, held.posts.texts) @ articles.T).numpy()
    state.network.train()
    return float(by_row(scores, held.related)[:, 0].mean())


def part_of(data: Corpus, name: str) -> tuple[Corpus, str]:
    """Return the named part of a file with several parts, and a note on it."""
    if name in data.parts and len(data.parts) > 1:
        return data.part(name), f"; the part {name} of the file"
    return data, ""
