"""SANSR: self-attention network for session-based recommendation (Sun, Tang, Dai & Zhou, IEEE Access 2019).

Given the clicks of a session so far, rank the next one. Items and positions (counted from the latest click) are added,
blocks of multi-head self-attention and a feed-forward part follow, and the vector of the latest click is compared with
the table of items.

===========  =========================================================================================
section A    ``SANSR.items`` and ``SANSR.positions``: M and P, times sqrt(dim) as section E.2 says
Eqs. 1-2     ``SANSRBlock.attend``: layer norm, projections, softmax(QK / sqrt(dim)) a head, W_O
Eq. 3        ``SANSRBlock.feed``: layer norm after the residual, two layers with ReLU, residual
Eqs. 4-5     ``SANSR._prefixes``: block upon block
Eq. 6        ``SANSR.forward``: scores by the table of items itself
Eqs. 7-8     ``SANSR.loss``: ``bpr_softmax`` as printed; ``bpr``, ``ce`` and ``sampled`` beside it
===========  =========================================================================================

With one block the answer at a click needs only vectors from before the attention, so all clicks of a session are
answered in one pass. Positions count back from the target click, so event j has another vector for every step i. But
the layer norm of a sum splits into a part of the event, a part of the position, and a deviation that is one number for
each (event, distance): ``SANSR._one_pass`` makes (time x length) tables and gathers from them, and no (time x time x
dim) tensor exists. With no block, or more than one, each prefix is a row of its own, as the paper trains.

The defaults of width, heads and blocks are the paper's best (128, 2, 1); what it leaves out (length, dropout,
negatives, learning rate, batch) was chosen on validation data.

**Departures.** Heads are dim / heads wide (Eq. 2 prints dim x dim). P has a row for each position, not |V| rows.
Dropout also acts on the embeddings of items. The loss is ``sampled``: softmax over the target and shared negatives,
corrected by their chance of being drawn. The printed loss (``bpr_softmax``) compares probabilities, whose gradients
vanish with the size of the catalogue; of the pairs of Eq. 8 it takes 32 for each target, uniformly from the items
outside its session. The L2 term of Eq. 8 is the schedule's ``weight_decay``, 0 unless set, for the paper gives no
lambda. The learning rate warms up and falls by a cosine; early stopping watches the ranking of the validation data.
``sansr-paper`` has the printed loss and a constant learning rate.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue import kernels
from ensue.nn.attention import band, masked_softmax
from ensue.nn.autograd import DerivedCache, is_traced, parameters_of
from ensue.nn.dropout import Dropout
from ensue.nn.incremental import prepared_pass
from ensue.nn.item_head import ItemHead, start_normal
from ensue.nn.sampling import draw_unseen, pairwise_loss, pairwise_softmax_loss
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork, Prefixes, num_targets_of, prefixes_of, session_ids, with_shares
from ensue.tasks.next.settings import SANSRSettings

MAX_FUSED = 8
MAX_FUSED_EVENTS = 2048
"""Sessions of a compiled pass, or their events, padding included, at most: torch is faster for more."""
PAIRWISE = {"bpr": pairwise_loss, "bpr_softmax": pairwise_softmax_loss}


class SANSRBlock(nn.Module):
    """One self-attention block, Eqs. 1-3."""

    def __init__(self, settings: SANSRSettings) -> None:
        super().__init__()
        dim = settings.dim
        self.heads = settings.heads
        self.residual = settings.residual
        self.before = nn.LayerNorm(dim)
        self.after = nn.LayerNorm(dim)
        self.query, self.key, self.value, self.joined = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.wide = nn.Linear(dim, dim)
        self.narrow = nn.Linear(dim, dim)
        self.dropout = Dropout(settings.dropout)

    def split(self, vectors: Tensor) -> Tensor:
        """(…, time, dim) to (…, heads, time, dim / heads)."""
        return vectors.view(*vectors.shape[:-1], self.heads, -1).transpose(-3, -2)

    def join(self, heads: Tensor) -> Tensor:
        """Eq. 2: heads side by side, dropped out, through W_O."""
        return self.joined(self.dropout(heads.transpose(-3, -2).flatten(-2)))

    def attend(self, vectors: Tensor, mask: Tensor, queried: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Eqs. 1-2: the ``asked`` events of a row see every other. (rows, asked, dim), (rows, heads, asked, time)."""
        normed = self.before(vectors)
        queries = self.split(self.query(normed[:, queried]))
        keys, values = (self.split(linear(normed)) for linear in (self.key, self.value))
        scores = queries @ keys.transpose(-1, -2) / vectors.shape[-1] ** 0.5
        weights = masked_softmax(scores, mask[:, None, None, :])
        return self.join(weights @ values), weights

    def feed(self, attended: Tensor, vectors: Tensor) -> Tensor:
        """Eq. 3: the residual, the layer norm, and the feed-forward part."""
        normed: Tensor = self.after(attended + vectors if self.residual else attended)
        fed: Tensor = self.dropout(self.narrow(functional.relu(self.wide(normed))))
        return fed + normed if self.residual else fed


