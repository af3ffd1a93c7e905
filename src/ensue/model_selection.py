"""Reading and splitting data, and comparing models that are trained on the same part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Unpack, cast

from ensue.api import ESTIMATORS, AnyEstimator
from ensue.arguments import require_fraction, require_text
from ensue.data.frames import frame_of, is_path, read_frame
from ensue.data.inputs import TrainingReading
from ensue.data.kinds import kind_of
from ensue.data.schema import NO_SCHEMA
from ensue.data.test_split import split_data
from ensue.errors import SettingError
from ensue.estimator import Estimator
from ensue.evaluation.comparison import Data, training_data
from ensue.evaluation.comparison import compare as compare_predictors
from ensue.evaluation.result import Result
from ensue.registry import models as models_of
from ensue.registry import require_task
from ensue.settings import near, require_integer
from ensue.tasks import TASKS, named
from ensue.tuning import Tuning, TuningOptions
from ensue.tuning import tune as search_settings


def compare(
    models: Sequence[str | AnyEstimator],
    data: object,
    test: object = None,
    *,
    split: str = "auto",
    test_size: float = 0.2,
    task: str = "",
    seeds: int = 1,
    progress: bool | Literal["auto"] = "auto",
    **reading: Unpack[TrainingReading],
) -> Result:
    """Train several models on the same data and score them on the same test data, next to the baselines.

    Args:
        models: names of models, or estimators, which are cloned.
        data: training data.
        test: test data. [default: a part of ``data``, split off as ``split`` says]
        split: how ``data`` is split if there is no ``test``: ``time`` or ``random``; for query logs also ``user``.
            ``auto`` is ``time`` for sessions and query logs, and ``random`` for texts and posts.
        test_size: fraction of ``data`` that is split off if there is no ``test``.
        task: ``next``, ``classify``, ``suggest`` or ``link``, if several tasks have these models.
        seeds: number of seeds per model; with several, intervals cover the variance between seeds.
        progress: as for :meth:`Estimator.fit`.
        reading: as for :meth:`Estimator.fit`.

    Raises:
        DataError: the data cannot be read, or holds nothing to score.
        SettingError: models of several tasks, a model that several tasks have, or both ``test`` and ``split``.

    Example:
        >>> from ensue import compare
        >>> result = compare(["markov", "popularity"], "clicks.csv", "last_days.csv")
        >>> [row.model for row in result.rows][:2]
        ['markov', 'popularity']
    """
    kind = _kind_of(models, task)
    if test is not None and split != "auto":
        raise SettingError(f"split is {split!r}, but test data is given too; remove one of them")
    if require_integer("seeds", seeds) < 1:
        raise SettingError(f"seeds is {seeds}; train each model at least once")
    # Test data is read by the schema of the training data, as an estimator reads it.
    reader = kind()
    train, schema = reader._read_for_training(data, NO_SCHEMA, reading)
    if test is None:
        train, held_out = split_data(train, require_fraction(test_size, "test_size"), by=split)
    else:
        held_out = reader._read(test, schema, {})[0]
    trained = []
    names = [entry if isinstance(entry, str) else entry.model for entry in models]
    for entry, data in zip(models, training_data(kind.task, names, train), strict=True):
        estimators = [_unfitted(kind, entry, seed) for seed in range(seeds)]
        trained.append([estimator.fit(data, progress=progress)._fitted for estimator in estimators])
    return compare_predictors(trained, held_out)


def read(data: object, *, task: str = "", **reading: Unpack[TrainingReading]) -> Data:
    """Read data once, for several calls of ``fit``, ``evaluate``, :func:`split` or :func:`compare`.

    Args:
        data: as for :meth:`Estimator.fit`.
        task: ``next``, ``classify``, ``suggest`` or ``link``. [default: detected from the file]
        reading: as for :meth:`Estimator.fit`.

    Raises:
        DataError: the data cannot be read.
        SettingError: an unknown task, or data whose task cannot be detected.

    Example:
        >>> from ensue import NextEvent, read
        >>> clicks = read("clicks.csv")
        >>> len(clicks)
        836
        >>> models = [NextEvent(name).fit(clicks) for name in ("markov", "popularity")]
    """
    if require_text(task, "task") not in ("", *ESTIMATORS):
        raise SettingError(f"task {task!r} is not known; {near(task, ESTIMATORS)}choose from {', '.join(ESTIMATORS)}")
    return ESTIMATORS[task or _task_of_data(data)]()._read_for_training(data, NO_SCHEMA, reading)[0]


def split(
    data: object,
    *,
    test: float = 0.2,
    by: str = "auto",
    task: str = "",
    seed: int = 0,
    **reading: Unpack[TrainingReading],
) -> tuple[Data, Data]:
    """Split data into training and test data.

    Sessions are split by time (the last ones are the test data; without times, the order of the file counts), texts at
    random and stratified by label, posts by article.

    Args:
        data: as for :meth:`Estimator.fit`.
        test: fraction of test data, between 0 and 1.
        by: ``time`` or ``random``; for query logs also ``user``, which keeps all sessions of a user on one side.
            ``auto`` is ``time`` for sessions and query logs, and ``random`` for texts and posts.
        task: ``next``, ``classify``, ``suggest`` or ``link``. [default: detected from the file]
        seed: seed of a random split.
        reading: as for :meth:`Estimator.fit`.

    Returns:
        The training data and the test data, for ``fit`` and ``evaluate``.

    Raises:
        DataError: the data cannot be read, or is too little to be split.
        SettingError: a fraction outside (0, 1), or data whose task cannot be detected.

    Example:
        >>> from ensue import split
        >>> train, test = split("clicks.csv", test=0.2)
        >>> len(train), len(test)
        (669, 167)
    """
    return split_data(read(data, task=task, **reading), test, seed, by)


def tune(task: str, data: object, model: str, **options: Unpack[TuningOptions]) -> Tuning:
    """Search for settings of a model that are better than its defaults on held-out data.

    Args:
        task: ``next``, ``classify``, ``suggest`` or ``link``.
        data: training data, as for :func:`read`, or what that returned; no test data.
        model: name of the model.
        options: see :class:`ensue.tuning.TuningOptions`.

    Raises:
        DataError: the data cannot be read, or is too little to be split.
        SettingError: an unknown model or setting, nothing to search, or a storage of another search.

    Example:
        >>> from ensue import tune
        >>> tuning = tune("next", "clicks.csv", "vsknn", search={"idf": "0:2"}, trials=3)
        >>> len(tuning.trials)
        3
    """
    return search_settings(require_task(task), read(data, task=task), model, **options)


def _kind_of(models: Sequence[str | AnyEstimator], task: str) -> type[AnyEstimator]:
    """Return the estimator class of the task that all models belong to.

    Raises:
        SettingError: an unknown model, or models of several tasks.
    """
    if not isinstance(models, list | tuple) or not all(isinstance(entry, str | Estimator) for entry in models or [0]):
        raise SettingError('give a list of models, such as compare(["sansr", "vsknn"], "clicks.csv")')
    # Each model leaves the tasks that have it; `best` is a model of all.
    tasks = set(ESTIMATORS) & {task} if require_text(task, "task") else set(ESTIMATORS)
    for entry in models:
        if isinstance(entry, Estimator):
            tasks &= {entry.task}
        elif entry != "best":
            tasks = {name for name in tasks if entry in {model.name for model in models_of(name)}}
    if len(tasks) != 1:
        names = ", ".join(map(repr, models))
        raise SettingError(f"{names}: no task has all of these models" if not tasks else f"{names}: give task=…")
    return ESTIMATORS[tasks.pop()]


def _unfitted(kind: type[AnyEstimator], entry: str | AnyEstimator, seed: int) -> AnyEstimator:
    if isinstance(entry, Estimator):
        return kind().set_params(**{**entry.get_params(), "seed": entry.seed + seed})
    return kind(entry, seed=seed)


def _task_of_data(data: object) -> str:
    """Return the task of data.

    Raises:
        SettingError: it cannot be detected.
    """
    for name, task in TASKS.items():
        if isinstance(data, named(task.predictor).data_type):
            return name
    frame = None if is_path(data) else frame_of(data)
    if is_path(data) or frame is not None:
        shape = kind_of(Path(data)) if is_path(data) else read_frame(frame, kind_of)  # type: ignore[arg-type]
        return next(name for name, task in TASKS.items() if shape in task.kinds)
    raise SettingError(f"the task of a {type(data).__name__} is not known; give task=…, one of {', '.join(ESTIMATORS)}")


def make(
    task: str, model: str = "best", *, seed: int = 0, device: str | None = None, **settings: object
) -> AnyEstimator:
    """Return the estimator of a task by its name, for code that runs over tasks.

    Args:
        task: ``next``, ``classify``, ``suggest`` or ``link``.
        model: name of a model.
        seed: seed of every random choice.
        device: ``cpu`` or ``cuda``. [default: the GPU if there is one]
        settings: settings of the model by name.

    Raises:
        SettingError: an unknown task, model or setting.

    Example:
        >>> from ensue import make
        >>> make("next", "sansr", dim=128)
        NextEvent('sansr', dim=128)
    """
    return ESTIMATORS[require_task(task)](model, seed=seed, device=device, **settings)


def evaluate(model: AnyEstimator, *data: object, **options: object) -> Result:
    """Return the metrics of a fitted estimator next to its baselines, as its method ``evaluate`` does.

    Args:
        model: a fitted estimator.
        data: test data of its task: a path, a frame or lists; posts and articles for a ``PostLinker``.
        options: keywords of the method.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: the estimator is not fitted.

    Example:
        >>> from ensue import NextEvent, evaluate
        >>> sessions = [["a", "b"], ["a", "b"]]
        >>> evaluate(NextEvent("markov").fit(sessions), sessions).rows[0].model
        'markov'
    """
    if not isinstance(model, Estimator):
        raise SettingError(f"model is of type {type(model).__name__}; give a fitted estimator")
    return cast(Callable[..., Result], model.evaluate)(*data, **options)
