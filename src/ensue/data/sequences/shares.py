"""Shares of the files of a log, each read alone on a machine of its own, and put together by their manifests.

A share is a folder of batches beside the place that all will come to, ``PLACE.shares/2-of-8``, with a manifest that is
written last. All shares are of the same files in the same order, so each machine must see their names and heads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Self, cast

from pydantic import TypeAdapter, ValidationError

from ensue.data.sequences.batches import Batches, ReadState
from ensue.data.sequences.prepared import flush
from ensue.errors import DataError, SettingError
from ensue.lines import listed, plural
from ensue.version import __version__

MANIFEST = "share.json"
_AGAIN = "remove that folder and prepare this share again"


@dataclass(frozen=True)
class Manifest:
    """Content of ``share.json``: the share, its size, its files and the options of reading."""

    ensue: str
    share: int
    of: int
    batches: int
    state: ReadState
    read: dict[str, object]


_SHARE = TypeAdapter(Manifest)


@dataclass(frozen=True)
class Share:
    """One of several shares; the first is 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``2/8``.

        Raises:
            SettingError: it is none.
        """
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise SettingError(f"--share: '{text}' is not a share; write 2/8 for the second of eight")
        return cls(int(found[1]), int(found[2]))

    def of_files(self, sizes: Sequence[int]) -> tuple[int, int]:
        """The first file of the share, and the one after its last: shares are about equally large, none is empty.

        Raises:
            SettingError: there are fewer files than shares.
        """
        if len(sizes) < self.of:
            raise SettingError(
                f"--share {self.number}/{self.of}: {plural(len(sizes), 'file')} can be shared by {len(sizes)} at most; "
                "name fewer shares, or write the log as more files"
            )
        whole, bounds = [*accumulate(sizes)], [0]
        for number in range(1, self.of):
            wanted = whole[-1] * number / self.of
            end = sum(done <= wanted for done in whole)
            bounds.append(min(max(end, bounds[-1] + 1), len(sizes) - self.of + number))
        bounds.append(len(sizes))
        return bounds[self.number - 1], bounds[self.number]

    def folder(self, place: Path) -> Path:
        """Return its folder, given the output folder of all shares."""
        return _shares(place) / f"{self.number}-of-{self.of}"


def write_share(folder: Path, batches: Batches, share: Share, plan: Mapping[str, object]) -> None:
    """Move the batches of a share into an empty folder, and write its manifest last."""
    for path in sorted(batches.folder.glob("[0-9]*.*")):
        path.rename(folder / path.name)
    manifest = Manifest(__version__, share.number, share.of, len(batches.files), batches.state, dict(plan))
    (folder / MANIFEST).write_bytes(_SHARE.dump_json(manifest, indent=1))
    for path in folder.iterdir():
        flush(path)
    flush(folder)


def find_shares(place: Path, plan: Mapping[str, object]) -> list[Path]:
    """The folders of all shares in their order.

    Args:
        place: that they will come to.
        plan: what is to be read, and how.

    Raises:
        DataError: one is missing, stands there twice, or is of other files or options.
    """
    found = {path: _manifest(path) for path in sorted(_shares(place).glob("*-of-*")) if path.is_dir()}
    if not found:
        raise DataError(f"{_shares(place)}: holds no share; prepare each with --share 1/N, 2/N, … first")
    counts = sorted({manifest.of for manifest in found.values()})
    if len(counts) > 1:
        numbers = " and ".join(map(str, counts))
        raise DataError(f"{_shares(place)}: holds shares of {numbers}, which overlap; remove those of one number")
    for path, manifest in found.items():
        own = Share(manifest.share, manifest.of)
        if path.name != own.folder(place).name:
            raise DataError(f"{path}: holds share {own.number} of {own.of}, which overlaps; {_AGAIN}")
        _require_same(path, manifest.read, dict(plan))
    folders = [Share(number, counts[0]).folder(place) for number in range(1, counts[0] + 1)]
    missing = [folder.name.replace("-of-", "/") for folder in folders if folder not in found]
    if missing:
        raise DataError(
            f"{_shares(place)}: {listed(missing, 5)} of all shares are missing; prepare --share {missing[0]}"
        )
    return folders


def read_share(folder: Path, batches: Batches) -> Batches:
    """Return the batches of a share.

    Args:
        folder: the folder of the share.
        batches: those of the whole log.

    Raises:
        DataError: they are not what was written.
    """
    manifest = _manifest(folder)
    share = Batches(folder, batches.sources, batches.options)
    share.resume()
    if (len(share.files), share.state.rows) != (manifest.batches, manifest.state.rows):
        raise DataError(f"{folder}: is damaged or incomplete; copy it again, or {_AGAIN}")
    share.state = manifest.state
    return share


def _shares(place: Path) -> Path:
    return place.with_name(f"{place.name}.shares")


def _manifest(folder: Path) -> Manifest:
    try:
        return _SHARE.validate_json((folder / MANIFEST).read_bytes(), strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise DataError(f"{folder}: {MANIFEST} cannot be read ({reason}); {_AGAIN}") from error
    except OSError as error:
        raise DataError(f"{folder}: {MANIFEST} cannot be read ({error}); {_AGAIN}") from error


def _require_same(folder: Path, held: Mapping[str, object], plan: dict[str, object]) -> None:
    """Refuse a share of other files or options; folders and dates of the files may differ."""
    plan = json.loads(json.dumps(plan))
    for name, value in plan.items():
        if name != "files" and held.get(name) != value:
            raise DataError(
                f"{folder}: was prepared with {name} {held.get(name)}, and here it is {value}; give all shares the "
                f"same options, or {_AGAIN}"
            )
    lists = (cast(list[tuple[str, int, int]], read["files"]) for read in (held, plan))
    theirs, own = ([(Path(path).name, size) for path, size, _ in one] for one in lists)
    for one, other in zip(theirs, own, strict=False):
        if one != other:
            raise DataError(
                f"{folder}: has read {one[0]} of {one[1]:,} bytes, where {other[0]} of {other[1]:,} bytes is here; "
                f"give all shares the same files, or {_AGAIN}"
            )
    if len(theirs) != len(own):
        raise DataError(f"{folder}: was of {plural(len(theirs), 'file')}, and here are {len(own)}; {_AGAIN}")
