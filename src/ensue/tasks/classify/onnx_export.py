"""Networks of task ``classify`` as ONNX graphs: ids of words in, scores of labels and weights of words out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ensue.errors import SettingError
from ensue.learning.onnx_trace import Traceable, Wrapped, pad_ends
from ensue.learning.state import Exports
from ensue.nn.blocks import Block
from ensue.store.graph import GRAPH
from ensue.tasks.classify.models.centrality import CentralityClassifier
from ensue.tasks.classify.onnx_network import NONE
from ensue.tasks.classify.passages import TextBatch
from ensue.tasks.classify.state import ClassifyState
from ensue.vocabulary import FIRST, PADDING


def label_scores(
    network: CentralityClassifier,
    words: Tensor,
    owners: Tensor,
    shares: Tensor,
    lengths: Tensor,
    sentences: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return (records, labels) scores, (passages, length) weights of words and, of documents, those of passages.

    Args:
        network: of task ``classify``.
        words: (passages, length) ids, padded with 0 at the end.
        owners: (rows,) the text of each passage or, of documents, of each row of passages.
        shares: (rows,) its part of the text.
        lengths: (texts,) number of words; of pairs, first texts come before second ones.
        sentences: (rows, length) numbers of the passages of documents, padded with -1.
    """
    blocks = (_block(words, words != PADDING),)
    upper = () if sentences is None else (_block(sentences.clamp(min=0), sentences >= 0),)
    # A tensor of one axis has the number of texts as its size, whatever it is.
    num_texts = lengths.shape[0]
    output = network(TextBatch(blocks, upper, owners, shares, num_texts, lengths.new_zeros(0)))
    pooled = (*output.words, *output.sentences)
    return output.scores, *(level.weights for level in pooled)


def _block(items: Tensor, mask: Tensor) -> Block:
    return Block(items, mask, mask.sum(1), torch.arange(items.shape[0]))


def exports(state: ClassifyState) -> Exports:
    """Return the graph of the network.

    Raises:
        SettingError: a sentence encoder reads the texts, which needs torch itself.
    """
    if state.encoder is not None:
        raise SettingError(f"the encoder {state.encoder.name} reads texts with torch, and has no ONNX form")
    network = state.network
    assert isinstance(network, CentralityClassifier)
    num_words = len(state.tokenizer.vocabulary)
    hierarchical = state.architecture == "hierarchical"
    random = np.random.default_rng(0)
    sides = 2 if state.metadata.paired else 1
    aligned = network.aligned is not None

    def examples(rows: int, length: int) -> tuple[Tensor, ...]:
        # One passage more than there are texts: the first text is cut in two. Aligned texts are read whole.
        num_texts = sides * rows
        num_rows = num_texts + (not aligned)
        num_passages = num_rows * (2 if hierarchical else 1)
        ids = pad_ends(random.integers(FIRST, num_words, (num_passages, length)), random)
        owners = np.maximum(np.arange(num_rows) - (num_rows - num_texts), 0)
        shares = 1 / np.bincount(owners)[owners].astype(np.float32)
        tables = [ids, owners, shares, np.ones(num_texts, np.int64)]
        if hierarchical:
            sentences = np.arange(num_passages).reshape(num_rows, 2)
            sentences[-1, 1] = NONE
            tables.append(sentences)
        return tuple(map(torch.from_numpy, tables))

    inputs: dict[str, Mapping[int, str]] = {
        "words": {0: "passages", 1: "words"}, "owners": {0: "rows"}, "shares": {0: "rows"}, "lengths": {0: "texts"},
    }  # fmt: skip
    outputs = ["scores", "word_weights"]
    if hierarchical:
        inputs["sentences"] = {0: "rows", 1: "sentences"}
        outputs.append("sentence_weights")
    vocabulary = [*FIRST * [""], *state.tokenizer.vocabulary.values]
    traceable = Traceable(Wrapped(network, label_scores), inputs, outputs, examples)
    return Exports({GRAPH: traceable}, vocabulary=vocabulary)
