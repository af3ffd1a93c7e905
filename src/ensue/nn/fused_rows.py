"""Long rows of scores, compiled: their cross-entropy, the log of the sum of exp, of a mixture, and the few highest.

Each function gives ``None`` where nothing is compiled or the tensor is not one of float32 on the CPU whose rows lie in
one piece each; the caller then goes on in torch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ensue.kernels import library
from ensue.nn.addresses import address

_MOST = 256
"""So many of a row are kept at most; to sort all is faster where more are wanted."""


def _fits(scores: Tensor) -> bool:
    plain = scores.dtype == torch.float32 and scores.device.type == "cpu" and not scores.requires_grad
    return plain and scores.dim() == 2 and scores.numel() > 0 and scores.stride(1) == 1 and scores.stride(0) >= 0


def log_totals(scores: Tensor) -> Tensor | None:
    """(rows,) logsumexp of (rows, many)."""
    functions = library()
    if functions is None or not _fits(scores):
        return None
    totals = scores.new_empty(len(scores))
    sizes = (*scores.shape, scores.stride(0))
    functions.ensue_log_totals(scores.data_ptr(), *sizes, totals.data_ptr(), torch.get_num_threads())
    return totals


def softmax_errors(scores: Tensor, bias: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor] | None:
    """Cross-entropy of (rows, many) scores, which lack their biases, and its gradient in their place.

    Args:
        scores: (rows, many); overwritten by the gradient times the row's sum.
        bias: (many,).
        wanted: (rows,) the place in each row that came.

    Returns:
        (rows,) sums, and (rows,) losses in nats.

    Raises:
        IndexError: there is no such place.
        ValueError: ``bias`` or ``wanted`` are of another length or type.
    """
    functions, wanted = library(), wanted.contiguous()
    fitting = _fits(scores) and scores.is_contiguous() and bias.dtype == scores.dtype and bias.is_contiguous()
    if functions is None or not fitting:
        return None
    (rows, width), (sums, losses) = scores.shape, scores.new_empty(2, len(scores))
    inputs = address("bias", bias, torch.float32, (width,)), address("wanted", wanted, torch.int64, (rows,))
    outputs = sums.data_ptr(), losses.data_ptr()
    functions.ensue_softmax_errors(scores.data_ptr(), rows, width, *inputs, *outputs, torch.get_num_threads())
    return sums, losses


def log_mixture(totals: Tensor, factor: float, rows: int, cells: Tensor, added: Tensor) -> Tensor | None:
    """(rows, many) logarithms of ``factor`` x ``totals`` and what is added to ``cells``, counted through all rows.

    Raises:
        IndexError: a cell lies outside the rows.
        ValueError: ``cells`` and ``added`` are of other types or not of one length.
    """
    functions = library()
    if functions is None or not _fits(totals[None]) or cells.device != totals.device:
        return None
    out, cells, added = totals.new_empty(rows, len(totals)), cells.contiguous(), added.contiguous()
    count = len(cells)
    inputs = address("cells", cells, torch.int64, (count,)), address("added", added, torch.float32, (count,))
    functions.ensue_log_mixture(totals.data_ptr(), factor, *out.shape, *inputs, count, out.data_ptr())
    return out


def highest(scores: Tensor, k: int) -> tuple[Tensor, Tensor] | None:
    """The ``k`` highest of each row of (rows, many), falling, and their places; of equals the earlier."""
    functions, k = library(), min(k, scores.shape[1])
    if functions is None or not 0 < k <= _MOST or not _fits(scores):
        return None
    best = scores.new_empty(len(scores), k)
    places = torch.empty(len(scores), k, dtype=torch.int64)
    sizes = (*scores.shape, scores.stride(0), k)
    functions.ensue_topk(scores.data_ptr(), *sizes, best.data_ptr(), places.data_ptr(), torch.get_num_threads())
    return best, places
