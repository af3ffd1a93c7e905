"""Addresses of tensors for the compiled kernels, which know neither types nor shapes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ensue.nn.validation import require_table


def address(name: str, tensor: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> int:
    """Return where a tensor begins in memory, once it is what a kernel reads or writes there.

    Args:
        name: what the message calls it.
        tensor: any tensor.
        dtype: its type, exactly.
        shape: its sizes.

    Returns:
        The address of its first element, valid as long as the tensor lives.

    Raises:
        ValueError: another type or shape, gaps between its elements, or not in the CPU's memory.
    """
    if tensor.dtype is not dtype or tensor.shape != shape:
        require_table(name, tensor, dtype, shape)
    if not tensor.is_contiguous() or not tensor.is_cpu:
        raise ValueError(f"{name} is not contiguous in CPU memory")
    return tensor.data_ptr()
