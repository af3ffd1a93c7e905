"""Texts as a tree: a beginning that several of them share stands there once, so that a decoder reads it once.

All nodes of a tree stand in one row, and attention is masked to the path that leads to each. Candidates for a search
box begin alike, so the tree has far fewer nodes than the texts have tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ensue.nn.transformer import Rows
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
    rows: Rows
    seen: Tensor
    nodes: Tensor

    @classmethod
    def of(cls, texts: Tensor, sources: int) -> Tree:
        """From (texts, width) ids, 0 at padding; as many texts stand side by side for each source."""
        there, device = texts != PADDING, texts.device
        source = torch.arange(len(texts), device=device) // (len(texts) // sources)
        above, owner = source.clone(), torch.arange(sources, device=device)
        levels, nodes, low = [], torch.zeros_like(texts), 0
        for depth in range(texts.shape[1]):
            row = there[:, depth].nonzero()[:, 0]
            keys, above[row] = torch.unique((above[row] << _TOKEN) + texts[row, depth], return_inverse=True)
            nodes[row, depth] = above[row] + low
            owner = owner[keys >> _TOKEN]
            levels.append(torch.stack([owner, keys & ((1 << _TOKEN) - 1), torch.full_like(keys, depth)]))
            low += len(keys)
        every = torch.cat(levels, dim=1)
        order = every[0].argsort(stable=True)
        owner, ids, depths = every[:, order]
        counts = owner.bincount(minlength=sources)
        most = int(counts.max())
        place = torch.arange(low, device=device) - (counts.cumsum(0) - counts)[owner]
        nodes = torch.empty_like(order).scatter(0, order, torch.arange(low, device=device))[nodes] * there
        rows = Rows(sources, most, None if low == sources * most else owner * most + place)
        text, end, before = (there[:, :, None] & there[:, None]).tril().nonzero(as_tuple=True)
        seen = torch.zeros(sources, most, most, dtype=torch.bool, device=device)
        seen[source[text], place[nodes[text, end]], place[nodes[text, before]]] = True
        return cls(ids, depths, rows, seen, nodes)
