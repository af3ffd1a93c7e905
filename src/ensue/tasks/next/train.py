"""Training of a predictor: a held-out part, early stopping, model selection, and a final refit."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import asdict, replace
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.optim import Adam

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.data.splits import append_histories, dated, hold_out
from ensue.errors import DataError, SettingError
from ensue.learning.life import train_network
from ensue.lines import quoted
from ensue.metrics import Floats
from ensue.tasks.held_examples import keep, of_history
from ensue.tasks.next import sizing
from ensue.tasks.next.baselines.length_delay import LengthDelayModel
from ensue.tasks.next.dataset import Windows, distinct, history_hashes
from ensue.tasks.next.feature_fit import fit_features
from ensue.tasks.next.grow import add_items
from ensue.tasks.next.item_features import FeatureEncoder, KnownItems
from ensue.tasks.next.metadata import Metadata
from ensue.tasks.next.model import CountsToo, Finishes, Model
from ensue.tasks.next.nearest import index_items, is_indexed
from ensue.tasks.next.ranking import target_ranks
from ensue.tasks.next.state import NextState
from ensue.tasks.next.training_data import (
    IDLE,
    default_exclusion,
    left_out,
    repeat_shares,
    require_targets,
    shared_part,
)
from ensue.tasks.state import module_of
from ensue.training.checkpoint import Checkpoint
from ensue.training.distributed import mean_over_ranks, rank_and_size, share
from ensue.training.loop import Trained, mean_loss
from ensue.training.report import Report
from ensue.vocabulary import FIRST, Vocabulary

EVALUATION_SAMPLE = 30_000
"""Events at most of the held-out histories that a check ranks: a ranking of all costs as much as learning them."""
CHECKED_SCORES, LEAST_CHECKED = 3 * 10**9, 1_000
"""Scores that a check of whole catalogues makes at most, so above 100,000 values it ranks fewer events; but never fewer
than these. Where an index gives candidates, all events are ranked among those, and these many exactly as well."""

CASCADES = "cascade-blend"
IMPROVING = "best epoch was the last one; consider more epochs (--set epochs=N)"
"""Note on a training that ended while its metric still improved."""


def fit(state: NextState, data: Histories, valid: Histories | None, checkpoint: Checkpoint) -> Iterator[Report]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.fit`."""
    require_targets(data, "training data")
    state.known_items = _known_items(state, data)
    learned = shared_part(data, state.shared.min_users, "training data")
    valid = None if valid is None else shared_part(valid, state.shared.min_users, "validation data")
    yield from _fit(state, learned, valid, checkpoint)
    if state.shared.min_users > 1:
        state.metadata.min_users = asdict(left_out(data, learned, state.shared.min_users))


def _fit(state: NextState, data: Histories, valid: Histories | None, checkpoint: Checkpoint) -> Iterator[Report]:
    if data.ids.min() == data.ids.max():
        raise DataError("training data: every event has the same item, so there is nothing to rank")
    state.index = None
    if state.schedule is None:
        learn_values(state, data)
        count_baselines(state, data)
        state.model = state.counting[state.model_name]
        return
    split = _split(data, valid, refit=state.schedule.refit)
    learn_values(state, split.learned)
    names, floors = _candidates(state), dict[str, Floats]()
    trained: dict[str, _Candidate] = {}
    if len(state.candidates) > 1:
        sample = _evaluation_sample(split.held_out.encode(state.vocabulary, drop_unknown=True), len(state.vocabulary))
        count_baselines(state, split.learned)
        floors = {name: _gains(state, sample, name) for name in state.counting}
    for name in names:
        state.select_model(name)
        stage, place = (f"fit {name}", checkpoint.sibling(f"-{name}")) if len(names) > 1 else ("fit", checkpoint)
        yield from train_once(state, split.learned, split.held_out, stage, place)
        trained[name] = _Candidate(state.model, state.optimizer, copy(state.metadata), state.seconds_an_epoch)
        if floors:
            trained[name] = trained[name]._replace(gains=_gains(state, sample))
            if name == CASCADES and _is_ahead(trained[name].gains, floors, sample):
                break
    if floors:
        _select_best(state, trained, floors, sample)
    chosen, whole = state.metadata, split.learned if split.whole is None else split.whole
    if state.schedule is None or split.whole is not None:
        learn_values(state, whole)
    if state.schedule is not None and split.whole is not None:
        yield from train_once(state, whole, None, "refit", checkpoint.sibling("-refit"), like=chosen)
    count_baselines(state, whole)
    if state.schedule is None:
        state.model = state.counting.get(state.model_name)  # of several ranks the first one alone has it
    if split.rule:
        state.metadata.held_out = split.rule
    for name in ("validation_mrr", "ended", "chosen"):
        if value := getattr(chosen, name):
            setattr(state.metadata, name, value)
    if state.keeps_histories:
        held = split.held_out
        if state.shared.min_users > 1:  # that many people had these events, but one of them at these times
            held = replace(held, times=held.times[:0])
        keep(state, len(held), lambda at: of_history(held.record(at)), learned=split.whole is not None)
    if state.known_items is not None and rank_and_size()[0] == 0:
        state.metadata.item_columns = dict(state.known_items.items.kinds)
        if state.schedule is not None:
            fit_features(state, state.known_items, whole)
        add_items(state, state.known_items)
    if rank_and_size()[0] == 0:
        index_items(state)


