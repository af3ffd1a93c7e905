"""Search for the settings of a model on held-out data, by Optuna (extra ``tune``).

The data is split into three parts. Each trial is trained on the first and scored on the second, by the first metric of
the evaluation. The third part, which no trial reads, measures what the best settings gain over the defaults; where they
gain nothing there, the defaults are kept.

The first trial has the defaults, and the second the settings with which ``best`` trains the model, if it has any. Every
other one changes two settings of the best trial so far: of a dozen trials that draw ten settings at once, hardly any is
near the defaults, which are good. The settings take turns. A trial that scores higher than the best one is trained and
scored once more, with another seed and on a random split; it is the best if it scores higher there too. Where the
defaults take more than a twelfth of the time, trials are trained on a fraction of the data.

The last comparison trains the defaults and the best settings once more. The time for it is kept free while trials run,
by how long both took in their trials; a trial that reaches into it is pruned.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypedDict, Unpack

import numpy as np

from ensue.arguments import require_fraction
from ensue.data.test_split import split_data, to_frame
from ensue.errors import SettingError
from ensue.evaluation.comparison import Data, score_alone
from ensue.evaluation.result import ERRORS
from ensue.learning.life import LAST_TRAINING
from ensue.metrics import label
from ensue.predictor import AnyPredictor, make
from ensue.registry import best_changes, catalogue_of, require_model, settings_of
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
FINAL_FACTOR = 1.5
"""Duration of the last comparison as a multiple of what its two trainings took in trials, on the same fraction: it has
1 / (1 - ``VALID``) times their data."""
FINAL_FRACTION = 0.3
"""Fraction of the time that is kept free for the last comparison if trials are trained on a fraction of the data: more
only where as much data takes longer, and less where all the data takes less."""
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
SECONDS = "seconds"
"""Attribute of a trial with the duration of its first training and scoring."""
NO_TIME = "the time was over before it could be compared with the defaults"
"""Reason for which a trial is pruned."""
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
FIRST_CHANGED = ("learning_rate", "dropout", "epochs", "loss", "batch_size", "first", "dim", "cosine", "exponent")
"""Settings that are changed first."""


@dataclass(frozen=True)
class Tuning:
    """The outcome of a search.

    Attributes:
        task: of the model.
        model: its name.
        metric: by which trials were scored, and the gain is measured.
        settings: the best settings that differ from the defaults; empty where the defaults are kept.
        trials: each trial's number, state, settings, metric, and the ``seconds`` of its first training and scoring.
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
        if len(self.trials) == 1:
            return "there was no trial but the defaults; give more minutes or trials"
        if self.gain is None:
            return f"no trial was better than the defaults by {label(self.metric)} on the validation data"
        gain = {name: 100 * self.gain[name] for name in ("difference", "low", "high")}
        percent = 100 * self.final_fraction
        data_note = "" if percent == 100 else f", both trained on {percent:.2g} % of the data"
        ending = "" if self.settings else ": the defaults are kept"
        return (
            f"{label(self.metric)} on held-out data: {gain['difference']:+.2f} points over the defaults (95 % CI "
            f"{gain['low']:.2f} to {gain['high']:.2f}, p = {self.gain['p_value']:.3f}){data_note}{ending}"
        )


class TuningOptions(TypedDict, total=False):
    """Keywords of :func:`tune`."""

    search: Mapping[str, str] | None
    """By setting, ``low:high`` or the values to choose from, ``64,128,256``. [default: ``RANGES``, ``MULTIPLIED`` and
    ``CHOICES``, as far as the model has these settings]"""
    minutes: float
    """Duration of the search, the last comparison included; a trial that is running when its time is over is pruned.
    [default: 30]"""
    trials: int | None
    """Maximum number of trials. [default: no bound]"""
    test_size: float
    """Fraction of the data that measures the gain. [default: 0.2]"""
    storage: str | Path | None
    """SQLite file from which the search is resumed."""
    seed: int
    """Seed of the search, the splits and the trainings. [default: 0]"""
    settings: Mapping[str, object] | None
    """Settings that stay fixed."""
    report: Callable[[Mapping[str, object]], object] | None
    """Function that gets each trial that has ended."""


