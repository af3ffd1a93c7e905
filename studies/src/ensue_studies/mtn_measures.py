"""What MTN's study keeps of a model's answers, and the figures made of it: as the evaluator does, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from ensue import metrics
from ensue.data.histories import Index
from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.suggest import MEASURES, SHOWN, counted, figures_of, resampled
from ensue.metrics import Floats
from ensue.tasks.suggest.baselines.counting import Suggestions
from ensue.tasks.suggest.batch import FIRST, pad
from ensue.tasks.suggest.catalogue import MODELS
from ensue_studies.mtn_sets import Targets
from ensue_studies.rows import Row, Rows, Values
from ensue_studies.timing import beside, timed_steps


def pack(found: Suggestions, true: pl.Series) -> Row:
    """The first suggestion of each list, and the place of what came, 0 where it is not among those shown."""
    ranks = metrics.text_ranks(found.texts, found.offsets, true)
    return {"first": found.first.to_list(), "rank": np.where(ranks <= SHOWN, ranks, 0).astype(int).tolist()}


def kept(cell: Values, true: pl.Series) -> Floats:
    """(targets, 23) sums of which ``figures_of`` makes the measures, of what :func:`pack` has written."""
    rank = np.array(cell["rank"], np.float64)
    return counted(pl.Series("query", cell["first"], dtype=pl.String), true, np.where(rank > 0, rank, metrics.MISS))


def resample(runs: Mapping[str, Sequence[Floats]], owners: Index, resamples: int) -> dict[str, BootstrapResult]:
    """Draw sessions anew, the same for all models, and of each model its seeds.

    Args:
        runs: :func:`kept` of each model, one a seed.
        owners: (targets,) the session of each.
        resamples: how often.
    """
    found = resampled([*runs.values()], owners, int(owners.max()) + 1, resamples)
    return dict(zip(runs, found, strict=True))


def part(seeds: Sequence[Floats], chosen: npt.NDArray[np.bool_]) -> Row:
    """The measures over some of the targets, mean over seeds, and how many those are."""
    number = np.array(chosen.sum(), np.float64)
    means = np.mean([figures_of(own[chosen].sum(0), number) for own in seeds], 0)
    return {"targets": int(number), **dict(zip(MEASURES, means.tolist(), strict=True))}


def step_times(options: Mapping[str, Values], targets: Targets, *, num_ids: int, batch: int, repeats: int) -> Rows:
    """Seconds of a training step; models take turns, so that what else the machine does meets them all alike.

    Args:
        options: settings to change, by name in ``MODELS``.
        targets: sessions of these lengths are made up.
        num_ids: tokens.
        batch: sessions of a step.
        repeats: turns, after one that is not counted.
    """
    random = np.random.default_rng(0)
    records = [targets.before.record(row).values for row in range(0, len(targets), max(1, len(targets) // batch))]
    sessions = [
        [random.integers(FIRST, num_ids, len(query.split())).tolist() for query in (*record, record[-1])]
        for record in records[:batch]
    ]
    torch.manual_seed(0)
    networks = {name: MODELS[name].make(_sizes(name, own), num_ids) for name, own in options.items()}
    made = pad(sessions)
    times = timed_steps({name: (own, partial(own.loss, made)) for name, own in networks.items()}, repeats)
    peer = times.get("transformer")
    return [
        {
            "model": name,
            "parameters": sum(parameter.numel() for parameter in networks[name].parameters()),
            **beside(own, peer or own),
        }
        for name, own in times.items()
    ]


def _sizes(name: str, options: Values) -> Any:
    """The settings of a network, those of its training left out."""
    settings = MODELS[name].settings
    known = {field.name for field in fields(settings)}
    return replace(settings, **{key: value for key, value in options.items() if key in known})