def _known_items(state: NextState, data: Histories) -> KnownItems | None:
    """Return the item table of the data, whose tokens are those of items that its histories hold.

    Raises:
        SettingError: no network is trained, which is what features are for.
        DataError: the table knows no item of the data.
    """
    items = data.items
    if items is None:
        return None
    if all(schedule is None for _, schedule in state.candidates.values()):
        raise SettingError(f"items: {state.model_name} counts ids and uses no features; leave the item table out")
    trained = {data.vocabulary.values[id - FIRST] for id in np.unique(data.ids).tolist() if id >= FIRST}
    known = items.ids.is_in(list(trained))
    if not known.any():
        raise DataError(
            f"items: none of the {len(items):,} items is in the training data; the table has "
            f"{quoted(items.ids[0])}, the data {quoted(min(trained))}"
        )
    return KnownItems(items, FeatureEncoder.fit(items.filter(known)), {})


class _Split(NamedTuple):
    """Training and held-out parts."""

    learned: Histories
    held_out: Histories
    """Held-out histories for early stopping, ensembles and model selection."""
    whole: Histories | None
    """Histories of the final refit; ``None`` for no refit."""
    rule: str
    """How the data was split, as the card states it."""


def _split(data: Histories, valid: Histories | None, *, refit: bool) -> _Split:
    """The last tenth is held out where nothing is given; in the end all is learned that is in order of time.

    What was given as validation data is later than the training data where both have a clock and none of it began
    before the last of that did; where they have none, files stand for the order in which they were given.
    """
    if valid is None:
        by_time = dated(data)
        part, held_out, rule = hold_out(data, by_time=by_time)
        if by_time and len(held_out.ids) > EVALUATION_SAMPLE:
            # A predictor is asked for what comes next: what ranks news best within hours does not a day later.
            begun = held_out.times[held_out.offsets[:-1].clip(max=len(held_out.ids) - 1)]
            held_out = _of_about(held_out, np.argsort(begun, kind="stable"), EVALUATION_SAMPLE)
            rule += f", of which the first {len(held_out)} are scored"
        return _Split(part, held_out, data if refit else None, rule)
    if not refit:
        return _Split(data, valid, None, "")
    require_targets(valid, "validation data")
    given = f"{len(valid)} given"
    if data.timed != valid.timed or (dated(data) and dated(valid) and _starts(valid).min() < _starts(data).max()):
        return _Split(data, valid, None, f"{given}, not used for the final training: not later than the training data")
    order = "later" if dated(data) else "in order of the files"
    whole = append_histories(data, valid)
    return _Split(data, valid, whole, f"{given}, {order}, used for the final training unless --no-refit")


def _starts(data: Histories) -> Floats:
    """Return the start of each history that is not empty."""
    return data.times[data.offsets[:-1][data.lengths > 0]]


def learn_values(state: NextState, data: Histories) -> None:
    """Take vocabulary, metadata and how often each value occurs from the training data."""
    state.vocabulary = Vocabulary(distinct(data))
    sizing.choose_losses(state)
    data = data.encode(state.vocabulary, drop_unknown=True)
    if state.keeps_histories:
        state.training_hashes = history_hashes(data)
    repeat_share, immediate_repeat_share = repeat_shares(data)
    state.metadata = Metadata(
        sequences=len(data),
        events=len(data.ids),
        values=len(state.vocabulary) - FIRST,
        timed=data.timed,
        repeat_share=repeat_share,
        immediate_repeat_share=immediate_repeat_share,
        repeats=repeat_share > 0,
        exclusion=default_exclusion(repeat_share, immediate_repeat_share),
    )
    _count(state, "popularity", data)
    state.length_delay = LengthDelayModel()
    state.length_delay.count(data)
    state.reservoir = state.new_reservoir()
    state.reservoir.add(data)


def count_baselines(state: NextState, data: Histories) -> None:
    """Count what stands beside the model in a table of figures, once a fit; of several ranks the first one alone."""
    if rank_and_size()[0] == 0:
        data = data.encode(state.vocabulary, drop_unknown=True)
        for name in state.baselines:
            _count(state, name, data)


def _count(state: NextState, name: str, data: Histories) -> None:
    state.counting[name] = state.new_baseline(name)
    state.counting[name].count(data)