def tune(task: str, data: Data, model: str, **options: Unpack[TuningOptions]) -> Tuning:
    """Search for settings of a model; see :func:`ensue.model_selection.tune` and :class:`TuningOptions`."""
    start = time.monotonic()
    search = options.get("search")
    minutes = options.get("minutes", 30.0)
    trials = options.get("trials")
    seed = options.get("seed", 0)
    report = options.get("report")
    if require_model(task, model) == "best":
        raise SettingError("best is several models; search the settings of one, such as --model core")
    if not minutes > 0 or (trials is not None and require_integer("trials", trials) < 1):
        raise SettingError("give minutes above 0, and at least one trial")
    defaults = {setting.name: setting.default for setting in settings_of(task, model)}
    fixed = {**(options.get("settings") or {}), **({"refit": False} if "refit" in defaults else {})}
    _spaces(task, model, search, fixed, defaults)
    search_data, test = split_data(data, require_fraction(options.get("test_size", 0.2), "test_size"), seed)
    study = _study(options.get("storage"), f"{task} {model}", search_data, [fixed, search, seed], seed)
    tuner = _Tuner(task, model, search, fixed, seed, study, search_data, 60 * minutes, start + 60 * minutes)

    def after_trial(study: Study, trial: FrozenTrial) -> None:
        if report is not None:
            report(_row(trial))
        if not tuner.has_time:
            study.stop()

    study.optimize(tuner.run_trial, n_trials=trials, callbacks=[after_trial])
    return tuner.outcome(test)


_Check = Callable[[Report], None]
"""Gets the reports of a training; ends it by an exception."""


class _TooSlowError(Exception):
    """The first trial takes more than its share of the time."""


class _Score(NamedTuple):
    """Outcome of a training on a fraction of the data: a metric, negative where the lowest is best, and durations."""

    metric: str
    value: float
    fraction: float
    seconds: float
    cpu_seconds: float
    fitted: Mapping[str, object]
    """Settings, those that were fitted to the data as they were fitted."""


