"""A baseline for a stream of clicks: the articles that most often followed the last one lately.

The targets are those of ``globo.py``: clicks of the sessions that begin after the first day, each after a click of the
same session at most half an hour ago. An article is ranked by how often it was among the latest ``LATEST`` that
followed the last article, then by its clicks in the last 15 minutes; ties count against the target, and articles of the
session are no answers. Every click is counted once it was ranked, without delay.

    python benchmarks/followers.py CLICKS [--json FILE]
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ensue import metrics
from ensue_studies.results import provenance, write_result

DAY, HOUR, GAP, WINDOW = 86400, 3600, 1800, 900
"""Seconds; those between clicks of a session at most, and those of popularity."""
LATEST = 300
"""Followers of an article that are counted, at most."""


class Followers:
    """Counts of the latest followers of each article, and of the clicks of the last 15 minutes."""

    def __init__(self) -> None:
        self.latest: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=LATEST))
        self.followers: dict[int, Counter[int]] = defaultdict(Counter)
        self.window: deque[tuple[int, int]] = deque()
        self.clicks = Counter[int]()
        self.at_least = Counter[int]()
        """By a number of clicks, the articles that have as many or more."""
        self.known: set[int] = set()

    def rank(self, item: int, history: list[int], now: int) -> float:
        """Return the rank of an article after others."""
        while self.window and self.window[0][1] < now - WINDOW:
            old = self.window.popleft()[0]
            self.at_least[self.clicks[old]] -= 1
            self.clicks[old] -= 1
        followers, seen = self.followers[history[-1]], {*history}
        if item in seen or item not in self.known:
            return np.inf
        clicks = self.clicks[item]
        if item in followers:
            least = followers[item], clicks
            return sum((count, self.clicks[other]) >= least for other, count in followers.items() if other not in seen)
        # All followers rank higher, and of the other articles those with as many clicks.
        if not clicks:
            return float(len(self.known - seen))
        counted = followers.keys() | seen
        return (
            len(followers.keys() - seen) + self.at_least[clicks] - sum(self.clicks[each] >= clicks for each in counted)
        )

    def count(self, item: int, history: list[int], now: int) -> None:
        """Count a click."""
        if history:
            latest, followers = self.latest[history[-1]], self.followers[history[-1]]
            if len(latest) == LATEST:
                followers[latest[0]] -= 1
                if not followers[latest[0]]:
                    del followers[latest[0]]
            latest.append(item)
            followers[item] += 1
        self.known.add(item)
        self.window.append((item, now))
        self.clicks[item] += 1
        self.at_least[self.clicks[item]] += 1


def measure(clicks: Path) -> dict[str, Any]:
    """Return the metrics of all targets, and HR@20 by hour."""
    table = pl.read_csv(clicks).sort("time_s", maintain_order=True)
    first_day = int(table["time_s"].to_numpy()[0]) + DAY
    is_streamed = pl.col("time_s").min().over("session") >= first_day
    counted = Followers()
    histories: dict[int, tuple[list[int], int]] = {}
    ranks: list[float] = []
    hours: list[int] = []
    for session, item, now, streamed in table.select("session", "item", "time_s", is_streamed.alias("streamed")).rows():
        history, last = histories.get(session, ([], 0))
        if now - last > GAP:
            history = []
        if history and streamed:
            ranks.append(counted.rank(item, history, now))
            hours.append(now // HOUR * HOUR)
        counted.count(item, history, now)
        histories[session] = [*history, item], now
    rank = np.array(ranks, np.float64)
    hits = metrics.hit(rank, 20)
    begins, rows = np.unique(hours, return_inverse=True)
    by_hour = np.bincount(rows, hits) / np.bincount(rows)
    return {
        "latest": LATEST,
        "targets": len(rank),
        "hr@20": round(float(hits.mean()), 4),
        "mrr@20": round(float(metrics.reciprocal_rank(rank, 20).mean()), 4),
        "hours": [
            {"begins": int(hour), "hr@20": round(share, 4)}
            for hour, share in zip(begins, by_hour.tolist(), strict=True)
        ],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clicks", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = measure(args.clicks)
    print({name: value for name, value in result.items() if name != "hours"})
    if args.json:
        write_result(args.json, {**provenance(), **result})


if __name__ == "__main__":
    main()
