"""SR-GNN: session-based recommendation with graph neural networks (Wu, Tang, Zhu, Wang, Xie & Tan, AAAI 2019).

Given the clicks of a session so far, rank the next one. The clicks are a graph: an item is a node, however often it is
clicked, and an edge leads from each click to the next. A gated network passes messages along the edges, and an
attention led by the latest click sums up the clicks.

=============  ==================================================================================================
section 3.1    ``session_graphs``: edges by the number of their clicks, normalised for outgoing and incoming edges
Eq. 1          ``SRGNN.propagate``: a = [A_out, A_in] [v_1, …, v_n]' H + b
Eqs. 2-3       ``SRGNN.gates``: z = sigmoid(W_z a + U_z v), r = sigmoid(W_r a + U_r v)
Eqs. 4-5       ``SRGNN.candidate``: v~ = tanh(W_o a + U_o (r * v)); v becomes (1 - z) * v + z * v~
Eq. 6          ``SRGNN.encode``: alpha_i = q . sigmoid(W_1 v_n + W_2 v_i + c); s_g is the sum of alpha_i v_i
Eq. 7          ``SRGNN.combine``: s_h = W_3 [v_n; s_g]
Eqs. 8-10      the item head: scores s_h . v_i by the table of items, softmax, cross-entropy
=============  ==================================================================================================

Each prefix of a session has a graph of its own, so each target is a row of its own. A node is stored at the first click
on its item, and other clicks read it there.

Defaults are the authors': 100 wide, one step of propagation, an L2 penalty of 1e-5, all weights uniform within
1 / sqrt(dim).

**Departures.** The loss is the cross-entropy of the softmax, as in the released program; Eq. 10 prints the sum of
binary cross-entropies. The released program counts an edge once, however often it was taken; here its clicks count, as
printed. A batch of 128 sessions stands for the authors' 100 prefixes, and the learning rate does not fall. The session
is its latest ``max_length`` clicks. As weights, the shares of |alpha_i| are shown, for the paper's are not normalised.
Early stopping monitors the MRR of held-out sessions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ensue.nn.attention import absolute_shares
from ensue.nn.item_head import ItemHead, clear_padding
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork, num_targets_of, prefixes_of, with_shares
from ensue.tasks.next.settings import SRGNNSettings


def session_graphs(ids: Tensor, mask: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return the graphs of sessions over positions, of which the first click on each item is its node.

    Args:
        ids: (sessions, clicks).
        mask: (sessions, clicks) True where a click is.
        dtype: of the shares.

    Returns:
        (sessions, clicks) the node of each click; (sessions, clicks, clicks) the shares of a node's outgoing edges, and
        of its incoming edges, in the row of the node.
    """
    num_clicks = ids.shape[1]
    steps = torch.arange(num_clicks, device=ids.device)
    is_same = (ids[:, :, None] == ids[:, None, :]) & mask[:, None, :]
    nodes = torch.where(is_same, steps, num_clicks - 1).amin(2)
    # An edge from node i to node j is cell i * clicks + j of its session's matrix.
    cells = nodes[:, :-1] * num_clicks + nodes[:, 1:]
    is_edge = (mask[:, :-1] & mask[:, 1:]).to(dtype)
    counts = is_edge.new_zeros(ids.shape[0], num_clicks * num_clicks).scatter_add_(1, cells, is_edge)
    counts = counts.view(-1, num_clicks, num_clicks)
    outgoing, incoming = (edges / edges.sum(2, keepdim=True).clamp(min=1) for edges in (counts, counts.transpose(1, 2)))
    return nodes, outgoing, incoming


class SRGNN(ItemNetwork[SRGNNSettings]):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes, loss.
        num_ids: rows of the item table, padding and unknown included.
    """

    def __init__(self, settings: SRGNNSettings, num_ids: int) -> None:
        super().__init__(settings, reach=settings.max_length - 1)
        dim = settings.dim
        self.items = ItemHead(num_ids, dim, negatives=settings.drawn)
        self.messages = nn.Linear(dim, 2 * dim, bias=False)
        self.messages_bias = nn.Parameter(torch.empty(2 * dim))
        self.gates = nn.Linear(3 * dim, 2 * dim, bias=False)
        self.candidate = nn.Linear(3 * dim, dim, bias=False)
        self.latest = nn.Linear(dim, dim)
        self.event = nn.Linear(dim, dim, bias=False)
        self.vector = nn.Parameter(torch.empty(dim))
        self.combine = nn.Linear(2 * dim, dim, bias=False)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(dim**-0.5), dim**-0.5)
        clear_padding(self.items)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return s_h at the target clicks, (targets, dim), and the shares of |alpha_i|, (batch, time, time)."""
        weights = self.items.weight.new_zeros(batch.mask.shape + batch.mask.shape[1:])
        sessions = self.items.weight.new_zeros(num_targets_of(batch), self.settings.dim)
        for prefixes in prefixes_of(batch, self.settings.max_length):
            events = self.propagate(prefixes.ids, prefixes.mask)
            latest = events[:, -1]
            alphas = (self.latest(latest)[:, None] + self.event(events)).sigmoid() @ self.vector * prefixes.mask
            summed = (alphas[:, None] @ events)[:, 0]
            combined = self.combine(torch.cat([latest, summed], dim=1))
            sessions = sessions.index_copy(0, prefixes.targets, combined.to(sessions.dtype))
            shares = absolute_shares(alphas[:, None], prefixes.mask)[:, 0].to(weights.dtype)
            weights = with_shares(weights, prefixes.cells, shares)
        return sessions, weights

    def propagate(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the node vectors at the clicks of sessions, (sessions, clicks, dim), Eqs. 1-5.

        Args:
            ids: (sessions, clicks).
            mask: (sessions, clicks) True where a click is.
        """
        vectors: Tensor = self.items(ids)
        nodes, outgoing, incoming = session_graphs(ids, mask, vectors.dtype)
        for _ in range(self.settings.steps):
            sent = self.messages(vectors).chunk(2, dim=2)
            received = torch.cat([outgoing @ sent[0], incoming @ sent[1]], dim=2) + self.messages_bias
            update, reset = self.gates(torch.cat([received, vectors], dim=2)).sigmoid().chunk(2, dim=2)
            candidate = self.candidate(torch.cat([received, reset * vectors], dim=2)).tanh()
            vectors = (1 - update) * vectors + update * candidate
        # Every click gathers the vector of its item's node.
        return vectors.gather(1, nodes[..., None].expand_as(vectors))