@dataclass(frozen=True)
class _Tuner:
    """A search: it runs trials, and compares the best one with the defaults.

    Attributes:
        data: training and validation data of the trials.
        seconds: duration of the search.
        end: value of ``time.monotonic()`` at which it is to end.
    """

    task: str
    model: str
    search: Mapping[str, str] | None
    fixed: Mapping[str, object]
    seed: int
    study: Study
    data: Data
    seconds: float
    end: float

    @cached_property
    def splits(self) -> tuple[tuple[Data, Data], ...]:
        """(training data, validation data) of the first and the second training of a trial."""
        return split_data(self.data, VALID, self.seed), split_data(self.data, VALID, self.seed + 1, by="random")

    @property
    def first(self) -> _Score:
        return _Score(**self.study.user_attrs["first"])

    @property
    def best(self) -> FrozenTrial:
        return [trial for trial in self.study.trials if trial.user_attrs.get(BEST)][-1]

    @property
    def has_time(self) -> bool:
        """True if a trial that takes as long as the defaults would end in time."""
        return time.monotonic() + self.first.seconds <= self.last_start(self.first, self.best.user_attrs[SECONDS])

    def last_start(self, first: _Score, seconds: float) -> float:
        """Return the latest start of the last comparison, of settings that took some seconds in their trial."""
        same_data = FINAL_FACTOR * (first.seconds + seconds)
        return self.end - max(same_data, min(same_data / first.fraction, FINAL_FRACTION * self.seconds))

    def predictor(self, changes: Mapping[str, object], repeat: int = 0) -> AnyPredictor:
        return make(self.task, self.model, settings={**self.fixed, **changes}, seed=self.seed + repeat)

    def score(
        self, changes: Mapping[str, object], fraction: float, repeat: int = 0, *, check: _Check | None = None
    ) -> _Score:
        """Train a predictor, at most until ``end``, and score it on one of the splits; ``check`` gets the reports."""
        start_time = time.monotonic()
        start_cpu_time = time.process_time()
        train, valid = self.splits[repeat]
        valid = _latest(valid, math.sqrt(fraction), self.seed)  # little data says little
        candidate = self.predictor(changes, repeat)
        for progress in candidate.fit(_latest(train, fraction, self.seed), valid):
            if check is not None:
                check(progress)
            if time.monotonic() > self.end:
                progress.stop()
        metric, (result,) = score_alone([candidate], valid)
        value = result.by_name()[metric] * (-1 if metric in ERRORS else 1)
        names = {setting.name for setting in settings_of(self.task, self.model)}
        schedule = {} if candidate.schedule is None else asdict(candidate.schedule)
        fitted = {name: setting for name, setting in {**candidate.all_settings, **schedule}.items() if name in names}
        seconds, cpu_seconds = time.monotonic() - start_time, time.process_time() - start_cpu_time
        return _Score(metric, value, fraction, seconds, cpu_seconds, fitted)

    def run_trial(self, trial: Trial) -> float:
        """Run one trial; returns its score, or the mean of two."""
        if "first" not in self.study.user_attrs:
            return self._run_first(trial)
        first = self.first
        best = self.best
        best_scores: list[float] = best.user_attrs[SCORES]
        best_seconds: float = best.user_attrs[SECONDS]
        spaces = _spaces(self.task, self.model, self.search, self.fixed, first.fitted)
        drawn = self._drawn(trial, spaces)
        best_so_far: dict[str, object] = best.user_attrs[SETTINGS]
        # A value that the best trial has already is changed back to the default.
        values = {name: value for name, value in drawn.items() if best_so_far.get(name) != value}
        changes = {name: value for name, value in best_so_far.items() if name not in drawn} | values
        trial.set_user_attr(SETTINGS, changes)
        check = self._check(trial, best_seconds, is_first=True)
        try:
            score = self.score(changes, first.fraction, check=check)
        except SettingError as error:  # such as a dim that is no multiple of heads
            _prune(trial, str(error))
        trial.set_user_attr(SECONDS, score.seconds)
        trial.set_user_attr(SCORES, [score.value])
        if score.value <= best_scores[0]:
            return score.value
        best_seconds = max(best_seconds, score.seconds)
        if time.monotonic() + score.seconds > self.last_start(first, best_seconds):
            _prune(trial, NO_TIME)
        second = self.score(changes, first.fraction, 1, check=self._check(trial, best_seconds)).value
        trial.set_user_attr(SCORES, [score.value, second])
        trial.set_user_attr(BEST, second > best_scores[1])
        return (score.value + second) / 2

    def _drawn(self, trial: Trial, spaces: Mapping[str, Callable[[Trial], object]]) -> dict[str, object]:
        """Return values of the settings that a trial changes."""
        start = {} if self.search else best_changes(self.task, self.model)
        start = {name: value for name, value in start.items() if name in spaces}
        if start and trial.number == 1:
            return start
        changed = _changed(list(spaces), trial.number - bool(start), self.seed)
        return {name: spaces[name](trial) for name in changed}

    def _run_first(self, trial: Trial) -> float:
        """Run the trial of the defaults, on the largest fraction of the data that leaves time for others."""
        trial.set_user_attr(DEFAULTS, True)
        trial.set_user_attr(SETTINGS, {})
        for fraction in FRACTIONS:
            valid_metrics: list[float] = []
            limit = math.inf if fraction == FRACTIONS[-1] else self.seconds / MIN_TRIALS
            with suppress(_TooSlowError):
                score = self.score({}, fraction, check=_first_check(valid_metrics, limit))
                break
        for epoch, valid_metric in enumerate(valid_metrics):
            trial.report(valid_metric, epoch)
        second = self.score({}, fraction, 1).value
        trial.set_user_attr(SECONDS, score.seconds)
        trial.set_user_attr(SCORES, [score.value, second])
        trial.set_user_attr(BEST, True)
        self.study.set_user_attr("first", score._asdict())
        return (score.value + second) / 2

    def _check(self, trial: Trial, best_seconds: float, *, is_first: bool = False) -> _Check:
        """Return the check that prunes a trial by its duration, the time, or the median of others after as many epochs.

        Args:
            trial: which is running.
            best_seconds: duration of the trial whose settings are compared at last, if this one takes no longer.
            is_first: it is the first of two trainings, which is compared with the median of others.
        """
        first = self.first
        start_time = time.monotonic()
        latest = time.process_time() + MAX_DURATION * first.cpu_seconds
        epochs = count()

        def check(report: Report) -> None:
            if is_first and report.valid is not None:
                trial.report(_monitored(report), next(epochs))
                if trial.should_prune():
                    raise _optuna().TrialPruned
            if time.process_time() > latest:
                _prune(trial, f"takes more than {MAX_DURATION:g} times as long as the defaults")
            now = time.monotonic()
            seconds = now - start_time
            # The second training takes as long as the first one.
            if now + is_first * seconds > self.last_start(first, max(best_seconds, seconds)):
                _prune(trial, NO_TIME)

        return check

    def outcome(self, test: Data) -> Tuning:
        """Compare the best settings with the defaults on the third part of the data, on as much as there is time for.

        A training ends after the epoch in which its share of the time is over.
        """
        first = self.first
        best = self.best
        rows = tuple(_row(trial) for trial in self.study.trials)
        if DEFAULTS in best.user_attrs:
            return Tuning(self.task, self.model, first.metric, {}, rows, None, first.fraction, first.fraction)
        best_seconds = best.user_attrs[SECONDS]
        pair_seconds = first.seconds + best_seconds
        remaining = self.end - time.monotonic()
        affordable = first.fraction * remaining / (FINAL_FACTOR * pair_seconds)
        fraction = min(1.0, max(FRACTIONS[-1], affordable))
        train = _latest(self.data, fraction, self.seed)
        settings: dict[str, object] = best.user_attrs[SETTINGS]
        pair = [self.predictor(changes) for changes in ({}, settings)]
        end = self.end - remaining * (1 - LAST_TRAINING)  # the rest is for the scoring
        ends = [end - remaining * LAST_TRAINING * best_seconds / pair_seconds, end]
        for candidate, end in zip(pair, ends, strict=True):
            for report in candidate.fit(train):
                if time.monotonic() > end:
                    report.stop()
        metric, (default, tuned) = score_alone(pair, _latest(test, math.sqrt(fraction), self.seed))
        gain = tuned.against(default, metric)
        gain |= {"defaults": default.by_name()[metric], "tuned": tuned.by_name()[metric]}
        is_better = gain["difference"] < 0 if metric in ERRORS else gain["difference"] > 0
        return Tuning(
            self.task, self.model, metric, settings if is_better else {}, rows, gain, first.fraction, fraction
        )


