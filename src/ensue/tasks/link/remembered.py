"""Held-out posts that stay in a folder, as numbers with the articles they are about, so that updates can be tested.

Of a post stay what the model reads it by: its terms and how often it holds each (lexical models), the ids of its words
in their order (networks), or its vector (an encoder).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ensue.data.histories import Index
from ensue.data.posts.dataset import Pairs
from ensue.nn.validation import MAX_COUNT, require_ids, require_table
from ensue.text.lexical import Counted, chosen_terms
from ensue.text.terms import Terms
from ensue.text.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Remembered:
    """Posts as numbers, and the articles they are about.

    Attributes:
        num: how many posts.
        pairs: (links, 2) the number of an article of the index, and of a post about it.
        terms: by kind, of lexical models.
        tokens: of networks.
        vectors: (posts, width) of an encoder.
    """

    num: Annotated[int, Field(ge=1, lt=MAX_COUNT)]
    pairs: Pairs
    terms: Mapping[Counted, Terms]
    tokens: Tokens | None = None
    vectors: Annotated[Tensor, torch.float32] | None = None

    def __post_init__(self) -> None:
        """Check that the columns are of as many posts.

        Raises:
            ValueError: they are not.
        """
        require_table("pairs", self.pairs, torch.int64, [None, 2])
        require_ids("the posts of pairs", self.pairs[:, 1], self.num)
        for kind, terms in self.terms.items():
            terms.require(kind, self.num)
        if self.tokens is not None and len(self.tokens) != self.num:
            raise ValueError(f"tokens of {len(self.tokens)} posts where {self.num} are stored")

    def select(self, chosen: slice | Index) -> Remembered:
        """Return some of the posts, in rising order."""
        index = np.arange(self.num)[chosen]
        articles, posts = self.pairs[np.isin(self.pairs[:, 1], index)].T
        return replace(
            self,
            num=len(index),
            pairs=np.stack([articles, np.searchsorted(index, posts)], axis=1),
            terms={kind: chosen_terms(terms, index) for kind, terms in self.terms.items()},
            tokens=self.tokens.select(index) if self.tokens is not None else None,
            vectors=self.vectors[torch.from_numpy(index)] if self.vectors is not None else None,
        )
