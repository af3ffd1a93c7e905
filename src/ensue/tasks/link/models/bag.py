"""A text as the sum of its words' vectors, each by a weight that is learned: what every encoder of the frame stands on.

With V_w the vector of a word, e^(4 u_w) its weight and c how often a text holds it, a text is the sum over its distinct
words of (1 + ln c) e^u_w V_w, without its length. Where the weights are how rare words are (IDF; Sparck Jones 1972) and
the vectors are random, products of two texts are those of TF-IDF but for chance (Johnson & Lindenstrauss 1984), so that
what is learned starts from what counting gives.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.autograd import is_traced
from ensue.tasks.link.batches import DistinctWords

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
