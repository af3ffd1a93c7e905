from __future__ import annotations

import numpy as np
import pytest

from ensue import SettingError
from ensue.demo.cascades import CascadeWorld, kronecker_graph, make_cascades, spread


@pytest.fixture(scope="module")
def world() -> CascadeWorld:
    return make_cascades()


def test_infection_takes_the_shortest_path() -> None:
    # 0 -> 1 takes 5, 0 -> 2 takes 1, 2 -> 1 takes 2: node 1 falls at min(5, 1 + 2) = 3, by 2.
    # In the second cascade 2 -> 1 takes 7: min(5, 1 + 7) = 5, by 0.
    edges = np.array([[0, 1], [0, 2], [2, 1]], np.int32)
    delays = np.array([[5.0, 1.0, 2.0], [5.0, 1.0, 7.0]])
    times, infectors = spread(edges, 3, np.array([0, 0]), delays, 10.0)
    assert times.tolist() == [[0, 3, 1], [0, 5, 1]]
    assert infectors.tolist() == [[-1, 2, 0], [-1, 0, 0]]


def test_nothing_is_seen_after_the_horizon_nor_before_the_start() -> None:
    # A ring 0 -> 1 -> 2 -> 0, begun at 1: 2 falls at 4, and 0 at 4 + 3 = 7, after the horizon of 6. At 7 it is seen.
    edges = np.array([[0, 1], [1, 2], [2, 0]], np.int32)
    delays = np.array([[1.0, 4.0, 3.0]])
    times, infectors = spread(edges, 3, np.array([1]), delays, 6.0)
    assert times.tolist() == [[np.inf, 0, 4]]
    assert infectors.tolist() == [[-1, -1, 1]]
    assert spread(edges, 3, np.array([1]), delays, 7.0)[0].tolist() == [[7, 0, 4]]


def test_spread_equals_a_literal_search() -> None:
    random = np.random.default_rng(0)
    edges = kronecker_graph(3, num_edges=20, seed=np.random.SeedSequence(1))
    delays = random.standard_exponential((30, 20))
    starts = random.integers(0, 8, 30)
    times, infectors = spread(edges, 8, starts, delays, 2.0)
    for row, start in enumerate(starts.tolist()):
        # Dijkstra: settle the earliest node that is left, then try its edges.
        best, by, left = {start: 0.0}, {start: -1}, {start}
        while left:
            node = min(left, key=best.__getitem__)
            left.remove(node)
            for (source, target), delay in zip(edges.tolist(), delays[row].tolist(), strict=True):
                arrival = best[node] + delay
                if source == node and arrival <= 2.0 and arrival < best.get(target, np.inf):
                    best[target], by[target] = arrival, node
                    left.add(target)
        assert times[row].tolist() == [best.get(node, np.inf) for node in range(8)]
        assert infectors[row].tolist() == [by.get(node, -1) for node in range(8)]


def test_a_graph_has_no_loops_and_no_edge_twice() -> None:
    edges = kronecker_graph(5, num_edges=200, seed=np.random.SeedSequence(0))
    assert edges.shape == (200, 2)
    assert edges.dtype == np.int32
    assert (edges[:, 0] != edges[:, 1]).all()
    assert len(np.unique(edges, axis=0)) == 200
    assert edges.min() >= 0
    assert edges.max() < 32


def test_a_world_has_three_parts_of_short_cascades(world: CascadeWorld) -> None:
    assert [len(part) for part in (world.train, world.valid, world.test)] == [2400, 300, 300]
    assert world.train.vocabulary is world.valid.vocabulary is world.test.vocabulary
    assert len(world.train.vocabulary.values) == 64
    assert len(world.edges) == 192
    for part in (world.train, world.valid, world.test):
        assert 8 <= part.lengths.mean() <= 15
        assert part.lengths.min() >= 2
        assert len(part.times) == len(part.ids)
        assert (part.times[part.offsets[:-1]] == 0).all()
        inside = np.diff(part.sequence_index()) == 0
        assert (np.diff(part.times)[inside] >= 0).all()
        assert all(len(set(record.values)) == len(record.values) for record in part.records())
    names = [name for part in (world.train, world.valid, world.test) for name in part.names]
    assert names == [f"c{index:05d}" for index in range(3000)]


def test_every_true_parent_is_earlier_in_its_cascade_and_has_an_edge(world: CascadeWorld) -> None:
    test, parents = world.test, world.true_parents
    assert parents.shape == test.ids.shape
    assert np.array_equal(np.flatnonzero(parents == -1), test.offsets[:-1])
    events = np.flatnonzero(parents >= 0)
    infectors = parents[events]
    assert (infectors < events).all()
    assert (test.times[infectors] < test.times[events]).all()
    assert np.array_equal(test.sequence_index()[infectors], test.sequence_index()[events])
    value = test.vocabulary.value
    pairs = {(value(a), value(b)) for a, b in zip(test.ids[infectors].tolist(), test.ids[events].tolist(), strict=True)}
    assert pairs <= world.edges
    assert len(pairs) > 100


def test_the_parent_is_often_not_the_event_before(world: CascadeWorld) -> None:
    events = np.flatnonzero(world.true_parents >= 0)
    assert (world.true_parents[events] == events - 1).mean() < 0.5


def as_bytes(world: CascadeWorld) -> list[bytes]:
    columns = [
        column for part in (world.train, world.valid, world.test) for column in (part.ids, part.offsets, part.times)
    ]
    return [column.tobytes() for column in [*columns, world.true_parents]] + [repr(sorted(world.edges)).encode()]


def test_one_seed_is_one_world() -> None:
    first, second, other = (make_cascades(num_users=16, num_cascades=100, seed=seed) for seed in (3, 3, 4))
    assert as_bytes(first) == as_bytes(second)
    assert all(a != b for a, b in zip(as_bytes(first), as_bytes(other), strict=True) if len(a) > 88)


def test_too_few_cascades_are_refused() -> None:
    with pytest.raises(SettingError, match="num_cascades is 9; give 10 or more"):
        make_cascades(num_cascades=9)
