"""Articles alone as training data: a few words of each against what they were cut from (inverse cloze).

Lee, Chang & Toutanova, Latent retrieval for weakly supervised open domain question answering, ACL 2019: a passage of a
text stands for a question, the rest of the text for what answers it, and the other texts of the batch for what does
not. Here the passage is as long as a post, 8 to 30 words, or the article's own headline; words of both sides are left
out at random, so that no single one is leaned on. Of articles that say the same, one is drawn an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ensue.data.histories import Index, offsets_of, ranges
from ensue.tasks.link.batch import Batch
from ensue.tasks.link.dataset import text_blocks
from ensue.text.tokens import Tokens

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
        self.articles, self.headlines = articles, headlines
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
        chosen = order[np.unique(self.same[order], return_index=True)[1]]
        return np.array_split(random.permutation(self.usable[chosen]), max(1, -(-len(chosen) // size)))

    def groups(self, targets: int) -> Iterator[Index]:
        """All articles once, so many at a time."""
        return (self.usable[low : low + targets] for low in range(0, len(self.usable), targets))

    def batch(self, index: Index) -> Batch:
        """Passages as posts, the rests as articles; what is drawn follows torch's random state."""
        random = np.random.default_rng(int(torch.randint(2**62, ())))
        lengths = self.articles.lengths[index]
        starts = self.articles.sentences[self.articles.texts[index]]
        sizes = np.minimum(random.integers(SHORTEST, LONGEST + 1, len(index)), lengths // 2)
        lows = (random.random(len(index)) * (lengths - sizes + 1)).astype(np.int64)
        headed = (
            (random.random(len(index)) < HEADLINES) & (self.headlines[index] > 0) & (self.headlines[index] < lengths)
        )
        sizes, lows = np.where(headed, self.headlines[index], sizes), np.where(headed, 0, lows)
        inside = np.arange(lengths.sum()) - np.repeat(offsets_of(lengths)[:-1], lengths)  # 0 1 2 … of each article
        owners, words = np.repeat(np.arange(len(index)), lengths), self.articles.ids[ranges(starts, lengths)]
        passage = (np.repeat(lows, lengths) <= inside) & (inside < np.repeat(lows + sizes, lengths))
        sides = []
        for side in (~passage, passage):
            chosen = np.flatnonzero(side)
            kept = random.random(len(chosen)) >= DROPPED
            kept[np.unique(owners[chosen], return_index=True)[1]] = True  # a text keeps its first word, if nothing else
            chosen = chosen[kept]
            ends = offsets_of(np.bincount(owners[chosen], minlength=len(index)))
            tokens = Tokens(words[chosen], ends, np.arange(len(index) + 1))
            sides.append(text_blocks(tokens, np.arange(len(index))))
        return Batch(sides[0], sides[1], torch.eye(len(index), dtype=torch.bool))
