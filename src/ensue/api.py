"""Estimators: one class per question, used like those of scikit-learn.

===================  ====================================  ==========================================
class                question                              fitted on
===================  ====================================  ==========================================
NextEvent            what follows in a sequence            sessions, cascades: lists of ids
TextClassifier       which label fits a text               labelled texts
QuerySuggester       which search query follows            sessions of queries
PostLinker           which article a post is about         articles, and posts linked to them
===================  ====================================  ==========================================

    >>> import ensue
    >>> model = ensue.NextEvent("markov").fit("clicks.csv")
    >>> model.predict([["crack-explained", "bridge-history"]], k=3).values
    [['bridge-closes', 'bridge-detour', 'crack-explained']]
    >>> result = model.evaluate("last_days.csv")
    >>> model.save("models/markov")
    >>> ensue.load("models/markov")
    NextEvent('markov')

Data is the path of a file, of a folder or a pattern; a data frame of polars, pandas or pyarrow; or plain lists.
Every error is an :class:`~ensue.errors.EnsueError` with the same line that the command line prints.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from ensue.answers import Answer, Explanation, LinkAnswer, LinkExplanation, QueryExplanation, TextExplanation
from ensue.callbacks import Callback
from ensue.cli import show
from ensue.data import inputs
from ensue.data.inputs import Reading, column_of
from ensue.data.schema import NO_SCHEMA, DataSchema
from ensue.errors import ModelFolderError, SettingError
from ensue.evaluation import AT, Data, LinkResult, Result, SuggestResult, TextResult, describe, evaluate
from ensue.predictions import Predictions
from ensue.predictor import AnyPredictor, make
from ensue.predictor import load as load_predictor
from ensue.records import label_text
from ensue.registry import require_model, require_settings, task_of
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.state import Forgotten
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.training.report import Report

if TYPE_CHECKING:
    from sklearn.utils import Tags


P = TypeVar("P", bound=AnyPredictor)


class Training(Reading, total=False):
    """Keywords of :meth:`Estimator.fit`."""

    callbacks: Iterable[Callback]
    progress: bool | None
    checkpoint: str | Path | None
    resume: bool


class Estimator(Generic[P]):
    """What the four estimators share: parameters, training, evaluation, folders.

    Args:
        model: name of a model (``ensue models`` lists them), or ``best``: the default ensemble.
        seed: the same seed, data and machine give the same bytes on the CPU.
        device: ``cpu`` or ``cuda``; a GPU is used when there is one.
        settings: settings of the model by name (``ensue settings`` lists them), such as ``dim=128, epochs=5``.

    Raises:
        SettingError: a model that there is not, or a setting that it does not have.
    """

    task: ClassVar[str]
    predictor_: P
    """What was fitted; there is none before."""

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
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        **reading: Unpack[Reading],
    ) -> Self:
        """Train the model and return the estimator.

        Args:
            data: what the model is trained on: a path, a frame or lists, see the class.
            valid: what early stopping and model selection go by. [default: a tenth of ``data`` is held out]
            callbacks: functions that get each report (:mod:`ensue.callbacks`).
            progress: whether to show a progress bar on stderr. [default: on a terminal]
            checkpoint: a file from which a killed training continues.
            resume: continue from there.
            reading: how ``data`` and ``valid`` are read, see :class:`Reading`.

        Raises:
            DataError: nothing can be learned from the data, or it cannot be read.
            SettingError: a setting without meaning, or the checkpoint of another training.
        """
        reports = self.fit_iter(data, valid, checkpoint=checkpoint, resume=resume, **reading)
        with _shown(progress) as show_report:
            for report in reports:
                for callback in (show_report, *callbacks):
                    callback(report)
        return self

    def fit_iter(
        self,
        data: object,
        valid: object = None,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        **reading: Unpack[Reading],
    ) -> Iterator[Report]:
        """Train the model step by step: data is read at once, each report is one step; see :meth:`fit`.

        The estimator is fitted once the iterator is exhausted.
        """
        predictor: P = make(  # type: ignore[assignment]
            self.task, self.model, settings=self._settings, seed=self.seed, device=self.device
        )
        self.__dict__.pop("predictor_", None)
        if str(self._settings.get("min_users", 1)) != "1":
            self._require_people(data, reading)
        train, schema = self._read(data, NO_SCHEMA, reading)
        held_out = None if valid is None else self._read(valid, schema, {})[0]
        reports = predictor.fit(
            train, held_out, checkpoint=None if checkpoint is None else Path(checkpoint), resume=resume
        )
        return self._trained(predictor, schema, reports)

    def _trained(self, predictor: P, schema: DataSchema, reports: Iterator[Report]) -> Iterator[Report]:
        yield from reports
        predictor.metadata.reading = schema.to_dict()
        self.predictor_ = predictor

    def update(self, data: object, **reading: Unpack[Reading]) -> Self:
        """Train on new data on top of what was fitted, in one pass, and return the estimator.

        Nothing is tested: ``ensue update`` compares the new version with the old one before it takes over.

        Args:
            data: as of :meth:`fit`.
            reading: as of :meth:`fit`; like the training data unless stated.

        Raises:
            DataError: nothing can be learned from the data.
            SettingError: not fitted.
        """
        self._fitted.update(self._read(data, self._schema, reading)[0])
        return self

    # Folders

    def save(self, folder: str | Path) -> None:
        """Write the model folder; a model that is there is replaced as a whole.

        Raises:
            ModelFolderError: not writable, full, or something that is no model is there.
            SettingError: not fitted.
        """
        self._fitted.save(folder, describe(self._fitted))

    @classmethod
    def load(cls, folder: str | Path, *, device: str | None = None) -> Self:
        """Read a model folder that :meth:`save` or ``ensue fit`` wrote.

        Args:
            folder: a folder of this estimator's task.
            device: ``cpu`` or ``cuda``; a GPU is used when there is one.

        Raises:
            ModelFolderError: it is incomplete, damaged, of another task, or no model folder.
        """
        if (task := task_of(folder)) != cls.task:
            raise ModelFolderError(f"{folder}: holds a model of task {task}; read it with {ESTIMATORS[task].__name__}")
        predictor = load_predictor(folder, device=device)
        estimator = cls(predictor.model_name, seed=predictor.seed, device=device)
        vars(estimator)["predictor_"] = predictor
        return estimator

    @property
    def _fitted(self) -> P:
        """The predictor.

        Raises:
            SettingError: not fitted.
        """
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
    def _read(data: object, schema: DataSchema, reading: Reading) -> tuple[Data, DataSchema]:
        """Return data of the task's own type, and how it was read: a function of :mod:`ensue.data.inputs`."""
        raise NotImplementedError

    @staticmethod
    def _require_people(data: object, reading: Reading) -> None:
        """Refuse data in which ``min_users`` would count sessions as people although it names users."""

    # Parameters, as scikit-learn has them

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters of the constructor by name, settings among them."""
        return {"model": self.model, "seed": self.seed, "device": self.device, **self._settings}

    def set_params(self, **params: object) -> Self:
        """Change parameters of the constructor and return the estimator; what was fitted stays until the next fit.

        Raises:
            SettingError: a setting that the model does not have.
        """
        changed = {**self.get_params(), **params}
        own = {name: changed.pop(name) for name in ("model", "seed", "device")}
        _require_names(self.task, own["model"], changed)
        self._settings = changed
        for name, value in own.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the constructor's call, without what has its default."""
        settings = [f"{name}={value!r}" for name, value in self._settings.items()]
        others = [f"seed={self.seed!r}"] * (self.seed != 0) + [f"device={self.device!r}"] * (self.device is not None)
        return f"{type(self).__name__}({', '.join([repr(self.model), *others, *settings])})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows of an estimator."""
        return f"<code>{escape(repr(self))}</code>"

    def __getstate__(self) -> dict[str, object]:
        """Return the parameters; a fitted estimator is not pickled.

        Raises:
            SettingError: it is fitted.
        """
        if self.__sklearn_is_fitted__():
            raise SettingError(
                f"a fitted {type(self).__name__} is not pickled; write it with save(folder), read it with ensue.load"
            )
        return self.__dict__