def _candidates(state: NextState) -> list[str]:
    """Return the models to select from; the cascade blend, first, only for timed cascades without repeats."""
    cascades = state.metadata.timed and not state.metadata.repeats
    names = [name for name in state.candidates if name != CASCADES or cascades]
    return sorted(names or state.candidates, key=lambda name: name != CASCADES)


class _Candidate(NamedTuple):
    """A candidate."""

    model: Model | None
    optimizer: Adam | None
    metadata: Metadata
    seconds_an_epoch: float | None
    gains: Floats = np.empty(0)


def _gains(state: NextState, sample: Histories, counting: str | None = None) -> Floats:
    """(targets,) reciprocal ranks in order of the targets, by a counting row if named; only the first rank has them."""
    if rank_and_size()[0]:
        return np.empty(0)
    rank, _, place = target_ranks(state, sample, exclusion=state.metadata.ruled_out, counting=counting)
    return metrics.reciprocal_rank(rank[np.argsort(place)])


def _is_ahead(gains: Floats, floors: Mapping[str, Floats], sample: Histories) -> bool:
    """Return whether a network leads the best counting row by one standard error; the cascade blend then stays alone.

    It holds what the blend does: past sequences alike, what followed at once, a network.
    """
    if rank_and_size()[0]:
        return share(False)
    apart = gains - max(floors.values(), key=np.mean)
    return share(bool(apart.any()) and _leads(apart, sample))


def _select_best(
    state: NextState, trained: Mapping[str, _Candidate], floors: Mapping[str, Floats], sample: Histories
) -> None:
    """Go on with the network that ranks the held-out part best, or with a counting row that leads it.

    A lead is at least one standard error, over whole histories: a rule of model selection, not a test of significance.
    A blend holds such rows in itself; where few targets cannot tell them apart, what weighs all that is known is the
    better guess. So the cascade blend too has to lead the other: it leans on days and users that are at hand now and
    may be gone later.
    """
    gains = {name: one.gains for name, one in trained.items()} | dict(floors)
    found = share({name: float(own.mean()) if len(own) else 0.0 for name, own in gains.items()})
    best = max(trained, key=lambda name: (name != CASCADES, found[name]))
    if best != CASCADES and CASCADES in trained:
        ahead = share(rank_and_size()[0] == 0 and _leads(gains[CASCADES] - gains[best], sample))
        best = CASCADES if ahead else best
    floor = max((name for name in found if name not in trained), key=lambda name: found[name])
    sure = share(rank_and_size()[0] == 0 and _leads(gains[floor] - gains[best], sample))
    state.select_model(best)
    state.model, state.optimizer, state.metadata, state.seconds_an_epoch, _ = trained[best]
    state.metadata.validation_mrr = {name: round(own, 4) for name, own in found.items()}
    if sure:
        state.select_baseline(floor)
        state.metadata.chosen = f"{floor}, a baseline: no trained model ranked the held-out data better"


def _leads(apart: Floats, sample: Histories) -> bool:
    """Return whether the mean of (targets,) differences is at least one standard error; no difference at all is."""
    sums = np.bincount(sample.sequence_index()[_later(sample)], apart - apart.mean(), len(sample))
    return bool(apart.mean() >= np.sqrt((sums**2).sum()) / len(apart))


def _later(data: Histories) -> Index:
    """(targets,) the places of all events but the first of each history."""
    return np.flatnonzero(np.diff(data.sequence_index(), prepend=-1) == 0)


