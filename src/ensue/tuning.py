"""Search for the settings of a model on held-out data, by Optuna (extra ``tune``).

The data is split into three parts. Each trial is trained on the first and scored on the second, by the first metric of
the evaluation. The third part, which no trial reads, measures what the best settings gain over the defaults; where they
gain nothing there, the defaults are kept.

The first trial has the defaults. Every other one changes two settings of the best trial so far: of a dozen trials that
draw ten settings at once, hardly any is near the defaults, which are good. The settings take turns. A trial that scores
higher than the best one is trained and scored once more, with another seed and on a random split; it is the best if it
scores higher there too. Where the defaults take more than a twelfth of the time, trials are trained on a part of the
data.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

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
FRACTIONS = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Fractions of the training data, of which trials are trained on the largest that leaves time for ``MIN_TRIALS``."""
MIN_TRIALS = 12
"""Minimum number of trials for which there should be time, if all take as long as the first."""
MIN_EPOCHS = 10
"""Epochs of the first trial for which there should be time, if its schedule has as many; most end by early stopping."""
TIMED_STEPS = 20
"""Steps after which the duration of an epoch is estimated."""
MAX_DURATION = 3.0
"""Processor time of a trial after which it is stopped, as a multiple of the first one's."""
FINAL_FITS = 3.0
"""Duration of the last comparison as a multiple of the first trial's, on as much data."""
FINAL_FRACTION = 0.3
"""Maximum fraction of the time for the last comparison, if trials are trained on a fraction of the data."""
CHANGES = 2
"""Settings of the best trial so far that a trial changes."""
START_TRIALS = 5
"""Trials before the first one can be pruned."""
SMALLEST_LOG_RATIO = 8
"""Ratio of the ends of a range from which it is searched on a logarithmic scale."""
DEFAULTS = "defaults"
"""Attribute of the trial with the default settings, which comes first."""
SETTINGS = "settings"
"""Attribute of a trial that holds all its settings."""
SCORES = "scores"
"""Attribute of a trial with its scores: two of the defaults and of trials whose first one was the highest."""
BEST = "best"
"""Attribute of the defaults, and of trials both of whose scores were the highest."""
RANGES: Mapping[str, tuple[float, float]] = {
    "learning_rate": (3e-4, 1e-2), "weight_decay": (1e-7, 1e-3), "max_hours": (12.0, 480.0),
    "dropout": (0.0, 0.7), "dropout_items": (0.0, 0.7), "dropout_state": (0.0, 0.7), "dropout_session": (0.0, 0.7),
    "smoothing": (0.0, 0.3), "temperature": (0.02, 0.3), "power": (0.0, 1.0), "logq": (0.0, 1.0),
    "regularisation": (0.0, 2.0), "popularity": (1e-3, 1.0), "idf": (0.0, 4.0), "strength": (0.1, 10.0),
    "margin": (0.05, 0.5), "epsilon": (0.01, 0.5), "exponent": (0.0, 1.5),
}  # fmt: skip
"""By setting, the range that is searched unless ``search`` names another."""
MULTIPLES = (0.5, 2)
MULTIPLIED = ("dim", "table_dim", "hidden", "head", "score_dim", "wide", "embedding", "batch_size", "negatives",
              "window", "neighbours", "sample", "num_layers", "cycles", "heads", "intervals", "warm_up",
              "epochs")  # fmt: skip