class NextEvent(Estimator[NextPredictor]):
    """Rank what follows in a sequence: the next user of a cascade, the next item of a session.

    Data is a log of events (a path or a frame with columns such as session, item and timestamp), or lists:
    ``[["a", "b"], ["c"]]``, with times ``[(["a", "b"], [0.0, 60.0])]``.

    Example:
        >>> from ensue import NextEvent
        >>> model = NextEvent("markov").fit([["a", "b"], ["a", "b"], ["b", "c"]])
        >>> model.predict([["a"]], k=1).values
        [['b']]
    """

    task = "next"
    _read, _require_people = staticmethod(inputs.histories_from), staticmethod(inputs.require_people)

    def forget(self, data: object, values: Collection[str] = (), **reading: Unpack[Reading]) -> Forgotten:
        """Remove what the model holds of a person, and return what was removed and what remains.

        Args:
            data: the person's histories, as they were trained on.
            values: ids that stand for the person, such as a user who passes cascades on.
            reading: as of :meth:`fit`; like the training data unless stated.
        """
        return self._fitted.forget(self._read(data, self._schema, reading)[0], values)

    def predict(
        self,
        queries: object,
        k: int = 10,
        *,
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
        exclude_seen: bool | None = None,
        rank_unknown: bool = False,
        explain: bool = False,
        **reading: Unpack[Reading],
    ) -> Predictions[Answer]:
        """Return the ``k`` likeliest next ids of each history.

        Args:
            queries: histories, oldest event first, as of :meth:`fit`.
            k: ids per history, fewer if there are fewer.
            exclude: ids that are no answer, such as what is sold out.
            allow: the only ids that are answers. [default: all]
            exclude_seen: whether ids of a history are no answers. [default: ``exclusion`` of the model card]
            rank_unknown: also rank ids of a history that the training data lacks.
            explain: fill the attributions of each choice (a few more passes).
            reading: as of :meth:`fit`; like the training data unless stated.

        Raises:
            SettingError: not fitted, or ``k`` below 1.
        """
        records = list(self._read(queries, self._schema, reading)[0].records())
        predict = partial(self._fitted.predict, exclude_seen=exclude_seen, rank_unknown=rank_unknown)
        return Predictions(predict(records, k, evidence=explain, exclude=exclude, allow=allow))

    def explain(self, queries: object, k: int = 3, **reading: Unpack[Reading]) -> list[Explanation]:
        """Return, for each history, the weights between its events and the score drops of a deletion test."""
        return self._fitted.explain(list(self._read(queries, self._schema, reading)[0].records()), k)

    def evaluate(
        self,
        data: object,
        *,
        protocol: str = "full",
        cutoffs: Sequence[int] = AT,
        unknown: str = "miss",
        **reading: Unpack[Reading],
    ) -> Result:
        """Score the model next to its baselines: HR, MRR and NDCG with 95 % intervals, and one sentence on who wins.

        Args:
            data: as of :meth:`fit`.
            protocol: ``full``, ``last`` (leave-one-out), ``macro``, ``paper`` or ``sampled``.
            cutoffs: ranks at which HR, MRR and NDCG are cut.
            unknown: what becomes of events that the training data lacks: ``miss``, ``drop`` or ``rank``.
            reading: as of :meth:`fit`; like the training data unless stated.

        Raises:
            DataError: the data holds nothing to score.
        """
        histories = self._read(data, self._schema, reading)[0]
        return evaluate(self._fitted, histories, protocol, cutoffs, unknown=unknown)


