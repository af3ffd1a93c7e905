"""The demonstration: a world whose truth is known, HiDAN against counting, one cascade explained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ensue.data.histories import Histories
from ensue.data.world import World, make_world
from ensue.evaluation import Result, evaluate
from ensue.next_event.predictor import NextPredictor
from ensue.records import Explanation
from ensue.studies.provenance import Follow, Tell

SETTINGS = {"epochs": 25, "batch_size": 32, "max_hours": 4.0, "weight_decay": 0.0}
"""Made-up delays are hours, not days: 40 intervals over 4 hours."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """How often the strongest weight of an event points at the truth, beside two rules that need no model."""

    events: int
    edge: float
    edge_chance: float
    edge_latest: float
    parent: float
    parent_chance: float
    parent_latest: float


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demonstration found."""

    result: Result
    explanation: Explanation
    edges: frozenset[tuple[str, str]]
    recovery: Recovery

    def to_dict(self) -> dict[str, Any]:
        """One JSON object."""
        return {**self.result.to_dict(), "explanation": asdict(self.explanation), "recovery": asdict(self.recovery)}

    def lines(self) -> list[str]:
        """The truth test in words."""
        found = self.recovery
        return [
            f"The strongest dependency weight of {found.events:,} events, against the truth of this made-up world:",
            f"  is a true edge    {found.edge:.0%}   (a random earlier user {found.edge_chance:.0%}, "
            f"the latest user {found.edge_latest:.0%})",
            f"  is the true source {found.parent:.0%}  (a random earlier user {found.parent_chance:.0%}, "
            f"the latest user {found.parent_latest:.0%})",
        ]


def run(seed: int, *, tell: Tell, follow: Follow) -> Demo:
    """Make the world, train, score, explain and compare with the truth."""
    world = make_world(num_cascades=5000, seed=seed)
    tell(f"a made-up world: {len(world.train.vocabulary.values)} users, {len(world.edges)} edges, seed {seed}")
    tell(f"HiDAN sees {len(world.train):,} cascades and none of the edges; {len(world.test):,} are kept for the test")
    predictor = NextPredictor("hidan", settings=SETTINGS, seed=seed)
    follow(predictor.fit(world.train, world.valid))
    result = evaluate(predictor, world.test)
    lengths = world.test.lengths
    chosen = int(np.flatnonzero((lengths >= 6) & (lengths <= 10))[0])
    (explanation,) = predictor.explain([world.test.record(chosen)])
    return Demo(result, explanation, world.edges, recovery(predictor, world.test, world))


def recovery(predictor: NextPredictor, test: Histories, world: World) -> Recovery:
    """Compare every event's strongest dependency weight with the true edges and the true source.

    Chance and the latest user are scored on the same events: those that have at least two earlier users.
    """
    hits = []
    for index, explanation in enumerate(predictor.explain(list(test.records()))):
        values, begin = explanation.values, int(test.offsets[index + 1]) - len(explanation.values)
        for event in range(2, len(values)):
            strongest = int(np.argmax(explanation.dependency[event][:event]))
            edge = np.array([(values[earlier], values[event]) in world.edges for earlier in range(event)])
            parent = np.arange(event) == world.true_parents[begin + event] - begin
            hits.append((edge[strongest], edge.mean(), edge[-1], parent[strongest], parent.mean(), parent[-1]))
    return Recovery(len(hits), *np.mean(hits, axis=0).tolist())
