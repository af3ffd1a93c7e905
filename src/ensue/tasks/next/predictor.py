"""The predictor of task ``next``: raw ids in, ranked answers out, for trained and counting models alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from ensue.answers import Answer, Choice, Explanation, Forecast, Foreseen, SimilarSession
from ensue.arguments import id_list, optional_bool, require_records
from ensue.data.histories import Histories, Ids, Index, Items, Mask
from ensue.errors import SettingError
from ensue.lazy import lazy, torch
from ensue.learning import life
from ensue.learning.life import Forgotten
from ensue.learning.state import Contents, evaluating
from ensue.lines import plural
from ensue.metrics import Floats
from ensue.nn.topk import has_faiss
from ensue.nn.validation import require_ids, require_table
from ensue.records import History
from ensue.settings import require_integer, require_k
from ensue.store.pack import NETWORK, TREE, TensorFile, read_arrays, read_tensors
from ensue.tasks.next import forget, infer, item_index, ranking, similar, train, update
from ensue.tasks.next.attributions import at_zero
from ensue.tasks.next.baselines.counting import Cooccurrence, ItemCounts, Markov, Popularity, SequentialRules
from ensue.tasks.next.baselines.interpolated import Interpolated
from ensue.tasks.next.baselines.length_delay import SHARES, LengthDelayModel, StopDelayEstimate
from ensue.tasks.next.baselines.own_items import OwnItems
from ensue.tasks.next.baselines.recent import Recent
from ensue.tasks.next.baselines.session_knn import VSKNN
from ensue.tasks.next.catalogue import BEST, COUNTING, MODELS
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.ensembles.memory import BlendMemory, CascadeStore
from ensue.tasks.next.item_features import KnownItems
from ensue.tasks.next.item_filter import Rules
from ensue.tasks.next.item_index import ItemIndex
from ensue.tasks.next.model import Baseline, Remembers, TimesNext
from ensue.tasks.next.onnx_network import TimedOnnxNetwork, read_network
from ensue.tasks.next.point_process import HOUR, delay
from ensue.tasks.next.reservoir import LATEST, Reservoir
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import shared_part
from ensue.text.encoder import Vectors
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Report
from ensue.vocabulary import FIRST, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from ensue.tasks.next import nearest
else:
    nearest = lazy("ensue.tasks.next.nearest")


@dataclass(eq=False)
class FittedNext:
    """Fitted values of a predictor, without the weights of the network.

    Attributes:
        vocabulary: the items.
        training_hashes: (histories,) fingerprints of the training data.
        length_delay: how long histories get and pauses last.
        reservoir: past histories, which updates train on again.
        popularity: of the baselines, as are all that follow; ``None`` where it may not be stored.
        blend_memory: of a blend.
        cascades: of a cascade blend.
    """

    vocabulary: Vocabulary
    training_hashes: npt.NDArray[np.int64]
    length_delay: LengthDelayModel
    reservoir: Reservoir
    popularity: Popularity
    recent: Recent
    markov: Markov
    rules: SequentialRules
    own_items: OwnItems
    cooccurrence: Cooccurrence
    interpolated: Interpolated
    vsknn: VSKNN | None = None
    blend_memory: BlendMemory | None = None
    cascades: CascadeStore | None = None

    def __post_init__(self) -> None:
        """Check that everything is of the same items.

        Raises:
            ValueError: it is not.
        """
        num_ids = len(self.vocabulary)
        require_table("training_hashes", self.training_hashes, np.int64, [None])
        require_ids("reservoir.ids", self.reservoir.ids, num_ids, FIRST)
        self.reservoir.vocabulary = self.vocabulary
        for name, counts in vars(self).items():
            if isinstance(counts, ItemCounts | BlendMemory | CascadeStore) and counts.num_ids != num_ids:
                raise ValueError(f"{name} counts {counts.num_ids} ids, but there are {num_ids}")

    @property
    def baselines(self) -> dict[str, Baseline]:
        """The baselines by their names in the catalogue."""
        baselines = {name: getattr(self, name.replace("-", "_")) for name in COUNTING}
        return {name: baseline for name, baseline in baselines.items() if baseline is not None}

    @property
    def memory(self) -> BlendMemory | CascadeStore | None:
        """Memory of an ensemble."""
        return self.blend_memory if self.cascades is None else self.cascades


def _restore_network(state: NextState, fitted: FittedNext, folder: Path) -> None:
    """Give a new state the network, the memory and the index of a folder."""
    state.read_network(folder, read_tensors(folder, NETWORK), bounded=state.model_name in {*MODELS})
    network = state.network
    if state.schedule is None:
        state.counting[state.model_name] = cast(Baseline, network)
    elif isinstance(network, Remembers):
        if type(network.memory) is not type(fitted.memory):
            raise ValueError(f"{TREE} belongs to another model")
        network.memory = fitted.memory
    index = state.metadata.index
    if index is not None and state.device.type == "cpu" and has_faiss():
        arrays = read_arrays(folder, item_index.FILE)
        state.index = ItemIndex.restored(arrays, index, len(state.vocabulary) - FIRST)


class NextPredictor(NextState):
    """Ranks what follows a history."""

    data_type = Histories
    fitted = FittedNext

    def fit(
        self, data: Histories, valid: Histories | None = None, *, checkpoint: Path | None = None, resume: bool = False
    ) -> Iterator[Report]:
        """Count and train, yielding a report a step; the predictor can be used once the loop is over.

        Without ``valid`` the last tenth of ``data`` is held out for early stopping and to choose between models;
        then, unless ``refit`` is off, the network is trained again on all of it for the best number of epochs.
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
        self.require_trainable()
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
        self.require_trainable()
        forgotten = forget.forget(self, data, id_list(values, "values"))
        if self.index is not None:
            self.index_items()
        return forgotten

    def add_values(self, values: Iterable[str]) -> None:
        """Give new values ids, rows and counts of 0, so that histories that hold them can be encoded and learned."""
        self.require_trainable()
        update.add_values(self, values)
        self.learned()

    def add_items(self, items: Items) -> None:
        """Add items, or new features of known ones; each can be an answer at once.

        Args:
            items: a table with the columns of the one that the model was fitted with.

        Raises:
            SettingError: the model was fitted without an item table.
            DataError: the table lacks a column.
        """
        self.require_trainable()
        if self.known_items is None:
            raise SettingError("the model has no item table; fit it with --items")
        known_items = self.known_items
        update.add_items(self, KnownItems(known_items.items.merge(items), known_items.encoder, known_items.embeddings))
        self.learned()

    def similar(
        self,
        items: Collection[str],
        k: int = 10,
        *,
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
        filters: Sequence[str] = (),
        now: float | None = None,
    ) -> list[list[Choice]]:
        """Return the ``k`` items most similar to each item: see :mod:`ensue.tasks.next.similar`; rules as in predict.

        Raises:
            DataError: an item is not in the training data, or a filter cannot be read.
            SettingError: not trained, or ``k`` below 1.
        """
        require_k(k)
        rules = Rules.of(exclude, allow, filters, now)
        return similar.similar_items(self, list(id_list(items, "items")), k, rules)

    @property
    def similarity_source(self) -> str:
        """What :meth:`similar` compares items by: ``vectors``, ``co-occurrence`` or ``features``."""
        return similar.similarity_source(self)

    def similar_sessions(
        self, records: Sequence[History], among: Sequence[History] | None = None, k: int = 10
    ) -> list[list[SimilarSession]]:
        """Return the ``k`` sessions most similar to each record, among some or those that the model stores.

        Raises:
            SettingError: not trained, ``k`` below 1, no network, or no sessions to search.
        """
        require_k(k)
        searched = None if among is None else require_records(among, History)
        return similar.similar_sessions(self, require_records(records, History), searched, k)

    def vectors_of_items(self) -> tuple[Sequence[str], Vectors]:
        """Return the items, and (items, dim) their vectors as the network reads them; forgotten ones are left out."""
        vectors = similar.item_vectors(self)
        if vectors is None:
            raise self.without_vectors("items", "core")
        forgotten = {*(self.metadata.forgotten or ())}
        ids = [id for id in range(FIRST, len(self.vocabulary)) if id not in forgotten]
        return [self.vocabulary.value(id) for id in ids], vectors[ids]

    def vectors_of(self, records: Sequence[History]) -> tuple[Vectors, Mask]:
        """Return the encoder's vector of each session after its last event, and which sessions have a known event."""
        return similar.session_vectors(self, similar.encoded(self, require_records(records, History)))

    def learn(self, histories: Histories, context: Index | None = None) -> float:
        """Take a few optimiser steps: every new event is trained on once. Counts and index stay as they are.

        The same state and data give the same bytes; ``metadata.steps`` numbers the steps.

        Args:
            histories: encoded in this predictor's vocabulary, without unknown values.
            context: (histories,) how many leading events of each are old, and no targets.

        Returns:
            The mean loss in nats; 0 where nothing is fresh. Counting models learn by ``update.count`` alone.

        Raises:
            SettingError: the loss is no longer a number.
        """
        self.require_trainable()
        self.learned()
        return update.learn(self, histories, context)

    def observe(self, ids: Ids, times: Floats) -> None:
        """Tell a model that weighs what came lately which events a stream just brought and when, once learned."""
        self.require_trainable()
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
        filters: Sequence[str] = (),
        now: float | None = None,
        max_per: Mapping[str, int] | None = None,
        diversify: str = "",
        exclude_seen: bool | None = None,
        rank_unknown: bool = False,
    ) -> list[Answer]:
        """Return the ``k`` likeliest next values of each record, with the earlier events that they attended to.

        Values that the training data lacks are left out of a history and of ``Answer.in_vocabulary``; they are no
        choices unless ``rank_unknown`` is set. A history without a known value is answered with plain popularity.

        Args:
            records: any number.
            k: choices a record, fewer if the catalogue is smaller.
            evidence: whether to fill ``Choice.attributions`` (a few more passes).
            exclude: values that are no answer, such as what is sold out; probabilities stay those of all values.
            allow: the only values that are answers, ``None`` for all.
            filters: conditions on columns of the item table that an answer fulfils, such as ``price < 50``
                (:mod:`ensue.tasks.next.item_columns`).
            now: the time that ``within`` counts from, in seconds since 1970; ``None`` for the clock.
            max_per: number of choices at most that have the same value of a column, by the column.
            diversify: ``mmr=WEIGHT`` or ``calibrated:COLUMN=WEIGHT`` (:mod:`ensue.tasks.next.reranking`).
            exclude_seen: whether values of a record are no answers to it; probabilities are then those of all other
                values. ``None`` is the default of the model, ``metadata.exclusion``: all of
                them are left out where the training data hardly ever repeats a value, else the latest known one,
                unless values often repeat at once (:func:`ensue.tasks.next.training_data.default_exclusion`).
            rank_unknown: rank values of a record that the training data lacks too, by how often such values come
                again (:mod:`ensue.tasks.next.own_unknown`): what ``evaluate`` scores with ``unknown="rank"``. Nothing
                changes where the training data never repeats a value in a history, or ``exclude_seen`` holds.

        Raises:
            SettingError: not trained, or ``k`` below 1.
            DataError: a filter cannot be read, or the model has no such column.
        """
        rules = Rules.of(exclude, allow, filters, now, max_per, diversify)
        return infer.predict(
            self,
            require_records(records, History),
            k,
            evidence=evidence,
            rules=rules,
            exclude_seen=optional_bool(exclude_seen, "exclude_seen"),
            rank_unknown=rank_unknown,
        )

    def forecast(self, records: Sequence[History], steps: int, k: int = 10) -> list[Forecast]:
        """Predict several steps ahead: the next values, their delays, and the probability that nothing follows.

        Each step continues from the likeliest value of the step before, at the median delay. The further a step, the
        more it depends on earlier predictions. The probability to stop is reported next to the choices.

        Args:
            records: any number.
            steps: how far.
            k: choices a step.

        Raises:
            SettingError: not trained, fitted by an ensue without forecasts, or ``steps`` or ``k`` below 1.
        """
        if require_integer("steps", steps) < 1:
            raise SettingError(f"steps is {steps}; give at least 1")
        histories = list(require_records(records, History))
        forecasts = [Forecast((), id=record.id, events=len(record.values)) for record in histories]
        for step in range(steps):
            answers = self.predict(histories, k, evidence=False)
            estimate = self._stops_and_delays(histories)
            for row, (record, answer) in enumerate(zip(histories, answers, strict=True)):
                if not step:
                    forecasts[row] = replace(forecasts[row], in_vocabulary=answer.in_vocabulary)
                if not answer.choices:
                    continue  # no item is left
                timed = self.metadata.timed and (bool(record.times) or not record.values)
                delays = tuple(estimate.delay[row].tolist()) if timed else ()
                foreseen = Foreseen(answer.choices, float(estimate.stop[row]), delays)
                forecasts[row] = replace(forecasts[row], steps=(*forecasts[row].steps, foreseen))
                # The likeliest value at the median delay becomes the next event of the history.
                latest = record.times[-1] if record.times else 0.0
                times = (*record.times, latest + delays[1]) if delays else ()
                values = (*record.values, answer.choices[0].value)
                histories[row] = History(values, times if len(times) == len(values) else (), record.id)
        return forecasts

    def _stops_and_delays(self, records: Sequence[History]) -> StopDelayEstimate:
        """Return counted estimates of all records; the delays of RMTPP are those of its own density."""
        # Estimates need times; those of untimed records are not used.
        timed = [record if record.times else at_zero(record) for record in records]
        estimate = self.length_delay.estimate(Histories.of(timed))
        network = self.network
        if not isinstance(network, TimesNext | TimedOnnxNetwork):
            return estimate
        histories = Histories.of(timed, self.vocabulary)
        histories = histories.keep(histories.ids >= FIRST)
        filled = np.flatnonzero(histories.lengths)
        if len(filled):
            windows = Windows(histories.select(filled), self.network.reach, last_only=True)
            batch = windows.batch(np.arange(len(filled)))
            if isinstance(network, TimedOnnxNetwork):
                rates = network.latest_rates(batch)
            else:
                evaluating(self.network)
                with torch.no_grad():
                    rates = network.rates(batch.to(self.device)).numpy(force=True)
            log_rate, trend = rates.T.astype(np.float64)
            estimate.delay[filled] = np.stack([HOUR * delay(log_rate, trend, share) for share in SHARES], axis=1)
        return estimate

    def explain(self, records: Sequence[History], k: int = 3) -> list[Explanation]:
        """Explain each record: attention weights between its events, and a deletion test.

        A history longer than the model's reach is explained by the latest events that can matter.
        """
        return infer.explain(self, require_records(records, History), k)

    scores = infer.scores
    ranks = ranking.target_ranks

    def index_items(self) -> None:
        """Rebuild the index of a large catalogue; training and updates do so, and folders store it.

        Nothing happens below :data:`ensue.tasks.next.item_index.LARGE` values, for models that score otherwise than by
        a product, and without the extra ``ann``: answers are exact then.
        """
        if self.schedule is not None:
            nearest.index_items(self)

    @property
    def is_prepared(self) -> bool:
        """Whether the index of a large catalogue is there, if there is to be one."""
        return self.index is not None or not self.is_indexed

    def prepare(self) -> bytes:
        """Build the index, and return it for :meth:`use_prepared` of the same model in another process."""
        self.index_items()
        assert self.index is not None
        return self.index.to_bytes()

    def use_prepared(self, prepared: bytes) -> None:
        """Use the index that :meth:`prepare` returned."""
        self.index = ItemIndex.from_bytes(prepared)
        self.metadata.index = self.index.facts

    def _collect(self) -> FittedNext:
        """Return the fitted values of a predictor."""
        baselines = {name.replace("-", "_"): baseline for name, baseline in self.counting.items() if name in COUNTING}
        memory = self.network.memory if isinstance(self.network, Remembers) else None
        return FittedNext(
            self.vocabulary,
            self.training_hashes,
            self.length_delay,
            self.reservoir,
            blend_memory=memory if isinstance(memory, BlendMemory) else None,
            cascades=memory if isinstance(memory, CascadeStore) else None,
            **baselines,  # type: ignore[arg-type]
        )

    def _restore(self, fitted: FittedNext, folder: Path) -> None:
        """Take the fitted values, the network, the item table and the index of a folder."""
        self.vocabulary = fitted.vocabulary
        self.training_hashes = fitted.training_hashes
        self.length_delay = fitted.length_delay
        self.reservoir = fitted.reservoir
        self.counting = {**fitted.baselines}
        exported = self.metadata.exported
        parameters: Mapping[str, Tensor] | None = {}
        if self.model_name in COUNTING:
            self.model = self.counting[self.model_name]
        elif exported is not None:
            if (self.model_name in BEST) != (fitted.memory is not None):
                raise ValueError(f"{TREE} belongs to another model")
            exported_network = read_network(folder, exported.reach, len(self.vocabulary), fitted.memory, self.settings)
            self.model = cast(Baseline, exported_network)  # it scores as one, but counts and grows nothing
            parameters = None
        else:
            _restore_network(self, fitted, folder)
            parameters = dict(self.module.named_parameters())
        if self.metadata.item_columns:
            self.known_items = KnownItems.read(folder, parameters, len(self.vocabulary))

    def stored_data(self) -> list[str]:
        """Return what the folder stores of past sessions: they may be personal data."""
        sums = "item counts, transitions, lengths of sessions and pauses"
        shared = self.metadata.min_users
        if not self.keeps_histories:
            scope = "including pairs that only one session has"
            if shared:
                scope = f"only runs of events that at least {shared['threshold']} people share are"
            return [f"- no single sessions: weights, and sums over all sessions ({sums}); {scope}."]
        lines = []
        if shared:
            lines.append(
                f"- only runs of events that at least {shared['threshold']} people share: what follows stores only "
                "those; their times are those of single people."
            )
        if len(self.reservoir):
            sessions = plural(len(self.reservoir), "past session")
            content = f"the latest {LATEST} events of each: ids and times, no names"
            lines.append(f"- {sessions} ({content}) in `baselines.safetensors`, replayed by updates.")
        lines.append(
            "- the latest sessions of each item, as sets of ids, for VS-kNN, and a 64-bit fingerprint of each session, "
            "to detect test sessions that are in the training data, in `baselines.safetensors`."
        )
        if self.model_name in BEST:
            is_blend = self.model_name == "blend"
            cascades = "such sessions" if is_blend else "past cascades in full (ids and times, no names)"
            lines.append(f"- {cascades} in `baselines.safetensors`: the model looks them up.")
        lines.append(f"- sums over all sessions: {sums}.")
        if self.model_name != "vsknn":
            lines.append("- `ensue fit --set replay=0` stores only weights and sums.")
        return lines

    def _shown(self) -> dict[str, object]:
        """Return the number of past sessions in the reservoir."""
        return {"remembered": len(self.reservoir)}

    def _own_files(self) -> Contents:
        """Return the files of the item index and of the item table, where there are any."""
        # Written as tensors, because faiss trusts the bytes of its own format.
        index = {} if self.index is None else {item_index.FILE: TensorFile(self.index.arrays())}
        return {**index, **(self.known_items.contents() if self.known_items is not None else {})}
