"""Interfaces of the models of task ``classify``: networks and baselines, which do not inherit them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.tasks.classify.dataset import Sides

if TYPE_CHECKING:  # of networks alone
    from torch import Tensor, nn

    from ensue.tasks.classify.passages import PooledOutput, TextBatch


class Shape(NamedTuple):
    """Properties of the data that determine the network."""

    num_words: int
    """Ids, padding and unknown included; 0 where sentences are encoded."""
    dim: int
    """Width of a word's vector, or of an encoded sentence's."""
    num_labels: int
    architecture: str


@runtime_checkable
class TextNetwork(Protocol):
    """An ``nn.Module`` that is made of ``(settings, shape)``; its ``table`` holds the vectors of words."""

    def __call__(self, batch: TextBatch) -> PooledOutput:
        """Scores (records, labels) before normalising, and what was pooled on the way."""

    def loss(self, batch: TextBatch) -> Tensor:
        """The mean over the batch's records, in nats."""

    def place(self, ids: Tensor, vectors: Tensor, *, tuned: bool) -> None:
        """Give some words the vectors of a file; those that are not ``tuned`` stay as they are."""

    def grow(self, num_words: int) -> None:
        """Rows for words that are new."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """See :class:`torch.nn.Module`."""


class TextBaseline(Protocol):
    """Model that scores texts without a network."""

    def count(self, sides: Sides, targets: Index) -> None:
        """Learn encoded texts, (texts,) codes of their labels; what was learned before stays."""

    def scores(self, sides: Sides) -> Floats:
        """Return scores before normalising, (texts, labels)."""

    def attributions(self, sides: Sides, labels: Index) -> Floats:
        """(words of all sides,) how much each word moves the score of its text's label (texts,), up or down."""

    def grow(self, num_words: int) -> None:
        """Make room for words that are new."""


Model: TypeAlias = TextNetwork | TextBaseline
