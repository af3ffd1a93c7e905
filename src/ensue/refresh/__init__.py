"""Update a model folder: train a candidate on new data, test it before it takes over, and keep what it replaces.

The candidate and the active model are scored on the same examples (:mod:`ensue.refresh.trial`). If the candidate's
metric is lower by more than a fraction ``max_drop`` on a slice, and significantly so (by more than two standard errors
of the paired differences), the update is refused and the folder stays as it is, byte for byte. Else the candidate takes
the folder's place, and the former folder is kept as a version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ensue.errors import SettingError
from ensue.evaluation.comparison import Data
from ensue.learning.state import AnyState
from ensue.metrics import label
from ensue.predictor import load
from ensue.refresh.slices import NEWEST, Ask, Learn, Slice
from ensue.store import versions
from ensue.store.folder import read_file, write_folder
from ensue.store.swap import only_writer, sweep
from ensue.tasks import named
from ensue.training.report import Report

MAX_DROP = 0.05
STREAM = ("stream.json", "stream.safetensors")
"""Files of a stream (:mod:`ensue.stream.commit`): an update keeps them, so that the stream continues."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Result of an update."""

    accepted: bool
    version: int
    """The active version."""
    slices: tuple[Slice, ...]
    held: str
    """Part of the new log that was held out."""
    max_drop: float | None
    """``None`` if nobody asked for a test."""
    loss: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``update --json`` prints."""
        result = asdict(self)
        result["slices"] = [{**asdict(tested), "change": tested.change} for tested in self.slices]
        return {**result, "verdict": self.verdict, "warning": self.warning}

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the table of the test; the last column is of tasks whose models have baselines."""
        heads = ("slice", "examples", "metric", "old", "new", "change", "best baseline")
        return heads if any(tested.best_baseline for tested in self.slices) else heads[:-1]

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row per slice and metric, in %; the change is of the metric that decides."""
        rows = []
        for tested in self.slices:
            for name, old in tested.old.items():
                change = f"{100 * tested.change:+.1f} %" if name == tested.figure else ""
                cells = [tested.name, f"{tested.targets:,}", label(name), f"{100 * old:.2f}"]
                cells += [f"{100 * tested.new[name]:.2f}", change]
                cells += [f"{100 * tested.counting[name]:.2f} ({tested.best_baseline})"] if tested.counting else []
                rows.append(tuple(cells))
        return rows

    @property
    def falls(self) -> bool:
        """True where a metric of a slice fell by more than ``max_drop``."""
        return self.max_drop is not None and any(tested.falls(self.max_drop) for tested in self.slices)

    @property
    def warning(self) -> str:
        """Sentence on what a requested test could not cover; empty where former examples were tested."""
        if self.max_drop is None or any(tested.name != NEWEST for tested in self.slices):
            return ""
        tested = "only the newest part of the new data was tested" if self.slices else "the update was not tested"
        return f"{tested}: the model stores no earlier examples and may have become worse on them"

    @property
    def verdict(self) -> str:
        """Sentence below the table."""
        if self.accepted:
            newest = f", trained on the newest part too ({self.held})" if self.held else ""
            untested = "" if self.slices else "; it was not tested"
            return f"accepted: version {self.version} is active{newest}{untested}"
        # Refused for one slice: the one that fell most.
        worst = min(self.slices, key=lambda tested: tested.change)
        return (
            f"refused: {worst.label} on the {worst.name} slice changed by {100 * worst.change:+.1f} %, more than "
            f"--max-drop {self.max_drop:g} allows; version {self.version} stays active"
        )


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
    before: Callable[[Any, Refreshed], None] = lambda candidate, result: None,
) -> Refreshed:
    """Update a model folder with new data, or refuse to.

    Args:
        folder: a model folder.
        data: new data, or a function that returns it for the active predictor.
        max_drop: the largest relative fall of the metric that passes, in [0, 1); ``None`` for no test.
        keep: maximum number of former versions; one is stored in any case where former examples could not be tested.
        follow: receives the reports of a pass of task ``next``, and has to run through them.
        before: called with the candidate and the result right before the folder changes; metadata that it sets in the
            candidate is part of the folder.

    Raises:
        DataError: nothing can be learned from the data, or from the part of it that is not held out.
        SettingError: an option without meaning, or the loss is no longer a number.
        ModelFolderError: the folder is no model, another process learns into it, or it cannot be written.
    """
    if max_drop is not None and not 0 <= max_drop < 1:
        raise SettingError(f"--max-drop {max_drop:g}: give a fraction in [0, 1)")
    if keep < 0:
        raise SettingError(f"--keep-versions {keep}: give 0 or more")
    with only_writer(folder):
        sweep(folder)
        old = load(folder)
        old.require_trainable()
        candidate = load(folder)
        standing = versions.current(folder)
        # Records over HTTP are read by what the active model was trained on.
        new: Any = data(old) if callable(data) else data
        ask = Ask(max_drop is not None, standing, follow)
        update: Learn = named(f"ensue.refresh.trial:update_{candidate.task}")
        trial = update(old, candidate, new, ask)
        result = Refreshed(True, standing, trial.slices, trial.held_out, max_drop, trial.loss)
        if result.falls:
            return replace(result, accepted=False)
        trial.learn_rest()
        # Above all stored versions too: after a rollback the next number is not that of a stored one.
        candidate.metadata.version = number = versions.next_number(folder)
        result = replace(result, version=number)
        # The version is whole before the folder changes: a kill here loses nothing.
        versions.keep(folder)
        # Last moment before the folder changes; what is noted here is in the new folder.
        before(candidate, result)
        standing_stream = {name: read_file(folder, name) for name in STREAM if (folder / name).exists()}
        write_folder(folder, {**standing_stream, **candidate.files(card(candidate, result))})
        # An update that could not be tested on former examples can be undone in any case.
        versions.prune(folder, max(keep, 1) if result.warning else keep)
    return result


def roll_back(folder: Path, number: int | None = None) -> tuple[int, int]:
    """Make a stored version the active one, under the folder's lock; see :func:`ensue.store.versions.roll_back`."""
    with only_writer(folder):
        return versions.roll_back(folder, number)


def card(predictor: AnyState, result: Refreshed) -> str:
    """Return the text of ``CARD.md`` after an update."""
    if not result.slices:
        return predictor.card()
    lines = ["## The latest update", "", "Metrics of the old and the new model in %.", ""]
    lines += [f"| {' | '.join(cells)} |" for cells in (result.heads, ["---"] * len(result.heads), *result.rows())]
    if result.held:
        lines += ["", f"Full ranking; the newest slice is {result.held} of the new log, trained on after the test."]
    return "\n".join([predictor.card(), *lines, ""])
