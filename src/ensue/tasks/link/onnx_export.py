"""Networks of task ``link`` as ONNX graphs: ids of words in, unit vectors of texts out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ensue.learning.onnx_trace import Traceable, Wrapped, pad_ends
from ensue.learning.state import Exports
from ensue.store.graph import GRAPH
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.pieces import PIECES
from ensue.tasks.link.state import LinkState
from ensue.vocabulary import FIRST, PADDING


def text_vectors(network: Linker, words: Tensor) -> Tensor:
    """Return (texts, width) vectors of length 1 of (texts, length) ids, padded with 0 at the end."""
    return functional.normalize(network.encode(words, words != PADDING), dim=1)


def exports(state: LinkState) -> Exports:
    """Return the graph of the network."""
    network = state.network
    num_words = len(state.tokenizer.vocabulary)
    # Pieces of unknown words have ids below 0.
    first = -PIECES if state.network_settings.bag else FIRST
    random = np.random.default_rng(0)

    def examples(rows: int, length: int) -> tuple[Tensor]:
        ids = random.integers(first, num_words, (rows, length))
        # Padding and unknown words are left to the ends of the rows.
        ids[(ids >= 0) & (ids < FIRST)] = FIRST
        return (torch.from_numpy(pad_ends(ids, random)),)

    graph = Traceable(Wrapped(network, text_vectors), {"words": {0: "texts", 1: "length"}}, ["vectors"], examples)
    return Exports({GRAPH: graph}, vocabulary=[*FIRST * [""], *state.tokenizer.vocabulary.values])