class QuerySuggester(Estimator[SuggestPredictor]):
    """Suggest the search query that follows in a session.

    Data is a query log (a path or a frame with columns such as user, query and time), or lists of sessions:
    ``[["ferry", "ferry times"]]``. Queries are normalised: letter case and white space do not count. Nothing is
    suggested that fewer users typed than the setting ``min_users`` asks for (sessions, where there are no users).

    Example:
        >>> from ensue import QuerySuggester
        >>> model = QuerySuggester("most-frequent-next").fit([["Ferry", "ferry times"]] * 5)
        >>> model.predict([["ferry"]], k=1).values
        [['ferry times']]
    """

    task = "suggest"
    _read = staticmethod(inputs.queries_from)

    def predict(
        self,
        queries: object,
        k: int = 10,
        *,
        prefix: str | Sequence[str] = "",
        explain: bool = False,
        **reading: Unpack[Reading],
    ) -> Predictions[Answer]:
        """Return the ``k`` likeliest next queries of each session.

        Args:
            queries: sessions of queries typed so far, as of :meth:`fit`.
            k: suggestions per session, fewer if there are fewer.
            prefix: what is in the search box already: one text for all sessions, or one per session.
            explain: fill the attributions of each choice.
            reading: as of :meth:`fit`; like the training data unless stated.

        Raises:
            SettingError: not fitted, ``k`` below 1, or not as many prefixes as sessions.
        """
        return Predictions(
            self._fitted.predict(
                inputs.sessions_from(queries, self._schema, reading), k, evidence=explain, prefix=prefix
            )
        )

    def explain(self, queries: object, k: int = 3, **reading: Unpack[Reading]) -> list[QueryExplanation]:
        """Return, for each session, the weights of its words for each word of the best suggestion."""
        return self._fitted.explain(inputs.sessions_from(queries, self._schema, reading), k)

    def evaluate(self, data: object, *, protocol: str = "full", **reading: Unpack[Reading]) -> SuggestResult:
        """Score the model next to its baselines; ``protocol`` is ``full`` or ``paper``."""
        return evaluate(self._fitted, self._read(data, self._schema, reading)[0], protocol)


