"""Blend: what a trained network expects, and what past sessions like this one held.

A network generalises but blurs rare items; nearest neighbours remember them but know nothing else. The score of a
candidate is CORE's plus ``weight`` times ln(1 + its share among VS-kNN's neighbours / ``FLOOR``): nothing for what no
neighbour holds, more and more slowly beyond. The one number between them, ``weight``, is the one of ``WEIGHTS`` with
the best NDCG@20 on the held-out part, which neither side has seen then. After that both learn everything.

======================  ========================================================
network                 :class:`ensue.next_event.core.CORE`
memory                  :class:`ensue.next_event.session_knn.VSKNN`
their sum               ``Blend.forward``
the choice of a weight  ``Blend.finish``
======================  ========================================================

No paper's model; what it is better at than either part is measured by ``ensue compare``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn

from ensue import metrics
from ensue.data.histories import Histories
from ensue.next_event.batch import Batch, Output
from ensue.next_event.core import CORE, CORESettings
from ensue.next_event.session_knn import VSKNN, VSKNNSettings
from ensue.next_event.task import Pieces, hide_seen, repeats

FLOOR = 0.001
"""Shares among the neighbours well below this count as nothing."""
WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
"""What the memory may weigh."""
AT = 20
"""Length of the list whose NDCG chooses the weight."""
TRIED = 20_000
"""Held-out targets, drawn at random, on which the weights are tried."""


@dataclass(frozen=True, kw_only=True)
class BlendSettings(CORESettings):
    """Settings of CORE, and of the memory."""

    sample: int = 1000
    """How many of the most recent sessions that share an event are compared."""
    neighbours: int = 100
    """How many of those, the most similar ones, have a say."""
    window: int = 10
    """How many of the latest events are compared."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory()

    def memory(self) -> VSKNNSettings:
        """The memory's part."""
        return VSKNNSettings(sample=self.sample, neighbours=self.neighbours, window=self.window)


class Blend(nn.Module):
    """CORE beside VS-kNN; see the module.

    Args:
        settings: of both.
        num_ids: size of the catalogue, padding and unknown included.
    """

    def __init__(self, settings: BlendSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        own = {field.name: getattr(settings, field.name) for field in fields(CORESettings)}
        self.network = CORE(CORESettings(**own), num_ids)
        self.memory = VSKNN(settings.memory(), num_ids)
        self.register_buffer("weight", torch.zeros(1))
        self.weight: Tensor

    @property
    def reach(self) -> int | None:
        """How many earlier events can change a step's answer."""
        return max(2 * (self.settings.length - 1), self.settings.window - 1)

    def grow(self, num_ids: int) -> Blend:
        """The same model with room for more items; a new item starts at random, and no past session holds it."""
        grown = Blend(self.settings, num_ids)
        grown.network, grown.memory = self.network.grow(num_ids), self.memory.grow(num_ids)
        grown.weight.copy_(self.weight)
        return grown

    def observe(self, ids: Tensor) -> None:
        """Count a few events of a stream once they are learned; the memory gets whole sessions when they are over."""
        self.network.observe(ids)

    def loss(self, batch: Batch) -> Tensor:
        """The network's."""
        return self.network.loss(batch)

    def forward(self, batch: Batch) -> Output:
        """Scores (asked, ids), padding and unknown at -inf; weights (batch, time, time) of both parts."""
        output: Output = self.network(batch)
        if not float(self.weight):
            return output
        cell, remembered, heard = self._recall(batch)
        weights = output.weights[0] + self.weight * heard
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
        output.scores.view(-1).index_add_(0, cell, self.weight * remembered)
        return Output(output.scores, (weights,))

    def finish(self, learned: Histories, valid: Histories | None, earlier: Blend | None) -> None:
        """Remember what the network was trained on, and choose the weight.

        Args:
            learned: the training data.
            valid: what neither part has seen; ``None`` to take over the weight of ``earlier``.
            earlier: the same model, trained on a part of the data.
        """
        self.memory.cpu().count(learned)
        if valid is not None:
            self._choose(valid, hide=not repeats(learned))
        elif earlier is not None:
            self.weight.copy_(earlier.weight)

    def _recall(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Row x ids + item of what the neighbours hold, what it adds at weight 1, and each event's part in it."""
        device = batch.ids.device
        # They are found in NumPy, wherever the network is.
        cell, said, weights = self.memory.cpu().hear(batch.to(torch.device("cpu")))
        cell, number = torch.unique(cell, return_inverse=True)
        share = torch.zeros(len(cell)).index_add_(0, number, said)
        return cell.to(device), share.div_(FLOOR).log1p_().to(device), weights.to(device)

    @torch.no_grad()
    def _choose(self, valid: Histories, *, hide: bool) -> None:
        self.eval()
        pieces, device = Pieces(valid, self.reach), self.weight.device
        order, tried = np.random.default_rng(0).permutation(len(pieces)), 0
        found: list[list[Tensor]] = [[] for _ in WEIGHTS]
        for index in np.array_split(order, -(-len(order) // 64)):
            batch = pieces.batch(index).to(device)
            scores, (cell, remembered, _) = self.network(batch).scores, self._recall(batch)
            for own, weight in zip(found, WEIGHTS, strict=True):
                summed = scores.view(-1).index_add(0, cell, weight * remembered).view_as(scores).cpu()
                shown = hide_seen(summed, valid, pieces.positions(index)) if hide else summed
                own.append(metrics.ranks(shown, batch.targets.cpu()))
            tried += batch.num_targets
            if tried >= TRIED:
                break
        quality = [float(metrics.gain(torch.cat(own).double().numpy(), AT).mean()) for own in found]
        self.weight.fill_(WEIGHTS[int(np.argmax(quality))])
