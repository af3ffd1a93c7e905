"""Held-out targets of an ensemble: some of them drawn, how they rank, and by which power their chances are right."""

from __future__ import annotations

import numpy as np
import torch

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.tasks.next.baselines.session_knn import AT_ONCE
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.dataset import Windows, hide_seen
from ensue.tasks.next.model import Network
from ensue.training.batches import evaluation_batches

AT = 20
"""Length of the list whose NDCG chooses how far candidates lean."""
POWERS = tuple(2.0 ** (step / 4) for step in range(-2, 13))
"""Grid of a final factor on all weights: items beyond the candidates make probabilities too even."""
POWERED = 2_000
"""Held-out targets, about, on which that is chosen."""
TRIED = 20_000
"""Held-out targets, drawn at random, on which the numbers are chosen."""


def drawn(model: Network, valid: Histories, device: torch.device) -> list[tuple[Index, Batch]]:
    """Windows drawn at random, of about ``TRIED`` targets: where each target step stands, and batches."""
    windows = Windows(valid, model.reach)
    found = []
    num_targets = 0
    order = np.random.default_rng(0).permutation(len(windows))
    for index in evaluation_batches(order, windows.stops - windows.target_starts, AT_ONCE):
        found.append((windows.positions(index), windows.batch(index).to(device)))
        num_targets += found[-1][1].num_targets
        if num_targets >= TRIED:
            break
    return found


def mean_gain(model: Network, tried: list[tuple[Index, Batch]], hidden: Histories | None) -> float:
    """NDCG on some targets; what ``hidden`` holds before is no candidate."""
    ranks = []
    for positions, batch in tried:
        scores = model(batch).scores.cpu().numpy()
        if hidden is not None:
            hide_seen(scores, hidden, positions)
        ranks.append(metrics.ranks(scores, batch.targets.cpu().numpy()))
    return float(metrics.gain(np.concatenate(ranks), AT).mean())


def likeliest_power(model: Network, tried: list[tuple[Index, Batch]], hidden: Histories | None) -> float:
    """Return the factor among ``POWERS`` under which the targets are likeliest among all items."""
    sums = torch.zeros(len(POWERS))
    num_targets = 0
    for positions, batch in tried:
        scores = model(batch).scores.cpu()
        if hidden is not None:
            hide_seen(scores.numpy(), hidden, positions)
        own = scores.gather(1, batch.targets.cpu()[:, None])[:, 0]
        some = ~own.isneginf()
        for at, power in enumerate(POWERS):
            sums[at] += (power * own - (power * scores).logsumexp(1))[some].sum()
        num_targets += batch.num_targets
        if num_targets >= POWERED:
            break
    return float(POWERS[int(sums.argmax())])
