"""The network of a text classifier at work: scores, attention weights and word graphs of texts.

Everything here needs torch; a model without a network never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch

from ensue.data.histories import Index, ranges
from ensue.learning.state import evaluating
from ensue.metrics import Floats
from ensue.tasks.classify.model import TextNetwork
from ensue.tasks.classify.passages import PassageBatches, PooledOutput, TextBatch
from ensue.text.encoder import Vectors

GROUP_WORDS = 6000
"""Number of words of a batch in prediction."""
Graph = tuple[tuple[float, ...], ...]
Task = TypeVar("Task")


def scores(network: TextNetwork, passages: PassageBatches, num_labels: int, device: torch.device) -> Floats:
    """Return scores before temperature and softmax, (records, labels)."""
    totals = np.zeros((len(passages), num_labels))

    def score(index: Index) -> None:
        totals[index] = run(network, passages.batch(index), device).scores.float().cpu().numpy()

    evaluating(network)
    # The longest group first, so that no thread is left with it at the end.
    run_parallel(score, reversed(list(passages.groups(GROUP_WORDS))))
    return totals


def vectors(network: TextNetwork, passages: PassageBatches, device: torch.device) -> Vectors | None:
    """Return the vectors of records that the last layers score, (records, width); ``None`` where there are none."""
    vectors_of_rows: dict[int, Vectors] = {}
    for index in passages.groups(GROUP_WORDS):
        output = run(network, passages.batch(index), device)
        if output.vectors is None:
            return None
        vectors_of_rows |= dict(zip(index.tolist(), output.vectors.float().cpu().numpy(), strict=True))
    return np.stack([vectors_of_rows[row] for row in range(len(passages))])


def run(network: TextNetwork, batch: TextBatch, device: torch.device) -> PooledOutput:
    """Return the output of the network for a batch, in evaluation mode."""
    with torch.inference_mode():
        return evaluating(network)(batch.to(device))


def run_parallel(run: Callable[[Task], None], arguments: Iterable[Task]) -> None:
    """Call ``run`` on every argument, on as many threads as torch may use; inside, torch uses one.

    Args:
        run: must not depend on the order of the arguments.
        arguments: one per call. A call that fails ends the others that have not begun, and its error is raised.
    """
    waiting, threads = list(arguments), torch.get_num_threads()
    if threads < 2 or len(waiting) < 2:
        for task in waiting:
            run(task)
        return
    with ThreadPoolExecutor(min(threads, len(waiting)), initializer=lambda: torch.set_num_threads(1)) as pool:
        futures = [pool.submit(run, task) for task in waiting]
        try:
            for future in futures:
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)  # the threads of the pool have set it for all that start later


def attention(network: TextNetwork, passages: PassageBatches, device: torch.device) -> Floats:
    """Return the attention weights of the poolings, (words of all sides,)."""
    weights = np.zeros(len(passages.ids))
    for index in passages.groups():
        batch = passages.batch(index)
        _add_attention(passages, index, batch, run(network, batch, device), weights)
    return weights


def _add_attention(
    passages: PassageBatches, index: Index, batch: TextBatch, output: PooledOutput, weights: Floats
) -> None:
    """Write the attention weights of the words of some records into those of all words."""
    numbers = passages.passages(index)
    passage_weights = batch.shares.double().numpy()
    if passages.documents:
        # The weight of a passage is its weight in a row of the upper level, times the row's part of its text.
        row_weights = passage_weights
        passage_weights = np.zeros(len(numbers))
        for block, pooled in zip(batch.sentences, output.sentences, strict=True):
            rows = pooled.weights.double().cpu().numpy() * row_weights[block.rows.numpy()][:, None]
            passage_weights[block.items[block.mask].numpy()] = rows[block.mask.numpy()]
    if batch.vectors is not None:  # an encoded sentence has no weights inside: its words share alike
        sizes = passages.sizes[numbers]
        weights[ranges(passages.starts[numbers], sizes)] = np.repeat(passage_weights / sizes, sizes)
    for block, pooled in zip(batch.words, output.words, strict=True):
        mask, rows = block.mask.numpy(), block.rows.numpy()
        # Positions of the block's words among those of all sides; padding is masked out below.
        positions = passages.starts[numbers[rows]][:, None] + np.arange(mask.shape[1])
        word_weights = pooled.weights.double().cpu().numpy() * passage_weights[rows][:, None]
        weights[positions[mask]] = word_weights[mask]


def graphs(network: TextNetwork, passages: PassageBatches, device: torch.device) -> tuple[dict[int, Graph], Graph]:
    """Return the word graph of each passage of a single record, and the graph between its passages."""
    batch = passages.batch(np.arange(1))
    output = run(network, batch, device)
    word_graphs: dict[int, Graph] = {}
    for block, pooled in zip(batch.words, output.words, strict=True):
        for row, size, graph in zip(block.rows.tolist(), block.lengths.tolist(), _rows(pooled.graph), strict=False):
            word_graphs[row] = tuple(map(tuple, graph[:size, :size].tolist()))
    # Passages of a document that was cut, or of two texts, have no graph between all of them.
    is_whole = len(batch.sentences) == 1 and len(batch.sentences[0].rows) == 1
    if not is_whole or output.sentences[0].graph is None:
        return word_graphs, ()
    return word_graphs, tuple(map(tuple, _rows(output.sentences[0].graph)[0].tolist()))


def _rows(graph: torch.Tensor | None) -> list[torch.Tensor]:
    return [] if graph is None else list(graph.cpu())