def _prune(trial: Trial, reason: str) -> NoReturn:
    trial.set_user_attr("refused", reason)
    raise _optuna().TrialPruned


def _first_check(valid_metrics: list[float], limit: float) -> _Check:
    """Return the check that stores the metrics of the first trial, and ends it if it would exceed ``limit`` seconds."""
    start_time = time.monotonic()

    def check(report: Report) -> None:
        if report.valid is not None:
            valid_metrics.append(_monitored(report))
        expected = elapsed = time.monotonic() - start_time
        if report.step >= TIMED_STEPS:
            epochs = report.epoch - 1 + report.step / report.steps
            expected = report.seconds / epochs * min(report.epochs, MIN_EPOCHS)
        if max(elapsed, expected) > limit:
            raise _TooSlowError

    return check


def _monitored(report: Report) -> float:
    """Return the monitored metric, negative where the lowest is best."""
    assert report.valid is not None
    return -report.valid if report.monitor == "loss" else report.valid


def _latest(data: Data, fraction: float, seed: int) -> Data:
    """Return a fraction of the data, the latest where it has an order."""
    return data if fraction == 1 else split_data(data, fraction, seed)[1]


def _changed(names: list[str], number: int, seed: int) -> set[str]:
    """Return the settings that a trial changes: they take turns, after the first turn each in another order."""
    names.sort(key=lambda name: FIRST_CHANGED.index(name) if name in FIRST_CHANGED else len(FIRST_CHANGED))
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
        spaces = {name: _range(name, *ends, is_integer=False) for name, ends in RANGES.items() if name in defaults}
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
    is_integer = isinstance(default, int) and not isinstance(default, bool)
    with suppress(ValueError):
        if len(ends) == 2:
            return _range(name, float(ends[0]), float(ends[1]), is_integer=is_integer)
    values = [value.strip() for value in text.split(",") if value.strip()]
    if len(values) < 2 or len(ends) > 1:
        raise SettingError(f"search {name}={text!r} is not understood; give low:high, or values such as 64,128")
    if isinstance(default, bool) or not isinstance(default, int | float):
        return _choice(name, values)
    try:
        return _choice(name, [type(default)(value) for value in values])
    except ValueError:
        raise SettingError(f"search {name}={text!r}: {name} is a number") from None


def _range(name: str, low: float, high: float, *, is_integer: bool) -> Callable[[Trial], object]:
    if not (math.isfinite(low) and low < high < math.inf):
        raise SettingError(f"search {name}: {low:g}:{high:g} is no range; give low:high")
    log = low > 0 and high / low >= SMALLEST_LOG_RATIO
    if is_integer:
        return lambda trial: trial.suggest_int(name, int(low), int(high), log=log)
    return lambda trial: float(f"{trial.suggest_float(name, low, high, log=log):.3g}")


def _choice(name: str, values: Sequence[str | float]) -> Callable[[Trial], object]:
    return lambda trial: trial.suggest_categorical(name, values)


def _row(trial: FrozenTrial) -> dict[str, object]:
    """Return a trial as JSON."""
    return {"number": trial.number, "state": trial.state.name.lower(), "value": trial.value, **trial.user_attrs}


def _study(storage: str | Path | None, name: str, data: Data, search: object, seed: int) -> Study:
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
    optuna = _optuna()
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
