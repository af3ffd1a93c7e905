"""Milliseconds of alpha-entmax, forward and backward, as ratios to the ``entmax`` package's bisection in one run.

Every row has a learned alpha a head, from 1.1 to 1.9, or one fixed alpha; the gradient is taken in scores and, where it
is learned, in alpha. Shapes are those of a Transformer's heads over a tweet, of the star of an article of 1,000 words
with 6 heads, and of the ring of 200 words, whose 5 keys come as the slowest axis in memory, as the ring makes them, or
as the fastest. The code in torch, which is used where nothing is compiled, and softmax stand beside them. Times are of
the processor, on one thread.

    python benchmarks/normalisers.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import entmax as package
import torch
from torch import Tensor

from ensue import kernels
from ensue.nn.normalisers import entmax
from ensue_studies.results import provenance

REPEATS, BISECTIONS = 9, 50
SHAPES = {"heads": (64, 8, 30, 30), "star": (64, 6, 1, 1000), "ring": (64, 6, 200, 5), "ring, copied": (64, 6, 200, 5)}
Call = Callable[[Tensor, "float | Tensor"], Tensor]


def bisect(scores: Tensor, alpha: float | Tensor) -> Tensor:
    """The peer."""
    weights: Tensor = package.entmax_bisect(scores, alpha, n_iter=BISECTIONS)
    return weights


def uncompiled(scores: Tensor, alpha: float | Tensor) -> Tensor:
    """Ours without kernels; which path is taken is settled forward."""
    kernels.load("off")
    weights = entmax(scores, alpha)
    kernels.load(kernels.LEVELS[-1])
    return weights


CALLS: dict[str, Call] = {
    "ours": entmax,
    "in_torch": uncompiled,
    "bisection": bisect,
    "softmax": lambda scores, _: scores.softmax(-1),
}


def seconds(call: Call, scores: Tensor, alpha: float | Tensor, grad: Tensor) -> float:
    """One call, forward and backward."""
    start_time = time.process_time()
    call(scores, alpha).backward(grad)  # type: ignore[no-untyped-call]
    return time.process_time() - start_time


def measure(name: str, fixed: float | None) -> dict[str, object]:
    """One row; the calls take turns, so that a busy moment meets them all."""
    torch.manual_seed(0)
    shape = SHAPES[name]
    scores = torch.randn(shape)
    grad = torch.randn(shape)
    if name == "ring":
        scores, grad = (part.movedim(-1, 0).contiguous().movedim(0, -1) for part in (scores, grad))
    learned = torch.linspace(1.1, 1.9, shape[1]).view(-1, 1, 1)
    results: dict[str, list[float]] = {kind: [] for kind in CALLS}
    for turn in range(REPEATS + 1):
        for kind, call in CALLS.items():
            alpha = learned.clone().requires_grad_() if fixed is None else fixed
            took = seconds(call, scores.detach().requires_grad_(), alpha, grad)
            if turn:  # the first warms up
                results[kind].append(took)

    def ratio(kind: str) -> float:
        pairs = zip(results["bisection"], results[kind], strict=True)
        return round(statistics.median(peer / mine for peer, mine in pairs), 1)

    return {
        "shape": name,
        "size": list(shape),
        "alpha": fixed or "learned",
        **{f"{kind}_ms": round(1e3 * statistics.median(own), 2) for kind, own in results.items()},
        "times_faster": ratio("ours"),
        "in_torch_times_faster": ratio("in_torch"),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure(name, fixed) for name in SHAPES for fixed in (None, 1.5, 2.0)]
    print(*rows, sep="\n")
    if args.json:
        results = {
            **provenance(),
            "kernels": kernels.level(),
            "threads": 1,
            "clock": "processor",
            "tables": {"entmax": rows},
        }
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
