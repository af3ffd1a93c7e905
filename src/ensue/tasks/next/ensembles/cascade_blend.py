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
cooccurrence, markov,  ln(share) by the counting rows of these names, ``FLOORS``, counted from what is remembered
interpolated
=====================  =======================================================================================

:class:`ensue.tasks.next.ensembles.mixture.Mixture` makes a score of them. It is learned from held-out cascades, which
no part has seen; HiDAN's scores are cosines here: on little data the lengths of vectors mostly tell how frequent a
user is.

Each floor is a mixture too, all weight on its share, so the blend can say what the best of them says, and two rules
bring it there where little was held out. The weights begin half way between ``START`` and the floor under which the
held-out targets are likeliest, and a prior holds them near: the fewer targets, the nearer. And mixtures are learned
from all but one of ``FOLDS`` parts of (``JUDGED`` of) the held-out targets and ranked on that one: where the mean
reciprocal rank of a floor is above theirs by more than ``ERRORS`` standard errors of the difference, that floor is all
that is mixed.

Where no remembered cascade holds a user twice, what a cascade holds already is as good as out of the question.

Of more than ``WHOLE`` users each target has a list of its own (``shortlist.py``): of whom the network and the memories
expect most, and who takes part most often. The mixture scores these and is learned from targets that are on theirs; all
others stand below them, in the network's order.

No paper's model; no social graph is read. Where it beats counting is measured by ``ensue reproduce hidan``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ensue.data.histories import Histories, Index
from ensue.nn.item_head import Output
from ensue.significance import exceeds_standard_error
from ensue.tasks.next.baselines.counting import Cooccurrence, Markov
from ensue.tasks.next.baselines.interpolated import Interpolated
from ensue.tasks.next.batch import Batch, PaddedBatch, Scores
from ensue.tasks.next.dataset import Windows, hide_seen, repeats
from ensue.tasks.next.ensembles.co_participation import CoParticipation
from ensue.tasks.next.ensembles.memory import CascadeStore
from ensue.tasks.next.ensembles.mixture import Mixture
from ensue.tasks.next.ensembles.neighbours import CascadeNeighbours
from ensue.tasks.next.ensembles.shortlist import shortlists
from ensue.tasks.next.ensembles.temporal_preference import CLOCKS, TemporalPreference
from ensue.tasks.next.model import NextModel
from ensue.tasks.next.models.hidan import HiDAN
from ensue.tasks.next.settings import CascadeBlendSettings, CountingSettings, HiDANSettings
from ensue.vocabulary import FIRST

KNOWN = ("network", "near", "far", "alike", "near high", "far high", "alike high", "frequent", "length", *CLOCKS)
FLOORS: dict[str, type[Cooccurrence]] = {"cooccurrence": Cooccurrence, "markov": Markov, "interpolated": Interpolated}
PARTS = (*KNOWN, *FLOORS)
"""Features of the mixture."""
START = (0.2, 0.6, 0.2, 0.4, 0.2, 0.2, 0.0, 0.8, 0.0, 0.3, 0.2, 0.2, 0.2, 0.1) + len(FLOORS) * (0.0,)
"""The weights that it begins with, half of them; the other half is the best floor's."""
LEAST = -20.0
"""Logarithms of shares are taken for at least this."""
FLOOR = 1e-4
HIGH = 1e-2
"""Shares of what the counts say well below these count as nothing, or as little."""
TRIED = 10_000
"""Held-out targets, drawn at random, from which the mixture is learned."""
AT_ONCE = 16
"""Held-out windows that are looked at at once."""
JUDGED = 1000
FOLDS = 4
ERRORS = 2.0
"""On so many of them, in so many parts, no floor may be better by more than so many standard errors."""
CANDIDATES = 100
"""Candidates with which a target is compared then: the highest, and as many of the others, which stand for all."""
WHOLE = 50_000
"""Up to so many users the mixture scores all of them."""
FULL = 4
"""Numbers an id that a target takes where its users are listed: what the network and a floor say of all."""
BYTES = 2**24
"""So much memory is taken at once, about, by what the parts know: a part of the target steps after the other."""


class Known(NamedTuple):
    """Features of the candidates.

    Attributes:
        features: (parts, targets, ids), or (parts, targets, users) of those listed; 0 for padding and unknown.
        shares: (batch, time, time) each event's part in ``near``.
        users: (users,) who is listed; ``None`` for all ids.
        listed: (targets, users) who is on whose list.
    """

    features: Tensor
    shares: Scores
    users: Tensor | None
    listed: Tensor


