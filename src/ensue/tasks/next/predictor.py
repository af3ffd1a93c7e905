"""The predictor of task ``next``: raw ids in, ranked answers out, for trained and counting models alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ensue.answers import Answer, Choice, Explanation, Forecast
from ensue.arguments import id_list, optional_bool, require_records
from ensue.data.histories import Histories, Ids, Index
from ensue.data.item_table import Items
from ensue.errors import SettingError
from ensue.learning import life
from ensue.learning.forget import Forgotten
from ensue.metrics import Floats
from ensue.nn.item_head import Output
from ensue.records import History
from ensue.settings import require_k
from ensue.tasks.next import forecast, forget, grow, infer, nearest, ranking, similar, train, update
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.item_features import KnownItems
from ensue.tasks.next.model import Model
from ensue.tasks.next.save import FOLDERS
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import Exclusion, shared_part
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report


class NextPredictor(NextState):
    """Ranks what follows a history."""

    data_type = Histories
    folders = FOLDERS

    def fit(
        self, data: Histories, valid: Histories | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Count and train, yielding a report a step; the predictor can be used once the loop is over.

        Without ``valid`` the last tenth of ``data`` is held out for early stopping and to choose between models;
        then, unless ``refit`` is off, the network is trained anew on all of it for as many epochs as were best.
        Counting needs no held-out part. Of several ranks the first one alone counts the baselines, and can be saved.

        Args:
            data: what to learn; items of its item table that no history holds can be answers too.
            valid: what early stopping looks at.
            checkpoint: a file that lets a killed run continue (and one beside it, for the second training).
            resume: continue from there.

        Raises:
            DataError: nothing follows anything in the data.
            SettingError: the loss is no longer a number, or the checkpoint is another run's.
        """
        self.require_data(data, valid)
        return life.fit(train, self, data, valid, Checkpoint(checkpoint, resume))

    def update(self, data: Histories) -> Report:
        """Learn new histories on top of what is known, in one pass; new values are welcome and old ids stay.

        A table of new items may come alone, without histories. With ``min_users`` only what enough people of ``data``
        share is learned; nothing of the rest is remembered.

        Raises:
            DataError: nothing follows anything in the data.
        """
        self.require_data(data)
        if data.items is not None:
            self.add_items(data.items)
            if not len(data):
                return replace(life.NO_TRAINING, note="items added")
        shared = shared_part(data, self.shared.min_users, "new data")
        report = [*update.passes(self, shared)][-1]
        self.index_items()
        return report

    def forget(self, data: Histories, values: Collection[str] = ()) -> Forgotten:
        """Remove histories of a person, and values that stand for one; what was learned into weights remains.

        Histories are recognised by their fingerprints, and remembered ones by their events and times. What was counted
        of them is subtracted, and values that no other history holds go too. A removed value is no answer any more.

        Args:
            data: the histories as they were trained on; all others are passed over.
            values: such as the users that pass cascades on, where a person is a value.

        Returns:
            What was removed, by file, and what remains.

        Raises:
            DataError: the data is of another type.
            SettingError: the predictor is not trained.
        """
        self.require_data(data)
        found = forget.forget(self, data, id_list(values, "values"))
        if self.index is not None:
            self.index_items()
        return found

    def add_values(self, values: Iterable[str]) -> None:
        """Give new values ids, rows and counts of 0, so that histories that hold them can be encoded and learned."""
        grow.add_values(self, values)
        self.learned()

    def add_items(self, items: Items) -> None:
        """Add items, or new features of known ones; each can be an answer at once.

        Args:
            items: a table with the columns of the one that the model was fitted with.

        Raises:
            SettingError: the model was fitted without an item table.
            DataError: the table lacks a column.
        """
        if self.known_items is None:
            raise SettingError("the model has no item features; fit it with --items")
        known = self.known_items
        grow.add_items(self, KnownItems(known.items.merge(items), known.encoder, known.embeddings))
        self.learned()

    def similar(self, values: Collection[str], k: int = 10) -> list[list[Choice]]:
        """Return the ``k`` items most similar to each value: by the cosine of the vectors that the network reads.

        Raises:
            SettingError: the model has no network, or a value is not in the training data.
        """
        require_k(k)
        return similar.similar(self, list(id_list(values, "values")), k)

    def learn(self, histories: Histories, context: Index | None = None) -> float:
        """Take a few optimiser steps: every fresh event is learned once. Nothing is counted, nothing made anew.

        The same state and data give the same bytes; ``metadata.steps`` numbers the steps.

        Args:
            histories: encoded in this predictor's vocabulary, without unknown values.
            context: (histories,) how many leading events of each are old, and no targets.

        Returns:
            The mean loss in nats; 0 where nothing is fresh. Counting models learn by ``update.count`` alone.

        Raises:
            SettingError: the loss is no longer a number.
        """
        self.learned()
        return update.learn(self, histories, context)

    def observe(self, ids: Ids, times: Floats) -> None:
        """Tell a model that weighs what came lately which events a stream just brought and when, once learned."""
        update.observe(self, ids, times)
        self.learned()

    def predict(
        self,
        records: Sequence[History],
        k: int = 10,
        *,
        evidence: bool = True,
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
        exclude_seen: bool | None = None,
        rank_unknown: bool = False,
    ) -> list[Answer]:
        """Return the ``k`` likeliest next values of each record, with the earlier events they leaned on.

        Values that the training data lacks are left out of a history and of ``Answer.in_vocabulary``; they are no
        choices unless ``rank_unknown`` is set. A history without a known value is answered with plain popularity.

        Args:
            records: any number.
            k: choices a record, fewer if the catalogue is smaller.
            evidence: whether to fill ``Choice.attributions`` (a few more passes).
            exclude: values that are no answer, such as what is sold out; probabilities stay those of all values.
            allow: the only values that are answers, ``None`` for all.
            exclude_seen: whether values of a record are no answers to it; probabilities are then those of all other
                values. ``None`` is the default of the model, ``metadata.exclusion``: all of
                them are left out where the training data hardly ever repeats a value, else the latest known one,
                unless values often repeat at once (:func:`ensue.tasks.next.training_data.default_exclusion`).
            rank_unknown: rank values of a record that the training data lacks too, by how often such values come
                again (:mod:`ensue.tasks.next.own_unknown`): what ``evaluate`` scores with ``unknown="rank"``. Nothing
                changes where the training data never repeats a value in a history, or ``exclude_seen`` holds.

        Raises:
            SettingError: not trained, or ``k`` below 1.
        """
        return infer.predict(
            self,
            require_records(records, History),
            k,
            evidence=evidence,
            exclude=id_list(exclude, "exclude"),
            allow=None if allow is None else id_list(allow, "allow"),
            exclude_seen=optional_bool(exclude_seen, "exclude_seen"),
            rank_unknown=rank_unknown,
        )

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
        return forecast.forecast(self, require_records(records, History), steps, k)

    def explain(self, records: Sequence[History], k: int = 3) -> list[Explanation]:
        """What the model leaned on inside each record: weights between its events, and a deletion test.

        A history longer than the model's reach is explained by the latest events that can matter.
        """
        return infer.explain(self, require_records(records, History), k)

    def scores(self, windows: Windows, index: Index, module: Model | None = None) -> tuple[Output, Tensor]:
        """Scores (targets, ids) on the CPU for some windows, with the weights behind them, and the targets.

        Args:
            windows: of histories in this predictor's vocabulary.
            index: which windows.
            module: one of ``counting`` in place of the model.
        """
        return infer.scores(self, windows, index, module)

    def ranks(
        self,
        data: Histories,
        *,
        exclusion: Exclusion = Exclusion.NONE,
        sampled: int = 0,
        counting: str | None = None,
        context: Index | None = None,
        approximate: bool = False,
        rank_unknown: bool = False,
    ) -> tuple[Floats, Index, Index]:
        """Return the rank of each target that can be ranked, the index of its history, and its own in the data.

        A target is an event after the first of its history. Targets of the vocabulary are all ranked: after known
        events by the model, after none by popularity, as :meth:`predict` answers. Ties count against the target, and
        a target that is ruled out has rank ``metrics.MISS``.

        Args:
            data: in the ids of this predictor's vocabulary. UNKNOWN, and ids from ``len(vocabulary)`` on
                (``Histories.encode(number_unknown=True)``), are events that the training data lacks.
            exclusion: which events of a history are ruled out.
            sampled: rank against this many sampled candidates instead of all; the same ones for every model.
            counting: one of ``COUNTING`` instead of the model.
            context: (histories,) how many leading events of each are no targets.
            approximate: rank a large catalogue by the model's index: exact among its candidates, estimated beyond.
            rank_unknown: rank unknown events (those with ids) that their history holds already as candidates and
                targets, by the rule of :mod:`ensue.tasks.next.own_unknown`, which is the same for every model.
        """
        return ranking.target_ranks(
            self,
            data,
            exclusion=exclusion,
            sampled=sampled,
            counting=counting,
            context=context,
            approximate=approximate,
            rank_unknown=rank_unknown,
        )

    def index_items(self) -> None:
        """Make the index of a large catalogue anew; training and updates do, and folders keep it.

        Nothing happens below :data:`ensue.tasks.next.item_index.LARGE` values, for models that score otherwise than by
        a product, and without the extra ``ann``: answers are exact then.
        """
        nearest.index_items(self)
