"""Splitting data and comparing models that are trained on the same part of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from ensue.api import ESTIMATORS, AnyEstimator, Estimator
from ensue.data.frames import frame_of, is_path, read_frame
from ensue.data.inputs import Reading
from ensue.data.kinds import kind_of
from ensue.data.schema import NO_SCHEMA
from ensue.data.test_split import split_data
from ensue.errors import SettingError
from ensue.evaluation import AnyResult, Data
from ensue.evaluation import compare as compare_predictors
from ensue.registry import models
from ensue.settings import near
from ensue.tasks import TASKS
from ensue.tasks.base import named


def compare(
    entries: Sequence[str | AnyEstimator],
    data: object,
    test: object = None,
    *,
    task: str = "",
    size: float = 0.2,
    seeds: int = 1,
    progress: bool | None = None,
    **reading: Unpack[Reading],
) -> AnyResult:
    """Train several models on the same data and score them on the same test data, next to the baselines.

    Args:
        entries: names of models, or estimators that are not fitted.
        data: what they are trained on.
        test: what they are scored on. [default: the last part of ``data`` by time, see :func:`split`]
        task: ``next``, ``classify``, ``suggest`` or ``link``, where the names do not tell.
        size: fraction of ``data`` that is split off where there is no ``test``.
        seeds: trainings per model; intervals then cover seeds too.
        progress: as of :meth:`Estimator.fit`.
        reading: as of :meth:`Estimator.fit`.

    Raises:
        DataError: the data cannot be read, or holds nothing to score.
        SettingError: names of models of several tasks.
    """
    kind = _kind_of(entries, task)
    reader = kind()
    train, schema = reader._read(data, NO_SCHEMA, reading)
    if test is None:
        train, held_out = split_data(train, size)
    else:
        held_out = reader._read(test, schema, {})[0]
    trained = []
    for entry in entries:
        estimators = [_unfitted(kind, entry, seed) for seed in range(seeds)]
        trained.append([estimator.fit(train, progress=progress)._fitted for estimator in estimators])
    return compare_predictors(trained, held_out)


def split(
    data: object, *, test: float = 0.2, by: str = "", task: str = "", seed: int = 0, **reading: Unpack[Reading]
) -> tuple[Data, Data]:
    """Split data into what is trained on and what is scored.

    Sequences and query sessions are split by time (the last ones are the test; without times the order of the file
    counts), texts at random with each label in proportion, posts by article.

    Args:
        data: as of :meth:`Estimator.fit`.
        test: fraction that becomes the test part, between 0 and 1.
        by: ``time`` or ``random``; of query logs also ``user``, which keeps all sessions of a user on one side.
            [default: ``time`` for sequences and query logs, else ``random``]
        task: whose data it is. [default: told from the file]
        seed: of a random split.
        reading: as of :meth:`Estimator.fit`.

    Returns:
        The training data and the test data, for ``fit`` and ``evaluate``.

    Raises:
        DataError: the data cannot be read, or is too little to be split.
        SettingError: a fraction outside (0, 1), or data whose task is not known.

    Example:
        >>> from ensue import split
        >>> train, test = split("clicks.csv", test=0.2)
        >>> len(train), len(test)
        (669, 167)
    """
    if task not in ("", *ESTIMATORS):
        raise SettingError(f"task {task!r} is not known; {near(task, ESTIMATORS)}choose from {', '.join(ESTIMATORS)}")
    kind = ESTIMATORS[task or _task_of_data(data)]
    return split_data(kind()._read(data, NO_SCHEMA, reading)[0], test, seed, by)


def _kind_of(entries: Sequence[str | AnyEstimator], task: str) -> type[AnyEstimator]:
    """Return the estimator of the task that all models are of.

    Raises:
        SettingError: an unknown model, or models of several tasks.
    """
    if isinstance(entries, str | AnyEstimator) or not entries:
        raise SettingError('give a list of models, such as compare(["sansr", "vsknn"], "clicks.csv")')
    tasks = set(ESTIMATORS) & {task} if task else set(ESTIMATORS)
    for entry in entries:
        if isinstance(entry, Estimator):
            tasks &= {entry.task}
        elif entry != "best":
            tasks = {name for name in tasks if entry in {model.name for model in models(name)}}
    if len(tasks) != 1:
        named = ", ".join(map(repr, entries))
        raise SettingError(f"{named}: no task has all of these models" if not tasks else f"{named}: give task=…")
    return ESTIMATORS[tasks.pop()]


def _unfitted(kind: type[AnyEstimator], entry: str | AnyEstimator, seed: int) -> AnyEstimator:
    if isinstance(entry, Estimator):
        return kind().set_params(**{**entry.get_params(), "seed": entry.seed + seed})
    return kind(entry, seed=seed)


def _task_of_data(data: object) -> str:
    """Return the task that data is for.

    Raises:
        SettingError: it is not known.
    """
    for name, task in TASKS.items():
        if isinstance(data, named(task.predictor).data_type):
            return name
    frame = None if is_path(data) else frame_of(data)
    if is_path(data) or frame is not None:
        shape = kind_of(Path(data)) if is_path(data) else read_frame(frame, kind_of)  # type: ignore[arg-type]
        return next(name for name, task in TASKS.items() if shape in task.kinds)
    raise SettingError(f"the task of a {type(data).__name__} is not known; give task=…, one of {', '.join(ESTIMATORS)}")
