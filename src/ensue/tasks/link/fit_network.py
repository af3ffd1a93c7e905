"""Training of the network of a linker, on articles and posts or on texts alone; this module needs torch."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import polars as pl
import torch

from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.errors import SettingError
from ensue.learning.life import train_network
from ensue.learning.state import module_of
from ensue.lines import plural
from ensue.tasks.link.batches import Links
from ensue.tasks.link.encode import encode_posts
from ensue.tasks.link.ensembles.selection import UNTRAINED
from ensue.tasks.link.link_metrics import by_row
from ensue.tasks.link.models.network import LEARNED_DIM, Linker
from ensue.tasks.link.pretrain import pretrain
from ensue.tasks.link.scores import raw_scores
from ensue.tasks.link.state import LinkState
from ensue.text.vectors import fit_tokenizer, initial_vectors
from ensue.training.checkpoint import NO_CHECKPOINT, Checkpoint
from ensue.training.report import Report

SAMPLE = 512
"""Number of posts by which a trained network is compared with the untrained one."""
ENCODER_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
"""Grid of the encoder's initial weight in the cosine."""
MAX_UNLABELLED = 20_000
"""Maximum number of posts that a network is trained on without their labels, next to the articles."""


def articles_to_read(state: LinkState, train: Corpus) -> Articles:
    """Return the articles whose words enter the vocabulary, and that a network is pretrained on."""
    if state.network_settings.pretrain != "inductive":
        return state.articles
    return state.articles.select(np.unique(train.pairs[:, 0]))


def learn(state: LinkState, posts: Posts) -> Iterator[Report]:
    """See :meth:`ensue.tasks.link.predictor.LinkPredictor.learn`."""
    random = np.random.default_rng(state.seed)
    articles = state.articles
    rows = np.sort(random.permutation(len(posts))[:MAX_UNLABELLED])
    texts = posts.texts.gather(rows)
    # Posts are read as articles without a title.
    no_titles = pl.repeat("", len(texts), eager=True)
    columns = ((articles.bodies, texts), (articles.titles, no_titles), (articles.ids, texts))
    yield from fit_texts(state, Articles(*map(pl.concat, columns)), NO_CHECKPOINT)
    encoded = encode_posts(state, posts.select(rows[:SAMPLE]), "best")
    lexical = raw_scores(state, encoded, [UNTRAINED])[UNTRAINED]
    cosines = encoded.cosines(state.article_index.vectors)
    state.learned_scale = float(lexical.std() / max(cosines.std(), 1e-9)) if lexical.size else 0.0


def fit_texts(state: LinkState, texts: Articles, checkpoint: Checkpoint) -> Generator[Report, None, None]:
    """Train a network on texts alone, and give the articles vectors."""
    settings = state.network_settings
    state.tokenizer = fit_tokenizer(
        [texts.texts], lower=settings.lower, min_count=settings.least_count, vectors=None, extra_words=0
    )
    torch.manual_seed(state.seed)
    state.model = state.new_network(len(state.tokenizer.vocabulary), 0)
    yield from pretrain(state, texts, checkpoint)
    state.network.eval()
    state.metadata.words = len(state.tokenizer.vocabulary)
    state.article_index.vectors = state.vectors(state.articles.texts)