class CascadeBlend(nn.Module):
    """HiDAN alongside past cascades; see the module.

    Args:
        settings: of HiDAN.
        num_ids: size of the catalogue, padding and unknown included.
    """

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
    def members(self) -> dict[str, float]:
        """See :class:`ensue.tasks.next.model.Finishes`: of each number that is mixed."""
        return dict(zip(PARTS, self.mixture.weights.tolist(), strict=True))

    @property
    def reach(self) -> int | None:
        """Receptive field: that of HiDAN."""
        return self.network.reach

    def grow(self, num_ids: int) -> CascadeBlend:
        """Return this model resized for more users, whom nobody has followed yet."""
        grown = CascadeBlend(self.settings, num_ids)
        grown.network = self.network.grow(num_ids)
        grown.memory = self.memory.grow(num_ids)
        grown.mixture = self.mixture
        grown.mixed = self.mixed
        return grown

    def loss(self, batch: Batch) -> Tensor:
        """The network's."""
        return self.network.loss(batch)

    def forward(self, batch: Batch) -> Output:
        """Scores (targets, ids), padding and unknown at -inf; dependency of the network, influence of both.

        Until the mixture is learned, and without past cascades, the scores are the network's.
        """
        expected: Output = self.network(batch)
        if not float(self.mixed) or not len(self.memory.ids):
            return expected
        mixture, (dependency, influence) = self.mixture.cpu(), expected.weights
        scores = expected.scores
        said = torch.zeros_like(influence, device="cpu")
        for targets, rows, part in self._parts(batch.arrays()):
            network = scores[targets].cpu()
            known = self._features(part, network)
            found = mixture(known.features)
            if known.users is not None:
                found = _above_all_others(found, network, known.users, known.listed)
            if not self.memory.repeats():
                found += LEAST * _held(part, self.reach, found.shape[1])
            scores[targets] = found.to(scores.device)
            said[rows] += torch.from_numpy(known.shares)
        scores[:, :FIRST] = -torch.inf
        # Half of the say in who was leaned on to what stood beside them, as far as anything did.
        said = said.to(influence.device)
        mixed = (influence + said) / (1 + said.sum(-1, keepdim=True)).clamp(min=1e-30)
        return Output(scores, (dependency, mixed))

    def finish(self, learned: Histories, valid: Histories | None, earlier: NextModel | None) -> None:
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
            self.mixture = earlier.mixture
            self.mixed = earlier.mixed

    @torch.no_grad()
    def remember(self, histories: Histories) -> None:
        """Add past cascades to the memory."""
        self.memory.count(histories)

    def _parts(self, batch: PaddedBatch) -> Iterator[tuple[slice, slice, PaddedBatch]]:
        """Yield a few target steps at a time: which they are, the rows of their histories, and these histories."""
        past = self.memory
        window = self.settings.window or 30
        row, step = batch.target_mask.nonzero()
        # Past cascades that hold any of the latest events of a step: a sum up to the step, less one up to the window.
        sums = (past.totals()[batch.ids] * batch.mask).cumsum(1)
        alike = sums[row, step] - np.where(step < window, 0.0, sums[row, np.maximum(step - window, 0)])
        alike = np.minimum(alike, len(past.offsets) - 1)  # so many past cascades at most are compared
        num_tables = len(PARTS) if past.num_ids <= WHOLE else FULL
        group = (4 * num_tables * past.num_ids + 8 * alike).cumsum() // BYTES
        start = 0
        for size in np.unique(group, return_counts=True)[1].tolist():
            targets = slice(start, start + size)
            rows = slice(int(row[targets][0]), int(row[targets][-1]) + 1)
            target_mask = np.zeros_like(batch.target_mask)
            target_mask[row[targets], step[targets]] = True
            part = PaddedBatch(
                batch.ids[rows], batch.mask[rows], batch.times[rows], target_mask[rows], batch.targets[:0]
            )
            yield targets, rows, part
            start += size

    def _features(self, batch: PaddedBatch, network: Tensor) -> Known:
        """Compute the features ``PARTS`` of all users, or of the listed ones on large catalogues.

        Past cascades are looked up in NumPy, wherever the network is.
        """
        past = self.memory
        window = self.settings.window or 30
        heard = CoParticipation(past, window=window).score(batch)
        alike = CascadeNeighbours(past, window=window).score(batch)
        users = None
        listed = torch.empty(0, dtype=torch.bool)
        chosen: Tensor | slice = slice(None)
        if past.num_ids > WHOLE:
            users, listed = shortlists(network, (heard.near, alike), past.totals())
            chosen = users
        whole = torch.zeros(len(PARTS), *network[:, chosen].shape)
        features = dict(zip(PARTS, whole, strict=True))
        features["network"].copy_(network[:, chosen])
        for name, said in (("near", heard.near), ("far", heard.far), ("alike", alike)):
            share = said.data / np.repeat(np.maximum(said @ np.ones(said.shape[1]), 1e-30), np.diff(said.indptr))
            for part, floor in ((name, FLOOR), (f"{name} high", HIGH)):
                said.data = np.log1p(share / floor, dtype=np.float32)
                shown = said if users is None else said[:, users.numpy()]
                shown.toarray(out=features[part].numpy())
        features["frequent"].copy_(-torch.from_numpy(past.totals()[chosen]).log1p())
        before = batch.target_mask.nonzero()[1] + 1
        if self.reach is not None:
            before = np.minimum(before, self.reach + 1)
        features["length"].copy_(torch.from_numpy(before)[:, None].log1p())
        for name, (gains, which) in zip(CLOCKS, TemporalPreference(past, window=window).score(batch), strict=True):
            torch.index_select(torch.from_numpy(gains)[:, chosen], 0, torch.from_numpy(which), out=features[name])
        for name in FLOORS:
            scores = torch.from_numpy(self._floor(name)(batch).scores)
            torch.clamp(scores.log_softmax(1)[:, chosen], min=LEAST, out=features[name])
        if users is None:
            whole[..., :FIRST] = 0.0
        return Known(whole, heard.shares, users, listed)

    def _floor(self, name: str) -> Cooccurrence:
        """Return a baseline that is counted from the past cascades."""
        window = self.settings.window or 30

        def count() -> Cooccurrence:
            floor = FLOORS[name](CountingSettings(window=window), self.memory.num_ids)
            floor.count(self.memory.histories())
            return floor

        return self.memory.cached(f"{name} {window}", count)

    @torch.no_grad()
    def _mix(self, valid: Histories, *, hide: bool) -> None:
        """Learn the mixture from what was held out."""
        self.eval()
        windows = Windows(valid, self.reach)
        hidden = valid if hide else None
        num_targets = min(windows.targets, TRIED)
        num_ids = self.memory.num_ids
        filled = 0
        width = 1 + min(CANDIDATES, num_ids) + CANDIDATES
        features = torch.empty(len(PARTS), num_targets, width)
        added = torch.empty(num_targets, width)
        cascades = np.empty(num_targets, np.int64)
        owners = valid.sequence_index()
        generator = torch.Generator().manual_seed(0)
        order = np.random.default_rng(0).permutation(len(windows))
        for low in range(0, len(order), AT_ONCE):
            index = order[low : low + AT_ONCE]
            batch = windows.batch(index)
            network = self.network(batch.to(self.mixed.device)).scores.cpu()
            ruled_out = torch.zeros_like(network)
            ruled_out[:, :FIRST] = -torch.inf
            if hidden is not None:
                hide_seen(ruled_out.numpy(), hidden, windows.positions(index))
            for targets, _, part in self._parts(batch):
                known = self._features(part, network[targets])
                some, closed, places, first, listed = _on_lists(
                    known, ruled_out[targets], torch.from_numpy(batch.targets[targets])
                )
                found = _candidates(some, closed, places, generator, first)
                size = min(num_targets - filled, len(found[1]))
                features[:, filled : filled + size], added[filled : filled + size] = found[0][:, :size], found[1][:size]
                positions = windows.positions(index)[targets][listed.numpy()]
                cascades[filled : filled + size] = owners[positions][:size]
                filled += size
            if filled == num_targets:
                break
        if filled:  # of very many users no target may be on its list
            self.mixture = _learned(features[:, :filled], added[:filled], cascades[:filled])
            self.mixed.fill_(1.0)


