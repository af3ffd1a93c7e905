"""Training of a predictor: a held-out part, early stopping, model selection, and a final refit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ensue import metrics
from ensue.data.histories import Histories, Index, append_histories, dated, hold_out, is_later
from ensue.errors import DataError, SettingError
from ensue.lazy import WITHOUT_TORCH, has_torch, lazy, torch
from ensue.learning.life import USED, Example, Split, of_history, train_network
from ensue.learning.state import module_of
from ensue.lines import quoted
from ensue.metrics import Floats
from ensue.records import History
from ensue.tasks.next import sizing
from ensue.tasks.next.baselines.length_delay import LengthDelayModel
from ensue.tasks.next.dataset import Windows, distinct, history_hashes
from ensue.tasks.next.item_features import FeatureEncoder, KnownItems
from ensue.tasks.next.model import CountsToo, Finishes, NextModel
from ensue.tasks.next.ranking import target_ranks
from ensue.tasks.next.state import NextMetadata, NextState
from ensue.tasks.next.training_data import default_exclusion, left_out, repeat_shares, require_targets, shared_part
from ensue.tasks.next.update import add_items, add_values, require_weighing
from ensue.training.checkpoint import Checkpoint
from ensue.training.distributed import mean_over_ranks, rank_and_size, share
from ensue.training.report import LEFT_OUT, Report, Reports, Trained
from ensue.vocabulary import FIRST, Vocabulary

if TYPE_CHECKING:
    from torch.optim import Adam

    from ensue.nn import item_head
    from ensue.tasks.next import feature_fit, nearest
    from ensue.training import loop
else:
    item_head = lazy("ensue.nn.item_head")
    feature_fit = lazy("ensue.tasks.next.feature_fit")
    nearest = lazy("ensue.tasks.next.nearest")
    loop = lazy("ensue.training.loop")

EVALUATION_SAMPLE = 30_000
"""Events at most of the held-out histories that a check ranks: a ranking of all costs as much as learning them."""
CHECKED_SCORES = 3 * 10**9
LEAST_CHECKED = 1_000
"""Maximum number of scores of a check (above 100,000 items it ranks fewer events), and minimum number of events."""

MIN_NEGATIVES = 512
NEGATIVES_PER_TARGET = 8
"""Negatives of a training batch at least, and for each of its targets, where the settings draw more."""
CONTINUED_EPOCHS = 1
CONTINUED_RATE = 0.5
"""Epochs in which the network of an ensemble continues on all data, and the factor on its learning rate."""
MAX_RESTARTED = 2_000_000
"""Steps times items up to which a refit always starts again: it takes seconds, and follows new items more closely."""
CASCADES = "cascade-blend"
IMPROVING = "best epoch was the last one; consider more epochs (--set epochs=N)"
"""Note on a training that ended while its metric still improved."""


def split(state: NextState, data: Histories, valid: Histories | None) -> Split[Histories]:
    """Hold out the last tenth of the sessions, unless validation data is given.

    In the end all sessions are trained on; given ones if they are later than the training data.
    """
    require_targets(data, "training data")
    state.known_items = _known_items(state, data)
    train = data
    min_users = state.shared.min_users
    if min_users > 1:
        train = shared_part(data, min_users, "training data")
        valid = None if valid is None else shared_part(valid, min_users, "validation data")
        state.metadata.min_users = asdict(left_out(data, train, min_users))
    if train.ids.min() == train.ids.max():
        raise DataError("training data: every event has the same item, so there is nothing to rank")
    if state.schedule is None:
        return Split(train, None)
    refit = state.schedule.refit
    if valid is None:
        # Dated sessions are split by time, as they will be in use.
        earlier, held_out, rule = hold_out(train, by_time=dated(train))
        if dated(train) and len(held_out.ids) > EVALUATION_SAMPLE:
            # A predictor is asked for what comes next: what ranks news best within hours does not a day later.
            starts = held_out.times[held_out.offsets[:-1].clip(max=len(held_out.ids) - 1)]
            held_out = _of_about(held_out, np.argsort(starts, kind="stable"), EVALUATION_SAMPLE)
            rule += f", of which the first {len(held_out)} are scored"
        return Split(earlier, held_out, train if refit else None, rule)
    if not refit:
        return Split(train, valid)
    require_targets(valid, "validation data")
    if not is_later(valid, train):
        rule = f"{len(valid)} given, not used for the final training: not later than the training data"
        return Split(train, valid, rule=rule)
    order = "later" if dated(train) else "in order of the files"
    return Split(train, valid, append_histories(train, valid), f"{len(valid)} given, {order}, {USED}")


def train(state: NextState, split: Split[Histories], checkpoint: Checkpoint) -> Reports[Split[Histories]]:
    """Train the network, or each candidate of ``best``, and select by the held-out sessions."""
    state.index = None
    learn_values(state, split.train)
    if state.schedule is None:
        return split
    assert split.valid is not None
    names = _candidates(state)
    baseline_gains: dict[str, Floats] = {}
    trained: dict[str, _Candidate] = {}
    if len(state.candidates) > 1:
        # All candidates and baselines rank the same sample, so that differences can be tested.
        sample = _evaluation_sample(split.valid.encode(state.vocabulary, drop_unknown=True), len(state.vocabulary))
        count_baselines(state, split.train)
        baseline_gains = {name: _gains(state, sample, name) for name in state.counting}
    if not has_torch():
        names = []
        yield Report("fit", 0, 0, 0, 0, 0.0, 0.0, note=f"warning: {WITHOUT_TORCH}")
    for name in names:
        state.select_model(name)
        stage, file = (f"fit {name}", checkpoint.sibling(f"-{name}")) if len(names) > 1 else ("fit", checkpoint)
        yield from train_once(state, split.train, split.valid, stage, file)
        trained[name] = _Candidate(state.model, state.optimizer, copy(state.metadata), state.seconds_an_epoch)
        if baseline_gains:
            trained[name] = trained[name]._replace(gains=_gains(state, sample))
            if name == CASCADES and _is_ahead(trained[name].gains, baseline_gains, sample):
                break
    if baseline_gains:
        _select_best(state, trained, baseline_gains, sample)
    if state.schedule is None and split.full is None:
        yield from refit(state, split.train, checkpoint)
    return split


def refit(state: NextState, full: Histories, checkpoint: Checkpoint) -> Iterator[Report]:
    """Train the selected model on all sessions, from its beginning for its best epochs unless it :func:`_continues`."""
    selected = state.metadata
    if continues := _continues(state):
        add_values(state, distinct(full))
    learn_values(state, full, continues=continues)
    if state.schedule is not None:
        file = checkpoint.sibling("-refit")
        yield from train_once(state, full, None, "refit", file, like=selected, continues=continues)
    for name in ("validation_mrr", "ended", "chosen"):
        if value := getattr(selected, name):
            setattr(state.metadata, name, value)


def finish(state: NextState, split: Split[Histories]) -> None:
    """Count the baselines, fit the item features, and add the items that are in the item table alone."""
    data = split.train if split.full is None else split.full
    count_baselines(state, data)
    if state.schedule is None:
        state.model = state.counting.get(state.model_name)  # of several ranks, the first one alone has it
    if state.known_items is not None and rank_and_size()[0] == 0:
        state.metadata.item_columns = dict(state.known_items.items.kinds)
        if state.schedule is not None:
            feature_fit.fit_features(state, state.known_items, data)
        add_items(state, state.known_items)
    if state.schedule is not None and rank_and_size()[0] == 0:
        nearest.index_items(state)


def example(state: NextState, valid: Histories, index: int) -> Example | None:
    """Return a held-out session for the page; if its events had to be shared by some users, without its times."""
    if not state.keeps_histories:
        return None
    session = valid.record(index)
    return of_history(session if state.shared.min_users == 1 else History(session.values))


def _known_items(state: NextState, data: Histories) -> KnownItems | None:
    """Return the item table of the data, whose tokens are those of items that its histories hold.

    Baselines keep the table for rules on its columns.

    Raises:
        SettingError: word vectors without a table.
        DataError: the table knows no item of the data.
    """
    items = data.items
    vectors = state.shared.vectors
    encoder = state.shared.encoder
    if items is None:
        if vectors or encoder:
            raise SettingError("vectors and encoder encode the texts of an item table; give items too, or remove them")
        return None
    trained = {data.vocabulary.values[id - FIRST] for id in np.unique(data.ids).tolist() if id >= FIRST}
    is_trained = items.ids.is_in(list(trained))
    if not is_trained.any():
        raise DataError(
            f"items: none of the {len(items):,} items is in the training data; the table has "
            f"{quoted(items.ids[0])}, the data {quoted(min(trained))}"
        )
    return KnownItems(items, FeatureEncoder.fit(items, is_trained, vectors, encoder), {})


def _continues(state: NextState) -> bool:
    """Return whether the network of ``blend`` keeps its weights in a refit.

    It does on short logs, where it has a small part in the sum, unless training again takes seconds; on 5,600 sessions
    of Diginetica both ways have the same metrics.
    """
    training = state.metadata.training
    schedule = state.schedule
    if not isinstance(state.model, CountsToo) or training is None or schedule is None:
        return False
    is_short = training["batch_size"] < schedule.batch_size
    cost = training["steps"] * len(state.vocabulary)
    return state.model.idle or (is_short and cost > MAX_RESTARTED)


def learn_values(state: NextState, data: Histories, *, continues: bool = False) -> None:
    """Take metadata and counts from the training data, and the vocabulary unless a trained network continues."""
    if not continues:
        state.vocabulary = Vocabulary(distinct(data))
        sizing.choose_losses(state)
    data = data.encode(state.vocabulary, drop_unknown=True)
    if state.keeps_histories:
        state.training_hashes = history_hashes(data)
    repeat_share, immediate_repeat_share = repeat_shares(data)
    state.metadata = NextMetadata(
        sequences=len(data),
        events=len(data.ids),
        values=len(state.vocabulary) - FIRST,
        timed=data.timed,
        repeat_share=repeat_share,
        immediate_repeat_share=immediate_repeat_share,
        repeats=repeat_share > 0,
        exclusion=default_exclusion(repeat_share, immediate_repeat_share),
        min_users=state.metadata.min_users,
    )
    _count(state, "popularity", data)
    state.length_delay = LengthDelayModel()
    state.length_delay.count(data)
    state.reservoir = state.new_reservoir()
    state.reservoir.add(data)


def count_baselines(state: NextState, data: Histories) -> None:
    """Count the baselines that are reported next to the model; of several processes only the first one counts."""
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

    model: NextModel | None
    optimizer: Adam | None
    metadata: NextMetadata
    seconds_an_epoch: float | None
    gains: Floats = np.empty(0)


def _gains(state: NextState, sample: Histories, counting: str | None = None) -> Floats:
    """Return reciprocal ranks, (targets,), by a baseline if one is named; empty on all processes but the first."""
    if rank_and_size()[0]:
        return np.empty(0)
    rank, _, events = target_ranks(state, sample, exclusion=state.metadata.ruled_out, counting=counting)
    # Ranks arrive in the order of scoring; sorting by event pairs those of different models.
    return metrics.reciprocal_rank(rank[np.argsort(events)])


def _is_ahead(gains: Floats, baseline_gains: Mapping[str, Floats], sample: Histories) -> bool:
    """Return whether a network leads the best baseline by one standard error; ``best`` then trains no second network.

    The cascade blend has all that the other blend has: similar past cascades, transitions, a network.
    """
    if rank_and_size()[0]:
        return share(False)
    differences = gains - max(baseline_gains.values(), key=np.mean)
    return share(bool(differences.any()) and _leads(differences, sample))


def _select_best(
    state: NextState, trained: Mapping[str, _Candidate], baseline_gains: Mapping[str, Floats], sample: Histories
) -> None:
    """Select the network that ranks the held-out sessions best, or a baseline that leads it.

    A lead is at least one standard error, over whole sessions: a rule of model selection, not a test of significance.
    A blend includes the baselines; where few targets cannot tell them apart, weighing all of them is the better guess.
    So the cascade blend too has to lead the other: it uses days and users that may be gone later.
    """
    gains = {name: candidate.gains for name, candidate in trained.items()} | dict(baseline_gains)
    mrr = share({name: float(values.mean()) if len(values) else 0.0 for name, values in gains.items()})
    baseline = max((name for name in mrr if name not in trained), key=lambda name: mrr[name])
    validation_mrr = {name: round(value, 4) for name, value in mrr.items()}
    if not trained:
        state.select_baseline(baseline)
        state.metadata.validation_mrr = validation_mrr
        state.metadata.chosen = f"{baseline}, the best baseline: no network was trained without PyTorch"
        return
    # Networks other than the cascade blend come first; it has to lead the best of them.
    best = max(trained, key=lambda name: (name != CASCADES, mrr[name]))
    if best != CASCADES and CASCADES in trained:
        cascades_lead = share(rank_and_size()[0] == 0 and _leads(gains[CASCADES] - gains[best], sample))
        best = CASCADES if cascades_lead else best
    baseline_leads = share(rank_and_size()[0] == 0 and _leads(gains[baseline] - gains[best], sample))
    state.select_model(best)
    state.model, state.optimizer, state.metadata, state.seconds_an_epoch, _ = trained[best]
    state.metadata.validation_mrr = validation_mrr
    if baseline_leads:
        state.select_baseline(baseline)
        state.metadata.chosen = f"{baseline}, a baseline: no trained model ranked the held-out data better"


def _leads(differences: Floats, sample: Histories) -> bool:
    """Return whether the mean of (targets,) differences is at least one standard error; it is if all are 0."""
    is_target = np.diff(sample.sequence_index(), prepend=-1) == 0  # every event but the first of a session
    # Clustered standard error: deviations are summed within sessions, because targets of a session depend on each
    # other.
    sums = np.bincount(sample.sequence_index()[is_target], differences - differences.mean(), len(sample))
    return bool(differences.mean() >= np.sqrt((sums**2).sum()) / len(differences))


def train_once(
    state: NextState,
    data: Histories,
    valid: Histories | None,
    stage: str,
    checkpoint: Checkpoint,
    like: NextMetadata | None = None,
    continues: bool = False,
) -> Reports[None]:
    """Train the model of a state from its beginning to its best weights, or, in a refit, ``like`` its first training.

    Where a refit ``continues``, the network keeps its weights; one that is left out of the sum is not trained.
    """
    assert state.schedule is not None
    earlier = state.model
    if not continues:
        for line in sizing.lines(state):
            yield Report(stage, 0, state.schedule.epochs, 0, 0, 0.0, 0.0, note=line)
        torch.manual_seed(state.seed)
        state.model = state.new_network()
        state.optimizer = state.new_optimizer()
    network = state.network
    state.count_negatives()
    datasets = [dataset.encode(state.vocabulary, drop_unknown=True) for dataset in (data, valid) if dataset is not None]
    for dataset, name in zip(datasets, ("training data", "validation data"), strict=False):
        require_targets(dataset, name)
    windows = Windows(datasets[0], network.reach)
    require_weighing(state, windows)
    sample = _evaluation_sample(datasets[-1], len(state.vocabulary))
    schedule = state.schedule.fitted(len(windows), windows.targets)
    if like is not None and like.training is not None:
        schedule = replace(state.schedule.sized(like.training["batch_size"]), epochs=like.epochs)
    if continues:
        rate = CONTINUED_RATE * schedule.learning_rate
        schedule = replace(schedule, epochs=CONTINUED_EPOCHS, learning_rate=rate)
    # Average number of targets of a batch.
    _limit_negatives(network, schedule.batch_size * windows.targets // len(windows))
    arrays: list[npt.NDArray[np.generic]] = [
        column for dataset in datasets for column in (dataset.ids, dataset.offsets, dataset.times)
    ]
    # A checkpoint belongs to the weights and negatives that it was trained with.
    arrays += [] if windows.weights is None else [windows.weights]
    arrays += [] if datasets[0].negatives is None else [datasets[0].negatives.ids, datasets[0].negatives.offsets]
    # On a large log the network is worth its time, and to try it without costs as much as a tenth of an epoch.
    is_small = schedule.batch_size < state.schedule.batch_size
    is_behind = None
    if valid is not None and is_small and state.keeps_histories and isinstance(network, CountsToo):
        is_behind = partial(_adds_nothing, network, *datasets)
    trained = Trained(best_epoch=0, seconds_an_epoch=0.0, improving=False, steps=0)
    if not (continues and isinstance(network, CountsToo) and network.idle):
        trained = yield from train_network(
            state,
            windows,
            (lambda: _monitored(state, sample)) if valid is not None else None,
            schedule,
            arrays=arrays,
            checkpoint=checkpoint,
            stage=stage,
            min_useful_metric=_minimum_useful(state, sample)
            if valid is not None and schedule.monitor == "mrr"
            else None,
            is_behind=is_behind,
        )
    if isinstance(network, Finishes) and state.keeps_histories:
        network.finish(datasets[0], datasets[1] if valid is not None else None, earlier)
        state.metadata.members = network.members
    warm_up = schedule.rising(schedule.epochs * -(-len(windows) // schedule.batch_size))
    state.metadata.epochs = trained.best_epoch
    state.metadata.training = {
        "batch_size": schedule.batch_size,
        "epochs": schedule.epochs,
        "steps": trained.steps,
        "warm_up": warm_up,
    }
    if like is not None and like.training is not None and continues:
        state.metadata.epochs += like.epochs
        state.metadata.training = {**like.training, "steps": like.training["steps"] + trained.steps}
    if trained.improving:
        state.metadata.ended = IMPROVING
    if isinstance(network, CountsToo) and network.idle != (state.metadata.ended == LEFT_OUT):
        state.metadata.ended = LEFT_OUT if network.idle else ""
    state.seconds_an_epoch = trained.seconds_an_epoch


def _limit_negatives(network: NextModel, num_targets: int) -> None:
    """Draw fewer negatives in training where batches are small: each costs as much as a target's own scores."""
    for module in module_of(network).modules():
        if isinstance(module, item_head.ItemHead | item_head.ItemLayer) and module.negatives is not None:
            module.negatives = min(module.negatives, max(MIN_NEGATIVES, NEGATIVES_PER_TARGET * num_targets))


