"""Pretraining on articles alone: rarity of words, and matching of passages with their articles.

**Inverse cloze.** Lee, Chang & Toutanova, Latent retrieval for weakly supervised open domain question answering, ACL
2019: a passage of a text stands for a question, the rest of the text for what answers it, and the other texts of the
batch for what does not. Here the passage is as long as a post, 8 to 30 words, or the article's own headline; words of
both sides are left out at random, so that the network depends on no single one. Of articles that say the same, one is
drawn an epoch.

**Word vectors.** With A the weighted counts of articles at length 1, A = U S V' (latent semantic analysis; Deerwester
et al. 1990): the rows of V, as wide as there are articles, give every article its products with all others and with any
post; the first columns give most of it. Random vectors, which know no article, give the same but for chance, which
falls with the root of their width only: 512 of them rank the posts outside PolitiFact's test at an MRR of .247, V at
.398, TF-IDF at .393.

What an encoder reads starts from the same of runs of characters in place of words: a word's vector is the sum over its
runs, so that forms of a word are close, and the mean over a text's words is nearly what its runs say of it. Without
anything learned 100 numbers rank the posts outside PolitiFact's test at .422, 300 at .457.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor, nn

from ensue.data.histories import Index, offsets_of, ranges
from ensue.data.near_copies import near_copies
from ensue.data.posts.dataset import Articles
from ensue.learning.state import module_of
from ensue.lines import plural
from ensue.schedule import Schedule
from ensue.tasks.link.batches import LinkBatch, text_blocks
from ensue.tasks.link.models.losses import contrastive_loss
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.pieces import PIECES, PIECES_A_WORD, pieces_of
from ensue.tasks.link.state import LinkState
from ensue.text.sparse import SparseRows, sparse_rows, unit_rows
from ensue.text.terms import character_terms, smooth_idf
from ensue.text.tokens import Tokens
from ensue.training.checkpoint import Checkpoint
from ensue.training.loop import train
from ensue.training.optimizer import make_optimizer
from ensue.training.report import Report

READ = 2048
"""Articles at most whose products are kept; of more, so many are drawn."""
FAINT = 0.3
"""Relative scale of the random initial values of the remaining dimensions, which separate new articles."""
_EPSILON = 1e-6


def term_vectors(tokens: Tokens, weights: npt.NDArray[np.float32], size: int, seed: int) -> npt.NDArray[np.float32]:
    """(terms, size) vectors, of a mean square of 1 over all terms that stand in the articles.

    Args:
        tokens: the articles, with ids from 0 up to the number of terms.
        weights: (terms,).
        size: numbers of a vector.
        seed: of what is drawn.
    """
    random = np.random.default_rng(seed)
    sampled = np.sort(random.permutation(len(tokens))[:READ])
    documents = tokens.select(sampled)
    owners = np.repeat(np.arange(len(documents)), documents.lengths)
    # Document and term as one number: each cell once, with its count.
    cells, counts = np.unique(owners * len(weights) + documents.ids, return_counts=True)
    owners, terms = np.divmod(cells, len(weights))
    rows = unit_rows(owners, terms, counts, weights, len(documents))
    axes = _axes(rows, size)
    distinct_terms = np.unique(terms)
    vectors = FAINT * random.standard_normal((len(weights), size), np.float32)
    # The columns of V have length 1, so that their mean square over the terms is one over how many these are.
    vectors[np.ix_(distinct_terms, np.arange(axes.shape[1]))] = (rows.T @ (axes * np.sqrt(len(distinct_terms))))[
        distinct_terms
    ]
    return vectors


def word_vectors(texts: pl.Series, words: Sequence[str], size: int, seed: int) -> npt.NDArray[np.float32]:
    """(words + pieces, size) vectors of words by their runs of characters, of a mean square of 1 over the words.

    Rare runs count more, so that a mean over words is one by how rare they are. A piece has the mean of what the words
    that hold it give to each of their pieces.

    Args:
        texts: the articles; of more than ``READ``, so many are drawn.
        words: whatever texts hold.
        size: numbers of a vector.
        seed: of what is drawn.
    """
    random = np.random.default_rng(seed)
    read = texts.gather(np.sort(random.permutation(len(texts))[:READ]))
    owners, runs, counts = character_terms(read)
    keys, terms = np.unique(runs, return_inverse=True)
    idf = smooth_idf(np.bincount(terms, minlength=len(keys)), len(read))
    rows = unit_rows(owners, terms, counts, idf, len(read))
    axes = _axes(rows, size)
    owners_of_runs, runs, _ = character_terms(pl.Series(words, dtype=pl.String))
    # Runs that no article has say nothing about a word.
    columns = np.searchsorted(keys, runs).clip(max=max(len(keys) - 1, 0))
    is_known = np.flatnonzero(keys[columns] == runs) if len(keys) else np.empty(0, np.int64)
    owners_of_runs = owners_of_runs[is_known]
    columns = columns[is_known]
    by_word = sparse_rows(owners_of_runs, columns, idf[columns], (len(words), len(keys))) @ (rows.T @ axes)
    # A mean square of 1, as the random vectors have.
    by_word /= max(np.sqrt((by_word**2).mean()), _EPSILON) if by_word.size else 1
    vectors = FAINT * random.standard_normal((len(words) + PIECES, size), np.float32)
    vectors[:, : axes.shape[1]] = np.concatenate([by_word, _by_piece(words, by_word)])
    return vectors


def _by_piece(words: Sequence[str], vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(pieces, size) the mean of the words that hold each, a word shared evenly among its pieces."""
    pieces, offsets = pieces_of(words)
    # Pieces have the ids -1 and below: number them from 0.
    numbers = -1 - pieces.astype(np.int64)
    sizes = np.diff(offsets)
    order = np.argsort(numbers, kind="stable")
    holders: Index = np.repeat(np.arange(len(words)), sizes)[order]
    shares = 1 / np.bincount(numbers, minlength=PIECES).clip(min=1)[numbers[order]] / sizes[holders]
    return sparse_rows(numbers[order], holders, shares, (PIECES, len(words))) @ vectors


