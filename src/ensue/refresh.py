"""Keep a model folder fresh: learn a new log, test before taking over, keep what is replaced.

The newest tenth of the new log is held out, and so is a part of the remembered histories. The old model and a
candidate, which has learned the other nine tenths among the rest of the remembered ones, are scored on both slices
(protocol ``full``; what a model does not know is a miss). If the candidate's MRR falls short of the old one's by more
than a share ``max_drop`` on either slice, the update is refused and the folder stays as it is, byte for byte. Else the
candidate learns the held-out tenth as well and takes the folder's place, and the old folder is kept beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ensue import metrics, versions
from ensue.data.check import require_targets
from ensue.data.histories import Histories
from ensue.data.splits import hold_out
from ensue.errors import SettingError
from ensue.evaluation import describe, score
from ensue.folder import read_file, sweep, write_folder
from ensue.lock import only_writer
from ensue.next_event import storage
from ensue.next_event.fitting import DATED
from ensue.next_event.predictor import NextPredictor
from ensue.next_event.updating import passes
from ensue.predictor import load
from ensue.training import Report

AT = 20
STREAM = ("stream.json", "stream.safetensors")
"""Where a stream stands (:mod:`ensue.stream.saved`): an update leaves it, so that the stream goes on from there."""
REMEMBERED = 1000
"""Remembered histories to be scored on, at most, and at most a tenth of those that are remembered."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of histories, and the figures on it, as fractions."""

    name: str
    targets: int
    old: dict[str, float]
    new: dict[str, float]
    counting: dict[str, float]
    best_counting: str

    @property
    def change(self) -> float:
        """Relative change of MRR from old to new; 0 where the old one is 0."""
        return self.new["mrr"] / self.old["mrr"] - 1 if self.old["mrr"] else 0.0


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What an update came to."""

    accepted: bool
    version: int
    """The version that stands now."""
    slices: tuple[Slice, ...]
    held: str
    """Which part of the new log was the newest."""
    max_drop: float

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that ``update --json`` prints."""
        found = asdict(self)
        found["slices"] = [{**asdict(part), "change": part.change} for part in self.slices]
        return {**found, "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """The line under the table."""
        if self.accepted:
            return f"accepted: version {self.version} stands, and has also learned the newest part ({self.held})"
        worst = min(self.slices, key=lambda part: part.change)
        return (
            f"refused: MRR on the {worst.name} slice changed by {100 * worst.change:+.1f} %, more than --max-drop "
            f"{self.max_drop:g} allows; version {self.version} stands unchanged"
        )


def _in_silence(reports: Iterable[Report]) -> None:
    for _ in reports:
        pass


def refresh(
    folder: Path,
    data: Histories,
    *,
    max_drop: float = 0.05,
    keep: int = 5,
    follow: Callable[[Iterable[Report]], None] = _in_silence,
) -> Refreshed:
    """Update a model folder with new histories, or refuse to.

    Args:
        folder: a model folder.
        data: the new histories.
        max_drop: the largest relative fall of MRR that is let pass, in [0, 1).
        keep: former versions kept, at most.
        follow: what to do with the reports of a pass; it has to run through them.

    Raises:
        DataError: nothing follows anything in the data, or in its newest tenth.
        SettingError: an option without meaning, or the loss is no longer a number.
        ModelFolderError: the folder is no model, another process learns into it, or it cannot be written.
    """
    if not 0 <= max_drop < 1:
        raise SettingError(f"--max-drop {max_drop:g}: give a share in [0, 1)")
    if keep < 0:
        raise SettingError(f"--keep {keep}: give 0 or more")
    with only_writer(folder):
        sweep(folder)
        old, candidate = load(folder), load(folder)
        if not (isinstance(old, NextPredictor) and isinstance(candidate, NextPredictor)):
            raise SettingError(
                f"{folder}: holds a model of task {old.task}; only those of task next remember histories"
            )
        standing = versions.current(folder)
        require_targets(data, "new data")
        early, newest, held = hold_out(data, by_time=data.timed and float(data.times.min()) > DATED)
        require_targets(early, "all but the newest tenth of the new data")
        require_targets(newest, "the newest tenth of the new data")
        remembered, rest = candidate.reservoir.part(min(REMEMBERED, len(candidate.reservoir) // 10), standing)
        follow(passes(candidate, early, rest))
        tested = {"newest": newest, **({"remembered": remembered} if len(remembered) else {})}
        slices = tuple(_slice(name, old, candidate, part) for name, part in tested.items())
        if any(part.change < -max_drop for part in slices):
            return Refreshed(False, standing, slices, held, max_drop)
        follow(passes(candidate, newest))
        candidate.facts["version"] = versions.next_number(folder)
        found = Refreshed(True, candidate.facts["version"], slices, held, max_drop)
        versions.keep(folder)
        standing_stream = {name: read_file(folder, name) for name in STREAM if (folder / name).exists()}
        write_folder(folder, {**standing_stream, **storage.files(candidate, card(candidate, found))})
        versions.prune(folder, keep)
    return found


def roll_back(folder: Path, number: int | None = None) -> tuple[int, int]:
    """:func:`ensue.versions.roll_back` under the folder's lock."""
    with only_writer(folder):
        return versions.roll_back(folder, number)


def card(predictor: NextPredictor, found: Refreshed) -> str:
    """The text of ``CARD.md`` after an update."""
    lines = [
        "## The latest update",
        "",
        f"| slice | targets | old MRR | new MRR | change | best counting | its MRR |\n|{'---|' * 7}",
        *(
            f"| {part.name} | {part.targets:,} | {part.old['mrr']:.4f} | {part.new['mrr']:.4f} "
            f"| {100 * part.change:+.1f} % | {part.best_counting} | {part.counting['mrr']:.4f} |"
            for part in found.slices
        ),
        "",
        f"Full ranking; the newest slice is {found.held} of the new log, learned after the test.",
        "",
    ]
    return "\n".join([describe(predictor), *lines])


def _slice(name: str, old: NextPredictor, new: NextPredictor, data: Histories) -> Slice:
    before, after = _figures(old, data), _figures(new, data)
    counted = {model: _figures(new, data, model) for model in new.baselines}
    best = max(counted, key=lambda model: counted[model]["mrr"])
    targets = int((data.lengths - 1).clip(0).sum())
    return Slice(name, targets, before, after, counted[best], best)


def _figures(predictor: NextPredictor, data: Histories, counting: str | None = None) -> dict[str, float]:
    rank = score(predictor, data, "full", counting).rank
    return {"mrr": float(metrics.reciprocal_rank(rank).mean()), f"hit@{AT}": float(metrics.hit(rank, AT).mean())}
