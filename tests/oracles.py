"""The papers' equations as literal loops in float64: one history, one step, one user at a time. Slow and plain."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ensue.tasks.next.baselines.counting import CountingSettings
from ensue.tasks.next.models.hidan import HiDANSettings


def elu(vector: Tensor) -> Tensor:
    return torch.stack([x if x > 0 else torch.exp(x) - 1 for x in vector])


def softmax(scores: Sequence[Tensor]) -> list[Tensor]:
    highest = max(float(score) for score in scores)
    powers = [torch.exp(score - highest) for score in scores]
    return [power / sum(powers) for power in powers]


def hidan_age(settings: HiDANSettings, earlier: float, now: float) -> int:
    """The interval n of (t_{n-1}, t_n] that holds ``now - earlier``; 0 for age 0; the last one beyond T_max."""
    apart, width = now - earlier, settings.max_hours * 3600 / settings.intervals
    for interval in range(settings.intervals):
        if apart <= interval * width:
            return interval
    return settings.intervals


def hidan_scores(
    settings: HiDANSettings, weights: Mapping[str, Tensor], ids: Sequence[int], times: Sequence[float]
) -> Tensor:
    """(ids,) scores of Eq. 10 after the whole prefix ``ids``; padding and unknown at -inf.

    The window is the band of the module's departures: user j heeds the ``window - 1`` users before it, and the answer
    the latest ``window`` users.
    """
    window = settings.window or len(ids)
    embedded = [  # Eq. 1
        elu(weights["dense.weight"] @ weights["users.weight"][id] + weights["dense.bias"]) for id in ids
    ]
    fused = []
    for j, own in enumerate(embedded):
        before = range(max(0, j - window + 1), j)
        if not settings.user_attention:  # HiDAN-NUA
            fused.append(torch.stack([*(embedded[k] for k in before), own]).mean(0))
            continue
        context = torch.zeros_like(own)
        if len(before):
            target = weights["target.weight"] @ own + weights["target.bias"]
            keys = [weights["context.weight"] @ embedded[k] + weights["context.bias"] for k in before]
            alpha = softmax([key @ target for key in keys])  # Eq. 2
            for share, k in zip(alpha, before, strict=True):  # Eq. 3
                context = context + share * embedded[k]
        gate = torch.sigmoid(  # Eq. 5
            weights["gate_own.weight"] @ own + weights["gate_context.weight"] @ context + weights["gate_own.bias"]
        )
        fused.append(gate * own + (1 - gate) * context)  # Eq. 6
    heeded = range(max(0, len(ids) - window), len(ids))
    logits = []
    for j in heeded:
        if not settings.cascade_attention:  # HiDAN-NCA
            logits.append(torch.zeros((), dtype=torch.float64))
            continue
        important = elu(weights["importance.weight"] @ fused[j] + weights["importance.bias"])
        if settings.time_decay:
            one_hot = torch.zeros(settings.intervals + 1, dtype=torch.float64)
            one_hot[hidan_age(settings, times[j], times[-1])] = 1
            important = important * torch.sigmoid(weights["decay"].T @ one_hot + weights["decay_bias"])  # Eq. 7
        logits.append(weights["importance_score"] @ important)
    cascade = torch.zeros_like(fused[0])
    for share, j in zip(softmax(logits), heeded, strict=True):  # Eqs. 8-9
        cascade = cascade + share * fused[j]
    scores = weights["output.weight"] @ cascade + weights["output.bias"]  # Eq. 10
    scores[:2] = -torch.inf
    return scores


def hidan_loss(
    settings: HiDANSettings, weights: Mapping[str, Tensor], cascades: Sequence[tuple[Sequence[int], Sequence[float]]]
) -> float:
    """Eq. 11 over whole cascades, as a mean over the targets."""
    total, targets = 0.0, 0
    for ids, times in cascades:
        for i in range(1, len(ids)):
            scores = hidan_scores(settings, weights, ids[:i], times[:i])
            total -= float(scores[ids[i]] - torch.log(torch.exp(scores[2:]).sum()))
            targets += 1
    return total / targets


def counting_scores(
    settings: CountingSettings, gap: int, histories: Sequence[Sequence[int]], prefix: Sequence[int], num_ids: int
) -> list[float]:
    """(ids,) weights of the co-occurrence formula after ``prefix``; not yet logarithms. ``gap`` 0 is popularity."""
    events: Counter[int] = Counter()
    pairs: defaultdict[tuple[int, int], float] = defaultdict(float)
    totals: defaultdict[int, float] = defaultdict(float)
    for history in histories:
        events.update(history)
        for i, earlier in enumerate(history):
            for apart in range(1, gap + 1):
                if i + apart < len(history):
                    pairs[earlier, history[i + apart]] += 1 / apart
                    totals[earlier] += 1 / apart
    scores = []
    for candidate in range(num_ids):
        score = events[candidate] / sum(events.values())
        if gap:
            score *= settings.popularity
            for apart, earlier in enumerate(reversed(prefix), start=1):
                if apart <= gap and totals[earlier]:
                    score += pairs[earlier, candidate] / totals[earlier] ** settings.power / apart
        scores.append(score)
    return scores


def rank(scores: Sequence[float], target: int) -> int:
    """1 for the best; every other candidate that scores the same stands above the target."""
    above = 0
    for candidate, score in enumerate(scores):
        if candidate != target and score >= scores[target]:
            above += 1
    return above + 1


def measures(rank: float, at: Sequence[int]) -> list[float]:
    """MRR, then hit, MRR and NDCG at every cut-off, of one target."""
    found = [1 / rank]
    for k in at:
        inside = rank <= k
        found += [float(inside), 1 / rank if inside else 0.0, 1 / math.log2(rank + 1) if inside else 0.0]
    return found


def micro(ranks: Sequence[Sequence[float]], at: Sequence[int]) -> list[float]:
    """Means over all targets of all sequences."""
    rows = [measures(rank, at) for sequence in ranks for rank in sequence]
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def macro(ranks: Sequence[Sequence[float]], at: Sequence[int]) -> list[float]:
    """Means over the targets of each sequence, then over the sequences that have any."""
    rows = [micro([sequence], at) for sequence in ranks if sequence]
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]