def _axes(rows: SparseRows, size: int) -> npt.NDArray[np.float64]:
    """(rows, at most size) U / S of rows = U S V', the largest first, so that V is rows' times it."""
    # rows rows' is as large as there are articles, far smaller than rows' rows.
    powers, axes = np.linalg.eigh(rows.gram(rows))
    largest = np.flatnonzero(powers > _EPSILON * powers[-1])[::-1][:size]
    return axes[:, largest] / np.sqrt(powers[largest])


SHORTEST, LONGEST = 8, 30
"""Words of a passage; of an article under twice as many, half of it."""
DROPPED = 0.2
"""Share of words that are left out of each side."""
HEADLINES = 0.2
"""Share of the articles with a headline whose passage it is."""


class Cloze:
    """Articles and passages of them, drawn anew each time.

    Args:
        articles: encoded, each one sentence.
        groups: (articles,) a number that articles which say the same share.
        headlines: (articles,) words of the headline that each begins with; 0 where there is none.
    """

    def __init__(self, articles: Tokens, groups: Index, headlines: Index) -> None:
        self.articles = articles
        self.headlines = headlines
        self.usable: Index = np.flatnonzero(articles.lengths > 1)
        """Numbers of the articles that can be cut in two."""
        self.same: Index = np.unique(groups[self.usable], return_inverse=True)[1]
        """Number of the group of equal texts of each article."""

    def __len__(self) -> int:
        """Number of articles that say something of their own."""
        return int(self.same.max()) + 1 if len(self.same) else 0

    def plan(self, size: int, seed: int | tuple[int, ...]) -> list[Index]:
        """A shuffled epoch of articles, one a group, in batches of at most ``size`` and of like size."""
        random = np.random.default_rng(seed)
        order = random.permutation(len(self.usable))
        # One article per group of equal texts, a different one each epoch.
        first_of_group = order[np.unique(self.same[order], return_index=True)[1]]
        return np.array_split(random.permutation(self.usable[first_of_group]), max(1, -(-len(first_of_group) // size)))

    def groups(self, targets: int) -> Iterator[Index]:
        """All articles once, so many at a time."""
        return (self.usable[low : low + targets] for low in range(0, len(self.usable), targets))

    def batch(self, index: Index) -> LinkBatch:
        """Passages as posts, the rests as articles; what is drawn follows torch's random state."""
        random = np.random.default_rng(int(torch.randint(2**62, ())))
        lengths = self.articles.lengths[index]
        starts = self.articles.sentences[self.articles.texts[index]]
        sizes = np.minimum(random.integers(SHORTEST, LONGEST + 1, len(index)), lengths // 2)
        # A passage starts anywhere that leaves room for its length.
        lows = (random.random(len(index)) * (lengths - sizes + 1)).astype(np.int64)
        headed = (
            (random.random(len(index)) < HEADLINES) & (self.headlines[index] > 0) & (self.headlines[index] < lengths)
        )
        sizes = np.where(headed, self.headlines[index], sizes)
        lows = np.where(headed, 0, lows)
        inside = np.arange(lengths.sum()) - np.repeat(offsets_of(lengths)[:-1], lengths)  # 0 1 2 … of each article
        owners = np.repeat(np.arange(len(index)), lengths)
        words = self.articles.ids[ranges(starts, lengths)]
        # Mask of the words inside the passage of their article.
        passage = (np.repeat(lows, lengths) <= inside) & (inside < np.repeat(lows + sizes, lengths))
        sides = []
        # The rest of an article stands for the article, its passage for a post.
        for side in (~passage, passage):
            tokens_of_side = np.flatnonzero(side)
            is_kept = random.random(len(tokens_of_side)) >= DROPPED
            is_kept[np.unique(owners[tokens_of_side], return_index=True)[1]] = (
                True  # a text keeps its first word, if nothing else
            )
            tokens_of_side = tokens_of_side[is_kept]
            ends = offsets_of(np.bincount(owners[tokens_of_side], minlength=len(index)))
            tokens = Tokens(words[tokens_of_side], ends, np.arange(len(index) + 1))
            sides.append(text_blocks(tokens, np.arange(len(index))))
        return LinkBatch(sides[0], sides[1], torch.eye(len(index), dtype=torch.bool))


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

    def loss(self, batch: LinkBatch) -> Tensor:
        """Return the contrastive loss of passages given articles and of articles given passages."""
        return contrastive_loss(self.network(batch).float(), batch.related, temperature=TEMPERATURE)


def pretrain(state: LinkState, articles: Articles, checkpoint: Checkpoint) -> Generator[Report, None, None]:
    """Learn of articles alone, as the settings say; what is left out is noted.

    Args:
        state: with a new network.
        articles: of the corpus.
        checkpoint: of the training that follows; this one has its own beside it.
    """
    network = module_of(state.network)
    settings = state.network_settings
    assert isinstance(network, Linker)
    tokens = state.encode(articles.texts)
    if settings.bag:
        num_words = len(state.tokenizer.vocabulary)
        weights = term_weights(tokens, num_words)
        terms = replace(tokens, ids=np.where(tokens.ids < 0, num_words - 1 - tokens.ids, tokens.ids))
        network.start_bag(*map(torch.from_numpy, (weights, term_vectors(terms, weights, settings.bag, state.seed))))
        if settings.vectors is None and network.dim:
            words = ["", "", *state.tokenizer.vocabulary.values]  # padding and unknown have no characters
            network.start_read(torch.from_numpy(word_vectors(articles.texts, words, network.dim, state.seed)))
    if settings.pretrain == "none":
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
    network.bag_alone = settings.bag > 0
    optimizer = make_optimizer(network, schedule, undecayed=[network.table.weight])
    yield from train(
        Pretraining(network), data, None, schedule, optimizer=optimizer, seed=state.seed,
        stage="pretrain", checkpoint=checkpoint.sibling("-pretrain"), fingerprint=f"{settings} {len(tokens.ids)}",
    )  # fmt: skip
    network.bag_alone = settings.encoder == "bag"
    state.metadata.notes.append(f"pretrained on {plural(len(data), 'article')} for {schedule.epochs} epochs")


def term_weights(tokens: Tokens, num_words: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """(words + pieces,) the IDF of each word by the texts that hold it; a new word, in pieces, counts as the rarest."""
    owners = np.repeat(np.arange(len(tokens)), tokens.lengths)
    # A word counts once per text.
    document_words = np.unique(owners * num_words + tokens.ids.clip(min=0)) % num_words
    idf = smooth_idf(np.bincount(document_words, minlength=num_words), len(tokens))
    # The pieces of a word share its weight: their squares sum up to it.
    pieces = np.full(PIECES, idf.max() / PIECES_A_WORD**0.5)
    return np.concatenate([idf, pieces]).astype(np.float32)


def headline_words(state: LinkState, articles: Articles) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(articles,) how many words of each are its headline."""
    headed = (articles.titles != "") & (articles.titles != articles.bodies)
    silent = pl.Series([""] * len(articles), dtype=pl.String)
    return state.encode(articles.titles.zip_with(headed, silent)).lengths
