"""What a stream's model is compared with: recent popularity always; itself before the stream, or anew every night.

Both are kept in folders beside the model's (``.NAME.frozen``, ``.NAME.nightly.DAY``), so that a restart finds the same
models. A nightly model is fitted from nothing, with the settings of the stream's, on the sessions that ended in the
latest days; the stream waits meanwhile. Until the first night it is the frozen one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import reduce
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypedDict

from ensue.data.histories import Histories
from ensue.errors import SettingError
from ensue.store.folder import write_folder
from ensue.stream.ranking import FixedModel
from ensue.stream.sessions import timed_histories
from ensue.tasks.next import save
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.reservoir import joined
from ensue.vocabulary import Vocabulary

DAY = 86400.0
DAYS = 3
"""Days of sessions that a nightly model is fitted on."""
REFERENCES = ("frozen", "nightly")


def keep_frozen(folder: Path, predictor: NextPredictor, *, begins: bool) -> NextPredictor:
    """The model as it was when the stream began.

    Args:
        folder: the stream's model folder.
        predictor: its model as it is now.
        begins: whether the stream begins now, and the model is to be kept.

    Raises:
        SettingError: the stream began without keeping it.
    """
    place = _sibling(folder, "frozen")
    if begins:
        write_folder(place, save.contents(predictor, "The model of the same name before the stream.\n"), like=folder)
    if not place.is_dir():
        raise SettingError(
            f"--baselines: {folder} has no copy of the model from before the stream began; give --baselines at the "
            "first start of a stream, or start over with --restart"
        )
    return NextPredictor.load(place, device=str(predictor.device))


class NightState(TypedDict):
    """Days since 1970: the stream's, and the one before which the model that answers was fitted."""

    day: int | None
    fitted: int | None


class Nightly:
    """A model that is fitted anew at each day's end.

    Args:
        folder: the stream's model folder.
        frozen: the model until the first night.
        vocabulary: the stream's.
    """

    def __init__(self, folder: Path, frozen: NextPredictor, vocabulary: Vocabulary) -> None:
        self.folder, self.vocabulary = folder, vocabulary
        self.model = FixedModel(frozen, vocabulary)
        self.day: int | None = None
        self.fitted: int | None = None
        self._kept = [Histories(np.empty(0, np.int32), np.zeros(1, np.int64), vocabulary)]

    def see(self, closed: Histories) -> None:
        """Keep sessions that ended."""
        if len(closed):
            self._kept.append(closed)

    def pass_time(self, clock: float, stopped: Callable[[], bool]) -> bool:
        """Fit anew if a day is over; whether it was. A fit that is stopped counts for nothing and comes again."""
        day = int(clock // DAY)
        if self.day is None:
            self.day = day
        if day <= self.day:
            return False
        kept = reduce(joined, self._kept)
        ends = kept.times[kept.offsets[1:] - 1] if len(kept) else np.empty(0)
        self._kept = [kept.select(ends >= (day - DAYS) * DAY)]
        kept = kept.select((ends >= (day - DAYS) * DAY) & (ends < day * DAY))  # what ended today is for tomorrow
        if len(kept) > 1:
            old = self.model.predictor
            options = {**asdict(old.settings), **(asdict(old.schedule) if old.schedule else {})}
            fresh = NextPredictor(old.model_name, settings=options, seed=old.seed, device=str(old.device))
            for _ in fresh.fit(kept):
                if stopped():
                    return False
            files = fresh.contents("Fitted at night beside a stream.\n")
            write_folder(_sibling(self.folder, f"nightly.{day}"), files, like=self.folder)
            self.model, self.fitted = FixedModel(fresh, self.vocabulary), day
        self.day = day
        return True

    def committed(self) -> None:
        """Forget the models of other nights."""
        for path in self.folder.resolve().parent.glob(f".{self.folder.resolve().name}.nightly.*"):
            if not path.name.endswith(f".{self.fitted}"):
                shutil.rmtree(path, ignore_errors=True)

    def state(self) -> NightState:
        """Which night's model answers, for :meth:`restore`."""
        return NightState(day=self.day, fitted=self.fitted)

    def tensors(self) -> dict[str, Tensor]:
        """The sessions that are kept."""
        self._kept = [reduce(joined, self._kept)]
        return history_tensors(self._kept[0])

    def restore(self, state: NightState, tensors: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`state` and :meth:`tensors` gave."""
        self.day, self.fitted = state["day"], state["fitted"]
        self._kept = [timed_histories("nightly", tensors, self.vocabulary, len(self.vocabulary))]
        if self.fitted is not None:
            fitted = NextPredictor.load(_sibling(self.folder, f"nightly.{self.fitted}"))
            self.model = FixedModel(fitted, self.vocabulary)


def history_tensors(histories: Histories) -> dict[str, Tensor]:
    """Histories as tensors."""
    return {
        "ids": torch.from_numpy(np.require(histories.ids, requirements="W")),
        "times": torch.from_numpy(np.require(histories.times, requirements="W")),
        "offsets": torch.from_numpy(np.require(histories.offsets, requirements="W")),
    }


def _sibling(folder: Path, name: str) -> Path:
    place = folder.resolve()
    return place.with_name(f".{place.name}.{name}")
