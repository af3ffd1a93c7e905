"""Search for the settings of a model on held-out data, by Optuna (extra ``tune``).

The data is split into three parts. Each trial is trained on the first and scored on the second, by the first metric of
the evaluation. The third part, which no trial reads, measures what the best settings gain over the defaults; where they
gain nothing there, the defaults are kept.

The first trial has the defaults. Every other one changes two settings of the best trial so far: of a dozen trials that
draw ten settings at once, hardly any is near the defaults, which are good. The settings take turns. Where the defaults
take more than a twelfth of the time, trials are trained on a part of the data.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from ensue.arguments import require_fraction
from ensue.data.test_split import split_data, to_frame
from ensue.errors import SettingError
from ensue.evaluation.comparison import Data, score_alone
from ensue.evaluation.result import ERRORS
from ensue.metrics import label
from ensue.predictor import AnyPredictor, make
from ensue.registry import catalogue_of, require_model, require_task, settings_of
from ensue.settings import require_integer, require_known
from ensue.training.report import Report

if TYPE_CHECKING:
    from types import ModuleType

    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

VALID = 0.2
"""Fraction of the training data that scores the trials."""
TRIALS = 12
"""Minimum number of trials of the duration of the first for which there should be time."""
PARTS = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Fractions of the training data, of which trials get the largest that leaves time for ``TRIALS``."""
FEWEST_EPOCHS = 10
"""Epochs of the defaults for which there must be time, if their schedule has as many; most have early stopping."""
TIMED_STEPS = 20
"""Steps after which the duration of an epoch is known."""
LONGEST = 3.0
"""Duration of a trial in durations of the first, after which it is stopped."""
FINAL_FITS = 3.0
"""Duration of the last comparison in durations of the first trial, if that had all data."""
FINAL_SHARE = 0.3
"""Fraction of the time that the last comparison takes at most."""
CHANGES = 2
"""Settings of the best trial so far that a trial changes."""
START_TRIALS = 5
"""Trials before the first one can be pruned."""
SMALLEST_LOG_RATIO = 8
"""Ratio of the ends of a range from which it is searched on a logarithmic scale."""
DEFAULTS = "defaults"
"""Attribute of the trial with the default settings, which comes first."""
KEPT = "kept"
"""Attribute of a trial: settings of the best trial before it that it did not change."""
RANGES: Mapping[str, tuple[float, float]] = {
    "learning_rate": (3e-4, 1e-2),
    "weight_decay": (1e-7, 1e-3),
    "dropout": (0.0, 0.7),
    "dropout_items": (0.0, 0.7),
    "dropout_state": (0.0, 0.7),
    "dropout_session": (0.0, 0.7),
    "smoothing": (0.0, 0.3),
    "temperature": (0.02, 0.3),
    "power": (0.0, 1.0),
    "logq": (0.0, 1.0),
    "regularisation": (0.0, 2.0),
    "popularity": (1e-3, 1.0),
    "idf": (0.0, 4.0),
    "strength": (0.1, 10.0),
    "margin": (0.05, 0.5),
    "epsilon": (0.01, 0.5),
    "exponent": (0.0, 1.5),
    "max_hours": (12.0, 480.0),
}
"""By setting, the range that is searched unless ``search`` names another."""
MULTIPLES = (0.5, 1, 2)
MULTIPLIED = ("dim", "table_dim", "hidden", "head", "score_dim", "wide", "embedding", "batch_size", "negatives",
              "window", "neighbours", "sample", "num_layers", "cycles", "heads", "intervals", "warm_up",
              "epochs")  # fmt: skip
"""Settings searched among half, one and two times their default, or what was fitted to the data; ``epochs`` only where
the learning rate decays over them."""
CHOICES: Mapping[str, tuple[tuple[str | float, ...], ...]] = {
    "decay": ((False, True), ("linear", "reciprocal", "quadratic")),
    "cosine": ((False, True),),
    "copy": ((False, True),),
    "tied": ((False, True),),
    "lower": ((False, True),),
    "projection": (("learned", "mean"),),
    "reads": (("last", "all"),),
    "first": (("likeliest", "consensus"),),
    "loss": (("sampled", "ce"), ("bpr-max", "ce")),
    "min_count": ((1, 2, 3, 5),),
    "retrieved": ((0, 100),),
}
"""By setting, the values to choose from, if its default is one of them."""