class SANSR(ItemNetwork[SANSRSettings]):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes, variants, loss.
        num_ids: rows of the item table, padding and unknown included.
    """

    def __init__(self, settings: SANSRSettings, num_ids: int) -> None:
        super().__init__(settings, reach=settings.max_length - 1)
        self.weighs_targets = settings.loss not in PAIRWISE
        sparse = settings.loss in ("sampled", "bpr")  # these touch some rows only
        self.items = ItemHead(num_ids, settings.dim, negatives=settings.drawn, sparse=sparse)
        self.positions = nn.Embedding(settings.max_length, settings.dim)
        self.blocks = nn.ModuleList(SANSRBlock(settings) for _ in range(settings.num_layers))
        self.dropout = Dropout(settings.dropout)
        self._fused = DerivedCache(self._packed)
        start_normal(self.items, std=settings.dim**-0.5 / 4)
        nn.init.normal_(self.positions.weight, std=settings.dim**-0.5 / 4)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return F of Eq. 5 at the target clicks, (targets, dim), and the attention there, (batch, time, time)."""
        # With one target per session, as in an answer, nothing is shared between targets.
        if is_traced():
            return self._prefixes(batch)
        is_answer = not torch.is_grad_enabled() and int(batch.target_mask.sum()) <= len(batch.ids)
        is_small = 0 < len(batch.ids) <= MAX_FUSED or 0 < batch.ids.numel() <= MAX_FUSED_EVENTS
        is_fused = is_answer and is_small and not self.training and not batch.ids.is_cuda
        if is_fused and len(self.blocks) == 1 and kernels.is_loaded():
            prepared = self._fused.get(parameters_of(self))
            if prepared is not None:
                return self._compiled_sessions(batch, prepared)
        return self._prefixes(batch) if is_answer or len(self.blocks) != 1 else self._one_pass(batch)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss that the settings name, a mean over the targets; padding and unknown are no candidates."""
        sessions, _ = self.encode(batch)
        if self.settings.loss in PAIRWISE:
            negatives = draw_unseen(session_ids(batch), self.items.num_embeddings)
            return PAIRWISE[self.settings.loss](sessions, self.items.rows, batch.targets, negatives)
        return self.items.loss(sessions, batch.targets, weights=batch.weights, shown=batch.negatives)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.items(ids) * self.settings.dim**0.5)

    def _prefixes(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Encode as the paper does: one row per prefix with its latest ``max_length`` clicks, the latest at the end."""
        attention = torch.zeros(batch.mask.shape + batch.mask.shape[1:], device=batch.ids.device)
        sessions = self.items.weight.new_zeros(num_targets_of(batch), self.settings.dim)
        for prefixes in prefixes_of(batch, self.settings.max_length):
            vectors, weights = self._latest(prefixes)
            sessions = sessions.index_copy(0, prefixes.targets, vectors)
            weights = (weights * prefixes.mask).to(attention.dtype)
            attention = with_shares(attention, prefixes.cells, weights)
        return sessions, attention

    def _latest(self, prefixes: Prefixes) -> tuple[Tensor, Tensor]:
        """Return the vector of the last event of each prefix, and the weights of its events, a mean over heads."""
        vectors = self._embed(prefixes.ids) + self._distances()[: prefixes.ids.shape[1]].flip(0)
        weights = vectors.new_zeros(vectors.shape[0], 1, 1, 1)
        for depth, block in enumerate(self.blocks, 1):
            assert isinstance(block, SANSRBlock)
            queried = slice(-1, None) if depth == len(self.blocks) else slice(None)  # the rest of the last is unread
            attended, weights = block.attend(vectors, prefixes.mask, queried)
            vectors = block.feed(attended, vectors[:, queried])
        return vectors[:, -1], weights[:, :, -1].mean(1).detach()

    def _distances(self) -> Tensor:
        """Return the vector of each distance from the target click, (length, dim), distance 0 first."""
        return self.positions.weight * self.settings.dim**0.5

    def _one_pass(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Encode all target clicks of a session at once by one block; equal to :meth:`_prefixes`."""
        (block,) = self.blocks
        assert isinstance(block, SANSRBlock)
        time = batch.ids.shape[1]
        dim = self.settings.dim
        length = min(self.settings.max_length, time)
        items = self._embed(batch.ids)
        position_vectors = self._distances()[:length]
        latest = items + position_vectors[0]
        scale = block.before.weight
        shift = block.before.bias
        item, position = (tensor - tensor.mean(-1, keepdim=True) for tensor in (items, position_vectors))
        # Variance of item + position without their sum: |a + b|^2 = |a|^2 + 2ab + |b|^2, both centred.
        squares = item.square().sum(-1)[..., None] + 2 * item @ position.T + position.square().sum(-1)
        deviation = (squares / dim + block.before.eps).rsqrt()  # (batch, event, distance)

        steps = torch.arange(time, device=batch.ids.device)
        # Each (step, event) pair gathers the deviation at its distance.
        distance = (steps[:, None] - steps[None, :]).clamp(0, length - 1)  # (step, event)
        shape = (batch.ids.shape[0], time, time)
        inverse = deviation.gather(2, distance.T.expand(shape)).transpose(1, 2)[:, None]  # (batch, 1, step, event)
        queries = block.split(block.query(block.before(latest)))
        keys, values = (block.split(tensor(item * scale)) for tensor in (block.key, block.value))
        place_keys, place_values = (block.split(tensor(position * scale)) for tensor in (block.key, block.value))
        # Scores split into a part of the item and a part of the position.
        by_distance = queries @ place_keys.transpose(-1, -2)  # (batch, heads, step, distance)
        score_shape = (*queries.shape[:2], time, time)
        scores = (
            (queries @ keys.transpose(-1, -2) + by_distance.gather(3, distance.expand(score_shape)))
            * inverse
            / dim**0.5
        )
        visible = band(time, reach=length, own=True, device=batch.ids.device) & batch.mask[:, None, None, :]
        weights = masked_softmax(scores, visible)

        scaled = weights * inverse
        event = steps[:, None] - torch.arange(length, device=batch.ids.device)  # (step, distance)
        # Reorder weights by distance, so that position values are summed by one product.
        placed = scaled.gather(3, event.clamp(min=0).expand(*queries.shape[:3], length)) * (event >= 0)
        heads = scaled @ values + placed @ place_values + block.split(block.value(shift)[None])
        fed: Tensor = block.feed(block.join(heads)[batch.target_mask], latest[batch.target_mask])
        return fed, weights.mean(1)

    def _packed(self) -> kernels.Structure | None:
        """Return the weights of a network with one block for a compiled pass over a few target steps."""
        (block,) = self.blocks
        assert isinstance(block, SANSRBlock)
        attention_inputs = torch.cat([block.query.weight, block.key.weight, block.value.weight])
        matrices = {"inward": attention_inputs, "joined": block.joined.weight}
        matrices |= {"wide": block.wide.weight, "narrow": block.narrow.weight}
        tensors = {name: weight.T.contiguous() for name, weight in matrices.items()}
        tensors |= {"items": self.items.weight, "positions": self.positions.weight}
        tensors |= {"wide_bias": block.wide.bias, "narrow_bias": block.narrow.bias}
        norms = {"before": block.before, "after": block.after}
        return prepared_pass("latest_clicks", tensors, norms, heads=block.heads, residual=int(block.residual))

    def _compiled_sessions(self, batch: Batch, prepared: kernels.Structure) -> tuple[Tensor, Tensor]:
        """Compute :meth:`encode` by a compiled pass."""
        rows, steps = batch.target_mask.nonzero(as_tuple=True)
        sessions = torch.empty(len(rows), self.settings.dim)
        weights = torch.empty(len(rows), batch.ids.shape[1])
        kernels.call(
            "latest_clicks", prepared, ids=batch.ids.contiguous(), rows=rows.contiguous(),
            steps=steps.contiguous(), sessions=sessions, weights=weights,
        )  # fmt: skip
        attention = torch.zeros(batch.mask.shape + batch.mask.shape[1:])
        attention[rows, steps] = weights
        return sessions, attention
