"""Texts as a tree: a beginning that several of them share stands there once, so that a decoder reads it once.

All nodes of a tree stand in one row, and attention is masked to the path that leads to each. Candidates for a search
box begin alike, so the tree has far fewer nodes than the texts have tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ensue.nn.transformer import PackedRows
from ensue.tasks.suggest.batch import PADDING

_TOKEN = 32
"""Bits of a key that hold the token; the others hold the node above."""


class Tree(NamedTuple):
    """The texts of each source as one tree.

    Attributes:
        ids: (nodes,) the token of each, source after source, a parent before its children.
        depths: (nodes,) its position in the texts.
        rows: where the nodes stand, a row a source.
        seen: (sources, length, length) True for a node and all that lead to it.
        nodes: (texts, width) the node of each token; 0 at padding.
    """

    ids: Tensor
    depths: Tensor
    rows: PackedRows
    seen: Tensor
    nodes: Tensor

    @classmethod
    def of(cls, texts: Tensor, sources: int) -> Tree:
        """From (texts, width) ids, 0 at padding; as many texts stand side by side for each source."""
        words = texts.numpy(force=True)  # so few numbers are ready in NumPy sooner
        is_token = words != PADDING
        source = np.arange(len(words)) // (len(words) // sources)
        # At first a text's node is the root of its source.
        parent = source.copy()
        owner = np.arange(sources)
        levels = []
        nodes = np.zeros_like(words)
        low = 0
        for depth in range(words.shape[1]):
            row = is_token[:, depth].nonzero()[0]
            # A node is a parent and a token: equal pairs at one depth are one node.
            keys, parent[row] = np.unique((parent[row] << _TOKEN) + words[row, depth], return_inverse=True)
            nodes[row, depth] = parent[row] + low
            # The new nodes' source is that of their parents.
            owner = owner[keys >> _TOKEN]
            levels.append(np.stack([owner, keys & ((1 << _TOKEN) - 1), np.full_like(keys, depth)]))
            low += len(keys)
        columns = np.concatenate(levels, axis=1)
        # From level by level to source by source; parents stay before their children.
        order = columns[0].argsort(kind="stable")
        owner, ids, depths = columns[:, order]
        counts = np.bincount(owner, minlength=sources)
        longest = int(counts.max())
        # The place of a node among those of its source: its number minus the nodes of all sources before.
        column = np.arange(low) - (counts.cumsum() - counts)[owner]
        number = np.empty_like(order)
        number[order] = np.arange(low)
        # Old node numbers to new ones; padding has node 0, which is never read.
        nodes = number[nodes] * is_token
        seen = np.zeros((sources, longest, longest), np.bool_)
        for end in range(words.shape[1]):
            row = is_token[:, end].nonzero()[0]
            # A node sees the path from the root to itself, for each text that has a token here.
            paths = column[nodes[row, : end + 1]]
            seen[source[row, None], paths[:, -1:], paths] = True
        packed = None if low == sources * longest else torch.from_numpy(owner * longest + column).to(texts.device)
        tensors = [torch.from_numpy(tensor).to(texts.device) for tensor in (ids, depths, seen, nodes)]
        return cls(tensors[0], tensors[1], PackedRows(sources, longest, packed), tensors[2], tensors[3])
