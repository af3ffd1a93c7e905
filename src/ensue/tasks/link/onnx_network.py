"""Exported networks of task ``link``: vectors of texts, without torch."""

from __future__ import annotations

import numpy as np

from ensue.errors import ModelFolderError
from ensue.nn.blocks import padded_arrays
from ensue.store.graph import Graph
from ensue.text.encoder import Vectors
from ensue.text.tokens import Tokens

BLOCK_WORDS = 2**13
"""Words per block, padding included: intermediate results stay in the cache."""


class OnnxLinker:
    """A network of task ``link``.

    Args:
        graph: with the input ``words``, (texts, length), and the output ``vectors``, (texts, width).
        width: numbers in a text's vector.
    """

    def __init__(self, graph: Graph, width: int) -> None:
        self.graph = graph
        self.width = width

    def vectors(self, tokens: Tokens) -> Vectors:
        """Return unit vectors of texts, (texts, width); 0 for a text without a word."""
        vectors = np.zeros((len(tokens), self.width), np.float32)
        starts = tokens.sentences[tokens.texts[:-1]]
        for block in padded_arrays(starts, tokens.lengths, tokens.ids, BLOCK_WORDS):
            (units,) = self.graph({"words": block.items})
            if units.shape != (len(block.rows), self.width):
                raise ModelFolderError(f"{self.graph.name}: its vectors do not have {self.width} numbers")
            vectors[block.rows] = units
        return vectors
