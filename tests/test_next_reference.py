"""The evaluator of ``next`` equals literal code: over random data, and over the answers of ``predict``.

``ENSUE_RANDOM_SETS`` says over how many random data sets.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import nn

from ensue import DataError, History
from ensue.data.histories import Histories
from ensue.evaluation.comparison import compare
from ensue.nn.item_head import Output
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.dataset import draw_negatives
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST
from tests.oracles import measures as oracles

NUM_SETS = int(os.environ.get("ENSUE_RANDOM_SETS", "24"))
MISS = math.inf
Scores = Callable[[list[int]], list[float]]
"""The ids of the known events so far -> the score of every id."""


class PlantedModel(nn.Module):
    """Whole-numbered scores, many of them equal, by the sum of the ids so far."""

    reach: int | None = None

    def __init__(self, scores: torch.Tensor) -> None:
        super().__init__()
        self.scores = scores

    def grow(self, num_ids: int) -> PlantedModel:
        raise NotImplementedError

    def forward(self, batch: Batch) -> Output:
        sums = batch.ids.cumsum(1)[batch.target_mask]
        return Output(self.scores[sums % len(self.scores)].clone())


class RandomSet:
    """Training and test sequences with ties, repeats, unknown values, empty and short sequences; a planted model."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.protocol = ("full", "last", "macro", "sampled")[seed % 4]
        self.unknown = ("miss", "drop", "rank")[seed // 4 % 3]
        self.at = (1, int(random.integers(2, 6)), 10)
        num_values, repeats = int(random.integers(3, 9)), random.random() < 0.6
        values = [f"v{number}" for number in range(num_values)]
        train = [
            random.choice(values, random.integers(2, 6) if repeats else random.integers(2, 4), replace=repeats).tolist()
            for _ in range(random.integers(2, 9))
        ]
        pool = [*values, *(f"x{number}" for number in range(random.integers(0, 4)))]
        test = [random.choice(pool, random.integers(0, 7)).tolist() for _ in range(random.integers(1, 7))]
        self.test = [tuple(map(str, row)) for row in test]
        self.predictor = NextPredictor("popularity")
        list(self.predictor.fit(Histories.of([History(tuple(map(str, row))) for row in train])))
        self.num_ids = len(self.predictor.vocabulary)
        self.repeats = any(len(set(row)) < len(row) for row in train)
        self.counts = Counter(value for row in train for value in row)
        planted = torch.from_numpy(random.integers(0, 4, (5, self.num_ids))).float()
        planted[:, :FIRST] = -torch.inf
        self.planted: list[list[float]] = planted.tolist()
        self.predictor.model, self.predictor.model_name = PlantedModel(planted), "core"

    @property
    def popularity(self) -> list[float]:
        """The logarithm of each id's share of the training events."""
        total = sum(self.counts.values())
        values = self.predictor.vocabulary.values
        return [-math.inf] * FIRST + [math.log(self.counts[value] / total) for value in values]

    def by_plan(self, past: list[int]) -> list[float]:
        return self.planted[sum(past) % len(self.planted)]

    def by_popularity(self, past: list[int]) -> list[float]:
        return self.popularity

    def ranks(self, scores: Scores) -> list[list[float]]:
        """By sequence, the rank of each scored target, one at a time."""
        found, num_known, num_events = list[list[float]](), 0, 0
        for row in self.test:
            ranks, past = list[float](), list[int]()
            for place, value in enumerate(row):
                is_known = value in self.predictor.vocabulary
                is_target = place > 0 and (self.protocol != "last" or place == len(row) - 1)
                if is_target and (is_known or self.unknown != "drop"):
                    # What is drawn hangs on where the known event before is among all known events, or on where the
                    # unknown target is among all events.
                    position = num_known - 1 if is_known else num_events
                    ranks.append(self.rank(scores, row[:place], value, past, position))
                num_events += 1
                if is_known:
                    past, num_known = [*past, self.predictor.vocabulary.id(value)], num_known + 1
            found.append(ranks)
        return found

    def rank(self, scores: Scores, before: Sequence[str], target: str, past: list[int], position: int) -> float:
        """The rank of one target; ``MISS`` where it is no candidate."""
        shown = [*(scores(past) if past else self.popularity)]
        if self.protocol in ("full", "last") and not self.repeats:
            for id in past:
                shown[id] = -math.inf
        candidates: dict[object, float] = {id: score for id, score in enumerate(shown) if score > -math.inf}
        own = self.unknown_candidates(before, shown)
        key: object = self.predictor.vocabulary.id(target) if target in self.predictor.vocabulary else target
        score = candidates.get(key, own.get(str(key)))
        if score is None:
            return MISS
        if self.protocol == "sampled":
            column = np.array([self.num_ids if isinstance(key, str) else key])
            drawn = draw_negatives(column, np.array([position]), self.num_ids, min(100, self.num_ids - FIRST - 1))
            others = [candidates[id] for id in drawn[0].tolist()]
        else:
            others = [candidates[other] for other in candidates if other != key]
            others += [own[other] for other in own if other != key]
        return 1 + sum(other >= score for other in others)

    def unknown_candidates(self, before: Sequence[str], shown: list[float]) -> dict[str, float]:
        """Under ``rank`` the scores of what a sequence holds and the training data lacks."""
        shares = self.predictor.repeat_shares()
        if self.unknown != "rank" or shares is None:
            return {}
        latest = {value: len(before) - place for place, value in enumerate(before)}
        lone, any_value = (
            {value: shares.shares(np.array([away]), lone=only).item() for value, away in latest.items()}
            for only in (True, False)
        )
        unknown = [value for value in latest if value not in self.predictor.vocabulary]
        mass = sum(lone[value] for value in unknown)
        left = 1 - min(mass, 0.98)
        again = min(sum(any_value[value] for value in latest if value not in unknown), left)
        known = again + (1 - shares.novelty()) * (left - again)
        total = math.log(sum(math.exp(score) for score in shown))
        scale = min(1.0, 0.98 / max(mass, 0.98))
        return {value: total + math.log(max(lone[value] * scale, 1e-12) / known) for value in unknown}

    def expected_targets(self) -> str:
        """What the card says of the targets."""
        known = self.predictor.vocabulary
        targets = [
            (row[:place], row[place])
            for row in self.test
            for place in range(1, len(row))
            if self.protocol != "last" or place == len(row) - 1
        ]
        lacking = [(before, target) for before, target in targets if target not in known]
        ranked = sum(target in before for before, target in lacking) if self.repeats else 0
        blind = sum(target in known and not any(one in known for one in before) for before, target in targets)
        became = {
            "miss": f"{len(lacking)} not in the training data (misses)",
            "drop": f"{len(lacking)} more in no training data (not scored)",
            "rank": f"{len(lacking)} not in the training data ({ranked} ranked, {len(lacking) - ranked} misses)",
        }
        what = "the last event of each session" if self.protocol == "last" else "every event after the first"
        num_scored = len(targets) - (len(lacking) if self.unknown == "drop" else 0)
        return f"{num_scored}: {what}; {became[self.unknown]}, {blind} after " + (
            "unseen events only (ranked by popularity)"
        )


def figures_of(ranks: Sequence[Sequence[float]], at: Sequence[int], *, macro: bool) -> list[float]:
    return (oracles.macro if macro else oracles.micro)(ranks, at)


@pytest.mark.parametrize("seed", range(NUM_SETS))
def test_metrics_and_counts_equal_literal_loops(seed: int) -> None:
    made = RandomSet(seed)
    data = Histories.of([History(row) for row in made.test])
    by_plan, by_popularity = made.ranks(made.by_plan), made.ranks(made.by_popularity)
    if not any(by_plan):
        with pytest.raises(DataError, match="nothing to score"):
            compare([[made.predictor]], data, protocol=made.protocol, cutoffs=made.at, unknown=made.unknown)
        return
    result = compare([[made.predictor]], data, protocol=made.protocol, cutoffs=made.at, unknown=made.unknown)
    macro = made.protocol == "macro"
    assert (result.card["name"], result.card["unknown"].partition(":")[0]) == (made.protocol, made.unknown)
    assert result.card["targets"] == made.expected_targets()
    rows = {row.model: list(row.figures.values()) for row in result.rows}
    assert rows["core"] == pytest.approx(figures_of(by_plan, made.at, macro=macro), rel=0, abs=1e-9)
    assert rows["popularity"] == pytest.approx(figures_of(by_popularity, made.at, macro=macro), rel=0, abs=1e-9)
    assert result.examples is not None
    frame = result.examples.to_frame()
    for model, figures in rows.items():  # of every baseline, from its own ranks
        units = frame.filter(model=model).partition_by("unit", maintain_order=True)
        ranks = [[MISS if rank is None else rank for rank in unit["rank"].to_list()] for unit in units]
        assert figures == pytest.approx(figures_of(ranks, made.at, macro=macro), rel=0, abs=1e-9)


QUICK: dict[str, dict[str, object]] = {
    "popularity": {},
    "markov": {},
    "interpolated": {},
    "vsknn": {},
    "core": {"dim": 8, "epochs": 1},
    "best": {"dim": 8, "epochs": 1},
}


def sequences(seed: int, num: int, pool: int, *, repeats: bool) -> list[History]:
    """Walks over numbered values, each mostly near the one before it; without repeats none comes twice."""
    random, found = np.random.default_rng(seed), list[History]()
    for _ in range(num):
        values = [int(random.integers(pool))]
        while len(values) < 6:
            values.append(int((values[-1] + random.choice([1, 1, 2, -1, 5])) % pool))
        kept = values if repeats else list(dict.fromkeys(values))
        found.append(History(tuple(f"v{value}" for value in kept), tuple(60.0 * step for step in range(len(kept)))))
    return found


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("model", QUICK)
def test_metrics_are_those_of_the_answers_of_predict(model: str, *, repeats: bool) -> None:
    """Each prefix of the test data is asked for all values: unknown ones, nothing known, ties, repeats among them."""
    predictor = NextPredictor(model, settings=QUICK[model], device="cpu")
    list(predictor.fit(Histories.of(sequences(0, 60, 12, repeats=repeats))))
    assert predictor.metadata.repeats is repeats
    unknown = [History(row, tuple(60.0 * step for step in range(len(row)))) for row in (
        ("x", "v1", "x", "v2"), ("x", "y", "v3"), ("v4", "x"), ("x", "x"), ("v1", "v1", "v2"), ("v5",),
    )]  # fmt: skip
    test = [*sequences(1, 8, 12, repeats=repeats), *unknown]
    num_values = len(predictor.vocabulary.values)
    for rule in ("miss", "drop", "rank"):
        ranks = list[list[float]]()
        for record in test:
            places = [
                place
                for place in range(1, len(record.values))
                if rule != "drop" or record.values[place] in predictor.vocabulary
            ]
            prefixes = [History(record.values[:place], record.times[:place]) for place in places]
            answers = predictor.predict(
                prefixes, num_values + 2, evidence=False, exclude_seen=not repeats, rank_unknown=rule == "rank"
            )
            ranks.append([])
            for place, answer in zip(places, answers, strict=True):
                scores = {choice.value: choice.score for choice in answer.choices}
                target = scores.get(record.values[place])
                ranks[-1].append(
                    MISS if target is None else sum(score >= target * (1 - 1e-6) for score in scores.values())
                )
        result = compare([[predictor]], Histories.of(test), cutoffs=(1, 5), unknown=rule)
        expected = oracles.micro(ranks, (1, 5))
        assert list(result.rows[0].figures.values()) == pytest.approx(expected, rel=0, abs=1e-9)
