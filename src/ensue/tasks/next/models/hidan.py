"""HiDAN: Hierarchical Diffusion Attention Network (Wang & Li, IJCAI 2019).

Given who passed a story on so far, and when, rank who passes it on next. Two attentions, no recurrence: each user
attends to the users before it (dependency), and the answer attends to every user by importance and age (influence).

=========  ==========================================================================
Eq. 1      ``HiDAN.embed``: user table, then a dense layer with ELU
Eqs. 2-4   ``HiDAN.dependency``: attention between users, a (time x time) matrix per cascade
Eqs. 5-6   ``HiDAN.fuse``: the gate between a user and its context
Eqs. 7-8   ``HiDAN.influence``: importance and time decay, by a table look-up
Eq. 9      ``HiDAN.forward``: the cascade's vector at every step
Eq. 10     ``HiDAN.forward``: scores of all users; the softmax is inside the loss
Eq. 11     ``HiDAN.loss``
=========  ==========================================================================

Eq. 7 reads a one-hot age, so it is a row of a (ages x dim) table, and Eq. 8's score of user j at age a is entry (j, a)
of one (time x ages) matrix. Step i gathers its row from it: no (time x time x dim) tensor exists, and all steps of a
cascade are answered in one pass.

Sizes are the paper's (section 3.3), completed by the authors' released program: user table 32 wide, 40 intervals of
3 hours plus one for age 0, ages past 120 hours share the last, the latest 30 users as history. ``hidan-paper`` is also
trained as the program trains: batches of 32, the loss watched every five epochs, the softmax over all users.

**Departures.** The window is a band: a user attends to the ``window - 1`` users before it at every step, so that
one pass serves all steps; the released program cuts the cascade first, which hides some of that context. Up to
``window`` users there is no difference. The two projections of Eq. 2 carry biases, as the paper's own count of
parameters (Table 3) implies; the scalar bias of Eq. 8's score, which a softmax cannot see, is left out. The user table
starts normal with deviation 0.1, not Xavier. Dropout also acts on the rows of the user table, and on neither product of
the gate (Eq. 6); the program drops every dense output but the last. Adam's beta1 is .9; the program's is .99.
HiDAN-NUA's mean includes the user itself: read literally, it would never see the newest one. But for ``hidan-paper``,
early stopping watches how well validation targets are ranked (MRR), not their loss, which on sparse data is lowest
before anything was learned; batches hold 16 cascades. When no validation data is given, the part held out for early
stopping is used too: the network is trained again on all data for as many epochs as were best.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.attention import band, masked_mean, masked_softmax
from ensue.nn.dropout import Dropout
from ensue.nn.fused_cascades import Ages, Band, FusedReading, Weights, cascades, suits_kernel
from ensue.nn.item_head import ItemLayer, ItemTable, clear_padding
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork
from ensue.tasks.next.settings import HiDANSettings

SCALE = 10.0
"""Initial factor of the cosines."""


class HiDAN(ItemNetwork[HiDANSettings]):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes and variants.
        num_ids: rows of the user table, padding and unknown included.
    """

    def __init__(self, settings: HiDANSettings, num_ids: int) -> None:
        # Two windows, one per level.
        super().__init__(settings, reach=2 * (settings.window - 1) if settings.window else None)
        dim = settings.dim
        self.users = ItemTable(num_ids, settings.table_dim, sparse=settings.drawn is not None)
        self.dense = nn.Linear(settings.table_dim, dim)
        if settings.user_attention:
            self.context = nn.Linear(dim, dim)
            self.target = nn.Linear(dim, dim)
            self.gate_own = nn.Linear(dim, dim)
            self.gate_context = nn.Linear(dim, dim, bias=False)
        if settings.cascade_attention:
            self.importance = nn.Linear(dim, dim)
            self.importance_score = nn.Parameter(torch.empty(dim))
            if settings.time_decay:
                self.decay = nn.Parameter(torch.empty(settings.intervals + 1, dim))
                self.decay_bias = nn.Parameter(torch.zeros(dim))
        self.output = ItemLayer(dim, num_ids, settings.drawn, cosine=settings.cosine)
        if settings.cosine:
            self.log_scale = nn.Parameter(torch.empty(1))
        self.dropout = Dropout(settings.dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for matrices, zero for biases; the user table normal, so that its size does not shrink it."""
        for name, parameter in self.named_parameters():
            if name == "users.weight":
                nn.init.normal_(parameter, std=0.1)
            elif name == "log_scale":
                nn.init.constant_(parameter, math.log(SCALE))
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name == "importance_score":
                nn.init.xavier_uniform_(parameter[None])
            else:
                nn.init.zeros_(parameter)
        clear_padding(self.users)

    def embed(self, ids: Tensor) -> Tensor:
        """Eq. 1. (batch, time) ids to (batch, time, dim)."""
        return self.dropout(functional.elu(self.dense(self.dropout(self.users(ids)))))

    def dependency(self, users: Tensor, mask: Tensor) -> Tensor:
        """Eqs. 2-4: row j holds user j's weights over the users before it; the first row is zero.

        Args:
            users: (batch, time, dim) from Eq. 1.
            mask: (batch, time) True where an event is.

        Returns:
            (batch, time, time) weights.
        """
        window = self.settings.window
        if not self.settings.user_attention:
            visible = band(mask.shape[1], reach=window or None, own=True, device=mask.device) & mask[:, None, :]
            return masked_mean(visible, users.dtype)
        earlier = band(mask.shape[1], reach=window - 1 if window else None, own=False, device=mask.device)
        visible = earlier & mask[:, None, :]
        keys, queries = self.dropout(self.context(users)), self.dropout(self.target(users))
        return masked_softmax(queries @ keys.transpose(1, 2), visible)

    def fuse(self, users: Tensor, context: Tensor) -> Tensor:
        """Eqs. 5-6: (batch, time, dim) users aware of their context."""
        if not self.settings.user_attention:
            return context
        # lerp(context, users, gate) = (1 - gate) context + gate users.
        gate = torch.sigmoid(self.gate_own(users) + self.gate_context(context))
        return torch.lerp(context, users, gate)

    def ages(self, times: Tensor) -> Tensor:
        """Return the interval of every pair, (batch, step, event) integers in [0, intervals]; 0 only at age 0.

        Args:
            times: (batch, time) seconds since the cascade began.
        """
        time_gaps = (times[:, :, None] - times[:, None, :]).clamp(min=0)
        return torch.ceil(time_gaps / self.interval).clamp(max=self.settings.intervals).long()

    @property
    def interval(self) -> float:
        """Seconds of an interval of age."""
        return self.settings.max_hours * 3600 / self.settings.intervals

    def by_age(self, fused: Tensor) -> Tensor:
        """Eqs. 7-8 of every event at every age: (batch, time, ages) of (batch, time, dim)."""
        return self._important(fused) @ (torch.sigmoid(self.decay + self.decay_bias) * self.importance_score).T

    def _important(self, fused: Tensor) -> Tensor:
        return self.dropout(functional.elu(self.importance(fused)))

    def influence(self, fused: Tensor, times: Tensor, mask: Tensor) -> Tensor:
        """Eqs. 7-8: row i holds step i's weights over events up to i, by importance and age.

        Args:
            fused: (batch, time, dim) from Eq. 6.
            times: (batch, time) seconds since the cascade began.
            mask: (batch, time) True where an event is.

        Returns:
            (batch, time, time) weights.
        """
        earlier = band(mask.shape[1], reach=self.settings.window or None, own=True, device=mask.device)
        visible = earlier & mask[:, None, :]
        if not self.settings.cascade_attention:
            return masked_mean(visible, fused.dtype)
        if not self.settings.time_decay:
            scores = (self._important(fused) @ self.importance_score)[:, None, :].expand(visible.shape)
        else:
            # Step i gathers, for each event, the score at its age: index (batch, step, event) into (batch, ages,
            # event).
            scores = self.by_age(fused).transpose(1, 2).gather(1, self.ages(times))
        return masked_softmax(scores, visible)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return Eq. 9 at the target steps, (targets, dim), and both attentions, each (batch, time, time)."""
        fused, dependency, influence = self._read(batch)
        return self.scaled((influence @ fused)[batch.target_mask]), dependency, influence

    def credit(self, batch: Batch) -> Tensor:
        """Return the contribution of each earlier user to the score of a user before it came, (batch, user, earlier).

        Eqs. 9 and 10 are sums over the earlier users, so these and the user's bias are the score, exactly. Row 0, and
        what lies outside the window, is 0. With ``cosine`` they are the same up to a factor a row.
        """
        fused, _, influence = self._read(batch)
        # Products of each user with every event of its cascade, (batch, user, event).
        products = self.output.weight[batch.ids] @ fused.transpose(1, 2)
        return torch.cat([torch.zeros_like(influence[:, :1]), influence[:, :-1] * products[:, 1:]], dim=1)

    def _read(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return users with their context, (batch, time, dim), and both attentions."""
        users = self.embed(batch.ids)
        dependency = self.dependency(users, batch.mask)
        fused = self.fuse(users, dependency @ users)
        return fused, dependency, self.influence(fused, batch.times, batch.mask)

    def loss(self, batch: Batch) -> Tensor:
        """Return Eq. 11 as a mean over the targets of the batch, in nats; padding and unknown are no candidates."""
        queries = self.scaled(self._compiled(batch)) if self._fits() else self.encode(batch)[0]
        return self.output.loss(queries, batch.targets, weights=batch.weights, shown=batch.negatives)

    def _fits(self) -> bool:
        """Return whether there are compiled functions for both attentions."""
        settings = self.settings
        return (
            settings.user_attention
            and settings.cascade_attention
            and settings.time_decay
            and suits_kernel(self.dense.weight)
        )

    def _compiled(self, batch: Batch) -> Tensor:
        """Return Eq. 9 at the target steps as :meth:`encode` does, unscaled, without a weight for every pair."""
        settings = self.settings
        lengths = batch.mask.sum(1)
        rows, time = batch.ids.shape
        window = settings.window or time + 1
        # Positions in the (batch, time) table read row after row, as the kernel numbers events.
        target_index = batch.target_mask.flatten().nonzero()[:, 0]
        # Dropout masks of the table rows and of the four dense outputs.
        shapes = (torch.Size((rows * time, width)) for width in (settings.table_dim, *4 * (settings.dim,)))
        earlier = Band(lengths, window - 1, own=False)
        seen = Band(lengths, window, own=True)
        reading = FusedReading(
            earlier, seen, Ages(batch.times, self.interval), target_index, self.dropout.draw(*shapes)
        )
        weights = Weights(
            self.dense.weight, self.dense.bias, self.context.weight, self.context.bias,
            self.target.weight, self.target.bias, self.gate_own.weight, self.gate_own.bias, self.gate_context.weight,
            self.importance.weight, self.importance.bias, self.importance_score, self.decay, self.decay_bias,
        )  # fmt: skip
        return cascades(reading, self.users(batch.ids.flatten()), weights)

    def scaled(self, cascades: Tensor) -> Tensor:
        """Return (targets, dim) queries: with ``cosine`` of the learned length, else as they are."""
        if not self.settings.cosine:
            return cascades
        return functional.normalize(cascades, dim=1) * self.log_scale.exp()
