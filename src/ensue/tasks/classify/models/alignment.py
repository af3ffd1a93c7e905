"""Two texts without an encoder: each word beside what the other text has for it.

Parikh, Täckström, Das and Uszkoreit, A Decomposable Attention Model for Natural Language Inference, EMNLP 2016. Task:
say which label fits a pair of texts. It stands where ``centrality`` has its BiLSTM and pooling, under the same head.

==================  ==================================================
Eqs. 1-2, attend    ``Alignment.forward``: ``attend`` is F
Eq. 3, compare      ``compare`` is G
Eqs. 4-5, 6         ``_pool``, and the head of ``TextClassifier``
==================  ==================================================

**Departures.** F is linear and begins as the identity, and a score is a cosine times a learned sharpness: a network
that has to find out first which words are alike needs the paper's 549,000 pairs, and the vectors of words say so from
the first step (vectors that are learned: of the same word, at least). The comparison reads [a; b; a - b; a * b] and the
highest cosine; the compared words are averaged and their maximum taken, as in Chen et al., Enhanced LSTM for Natural
Language Inference, ACL 2017 (Eqs. 14, 15 and 18): a sum grows with the length of a text. Words, and the vector of a
pair, pass a LayerNorm, as in every pooling of ``ensue.nn.pooling``. A text that is no pair is aligned with itself.
Where ``centrality`` cuts texts, none is cut here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ensue.nn.attention import masked_mean, masked_softmax
from ensue.nn.autograd import is_traced
from ensue.nn.dropout import Dropout
from ensue.nn.pooling import Pooled
from ensue.tasks.classify.passages import TextBatch

_SHARP = 10.0
"""Initial factor of the cosines: a word with cosine 1 outweighs ten words with cosine 0.77."""


class _Words(NamedTuple):
    """The words of all texts, padded."""

    items: Tensor  # (texts, length)
    mask: Tensor  # (texts, length)
    starts: Tensor  # (passages,) where each begins in its text

    @classmethod
    def of(cls, batch: TextBatch) -> _Words:
        if is_traced():  # an exported graph gets texts whole, one a row
            (block,) = batch.words
            return cls(block.items, block.mask, torch.zeros_like(block.rows))
        # Passages of 3 2 4 words of the texts 0 0 1: texts of 5 and 4 words, starts 0 3 0.
        owners = batch.owners
        sizes = torch.zeros_like(owners)
        for block in batch.words:
            sizes[block.rows] = block.mask.sum(1)
        lengths = torch.zeros(batch.num_texts, dtype=sizes.dtype, device=sizes.device).index_add(0, owners, sizes)
        starts = sizes.cumsum(0) - sizes - (lengths.cumsum(0) - lengths)[owners]
        longest = max(int(lengths.max()), 1) if len(lengths) else 1
        mask = torch.arange(longest, device=sizes.device) < lengths[:, None]
        items = torch.zeros(mask.shape, dtype=torch.int64, device=sizes.device)
        for block in batch.words:
            columns = starts[block.rows][:, None] + torch.arange(block.mask.shape[1], device=sizes.device)
            texts = owners[block.rows][:, None].expand_as(columns)
            items[texts[block.mask], columns[block.mask]] = block.items[block.mask]
        return cls(items, mask, starts)


class Alignment(nn.Module):
    """Pairs (or texts) to one vector each.

    Args:
        dim: width of a word's vector.
        hidden: width of every layer.
        dropout: share of the units dropped before each of them.
        paired: whether there are pairs.
    """

    def __init__(self, dim: int, hidden: int, dropout: float, *, paired: bool) -> None:
        super().__init__()
        self.paired = paired
        self.width = (4 if paired else 2) * hidden
        self.before = nn.LayerNorm(dim)
        self.after = nn.LayerNorm(self.width)
        self.attend = nn.Linear(dim, dim, bias=False)
        self.sharpness = nn.Parameter(torch.tensor(_SHARP))
        nn.init.eye_(self.attend.weight)
        self.compare = _net(4 * dim + 1, hidden, dropout)

    def forward(self, look: Callable[[Tensor], Tensor], batch: TextBatch) -> tuple[Tensor, list[Pooled]]:
        """(records, width) vectors, and for each block how much each of its words is attended to."""
        words = _Words.of(batch)
        vectors = self.before(look(words.items))
        directions = normalize(self.attend(vectors), dim=-1)
        num_texts = vectors.shape[0]
        half = num_texts // 2 if self.paired else num_texts
        sides = [slice(0, half), slice(num_texts - half, num_texts)]
        # Each side is cut at its longest text, so that cosines have little padding.
        longest = words.mask.shape[1]
        cuts = [longest, longest]
        if not is_traced():
            cuts = [max(int(words.mask[side].sum(1).max()), 1) if half else 1 for side in sides]
        masks = [words.mask[side, :cut] for side, cut in zip(sides, cuts, strict=True)]
        side_vectors = [vectors[side, :cut] for side, cut in zip(sides, cuts, strict=True)]
        cosines = directions[sides[0], : cuts[0]] @ directions[sides[1], : cuts[1]].transpose(1, 2)
        pooled = []
        shares = torch.zeros(words.mask.shape, dtype=vectors.dtype, device=vectors.device)
        # Each side is aligned with the other; a single text with itself.
        for side in range(2 if self.paired else 1):
            similarities = cosines if side == 0 else cosines.transpose(1, 2)
            other_mask = masks[1 - side][:, None]
            attention = masked_softmax(self.sharpness * similarities, other_mask)
            nearest = similarities.masked_fill(~other_mask, -1.0).amax(2, keepdim=True)
            pooled.append(self._pool(side_vectors[side], attention @ side_vectors[1 - side], nearest, masks[side]))
            shares[sides[1 - side], : cuts[1 - side]] = _mean(attention, masks[side]).detach().to(shares.dtype)
        return self.after(torch.cat(pooled, dim=1)), _by_block(shares, words, batch)

    def _pool(self, words: Tensor, aligned: Tensor, nearest: Tensor, mask: Tensor) -> Tensor:
        """The mean and the maximum of what the comparison says of each word."""
        compared = self.compare(torch.cat([words, aligned, words - aligned, words * aligned, nearest], dim=-1))
        maximum = compared.masked_fill(~mask[..., None], 0.0).amax(1)  # none is below 0
        return torch.cat([_mean(compared, mask), maximum], dim=1)


def _mean(rows: Tensor, mask: Tensor) -> Tensor:
    """(texts, width) of (texts, words, width)."""
    return (masked_mean(mask, rows.dtype)[:, None] @ rows)[:, 0]


def _net(dim: int, width: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        Dropout(dropout), nn.Linear(dim, width), nn.ReLU(), Dropout(dropout), nn.Linear(width, width), nn.ReLU()
    )


def _by_block(shares: Tensor, words: _Words, batch: TextBatch) -> list[Pooled]:
    """Shares of the words of a text as those of its passages, which sum to 1 each."""
    pooled = []
    for block in batch.words:
        columns = words.starts[block.rows][:, None] + torch.arange(block.mask.shape[1], device=block.mask.device)
        columns = columns.clamp(max=shares.shape[1] - 1)
        rows = shares[batch.owners[block.rows][:, None], columns] * block.mask
        pooled.append(Pooled(rows[:, :0], rows / rows.sum(1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)))
    return pooled
