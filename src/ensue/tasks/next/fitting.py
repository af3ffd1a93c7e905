"""How a predictor is trained: a held-out part, early stopping, the choice between rivals, and everything once more."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ensue import metrics
from ensue.data.check import require_targets
from ensue.data.histories import Histories
from ensue.data.splits import hold_out
from ensue.schedule import Schedule
from ensue.tasks.next import MODELS, storage, updating
from ensue.tasks.next.forecast import Continuation
from ensue.tasks.next.task import Pieces, repeats
from ensue.training.distributed import here, mean_over_ranks
from ensue.training.loop import Report, mean_loss, train
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST, Vocabulary

if TYPE_CHECKING:
    from ensue.tasks.next.predictor import NextPredictor

DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, so that histories can be put in order of their start."""

WATCHED = 30_000
"""Events at most of the held-out histories that a check ranks: a ranking of all costs as much as learning them."""


def fit(
    predictor: NextPredictor, data: Histories, valid: Histories | None, checkpoint: Path | None, resume: bool
) -> Iterator[Report]:
    """See :meth:`ensue.tasks.next.predictor.NextPredictor.fit`."""
    require_targets(data, "training data")
    if predictor.schedule is None:
        learn_values(predictor, data)
        count_baselines(predictor, data)
        predictor.model = predictor.counting[predictor.model_name]
        return
    part, held, rule = data, valid, None
    if held is None:
        part, held, rule = hold_out(data, by_time=data.timed and float(data.times.min()) > DATED)
    learn_values(predictor, part)
    yield from _choose(predictor, part, held, checkpoint, resume)
    if rule is None:
        count_baselines(predictor, part)
        return
    chosen = predictor.facts.get("validation_mrr")
    if predictor.schedule.refit:
        again = replace(predictor.schedule, epochs=predictor.facts["epochs"])
        learn_values(predictor, data)
        yield from train_once(predictor, data, None, "refit", again, _beside(checkpoint, "refit"), resume)
    count_baselines(predictor, data if predictor.schedule.refit else part)
    predictor.facts |= {"held_out": rule} | ({"validation_mrr": chosen} if chosen else {})


def learn_values(predictor: NextPredictor, data: Histories) -> None:
    """Take vocabulary, facts and how often each value occurs from the training data."""
    predictor.vocabulary = Vocabulary(updating.distinct(data))
    data = data.encode(predictor.vocabulary, drop_unknown=True)
    if predictor.keeps_histories:
        predictor.train_prints = updating.prints(data)
    predictor.facts = {
        "sequences": len(data),
        "events": len(data.ids),
        "values": len(predictor.vocabulary) - FIRST,
        "repeats": repeats(data),
        "timed": data.timed,
    }
    _count(predictor, "popularity", data)
    predictor.continuation = Continuation()
    predictor.continuation.count(data)
    predictor.reservoir = predictor.new_reservoir()
    predictor.reservoir.add(data)


def count_baselines(predictor: NextPredictor, data: Histories) -> None:
    """Count what stands beside the model in a table of figures, once a fit; of several ranks the first one alone."""
    if here()[0] == 0:
        data = data.encode(predictor.vocabulary, drop_unknown=True)
        for name in predictor.baselines:
            _count(predictor, name, data)


def _count(predictor: NextPredictor, name: str, data: Histories) -> None:
    own = predictor.settings if name == predictor.model_name else MODELS[name][1]
    predictor.counting[name] = predictor.new_module(name, own)
    predictor.counting[name].count(data)


