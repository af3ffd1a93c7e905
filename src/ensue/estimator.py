"""The base class of the estimators: parameters, training, evaluation and model folders."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, Self, TypeVar, Unpack

from ensue.arguments import bool_or_auto, optional_path, require_bool
from ensue.callbacks import Callback, FinishingCallback, progress_bar
from ensue.data import inputs
from ensue.data.inputs import ReadingOptions, TrainingReading
from ensue.data.schema import NO_SCHEMA, DataSchema
from ensue.errors import ModelFolderError, SettingError
from ensue.learning.vectors import vector_frame
from ensue.predictor import AnyPredictor, make
from ensue.predictor import load as load_predictor
from ensue.records import Record
from ensue.registry import require_model, require_settings, task_of

if TYPE_CHECKING:
    import polars as pl

    from ensue.evaluation.comparison import Data
    from ensue.training.report import Report

P = TypeVar("P", bound=AnyPredictor)
Auto = Literal["auto"]
_WARNING = "warning: "
"""Beginning of a note that a person has to see."""


class Training(TrainingReading, total=False):
    """Keywords of :meth:`Estimator.fit`."""

    callbacks: Iterable[Callback]
    progress: bool | Auto
    checkpoint: str | Path | None
    resume: bool


class Estimator(Generic[P]):
    """Base class of the four estimators: parameters, training, evaluation and model folders.

    Args:
        model: name of a model (``ensue models`` lists them), or ``best``: the default ensemble.
        seed: seed of all random numbers; the same seed, data and machine give the same bytes on the CPU.
        device: ``cpu`` or ``cuda``. [default: the GPU if there is one]
        settings: settings of the model by name (``ensue settings`` lists them), such as ``dim=128, epochs=5``.

    Raises:
        SettingError: an unknown model or setting.
    """

    task: ClassVar[str]
    predictor_: P
    """The fitted predictor; absent before ``fit``."""

    def __init__(self, model: str = "best", *, seed: int = 0, device: str | None = None, **settings: object) -> None:
        self.model = model
        self.seed = seed
        self.device = device
        self._settings = settings
        _require_names(self.task, model, settings)

    # Training

    def fit(
        self,
        data: object,
        valid: object = None,
        *,
        callbacks: Iterable[Callback] = (),
        progress: bool | Auto = "auto",
        checkpoint: str | Path | None = None,
        resume: bool = False,
        **reading: Unpack[TrainingReading],
    ) -> Self:
        """Train the model and return the estimator.

        Args:
            data: training data: a path, a frame or lists, see the class.
            valid: validation data for early stopping and model selection. [default: a tenth of ``data``]
            callbacks: functions that get each report of the training (:mod:`ensue.callbacks`).
            progress: whether to show a progress bar on stderr; ``auto`` shows it on a terminal.
            checkpoint: file in which the state of the training is saved.
            resume: whether to continue from the checkpoint.
            reading: how ``data`` and ``valid`` are read, see :class:`TrainingReading`.

        Raises:
            DataError: the data cannot be read, or is too little to train on.
            SettingError: an invalid setting, or the checkpoint of another training.
        """
        functions = inputs.functions_of(callbacks, "callbacks")
        reports = self.fit_iter(data, valid, checkpoint=checkpoint, resume=resume, **reading)
        with progress_bar(bool_or_auto(progress, "progress")) as show_report:
            for report in reports:
                if report.note.startswith(_WARNING):
                    warnings.warn(report.note.removeprefix(_WARNING), stacklevel=2)
                for callback in (show_report, *functions):
                    callback(report)
        for callback in functions:
            if isinstance(callback, FinishingCallback):
                callback.finish(self.predictor_.summary())
        return self

    def fit_iter(
        self,
        data: object,
        valid: object = None,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        **reading: Unpack[TrainingReading],
    ) -> Iterator[Report]:
        """Read the data and return an iterator that trains the model, one report per step; see :meth:`fit`.

        The estimator is fitted when the iterator is exhausted.
        """
        predictor: P = make(  # type: ignore[assignment]
            self.task, self.model, settings=self._settings, seed=self.seed, device=self.device
        )
        self.__dict__.pop("predictor_", None)
        if str(self._settings.get("min_users", 1)) != "1":
            self._require_people(data, reading)
        train, schema = self._read_for_training(data, NO_SCHEMA, reading)
        # Validation data is read by the schema of the training data; what was stated is in it.
        held_out = None if valid is None else self._read(valid, schema, {})[0]
        reports = predictor.fit(
            train, held_out, checkpoint=optional_path(checkpoint, "checkpoint"), resume=require_bool(resume, "resume")
        )
        return self._trained(predictor, schema, reports)

    def _trained(self, predictor: P, schema: DataSchema, reports: Iterator[Report]) -> Iterator[Report]:
        yield from reports
        predictor.metadata.reading = schema.to_dict()
        self.predictor_ = predictor

    def update(self, data: object, **reading: Unpack[TrainingReading]) -> Self:
        """Continue the training with one pass over new data, and return the estimator.

        The new version is not tested; ``ensue update`` compares it with the old one before it replaces it.

        Args:
            data: new data, as for :meth:`fit`.
            reading: as for :meth:`fit`. [default: as the training data was read]

        Raises:
            DataError: the data cannot be read, or is too little to train on.
            SettingError: not fitted.
        """
        self._fitted.update(self._read_for_training(data, self._schema, reading)[0])
        return self

    def vectors(self, data: object = None, **reading: Unpack[ReadingOptions]) -> pl.DataFrame:
        """Return a polars frame of vectors: columns ``id`` and ``vector``, one row per item or record.

        Args:
            data: sessions, texts or posts to encode, as for ``predict``; a record of nothing that the model knows has
                no vector, and one without an id gets its number. [default: the items or articles of the model]
            reading: as for :meth:`fit`. [default: as the training data was read]

        Raises:
            SettingError: not fitted, or the model has no such vectors.
        """
        predictor = self._fitted
        return vector_frame(predictor, None if data is None else self._records(data, reading))

    def _records(self, data: object, reading: ReadingOptions) -> Sequence[Record]:
        """Return data as records to predict."""
        raise NotImplementedError

    # Folders

    def save(self, folder: str | Path) -> None:
        """Write the model folder; an existing model is replaced atomically.

        Raises:
            ModelFolderError: the folder is not writable, or exists and holds no model.
            SettingError: not fitted.
        """
        self._fitted.save(folder, self._fitted.card())

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a model folder of this task; see :func:`ensue.load`."""
        if (task := task_of(folder)) != cls.task:
            estimator_class = next(kind.__name__ for kind in Estimator.__subclasses__() if kind.task == task)
            raise ModelFolderError(f"{folder}: holds a model of task {task}; load it with {estimator_class}")
        predictor = load_predictor(folder, device=device)
        estimator = cls(predictor.model_name, seed=predictor.seed, device=device)
        vars(estimator)["predictor_"] = predictor
        return estimator

    @property
    def _fitted(self) -> P:
        """The fitted predictor, or an error that says how to get one."""
        if not self.__sklearn_is_fitted__():
            raise SettingError(f"this {type(self).__name__} is not fitted; call fit(data) first, or ensue.load(folder)")
        return self.predictor_

    @property
    def _schema(self) -> DataSchema:
        return DataSchema.from_dict(self._fitted.metadata.reading or {})

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return "predictor_" in self.__dict__

    @staticmethod
    def _read(data: object, schema: DataSchema, reading: ReadingOptions) -> tuple[Data, DataSchema]:
        """Return data as the type of the task, and how it was read: a function of :mod:`ensue.data.inputs`."""
        raise NotImplementedError

    def _read_for_training(self, data: object, schema: DataSchema, reading: TrainingReading) -> tuple[Data, DataSchema]:
        return self._read(data, schema, reading)

    @staticmethod
    def _require_people(data: object, reading: ReadingOptions) -> None:
        """Refuse data whose sessions ``min_users`` would count as people although it has a column of users."""

    # Parameters, as scikit-learn has them

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters of the constructor by name, including the settings."""
        return {"model": self.model, "seed": self.seed, "device": self.device, **self._settings}

    def set_params(self, **params: object) -> Self:
        """Change parameters of the constructor and return the estimator; the fitted model stays until the next fit.

        Raises:
            SettingError: an unknown model or setting.
        """
        settings = {**self.get_params(), **params}
        attributes = {name: settings.pop(name) for name in ("model", "seed", "device")}
        _require_names(self.task, attributes["model"], settings)
        self._settings = settings
        vars(self).update(attributes)
        return self

    def __repr__(self) -> str:
        """Return the call of the constructor, without defaults."""
        defaults = {"seed": 0, "device": None}
        params = {name: value for name, value in self.get_params().items() if name not in defaults}
        params |= {name: vars(self)[name] for name, default in defaults.items() if vars(self)[name] != default}
        model = params.pop("model")
        arguments = [repr(model), *(f"{name}={value!r}" for name, value in params.items())]
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _repr_html_(self) -> str:
        """Return the constructor's call and, once fitted, a table of the training data, metrics and size."""
        table = self.predictor_._repr_html_() if self.__sklearn_is_fitted__() else ""
        return f"<code>{escape(repr(self))}</code>{table}"

    def __getstate__(self) -> dict[str, object]:
        """Return the parameters for ``pickle``, which is refused for a fitted estimator."""
        if self.__sklearn_is_fitted__():
            raise SettingError(
                f"a fitted {type(self).__name__} is not pickled; write it with save(folder), read it with ensue.load"
            )
        return self.__dict__


def _require_names(task: str, model: object, settings: Mapping[str, object]) -> None:
    """Refuse an unknown model or setting, and a file or an encoder that is not there; ``fit`` checks other values."""
    name = require_model(task, str(model))
    if settings:
        require_settings(task, name, {key: str(value) for key, value in settings.items() if value is not None})
