"""What is counted, and what a ranking is worth, one target at a time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from ensue.tasks.next.settings import CountingSettings


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
