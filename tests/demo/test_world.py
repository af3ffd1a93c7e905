from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ensue.demo.world import (
    CORE_PERIPHERY,
    RANDOM,
    World,
    kronecker_graph,
    make_world,
    simulate_cascades,
    spread,
)
from ensue.errors import SettingError


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


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
    _, edges = kronecker_graph(RANDOM, 3, num_edges=20, seed=1)
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


@pytest.mark.parametrize("seed_matrix", [CORE_PERIPHERY, RANDOM], ids=["core-periphery", "random"])
def test_an_edge_is_as_likely_as_the_product_of_its_seed_entries(seed_matrix: np.ndarray) -> None:
    # Node 2a + b joins node 2c + d with chance S[a, c] * S[b, d]; the diagonal is left out, the rest shares 1.
    chances = np.zeros((4, 4))
    for a, b, c, d in product(range(2), repeat=4):
        chances[2 * a + b, 2 * c + d] = seed_matrix[a, c] * seed_matrix[b, d]
    np.fill_diagonal(chances, 0)
    chances /= chances.sum()
    draws, found = 4000, np.zeros((4, 4))
    for seed in range(draws):
        ((source, target),) = kronecker_graph(seed_matrix, 2, num_edges=1, seed=seed)[1].tolist()
        found[source, target] += 1
    spread_of_a_share = np.sqrt(chances * (1 - chances) / draws)
    assert (np.abs(found / draws - chances) <= 4 * spread_of_a_share).all()


def test_a_graph_has_no_loops_and_no_edge_twice() -> None:
    num_nodes, edges = kronecker_graph(CORE_PERIPHERY, 5, num_edges=200, seed=0)
    assert num_nodes == 32
    assert edges.shape == (200, 2)
    assert edges.dtype == np.int32
    assert (edges[:, 0] != edges[:, 1]).all()
    assert len(np.unique(edges, axis=0)) == 200
    assert edges.min() >= 0
    assert edges.max() < 32


def test_a_full_graph_has_every_edge_that_is_possible_and_leaves_the_seed_matrix_alone() -> None:
    # The seed's zero forbids (0, 1) at power 1; the diagonal goes too: only (1, 0) is left.
    seed_matrix = np.array([[0.5, 0.0], [0.5, 0.5]])
    assert kronecker_graph(seed_matrix, 1, num_edges=1, seed=0)[1].tolist() == [[1, 0]]
    assert seed_matrix.tolist() == [[0.5, 0.0], [0.5, 0.5]]
    with pytest.raises(SettingError, match="num_edges is 2; this graph has between 1 and 1 edges"):
        kronecker_graph(seed_matrix, 1, num_edges=2, seed=0)


def test_delays_are_exponential_with_the_rate_of_their_edge() -> None:
    # 0 -> 1 at 2 a second, 2 -> 3 at 4 a second: mean delays 0.5 and 0.25 s; the mean of n delays varies by mean / √n.
    histories, parents = simulate_cascades(
        np.array([[0, 1], [2, 3]], np.int32),
        4,
        num_cascades=5000,
        rate=np.array([2.0, 4.0]),
        horizon=60.0,
        seed=0,
    )
    assert histories.lengths.tolist() == [2] * 5000
    assert parents.tolist() == [p for cascade in range(5000) for p in (-1, 2 * cascade)]
    begins, delays = histories.ids[::2], histories.times[1::2]
    for value, mean in (("u000", 0.5), ("u002", 0.25)):
        own = delays[begins == histories.vocabulary.id(value)]
        assert len(own) > 2000
        assert own.mean() == pytest.approx(mean, abs=4 * mean / np.sqrt(len(own)))


def test_a_world_that_never_spreads_is_refused() -> None:
    with pytest.raises(SettingError, match="no cascade spreads before the horizon; raise rate or horizon"):
        simulate_cascades(np.array([[0, 1]], np.int32), 2, num_cascades=1, rate=1e-9, horizon=1.0, seed=0)


def test_a_world_has_three_parts_of_short_cascades(world: World) -> None:
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


def test_every_true_parent_is_earlier_in_its_cascade_and_has_an_edge(world: World) -> None:
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


def test_the_parent_is_often_not_the_event_before(world: World) -> None:
    events = np.flatnonzero(world.true_parents >= 0)
    assert (world.true_parents[events] == events - 1).mean() < 0.5


def as_bytes(world: World) -> list[bytes]:
    columns = [
        column for part in (world.train, world.valid, world.test) for column in (part.ids, part.offsets, part.times)
    ]
    return [column.tobytes() for column in [*columns, world.true_parents]] + [repr(sorted(world.edges)).encode()]


def test_one_seed_is_one_world() -> None:
    first, second, other = (make_world(num_users=16, num_cascades=100, seed=seed) for seed in (3, 3, 4))
    assert as_bytes(first) == as_bytes(second)
    assert all(a != b for a, b in zip(as_bytes(first), as_bytes(other), strict=True) if len(a) > 88)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_users": 60}, "num_users is 60; a Kronecker graph needs a power of two, 4 or more"),
        ({"num_users": 2}, "num_users is 2; a Kronecker graph needs a power of two, 4 or more"),
        ({"num_cascades": 9}, "num_cascades is 9; give 10 or more"),
    ],
)
def test_a_world_too_odd_or_too_small_is_refused(setting: dict[str, int], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make_world(**setting)
