"""Cascade blend: what HiDAN expects, and what followed these users in past cascades.

Counting remembers every pair and generalises to none; HiDAN sees the whole cascade and who leaned on whom, and blurs
what was seen once. A user's score is the sum of both, in logarithms:

    score(v) = s (HiDAN's score(v) + w ln(1 + M(v) / (``FLOOR`` sum of M)))

M is :class:`ensue.next_event.echoes.Echoes`, by closeness in time. HiDAN's scores are cosines here, over a temperature
that is learned: on little data the lengths of vectors mostly tell how frequent a user is, and the bias says that
better. ``w``, the days of closeness and the memory's shape are those of ``WEIGHTS``, ``DAYS`` and ``SHAPES`` that rank
held-out targets best by MRR; ``s``, which changes no order, is the one of ``SCALES`` whose shares fit them best by log
loss.

=====================  ========================================================
network                :class:`ensue.next_event.hidan.HiDAN` with ``cosine``
memory                 :class:`ensue.next_event.echoes.Echoes`
the sum of scores      ``CascadeBlend.forward``
the choice of numbers  ``CascadeBlend.finish``
=====================  ========================================================

No paper's model; no social graph is read. Where it beats counting is measured by ``ensue reproduce hidan``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue import metrics
from ensue.data.histories import Histories
from ensue.next_event.batch import Batch, Output
from ensue.next_event.echoes import Echoes
from ensue.next_event.hidan import HiDAN, HiDANSettings
from ensue.next_event.task import Pieces, hide_seen, repeats

DAYS = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0)
"""How close in time what counts most may be; 0: all times count alike."""
SHAPES = ((1.0, 0.0), (1.0, 0.1), (0.7, 0.0), (0.7, 0.1), (0.7, 0.3), (0.5, 0.1))
"""How steeply what stood further apart counts less, and how much what came before a user counts."""
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""What the memory may weigh."""
FLOOR = 1e-4
"""Shares of what was heard well below this count as nothing."""
SCALES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1)
"""What all scores may be multiplied by."""
TRIED = 20_000
"""Held-out targets, drawn at random, on which the numbers are tried."""


@dataclass(frozen=True, kw_only=True)
class CascadeBlendSettings(HiDANSettings):
    """Settings of HiDAN; the memory has none of its own."""

    table_dim: int = 64
    """Width of the user table."""
    cosine: bool = True
    """Scores are cosines."""


