"""Top-k of large tensors of scores and their normaliser; approximate search with faiss."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from ensue import topk as arrays
from ensue.lazy import require_extra, torch

if TYPE_CHECKING:
    from torch import Tensor


def _is_array(scores: Tensor) -> bool:
    """Return whether scores can be read as an array."""
    return scores.is_cpu and not scores.requires_grad


def topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` highest scores of each row, falling, and their columns; all of them where there are fewer.

    Args:
        scores: (rows, columns).
        k: how many.
    """
    if not _is_array(scores):
        return torch.topk(scores, min(k, scores.shape[1]), dim=1)
    best, columns = arrays.topk(scores.numpy(), k)
    return torch.from_numpy(best), torch.from_numpy(columns)


def log_totals(scores: Tensor) -> Tensor:
    """Return (rows,) the logarithm of the sum of exp(scores) over each row of (rows, columns)."""
    if not _is_array(scores):
        return scores.logsumexp(dim=1)
    return torch.from_numpy(arrays.log_totals(scores.numpy()))


def import_faiss() -> ModuleType:
    """Return the library.

    Raises:
        SettingError: the extra is missing.
    """
    require_extra("faiss", "approximate search", "ann")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how its types are made
        import faiss
    return faiss


def has_faiss() -> bool:
    """Return whether faiss is installed."""
    return find_spec("faiss") is not None
