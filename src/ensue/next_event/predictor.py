"""The predictor of task ``next``: raw ids in, ranked answers out, for trained and counting models alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

from ensue import metrics
from ensue.data.check import fingerprints, require_targets
from ensue.data.histories import Histories, Index
from ensue.data.splits import hold_out
from ensue.errors import SettingError
from ensue.folder import read_settings, read_unchanged, write_folder
from ensue.metrics import Floats
from ensue.next_event import BEST, COUNTING, MODELS, storage
from ensue.next_event.answers import TESTED, Said, answers, explanation
from ensue.next_event.batch import Output
from ensue.next_event.task import Pieces, draw_negatives, hide_seen, repeats
from ensue.records import Answer, Explanation, History
from ensue.settings import changed
from ensue.training import Report, Schedule, make_optimizer, mean_loss, optimizer_tensors, restore_optimizer, train
from ensue.vocabulary import FIRST, Vocabulary

DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, so that histories can be put in order of their start."""
CELLS = 2**24
"""Scores held at once (64 MB in float32): bounds memory whatever the catalogue."""
LEAST = 1024
"""Smaller catalogues count as this large, since attention takes memory too."""


class NextPredictor:
    """Ranks what follows a history.

    Args:
        model: a name in ``MODELS``, or ``best``.
        settings: settings of the model and of its schedule to change, by name; texts are read as numbers.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: where the network runs; a GPU is used when there is one.

    Raises:
        SettingError: an unknown model or setting.
    """

    task = "next"

    def __init__(
        self,
        model: str = "best",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> None:
        name = BEST if model == "best" else model
        if name not in MODELS:
            raise SettingError(f"model {model!r} is not known for task next; choose from best, {', '.join(MODELS)}")
        self.model_name = name
        _, defaults, schedule = MODELS[name]
        self.settings, self.schedule = changed(settings or {}, defaults, schedule)
        if not isinstance(seed, int) or seed < 0:
            raise SettingError(f"seed is {seed!r}; it must be a whole number, 0 or more")
        self.seed = seed
        self.device = _device(device)
        self.vocabulary = Vocabulary()
        self.model: nn.Module | None = None
        self.counting: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.seconds_an_epoch: float | None = None
        self.train_prints = torch.zeros(0, dtype=torch.int64)
        self.optimizer: Adam | None = None

    @property
    def network(self) -> Any:
        """The trained module.

        Raises:
            SettingError: nothing was trained or loaded yet.
        """
        if self.model is None:
            raise SettingError("this predictor is not trained yet: loop over fit(data), or load a folder")
        return self.model

    def fit(
        self, data: Histories, valid: Histories | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Count and train, yielding a report a step; the predictor can be used once the loop is over.

        Without ``valid`` the last tenth of ``data`` is held out for early stopping; then, unless ``refit`` is off, the
        network is trained anew on all of it for as many epochs as were best. Counting needs no held-out part.

        Args:
            data: what to learn.
            valid: what early stopping looks at.
            checkpoint: a file that lets a killed run continue (and one beside it, for the second training).
            resume: continue from there.

        Raises:
            DataError: nothing follows anything in the data.
            SettingError: the loss is no longer a number, or the checkpoint is another run's.
        """
        require_targets(data, "training data")
        if self.schedule is None:
            self._learn_values(data)
            self.model = self.counting[self.model_name]
            return
        if valid is not None:
            self._learn_values(data)
            yield from self._train(data, valid, "fit", self.schedule, checkpoint, resume)
            return
        train_part, held, rule = hold_out(data, by_time=data.timed and float(data.times.min()) > DATED)
        self._learn_values(train_part)
        epochs = yield from self._train(train_part, held, "fit", self.schedule, checkpoint, resume)
        if self.schedule.refit:
            again = replace(self.schedule, epochs=epochs)
            self._learn_values(data)
            second = checkpoint.with_name(f"{checkpoint.name}-refit") if checkpoint else None
            yield from self._train(data, None, "refit", again, second, resume)
        self.facts["held_out"] = rule

    def _learn_values(self, data: Histories) -> None:
        """Take vocabulary, counts and facts from the training data."""
        self.vocabulary = Vocabulary(data.vocabulary.value(i) for i in _distinct(data))
        data = data.encode(self.vocabulary, drop_unknown=True)
        self.train_prints = torch.from_numpy(np.unique(fingerprints(data)).view(np.int64))
        self.facts = {
            "sequences": len(data),
            "events": len(data.ids),
            "values": len(self.vocabulary) - FIRST,
            "repeats": repeats(data),
            "timed": data.timed,
        }
        for name in COUNTING:
            own = self.settings if name == self.model_name else MODELS[name][1]
            self.counting[name] = self.new_module(name, own)
            self.counting[name].count(data)

    def _train(
        self,
        data: Histories,
        valid: Histories | None,
        stage: str,
        schedule: Schedule,
        checkpoint: Path | None,
        resume: bool,
    ) -> Generator[Report, None, int]:
        torch.manual_seed(self.seed)
        self.model = network = self.new_module(self.model_name, self.settings)
        self._count_negatives()
        self.optimizer = make_optimizer(network, schedule)
        parts = [part.encode(self.vocabulary, drop_unknown=True) for part in (data, valid) if part is not None]
        for part, where in zip(parts, ("training data", "validation data"), strict=False):
            require_targets(part, where)
        reports = train(
            network,
            Pieces(parts[0], network.reach),
            (lambda: self._watch(parts[1])) if valid is not None else None,
            schedule,
            optimizer=self.optimizer,
            seed=self.seed,
            stage=stage,
            checkpoint=checkpoint,
            resume=resume,
            fingerprint=self._fingerprint(parts),
        )
        trained = yield from reports
        self.facts |= {"epochs": trained.best_epoch}
        self.seconds_an_epoch = trained.seconds_an_epoch
        return trained.best_epoch

    def _count_negatives(self) -> None:
        """Tell a network that draws negatives how often each id occurs."""
        if hasattr(self.network, "sampler"):
            self.network.sampler.count(self.counting["popularity"].totals)

    def _watch(self, valid: Histories) -> float:
        """The figure that early stopping looks at: mean loss, or micro MRR as in protocol ``full``."""
        if self.schedule.watch == "loss":
            return mean_loss(self.network, Pieces(valid, self.network.reach))
        found, _ = self.ranks(valid, hide=not self.facts["repeats"])
        return float(metrics.reciprocal_rank(found).mean())

    def update(self, data: Histories) -> Report:
        """Learn new histories on top of what is known, in one pass; new values are welcome and old ids stay.

        Raises:
            DataError: nothing follows anything in the data.
        """
        require_targets(data, "new data")
        old, network = len(self.vocabulary), self.network
        self.vocabulary.add(data.vocabulary.value(i) for i in _distinct(data))
        data = data.encode(self.vocabulary, drop_unknown=True)
        if len(self.vocabulary) > old:
            self.counting = {name: module.grow(len(self.vocabulary)) for name, module in self.counting.items()}
        for module in self.counting.values():
            module.count(data)
        self.train_prints = torch.cat(
            [self.train_prints, torch.from_numpy(np.unique(fingerprints(data)).view(np.int64))]
        )
        updates = self.facts.get("updates", 0) + 1
        self.facts |= {"updates": updates, "repeats": self.facts["repeats"] or repeats(data)}
        self.facts["events"] += len(data.ids)
        self.facts["sequences"] += len(data)
        if self.schedule is None:
            self.model = self.counting[self.model_name]
            return Report("update", 1, 1, 1, 1, 0.0, 0.0, stopped=True)
        moments = optimizer_tensors(network, self.optimizer) if self.optimizer else {}
        if len(self.vocabulary) > old:
            torch.manual_seed(self.seed + updates)
            self.model = network.grow(len(self.vocabulary)).to(self.device)
        self._count_negatives()
        self.optimizer = make_optimizer(self.network, self.schedule)
        restore_optimizer(self.network, self.optimizer, moments)
        pieces, once = Pieces(data, self.network.reach), replace(self.schedule, epochs=1)
        *_, last = train(
            self.network, pieces, None, once, optimizer=self.optimizer, seed=self.seed + updates, stage="update"
        )
        return last

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
        if k < 1:
            raise SettingError(f"k is {k}; ask for at least 1 choice")
        size = max(1, CELLS // max(len(self.vocabulary), LEAST) // (1 + TESTED * evidence))
        parts = (records[low : low + size] for low in range(0, len(records), size))
        return [answer for part in parts for answer in answers(part, self.vocabulary, self._say, k, evidence=evidence)]

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
        self, data: Histories, *, hide: bool = False, sampled: int = 0, counting: str | None = None
    ) -> tuple[Floats, Index]:
        """The rank of every event after the first of each history, and the index of its history.

        Args:
            data: in this predictor's vocabulary, without unknown values.
            hide: whether to rule out what a history already holds.
            sampled: rank against so many sampled candidates in place of all; the same ones for every model.
            counting: one of ``COUNTING`` in place of the model.
        """
        module = self.counting[counting] if counting else self.network
        pieces, owner = Pieces(data, module.reach), data.sequence_index()
        ranks, owners = [np.empty(0)], [np.empty(0, np.int64)]
        for index in pieces.groups(max(1, CELLS // max(len(self.vocabulary), LEAST))):
            output, targets = self.scores(pieces, index, module)
            positions = pieces.positions(index)
            scores = hide_seen(output.scores, data, positions) if hide else output.scores
            if sampled:
                negatives = draw_negatives(targets, positions, len(self.vocabulary), sampled)
                ranks.append(metrics.sampled_ranks(scores, targets, negatives).double().numpy())
            else:
                ranks.append(metrics.ranks(scores, targets).double().numpy())
            owners.append(owner[positions])
        return np.concatenate(ranks), np.concatenate(owners)

    def _say(self, histories: Histories, seen: Histories) -> Said:
        """See :data:`ensue.next_event.answers.Say`; a history without events gets plain popularity."""
        network = self.network
        scores = self.counting["popularity"].shares().log().repeat(len(histories), 1)
        influence = [torch.zeros(0)] * len(histories)
        dependency = [torch.zeros(0, 0)] * len(histories)
        filled = np.flatnonzero(histories.lengths)
        if len(filled):
            pieces = Pieces(histories.select(filled), network.reach, last_only=True)
            output, _ = self.scores(pieces, np.arange(len(filled)))
            scores[filled] = output.scores
            lengths = (pieces.stops - pieces.starts).tolist()
            for at, (row, length) in enumerate(zip(filled.tolist(), lengths, strict=True)):
                influence[row] = output.weights[-1][at, length - 1, :length]
                if len(output.weights) > 1:
                    dependency[row] = output.weights[0][at, :length, :length]
        if not self.facts["repeats"]:
            full = np.flatnonzero(seen.lengths)
            scores[full] = hide_seen(scores[full], seen, seen.offsets[1:][full] - 1)
        return Said(torch.nan_to_num(scores.softmax(dim=1)), influence, dependency)

    def summary(self) -> dict[str, Any]:
        """What was learned from what, and how: goes into ``settings.json`` and the card."""
        return {
            "task": self.task,
            "model": self.model_name,
            "settings": asdict(self.settings),
            "schedule": asdict(self.schedule) if self.schedule else None,
            "seed": self.seed,
            "facts": self.facts,
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
        return read_unchanged(Path(folder), lambda: cls._load(Path(folder), device))

    @classmethod
    def _load(cls, path: Path, device: str | None) -> Self:
        found = read_settings(path)
        with storage.damage(path):
            options = {**found["settings"], **(found["schedule"] or {})}
            self = cls(found["model"], settings=options, seed=found["seed"], device=device)
            storage.fill(self, path, found["facts"])
        return self

    def new_module(self, name: str, settings: Any) -> Any:
        """An untrained module of this predictor's vocabulary, on its device (counting stays on the CPU)."""
        module, _, schedule = MODELS[name]
        try:
            made = module(settings, len(self.vocabulary))
        except (RuntimeError, MemoryError) as error:
            raise SettingError(f"{name} with these settings does not fit into memory; make it smaller") from error
        return made.to(self.device) if schedule is not None else made

    def _fingerprint(self, parts: Sequence[Histories]) -> str:
        seen = hashlib.blake2b(json.dumps([self.model_name, asdict(self.settings)]).encode(), digest_size=16)
        for part in parts:
            for column in (part.ids, part.offsets, part.times):
                seen.update(np.ascontiguousarray(column).data)
        return seen.hexdigest()


def _device(name: str | None) -> torch.device:
    gpu = torch.cuda.is_available()
    with suppress(RuntimeError):
        found = torch.device(name or ("cuda" if gpu else "cpu"))
        if gpu or found.type != "cuda":
            return found
    raise SettingError(f"device {name!r} is not at hand; choose from cpu{', cuda' if gpu else ''}")


def _distinct(data: Histories) -> list[int]:
    """Ids that occur, in order of their numbers; unknown is none."""
    counts = np.bincount(data.ids, minlength=FIRST)
    counts[:FIRST] = 0
    return np.flatnonzero(counts).tolist()