def fit(state: LinkState, train: Corpus, valid: Corpus, checkpoint: Checkpoint) -> Generator[Report, None, None]:
    """Train the network from scratch; it ends with its best weights, and the articles have vectors.

    The losses over cosines have a ceiling, so a loss does not show weights that diverged; ranks do.

    Args:
        state: with an index of all articles.
        train: training posts.
        valid: held-out posts.
        checkpoint: a file from which a killed run continues.
    """
    schedule = state.schedule
    settings = state.network_settings
    assert schedule is not None
    articles = articles_to_read(state, train)
    state.tokenizer = fit_tokenizer(
        [articles.texts, train.posts.texts],
        lower=settings.lower,
        min_count=settings.least_count,
        vectors=settings.vectors,
        extra_words=settings.extra_words,
    )
    torch.manual_seed(state.seed)
    state.model = network = _new_network(state)
    yield from pretrain(state, articles, checkpoint)
    state.optimizer = state.new_optimizer()
    data = links(state, train)
    fitted = schedule.fitted(len(data), len(data))
    if fitted != schedule:
        num_links = plural(len(data), "link")
        state.metadata.notes.append(f"{num_links}: {fitted.batch_size} per batch and at most {fitted.epochs} epochs")
    sample = train.select(np.arange(min(len(train), SAMPLE)))
    _choose_share(state, sample)
    sample_mrr = _validate(state, sample)
    # Without a bag there are no pretrained weights to return to.
    pretrained_mrr = _validate(state, valid) if settings.bag else -1.0
    # The optimizer changes weights in place, so they are copied.
    pretrained = {name: tensor.clone() for name, tensor in state.network.state_dict().items()} if settings.bag else {}
    columns = (data.pairs, data.articles.ids, data.articles.texts, data.posts.ids, data.posts.texts)
    yield from train_network(
        state, data, lambda: _validate(state, valid), fitted, arrays=columns, checkpoint=checkpoint
    )
    if (trained_mrr := _validate(state, sample)) < sample_mrr / 2:
        raise SettingError(
            f"training made the model worse: the MRR of training posts fell from {sample_mrr:.3f} to "
            f"{trained_mrr:.3f}; learning_rate is {schedule.learning_rate:g}, try a smaller one"
        )
    if _validate(state, valid) <= pretrained_mrr:
        # Training on posts did not help: return to what was learned of articles.
        state.network.load_state_dict(pretrained)
        state.metadata.notes.append("the trained part is left out: it does not improve the ranking of held-out posts")
        state.metadata.epochs = 0
    network.eval()
    state.article_index.vectors = state.vectors(state.articles.texts)
    state.metadata.words = len(state.tokenizer.vocabulary)


def _new_network(state: LinkState) -> Linker:
    """Return an untrained network that starts from the vectors of the file, if there is one."""
    settings = state.network_settings
    words = state.tokenizer.vocabulary
    if settings.vectors is None:
        return state.new_network(len(words), settings.dim or LEARNED_DIM)
    ids, matrix = initial_vectors(settings.vectors, words.values, settings.dim)
    network = state.new_network(len(words), matrix.shape[1])
    network.place(torch.from_numpy(ids), torch.from_numpy(matrix), tuned=settings.tuned)
    state.metadata.known_vectors = len(ids)
    return network


@torch.no_grad()
def _choose_share(state: LinkState, sample: Corpus) -> None:
    """Set the weight of the encoder relative to the bag that ranks training posts best; ties go to the bag."""
    network = module_of(state.network)
    assert isinstance(network, Linker)
    if not network.settings.bag or not network.encoder.width:
        return
    width = network.encoder.width
    network.share.zero_()  # equal weights, which the products below are free of
    articles, posts = (state.vectors(texts) for texts in (state.articles.texts, sample.posts.texts))
    encoder, bag = (posts[:, columns] @ articles[:, columns].T for columns in (slice(width), slice(width, None)))

    def mrr(share: float) -> float:
        return float(by_row(share * encoder + (1 - share) * bag, sample.related)[:, 0].mean())

    network.share.fill_(torch.tensor(max(ENCODER_SHARES, key=mrr)).logit())


def links(state: LinkState, data: Corpus) -> Links:
    """Return a corpus as training data of the network, and note texts that the length limit cuts."""
    cap = state.network_settings.max_words
    notes = state.metadata.notes
    sides = tuple(state.encode(texts) for texts in (data.articles.texts, data.posts.texts))
    if cut := sum(tokens.cut_words for tokens in sides):
        texts = plural(sum(tokens.cut_texts for tokens in sides), "text")
        notes.append(f"the limit of {plural(cap or 0, 'word')} removed {plural(cut, 'word')} from {texts}")
    training_data = Links(sides[0], sides[1], data.pairs)
    if training_data.skipped:
        notes.append(f"{plural(training_data.skipped, 'link')} left out: a text without words")
    return training_data


def _validate(state: LinkState, valid: Corpus) -> float:
    """Return the MRR of the true article among all, for held-out posts."""
    articles = state.vectors(state.articles.texts)
    scores = state.vectors(valid.posts.texts) @ articles.T
    state.network.train()
    return float(by_row(scores, valid.related)[:, 0].mean())
