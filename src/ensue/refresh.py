"""Keep a model folder fresh: learn a new log, test before taking over, keep what is replaced.

The newest tenth of the new log is held out, and so is a part of the remembered histories. The old model and a
candidate, which has learned the other nine tenths among the rest of the remembered ones, are scored on both slices
(protocol ``full``; what a model does not know is a miss). If the candidate's MRR falls short of the old one's by more
than a share ``max_drop`` on either slice, the update is refused and the folder stays as it is, byte for byte. Else the
candidate learns the held-out tenth as well and takes the folder's place, and the old folder is kept beside it.

Models of the other tasks are tested on what their folders know for certain (:mod:`ensue.slices`). A fall counts where
it is more than chance: by two standard errors of the paired differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ensue import metrics, slices
from ensue.data.histories import Histories
from ensue.data.sequences.check import require_targets
from ensue.data.splits import hold_out
from ensue.errors import SettingError
from ensue.evaluation import Data, describe, score
from ensue.predictor import load
from ensue.slices import Slice, standard_error
from ensue.store import versions
from ensue.store.folder import read_file, write_folder
from ensue.store.lock import only_writer
from ensue.store.swap import sweep
from ensue.tasks.classify import save as classify_save
from ensue.tasks.link import save as link_save
from ensue.tasks.next import save as next_save
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.train import DATED
from ensue.tasks.next.update import passes
from ensue.tasks.suggest import save as suggest_save
from ensue.training.loop import Report

AT = 20
MAX_DROP = 0.05
STORAGE: Mapping[str, Any] = {
    "next": next_save,
    "classify": classify_save,
    "suggest": suggest_save,
    "link": link_save,
}
STREAM = ("stream.json", "stream.safetensors")
"""Where a stream stands (:mod:`ensue.stream.saved`): an update leaves it, so that the stream goes on from there."""
LEAST = 5
"""Fewer new histories are all learned, and tested on remembered ones alone."""
REMEMBERED = 1000
"""Remembered histories to be scored on, at most, and at most a tenth of those that are remembered."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What an update came to."""

    accepted: bool
    version: int
    """The version that stands now."""
    slices: tuple[Slice, ...]
    held: str
    """Which part of the new log was the newest."""
    max_drop: float | None
    """``None`` if nobody asked for a test."""
    loss: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that ``update --json`` prints."""
        found = asdict(self)
        found["slices"] = [{**asdict(part), "change": part.change} for part in self.slices]
        return {**found, "verdict": self.verdict}

    @property
    def falls(self) -> bool:
        """Whether a slice fell by more than is let pass."""
        return self.max_drop is not None and any(part.falls(self.max_drop) for part in self.slices)

    @property
    def verdict(self) -> str:
        """The line under the table."""
        if self.accepted:
            held = f", and has also learned the newest part ({self.held})" if self.held else ""
            untested = "" if self.slices else "; it was not tested"
            return f"accepted: version {self.version} stands{held}{untested}"
        worst = min(self.slices, key=lambda part: part.change)
        return (
            f"refused: {worst.label} on the {worst.name} slice changed by {100 * worst.change:+.1f} %, more than "
            f"--max-drop {self.max_drop:g} allows; version {self.version} stands unchanged"
        )


def _nothing(candidate: Any, found: Refreshed) -> None:
    pass


def _in_silence(reports: Iterable[Report]) -> None:
    for _ in reports:
        pass


def refresh(
    folder: Path,
    data: Data | Callable[[Any], Data],
    *,
    max_drop: float | None = MAX_DROP,
    keep: int = 5,
    follow: Callable[[Iterable[Report]], None] = _in_silence,
    before: Callable[[Any, Refreshed], None] = _nothing,
) -> Refreshed:
    """Update a model folder with what is new, or refuse to.

    Args:
        folder: a model folder.
        data: what is new, or what gives it for the predictor that stands.
        max_drop: the largest relative fall that is let pass, in [0, 1); ``None`` for no test.
        keep: former versions kept, at most.
        follow: what to do with the reports of a pass of task ``next``; it has to run through them.
        before: called with the candidate and what it comes to right before it takes the folder's place; what it notes
            among the candidate's facts is part of the folder.

    Raises:
        DataError: nothing can be learned from the data, or from the part of it that is not held out.
        SettingError: an option without meaning, or the loss is no longer a number.
        ModelFolderError: the folder is no model, another process learns into it, or it cannot be written.
    """
    if max_drop is not None and not 0 <= max_drop < 1:
        raise SettingError(f"--max-drop {max_drop:g}: give a share in [0, 1)")
    if keep < 0:
        raise SettingError(f"--keep {keep}: give 0 or more")
    with only_writer(folder):
        sweep(folder)
        old, candidate, standing = load(folder), load(folder), versions.current(folder)
        new: Any = data(old) if callable(data) else data
        if isinstance(candidate, NextPredictor):
            found = _learn_histories(old, candidate, new, max_drop, standing, follow)
        else:
            loss = float(candidate.update(new).loss)
            found = Refreshed(True, standing, () if max_drop is None else slices.of(old, candidate), "", max_drop, loss)
            found = replace(found, accepted=not found.falls)
        if not found.accepted:
            return found
        candidate.facts["version"] = number = versions.next_number(folder)
        found = replace(found, version=number)
        versions.keep(folder)
        before(candidate, found)
        standing_stream = {name: read_file(folder, name) for name in STREAM if (folder / name).exists()}
        write_folder(folder, {**standing_stream, **STORAGE[candidate.task].files(candidate, card(candidate, found))})
        versions.prune(folder, keep)
    return found


def _learn_histories(
    old: Any,
    candidate: NextPredictor,
    data: Histories,
    max_drop: float | None,
    standing: int,
    follow: Callable[[Iterable[Report]], None],
) -> Refreshed:
    """Let a candidate of task ``next`` learn, the newest tenth after the test."""
    require_targets(data, "new data")
    early, newest, held = data, None, ""
    if max_drop is not None and len(data) >= LEAST:
        early, newest, held = hold_out(data, by_time=data.timed and float(data.times.min()) > DATED)
        require_targets(early, "all but the newest tenth of the new data")
        require_targets(newest, "the newest tenth of the new data")
    if max_drop is None:
        follow(passes(candidate, early))
        return Refreshed(True, standing, (), held, max_drop)
    remembered, rest = candidate.reservoir.part(min(REMEMBERED, len(candidate.reservoir) // 10), standing)
    follow(passes(candidate, early, rest))
    tested = {"newest": newest, "remembered": remembered if len(remembered) else None}
    parts = tuple(_slice(name, old, candidate, part) for name, part in tested.items() if part is not None)
    found = Refreshed(True, standing, parts, held, max_drop)
    if found.falls:
        return replace(found, accepted=False)
    if newest is not None:
        follow(passes(candidate, newest))
    return found


def roll_back(folder: Path, number: int | None = None) -> tuple[int, int]:
    """:func:`ensue.store.versions.roll_back` under the folder's lock."""
    with only_writer(folder):
        return versions.roll_back(folder, number)


