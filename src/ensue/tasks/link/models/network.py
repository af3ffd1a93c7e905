"""Articles and posts in one space: vectors of words, one encoder for both, and a loss that draws related ones together.

Danovitch, Linking social media posts to news with Siamese Transformers, ITCSE 2020. Task: say which posts discuss an
article, by the cosine of two vectors that are made apart, so that a corpus is encoded once.

=======================  ==========================================================
section 3.5              ``ensue.tasks.link.models.star.AST``
section 4.3's baselines  ``ensue.tasks.link.models.network.CNN``, ``ensue.tasks.link.models.network.GRU``
section 3.6, the loss    ``Linker.loss`` by ``ensue.tasks.link.models.losses``
section 4.2              ``Linker.forward``: cosines
=======================  ==========================================================

The settings of ``ast-paper`` are the paper's, and where it is silent those of the author's earlier program: Adam at
1e-4, 10 epochs, a margin of .15, mining with .1, vectors of words that are trained; 64 pairs a batch are ours. Where
these are fewer steps an epoch than the 23 of PolitiFact's 1,502 posts, the smaller of the sets at hand, batches are
halved once, to 32, and there are more epochs, so that a hundred links are not learned in 20 steps.

All others stand on a bag and, with ``residual``, start as the mean of vectors that are made of the articles' runs of
characters, to which each encoder adds what it learns, by one rule for all; what is no better on held-out posts than
this start is left out. PolitiFact's test posts, 100 wide and one seed: MRR .467 for ast, .463 for cnn, .465 for gru and
bigru, which do not differ significantly; without that start ast had .448.

**Departures.** The loss sees vectors of length 1, as the cosine ranks them; the paper says nothing of lengths. Words
that no file knows get vectors of their own, which are learned. Articles are read whole, whatever their length, unless a
cap is set.

A text as the sum of its words' vectors, each by a weight that is learned: what every encoder of the frame stands on.

With V_w the vector of a word, e^(4 u_w) its weight and c how often a text holds it, a text is the sum over its distinct
words of (1 + ln c) e^u_w V_w, without its length. Where the weights are how rare words are (IDF; Sparck Jones 1972) and
the vectors are random, products of two texts are those of TF-IDF but for chance (Johnson & Lindenstrauss 1984), so that
what is learned starts from what counting gives.

A CNN in the place of the AST, one of the paper's baselines: the largest value of each filter over a text.

Kim, Convolutional neural networks for sentence classification, EMNLP 2014, as Danovitch 2020 (section 4.3) has it:
windows of 1 to 4 words with 300 filters each, projected to 300.

**Departures.** A window starts at every word, with zeros after the end of the text, so that a post of one word has
windows of every width. With ``residual`` the projection, which starts at 0, is added to the mean of the words' vectors.

A GRU and a bidirectional one in the place of the AST, two of the paper's baselines: the mean of their states.

Cho et al., Learning phrase representations using RNN encoder-decoder, EMNLP 2014, as Danovitch 2020 (section 4.3) has
it: 300 units, or 150 a side.

**Departures.** How states come to one vector the paper does not say: here by their mean. The last state of an article
of 800 words remembers little of it: on PolitiFact's validation posts it ranks at an MRR of .02, the mean at .17. With
``residual`` a projection of it, which starts at 0, is added to the mean of the words' vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import masked_mean
from ensue.nn.autograd import is_traced
from ensue.nn.blocks import Block
from ensue.nn.recurrent import GRULayer, turned_steps
from ensue.tasks.link.batches import DistinctWords, LinkBatch, text_blocks
from ensue.tasks.link.models.losses import contrastive_loss, triplet_loss
from ensue.tasks.link.models.star import AST
from ensue.tasks.link.pieces import PIECES
from ensue.tasks.link.settings import LinkSettings
from ensue.text.encoder import Vectors
from ensue.text.tokens import Tokens
from ensue.vocabulary import PADDING


class GRU(nn.Module):
    """The mean of a GRU's states.

    Args:
        dim: width of the words' vectors.
        width: of the state, or of both; the text's too, but with ``residual``, where that is ``dim``.
        both: whether a second GRU reads from the end, each with half the width.
        residual: whether it starts as the mean of the words' vectors.
    """

    def __init__(self, dim: int, *, width: int = 300, both: bool = False, residual: bool = False) -> None:
        super().__init__()
        self.width = dim if residual else width
        self.project = nn.Linear(width, dim, bias=False) if residual else None
        if self.project is not None:
            nn.init.zeros_(self.project.weight)
        self.sides = nn.ModuleList(GRULayer(dim, width // (1 + both), batch_first=True) for _ in range(1 + both))

    def forward(self, words: DistinctWords) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        weights = masked_mean(words.mask, words.vectors.dtype)[:, None]
        directions = (words.places, words.places.gather(1, turned_steps(words.mask)))
        means = []
        # The second layer, if there is one, reads from the end.
        for layer, places in zip(self.sides, directions, strict=False):
            states = layer(functional.embedding(places, words.vectors))[0]  # (rows, length, units)
            means.append((weights @ states)[:, 0])
        vectors = torch.cat(means, 1)
        return vectors if self.project is None else words.mean() + self.project(vectors)


WINDOWS = (1, 2, 3, 4)
"""Words that a filter of the CNN sees."""


class CNN(nn.Module):
    """The largest value of each filter, through a ReLU and a projection.

    Args:
        dim: width of the words' vectors.
        width: of the text's; with ``residual`` it is ``dim``.
        filters: of each window.
        residual: whether it starts as the mean of the words' vectors.
    """

    def __init__(self, dim: int, *, width: int = 300, filters: int = 300, residual: bool = False) -> None:
        super().__init__()
        self.width = width = dim if residual else width
        self.residual = residual
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, filters, window) for window in WINDOWS)
        self.project = nn.Linear(filters * len(WINDOWS), width)
        if residual:
            nn.init.zeros_(self.project.weight)
            nn.init.zeros_(self.project.bias)

    def forward(self, words: DistinctWords) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        # (rows, dim, length), with zeros at padding, so that a window may end after the text.
        vectors = (words.spread(words.vectors) * words.mask[..., None]).transpose(1, 2)
        # The largest value of each filter over the words of a text.
        maxima = []
        for convolution in self.convolutions:
            # Zeros after the end, so that every word begins a window.
            window = int(convolution.kernel_size[0])  # type: ignore[index]
            scores = convolution(functional.pad(vectors, (0, window - 1)))
            maxima.append(scores.masked_fill(~words.mask[:, None], torch.finfo(scores.dtype).min).max(2).values)
        projected: Tensor = self.project(functional.relu(torch.cat(maxima, 1)))
        vectors = projected * words.mask.any(1, keepdim=True)
        return vectors + words.mean() if self.residual else vectors


STEEP = 4.0
"""Factor of u: with one step size for all entries of a row, weights move that much faster."""
EPSILON = 1e-12


class Nothing(nn.Module):
    """Encoder with empty vectors, for a bag of words alone."""

    width = 0

    def forward(self, words: DistinctWords) -> Tensor:
        """(rows, 0)."""
        return words.vectors.new_zeros(len(words.mask), 0)


def bag(words: DistinctWords, size: int) -> Tensor:
    """(rows, size) sums of length 1; 0 for a text without a word.

    Args:
        words: their vectors hold u last, and before it the ``size`` numbers that are added.
        size: numbers.
    """
    # Each distinct word of each row once: rows a b a | b b have the keys 0 a, 0 b and 1 b with counts 2, 1 and 2.
    weighted = words.vectors[:, -1 - size : -1] * (STEEP * words.vectors[:, -1:]).exp()  # e^(4 u_w) V_w
    if is_traced():
        # Pairs of equal words of a row count each word: an exported graph cannot sort rows of its own length.
        same = (words.places[:, :, None] == words.places[:, None]) & words.mask[:, None]
        num_same = same.sum(2).clamp(min=1).to(weighted.dtype)
        shares = (1 + num_same.log()) / num_same * words.mask
        return functional.normalize((shares[:, None] @ words.spread(weighted))[:, 0], dim=1, eps=EPSILON)
    num_distinct = max(len(words.vectors), 1)
    rows = torch.arange(len(words.mask), device=words.mask.device)[:, None]
    keys, counts = torch.unique((rows * num_distinct + words.places)[words.mask], return_counts=True)
    offsets = functional.pad(torch.bincount(keys // num_distinct, minlength=len(words.mask)).cumsum(0), (1, 0))[:-1]
    # Sublinear counts, as in TF-IDF.
    scales = 1 + counts.to(words.vectors.dtype).log()
    sums = functional.embedding_bag(keys % num_distinct, weighted, offsets, per_sample_weights=scales, mode="sum")
    return functional.normalize(sums, dim=1, eps=EPSILON)


LEARNED_DIM = 300
"""Width of the vectors of words where no file gives them."""
BATCH_SIZE = 2**13
"""Number of texts that are encoded at once."""
BLOCK_WORDS = 2**13
"""Words per block where no gradient is needed, so few that intermediate results stay in the cache."""
_SPREAD = 0.1  # standard deviation that learned vectors start with
_SHARE = 0.05


class Linker(nn.Module):
    """Vectors of articles and of posts by one encoder and, unless the settings leave it out, by a bag beside it.

    A word's row holds what the encoder reads, what the bag adds, and the logarithm of its weight there; so do the rows
    of the pieces that unknown words are made of (``ensue.tasks.link.pieces``). The vector of a text is both parts at
    length 1, the encoder's by sqrt(s) and the bag's by sqrt(1 - s), so that cosines are mixed as 1 - s to s; s is
    learned, and starts where posts of training are ranked best.

    Args:
        settings: of the network.
        num_words: ids, padding and unknown included.
        dim: width of the vectors of words that the encoder reads.
    """

    fixed: Tensor

    def __init__(self, settings: LinkSettings, num_words: int, dim: int) -> None:
        super().__init__()
        self.settings, self.dim = settings, dim
        width = dim + settings.beside
        self.table = nn.Embedding(num_words, width, sparse=True)
        nn.init.normal_(self.table.weight, std=_SPREAD)
        nn.init.zeros_(self.table.weight[: PADDING + 2])  # padding, and words that were never seen
        self.fixed = nn.Buffer(torch.zeros(num_words, dtype=torch.bool))
        self.encoder = _encoder(settings, dim)
        self.bag_alone = settings.encoder == "bag"
        """True where only the bag of words is used, as while it is trained alone."""
        if settings.bag:
            self.pieces = nn.Embedding(PIECES, width, sparse=True)
            self.share = nn.Parameter(torch.tensor(_SHARE).logit())
            nn.init.normal_(self.pieces.weight, std=_SPREAD)
            nn.init.zeros_(self.table.weight[:, -1:])
            nn.init.zeros_(self.pieces.weight[:, -1:])

    @property
    def width(self) -> int:
        """Numbers in a text's vector."""
        return self.encoder.width + self.settings.bag

    @property
    def device(self) -> torch.device:
        """Return the device of the network."""
        return self.table.weight.device

    @torch.no_grad()
    def place(self, ids: Tensor, vectors: Tensor, *, tuned: bool) -> None:
        """Give some words the vectors of a file; those that are not ``tuned`` stay as they are, to the bit.

        All others start anew, as large as the file's.
        """
        ids = ids.to(self.device)
        nn.init.normal_(self.table.weight[PADDING + 2 :, : self.dim], std=float(vectors.std()))
        self.table.weight[ids, : self.dim] = vectors.to(self.device)
        self.fixed[ids] = not tuned

    @torch.no_grad()
    def start_bag(self, weights: Tensor, vectors: Tensor) -> None:
        """Start the bag at what counting gives.

        Args:
            weights: (words + pieces,) above 0.
            vectors: (words + pieces, bag) of a mean square of about 1.
        """
        terms = torch.cat([_SPREAD * vectors, weights.log()[:, None] / STEEP], 1).to(self.device)
        terms[: PADDING + 2, :-1] = 0
        self.table.weight[:, self.dim :] = terms[: len(self.table.weight)]
        self.pieces.weight[:, self.dim :] = terms[len(self.table.weight) :]

    @torch.no_grad()
    def start_read(self, vectors: Tensor) -> None:
        """Give all words and pieces vectors that the encoder reads.

        Args:
            vectors: (words + pieces, dim) of a mean square of about 1.
        """
        vectors = (_SPREAD * vectors).to(self.device)
        vectors[: PADDING + 2] = 0
        self.table.weight[:, : self.dim] = vectors[: len(self.table.weight)]
        self.pieces.weight[:, : self.dim] = vectors[len(self.table.weight) :]

    @torch.no_grad()
    def grow(self, num_words: int) -> None:
        """Rows for words that are new: at random, as spread as those before."""
        old = self.table.weight
        rows = old.new_empty(num_words - len(old), old.shape[1])
        for columns in (slice(0, self.dim), slice(self.dim, old.shape[1])):
            if old[:, columns].numel():
                rows[:, columns].normal_(std=float(old[PADDING + 2 :, columns].std()))
        if self.settings.bag:
            rows[:, -1] = old[PADDING + 2 :, -1].max()  # whoever comes late is rare
        self.table = nn.Embedding(num_words, old.shape[1], sparse=True, _weight=torch.cat([old, rows]))
        self.fixed = torch.cat([self.fixed, self.fixed.new_zeros(len(rows))])

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Vectors as the encoder makes them; 0 for a text without a word.

        Args:
            ids: (rows, length) ids of words.
            mask: (rows, length) bool, True up to the end of each row.

        Returns:
            (rows, width).
        """
        words = self._look(ids, mask)
        size = self.settings.bag
        if not size:
            return self.encoder(words)
        sums = bag(words, size)
        if self.bag_alone:
            return functional.pad(sums, (self.encoder.width, 0))
        order = functional.normalize(self.encoder(words._replace(vectors=words.vectors[:, : self.dim])), dim=1)
        # Parts of length sqrt(s) and sqrt(1 - s): their cosines are mixed as s to 1 - s.
        mine = self.share.sigmoid()
        return torch.cat([order * mine.sqrt(), sums * (1 - mine).sqrt()], 1)

    def read(self, blocks: Sequence[Block], num_texts: int) -> Tensor:
        """(texts, width) vectors of length 1; 0 for texts that no block holds."""
        texts = self.table.weight.new_zeros(num_texts, self.width)
        for block in blocks:
            vectors = functional.normalize(self.encode(block.items, block.mask), dim=1)
            texts = texts.to(vectors.dtype).index_copy(0, block.rows, vectors)
        return texts

    @torch.no_grad()
    def vectors(self, tokens: Tokens) -> Vectors:
        """Return unit vectors of texts on the CPU, (texts, width); 0 for a text without a word."""
        self.eval()
        units = np.zeros((len(tokens), self.width), np.float32)
        for low in range(0, len(tokens), BATCH_SIZE):
            index = np.arange(low, min(low + BATCH_SIZE, len(tokens)))
            blocks = [block.to(self.device) for block in text_blocks(tokens, index, BLOCK_WORDS)]
            units[index] = self.read(blocks, len(index)).float().cpu().numpy()
        return units

    def forward(self, batch: LinkBatch) -> Tensor:
        """(articles, posts) cosines."""
        articles, posts = batch.related.shape
        return self.read(batch.articles, articles) @ self.read(batch.posts, posts).T

    def loss(self, batch: LinkBatch) -> Tensor:
        """The loss of the settings over a batch."""
        cosines = self(batch).float()
        settings = self.settings
        if settings.loss == "triplet":
            return triplet_loss(cosines, batch.related, margin=settings.margin, epsilon=settings.epsilon)
        return contrastive_loss(cosines, batch.related, temperature=settings.temperature)

    def _look(self, ids: Tensor, mask: Tensor) -> DistinctWords:
        # Each word of the block is looked up, and gets its gradient, once.
        distinct, index = torch.unique(ids, return_inverse=True)
        if is_traced():
            # An exported graph has no branches: each id looks into both tables, and one of them counts.
            looked_up: Tensor = self.table(distinct.clamp(min=0))
            if self.settings.bag:
                pieces = self.pieces((-1 - distinct).clamp(min=0))
                looked_up = torch.where(distinct[:, None] >= 0, looked_up, pieces)
            return DistinctWords(looked_up, index.reshape(ids.shape), mask)  # flat in ONNX
        word_ids = distinct[distinct >= 0]  # sorted, so that pieces stand first
        vectors: Tensor = self.table(word_ids)
        if self.training and bool(self.fixed.any()):
            fixed = functional.pad(vectors[:, : self.dim].detach(), (0, vectors.shape[1] - self.dim))
            free = functional.pad(vectors[:, self.dim :], (self.dim, 0)) + fixed
            vectors = torch.where(self.fixed[word_ids][:, None], free, vectors)
        if len(word_ids) < len(distinct):
            vectors = torch.cat([self.pieces(-1 - distinct[: len(distinct) - len(word_ids)]), vectors])
        return DistinctWords(vectors, index, mask)


def _encoder(settings: LinkSettings, dim: int) -> AST | CNN | GRU | Nothing:
    if settings.encoder == "ast":
        return AST(
            dim,
            heads=settings.heads,
            neighbours=settings.neighbours,
            cycles=settings.cycles,
            residual=settings.residual,
            sparse=settings.sparse,
            relay=settings.relay,
            scaled=settings.scale == "asentmax",
        )
    if settings.encoder == "bag":
        return Nothing()
    if settings.encoder == "cnn":
        return CNN(dim, width=settings.hidden, filters=settings.filters, residual=settings.residual)
    return GRU(dim, width=settings.hidden, both=settings.encoder == "bigru", residual=settings.residual)