"""Settings of which half and twice the default are searched, as it was fitted to the data; ``epochs`` only where the
learning rate decays over them."""
CHOICES: Mapping[str, tuple[tuple[str | float, ...], ...]] = {
    "decay": ((False, True), ("linear", "reciprocal", "quadratic")), "loss": (("sampled", "ce"), ("bpr-max", "ce")),
    "cosine": ((False, True),), "copy": ((False, True),), "tied": ((False, True),), "lower": ((False, True),),
    "projection": (("learned", "mean"),), "reads": (("last", "all"),), "first": (("likeliest", "consensus"),),
    "min_count": ((1, 2, 3, 5),), "retrieved": ((0, 100),),
}  # fmt: skip
"""By setting, values that are searched if the default is one of them."""
FIRST = ("learning_rate", "dropout", "epochs", "loss", "batch_size", "first", "dim", "cosine", "exponent")
"""Settings that are changed first."""


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
    splits = split_data(known, VALID, seed), split_data(known, VALID, seed + 1, by="random")
    refit = {"refit": False} if "refit" in defaults else {}
    optuna = _optuna()
    study = _study(optuna, storage, f"{task} {model}", known, [fixed, search, seed], seed)
    end = start + 60 * minutes

    def predictor(changes: Mapping[str, object], repeat: int = 0) -> AnyPredictor:
        return make(task, model, settings={**fixed, **refit, **changes}, seed=seed + repeat)

    def score(
        candidate: AnyPredictor, fraction: float, check: Callable[[Report], object], repeat: int = 0
    ) -> tuple[str, float]:
        train, valid = splits[repeat]
        scored = _fraction(valid, math.sqrt(fraction), seed)  # little data says little
        for progress in candidate.fit(_fraction(train, fraction, seed), scored):
            check(progress)
        metric, (result,) = score_alone([candidate], scored)
        value = result.by_name()[metric]
        return metric, -value if metric in ERRORS else value

    def first_trial(trial: Trial) -> float:
        trial.set_user_attr(DEFAULTS, True)
        for fraction in FRACTIONS:
            checks: list[float] = []
            limit = math.inf if fraction == FRACTIONS[-1] else 60 * minutes / MIN_TRIALS
            candidate = predictor({})
            begin = time.monotonic(), time.process_time()
            try:
                metric, value = score(candidate, fraction, _first_check(checks, limit, end))
                break
            except _TooSlowError:
                continue
        for epoch, valid_metric in enumerate(checks):
            trial.report(valid_metric, epoch)
        schedule = {} if candidate.schedule is None else asdict(candidate.schedule)
        fitted = {name: value for name, value in {**candidate.all_settings, **schedule}.items() if name in defaults}
        duration = time.monotonic() - begin[0], time.process_time() - begin[1]
        mean = mean_score(trial, value, fraction)
        trial.set_user_attr(BEST, True)
        study.set_user_attr("first", _First(metric, fraction, *duration, fitted)._asdict())
        return mean

    def stop_late(progress: Report) -> None:
        if time.monotonic() > end:
            progress.stop()

    def mean_score(trial: Trial, value: float, fraction: float) -> float:
        scores = [value, score(predictor(_settings(trial), 1), fraction, stop_late, 1)[1]]
        trial.set_user_attr(SCORES, scores)
        return sum(scores) / 2

    def objective(trial: Trial) -> float:
        if "first" not in study.user_attrs:
            return first_trial(trial)
        first = _First(**study.user_attrs["first"])
        spaces = _spaces(task, model, search, fixed, first.fitted)
        changed = _changed(list(spaces), trial.number, seed)
        best_trial = _best(study)
        best = _settings(best_trial)
        values = {name: spaces[name](trial) for name in changed}
        # A value that the best trial has already is changed back to the default.
        values = {name: _rounded(value) for name, value in values.items() if name not in best or best[name] != value}
        trial.set_user_attr(SETTINGS, {name: best[name] for name in best if name not in changed} | values)
        try:
            value = score(predictor(_settings(trial)), first.fraction, _check(trial, first, last_start(first)))[1]
        except SettingError as error:  # such as a dim that is no multiple of heads
            trial.set_user_attr("refused", str(error))
            raise optuna.TrialPruned from error
        best_scores: list[float] = best_trial.user_attrs[SCORES]
        trial.set_user_attr(SCORES, [value])
        if value <= best_scores[0]:
            return value
        mean = mean_score(trial, value, first.fraction)
        trial.set_user_attr(BEST, 2 * mean - value > best_scores[1])
        return mean

    def last_start(first: _First) -> float:
        return end - FINAL_FITS * first.seconds * first.final(60 * minutes) / first.fraction

    def after_trial(study: Study, trial: FrozenTrial) -> None:
        if report is not None:
            report(_row(trial))
        if time.monotonic() > last_start(_First(**study.user_attrs["first"])):
            study.stop()

    study.optimize(objective, n_trials=trials, callbacks=[after_trial])
    first = _First(**study.user_attrs["first"])
    rows = tuple(_row(trial) for trial in study.trials)
    best_trial = _best(study)
    if DEFAULTS in best_trial.user_attrs:
        return Tuning(task, model, first.metric, {}, rows, None, first.fraction, first.fraction)
    final = first.final(60 * minutes)
    best = _settings(best_trial)
    pair = [predictor(changes) for changes in ({}, best)]
    for candidate in pair:
        deque(candidate.fit(_fraction(known, final, seed)), maxlen=0)
    metric, (default, tuned) = score_alone(pair, _fraction(test, math.sqrt(final), seed))
    gain = tuned.against(default, metric)
    gain |= {"defaults": default.by_name()[metric], "tuned": tuned.by_name()[metric]}
    is_better = gain["difference"] < 0 if metric in ERRORS else gain["difference"] > 0
    return Tuning(task, model, metric, best if is_better else {}, rows, gain, first.fraction, final)


class _TooSlowError(Exception):
    """The first trial takes more than its share of the time."""


