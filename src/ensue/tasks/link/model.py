"""What a network of task ``link`` is to the verbs, and what an encoder of texts is to the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ensue.tasks.link.batch import Batch, Block, Words


class TextEncoder(Protocol):
    """An ``nn.Module`` that makes one vector of a text."""

    @property
    def width(self) -> int:
        """Numbers in a text's vector."""
        ...

    def __call__(self, words: Words) -> Tensor:
        """(rows, width); 0 for a text without a word."""
        ...

    def weigh(self, words: Words) -> Tensor:
        """(rows, length) each word's share in what its text's vector attended to; rows sum to 1."""
        ...

    def parts(self, words: Words, others: Tensor) -> Tensor:
        """(rows, others, length) what each word adds to the product of its text's vector with (rows, others, width)."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """As torch has it."""
        ...


@runtime_checkable
class LearnsAlphas(Protocol):
    """An encoder whose attention learns how sparse it is."""

    def alphas(self) -> dict[str, list[float]]:
        """The alpha of each head, by step and cycle."""
        ...


class Model(Protocol):
    """An ``nn.Module`` that puts articles and posts into one space."""

    @property
    def encoder(self) -> TextEncoder:
        """What makes one vector of the vectors of a text's words."""
        ...

    @property
    def width(self) -> int:
        """Numbers in a text's vector."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        ...

    def read(self, blocks: Sequence[Block], num_texts: int) -> Tensor:
        """(texts, width) vectors of length 1; 0 for texts that no block holds."""
        ...

    def loss(self, batch: Batch) -> Tensor:
        """The mean over the batch's related pairs."""
        ...

    def grow(self, num_words: int) -> None:
        """Rows for words that are new."""
        ...

    def place(self, ids: Tensor, vectors: Tensor, *, tuned: bool) -> None:
        """Give some words the vectors of a file; those that are not ``tuned`` stay as they are."""
        ...

    def eval(self) -> Model:
        """As torch has it."""
        ...

    def train(self, mode: bool = True) -> Model:
        """As torch has it."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """As torch has it."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> object:
        """As torch has it."""
        ...
