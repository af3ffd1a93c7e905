"""How a predictor is trained: a held-out part, early stopping, the choice of a model, and everything once more."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.optim import Adam

from ensue import metrics
from ensue.data.histories import Histories
from ensue.data.splits import hold_out
from ensue.tasks.next.baselines.length_delay import LengthDelayModel
from ensue.tasks.next.check import require_targets
from ensue.tasks.next.dataset import Windows, distinct, history_hashes, repeats
from ensue.tasks.next.infer import ranks
from ensue.tasks.next.metadata import Metadata
from ensue.tasks.next.model import Finishes, Model
from ensue.tasks.next.save import fingerprint
from ensue.tasks.next.state import NextState
from ensue.tasks.state import module_of
from ensue.training.distributed import mean_over_ranks, rank_and_size
from ensue.training.loop import mean_loss, train
from ensue.training.optimizer import make_optimizer
from ensue.training.report import Report
from ensue.vocabulary import FIRST, Vocabulary

DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, so that histories can be put in order of their start."""

EVALUATION_SAMPLE = 30_000
"""Events at most of the held-out histories that a check ranks: a ranking of all costs as much as learning them."""


def fit(
    state: NextState, data: Histories, valid: Histories | None, checkpoint: Path | None, resume: bool
) -> Iterator[Report]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.fit`."""
    require_targets(data, "training data")
    if state.schedule is None:
        learn_values(state, data)
        count_baselines(state, data)
        state.model = state.counting[state.model_name]
        return
    part, held_out, rule = data, valid, None
    if held_out is None:
        part, held_out, rule = hold_out(data, by_time=data.timed and float(data.times.min()) > DATED)
    learn_values(state, part)
    names = _candidates(state)
    trained: dict[str, _Trained] = {}
    for name in names:
        state.select_model(name)
        stage, place = (f"fit {name}", _sibling(checkpoint, name)) if len(names) > 1 else ("fit", checkpoint)
        yield from train_once(state, part, held_out, stage, place, resume)
        trained[name] = _Trained(state.model, state.optimizer, state.metadata.epochs, state.seconds_an_epoch)
        if len(names) > 1:
            sample = _evaluation_sample(held_out.encode(state.vocabulary, drop_unknown=True))
            trained[name] = trained[name]._replace(mrr=mean_reciprocal_rank(state, sample))
    if len(names) > 1:
        _select_best(state, trained)
    if rule is None:
        count_baselines(state, part)
        return
    validation_mrr = state.metadata.validation_mrr
    if state.schedule.refit:
        epochs = state.metadata.epochs
        learn_values(state, data)
        yield from train_once(state, data, None, "refit", _sibling(checkpoint, "refit"), resume, epochs)
    count_baselines(state, data if state.schedule.refit else part)
    state.metadata.held_out = rule
    if validation_mrr:
        state.metadata.validation_mrr = validation_mrr


def learn_values(state: NextState, data: Histories) -> None:
    """Take vocabulary, metadata and how often each value occurs from the training data."""
    state.vocabulary = Vocabulary(distinct(data))
    data = data.encode(state.vocabulary, drop_unknown=True)
    if state.keeps_histories:
        state.training_hashes = history_hashes(data)
    state.metadata = metadata = Metadata()
    metadata.sequences, metadata.events, metadata.values = len(data), len(data.ids), len(state.vocabulary) - FIRST
    metadata.repeats, metadata.timed = repeats(data), data.timed
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
    """Those that can win: the cascade blend is for cascades, timed and without repeats; elsewhere it is not tried."""
    cascades = state.metadata.timed and not state.metadata.repeats
    names = [name for name in state.candidates if name != "cascade-blend" or cascades]
    return names or list(state.candidates)


class _Trained(NamedTuple):
    """A candidate."""

    model: Model | None
    optimizer: Adam | None
    epochs: int
    seconds_an_epoch: float | None
    mrr: float = 0.0


def _select_best(state: NextState, trained: Mapping[str, _Trained]) -> None:
    """Go on with the candidate that ranks the held-out part best."""
    best = max(trained, key=lambda name: trained[name].mrr)
    state.select_model(best)
    state.model, state.optimizer, state.metadata.epochs, state.seconds_an_epoch, _ = trained[best]
    state.metadata.validation_mrr = {name: round(one.mrr, 4) for name, one in trained.items()}


def train_once(
    state: NextState,
    data: Histories,
    valid: Histories | None,
    stage: str,
    checkpoint: Path | None,
    resume: bool,
    epochs: int | None = None,
) -> Generator[Report, None, None]:
    """Train the predictor's model from its beginning; it ends with its best weights, or after so many ``epochs``."""
    assert state.schedule is not None
    schedule = state.schedule if epochs is None else replace(state.schedule, epochs=epochs)
    torch.manual_seed(state.seed)
    earlier = state.model
    state.model = network = state.new_network()
    module = module_of(network)
    state.count_negatives()
    state.optimizer = make_optimizer(module, schedule)
    parts = [part.encode(state.vocabulary, drop_unknown=True) for part in (data, valid) if part is not None]
    for part, where in zip(parts, ("training data", "validation data"), strict=False):
        require_targets(part, where)
    sample = _evaluation_sample(parts[-1])
    trained = yield from train(
        module,
        Windows(parts[0], network.reach),
        (lambda: _monitored(state, sample)) if valid is not None else None,
        schedule,
        optimizer=state.optimizer,
        seed=state.seed,
        stage=stage,
        checkpoint=checkpoint,
        resume=resume,
        fingerprint=fingerprint(state, parts),
        hardly=_minimum_useful(state, sample) if valid is not None and schedule.watch == "mrr" else None,
    )
    if isinstance(network, Finishes) and state.keeps_histories:
        network.finish(parts[0], parts[1] if valid is not None else None, earlier)
    state.metadata.epochs = trained.best_epoch
    state.seconds_an_epoch = trained.seconds_an_epoch


def _evaluation_sample(valid: Histories) -> Histories:
    """Histories drawn at random, the same ones every time, of about ``EVALUATION_SAMPLE`` events, in their order."""
    if len(valid.ids) <= EVALUATION_SAMPLE:
        return valid
    drawn = np.random.default_rng(0).permutation(len(valid))
    enough = int(np.searchsorted(np.cumsum(valid.lengths[drawn]), EVALUATION_SAMPLE)) + 1
    return valid.select(np.sort(drawn[:enough]))


def mean_reciprocal_rank(state: NextState, valid: Histories, counting: str | None = None) -> float:
    """Micro MRR as in protocol ``full``, over targets that the predictor knows; of a counting row if named.

    Each rank of a group scores its share of the histories.
    """
    rank, world = rank_and_size()
    part = valid.select(np.arange(rank, len(valid), world)) if world > 1 else valid
    found, *_ = ranks(state, part, hide=not state.metadata.repeats, counting=counting)
    return mean_over_ranks(metrics.reciprocal_rank(found))


def _monitored(state: NextState, valid: Histories) -> float:
    """The figure that early stopping looks at."""
    assert state.schedule is not None
    if state.schedule.watch == "loss":
        return mean_loss(module_of(state.network), Windows(valid, state.network.reach))
    return mean_reciprocal_rank(state, valid)


def _minimum_useful(state: NextState, valid: Histories) -> float:
    """An MRR half as good again as popularity's, or less where that is good already: more than chance, hardly more."""
    popular = mean_reciprocal_rank(state, valid, "popularity")
    return popular * (1 + (1 - popular) / 2)


def _sibling(checkpoint: Path | None, name: str) -> Path | None:
    return checkpoint.with_name(f"{checkpoint.name}-{name}") if checkpoint else None
