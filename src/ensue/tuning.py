"""Search for the settings of a model on held-out data, by Optuna (extra ``tune``).

The data is split into three parts. Each trial is trained on the first and scored on the second, by the first metric of
the evaluation. The third part, which no trial reads, measures what the best settings gain over the defaults; where they
gain nothing there, the defaults are kept.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from ensue.arguments import require_fraction
from ensue.data.test_split import split_data, to_frame
from ensue.errors import SettingError
from ensue.evaluation.comparison import Data, compare, evaluate
from ensue.evaluation.result import ERRORS
from ensue.metrics import label
from ensue.predictor import AnyPredictor, make
from ensue.registry import catalogue_of, require_model, require_task, settings_of
from ensue.settings import require_integer, require_known

if TYPE_CHECKING:
    from types import ModuleType

    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

VALID = 0.2
"""Fraction of the training data that scores the trials."""
FINAL_FITS = 3.0
"""Duration of the last comparison in durations of the first trial; no trial begins later."""
START_TRIALS = 5
"""Trials before the first one can be pruned."""
SMALLEST_LOG_RATIO = 8
"""Ratio of the ends of a range from which it is searched on a logarithmic scale."""
DEFAULTS = "defaults"
"""Attribute of the trial with the default settings, which comes first."""
MULTIPLES = (0.5, 1, 2)
RANGES: Mapping[str, tuple[float, float]] = {
    "learning_rate": (3e-4, 1e-2),
    "weight_decay": (1e-6, 1e-2),
    "dropout": (0.0, 0.6),
    "dropout_items": (0.0, 0.6),
    "dropout_state": (0.0, 0.6),
    "dropout_session": (0.0, 0.6),
    "smoothing": (0.0, 0.2),
    "temperature": (0.02, 0.3),
    "power": (0.0, 1.0),
    "popularity": (1e-3, 1.0),
    "idf": (0.0, 4.0),
    "strength": (0.1, 10.0),
    "margin": (0.05, 0.5),
    "epsilon": (0.01, 0.5),
}
"""By setting, the range that is searched unless ``search`` names another."""
MULTIPLIED = ("dim", "table_dim", "hidden", "head", "score_dim", "wide", "embedding", "batch_size", "negatives",
              "window", "neighbours", "sample", "num_layers", "cycles")  # fmt: skip
"""Settings searched among half, one and two times their default."""


@dataclass(frozen=True)
class Tuning:
    """The outcome of a search.

    Attributes:
        task: of the model.
        model: its name.
        metric: by which trials were scored, and the gain is measured.
        settings: the best settings that differ from the defaults; empty where the defaults are kept.
        trials: each trial's number, state, settings and metric.
        gain: on the third part of the data, ``difference`` to the defaults with its 95 % interval (``low``, ``high``),
            ``ratio`` and two-sided ``p_value``; ``None`` where no trial was better than the defaults.

    Example:
        >>> from ensue import Tuning
        >>> Tuning("next", "sansr", "mrr", settings={}, trials=(), gain=None).sentence
        'no trial was better than the defaults by MRR on the validation data'
    """

    task: str
    model: str
    metric: str
    settings: Mapping[str, object]
    trials: tuple[Mapping[str, object], ...]
    gain: Mapping[str, float] | None

    @property
    def sentence(self) -> str:
        """The gain as a sentence."""
        if self.gain is None:
            return f"no trial was better than the defaults by {label(self.metric)} on the validation data"
        gain = {name: 100 * self.gain[name] for name in ("difference", "low", "high")}
        ending = "" if self.settings else ": the defaults are kept"
        return (
            f"{label(self.metric)} on held-out data: {gain['difference']:+.2f} points over the defaults (95 % CI "
            f"{gain['low']:.2f} to {gain['high']:.2f}, p = {self.gain['p_value']:.3f}){ending}"
        )


class TuningOptions(TypedDict, total=False):
    """Keywords of :func:`tune`."""

    search: Mapping[str, str] | None
    """By setting, ``low:high`` or the values to choose from, ``64,128,256``. [default: ``RANGES`` and ``MULTIPLIED``,
    as far as the model has these settings]"""
    minutes: float
    """Duration of the search, the last comparison included; a trial that is running ends after its epoch."""
    trials: int | None
    """Maximum number of trials. [default: no bound]"""
    test_size: float
    """Fraction of the data that measures the gain."""
    storage: str | Path | None
    """SQLite file from which the search is resumed."""
    seed: int
    """Seed of the search, the splits and the trainings."""
    settings: Mapping[str, object] | None
    """Settings that stay fixed."""
    report: Callable[[Mapping[str, object]], object] | None
    """Function that gets each trial that has ended."""


def tune(
    task: str,
    data: Data,
    model: str,
    *,
    search: Mapping[str, str] | None = None,
    minutes: float = 30.0,
    trials: int | None = None,
    test_size: float = 0.2,
    storage: str | Path | None = None,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
    report: Callable[[Mapping[str, object]], object] | None = None,
) -> Tuning:
    """Search for settings of a model; see :func:`ensue.model_selection.tune` and :class:`TuningOptions`."""
    start = time.monotonic()
    require_task(task)
    if require_model(task, model) == "best":
        raise SettingError("best is several models; search the settings of one, such as --model core")
    if not minutes > 0 or (trials is not None and require_integer("trials", trials) < 1):
        raise SettingError("give minutes above 0, and at least one trial")
    fixed = dict(settings or {})
    spaces = _spaces(task, model, search, fixed)
    known, test = split_data(data, require_fraction(test_size, "test_size"), seed)
    train, valid = split_data(known, VALID, seed)
    refit: dict[str, object] = (
        {"refit": False} if "refit" in {setting.name for setting in settings_of(task, model)} else {}
    )

    def predictor(changes: Mapping[str, object]) -> AnyPredictor:
        return make(task, model, settings=changes, seed=seed)

    def has_defaults(study: Study) -> bool:
        return any(DEFAULTS in trial.user_attrs and trial.value is not None for trial in study.trials)

    def objective(trial: Trial) -> float:
        if has_defaults(study):
            for suggest in spaces.values():
                suggest(trial)
        else:
            trial.set_user_attr(DEFAULTS, True)
        try:
            score, metric = _score(predictor(fixed | _settings(trial) | refit), train, valid, trial, end)
        except SettingError as error:  # such as a dim that is no multiple of heads
            if not has_defaults(study):
                raise
            trial.set_user_attr("refused", str(error))
            raise optuna.TrialPruned from error
        study.set_user_attr("metric", metric)
        return score

    def after_trial(study: Study, trial: FrozenTrial) -> None:
        if report is not None:
            report(_row(trial))
        first = study.trials[0].duration
        reserve = FINAL_FITS * first.total_seconds() if first is not None else 0.0
        if time.monotonic() > end - reserve:
            study.stop()

    optuna = _optuna()
    end = start + 60 * minutes
    study = _study(optuna, storage, f"{task} {model}", known, [fixed, search, seed], seed)
    study.optimize(objective, n_trials=trials, callbacks=[after_trial])
    metric = study.user_attrs["metric"]
    rows = tuple(_row(trial) for trial in study.trials)
    if DEFAULTS in study.best_trial.user_attrs:
        return Tuning(task, model, metric, {}, rows, None)
    best = _settings(study.best_trial)
    pair = [predictor(fixed | changes) for changes in ({}, best)]
    for candidate in pair:
        deque(candidate.fit(known), maxlen=0)
    default, tuned = compare([[candidate] for candidate in pair], test).bootstrap[:2]
    gain = tuned.against(default, metric)
    is_better = gain["difference"] < 0 if metric in ERRORS else gain["difference"] > 0
    return Tuning(task, model, metric, best if is_better else {}, rows, gain)


def _score(predictor: AnyPredictor, train: Data, valid: Data, trial: Trial, end: float) -> tuple[float, str]:
    """Return the metric of a training on the validation data, negative where the lowest is best, and its name.

    Raises:
        TrialPruned: after the same epoch, the monitored metric is below the median of the earlier trials.
    """
    epoch = 0
    for report in predictor.fit(train, valid):
        if report.valid is not None:
            trial.report(-report.valid if report.monitor == "loss" else report.valid, epoch)
            epoch += 1
            if trial.should_prune():
                raise _optuna().TrialPruned
            if time.monotonic() > end:
                report.stop()
    result = evaluate(predictor, valid)
    metric = result.paired_tests[0].measure
    value = result.rows[0].figures[metric]
    return (-value if metric in ERRORS else value), metric


def _spaces(
    task: str, model: str, search: Mapping[str, str] | None, fixed: Mapping[str, object]
) -> dict[str, Callable[[Trial], object]]:
    """Return, by setting, the function that draws a value of a trial."""
    defaults = {setting.name: setting.default for setting in settings_of(task, model)}
    require_known({**(search or {}), **fixed}, set(defaults))
    if search is not None:
        spaces = {name: _parsed(name, text, defaults[name]) for name, text in search.items()}
    else:
        spaces = {name: _range(name, *ends, whole=False) for name, ends in RANGES.items() if name in defaults}
        for name in MULTIPLIED:
            if isinstance(default := defaults.get(name), int) and default > 0:
                spaces[name] = _choice(name, sorted({max(1, int(factor * default)) for factor in MULTIPLES}))
        if catalogue_of(task).MODELS[model].schedule is None:
            spaces.pop("learning_rate", None)
    spaces = {name: space for name, space in spaces.items() if name not in fixed}
    if not spaces:
        raise SettingError(f"{model}: no setting to search; name some, such as search={{'window': '5,10,20'}}")
    return spaces


def _parsed(name: str, text: str, default: object) -> Callable[[Trial], object]:
    """Return the space of ``low:high`` or ``value,value``."""
    ends = text.split(":")
    whole = isinstance(default, int) and not isinstance(default, bool)
    try:
        if len(ends) == 2:
            return _range(name, float(ends[0]), float(ends[1]), whole=whole)
    except ValueError:
        pass
    values = [value.strip() for value in text.split(",") if value.strip()]
    if len(values) < 2 or len(ends) > 1:
        raise SettingError(f"search {name}={text!r} is not understood; give low:high, or values such as 64,128")
    if isinstance(default, bool) or not isinstance(default, int | float):
        return _choice(name, values)
    try:
        return _choice(name, [type(default)(value) for value in values])
    except ValueError:
        raise SettingError(f"search {name}={text!r}: {name} is a number") from None


def _range(name: str, low: float, high: float, *, whole: bool) -> Callable[[Trial], object]:
    if not (math.isfinite(low) and low < high < math.inf):
        raise SettingError(f"search {name}: {low:g}:{high:g} is no range; give low:high")
    log = low > 0 and high / low >= SMALLEST_LOG_RATIO
    if whole:
        return lambda trial: trial.suggest_int(name, int(low), int(high), log=log)
    return lambda trial: trial.suggest_float(name, low, high, log=log)


def _choice(name: str, values: Sequence[str | float]) -> Callable[[Trial], object]:
    return lambda trial: trial.suggest_categorical(name, values)


def _settings(trial: Trial | FrozenTrial) -> dict[str, object]:
    """Return the settings of a trial, numbers with three digits."""
    return {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in trial.params.items()}


def _row(trial: FrozenTrial) -> dict[str, object]:
    """Return a trial as JSON."""
    row = {"number": trial.number, "state": trial.state.name.lower(), "settings": _settings(trial)}
    return {**row, "value": trial.value, **trial.user_attrs}


def _study(optuna: ModuleType, storage: str | Path | None, name: str, data: Data, search: object, seed: int) -> Study:
    """Return the study, continued from its storage; its name holds a hash of the data and of what is searched.

    Raises:
        SettingError: the storage is no SQLite file that can be written, or holds another study.
    """
    if storage is not None:
        path = Path(storage)
        if not path.absolute().parent.is_dir():
            raise SettingError(f"storage {path}: there is no folder {path.parent}; make it, or give another name")
        if path.exists() and not (path.is_file() and path.read_bytes()[:16] in (b"", b"SQLite format 3\0")):
            raise SettingError(f"storage {path}: exists and is no SQLite file; name another file")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    digest = hashlib.sha256((repr(search) + to_frame(data).write_ndjson()).encode()).hexdigest()[:12]
    url = None if storage is None else f"sqlite:///{Path(storage).resolve()}"
    if url is not None and any(other != f"{name} {digest}" for other in optuna.get_all_study_names(url)):
        raise SettingError(
            f"{storage}: holds a search of another model, other data, settings or ranges; name another file"
        )
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=START_TRIALS, multivariate=False)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=START_TRIALS, n_warmup_steps=1)
    return optuna.create_study(
        direction="maximize", sampler=sampler, pruner=pruner, storage=url, study_name=f"{name} {digest}",
        load_if_exists=True,
    )  # fmt: skip


def _optuna() -> ModuleType:
    try:
        import optuna
    except ImportError:
        raise SettingError('tune needs Optuna: pip install "ensue[tune]"') from None
    return optuna