def card(predictor: Any, found: Refreshed) -> str:
    """The text of ``CARD.md`` after an update."""
    if not found.slices:
        return describe(predictor)
    counted = any(part.best_counting for part in found.slices)
    heads = [
        "slice",
        "targets",
        "figure",
        "old",
        "new",
        "change",
        *(["best counting", "its figure"] if counted else []),
    ]
    lines = ["## The latest update", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for part in found.slices:
        row = [part.name, f"{part.targets:,}", part.label, f"{part.before:.4f}", f"{part.after:.4f}"]
        row += [f"{100 * part.change:+.1f} %"]
        row += [part.best_counting, f"{part.counting[part.figure]:.4f}"] if counted else []
        lines.append(f"| {' | '.join(row)} |")
    if found.held:
        lines += ["", f"Full ranking; the newest slice is {found.held} of the new log, learned after the test."]
    return "\n".join([describe(predictor), *lines, ""])


def _slice(name: str, old: NextPredictor, new: NextPredictor, data: Histories) -> Slice:
    before, after = score(old, data, "full").rank, score(new, data, "full").rank
    counted = {model: _figures(score(new, data, "full", model).rank) for model in new.baselines}
    best = max(counted, key=lambda model: counted[model]["mrr"])
    return Slice(
        name,
        len(before),
        _figures(before),
        _figures(after),
        counted[best],
        best,
        error=standard_error(metrics.reciprocal_rank(before), metrics.reciprocal_rank(after)),
    )


def _figures(rank: metrics.Floats) -> dict[str, float]:
    return {"mrr": float(metrics.reciprocal_rank(rank).mean()), f"hit@{AT}": float(metrics.hit(rank, AT).mean())}