def _above_all_others(found: Tensor, network: Tensor, users: Tensor, listed: Tensor) -> Tensor:
    """(targets, ids) scores: those of a target's list, (targets, users), and below them the network's order."""
    lowest = found.masked_fill(~listed, torch.inf).amin(1, keepdim=True)
    scores = network - network.amax(1, keepdim=True) + lowest  # the network's highest is on every list
    return scores.scatter(1, users.expand(found.shape), torch.where(listed, found, scores[:, users]))


def _on_lists(known: Known, ruled_out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """Return the arguments of :func:`_candidates`, restricted to targets on their own lists if users are listed.

    Last comes a mask (targets,) of these targets.
    """
    if known.users is None:
        return known.features, ruled_out, targets, FIRST, torch.ones_like(targets, dtype=torch.bool)
    place = torch.searchsorted(known.users, targets).clamp(max=len(known.users) - 1)
    there = (known.users[place] == targets) & known.listed.gather(1, place[:, None])[:, 0]
    closed = ruled_out[:, known.users].masked_fill(~known.listed, -torch.inf)
    return known.features[:, there], closed[there], place[there], 0, there


def _learned(features: Tensor, added: Tensor, cascades: Index) -> Mixture:
    """The mixture that held-out targets ask for, or the best floor; see the module.

    Args:
        features: (parts, targets, 1 + candidates), and
        added: (targets, 1 + candidates) as :func:`_candidates` has them.
        cascades: (targets,) the number of the cascade of each; gains within one depend on each other.
    """
    floors = features[len(KNOWN) :]
    begin = torch.tensor(START) / 2
    scores = floors + added
    begin[len(KNOWN) + int((scores.logsumexp(2) - scores[..., 0]).mean(1).argmin())] += 0.5
    parts = torch.arange(min(len(added), JUDGED)).chunk(FOLDS)
    found = list[Tensor]()
    for judged in parts if len(parts) > 1 else ():
        learned = torch.cat([part for part in parts if part is not judged])
        mixture = Mixture(begin)
        mixture.learn(features[:, learned], added[learned])
        scores = torch.cat([mixture(features[:, judged])[None], floors[:, judged]])
        found.append(_reciprocal_ranks(scores, added[judged]))
    if found:
        gains = torch.cat(found, 1)
        gains = gains[1:] - gains[0]
        best = int(gains.mean(1).argmax())
        if exceeds_standard_error(gains[best].double().numpy(), cascades[: gains.shape[1]], ERRORS):
            return Mixture(torch.eye(len(PARTS))[len(KNOWN) + best])
    mixture = Mixture(begin)
    mixture.learn(features, added)
    return mixture


def _held(batch: PaddedBatch, reach: int | None, num_ids: int) -> Tensor:
    """Return 1 for the ids of each history up to the target step, as far back as ``reach``; else 0: (targets, ids)."""
    row, step = batch.target_mask.nonzero()
    distance = np.arange(batch.ids.shape[1] if reach is None else min(reach + 1, batch.ids.shape[1]))
    ids = batch.ids[row[:, None], np.maximum(step[:, None] - distance, 0)]
    return torch.zeros(len(row), num_ids).scatter_(1, torch.from_numpy(ids), 1.0)


def _reciprocal_ranks(scores: Tensor, added: Tensor) -> Tensor:
    """(…, targets) of the first of each row's candidates, where those drawn at random stand for others too."""
    above = (scores[..., 1:] >= scores[..., :1]) * added[:, 1:].exp()
    return 1 / (1 + above.sum(-1))


def _candidates(
    features: Tensor, ruled_out: Tensor, targets: Tensor, generator: torch.Generator, first: int = FIRST
) -> tuple[Tensor, Tensor]:
    """Each target and some candidates: the highest under ``START``, and others at random, which stand for all the rest.

    Args:
        features: (parts, targets, ids).
        ruled_out: (targets, ids) -inf for what is no candidate, 0 elsewhere.
        targets: (targets,).
        generator: for the draw.
        first: ids below are never drawn.

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
    drawn = torch.randint(first, max(num_ids, first + 1), (num_targets, CANDIDATES), generator=generator).clamp(
        max=num_ids - 1
    )
    kept = open_to_all.gather(1, drawn)
    stands_for = (left.clamp(min=1) / (kept == 0).sum(1, keepdim=True).clamp(min=1)).log()
    chosen = torch.cat([targets[:, None], top, drawn], dim=1)
    added = torch.cat([torch.zeros(num_targets, 1), torch.where(high.isneginf(), high, 0.0), kept + stands_for], dim=1)
    return features.gather(2, chosen.expand(parts, -1, -1)), added
