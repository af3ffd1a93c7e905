"""Made-up cascades whose truth is known: who may infect whom, and who did.

A Kronecker graph (Leskovec et al. 2010, "Kronecker graphs: an approach to modeling networks", JMLR 11) says who may
infect whom. Cascades run over it in continuous time, each edge with its own exponential delay (Gomez Rodriguez et al.
2011, "Uncovering the temporal dynamics of diffusion networks", ICML). The first to reach a user infects it, so times
of infection are shortest paths over the delays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Histories, Ids, Index, Times
from ensue.errors import SettingError
from ensue.vocabulary import FIRST, Vocabulary

CORE_PERIPHERY = np.array([[0.9, 0.5], [0.5, 0.3]])
HOUR = 3600.0
RATE = 0.25 / HOUR
"""Infections per second over each edge: delays have a mean of 1 / RATE."""
HORIZON = 3.5 * HOUR
"""Seconds after which a cascade is not observed any more."""
BLOCK = 1024
"""Cascades that run at once: bounds the memory to a few arrays of (BLOCK, edges)."""


@dataclass(frozen=True, eq=False)
class CascadeWorld:
    """Cascades to train and test on, with the truth behind them.

    Attributes:
        train: eight cascades in ten.
        valid: one in ten.
        test: one in ten. All three share one vocabulary, which holds every user.
        edges: (from, to) pairs of users: whom each may infect.
        true_parents: (events of test,) the position in ``test.ids`` of the event that infected this one, -1 for the
            first event of a cascade.
    """

    train: Histories
    valid: Histories
    test: Histories
    edges: frozenset[tuple[str, str]]
    true_parents: Index


def make_cascades(
    *, num_users: int = 64, num_cascades: int = 3000, seed: int = 0, names: Sequence[str] | None = None
) -> CascadeWorld:
    """Return cascades of about ten events over a few hours on a core-periphery graph.

    Args:
        num_users: a power of two.
        num_cascades: 10 or more.
        seed: the same seed gives the same cascades.
        names: of the users. [default: ``u000``, ``u001`` and so on]

    Raises:
        SettingError: there are too few cascades to split.
    """
    if num_cascades < 10:
        raise SettingError(f"num_cascades is {num_cascades}; give 10 or more, to train, to validate and to test on")
    # Two streams, so that other cascades can be drawn over the same network.
    graph_seed, cascade_seed = np.random.SeedSequence(seed).spawn(2)
    edges = kronecker_graph(num_users.bit_length() - 1, num_edges=3 * num_users, seed=graph_seed)
    names = names or [f"u{node:03d}" for node in range(num_users)]
    histories, parents = _simulate(edges, names, num_cascades, np.random.default_rng(cascade_seed))
    valid, test = num_cascades * 8 // 10, num_cascades * 9 // 10
    # Parents of test cascades are counted from the first test event.
    first = histories.offsets[test]
    return CascadeWorld(
        histories.select(slice(valid)),
        histories.select(slice(valid, test)),
        histories.select(slice(test, None)),
        frozenset((names[source], names[target]) for source, target in edges.tolist()),
        np.where(parents[first:] < 0, -1, parents[first:] - first),
    )


def kronecker_graph(power: int, *, num_edges: int, seed: np.random.SeedSequence) -> Ids:
    """Return the (num_edges, 2) edges of a stochastic Kronecker graph of 2 ** ``power`` nodes, as (from, to), sorted.

    Edges are drawn one after another without replacement, each with a probability in proportion to its entry of the
    ``power``-th Kronecker power of :data:`CORE_PERIPHERY`. There are no self loops.
    """
    weights: npt.NDArray[np.floating] = np.ones((1, 1))
    for _ in range(power):
        # Each power doubles the nodes: entry (i, j) is the product of the core's entries at their binary digits.
        weights = np.kron(weights, CORE_PERIPHERY)
    np.fill_diagonal(weights, 0)
    possible = np.flatnonzero(weights)
    # The first num_edges of exponential clocks that run at these rates are exactly such a draw, in one pass.
    clocks = np.random.default_rng(seed).standard_exponential(len(possible)) / weights.flat[possible]
    # Positions in the flattened matrix; divmod by its width gives (from, to).
    sample = np.sort(possible[np.argsort(clocks)[:num_edges]])
    return np.stack(np.divmod(sample, len(weights)), axis=1).astype(np.int32)


def _simulate(
    edges: Ids, names: Sequence[str], num_cascades: int, random: np.random.Generator
) -> tuple[Histories, Index]:
    """Return cascades of two events or more, and the position of the event that infected each (-1: the first).

    Each begins at time 0 at a random node that has an edge out.
    """
    sources = np.unique(edges[:, 0])
    blocks: list[tuple[Times, Index]] = []
    while sum(len(times) for times, _ in blocks) < num_cascades:
        starts = random.choice(sources, BLOCK)
        delays = random.standard_exponential((BLOCK, len(edges))) / RATE
        times, infectors = spread(edges, len(names), starts, delays, HORIZON)
        # A cascade of one user has no next one to predict.
        has_spread = np.isfinite(times).sum(1) > 1
        blocks.append((times[has_spread], infectors[has_spread]))
    times, infectors = (np.concatenate(column)[:num_cascades] for column in zip(*blocks, strict=True))
    # (row, node) of every infection, in order of cascade and time
    row, node = np.nonzero(np.isfinite(times))
    # By cascade, and within one by time.
    order = np.lexsort((times[row, node], row))
    row, node = row[order], node[order]
    position = np.full(times.shape, -1)
    # Inverse of the order: where the infection of a node in a cascade stands.
    position[row, node] = np.arange(len(row))
    infector = infectors[row, node]
    histories = Histories(
        (node + FIRST).astype(np.int32),
        np.searchsorted(row, np.arange(num_cascades + 1)).astype(np.int64),
        Vocabulary(names),
        times[row, node],
        pl.Series([f"c{index:05d}" for index in range(num_cascades)], dtype=pl.String),
    )
    return histories, np.where(infector < 0, -1, position[row, infector])


def spread(edges: Ids, num_nodes: int, starts: Index, delays: Times, horizon: float) -> tuple[Times, Index]:
    """Return when each node is infected, and by which node: shortest paths over the delays (Bellman-Ford).

    Args:
        edges: (edges, 2) nodes, as (from, to).
        num_nodes: nodes are 0 to ``num_nodes`` - 1.
        starts: (cascades,) the node that each cascade begins at, at time 0.
        delays: (cascades, edges) seconds that each edge takes to pass the infection on; above 0.
        horizon: later infections are not observed.

    Returns:
        (cascades, nodes) times, infinite where a node is not infected, and (cascades, nodes) infectors, -1 where there
        is none.
    """
    # Edges by their target, so that one reduceat takes the earliest of all edges into a node.
    order = np.argsort(edges[:, 1], kind="stable")
    (source, target) = edges[order].T
    delays = delays[:, order]
    reached, first_edge = np.unique(target, return_index=True)
    rows = np.arange(len(starts))
    times = np.full((len(starts), num_nodes), np.inf)
    times[rows, starts] = 0.0
    while True:
        arrivals = times[:, source] + delays
        arrivals[arrivals > horizon] = np.inf
        # the edges are sorted by target: one segment per target
        earliest = np.minimum(times[:, reached], np.minimum.reduceat(arrivals, first_edge, axis=1))
        if np.array_equal(earliest, times[:, reached]):
            break
        times[:, reached] = earliest
    row, edge = np.nonzero((arrivals == times[:, target]) & np.isfinite(arrivals))
    infectors = np.full(times.shape, -1)
    infectors[row, target[edge]] = source[edge]
    return times, infectors