class PostLinker(Estimator[LinkPredictor]):
    """Find the articles that a post is about.

    Data is posts and articles, each a path or a frame; a folder that holds both; or lists: posts as
    ``[("the ferry again", ["ferry-night"])]``, articles as ``{"ferry-night": "It sails at ten."}``.

    Example:
        >>> from ensue import PostLinker
        >>> articles = {"ferry": "The ferry sails at ten.", "bus": "The bus stop moved."}
        >>> model = PostLinker("tfidf").fit([("the ferry again", ["ferry"]), ("a late bus", ["bus"])], articles)
        >>> model.predict(["when does the ferry sail?"], k=1).values
        [['ferry']]
    """

    task = "link"
    _read = staticmethod(inputs.corpus_from)

    def fit(  # type: ignore[override]
        self, posts: object, articles: object = None, *, valid: object = None, **options: Unpack[Training]
    ) -> Self:
        """Train the model and return the estimator.

        Args:
            posts: posts, some of which are known to be about some articles; or a folder that holds both.
            articles: the articles.
            valid: posts for early stopping and model selection. [default: a tenth, by article]
            options: keywords of :meth:`Estimator.fit`.

        Raises:
            DataError: nothing can be learned from the data, or it cannot be read.
        """
        held_out = None if valid is None else (valid, articles)
        return super().fit((posts, articles), held_out, **options)

    def predict(self, queries: object, k: int = 10, *, explain: bool = False) -> Predictions[LinkAnswer]:
        """Return the ``k`` likeliest articles of each post.

        Args:
            queries: posts: a list of texts, or a path or a frame with a column of texts.
            k: articles per post.
            explain: find the sentence of each article that is closest to the post.

        Raises:
            SettingError: not fitted, or ``k`` below 1.
        """
        return Predictions(self._fitted.predict(inputs.post_records(queries), k, evidence=explain))

    def explain(self, queries: object, k: int = 3) -> list[LinkExplanation]:
        """Return, for each post, the score drop of the best article without each word."""
        return self._fitted.explain(inputs.post_records(queries), k)

    def evaluate(self, posts: object, articles: object = None, **reading: Unpack[Reading]) -> LinkResult:
        """Score the model next to its baselines on posts whose articles are known."""
        return evaluate(self._fitted, self._read((posts, articles), self._schema, reading)[0])

    def update(self, posts: object, articles: object = None, **reading: Unpack[Reading]) -> Self:
        """Add articles, and posts about them, on top of what was fitted."""
        return super().update((posts, articles), **reading)