class _First(NamedTuple):
    """What the first trial measured: metric, fraction of the data, wall and processor time, settings as fitted."""

    metric: str
    fraction: float
    seconds: float
    cpu_seconds: float
    fitted: Mapping[str, object]

    def final(self, seconds: float) -> float:
        """Return the fraction of the data that the last comparison has time for."""
        affordable = self.fraction * FINAL_FRACTION * seconds / FINAL_FITS / self.seconds
        return 1.0 if self.fraction == 1 else min(1.0, max(self.fraction, affordable))


def _first_check(checks: list[float], limit: float, end: float) -> Callable[[Report], None]:
    """Return what stores the checks of the first trial, and ends it where it would take longer than ``limit``."""
    begin = time.monotonic()

    def check(report: Report) -> None:
        if report.valid is not None:
            checks.append(_monitored(report))
        expected = elapsed = time.monotonic() - begin
        if report.step >= TIMED_STEPS:
            epochs = report.epoch - 1 + report.step / report.steps
            expected = report.seconds / epochs * min(report.epochs, MIN_EPOCHS)
        if max(elapsed, expected) > limit:
            raise _TooSlowError
        if time.monotonic() > end:
            report.stop()

    return check


def _check(trial: Trial, first: _First, end: float) -> Callable[[Report], None]:
    """Return what ends a trial: a median that is better after as many epochs, its duration, or the time."""
    latest = time.process_time() + MAX_DURATION * first.cpu_seconds
    epochs = count()

    def check(report: Report) -> None:
        if report.valid is not None:
            trial.report(_monitored(report), next(epochs))
            if trial.should_prune():
                raise _optuna().TrialPruned
            if time.monotonic() > end:
                report.stop()
        if time.process_time() > latest:
            trial.set_user_attr("refused", f"takes more than {MAX_DURATION:g} times as long as the defaults")
            raise _optuna().TrialPruned

    return check


def _monitored(report: Report) -> float:
    """Return the monitored metric, negative where the lowest is best."""
    assert report.valid is not None
    return -report.valid if report.monitor == "loss" else report.valid


def _fraction(data: Data, fraction: float, seed: int) -> Data:
    """Return a fraction of the data, the latest where it has an order."""
    return data if fraction == 1 else split_data(data, fraction, seed)[1]


def _changed(names: list[str], number: int, seed: int) -> set[str]:
    """Return the settings that a trial changes: they take turns, after the first turn each in another order."""
    names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    changed = set()
    for change in range(CHANGES * (number - 1), CHANGES * number):
        turn, index = divmod(change, len(names))
        changed.add(names[np.random.default_rng([seed, turn]).permutation(len(names))[index] if turn else index])
    return changed


def _spaces(
    task: str, model: str, search: Mapping[str, str] | None, fixed: Mapping[str, object], defaults: Mapping[str, object]
) -> dict[str, Callable[[Trial], object]]:
    """Return, by setting, the function that draws a value of a trial; ``defaults`` may be fitted to the data."""
    require_known({**(search or {}), **fixed}, set(defaults))
    if search is not None:
        spaces = {name: _parsed(name, text, defaults[name]) for name, text in search.items()}
    else:
        spaces = {name: _range(name, *ends, whole=False) for name, ends in RANGES.items() if name in defaults}
        for name in MULTIPLIED:
            if type(default := defaults.get(name)) is int and default > 0:
                sizes = {max(1, int(factor * default)) for factor in MULTIPLES}
                spaces[name] = _choice(name, sorted(sizes - {default}))
        for name, groups in CHOICES.items():
            default = defaults.get(name)
            for values in groups:
                if type(default) is type(values[0]) and default in values:
                    spaces[name] = _choice(name, [value for value in values if value != default])
                    break
        if catalogue_of(task).MODELS[model].schedule is None:
            spaces.pop("learning_rate", None)
        if not defaults.get("decay"):
            spaces.pop("epochs", None)
        if defaults.get("warm_up") is not None:  # the learning rate falls by another rule
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


def _best(study: Study) -> FrozenTrial:
    return [trial for trial in study.trials if trial.user_attrs.get(BEST)][-1]


def _settings(trial: Trial | FrozenTrial) -> dict[str, object]:
    return dict(trial.user_attrs.get(SETTINGS, {}))


def _rounded(value: object) -> object:
    """Return a value, numbers with three digits."""
    return float(f"{value:.3g}") if isinstance(value, float) else value


def _row(trial: FrozenTrial) -> dict[str, object]:
    """Return a trial as JSON."""
    row = {"number": trial.number, "state": trial.state.name.lower(), SETTINGS: _settings(trial), "value": trial.value}
    return {**row, **trial.user_attrs}


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
