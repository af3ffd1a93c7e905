"""Interfaces of task ``link``: of a network, and of its text encoder."""

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
        """See :class:`torch.nn.Module`."""
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
        """The encoder of word vectors into a text vector."""
        ...

    @property
    def width(self) -> int:
        """Numbers in a text's vector."""
        ...

    @property
    def device(self) -> torch.device:
        """Device of the network."""
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
        """See :class:`torch.nn.Module`."""
        ...

    def train(self, mode: bool = True) -> Model:
        """See :class:`torch.nn.Module`."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """See :class:`torch.nn.Module`."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> object:
        """See :class:`torch.nn.Module`."""
        ...
