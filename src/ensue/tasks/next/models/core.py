"""CORE: a session as a weighted sum of its own items (after Hou, Hu, Zhang & Zhao, SIGIR 2022).

Given the events so far, rank the next one. A small Transformer only decides how much each event counts; the session is
the sum of the raw item vectors with those weights, so sessions and items stay in one space and are compared by cosine.

=====================  =======================================================================================
session encoder        ``CORE.contexts``: a Transformer block over the events
Eqs. 4-5 (weights)     ``CORE.encode``: a softmax over the events, and the weighted sum of raw item vectors
robust distance        ``CORE.forward``: cosine / temperature; dropout on item vectors and candidates
loss                   ``CORE.loss``: softmax over the target and shared negatives
=====================  =======================================================================================

**Departures.** The paper trains one row per prefix with a bidirectional encoder whose weights depend on the event
alone. Here both layers look back only and the latest event asks for the weights, so one pass answers every step of a
session; order enters as one bias per distance, so there is no longest session. The cosine is increased by ``prior``
times the logarithms of a candidate's counts: overall, and recent in a stream, by each of ``HALVES``. It is learned:
near 0 in a stable catalogue and large where today's news is read. In a stream ``RECENT`` of each forecast are the
latest events themselves: after a silence all news is new, and vectors of old items would mislead. The loss
draws its negatives (``Sampler``) and corrects for their chance; the paper's goes over all items, which is ``loss=ce``.
The learning rate rises over the first steps and falls to 0 along a cosine.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue import kernels
from ensue.nn.attention import band, masked_softmax
from ensue.nn.autograd import DerivedCache, parameters_of
from ensue.nn.dropout import Dropout
from ensue.nn.incremental import prepared_pass
from ensue.nn.item_head import Best, ItemHead, Output, Product, ShortItems, item_scores, start_normal, suit_short_items
from ensue.nn.validation import LARGEST_COUNT, require_counts, require_number
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork
from ensue.tasks.next.settings import CORESettings
from ensue.topk import Permitted
from ensue.vocabulary import FIRST

HALVES = (1_000, 16_000)
"""Events of a stream after which an event counts half as lately."""
RECENT = 0.5
"""Share of a forecast in a stream that goes to the items in proportion to how often they came lately."""
MAX_FUSED = 8
"""Number of sessions of a compiled pass, at most: torch is faster for more."""
FADED = 1e-3
"""Decayed counts below this number of events are no longer recent."""


class CORE(ItemNetwork[CORESettings]):
    """The network over ids; see the module's table.

    Args:
        settings: sizes, temperature, loss.
        num_ids: rows of the item table, padding and unknown included.
    """

    def __init__(self, settings: CORESettings, num_ids: int) -> None:
        super().__init__(settings, reach=2 * (settings.max_length - 1))
        dim = settings.dim
        length = settings.max_length
        self.items = ItemHead(num_ids, dim, negatives=settings.drawn)
        self.before = nn.LayerNorm(dim)
        self.after = nn.LayerNorm(dim)
        self.query, self.key, self.value, self.joined = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.wide = nn.Linear(dim, 2 * dim)
        self.narrow = nn.Linear(2 * dim, dim)
        self.asking = nn.Linear(dim, dim)
        self.answering = nn.Linear(dim, dim)
        self.by_distance = nn.Parameter(torch.zeros(settings.heads + 1, length))
        self.prior = nn.Parameter(torch.zeros(1 + len(HALVES)))
        self.dropout = Dropout(settings.dropout)
        self.lately: Tensor = nn.Buffer(torch.zeros(num_ids, len(HALVES)))
        self.pace: Tensor = nn.Buffer(torch.zeros(3, dtype=torch.float64))
        """Events of the stream so far, the time of the first and of the latest (seconds)."""
        self._fused = DerivedCache(self._packed)
        self._short = DerivedCache(self._shortened)
        self._table = DerivedCache(self._all_candidates)
        self._lately = DerivedCache(self._recent_shares)
        start_normal(self.items, std=0.1)

    def validate(self, name: str) -> None:
        """See :class:`ensue.nn.loading.Validated`: a stream begins before its latest event."""
        require_counts(f"{name}.lately", self.lately)
        require_counts(f"{name}.pace", self.pace[:1])
        require_number(f"{name}.pace", self.pace[1:], LARGEST_COUNT, -LARGEST_COUNT)
        if float(self.pace[2]) < float(self.pace[1]):
            raise ValueError(f"{name}.pace ends before it begins")

    @torch.no_grad()
    def place(self, first: int) -> None:
        """Let the items from id ``first`` on start near the mean of what came lately, each with its own random part.

        A vector at random would be closer to some of very many old items than to any of its day.
        """
        latest = self.lately[:first, :1]
        if float(latest.sum()) > 0:
            mean = functional.normalize((latest * functional.normalize(self.items.weight[:first], dim=1)).sum(0), dim=0)
            weights = self.items.weight.data[first:]
            # Half the direction is the mean of recent items, half is random; lengths stay as drawn.
            placed = functional.normalize(mean + functional.normalize(weights, dim=1), dim=1)
            weights.copy_(placed * weights.norm(dim=1, keepdim=True))

    def observe(self, ids: Tensor, times: Tensor) -> None:
        """Count a few events of a stream, (events,) each, once they are learned: what was counted before fades.

        It fades with the events since, and through a silence with those that would have come at the usual pace.
        """
        if not len(ids):
            return
        num_events, first, latest = self.pace.tolist()
        now = max(latest, float(times.max())) if num_events else float(times.max())
        passed = float(len(ids))
        if num_events and latest > first:
            # Events per second so far times the seconds since the latest event: the events that a silence stands for.
            passed = max(passed, (now - latest) * num_events / (latest - first))
        first = first if num_events else float(times.min())
        self.pace.copy_(torch.tensor([num_events + len(ids), first, now], dtype=torch.float64))
        fading = torch.tensor([0.5 ** (passed / half) for half in HALVES], device=self.lately.device)
        self.lately.mul_(fading).index_add_(0, ids, self.lately.new_ones(len(ids), len(HALVES)))

    def contexts(self, vectors: Tensor, visible: Tensor, distance: Tensor) -> Tensor:
        """(batch, time, dim) every event in the light of those before it: attention and feed-forward part."""
        # (batch, time, dim) to (batch, heads, time, dim / heads).
        shape = (*vectors.shape[:2], self.settings.heads, -1)
        normed = self.before(vectors)
        queries, keys, values = (
            linear(normed).view(shape).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        scores = queries @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5 + self.by_distance[:-1, distance]
        heads = masked_softmax(scores, visible[:, None]) @ values
        seen = vectors + self.dropout(self.joined(heads.transpose(1, 2).flatten(2)))
        return seen + self.dropout(self.narrow(functional.gelu(self.wide(self.after(seen)))))

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return unit vectors of the target steps, (targets, dim), and the weights of events, (batch, time, time)."""
        if self._few(batch) and (prepared := self._fused.get(parameters_of(self))) is not None:
            return self._compiled_sessions(batch, prepared)
        time = batch.ids.shape[1]
        dim = self.settings.dim
        steps = torch.arange(time, device=batch.ids.device)
        # (step, event) distances; one bias per distance is gathered from by_distance.
        distance = (steps[:, None] - steps[None, :]).clamp(0, self.settings.max_length - 1)
        visible = band(time, reach=self.settings.max_length, own=True, device=batch.ids.device) & batch.mask[:, None, :]
        items = self.dropout(self.items(batch.ids))
        contexts = self.contexts(functional.normalize(items, dim=-1) * dim**0.5, visible, distance)
        scores = self.asking(contexts) @ self.answering(contexts).transpose(-1, -2) / dim**0.5
        weights = masked_softmax(scores + self.by_distance[-1, distance], visible)
        return functional.normalize((weights @ items)[batch.target_mask], dim=-1), weights

    def candidates(self, ids: Tensor | slice) -> Tensor:
        """(…, dim + counts) unit vectors of items and logarithms of their counts, over the temperature."""
        vectors = self.items.rows(ids)
        # Logarithms of counts are columns of the candidates, so that `prior` weighs them within the product.
        ever = self.items.sampler.totals[ids].log()[..., None]
        columns = [functional.normalize(vectors, dim=-1), ever, self.lately[ids].log1p()]
        return torch.cat(columns, dim=-1) / self.settings.temperature

    def table(self) -> Tensor:
        """(ids, dim + counts) :meth:`candidates` of all ids; without a gradient it is kept until something changes."""
        if torch.is_grad_enabled():
            return self.candidates(slice(None))
        return self._table.get((self.items.weight, self.items.sampler.totals, self.lately))

    def _all_candidates(self) -> Tensor:
        # Column-major: a product with a single session is several times faster.
        return self.candidates(slice(None)).T.contiguous().T

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids), padding and unknown at -inf; weights (batch, time, time)."""
        sessions, weights = self.encode(batch)
        inference = not (torch.is_grad_enabled() or self.training)
        if inference and suit_short_items(sessions, len(self.lately)):
            short = self._short_items()
            if short is not None:
                return Output(self._mixed(short.scores(sessions, FIRST)), (weights,))
        return Output(self._mixed(self.compare(sessions, self.table())), (weights,))

    @property
    def ranks(self) -> bool:
        """See :class:`ensue.tasks.next.model.Ranks`: not in a stream, where other scores are mixed in."""
        return self.items.ranks and not len(self._lately.get((self.lately,))[0])

    def best(self, batch: Batch, permitted: Permitted, k: int) -> tuple[Best, tuple[Tensor, ...]] | None:
        """See :class:`ensue.tasks.next.model.Ranks`."""
        sessions, weights = self.encode(batch)
        short = self._short_items()
        return None if short is None else (short.best(sessions, permitted, k, FIRST), (weights,))

    def _short_items(self) -> ShortItems | None:
        return self._short.get((self.items.weight, self.items.sampler.totals, self.lately, self.prior))

    def _few(self, batch: Batch) -> bool:
        """Return whether a compiled pass pays: for few sessions, without a gradient."""
        inference = not (torch.is_grad_enabled() or self.training)
        is_small = 0 < len(batch.ids) <= MAX_FUSED and batch.ids.numel() > 0
        return is_small and inference and not batch.ids.is_cuda and kernels.is_loaded()

    def _packed(self) -> kernels.Structure | None:
        """Return the weights for a compiled pass over few sessions: one call in place of fifty small operations."""
        linears = {
            "inward": [self.query, self.key, self.value],
            "joined": [self.joined],
            "wide": [self.wide],
            "narrow": [self.narrow],
            "asking": [self.asking, self.answering],
        }
        tensors = {"items": self.items.weight, "by_distance": self.by_distance}
        for name, layers in linears.items():
            tensors[name] = torch.cat([layer.weight for layer in layers]).T.contiguous()
            if layers[0].bias is not None:
                tensors[f"{name}_bias"] = torch.cat([layer.bias for layer in layers])
        norms = {"before": self.before, "after": self.after}
        return prepared_pass("sessions", tensors, norms, heads=self.settings.heads)

    def _compiled_sessions(self, batch: Batch, prepared: kernels.Structure) -> tuple[Tensor, Tensor]:
        """Compute :meth:`encode` by a compiled pass."""
        rows, time = batch.ids.shape
        # The kernel fills only the steps of real events; attention weights of padding stay 0.
        sessions = torch.empty(rows, time, self.settings.dim)
        weights = torch.zeros(rows, time, time)
        kernels.call(
            "sessions", prepared, ids=batch.ids.contiguous(), lengths=batch.mask.sum(1), sessions=sessions,
            weights=weights,
        )  # fmt: skip
        return sessions[batch.target_mask], weights

    def _shortened(self) -> ShortItems | None:
        """:meth:`table` in half its size, the counts as what is added to a score."""
        counts = torch.cat([self.items.sampler.totals.log()[:, None], self.lately.log1p()], dim=1)
        table = self.items.weight
        factors = 1 / (table.norm(dim=1).clamp(min=1e-12) * self.settings.temperature)
        return ShortItems.of(table, factors, counts @ self.prior / self.settings.temperature)

    def product(self, batch: Batch) -> Product:
        """Return the product behind :meth:`forward`, and what it mixes in a stream, without a table of all items."""
        sessions, weights = self.encode(batch)
        return Product(self.with_prior(sessions), self.candidates, None, (weights,), recent=self._recent())

    def compare(self, sessions: Tensor, table: Tensor) -> Tensor:
        """Scores (sessions, ids) of unit vectors beside a :meth:`table`, padding and unknown at -inf."""
        return item_scores(self.with_prior(sessions), table)

    def with_prior(self, sessions: Tensor) -> Tensor:
        """(sessions, dim + counts) the vectors, and what each logarithm of a count weighs."""
        return torch.cat([sessions, self.prior.expand(sessions.shape[0], -1)], dim=1)

    def _recent(self) -> tuple[Tensor, float] | None:
        """Logarithms of the shares of what came lately, and of what the network keeps; none without a stream."""
        recent = self.lately[:, 0]
        recent = torch.where(recent > FADED, recent, 0.0)
        return ((RECENT * recent / recent.sum()).log(), math.log(1 - RECENT)) if bool(recent.any()) else None

    def _mixed(self, scores: Tensor) -> Tensor:
        """Logarithms of the mixture with what came lately; the scores as they are where there was no stream."""
        ids, share = self._lately.get((self.lately,))
        if not len(ids):
            return scores
        # Normalise first: a mixture of probabilities needs log probabilities.
        scores = scores - scores.logsumexp(1, keepdim=True) + math.log(1 - RECENT)
        return scores.index_copy(1, ids, torch.logaddexp(scores[:, ids], share))

    def _recent_shares(self) -> tuple[Tensor, Tensor]:
        """(recent,) ids that came lately, and the logarithms of their shares."""
        recent = self.lately[:, 0]
        ids = (recent > FADED).nonzero()[:, 0]
        return ids, (RECENT * recent[ids] / recent[ids].sum()).log()

    def loss(self, batch: Batch) -> Tensor:
        """Mean of -log softmax at the targets by the network alone; in training over shared negatives, if so set."""
        sessions, _ = self.encode(batch)
        queries = self.with_prior(sessions)
        return self.items.loss(queries, batch.targets, self.candidates, batch.weights, batch.negatives)
