"""Held-out posts that stay in a folder, as numbers with the articles they are about, so that updates can be tested.

Of a post stay what the model reads it by: its terms and how often it holds each (lexical models), the ids of its words
in their order (networks), or its vector (an encoder).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.data.posts.dataset import Pairs
from ensue.nn.validation import MAX_COUNT, require_ids, require_table
from ensue.text.lexical import COUNTED, Arrays, Counted, Terms, chosen_terms
from ensue.text.tokens import Tokens

FILE = "remembered.safetensors"
_TERMS, _TOKENS, _VECTORS = ("owners", "keys", "counts"), ("ids", "sentences", "texts"), "vectors"


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

    num: int
    pairs: Pairs
    terms: Mapping[Counted, Terms]
    tokens: Tokens | None = None
    vectors: Tensor | None = None

    def select(self, chosen: slice | Index) -> Remembered:
        """Some of the posts, whose numbers rise, without what they are about."""
        index = np.arange(self.num)[chosen]
        return replace(
            self,
            num=len(index),
            pairs=np.empty((0, 2), np.int64),
            terms={kind: chosen_terms(terms, index) for kind, terms in self.terms.items()},
            tokens=self.tokens.select(index) if self.tokens is not None else None,
            vectors=self.vectors[torch.from_numpy(index)] if self.vectors is not None else None,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Everything as tensors by name, read back by :meth:`restored`."""
        arrays: Arrays = {"num": np.array(self.num), "pairs": self.pairs}
        for kind, (owners, keys, counts) in self.terms.items():
            arrays[f"{kind}.owners"], arrays[f"{kind}.counts"] = owners.astype(np.int32), counts.astype(np.int32)
            arrays[f"{kind}.keys"] = keys.view(np.int64)
        for name in _TOKENS if self.tokens is not None else ():
            arrays[f"tokens.{name}"] = getattr(self.tokens, name)
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return tensors | ({_VECTORS: self.vectors} if self.vectors is not None else {})

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor]) -> Remembered:
        """Return what :meth:`tensors` gave; :func:`ensue.tasks.link.encode.require_remembered` checks the rest.

        Raises:
            ValueError: terms do not fit the posts.
        """
        require_table("num", tensors["num"], torch.int64, [])
        require_ids("num", tensors["num"], MAX_COUNT, 1)
        num, terms = int(tensors["num"]), dict[Counted, Terms]()
        for kind in COUNTED:
            if f"{kind}.keys" in tensors:
                owners, keys, counts = (tensors[f"{kind}.{name}"] for name in _TERMS)
                require_table(f"{kind}.owners", owners, torch.int32, [None])
                require_table(f"{kind}.keys", keys, torch.int64, [len(owners)])
                require_table(f"{kind}.counts", counts, torch.int32, [len(owners)])
                require_ids(f"{kind}.owners", owners, num)
                require_ids(f"{kind}.counts", counts, MAX_COUNT, 1)
                if bool((owners[1:] < owners[:-1]).any()):
                    raise ValueError(f"{kind}.owners falls somewhere")
                terms[kind] = owners.long().numpy(), keys.numpy().view(np.uint64), counts.long().numpy()
        tokens = None
        if "tokens.ids" in tensors:
            ids, sentences, texts = (tensors[f"tokens.{name}"].numpy() for name in _TOKENS)
            tokens = Tokens(ids, sentences, texts)
        return cls(num, tensors["pairs"].numpy(), terms, tokens, tensors.get(_VECTORS))
