"""Blend: what a trained network expects, and what past sessions like this one held.

A network generalises but blurs rare items; nearest neighbours remember them but know nothing else. They meet twice:

- A candidate's vector is CORE's, of length 1, plus ``lean`` times the mean of those that past sessions held beside it,
  brought to length 1 again: what is read together moves together, and a rare item gains from those it was read with.
- A candidate's score is CORE's plus ``weight`` times ln(1 + its share among VS-kNN's neighbours / ``FLOOR``): nothing
  for what no neighbour holds, more and more slowly beyond.

The two numbers are those of ``LEANS`` and ``WEIGHTS`` with the best NDCG@20 on the held-out part, which neither side
has seen then: ``lean`` at weight 1, then ``weight``. After that both learn everything.

=====================  =========================================================
network                :class:`ensue.next_event.core.CORE`
memory                 :class:`ensue.next_event.session_knn.VSKNN`
vectors that lean      ``Blend.table``
the sum of scores      ``Blend.forward``
the choice of numbers  ``Blend.finish``
=====================  =========================================================

No paper's model; what it is better at than either part is measured by ``ensue compare``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.next_event.batch import Batch, Output
from ensue.next_event.core import CORE, CORESettings
from ensue.next_event.session_knn import VSKNN, VSKNNSettings
from ensue.next_event.task import Pieces, hide_seen, repeats

FLOOR = 0.001
"""Shares among the neighbours well below this count as nothing."""
DECAY = "linear"
"""How the memory weighs clicks by their distance; this and 300 neighbours: the last tenth of Diginetica's training."""
LEANS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""How far a candidate's vector may lean towards what was held beside it."""
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
    neighbours: int = 300
    """How many of those, the most similar ones, have a say."""
    window: int = 10
    """How many of the latest events are compared."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory()

    def memory(self) -> VSKNNSettings:
        """The memory's part."""
        return VSKNNSettings(sample=self.sample, neighbours=self.neighbours, window=self.window, decay=DECAY)


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
        self.register_buffer("lean", torch.zeros(1))
        self.register_buffer("beside", torch.zeros(num_ids, settings.dim))
        self.weight: Tensor
        self.lean: Tensor
        self.beside: Tensor
        self._leaning: tuple[Tensor, list[int], Tensor] | None = None

    @property
    def reach(self) -> int | None:
        """How many earlier events can change a step's answer."""
        return max(2 * (self.settings.length - 1), self.settings.window - 1)

    def grow(self, num_ids: int) -> Blend:
        """The same model with room for more items; a new item starts at random, and no past session holds it."""
        grown = Blend(self.settings, num_ids)
        grown.network, grown.memory = self.network.grow(num_ids), self.memory.grow(num_ids)
        grown.weight.copy_(self.weight)
        grown.lean.copy_(self.lean)
        grown.beside[: len(self.beside)] = self.beside
        return grown

    def place(self, first: int) -> None:
        """Let the items from id ``first`` on start near what came lately."""
        self.network.place(first)

    def observe(self, ids: Tensor, times: Tensor) -> None:
        """Count a few events of a stream once they are learned; the memory gets whole sessions when they are over."""
        self.network.observe(ids, times)

    def loss(self, batch: Batch) -> Tensor:
        """The network's."""
        return self.network.loss(batch)

    def table(self) -> Tensor:
        """(ids, dim + counts) the network's candidates, leaning; kept as long as the network keeps its own."""
        table = self.network.table()
        if not float(self.lean):
            return table
        state = [self.lean._version, self.beside._version, self.beside.data_ptr()]
        if self._leaning is None or self._leaning[0] is not table or self._leaning[1] != state:
            dim, temperature = self.settings.dim, self.settings.temperature
            leaning = functional.normalize(table[:, :dim] * temperature + self.lean * self.beside, dim=1) / temperature
            self._leaning = table, state, torch.cat([leaning.T, table[:, dim:].T]).T
        return self._leaning[2]

    def forward(self, batch: Batch) -> Output:
        """Scores (asked, ids), padding and unknown at -inf; weights (batch, time, time) of both parts."""
        sessions, own = self.network.sessions(batch)
        scores = self.network.compare(sessions, self.table())
        if not float(self.weight):
            return Output(scores, (own,))
        cell, remembered, heard = self._recall(batch)
        weights = own + self.weight * heard
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
        scores.view(-1).index_add_(0, cell, self.weight * remembered)
        return Output(scores, (weights,))

    def finish(self, learned: Histories, valid: Histories | None, earlier: Blend | None) -> None:
        """Remember what the network was trained on, and choose the two numbers.

        Args:
            learned: the training data.
            valid: what neither part has seen; ``None`` to take over the numbers of ``earlier``.
            earlier: the same model, trained on a part of the data.
        """
        self.remember(learned)
        if valid is not None:
            self._choose(valid, hide=not repeats(learned))
        elif earlier is not None:
            self.weight.copy_(earlier.weight)
            self.lean.copy_(earlier.lean)

    @torch.no_grad()
    def remember(self, histories: Histories) -> None:
        """Add past sessions to the memory, and look again at what was held beside what."""
        self.memory.cpu().count(histories)
        vectors = functional.normalize(self.network.items.weight, dim=1).cpu()
        self.beside.copy_(self.memory.beside(vectors))

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
        """Lean at weight 1, then the weight; of numbers that are as good the smaller."""
        self.eval()
        pieces, hidden = Pieces(valid, self.reach), valid if hide else None
        order = np.random.default_rng(0).permutation(len(pieces))
        tried = [order[at : at + 64] for at in range(0, len(order), 64)]
        found = []
        for lean in LEANS:
            self.lean.fill_(lean)
            found.append(self._gains(pieces, tried, (1.0,), hidden)[0])
        self.lean.fill_(LEANS[int(np.argmax(found))])
        self.weight.fill_(WEIGHTS[int(np.argmax(self._gains(pieces, tried, WEIGHTS, hidden)))])

    def _gains(
        self, pieces: Pieces, tried: list[Index], weights: Sequence[float], hidden: Histories | None
    ) -> list[float]:
        """NDCG of some weights on the first ``TRIED`` targets; what ``hidden`` holds before them is no candidate."""
        found: list[list[Tensor]] = [[] for _ in weights]
        num_targets = 0
        for index in tried:
            batch = pieces.batch(index).to(self.weight.device)
            sessions, _ = self.network.sessions(batch)
            scores, (cell, remembered, _) = self.network.compare(sessions, self.table()), self._recall(batch)
            for own, weight in zip(found, weights, strict=True):
                summed = scores.view(-1).index_add(0, cell, weight * remembered).view_as(scores).cpu()
                shown = summed if hidden is None else hide_seen(summed, hidden, pieces.positions(index))
                own.append(metrics.ranks(shown, batch.targets.cpu()))
            num_targets += batch.num_targets
            if num_targets >= TRIED:
                break
        return [float(metrics.gain(torch.cat(own).double().numpy(), AT).mean()) for own in found]