@dataclass(frozen=True)
class Tuning:
    """The outcome of a search.

    Attributes:
        task: of the model.
        model: its name.
        metric: by which trials were scored, and the gain is measured.
        settings: the best settings that differ from the defaults; empty where the defaults are kept.
        trials: each trial's number, state, settings and metric.
        gain: on the third part of the data, metrics of the ``defaults`` and the ``tuned`` settings, their
            ``difference`` with its 95 % interval (``low``, ``high``), ``ratio`` and two-sided ``p_value``; ``None``
            where no trial was better than the defaults.
        fraction: of the data that trials were trained on; 1 where there was time for all of it.
        final_fraction: of the data that the defaults and the best settings were trained on for the gain.

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
    fraction: float = 1.0
    final_fraction: float = 1.0

    @property
    def sentence(self) -> str:
        """The gain as a sentence."""
        if self.gain is None:
            return f"no trial was better than the defaults by {label(self.metric)} on the validation data"
        gain = {name: 100 * self.gain[name] for name in ("difference", "low", "high")}
        part = "" if self.final_fraction == 1 else f", both trained on {100 * self.final_fraction:.2g} % of the data"
        ending = "" if self.settings else ": the defaults are kept"
        return (
            f"{label(self.metric)} on held-out data: {gain['difference']:+.2f} points over the defaults (95 % CI "
            f"{gain['low']:.2f} to {gain['high']:.2f}, p = {self.gain['p_value']:.3f}){part}{ending}"
        )


class TuningOptions(TypedDict, total=False):
    """Keywords of :func:`tune`."""

    search: Mapping[str, str] | None
    """By setting, ``low:high`` or the values to choose from, ``64,128,256``. [default: ``RANGES``, ``MULTIPLIED`` and
    ``CHOICES``, as far as the model has these settings]"""
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
    defaults = {setting.name: setting.default for setting in settings_of(task, model)}
    _spaces(task, model, search, fixed, defaults)
    known, test = split_data(data, require_fraction(test_size, "test_size"), seed)
    train, valid = split_data(known, VALID, seed)
    refit: dict[str, object] = {"refit": False} if "refit" in defaults else {}
    optuna = _optuna()
    study = _study(optuna, storage, f"{task} {model}", known, [fixed, search, seed], seed)
    clock = _Clock(start, 60 * minutes)

    def predictor(changes: Mapping[str, object]) -> AnyPredictor:
        return make(task, model, settings={**fixed, **refit, **changes}, seed=seed)

    def first_trial(trial: Trial) -> float:
        for part in PARTS:
            started = time.monotonic()
            reports: list[Report] = []
            candidate = predictor({})
            try:
                score, metric = _score(
                    candidate, _part(train, part, seed), _scoring_part(valid, part, seed),
                    clock.first_check(reports, is_last=part == PARTS[-1]),
                )  # fmt: skip
            except _TooSlowError:
                continue
            for epoch, report in enumerate(reports):
                trial.report(_monitored(report), epoch)
            trial.set_user_attr(DEFAULTS, True)
            study.set_user_attr("metric", metric)
            study.set_user_attr("part", part)
            study.set_user_attr("seconds", time.monotonic() - started)
            schedule = {} if candidate.schedule is None else asdict(candidate.schedule)
            fitted = {**candidate.all_settings, **schedule}
            study.set_user_attr("fitted", {name: fitted[name] for name in defaults if name in fitted})
            return score
        raise AssertionError

    def objective(trial: Trial) -> float:
        if "seconds" not in study.user_attrs:
            return first_trial(trial)
        about = study.user_attrs
        spaces = _spaces(task, model, search, fixed, about["fitted"])
        names = _changed(list(spaces), trial.number, seed)
        kept = {name: value for name, value in _settings(study.best_trial).items() if name not in names}
        trial.set_user_attr(KEPT, kept)
        for name in names:
            spaces[name](trial)
        try:
            score, _ = _score(
                predictor(_settings(trial)), _part(train, about["part"], seed),
                _scoring_part(valid, about["part"], seed), clock.check(trial, about),
            )  # fmt: skip
        except SettingError as error:  # such as a dim that is no multiple of heads
            trial.set_user_attr("refused", str(error))
            raise optuna.TrialPruned from error
        return score

    def after_trial(study: Study, trial: FrozenTrial) -> None:
        if report is not None:
            report(_row(trial))
        if time.monotonic() > clock.last_start(study.user_attrs):
            study.stop()

    study.optimize(objective, n_trials=trials, callbacks=[after_trial])
    about = study.user_attrs
    rows = tuple(_row(trial) for trial in study.trials)
    if DEFAULTS in study.best_trial.user_attrs:
        return Tuning(task, model, about["metric"], {}, rows, None, about["part"], about["part"])
    best = _settings(study.best_trial)
    final = clock.final_part(about)
    pair = [predictor(changes) for changes in ({}, best)]
    for candidate in pair:
        deque(candidate.fit(_part(known, final, seed)), maxlen=0)
    metric, (default, tuned) = score_alone(pair, _scoring_part(test, final, seed))
    values = {"defaults": default.by_name()[metric], "tuned": tuned.by_name()[metric]}
    gain = values | tuned.against(default, metric)
    is_better = gain["difference"] < 0 if metric in ERRORS else gain["difference"] > 0
    return Tuning(task, model, metric, best if is_better else {}, rows, gain, about["part"], final)


class _TooSlowError(Exception):
    """The first trial takes more than its share of the time."""


@dataclass(frozen=True)
class _Clock:
    """What there is time for; a part and the duration of the first trial are attributes of the study."""

    start: float
    seconds: float

    def final_part(self, about: Mapping[str, Any]) -> float:
        """Return the fraction of the data that the defaults and the best settings are trained on in their time."""
        part = float(about["part"])
        affordable = part * FINAL_SHARE * self.seconds / FINAL_FITS / about["seconds"]
        return 1.0 if part == 1 else min(1.0, max(part, affordable))

    def last_start(self, about: Mapping[str, Any]) -> float:
        """Return the time after which no trial begins."""
        reserve = FINAL_FITS * about["seconds"] * self.final_part(about) / about["part"]
        return float(self.start + self.seconds - reserve)

    def first_check(self, reports: list[Report], *, is_last: bool) -> Callable[[Report], None]:
        """Return what ends the first trial where it takes more than its share of the time, and stores its checks."""
        limit = self.seconds / TRIALS
        started = time.monotonic()

        def check(report: Report) -> None:
            if report.valid is not None:
                reports.append(report)
            elapsed = time.monotonic() - started
            epochs = report.epoch - 1 + report.step / max(1, report.steps)
            expected = elapsed
            if report.step >= TIMED_STEPS or report.epoch > 1:
                expected = max(elapsed, report.seconds / epochs * min(report.epochs, FEWEST_EPOCHS))
            if not is_last and expected > limit:
                raise _TooSlowError
            if time.monotonic() > self.start + self.seconds:
                report.stop()

        return check

    def check(self, trial: Trial, about: Mapping[str, Any]) -> Callable[[Report], None]:
        """Return what stops a trial: below the median after the same epoch, too slow, or at the end of the search."""
        latest = time.monotonic() + LONGEST * about["seconds"]
        end = self.last_start(about)
        epoch = 0

        def check(report: Report) -> None:
            nonlocal epoch
            if report.valid is not None:
                trial.report(_monitored(report), epoch)
                epoch += 1
                if trial.should_prune():
                    raise _optuna().TrialPruned
                if time.monotonic() > end:
                    report.stop()
            if time.monotonic() > latest:
                trial.set_user_attr("refused", f"takes more than {LONGEST:g} times as long as the defaults")
                raise _optuna().TrialPruned

        return check


def _monitored(report: Report) -> float:
    """Return the monitored metric, negative where the lowest is best."""
    assert report.valid is not None
    return -report.valid if report.monitor == "loss" else report.valid


def _part(data: Data, part: float, seed: int) -> Data:
    """Return a fraction of the data, the latest where it has an order."""
    return data if part == 1 else split_data(data, part, seed)[1]


def _scoring_part(data: Data, part: float, seed: int) -> Data:
    """Return the data that scores a training on a part: scoring takes its time too, but little data says little."""
    return _part(data, math.sqrt(part), seed)


def _score(predictor: AnyPredictor, train: Data, valid: Data, check: Callable[[Report], None]) -> tuple[float, str]:
    """Return the metric of a training on the validation data, negative where the lowest is best, and its name."""
    for report in predictor.fit(train, valid):
        check(report)
    metric, (result,) = score_alone([predictor], valid)
    value = result.by_name()[metric]
    return (-value if metric in ERRORS else value), metric


def _changed(names: Sequence[str], number: int, seed: int) -> list[str]:
    """Return the settings that a trial changes: they take turns, each turn in another order."""
    places = range(CHANGES * number, CHANGES * (number + 1))
    orders = (np.random.default_rng([seed, place // len(names)]).permutation(len(names)) for place in places)
    return list(dict.fromkeys(names[order[place % len(names)]] for place, order in zip(places, orders, strict=True)))


def _spaces(
    task: str, model: str, search: Mapping[str, str] | None, fixed: Mapping[str, object], defaults: Mapping[str, Any]
) -> dict[str, Callable[[Trial], object]]:
    """Return, by setting, the function that draws a value of a trial; ``defaults`` may be fitted to the data."""
    require_known({**(search or {}), **fixed}, set(defaults))
    if search is not None:
        spaces = {name: _parsed(name, text, defaults[name]) for name, text in search.items()}
    else:
        spaces = {name: _range(name, *ends, whole=False) for name, ends in RANGES.items() if name in defaults}
        for name in MULTIPLIED:
            if type(default := defaults.get(name)) is int and default > 0:
                spaces[name] = _choice(name, sorted({max(1, int(factor * default)) for factor in MULTIPLES}))
        for name, groups in CHOICES.items():
            for values in groups:
                if any(defaults.get(name) == value and type(defaults[name]) is type(value) for value in values):
                    spaces[name] = _choice(name, values)
        if catalogue_of(task).MODELS[model].schedule is None:
            spaces.pop("learning_rate", None)
        if not defaults.get("decay"):
            spaces.pop("epochs", None)
        if defaults.get("warm_up") is not None:  # the rate falls by another rule
            spaces.pop("decay", None)
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
    changes = {
        name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in trial.params.items()
    }
    return {**trial.user_attrs.get(KEPT, {}), **changes}


def _row(trial: FrozenTrial) -> dict[str, object]:
    """Return a trial as JSON."""
    row = {"number": trial.number, "state": trial.state.name.lower(), "settings": _settings(trial)}
    notes = {name: value for name, value in trial.user_attrs.items() if name != KEPT}
    return {**row, "value": trial.value, **notes}


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
