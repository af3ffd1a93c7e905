"""Ranges of items as padded blocks of similar length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index, Mask
from ensue.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor


class Block(NamedTuple):
    """Ranges of items, such as the words of texts, as one padded block, longest first.

    Attributes:
        items: (rows, length) ids of words, or numbers of passages; 0 at padding.
        mask: (rows, length) True where an item is; every row holds at least one.
        lengths: (rows,) number of items, always on the CPU.
        rows: (rows,) the number of each range in the batch.
    """

    items: Tensor
    mask: Tensor
    lengths: Tensor
    rows: Tensor

    def to(self, device: torch.device) -> Block:
        """Return the block on another device."""
        items, mask, rows = (tensor.to(device, non_blocking=True) for tensor in (self.items, self.mask, self.rows))
        return Block(items, mask, self.lengths, rows)


class ArrayBlock(NamedTuple):
    """The arrays of a :class:`Block`."""

    items: Index
    mask: Mask
    lengths: Index
    rows: Index


def padded_blocks(
    starts: Index, lengths: Index, values: npt.NDArray[np.integer], max_items: int, max_pairs: int = 2**62
) -> tuple[Block, ...]:
    """Return :func:`padded_arrays` as tensors."""
    blocks = padded_arrays(starts, lengths, values, max_items, max_pairs)
    return tuple(Block(*map(torch.from_numpy, block)) for block in blocks)


def padded_arrays(
    starts: Index, lengths: Index, values: npt.NDArray[np.integer], max_items: int, max_pairs: int = 2**62
) -> Iterator[ArrayBlock]:
    """Yield ranges of ``values`` as blocks in each of which no row is half as long as the longest, or shorter.

    Args:
        starts: (ranges,) where each begins.
        lengths: (ranges,) number of items; a range without one is in no block.
        values: the items of all ranges.
        max_items: of a block, padding included; a longer range has a block of its own.
        max_pairs: of items of the same row in a block.
    """
    # Lengths [3 0 9 4 8]: blocks of the ranges [2 4] (9 and 8 items) and [3 0] (4 and 3).
    order = np.argsort(-lengths, kind="stable")
    order = order[: int((lengths > 0).sum())]
    falling = lengths[order]
    low = 0
    while low < len(order):
        longest = int(falling[low])
        # Rows of the longest length that fit the limits; at least one.
        max_rows = max(1, min(max_pairs // longest**2, max_items // longest))
        # Lengths fall, so the first row of half the longest length or less ends the block.
        high = min(int(np.searchsorted(-falling, -(longest // 2), side="left")), low + max_rows)
        rows = order[low:high]
        # (rows, longest) positions of the items; those of padding repeat the last one.
        positions = starts[rows][:, None] + np.arange(longest)
        stops = (starts + lengths)[rows][:, None]
        items = values[np.minimum(positions, stops - 1)].astype(np.int64)
        yield ArrayBlock(items * (positions < stops), positions < stops, lengths[rows], rows)
        low = high
