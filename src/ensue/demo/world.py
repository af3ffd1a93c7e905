"""A synthetic world of cascades whose truth is known: who may infect whom, and who did.

A Kronecker graph (Leskovec et al. 2010, "Kronecker graphs: an approach to modeling networks", JMLR 11) says who may
infect whom; cascades run over it in continuous time, each edge with its own exponential delay (Gomez Rodriguez et al.
2011, "Uncovering the temporal dynamics of diffusion networks", ICML). The first to reach a user infects it, so times
of infection are shortest paths over the delays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Ids, Index, Times
from ensue.errors import SettingError
from ensue.vocabulary import FIRST, Vocabulary

CORE_PERIPHERY = np.array([[0.9, 0.5], [0.5, 0.3]])
RANDOM = np.array([[0.5, 0.5], [0.5, 0.5]])

HOUR = 3600.0
BLOCK = 1024
"""Cascades that run at once: bounds the memory to a few arrays of (BLOCK, edges)."""


@dataclass(frozen=True, eq=False)
class World:
    """Cascades to learn from and to be examined on, with the truth behind them.

    Attributes:
        train: eight cascades in ten.
        valid: one in ten.
        test: one in ten. All three share one vocabulary, which holds every user of the world.
        edges: (from, to) pairs of users: whom each may infect.
        true_parents: (events of test,) the position in ``test.ids`` of the event that infected this one, -1 for the
            first event of a cascade.

    Example:
        >>> from ensue.demo.world import make_world
        >>> world = make_world(num_users=16, num_cascades=20)
        >>> len(world.train), len(world.valid), len(world.test)
        (16, 2, 2)
    """

    train: Histories
    valid: Histories
    test: Histories
    edges: frozenset[tuple[str, str]]
    true_parents: Index


def make_world(*, num_users: int = 64, num_cascades: int = 3000, seed: int = 0) -> World:
    """A core-periphery world of ``num_users`` (a power of two), with cascades of about ten events over a few hours.

    Raises:
        SettingError: ``num_users`` is no power of two, or there are too few cascades to split.

    Example:
        >>> from ensue.demo.world import make_world
        >>> make_world(num_users=16, num_cascades=20, seed=1).train.record(0).values[0][0]
        'u'
    """
    power = num_users.bit_length() - 1
    if num_users < 4 or num_users != 1 << power:
        raise SettingError(f"num_users is {num_users}; a Kronecker graph needs a power of two, 4 or more")
    if num_cascades < 10:
        raise SettingError(f"num_cascades is {num_cascades}; give 10 or more, to train, to validate and to test on")
    graph_seed, cascade_seed = np.random.SeedSequence(seed).spawn(2)
    _, edges = kronecker_graph(CORE_PERIPHERY, power, num_edges=3 * num_users, seed=graph_seed)
    histories, parents = simulate_cascades(
        edges, num_users, num_cascades=num_cascades, rate=0.25 / HOUR, horizon=3.5 * HOUR, seed=cascade_seed
    )
    valid, test = num_cascades * 8 // 10, num_cascades * 9 // 10
    first = histories.offsets[test]
    return World(
        histories.select(slice(valid)),
        histories.select(slice(valid, test)),
        histories.select(slice(test, None)),
        frozenset((_name(source), _name(target)) for source, target in edges.tolist()),
        np.where(parents[first:] < 0, -1, parents[first:] - first),
    )


def kronecker_graph(
    seed_matrix: npt.NDArray[np.float64], power: int, *, num_edges: int, seed: int | np.random.SeedSequence
) -> tuple[int, Ids]:
    """A stochastic Kronecker graph: the number of its nodes, and its edges (num_edges, 2) as (from, to), in order.

    Edges are drawn one after another without replacement, each with a chance in proportion to its entry of the
    ``power``-th Kronecker power of the seed matrix: a product of ``power`` seed entries. No self loops. Needs memory
    for every pair of nodes.

    Raises:
        SettingError: ``num_edges`` is not between 1 and the number of possible edges.
    """
    chances: npt.NDArray[np.floating] = np.ones((1, 1))
    for _ in range(power):
        chances = np.kron(chances, seed_matrix)
    np.fill_diagonal(chances, 0)
    possible = np.flatnonzero(chances)
    if not 0 < num_edges <= len(possible):
        raise SettingError(f"num_edges is {num_edges}; this graph has between 1 and {len(possible)} edges")
    # The first num_edges of exponential clocks that run at these rates are exactly such a draw, in one pass.
    clocks = np.random.default_rng(seed).standard_exponential(len(possible)) / chances.flat[possible]
    drawn = np.sort(possible[np.argsort(clocks)[:num_edges]])
    return len(chances), np.stack(np.divmod(drawn, len(chances)), axis=1).astype(np.int32)


def simulate_cascades(
    edges: Ids,
    num_nodes: int,
    *,
    num_cascades: int,
    rate: float | npt.NDArray[np.float64],
    horizon: float,
    seed: int | np.random.SeedSequence,
) -> tuple[Histories, Index]:
    """Cascades of two events or more, and the position of the event that infected each event (-1: it began there).

    Each begins at time 0 at a random node that has an edge out, and is seen until ``horizon`` (seconds). ``rate`` is
    per second, for all edges or one each: an edge passes the infection on after an exponential delay of mean 1 / rate.

    Raises:
        SettingError: not one of many cascades got further than its first event.
    """
    random = np.random.default_rng(seed)
    sources = np.unique(edges[:, 0])
    blocks: list[tuple[Times, Index]] = []
    while sum(len(times) for times, _ in blocks) < num_cascades:
        starts = random.choice(sources, BLOCK)
        delays = random.standard_exponential((BLOCK, len(edges))) / rate
        times, infectors = spread(edges, num_nodes, starts, delays, horizon)
        spreads = np.isfinite(times).sum(1) > 1
        if not spreads.any():
            raise SettingError("no cascade spreads before the horizon; raise rate or horizon")
        blocks.append((times[spreads], infectors[spreads]))
    return _columns(*(np.concatenate(column)[:num_cascades] for column in zip(*blocks, strict=True)))


def spread(edges: Ids, num_nodes: int, starts: Index, delays: Times, horizon: float) -> tuple[Times, Index]:
    """When each node is infected, and by which node: shortest paths over the delays (Bellman-Ford, all rows at once).

    Args:
        edges: (edges, 2) nodes, as (from, to).
        num_nodes: nodes are 0 to ``num_nodes`` - 1.
        starts: (cascades,) the node each cascade begins at, at time 0.
        delays: (cascades, edges) how long each edge takes to pass the infection on; above 0.
        horizon: later infections are not seen.

    Returns:
        (cascades, nodes) times, infinite where a node is not infected, and (cascades, nodes) infectors, -1 where there
        is none.
    """
    order = np.argsort(edges[:, 1], kind="stable")
    (source, target), delays = edges[order].T, delays[:, order]
    reached, first_edge = np.unique(target, return_index=True)
    rows = np.arange(len(starts))
    times = np.full((len(starts), num_nodes), np.inf)
    times[rows, starts] = 0.0
    while True:
        arrivals = times[:, source] + delays
        arrivals[arrivals > horizon] = np.inf
        earliest = np.minimum(times[:, reached], np.minimum.reduceat(arrivals, first_edge, axis=1))
        if np.array_equal(earliest, times[:, reached]):
            break
        times[:, reached] = earliest
    row, edge = np.nonzero((arrivals == times[:, target]) & np.isfinite(arrivals))
    infectors = np.full(times.shape, -1)
    infectors[row, target[edge]] = source[edge]
    return times, infectors


def _columns(times: Times, infectors: Index) -> tuple[Histories, Index]:
    """Histories of the infected nodes in order of time, and the position of each event's infector."""
    num_cascades, num_nodes = times.shape
    row, node = np.nonzero(np.isfinite(times))
    order = np.lexsort((times[row, node], row))
    row, node = row[order], node[order]
    position = np.full(times.shape, -1)
    position[row, node] = np.arange(len(row))
    infector = infectors[row, node]
    histories = Histories(
        (node + FIRST).astype(np.int32),
        np.searchsorted(row, np.arange(num_cascades + 1)).astype(np.int64),
        Vocabulary(map(_name, range(num_nodes))),
        times[row, node],
        pl.Series([f"c{index:05d}" for index in range(num_cascades)], dtype=pl.String),
    )
    return histories, np.where(infector < 0, -1, position[row, infector])


def _name(node: int) -> str:
    return f"u{node:03d}"
