"""Pretraining on articles alone: rarity of words, and matching of passages with their articles."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from ensue.data.near_copies import near_copies
from ensue.data.posts.dataset import Articles
from ensue.learning.state import module_of
from ensue.lines import plural
from ensue.schedule import Schedule
from ensue.tasks.link.batch import Batch
from ensue.tasks.link.cloze import Cloze
from ensue.tasks.link.encode import encoded
from ensue.tasks.link.models.losses import contrastive_loss
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.pieces import PIECES, PIECES_A_WORD
from ensue.tasks.link.spectral import term_vectors, word_vectors
from ensue.tasks.link.state import LinkState
from ensue.text.tokens import Tokens
from ensue.text.weights import smooth_idf
from ensue.training.checkpoint import Checkpoint
from ensue.training.loop import train
from ensue.training.optimizer import make_optimizer
from ensue.training.report import Report

BATCH = 128
"""Articles that a passage is picked from."""
STEPS = 2000
"""Maximum number of steps of the bag; a corpus with as many batches is read once."""
EPOCHS = 20
"""Maximum number of epochs of the bag."""
RATE = 2e-3
"""Adam's step size, a fiftieth of what a word's numbers start at: without labels posts outside the tests of PolitiFact
and of Clickbait22 go from an MRR of .403 to .414 (20 epochs) and from .734 to .750 (10)."""
TEMPERATURE = 0.2
"""Temperature of the cloze loss, chosen on posts outside PolitiFact's test part: with random initial vectors, .03, .05,
.1 and .2 gave an MRR of .295, .339, .407 and .416."""


class Pretraining(nn.Module):
    """A network as it learns of articles alone."""

    def __init__(self, network: Linker) -> None:
        super().__init__()
        self.network = network

    def loss(self, batch: Batch) -> Tensor:
        """Return the contrastive loss of passages given articles and of articles given passages."""
        return contrastive_loss(self.network(batch).float(), batch.related, temperature=TEMPERATURE)


def pretrain(state: LinkState, articles: Articles, checkpoint: Checkpoint) -> Generator[Report, None, None]:
    """Learn of articles alone, as the settings say; what is left out is noted.

    Args:
        state: with a new network.
        articles: of the corpus.
        checkpoint: of the training that follows; this one has its own beside it.
    """
    network, own = module_of(state.network), state.network_settings
    assert isinstance(network, Linker)
    tokens = encoded(state, articles.texts)
    if own.bag:
        num_words = len(state.tokenizer.vocabulary)
        weights = term_weights(tokens, num_words)
        terms = replace(tokens, ids=np.where(tokens.ids < 0, num_words - 1 - tokens.ids, tokens.ids))
        network.start_bag(*map(torch.from_numpy, (weights, term_vectors(terms, weights, own.bag, state.seed))))
        if own.vectors is None and network.dim:
            words = ["", "", *state.tokenizer.vocabulary.values]  # padding and unknown have no characters
            network.start_read(torch.from_numpy(word_vectors(articles.texts, words, network.dim, state.seed)))
    if own.pretrain == "none":
        return
    data = Cloze(tokens, near_copies(articles.texts), headline_words(state, articles))
    if len(data) < 2:
        state.metadata.notes.append("no pretraining: fewer than two distinct articles")
        return
    steps = -(-len(data) // BATCH)
    schedule = Schedule(
        epochs=max(1, min(EPOCHS, STEPS // steps)), batch_size=BATCH, learning_rate=RATE, decay=True, weight_decay=0.0,
        refit=False, replay=0,
    )  # fmt: skip
    network.bag_alone = own.bag > 0
    optimizer = make_optimizer(network, schedule, undecayed=[network.table.weight])
    yield from train(
        Pretraining(network), data, None, schedule, optimizer=optimizer, seed=state.seed,
        stage="pretrain", checkpoint=checkpoint.sibling("-pretrain"), fingerprint=f"{own} {len(tokens.ids)}",
    )  # fmt: skip
    network.bag_alone = own.encoder == "bag"
    state.metadata.notes.append(f"pretrained on {plural(len(data), 'article')} for {schedule.epochs} epochs")


def term_weights(tokens: Tokens, num_words: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """(words + pieces,) the IDF of each word by the texts that hold it; a new word, in pieces, counts as the rarest."""
    owners = np.repeat(np.arange(len(tokens)), tokens.lengths)
    held = np.unique(owners * num_words + tokens.ids.clip(min=0)) % num_words
    idf = smooth_idf(np.bincount(held, minlength=num_words), len(tokens))
    pieces = np.full(PIECES, idf.max() / PIECES_A_WORD**0.5)
    return np.concatenate([idf, pieces]).astype(np.float32)


def headline_words(state: LinkState, articles: Articles) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(articles,) how many words of each are its headline."""
    headed = (articles.titles != "") & (articles.titles != articles.bodies)
    silent = pl.Series([""] * len(articles), dtype=pl.String)
    return encoded(state, articles.titles.zip_with(headed, silent)).lengths