class CascadeBlend(nn.Module):
    """HiDAN beside echoes; see the module.

    Args:
        settings: of HiDAN.
        num_ids: size of the catalogue, padding and unknown included.
    """

    def __init__(self, settings: CascadeBlendSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        own = {field.name: getattr(settings, field.name) for field in fields(HiDANSettings)}
        self.network = HiDAN(HiDANSettings(**own), num_ids)
        self.memory = Echoes(num_ids, window=settings.window or 30)
        self.register_buffer("weight", torch.zeros(1))
        self.register_buffer("scale", torch.ones(1))
        self.weight: Tensor
        self.scale: Tensor

    @property
    def reach(self) -> int | None:
        """How many earlier events can change a step's answer: HiDAN's."""
        return self.network.reach

    def grow(self, num_ids: int) -> CascadeBlend:
        """The same model with room for more users; nothing followed a new user yet."""
        grown = CascadeBlend(self.settings, num_ids)
        grown.network, grown.memory = self.network.grow(num_ids), self.memory.grow(num_ids)
        grown.weight.copy_(self.weight)
        grown.scale.copy_(self.scale)
        return grown

    def loss(self, batch: Batch) -> Tensor:
        """The network's."""
        return self.network.loss(batch)

    def forward(self, batch: Batch) -> Output:
        """Scores (asked, ids), padding and unknown at -inf; dependency of the network, influence of both."""
        expected: Output = self.network(batch)
        weight, (dependency, influence) = float(self.weight), expected.weights
        if not weight:
            return Output(expected.scores * self.scale, expected.weights)
        candidates, said, heard = self._hear(batch)
        expected.scores.index_add_(1, candidates, weight * said).mul_(self.scale)
        return Output(expected.scores, (dependency, (influence + weight * heard) / (1 + weight * heard.sum(-1, True))))

    def finish(self, learned: Histories, valid: Histories | None, earlier: CascadeBlend | None) -> None:
        """Remember what the network was trained on, and choose the numbers.

        Args:
            learned: the training data.
            valid: what neither part has seen; ``None`` to take over the numbers of ``earlier``.
            earlier: the same model, trained on a part of the data.
        """
        self.remember(learned)
        if valid is not None:
            self._choose(valid, hide=not repeats(learned))
        elif earlier is not None:
            with torch.no_grad():
                self.weight.copy_(earlier.weight)
                self.scale.copy_(earlier.scale)
                self.memory.shape(earlier.memory)

    @torch.no_grad()
    def remember(self, histories: Histories) -> None:
        """Add past cascades to the memory."""
        self.memory.cpu().count(histories)

    def _hear(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Whom past cascades name, what that adds at weight 1, (asked, candidates), and each event's part in it."""
        device = batch.ids.device
        # They are looked up in NumPy, wherever the network is.
        candidates, said, heard = self.memory.cpu().hear(batch.to(torch.device("cpu")))
        shares = said / said.sum(1, keepdim=True).clamp(min=1e-30)
        return candidates.to(device), shares.div_(FLOOR).log1p_().to(device), heard.to(device)

    @torch.no_grad()
    def _choose(self, valid: Histories, *, hide: bool) -> None:
        """The days at weight 1, the shape beside them, the weight, then the scale; of numbers as good the first."""
        self.eval()
        pieces, hidden = Pieces(valid, self.reach), valid if hide else None
        order = np.random.default_rng(0).permutation(len(pieces))
        enough = int(np.searchsorted(np.cumsum((pieces.stops - pieces.asked_from)[order]), TRIED)) + 1
        batches = [order[low : low + 16] for low in range(0, min(enough, len(order)), 16)]
        memory, found = self.memory, []
        for days in DAYS if valid.timed else DAYS[:1]:
            memory.days.fill_(days)
            found.append(self._gains(pieces, batches, (1.0,), hidden)[0])
        memory.days.fill_(DAYS[int(np.argmax(found))])
        found = []
        for steep, back in SHAPES:
            memory.steep.fill_(steep)
            memory.back.fill_(back)
            found.append(self._gains(pieces, batches, (1.0,), hidden)[0])
        steep, back = SHAPES[int(np.argmax(found))]
        memory.steep.fill_(steep)
        memory.back.fill_(back)
        self.weight.fill_(WEIGHTS[int(np.argmax(self._gains(pieces, batches, WEIGHTS, hidden)))])
        self.scale.fill_(1.0)
        losses = torch.zeros(len(SCALES))
        for index in batches:
            batch = pieces.batch(index).to(self.weight.device)
            scores, targets = self(batch).scores.cpu(), batch.targets.cpu()
            shown = scores if hidden is None else hide_seen(scores, hidden, pieces.positions(index))
            losses += torch.stack(
                [functional.cross_entropy(shown * scale, targets, reduction="sum") for scale in SCALES]
            )
        self.scale.fill_(SCALES[int(losses.argmin())])

    def _gains(
        self, pieces: Pieces, batches: list[np.ndarray], weights: tuple[float, ...], hidden: Histories | None
    ) -> list[float]:
        """MRR at each weight; what ``hidden`` holds before is no candidate."""
        found: list[list[Tensor]] = [[] for _ in weights]
        for index in batches:
            batch = pieces.batch(index).to(self.weight.device)
            scores = self.network(batch).scores
            candidates, said, _ = self._hear(batch)
            for own, weight in zip(found, weights, strict=True):
                summed = scores.index_add(1, candidates, weight * said).cpu()
                shown = summed if hidden is None else hide_seen(summed, hidden, pieces.positions(index))
                own.append(metrics.ranks(shown, batch.targets.cpu()))
        return [float(metrics.reciprocal_rank(torch.cat(own).double().numpy()).mean()) for own in found]