def _adds_nothing(network: CountsToo, train: Histories, valid: Histories) -> bool:
    """Return whether a network as it is now adds nothing to the count-based parts of its ensemble."""
    trial = deepcopy(network)
    trial.finish(train, valid, None)
    return trial.idle


def _evaluation_sample(valid: Histories, num_ids: int = 1) -> Histories:
    """Return histories drawn at random, always the same ones, with about as many events as a check ranks, in order.

    Args:
        valid: held-out data.
        num_ids: number of scores that each event takes.
    """
    events = min(EVALUATION_SAMPLE, max(LEAST_CHECKED, CHECKED_SCORES // num_ids))
    if len(valid.ids) <= events:
        return valid
    return _of_about(valid, np.random.default_rng(0).permutation(len(valid)), events)


def _of_about(data: Histories, order: Index, events: int) -> Histories:
    """Return as many leading histories of an order as contain a number of events, in their original order."""
    # The first prefix of the order that has at least this number of events.
    enough = int(np.searchsorted(np.cumsum(data.lengths[order]), events)) + 1
    return data.select(np.sort(order[:enough]))


def mean_reciprocal_rank(state: NextState, valid: Histories, counting: str | None = None) -> float:
    """Return the micro MRR as in protocol ``full``, over targets in the vocabulary.

    Each rank of a group scores its share of the histories.

    Args:
        state: of a predictor.
        valid: encoded histories.
        counting: a baseline to use instead of the model.
    """
    rank, world = rank_and_size()
    # Each process ranks every world-th history; the mean is taken over all of them.
    shard = valid.select(np.arange(rank, len(valid), world)) if world > 1 else valid
    ranks, *_ = target_ranks(state, shard, exclusion=state.metadata.ruled_out, counting=counting)
    return mean_over_ranks(metrics.reciprocal_rank(ranks))


def _monitored(state: NextState, valid: Histories) -> float:
    """Return the metric that early stopping monitors."""
    assert state.schedule is not None
    if state.schedule.monitor == "loss":
        return loop.mean_loss(module_of(state.network), Windows(valid, state.network.reach))
    return mean_reciprocal_rank(state, valid)


def _minimum_useful(state: NextState, valid: Histories) -> float:
    """Return the MRR below which a network hardly beats popularity: 1.5 times its MRR, less if that is high."""
    popular = mean_reciprocal_rank(state, valid, "popularity")
    return popular * (1 + (1 - popular) / 2)
