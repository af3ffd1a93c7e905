"""Articles and posts in one space: vectors of words, one encoder for both, and a loss that draws related ones together.

Danovitch, Linking social media posts to news with Siamese Transformers, ITCSE 2020. Task: say which posts discuss an
article, by the cosine of two vectors that are made apart, so that a corpus is encoded once.

=======================  ==========================================================
section 3.5              ``ensue.tasks.link.models.star.AST``
section 4.3's baselines  ``ensue.tasks.link.models.cnn.CNN``, ``ensue.tasks.link.models.gru.GRU``
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
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.autograd import is_traced
from ensue.nn.blocks import Block
from ensue.tasks.link.batches import DistinctWords, LinkBatch, text_blocks
from ensue.tasks.link.models.bag import STEEP, Nothing, bag
from ensue.tasks.link.models.cnn import CNN
from ensue.tasks.link.models.gru import GRU
from ensue.tasks.link.models.losses import contrastive_loss, triplet_loss
from ensue.tasks.link.models.star import AST
from ensue.tasks.link.pieces import PIECES
from ensue.tasks.link.settings import LinkSettings
from ensue.text.encoder import Vectors
from ensue.text.tokens import Tokens
from ensue.vocabulary import PADDING

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