def train_once(
    state: NextState,
    data: Histories,
    valid: Histories | None,
    stage: str,
    checkpoint: Checkpoint,
    like: Metadata | None = None,
) -> Generator[Report, None, None]:
    """Train the predictor's model from its beginning; it ends with its best weights, or trained like another."""
    assert state.schedule is not None
    for line in sizing.lines(state):
        yield Report(stage, 0, state.schedule.epochs, 0, 0, 0.0, 0.0, note=line)
    torch.manual_seed(state.seed)
    earlier = state.model
    state.model = network = state.new_network()
    state.count_negatives()
    state.optimizer = state.new_optimizer()
    parts = [part.encode(state.vocabulary, drop_unknown=True) for part in (data, valid) if part is not None]
    for part, where in zip(parts, ("training data", "validation data"), strict=False):
        require_targets(part, where)
    windows, exact = Windows(parts[0], network.reach), _evaluation_sample(parts[-1], len(state.vocabulary))
    sample = _evaluation_sample(parts[-1]) if is_indexed(state) else exact
    schedule = state.schedule.fitted(len(windows), windows.targets)
    if like is not None and like.training is not None:
        schedule = replace(state.schedule.sized(like.training["batch_size"]), epochs=like.epochs)
    arrays: list[npt.NDArray[np.generic]] = [
        column for part in parts for column in (part.ids, part.offsets, part.times)
    ]
    run = train_network(
        state,
        windows,
        (lambda: _monitored(state, sample)) if valid is not None else None,
        schedule,
        arrays=arrays,
        checkpoint=checkpoint,
        stage=stage,
        min_useful_metric=_minimum_useful(state, exact) if valid is not None and schedule.monitor == "mrr" else None,
    )
    short = schedule.epochs > state.schedule.epochs  # not even the smallest batch makes enough steps of an epoch
    tried = valid is not None and short and state.keeps_histories and isinstance(network, CountsToo)
    trained = yield from _unless_idle(network, run, parts, schedule.min_steps) if tried else run
    if isinstance(network, Finishes) and state.keeps_histories:
        network.finish(parts[0], parts[1] if valid is not None else None, earlier)
        state.metadata.members = network.members
    warm_up = schedule.rising(schedule.epochs * -(-len(windows) // schedule.batch_size))
    state.metadata.epochs = trained.best_epoch
    state.metadata.training = {
        "batch_size": schedule.batch_size,
        "epochs": schedule.epochs,
        "steps": trained.steps,
        "warm_up": warm_up,
    }
    if trained.improving:
        state.metadata.ended = IMPROVING
    if isinstance(network, CountsToo) and network.idle:
        state.metadata.ended, state.metadata.epochs = IDLE, 1
    state.seconds_an_epoch = trained.seconds_an_epoch


def _unless_idle(
    network: Model, run: Generator[Report, None, Trained], parts: Sequence[Histories], steps: int
) -> Generator[Report, None, Trained]:
    """A training that ends after so many steps where the network then adds nothing to what a copy of it counts."""
    tried = False
    while True:
        try:
            report = next(run)
        except StopIteration as end:
            return cast(Trained, end.value)
        yield report
        taken = (report.epoch - 1) * report.steps + report.step
        if not tried and report.valid is not None and taken >= steps:
            tried, trial = True, deepcopy(network)
            assert isinstance(trial, CountsToo)
            trial.finish(parts[0], parts[1], None)
            if share(trial.idle):
                run.close()
                return Trained(report.epoch, report.seconds / report.epoch, False, taken)


def _evaluation_sample(valid: Histories, num_ids: int = 1, events: int | None = None) -> Histories:
    """Histories drawn at random, the same ones every time, of about as many events as a check ranks, in their order.

    Args:
        valid: what was held out.
        num_ids: scores that each event takes.
        events: at most; ``EVALUATION_SAMPLE`` unless given.
    """
    events = min(events or EVALUATION_SAMPLE, max(LEAST_CHECKED, CHECKED_SCORES // num_ids))
    if len(valid.ids) <= events:
        return valid
    return _of_about(valid, np.random.default_rng(0).permutation(len(valid)), events)


def _of_about(data: Histories, order: Index, events: int) -> Histories:
    """Return as many leading histories of an order as contain a number of events, in their original order."""
    enough = int(np.searchsorted(np.cumsum(data.lengths[order]), events)) + 1
    return data.select(np.sort(order[:enough]))


def mean_reciprocal_rank(state: NextState, valid: Histories, counting: str | None = None) -> float:
    """Micro MRR as in protocol ``full``, over targets that the predictor knows; of a counting row if named.

    Each rank of a group scores its share of the histories. Where an index gives candidates all are ranked among those,
    and by how much that is off is measured on about ``LEAST_CHECKED`` events, which are ranked exactly too.
    """
    if counting is None:
        index_items(state, together=True)
    rank, world = rank_and_size()

    def mean(part: Histories, *, approximate: bool) -> float:
        own = part.select(np.arange(rank, len(part), world)) if world > 1 else part
        exclusion = state.metadata.ruled_out
        found, *_ = target_ranks(state, own, exclusion=exclusion, counting=counting, approximate=approximate)
        return mean_over_ranks(metrics.reciprocal_rank(found))

    if counting is not None or state.index is None:
        return mean(valid, approximate=False)
    some = _evaluation_sample(valid, events=LEAST_CHECKED)
    return mean(valid, approximate=True) + mean(some, approximate=False) - mean(some, approximate=True)


def _monitored(state: NextState, valid: Histories) -> float:
    """The figure that early stopping looks at."""
    assert state.schedule is not None
    if state.schedule.monitor == "loss":
        return mean_loss(module_of(state.network), Windows(valid, state.network.reach))
    return mean_reciprocal_rank(state, valid)


def _minimum_useful(state: NextState, valid: Histories) -> float:
    """An MRR half as good again as popularity's, or less where that is good already: more than chance, hardly more."""
    popular = mean_reciprocal_rank(state, valid, "popularity")
    return popular * (1 + (1 - popular) / 2)