def _choose(
    predictor: NextPredictor, part: Histories, held: Histories, checkpoint: Path | None, resume: bool
) -> Iterator[Report]:
    """Train every rival that can win; the one that ranks the held-out part best stays.

    The cascade blend is for cascades, timed and without repeats: elsewhere it is not tried.
    """
    facts = predictor.facts
    names = [name for name in predictor.rivals if name != "cascade-blend" or (facts["timed"] and not facts["repeats"])]
    names = names or list(predictor.rivals)
    if len(names) == 1:
        predictor.become(names[0])
        assert predictor.schedule is not None
        yield from train_once(predictor, part, held, "fit", predictor.schedule, checkpoint, resume)
        return
    found, kept = {}, {}
    known = _some(held.encode(predictor.vocabulary, drop_unknown=True))
    for name in names:
        predictor.become(name)
        assert predictor.schedule is not None
        place = _beside(checkpoint, name)
        yield from train_once(predictor, part, held, f"fit {name}", predictor.schedule, place, resume)
        found[name] = mean_reciprocal_rank(predictor, known)
        kept[name] = predictor.model, predictor.optimizer, predictor.facts["epochs"], predictor.seconds_an_epoch
    best = max(found, key=lambda name: found[name])
    predictor.become(best)
    predictor.model, predictor.optimizer, epochs, predictor.seconds_an_epoch = kept[best]
    predictor.facts |= {"epochs": epochs, "validation_mrr": {name: round(mrr, 4) for name, mrr in found.items()}}


def train_once(
    predictor: NextPredictor,
    data: Histories,
    valid: Histories | None,
    stage: str,
    schedule: Schedule,
    checkpoint: Path | None,
    resume: bool,
) -> Generator[Report, None, None]:
    """Train the predictor's model from its beginning; it ends with its best weights."""
    torch.manual_seed(predictor.seed)
    earlier = predictor.model
    predictor.model = network = predictor.new_module(predictor.model_name, predictor.settings)
    updating.count_negatives(predictor)
    predictor.optimizer = make_optimizer(network, schedule)
    parts = [part.encode(predictor.vocabulary, drop_unknown=True) for part in (data, valid) if part is not None]
    for part, where in zip(parts, ("training data", "validation data"), strict=False):
        require_targets(part, where)
    watched = _some(parts[-1])
    trained = yield from train(
        network,
        Pieces(parts[0], network.reach),
        (lambda: _watch(predictor, watched)) if valid is not None else None,
        schedule,
        optimizer=predictor.optimizer,
        seed=predictor.seed,
        stage=stage,
        checkpoint=checkpoint,
        resume=resume,
        fingerprint=storage.fingerprint(predictor, parts),
        hardly=_hardly(predictor, watched) if valid is not None and schedule.watch == "mrr" else None,
    )
    if hasattr(network, "finish") and predictor.keeps_histories:
        network.finish(parts[0], parts[1] if valid is not None else None, earlier)
    predictor.facts |= {"epochs": trained.best_epoch}
    predictor.seconds_an_epoch = trained.seconds_an_epoch


def _some(valid: Histories) -> Histories:
    """Histories drawn at random, the same ones every time, of about ``WATCHED`` events, in their order."""
    if len(valid.ids) <= WATCHED:
        return valid
    drawn = np.random.default_rng(0).permutation(len(valid))
    enough = int(np.searchsorted(np.cumsum(valid.lengths[drawn]), WATCHED)) + 1
    return valid.select(np.sort(drawn[:enough]))


def mean_reciprocal_rank(predictor: NextPredictor, valid: Histories, counting: str | None = None) -> float:
    """Micro MRR as in protocol ``full``, over targets that the predictor knows; of a counting row if named.

    Each rank of a group scores its share of the histories.
    """
    rank, world = here()
    part = valid.select(np.arange(rank, len(valid), world)) if world > 1 else valid
    found, *_ = predictor.ranks(part, hide=not predictor.facts["repeats"], counting=counting)
    return mean_over_ranks(metrics.reciprocal_rank(found))


def _watch(predictor: NextPredictor, valid: Histories) -> float:
    """The figure that early stopping looks at."""
    assert predictor.schedule is not None
    if predictor.schedule.watch == "loss":
        return mean_loss(predictor.network, Pieces(valid, predictor.network.reach))
    return mean_reciprocal_rank(predictor, valid)


def _hardly(predictor: NextPredictor, valid: Histories) -> float:
    """An MRR half as good again as popularity's, or less where that is good already: more than chance, hardly more."""
    popular = mean_reciprocal_rank(predictor, valid, "popularity")
    return popular * (1 + (1 - popular) / 2)


def _beside(checkpoint: Path | None, name: str) -> Path | None:
    return checkpoint.with_name(f"{checkpoint.name}-{name}") if checkpoint else None
