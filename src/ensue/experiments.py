"""Experiments: models that one address serves side by side, to learn which of them people click more.

A split test shows each session, or each user, the lists of one variant: a hash of the experiment's name and the id
decides, so that every process and every restart assigns alike, and two experiments are independent of each other. In an
interleaved test each list has items of two models, and a click counts for the model that the item came from: team-draft
interleaving (Radlinski, Kurup & Joachims, CIKM 2008, algorithm 2).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ensue.errors import SettingError
from ensue.lines import quoted

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
"""Name of an experiment or a variant; it can be a part of an address."""
INTERLEAVED = "interleave"
"""Variant of lists that two models share."""


@dataclass(frozen=True)
class Experiment:
    """Variants that one address serves.

    Attributes:
        name: of the address.
        shares: variant -> fraction of the sessions that see it; variants are names of served models.
        interleaved: whether every session sees lists of both.
    """

    name: str
    shares: Mapping[str, float]
    interleaved: bool = False

    def variant(self, unit: str) -> str:
        """Return the variant of a session or a user, by its id."""
        return INTERLEAVED if self.interleaved else assign(self.name, unit, self.shares)


def assign(experiment: str, unit: str, shares: Mapping[str, float]) -> str:
    """Return the variant of a session or a user: the same one for the same arguments, wherever it is computed.

    Args:
        experiment: its name; experiments of different names are independent.
        unit: id of the session or the user.
        shares: variant -> fraction of the units; the fractions sum to 1.

    Example:
        >>> from ensue.experiments import assign
        >>> assign("home", "s1", {"a": 0.5, "b": 0.5})
        'b'
    """
    # A number in [0, 1) that is uniform over ids.
    point = _number(experiment, unit) / 2**64
    variants = [*shares]
    for variant in variants[:-1]:
        point -= shares[variant]
        if point < 0:
            return variant
    return variants[-1]


def pseudonym(experiment: str, unit: str) -> str:
    """Return a name for a session or a user that log files may hold: it does not contain the id."""
    return f"{_number(experiment, unit, b'pseudonym'):016x}"


def _number(experiment: str, unit: str, purpose: bytes = b"variant") -> int:
    """Return a hash of 64 bits; a pseudonym says nothing about a variant, since their purposes differ."""
    digest = blake2b(f"{experiment}\0{unit}".encode(), digest_size=8, person=purpose).digest()
    return int.from_bytes(digest, "big")


def interleave(lists: Sequence[Sequence[str]], k: int, seed: str) -> list[tuple[int, int]]:
    """Return the team draft of two lists: for each of at most ``k`` items the list it is from and its position there.

    In each round both lists, in random order, add their best item that is not yet in.

    Args:
        lists: two lists of items, best first.
        k: number of items.
        seed: decides the random orders.
    """
    coin = random.Random(seed)
    drafted: list[tuple[int, int]] = []
    listed: set[str] = set()
    while len(drafted) < k:
        num_before = len(drafted)
        for team in (0, 1) if coin.random() < 0.5 else (1, 0):
            position = next((at for at, item in enumerate(lists[team]) if item not in listed), None)
            if position is not None and len(drafted) < k:
                listed.add(lists[team][position])
                drafted.append((team, position))
        if len(drafted) == num_before:
            break
    return drafted


def read_split(text: str) -> Experiment:
    """Read ``NAME:VARIANT=SHARE,VARIANT=SHARE``.

    Raises:
        SettingError: another form, a name twice, or shares that do not sum to 1.
    """
    name, variants = _parts(text, "--split", "home:a=.5,b=.5")
    shares: dict[str, float] = {}
    for entry in variants:
        variant, _, share = entry.partition("=")
        try:
            shares[variant] = float(share)
        except ValueError:
            raise SettingError(f"--split {text}: {entry!r} is no VARIANT=SHARE, such as a=.5") from None
    if len(shares) < len(variants):
        raise SettingError(f"--split {text}: a variant appears twice")
    if not all(0 < share < 1 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise SettingError(f"--split {text}: shares must be above 0 and sum to 1, such as a=.5,b=.5")
    return Experiment(name, shares)


def read_interleaved(text: str) -> Experiment:
    """Read ``NAME:VARIANT,VARIANT``.

    Raises:
        SettingError: another form, or not two variants.
    """
    name, variants = _parts(text, "--interleave", "home:a,b")
    if len({*variants}) != 2 or len(variants) != 2:
        raise SettingError(f"--interleave {text}: name two different models, such as home:a,b")
    return Experiment(name, dict.fromkeys(variants, 0.5), interleaved=True)


def _parts(text: str, option: str, example: str) -> tuple[str, list[str]]:
    name, _, variants = text.partition(":")
    if not NAME.fullmatch(name) or not variants:
        raise SettingError(f"{option} {text}: write the name of the experiment and its models, such as {example}")
    return name, variants.split(",")


def require_variant(name: str) -> str:
    """Return the name of a variant.

    Raises:
        ValueError: it is another text.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"variant {quoted(name, 64)} is not a name of at most 64 letters, digits, '.', '_' and '-'")
    return name
