"""HiDAN's equations, one event at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ensue.tasks.next.settings import HiDANSettings
from tests.oracles import softmax


def elu(vector: Tensor) -> Tensor:
    return torch.stack([x if x > 0 else torch.exp(x) - 1 for x in vector])


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
