"""Top-k of large score arrays and their normaliser; approximate search with faiss."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from ensue import kernels
from ensue.errors import SettingError
from ensue.nn.device import is_float32_on_cpu

_LINES = 64
_BRIEF = 2**15
"""So many scores are looked through before the columns are laid out."""
_CACHED = 2**18
"""Scores normalised at once."""
_MAX_K = 256
"""Largest k of the compiled kernel: to sort all scores is faster where more are wanted."""


def has_plain_rows(scores: Tensor) -> bool:
    """Return whether kernels take (rows, many) scores: each row is contiguous, and no gradient is needed."""
    plain = is_float32_on_cpu(scores) and not scores.requires_grad and scores.dim() == 2 and scores.numel() > 0
    return plain and scores.stride(1) == 1 and scores.stride(0) >= 0


def _compiled_topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Compute :func:`topk`; of equal scores the earlier comes first."""
    (rows, width), k = scores.shape, min(k, scores.shape[1])
    best, places = scores.new_empty(rows, k), torch.empty(rows, k, dtype=torch.int64)
    kernels.call(
        "topk", numbers=scores.data_ptr(), width=width, step=scores.stride(0), best=best, places=places,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return best, places


@kernels.compiled(
    _compiled_topk, when=lambda scores, k: 0 < min(k, scores.shape[1]) <= _MAX_K and has_plain_rows(scores)
)
def topk(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` highest of each row, falling, and their places; all of them where there are fewer.

    A row is laid out as 64 lines of columns, and the highest of each column comes first: only the ``k`` columns whose
    highest are highest can hold one of the ``k`` highest of all. To look for so few among all is what takes the time.

    Args:
        scores: (rows, many).
        k: how many.
    """
    width = scores.shape[1]
    columns = width // _LINES
    if columns <= 4 * k or scores.numel() <= _BRIEF:
        return scores.topk(min(k, width), dim=1)
    whole = columns * _LINES
    lines = scores[:, :whole].reshape(len(scores), _LINES, columns)
    chosen = lines.amax(1).topk(k, dim=1).indices
    held = lines.gather(2, chosen[:, None].expand(-1, _LINES, -1)).flatten(1)
    best, places = torch.cat([held, scores[:, whole:]], dim=1).topk(k, dim=1)
    line = torch.div(places, k, rounding_mode="floor")
    inside = line * columns + chosen.gather(1, places % k)
    return best, torch.where(places < k * _LINES, inside, places + (whole - k * _LINES))


def _compiled_log_totals(scores: Tensor) -> Tensor:
    totals = scores.new_empty(len(scores))
    kernels.call(
        "log_totals", numbers=scores.data_ptr(), width=scores.shape[1], step=scores.stride(0), totals=totals,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    return totals


@kernels.compiled(_compiled_log_totals, when=has_plain_rows)
def log_totals(scores: Tensor) -> Tensor:
    """(rows,) logsumexp of (rows, ids), a few rows at a time: what it needs beside them stays in the cache."""
    totals, size = scores.new_empty(len(scores)), max(1, _CACHED // scores.shape[1])
    for low in range(0, len(scores), size):
        totals[low : low + size] = scores[low : low + size].logsumexp(dim=1)
    return totals


def import_faiss() -> ModuleType:
    """The library.

    Raises:
        SettingError: the extra is missing.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of how its types are made
            import faiss
    except ImportError as error:
        raise SettingError("approximate search needs the extra: pip install 'ensue[ann]'") from error
    return faiss


def has_faiss() -> bool:
    """Return whether faiss is installed."""
    return find_spec("faiss") is not None
