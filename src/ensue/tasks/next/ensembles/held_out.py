"""Held-out targets of an ensemble: a random sample, its ranking quality, and the calibration of its probabilities."""

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
"""Length of the list whose NDCG chooses the weight of co-occurring items."""
POWERS = tuple(2.0 ** (step / 4) for step in range(-2, 13))
"""Grid of a final factor on all weights: items beyond the candidates make probabilities too even."""
POWERED = 2_000
"""Approximate number of held-out targets on which that factor is chosen."""
TRIED = 20_000
"""Held-out targets, drawn at random, on which the numbers are chosen."""


def drawn(model: Network, valid: Histories, device: torch.device) -> list[tuple[Index, Batch]]:
    """Return a random sample of windows with about ``TRIED`` targets: positions of the target steps, and batches."""
    windows = Windows(valid, model.reach)
    batches = []
    num_targets = 0
    # A fixed seed: all weights are chosen on the same targets.
    order = np.random.default_rng(0).permutation(len(windows))
    for index in evaluation_batches(order, windows.stops - windows.target_starts, AT_ONCE):
        batches.append((windows.positions(index), windows.batch(index).to(device)))
        num_targets += batches[-1][1].num_targets
        if num_targets >= TRIED:
            break
    return batches


def mean_gain(model: Network, batches: list[tuple[Index, Batch]], hidden: Histories | None) -> float:
    """Return the mean NDCG of the targets; earlier items of ``hidden`` are no candidates."""
    ranks = []
    for positions, batch in batches:
        scores = model(batch).scores.cpu().numpy()
        if hidden is not None:
            hide_seen(scores, hidden, positions)
        ranks.append(metrics.ranks(scores, batch.targets.cpu().numpy()))
    return float(metrics.gain(np.concatenate(ranks), AT).mean())


def likeliest_power(model: Network, batches: list[tuple[Index, Batch]], hidden: Histories | None) -> float:
    """Return the factor among ``POWERS`` under which the targets are likeliest among all items."""
    sums = torch.zeros(len(POWERS))
    num_targets = 0
    for positions, batch in batches:
        scores = model(batch).scores.cpu()
        if hidden is not None:
            hide_seen(scores.numpy(), hidden, positions)
        target_scores = scores.gather(1, batch.targets.cpu()[:, None])[:, 0]
        # A hidden target has probability 0 under every factor.
        is_candidate = ~target_scores.isneginf()
        for column, power in enumerate(POWERS):
            # The logarithm of a softmax with scores multiplied by power.
            sums[column] += (power * target_scores - (power * scores).logsumexp(1))[is_candidate].sum()
        num_targets += batch.num_targets
        if num_targets >= POWERED:
            break
    return float(POWERS[int(sums.argmax())])
