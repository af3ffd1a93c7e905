"""A bounded memory of past histories: every one ever added has the same chance of still being there.

Each history draws a 64-bit key from the seed and its number, and the histories of the ``size`` smallest keys stay: a
uniform sample without replacement, whatever the calls of ``add`` that the histories came in.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ensue.data.histories import Histories, ranges, scrambled
from ensue.nn.validation import require_ids, require_offsets, require_table
from ensue.vocabulary import FIRST, Vocabulary

FILE = "reservoir.safetensors"
LATEST = 50
"""Events kept of a history, the latest: bounds the memory, and the personal data in a model folder."""


class Reservoir:
    """A uniform sample of past histories: ids and times, no names.

    Args:
        size: histories at most; 0 keeps none.
        seed: the same seed and histories give the same sample.
        vocabulary: the ids' values; it may grow.
    """

    def __init__(self, size: int, seed: int, vocabulary: Vocabulary) -> None:
        self.size, self.seed, self.seen = size, seed, 0
        self.keys = np.empty(0, np.uint64)
        self.histories = Histories(np.empty(0, np.int32), np.zeros(1, np.int64), vocabulary)

    def __len__(self) -> int:
        """Number of histories kept."""
        return len(self.keys)

    def add(self, histories: Histories) -> None:
        """Let the sample take its share of encoded histories; those of one event teach nothing and are passed over."""
        if not self.size:
            return
        whole = np.flatnonzero(histories.lengths > 1)
        keys = self._keys(len(whole))
        self.seen += len(whole)
        joint = np.concatenate([self.keys, keys])
        if len(joint) > self.size:
            stay = np.sort(np.argpartition(joint, self.size - 1)[: self.size])
        else:
            stay = np.arange(len(joint))
        old = len(self.keys)
        entering = latest_events(histories.select(whole[stay[stay >= old] - old]))
        self.histories = joined(self.histories.select(stay[stay < old]), entering)
        self.keys = joint[stay]

    def keep(self, stays: npt.NDArray[np.bool_]) -> None:
        """Keep some of the histories alone."""
        self.histories, self.keys = self.histories.select(stays), self.keys[stays]

    def keep_events(self, stays: npt.NDArray[np.bool_]) -> None:
        """Keep some of the events alone, and the histories in which something still follows something."""
        self.histories = self.histories.keep(stays)
        self.keep(self.histories.lengths > 1)

    def draw(self, num: int, seed: int) -> Histories:
        """``num`` of the histories kept (all, if fewer), without replacement; the same for the same seed."""
        return self.histories.select(self._drawn(num, seed))

    def part(self, num: int, seed: int) -> tuple[Histories, Reservoir]:
        """Return a sample as :meth:`draw` does, and a reservoir of the others; this one is unchanged."""
        drawn = self._drawn(num, seed)
        left = np.setdiff1d(np.arange(len(self)), drawn)
        rest = Reservoir(self.size, self.seed, self.histories.vocabulary)
        rest.seen, rest.keys, rest.histories = self.seen, self.keys[left], self.histories.select(left)
        return self.histories.select(drawn), rest

    def tensors(self) -> dict[str, Tensor]:
        """Everything but size, seed and vocabulary."""
        return {
            "ids": torch.from_numpy(np.require(self.histories.ids, requirements="W")),
            "offsets": torch.from_numpy(np.require(self.histories.offsets, requirements="W")),
            "times": torch.from_numpy(np.require(self.histories.times, requirements="W")),
            "keys": torch.from_numpy(self.keys.view(np.int64)),
            "seen": torch.tensor(self.seen),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`tensors` gave.

        Raises:
            ValueError: the columns do not fit together or hold ids that the vocabulary lacks.
        """
        histories, keys, seen = histories_of(FILE, tensors, self.histories.vocabulary), tensors["keys"], tensors["seen"]
        require_table(f"{FILE}: keys", keys, torch.int64, (len(histories),))
        require_table(f"{FILE}: seen", seen, torch.int64, ())
        require_ids(f"{FILE}: seen", seen, 2**62, len(histories))
        if len(histories) and int(histories.lengths.min()) < 1:
            raise ValueError(f"{FILE} holds a history without events")
        self.histories, self.keys, self.seen = histories, keys.numpy().view(np.uint64), int(seen)

    def _keys(self, num: int) -> npt.NDArray[np.uint64]:
        stream = scrambled(np.array([self.seed], np.uint64))
        return scrambled(stream + np.arange(self.seen, self.seen + num).astype(np.uint64))

    def _drawn(self, num: int, seed: int) -> npt.NDArray[np.int64]:
        return np.sort(np.random.default_rng([self.seed, seed]).permutation(len(self))[:num])


def histories_of(
    file: str, tensors: Mapping[str, Tensor], vocabulary: Vocabulary, num_ids: int | None = None
) -> Histories:
    """Return histories of the columns of a file, whoever wrote it.

    Args:
        file: its name, for messages.
        tensors: ``ids`` (events,) int32, ``offsets`` (histories + 1,) int64 and ``times`` (events,) float64, or none.
        vocabulary: the values behind the ids.
        num_ids: how many ids there are; those of the vocabulary unless given.

    Raises:
        ValueError: the columns do not fit together, an id is none of the vocabulary, or times fall in a history.
    """
    ids, offsets, times = (tensors[name] for name in ("ids", "offsets", "times"))
    require_table(f"{file}: ids", ids, torch.int32, (None,))
    require_ids(f"{file}: ids", ids, len(vocabulary) if num_ids is None else num_ids, FIRST)
    require_offsets(f"{file}: offsets", offsets, len(ids))
    require_table(f"{file}: times", times, torch.float64, (len(ids) if len(times) else 0,))
    histories = Histories(ids.numpy(), offsets.numpy(), vocabulary, times.numpy())
    if histories.timed and (np.diff(histories.times)[np.diff(histories.sequence_index()) == 0] < 0).any():
        raise ValueError(f"{file}: times fall within a history")
    return histories


def joined(first: Histories, second: Histories) -> Histories:
    """Histories one after the other, names left out; beside timed ones, untimed get time 0.

    Args:
        first: encoded histories.
        second: more, in the same vocabulary.
    """
    parts = (first, second)
    times = np.empty(0)
    if any(part.timed for part in parts):
        times = np.concatenate([part.times if part.timed else np.zeros(len(part.ids)) for part in parts])
    offsets = np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]])
    return Histories(np.concatenate([first.ids, second.ids]), offsets, first.vocabulary, times)


def latest_events(histories: Histories) -> Histories:
    """Return the latest ``LATEST`` events of each history."""
    lengths = np.minimum(histories.lengths, LATEST)
    keep = np.zeros(len(histories.ids), np.bool_)
    keep[ranges(histories.offsets[1:] - lengths, lengths)] = True
    return histories.keep(keep)
