"""Cascade blend: what HiDAN expects, what past cascades hold, and when users take part.

Counting remembers every pair and generalises to none; HiDAN sees the whole cascade and who leaned on whom, and blurs
what was seen once; neither looks at the clock. For every user there is what each of them knows:

=====================  =======================================================================================
network                HiDAN's score: a cosine over a temperature that is learned
near, far, alike       ln(1 + share / ``FLOOR``) of what past cascades say, close in time first, all times alike
                       (``co_participation.py``), or those like this one (``neighbours.py``)
near high, far high,   the same over ``HIGH``, which tells large shares from larger ones
alike high
frequent               -ln(1 + how often the user took part): the memories know already who is frequent
length                 ln(1 + how many events came before), which tells when to trust which part
hour, day, fortnight,  how usual this hour, day, fortnight, pace and pause is for the user
pace, pause            (``temporal_preference.py``)
=====================  =======================================================================================

:class:`ensue.tasks.next.ensembles.mixture.Mixture` makes a score of them. It is learned from held-out cascades, which
no part has seen; HiDAN's scores are cosines here: on little data the lengths of vectors mostly tell how frequent a
user is.

No paper's model; no social graph is read. Where it beats counting is measured by ``ensue reproduce hidan``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories
from ensue.tasks.next.batch import Batch, Output
from ensue.tasks.next.dataset import Windows, hide_seen, repeats
from ensue.tasks.next.ensembles.cascade_store import CascadeStore
from ensue.tasks.next.ensembles.co_participation import CoParticipation
from ensue.tasks.next.ensembles.mixture import Mixture
from ensue.tasks.next.ensembles.neighbours import Neighbours
from ensue.tasks.next.ensembles.temporal_preference import CLOCKS, TemporalPreference
from ensue.tasks.next.model import Model
from ensue.tasks.next.models.hidan import HiDAN, HiDANSettings
from ensue.vocabulary import FIRST

PARTS = ("network", "near", "far", "alike", "near high", "far high", "alike high", "frequent", "length", *CLOCKS)
"""What the mixture weighs."""
START = (0.2, 0.6, 0.2, 0.4, 0.2, 0.2, 0.0, 0.8, 0.0, 0.3, 0.2, 0.2, 0.2, 0.1)
"""The weights that it begins with."""
FLOOR, HIGH = 1e-4, 1e-2
"""Shares of what the counts say well below these count as nothing, or as little."""
TRIED = 10_000
"""Held-out targets, drawn at random, from which the mixture is learned."""
CANDIDATES = 300
"""Candidates with which a target is compared then: the highest, and as many of the others, which stand for all."""
CELLS = 2**20
"""So many candidates are looked at at once, over all target steps: some 300 MB."""


@dataclass(frozen=True, kw_only=True)
class CascadeBlendSettings(HiDANSettings):
    """Settings of HiDAN; what is beside it has none of its own."""

    table_dim: int = 64
    """Width of the user table."""
    cosine: bool = True
    """Scores are cosines."""


class CascadeBlend(nn.Module):
    """HiDAN alongside past cascades; see the module.

    Args:
        settings: of HiDAN.
        num_ids: size of the catalogue, padding and unknown included.
    """

    counted: tuple[str, ...] = ("memory",)

    def __init__(self, settings: CascadeBlendSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        own = {field.name: getattr(settings, field.name) for field in fields(HiDANSettings)}
        self.network = HiDAN(HiDANSettings(**own), num_ids)
        self.memory = CascadeStore(num_ids)
        self.mixture = Mixture(torch.tensor(START))
        self.register_buffer("mixed", torch.zeros(1))
        self.mixed: Tensor

    @property
    def reach(self) -> int | None:
        """How many earlier events can change a step's answer: HiDAN's."""
        return self.network.reach

    def grow(self, num_ids: int) -> CascadeBlend:
        """The same model with room for more users; nothing followed a new user yet."""
        grown = CascadeBlend(self.settings, num_ids)
        grown.network, grown.memory = self.network.grow(num_ids), self.memory.grow(num_ids)
        grown.mixture, grown.mixed = self.mixture, self.mixed
        return grown

    def loss(self, batch: Batch) -> Tensor:
        """The network's."""
        return self.network.loss(batch)

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids), padding and unknown at -inf; dependency of the network, influence of both.

        Until the mixture is learned the scores are the network's.
        """
        expected: Output = self.network(batch)
        if not float(self.mixed):
            return expected
        mixture, (dependency, influence) = self.mixture.cpu(), expected.weights
        scores, shares = [], []
        for part, network in self._rows(batch, expected.scores):
            features, heard = self._features(part, network)
            found = mixture(features)
            found[:, :FIRST] = -torch.inf
            scores.append(found)
            shares.append(heard)
        # Half of the say in who was leaned on to what stood beside them, as far as anything did.
        said = torch.cat(shares).to(influence.device)
        mixed = (influence + said) / (1 + said.sum(-1, keepdim=True)).clamp(min=1e-30)
        return Output(torch.cat(scores).to(influence.device), (dependency, mixed))

    def finish(self, learned: Histories, valid: Histories | None, earlier: Model | None) -> None:
        """Remember what the network was trained on, and learn the mixture.

        Args:
            learned: the training data.
            valid: what neither part has seen; ``None`` to take over the mixture of ``earlier``.
            earlier: the same model, trained on a part of the data.
        """
        self.remember(learned)
        if valid is not None:
            self._mix(valid, hide=not repeats(learned))
        elif isinstance(earlier, CascadeBlend):
            self.mixture, self.mixed = earlier.mixture, earlier.mixed

    @torch.no_grad()
    def remember(self, histories: Histories) -> None:
        """Add past cascades to the memory."""
        self.memory.cpu().count(histories)

    def _rows(self, batch: Batch, scores: Tensor) -> Iterator[tuple[Batch, Tensor]]:
        """The batch and its scores on the CPU, a few histories at a time."""
        batch, scores = batch.to(torch.device("cpu")), scores.cpu()
        targets = batch.target_mask.sum(1)
        group = (targets.cumsum(0) * scores.shape[1]) // CELLS
        begun = 0
        for size in torch.unique_consecutive(group, return_counts=True)[1].tolist():
            rows = slice(begun, begun + size)
            first, last = int(targets[:begun].sum()), int(targets[: begun + size].sum())
            own = Batch(
                batch.ids[rows], batch.mask[rows], batch.times[rows], batch.target_mask[rows], batch.targets[:0]
            )
            yield own, scores[first:last]
            begun += size

    def _features(self, batch: Batch, network: Tensor) -> tuple[Tensor, Tensor]:
        """(parts, targets, ids) what each of ``PARTS`` knows, 0 for padding and unknown; each event's part in ``near``.

        Past cascades are looked up in NumPy, wherever the network is.
        """
        past, window = self.memory.cpu(), self.settings.window or 30
        whole = torch.zeros(len(PARTS), *network.shape)
        features = dict(zip(PARTS, whole, strict=True))
        features["network"].copy_(network)
        heard = CoParticipation(past, window=window).score(batch)
        features["near"][:, heard.candidates] = heard.near
        features["far"][:, heard.candidates] = heard.far
        features["alike"].copy_(Neighbours(past, window=window).score(batch))
        for name in ("near", "far", "alike"):
            share = features[name].div_(features[name].sum(1, keepdim=True).clamp_(min=1e-30))
            torch.log1p(share / HIGH, out=features[f"{name} high"])
            share.div_(FLOOR).log1p_()
        features["frequent"].copy_(-torch.from_numpy(past.totals()).log1p())
        before = (batch.target_mask.nonzero()[:, 1] + 1).clamp(max=None if self.reach is None else self.reach + 1)
        features["length"].copy_(before[:, None].log1p())
        for name, (cell, gain) in zip(CLOCKS, TemporalPreference(past, window=window).score(batch), strict=True):
            features[name].view(-1)[cell] = gain
        whole[..., :FIRST] = 0.0
        return whole, heard.shares

    @torch.no_grad()
    def _mix(self, valid: Histories, *, hide: bool) -> None:
        """Learn the mixture from what was held out."""
        self.eval()
        windows, hidden = Windows(valid, self.reach), valid if hide else None
        order = np.random.default_rng(0).permutation(len(windows))
        generator, tried, num_targets = torch.Generator().manual_seed(0), [], 0
        for number in order:
            index = np.array([number])
            batch = windows.batch(index)
            network = self.network(batch.to(self.mixed.device)).scores.cpu()
            features, _ = self._features(batch, network)
            ruled_out = torch.zeros_like(network)
            ruled_out[:, :FIRST] = -torch.inf
            if hidden is not None:
                hide_seen(ruled_out, hidden, windows.positions(index))
            tried.append(_candidates(features, ruled_out, batch.targets, generator))
            num_targets += batch.num_targets
            if num_targets >= TRIED:
                break
        self.mixture.cpu().learn(torch.cat([own for own, _ in tried], 1), torch.cat([own for _, own in tried]))
        self.mixed.fill_(1.0)


def _candidates(
    features: Tensor, ruled_out: Tensor, targets: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Each target and some candidates: the highest under ``START``, and others at random, which stand for all the rest.

    Args:
        features: (parts, targets, ids).
        ruled_out: (targets, ids) -inf for what is no candidate, 0 elsewhere.
        targets: (targets,).
        generator: for the draw.

    Returns:
        (parts, targets, 1 + candidates), the target first; (targets, 1 + candidates) what is added to their scores,
        0 for targets.
    """
    parts, num_targets, num_ids = features.shape
    open_to_all = ruled_out.scatter(1, targets[:, None], -torch.inf)
    scores = (torch.tensor(START) @ features.flatten(1)).view(num_targets, num_ids) + open_to_all
    high, top = scores.topk(min(CANDIDATES, num_ids), dim=1)
    open_to_all = open_to_all.scatter(1, top, -torch.inf)
    left = (open_to_all == 0).sum(1, keepdim=True)
    drawn = torch.randint(FIRST, max(num_ids, FIRST + 1), (num_targets, CANDIDATES), generator=generator).clamp(
        max=num_ids - 1
    )
    kept = open_to_all.gather(1, drawn)
    stands_for = (left.clamp(min=1) / (kept == 0).sum(1, keepdim=True).clamp(min=1)).log()
    chosen = torch.cat([targets[:, None], top, drawn], dim=1)
    added = torch.cat([torch.zeros(num_targets, 1), torch.where(high.isneginf(), high, 0.0), kept + stands_for], dim=1)
    return features.gather(2, chosen.expand(parts, -1, -1)), added