class TextClassifier(Estimator[ClassifyPredictor]):
    """Say which label fits a text, or a pair of texts: a classifier of scikit-learn.

    ``X`` is a list, an array or a column of texts, or of pairs of texts, with one label each in ``y``; or, without
    ``y``, a path or a frame with columns such as text and label.

    Attributes:
        classes_: the labels, sorted; the columns of :meth:`predict_proba`.

    Example:
        >>> from ensue import TextClassifier
        >>> model = TextClassifier("tfidf").fit(["a good film", "a bad film"] * 10, ["yes", "no"] * 10)
        >>> model.predict(["so good"]).tolist()
        ['yes']
    """

    task = "classify"
    _read = staticmethod(inputs.texts_from)
    _labels: Mapping[str, object] = {}  # text of a label -> as it was given

    def fit(  # type: ignore[override]
        self, X: object, y: object = None, *, valid: object = None, **options: Unpack[Training]
    ) -> Self:
        """Train the model and return the estimator.

        Args:
            X: texts, or a path or a frame that holds their labels too.
            y: (texts,) labels: texts, numbers or booleans.
            valid: labelled texts for early stopping and model selection. [default: a tenth is held out]
            options: keywords of :meth:`Estimator.fit`.

        Raises:
            DataError: no labels, one label only, or as many labels as there are no texts.
        """
        labels = None if y is None else column_of(y, "y")
        super().fit(X if labels is None else (X, labels), valid, **options)
        self._labels = {} if labels is None else {str(label_text(label)): label for label in reversed(labels)}
        return self

    @property
    def classes_(self) -> npt.NDArray[np.generic]:
        """(labels,) sorted, as they were given; those of a folder are texts."""
        return np.unique(np.array([self._labels.get(label, label) for label in self._fitted.labels]))

    def predict_proba(self, X: object, **reading: Unpack[Reading]) -> npt.NDArray[np.float64]:
        """Return (texts, labels) calibrated probabilities; columns as in ``classes_``.

        Raises:
            SettingError: not fitted.
        """
        predictor = self._fitted
        scores = predictor.scores(inputs.unlabelled_texts_from(X, self._schema, reading))
        columns = [predictor.labels.index(str(label_text(label))) for label in self.classes_.tolist()]
        return np.take(scores, columns, axis=1).astype(np.float64)

    def predict(self, X: object, **reading: Unpack[Reading]) -> npt.NDArray[np.generic]:
        """Return (texts,) the likeliest label of each text."""
        labels: npt.NDArray[np.generic] = np.take(self.classes_, self.predict_proba(X, **reading).argmax(1))
        return labels

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the accuracy of :meth:`predict`."""
        right = self.predict(X) == np.asarray(column_of(y, "y"))
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        return float(np.average(right, weights=weights))

    def explain(self, X: object, k: int = 3, **reading: Unpack[Reading]) -> list[TextExplanation]:
        """Return, for each text, the weights of its words and sentences, and a deletion test."""
        return self._fitted.explain(list(inputs.unlabelled_texts_from(X, self._schema, reading).records()), k)

    def evaluate(self, X: object, y: object = None, **reading: Unpack[Reading]) -> TextResult:
        """Score the model next to its baselines: accuracy, macro F1 and calibration with 95 % intervals."""
        data = X if y is None else (X, column_of(y, "y"))
        return evaluate(self._fitted, self._read(data, self._schema, reading)[0])

    def update(self, X: object, y: object = None, **reading: Unpack[Reading]) -> Self:
        """Train on new labelled texts on top of what was fitted; new words are welcome, new labels are not."""
        return super().update(X if y is None else (X, column_of(y, "y")), **reading)

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of a classifier of texts."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )


AnyEstimator = NextEvent | TextClassifier | QuerySuggester | PostLinker
ESTIMATORS: dict[str, type[AnyEstimator]] = {
    kind.task: kind for kind in (NextEvent, TextClassifier, QuerySuggester, PostLinker)
}
"""By task."""


def load(folder: str | Path, *, device: str | None = None) -> AnyEstimator:
    """Read a model folder as the estimator of its task; :meth:`Estimator.load` reads one whose task is known.

    Args:
        folder: what :meth:`Estimator.save` or ``ensue fit`` wrote.
        device: ``cpu`` or ``cuda``; a GPU is used when there is one.

    Raises:
        ModelFolderError: it is incomplete, damaged, or no model folder.
    """
    return ESTIMATORS[task_of(folder)].load(folder, device=device)


def _shown(progress: bool | None) -> AbstractContextManager[Callable[[Report], object]]:
    """Return a context that gives a callback: one that shows reports, or one that ignores them."""
    is_shown = sys.stderr.isatty() if progress is None else progress
    return show.epochs() if is_shown else nullcontext(lambda report: None)


def _require_names(task: str, model: object, settings: Mapping[str, object]) -> None:
    """Refuse a model that there is not, and settings that it does not have; values are checked when it is trained."""
    name = require_model(task, str(model))
    if settings:
        require_settings(task, name, dict.fromkeys(settings, ""))
