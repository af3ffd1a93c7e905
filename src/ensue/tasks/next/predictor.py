"""The predictor of task ``next``: raw ids in, ranked answers out, for trained and counting models alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from ensue import metrics
from ensue.answers import Answer, Explanation, Forecast
from ensue.data.histories import Histories, Index
from ensue.errors import SettingError
from ensue.metrics import Floats
from ensue.nn.device import find_device, room_for
from ensue.records import History
from ensue.settings import changed, require_k, require_seed
from ensue.store.folder import read_model, write_folder
from ensue.tasks.next import BEST, COUNTING, MODELS, fitting, storage, updating
from ensue.tasks.next.answers import TESTED, Said, answers, explanation, log_totals
from ensue.tasks.next.batch import Output
from ensue.tasks.next.forecast import Continuation, forecast
from ensue.tasks.next.reservoir import Reservoir
from ensue.tasks.next.task import Pieces, draw_negatives, hide_seen
from ensue.training.loop import Report
from ensue.training.optimizer import LateOptimizer
from ensue.vocabulary import Vocabulary

CELLS = 2**24
"""Scores held at once (64 MB in float32): bounds memory whatever the catalogue."""
LEAST = 1024
"""Smaller catalogues count as this large, since attention takes memory too."""


class NextPredictor:
    """Ranks what follows a history.

    Args:
        model: a name in ``MODELS``, or ``best``: those of ``BEST`` are trained, and held-out data decides.
        settings: settings of the model and of its schedule to change, by name; texts are read as numbers.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: where the network runs; a GPU is used when there is one.

    Raises:
        SettingError: an unknown model or setting.
    """

    task = "next"
    optimizer = LateOptimizer()

    def __init__(
        self,
        model: str = "best",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        names = BEST if model == "best" else (model,)
        if unknown := [name for name in names if name not in MODELS]:
            raise SettingError(
                f"model {unknown[0]!r} is not known for task next; choose from best, {', '.join(MODELS)}"
            )
        found = changed(settings or {}, *(part for name in names for part in MODELS[name][1:]))
        self.rivals = {name: (found[2 * at], found[2 * at + 1]) for at, name in enumerate(names)}
        if any(schedule is not None and schedule.watch == "accuracy" for _, schedule in self.rivals.values()):
            raise SettingError("watch is 'accuracy'; task next knows loss and mrr")
        self.become(names[0])
        self.seed = require_seed(seed)
        self.device = find_device(device)
        self.vocabulary = Vocabulary()
        self.model: nn.Module | None = None
        self.counting: dict[str, Any] = {}
        self.continuation: Continuation | None = None
        self.facts: dict[str, Any] = {}
        self.seconds_an_epoch: float | None = None
        self.train_prints = torch.zeros(0, dtype=torch.int64)
        self.optimizer = None
        self.reservoir = self.new_reservoir()
        self.newborns: tuple[int, dict[str, Tensor]] | None = None

    @property
    def network(self) -> Any:
        """The trained module.

        Raises:
            SettingError: nothing was trained or loaded yet.
        """
        if self.model is None:
            raise SettingError("this predictor is not trained yet: loop over fit(data), or load a folder")
        return self.model

    @property
    def keeps_histories(self) -> bool:
        """Whether single histories may stay in memory and in a folder, whole or as fingerprints: not by ``replay=0``.

        Then blends are their networks alone, and VS-kNN does not stand beside a model.
        """
        return bool(getattr(self.schedule or self.settings, "replay", 1))

    @property
    def baselines(self) -> tuple[str, ...]:
        """The counting models that stand beside this one."""
        return tuple(name for name in COUNTING if self.keeps_histories or name != "vsknn")

    def fit(
        self, data: Histories, valid: Histories | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Count and train, yielding a report a step; the predictor can be used once the loop is over.

        Without ``valid`` the last tenth of ``data`` is held out for early stopping and for the choice between rivals;
        then, unless ``refit`` is off, the network is trained anew on all of it for as many epochs as were best.
        Counting needs no held-out part. Of several ranks the first one alone counts the baselines, and can be saved.

        Args:
            data: what to learn.
            valid: what early stopping looks at.
            checkpoint: a file that lets a killed run continue (and one beside it, for the second training).
            resume: continue from there.

        Raises:
            DataError: nothing follows anything in the data.
            SettingError: the loss is no longer a number, or the checkpoint is another run's.
        """
        return fitting.fit(self, data, valid, checkpoint, resume)

    def become(self, name: str) -> None:
        """Take the name and the settings of one of the rivals."""
        self.model_name = name
        self.settings, self.schedule = self.rivals[name]

    def update(self, data: Histories) -> Report:
        """Learn new histories on top of what is known, in one pass; new values are welcome and old ids stay.

        Raises:
            DataError: nothing follows anything in the data.
        """
        *_, last = updating.passes(self, data)
        return last

    def welcome(self, values: Iterable[str]) -> None:
        """Give new values ids, rows and counts of 0, so that histories that hold them can be encoded and learned."""
        updating.welcome(self, values)

    def learn(self, histories: Histories, known: Index | None = None) -> float:
        """Take a few optimiser steps: every fresh event is learned once. Nothing is counted, nothing made anew.

        The same state and data give the same bytes; ``facts["steps"]`` numbers the steps.

        Args:
            histories: encoded in this predictor's vocabulary, without unknown values.
            known: (histories,) how many leading events of each are old: context, not targets.

        Returns:
            The mean loss in nats; 0 where nothing is fresh. Counting models learn by ``updating.count`` alone.

        Raises:
            SettingError: the loss is no longer a number.
        """
        return updating.learn(self, histories, known)

    def observe(self, ids: np.ndarray[Any, np.dtype[np.signedinteger[Any]]], times: Floats) -> None:
        """Tell a model that weighs what came lately which events a stream just brought and when, once learned."""
        if hasattr(self.network, "observe"):
            self.network.observe(torch.from_numpy(ids).long().to(self.device), torch.from_numpy(times))

    def predict(self, records: Sequence[History], k: int = 10, *, evidence: bool = True) -> list[Answer]:
        """The ``k`` likeliest next values of each record, with the earlier events they leaned on.

        Values the model never saw are left out of a history and counted in ``Answer.known``; with none known, the
        answer is plain popularity. Where the training data never repeats a value, what a history holds is no answer.

        Args:
            records: any number.
            k: choices a record, fewer if the catalogue is smaller.
            evidence: whether to fill ``Choice.heeded`` (a few more passes).

        Raises:
            SettingError: not trained, or ``k`` below 1.
        """
        require_k(k)
        size = max(1, CELLS // max(len(self.vocabulary), LEAST) // (1 + TESTED * evidence))
        parts = (records[low : low + size] for low in range(0, len(records), size))
        return [answer for part in parts for answer in answers(part, self.vocabulary, self._say, k, evidence=evidence)]

    def forecast(self, records: Sequence[History], steps: int, k: int = 10) -> list[Forecast]:
        """Roll each record forward: who comes, when, and the chance that nothing does.

        Each step takes the likeliest value, and the median of its delay, as having come. The further a step, the more
        it rests on guesses. The chance to stop stands beside the choices and is none of them.

        Args:
            records: any number.
            steps: how far.
            k: choices a step.

        Raises:
            SettingError: not trained, fitted by an ensue without forecasts, or ``steps`` or ``k`` below 1.
        """
        return forecast(self, records, steps, k)

    def explain(self, records: Sequence[History], k: int = 3) -> list[Explanation]:
        """What the model leaned on inside each record: weights between its events, and a deletion test.

        A history longer than the model's reach is explained by the latest events that can matter.
        """
        found = zip(records, self.predict(records, k), strict=True)
        return [explanation(record, self.vocabulary, self._say, answer) for record, answer in found]

    def scores(
        self, pieces: Pieces, index: np.ndarray[Any, np.dtype[np.int64]], module: nn.Module | None = None
    ) -> tuple[Output, Tensor]:
        """Scores (asked, ids) on the CPU for some pieces, with the weights behind them, and the targets.

        Args:
            pieces: of histories in this predictor's vocabulary.
            index: which pieces.
            module: one of ``counting`` in place of the model.
        """
        chosen: Any = self.network if module is None else module
        device = self.device if chosen is self.model and self.schedule is not None else torch.device("cpu")
        chosen.eval()
        batch = pieces.batch(index)
        with torch.no_grad():
            output = chosen(batch.to(device))
        return Output(output.scores.float().cpu(), tuple(weight.cpu() for weight in output.weights)), batch.targets

    def ranks(
        self,
        data: Histories,
        *,
        hide: bool = False,
        sampled: int = 0,
        counting: str | None = None,
        known: Index | None = None,
    ) -> tuple[Floats, Index, Index]:
        """The rank of every event after the first of each history, the index of its history, and its own in the data.

        Args:
            data: in this predictor's vocabulary, without unknown values.
            hide: whether to rule out what a history already holds.
            sampled: rank against so many sampled candidates in place of all; the same ones for every model.
            counting: one of ``COUNTING`` in place of the model.
            known: (histories,) how many leading events of each are not to be ranked.
        """
        module = self.counting[counting] if counting else self.network
        pieces = Pieces(data, module.reach, known=known)
        ranks, steps = [np.empty(0)], [np.empty(0, np.int64)]
        for index in pieces.groups(max(1, CELLS // max(len(self.vocabulary), LEAST))):
            output, targets = self.scores(pieces, index, module)
            positions = pieces.positions(index)
            scores = hide_seen(output.scores, data, positions) if hide else output.scores
            if sampled:
                negatives = draw_negatives(targets, positions, len(self.vocabulary), sampled)
                ranks.append(metrics.sampled_ranks(scores, targets, negatives).double().numpy())
            else:
                ranks.append(metrics.ranks(scores, targets).double().numpy())
            steps.append(positions)
        asked = np.concatenate(steps)
        return np.concatenate(ranks), data.sequence_index()[asked], asked + 1

    def _say(self, histories: Histories, seen: Histories) -> Said:
        """See :data:`ensue.tasks.next.answers.Say`; a history without events gets plain popularity."""
        filled = np.flatnonzero(histories.lengths)
        rows, lengths = np.full(len(histories), -1), np.zeros(len(histories), np.int64)
        pieces = Pieces(histories.select(filled), self.network.reach, last_only=True)
        rows[filled], lengths[filled] = np.arange(len(filled)), pieces.stops - pieces.starts
        scores, weights = self.scores(pieces, np.arange(len(filled)))[0] if len(filled) else Output(torch.empty(0), ())
        if len(filled) < len(histories):
            some, popular = scores, self.counting["popularity"].shares().log()
            scores = popular.repeat(len(histories), 1)
            if len(filled):
                scores[filled] = some
        if not self.facts["repeats"]:
            full = np.flatnonzero(seen.lengths)
            scores[full] = hide_seen(scores[full], seen, seen.offsets[1:][full] - 1)
        return Said(scores, log_totals(scores), weights, rows.tolist(), lengths.tolist())

    def summary(self) -> dict[str, Any]:
        """What was learned from what, and how: goes into ``settings.json`` and the card."""
        return {
            "task": self.task,
            "model": self.model_name,
            "settings": asdict(self.settings),
            "schedule": asdict(self.schedule) if self.schedule else None,
            "seed": self.seed,
            "facts": {**self.facts, "remembered": len(self.reservoir)},
        }

    def save(self, folder: str | Path, card: str = "") -> None:
        """Write the model folder at once; an older model there is replaced whole.

        Args:
            folder: where.
            card: the text of ``CARD.md``.

        Raises:
            ModelFolderError: not writable, full, or taken by something that is no model.
        """
        write_folder(Path(folder), storage.files(self, card))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a folder written by :meth:`save`.

        Raises:
            ModelFolderError: it is half, foreign, damaged, or of a newer ensue.
        """
        return read_model(Path(folder), partial(cls, device=device), storage.fill)

    def new_reservoir(self) -> Reservoir:
        """An empty memory of past histories; counting keeps none, for it forgets nothing."""
        return Reservoir(self.schedule.replay if self.schedule else 0, self.seed, self.vocabulary)

    def new_module(self, name: str, settings: Any) -> Any:
        """An untrained module of this predictor's vocabulary, on its device (counting stays on the CPU)."""
        module, _, schedule = MODELS[name]
        with room_for(name):
            made = module(settings, len(self.vocabulary))
        return made.to(self.device) if schedule is not None else made
