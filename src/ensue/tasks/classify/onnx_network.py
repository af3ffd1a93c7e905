"""Exported networks of task ``classify``: scores of labels and weights of words, without torch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index, offsets_of, ranges
from ensue.errors import ModelFolderError
from ensue.metrics import Floats
from ensue.nn.validation import Array
from ensue.store.graph import Graph
from ensue.tasks.classify.dataset import Passages
from ensue.training.batches import evaluation_batches

GROUP_WORDS = 2**10
"""Words of the texts that a graph reads at once, about: all pairs of words of a passage are in memory."""
NONE = -1
"""Padding of numbers of passages, of which 0 is one."""


class OnnxClassifier:
    """A network of task ``classify``.

    Args:
        graph: with the inputs and outputs of :func:`ensue.tasks.classify.onnx_export.label_scores`.
        num_labels: columns of its scores.
        aligned: whether it reads texts whole, as decomposable attention does, or passage by passage.
    """

    def __init__(self, graph: Graph, num_labels: int, *, aligned: bool) -> None:
        self.graph = graph
        self.num_labels = num_labels
        self.aligned = aligned

    def scores(self, passages: Passages) -> Floats:
        """Return scores before temperature and softmax, (records, labels)."""
        totals = np.zeros((len(passages), self.num_labels))
        for index, inputs in self._groups(passages):
            (scores,) = self.graph(inputs, ["scores"])
            if scores.shape != (len(index), self.num_labels):
                raise ModelFolderError(f"{self.graph.name}: its scores are not of the {self.num_labels} labels")
            totals[index] = scores
        return totals

    def attention(self, passages: Passages) -> Floats:
        """Return the attention weights of the poolings, (words of all sides,)."""
        weights = np.zeros(len(passages.ids))
        for index, inputs in self._groups(passages):
            _, word_weights, *sentence_weights = self.graph(inputs)
            row_weights = inputs["shares"].astype(np.float64)
            if sentence_weights:
                # The weight of a passage is its weight in a row of the upper level, times the row's part of its text.
                rows = sentence_weights[0].astype(np.float64) * row_weights[:, None]
                is_passage = inputs["sentences"] != NONE
                row_weights = np.zeros(len(word_weights))
                row_weights[inputs["sentences"][is_passage]] = rows[is_passage]
            starts, sizes = self._rows(passages, index)
            mask = np.arange(word_weights.shape[1]) < sizes[:, None]
            positions = starts[:, None] + np.arange(word_weights.shape[1])
            weights[positions[mask]] = (word_weights * row_weights[:, None])[mask]
        return weights

    def _groups(self, passages: Passages) -> Iterator[tuple[Index, dict[str, Array]]]:
        """Yield groups of records that have words, and the inputs of the graph for each."""
        # Texts of similar length share a group, so that little of it is padding.
        order = np.argsort(passages.lengths, kind="stable")
        for index in evaluation_batches(order[passages.lengths[order] > 0], passages.lengths, GROUP_WORDS):
            starts, sizes = self._rows(passages, index)
            inputs: dict[str, Array] = {"words": padded(starts, sizes, passages.ids, 0)}
            upper = passages.upper_rows(index)
            lengths = np.bincount(upper.owners, upper.sizes, upper.num_texts).astype(np.int64)
            if self.aligned:
                num_texts = upper.num_texts
                inputs |= {"owners": np.arange(num_texts), "shares": np.ones(num_texts, np.float32)}
            else:
                inputs |= {"owners": upper.owners, "shares": upper.shares}
            if passages.documents and not self.aligned:
                numbers = np.arange(len(starts))
                inputs["sentences"] = padded(upper.starts, upper.sizes, numbers, NONE)
            yield index, {**inputs, "lengths": lengths}

    def _rows(self, passages: Passages, index: Index) -> tuple[Index, Index]:
        """Return where each row of words of some records begins among all words, and its number of words."""
        if not self.aligned:
            numbers = passages.passages(index)
            return passages.starts[numbers], passages.sizes[numbers]
        texts = passages.texts(index)
        ends = offsets_of(passages.sizes)
        sizes = ends[passages.first[texts + 1]] - ends[passages.first[texts]]
        # A text without words begins nowhere; the first word of all stands in, and is not read.
        starts = passages.starts[np.minimum(passages.first[texts], len(passages.starts) - 1)]
        return starts, sizes


def padded(starts: Index, sizes: Index, values: npt.NDArray[np.integer], padding: int) -> Index:
    """Return ranges of values as rows, (ranges, longest), padded at the end."""
    rows = np.full((len(starts), max(int(sizes.max(initial=0)), 1)), padding, np.int64)
    rows[np.repeat(np.arange(len(starts)), sizes), ranges(np.zeros_like(sizes), sizes)] = values[ranges(starts, sizes)]
    return rows
