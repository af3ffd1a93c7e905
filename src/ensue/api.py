"""Estimators: one class per question, used like those of scikit-learn.

==============  ======================================  ======================================
class           predicts                                training data
==============  ======================================  ======================================
NextEvent       the next item of a session or cascade   sessions: lists of ids
TextClassifier  the label of a text                     labelled texts
QuerySuggester  the next search query of a session      sessions of queries
PostLinker      the articles that a post is about       articles, and posts linked to them
==============  ======================================  ======================================

    >>> import ensue
    >>> model = ensue.NextEvent("markov").fit("clicks.csv")
    >>> model.predict([["crack-explained", "bridge-history"]], k=3).values
    [['bridge-closes', 'bridge-detour', 'crack-explained']]
    >>> result = model.evaluate("last_days.csv")
    >>> model.save("models/markov")
    >>> ensue.load("models/markov")
    NextEvent('markov')

Data is the path of a file or folder, a glob pattern, a data frame of polars, pandas or pyarrow, or plain lists.
Every error is an :class:`~ensue.errors.EnsueError` with the same line that the command line prints.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np
import numpy.typing as npt

from ensue.arguments import bool_or_auto, require_bool
from ensue.data import inputs
from ensue.data.inputs import ReadingOptions, TrainingReading
from ensue.data.schema import DataSchema
from ensue.estimator import Auto, Estimator, Training
from ensue.evaluation.comparison import evaluate
from ensue.lazy import lazy
from ensue.metrics import CUTOFFS
from ensue.predictions import Predictions
from ensue.records import History, Post, Text, label_text
from ensue.registry import task_of

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from ensue.answers import (
        Answer,
        Choice,
        Explanation,
        LinkAnswer,
        LinkExplanation,
        QueryExplanation,
        SimilarSession,
        TextExplanation,
    )
    from ensue.evaluation import off_policy
    from ensue.evaluation.comparison import Data
    from ensue.evaluation.result import Result
    from ensue.learning.life import Forgotten
    from ensue.tasks.classify.predictor import ClassifyPredictor  # noqa: F401 - in strings
    from ensue.tasks.link.predictor import LinkPredictor  # noqa: F401 - in strings
    from ensue.tasks.next.predictor import NextPredictor  # noqa: F401 - in strings
    from ensue.tasks.suggest.predictor import SuggestPredictor  # noqa: F401 - in strings
else:
    off_policy = lazy("ensue.evaluation.off_policy")


class NextEvent(Estimator["NextPredictor"]):
    """Rank the next items of a session, or the next users of a cascade.

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

    def _records(self, data: object, reading: ReadingOptions) -> Sequence[History]:
        return list(self._read(data, self._schema, reading)[0].records())

    def _read_for_training(self, data: object, schema: DataSchema, reading: TrainingReading) -> tuple[Data, DataSchema]:
        known_items = self.predictor_.known_items if self.__sklearn_is_fitted__() else None
        return inputs.histories_with_items(data, schema, reading, None if known_items is None else known_items.items)

    def similar(
        self,
        items: Collection[str],
        k: int = 10,
        *,
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
        filters: Sequence[str] = (),
        now: float | None = None,
    ) -> list[list[Choice]]:
        """Return the ``k`` items (users, of cascades) most similar to each item, best first.

        A network compares the vectors that it learned by their cosine; a baseline counts how often two items come soon
        after each other, from 0 to 1.

        Args:
            items: ids of the training data.
            k: number of similar items per item.
            exclude: ids that are never returned.
            allow: the only ids that are returned. [default: all]
            filters: conditions on columns of the item table, as for :meth:`predict`.
            now: time that ``within 7 d`` in a filter counts from, in seconds since 1970. [default: the clock]

        Raises:
            DataError: an item that the model does not know.
            SettingError: not fitted, or ``k`` below 1.
        """
        return self._fitted.similar(items, k, exclude=exclude, allow=allow, filters=filters, now=now)

    def similar_sessions(
        self, queries: object, among: object = None, k: int = 10, **reading: Unpack[ReadingOptions]
    ) -> list[list[SimilarSession]]:
        """Return the ``k`` sessions most similar to each query, by the network's vector after the last event.

        Where each session is all that a user did, these are similar users. A session of ``among`` with the id of the
        query is left out.

        Args:
            queries: sessions, as for :meth:`predict`.
            among: sessions that are searched, as for :meth:`predict`. [default: past sessions that the model stores]
            k: number of sessions per query.
            reading: as for :meth:`fit`. [default: as the training data was read]

        Raises:
            SettingError: not fitted, no network, or no sessions to search.
        """
        searched = None if among is None else self._records(among, reading)
        return self._fitted.similar_sessions(self._records(queries, reading), searched, k)

    def forget(self, data: object, values: Collection[str] = (), **reading: Unpack[ReadingOptions]) -> Forgotten:
        """Remove a person's data from the model, and return a report of what was removed and what remains.

        Args:
            data: the person's sessions, as they were in the training data.
            values: ids of the person, such as a user who shares posts.
            reading: as for :meth:`fit`. [default: as the training data was read]
        """
        return self._fitted.forget(self._read(data, self._schema, reading)[0], values)

    def predict(
        self,
        queries: object,
        k: int = 10,
        *,
        exclude: Collection[str] = (),
        allow: Collection[str] | None = None,
        filters: Sequence[str] = (),
        now: float | None = None,
        max_per: Mapping[str, int] | None = None,
        diversify: str = "",
        exclude_seen: bool | Auto = "auto",
        rank_unknown: bool = False,
        explain: bool = False,
        **reading: Unpack[ReadingOptions],
    ) -> Predictions[Answer]:
        """Return the ``k`` likeliest next ids of each session.

        Args:
            queries: sessions, oldest event first, as for :meth:`fit`.
            k: number of ids per session.
            exclude: ids that are never returned, such as sold-out items.
            allow: the only ids that are returned. [default: all]
            filters: conditions on columns of the item table, such as ``["price < 50"]``.
            now: time in seconds since 1970 that ``within 7 d`` in a filter counts from. [default: the clock]
            max_per: maximum number of answers with the same value of a column, such as ``{"brand": 2}``.
            diversify: re-ranking for diversity: ``mmr=0.3`` or ``calibrated:COLUMN=0.3``, a weight from 0 to 1.
            exclude_seen: whether ids of the session are left out; ``auto`` follows the repeats in the training data.
            rank_unknown: whether ids of the session that the training data lacks are ranked too.
            explain: whether to fill the attributions of each choice (a few more forward passes).
            reading: as for :meth:`fit`. [default: as the training data was read]

        Raises:
            SettingError: not fitted, or ``k`` below 1.
        """
        answers = self._fitted.predict(
            list(self._read(queries, self._schema, reading)[0].records()),
            k,
            evidence=require_bool(explain, "explain"),
            exclude=exclude,
            allow=allow,
            filters=filters,
            now=now,
            max_per=max_per,
            diversify=diversify,
            exclude_seen=bool_or_auto(exclude_seen, "exclude_seen"),
            rank_unknown=require_bool(rank_unknown, "rank_unknown"),
        )
        return Predictions(answers)

    def explain(self, queries: object, k: int = 3, **reading: Unpack[ReadingOptions]) -> list[Explanation]:
        """Return, for each session, the weights between its events and the score drops of a deletion test."""
        return self._fitted.explain(list(self._read(queries, self._schema, reading)[0].records()), k)

    def evaluate(
        self,
        data: object,
        *,
        protocol: str = "full",
        cutoffs: Sequence[int] = CUTOFFS,
        unknown: str = "miss",
        diversify: str = "",
        max_per: Mapping[str, int] | None = None,
        **reading: Unpack[ReadingOptions],
    ) -> Result:
        """Return HR, MRR and NDCG of the model and its baselines with 95 % intervals, and a verdict in one sentence.

        Args:
            data: test data, as for :meth:`fit`.
            protocol: ``full``, ``last`` (leave-one-out), ``macro``, ``paper`` or ``sampled``.
            cutoffs: cutoffs k of HR@k, MRR@k and NDCG@k.
            unknown: treatment of events that the training data lacks: ``miss``, ``drop`` or ``rank``.
            diversify: adds a row with the best items re-ranked, as :meth:`predict` does.
            max_per: adds such a row, with at most so many items per value of each column.
            reading: as for :meth:`fit`. [default: as the training data was read]

        Raises:
            DataError: the data holds nothing to score.
        """
        histories = self._read(data, self._schema, reading)[0]
        return evaluate(
            self._fitted, histories, protocol=protocol, cutoffs=cutoffs, unknown=unknown, diversify=diversify,
            max_per=max_per or {},
        )  # fmt: skip

    def evaluate_off_policy(
        self, data: object, *, policy: str = "softmax", **reading: Unpack[ReadingOptions]
    ) -> off_policy.OffPolicyResult:
        """Return the reward that the model and its baselines would have earned on a log of shown items.

        Args:
            data: a path or a frame with one row per shown item: session, item, time, the reward (``weight``, or by the
                kinds in ``events``) and the probability with which it was shown (``propensity``).
            policy: ``softmax`` shows an item by its predicted probability, ``top=10`` one of the 10 best.
            reading: as for :meth:`fit`. [default: as the training data was read]

        Raises:
            DataError: the data has no propensities or no rewards.
        """
        log = inputs.histories_from(data, self._schema, reading, off_policy=True)[0]
        return off_policy.evaluate_policy(self._fitted, log, policy)


class QuerySuggester(Estimator["SuggestPredictor"]):
    """Suggest the next search query of a session.

    Data is a query log (a path or a frame with columns such as user, query and time), or lists of sessions:
    ``[["ferry", "ferry times"]]``. Queries are normalised: letter case and white space do not count. A query is only
    suggested if at least ``min_users`` users typed it (a setting; sessions count where there are no users).

    Example:
        >>> from ensue import QuerySuggester
        >>> model = QuerySuggester("most-frequent-next").fit([["Ferry", "ferry times"]] * 5)
        >>> model.predict([["ferry"]], k=1).values
        [['ferry times']]
    """

    task = "suggest"
    _read = staticmethod(inputs.queries_from)

    def _records(self, data: object, reading: ReadingOptions) -> Sequence[History]:
        return inputs.sessions_from(data, self._schema, reading)

    def predict(
        self,
        queries: object,
        k: int = 10,
        *,
        prefix: str | Sequence[str] = "",
        explain: bool = False,
        **reading: Unpack[ReadingOptions],
    ) -> Predictions[Answer]:
        """Return the ``k`` likeliest next queries of each session.

        Args:
            queries: sessions of queries typed so far, as for :meth:`fit`.
            k: number of suggestions per session.
            prefix: text in the search box: one for all sessions, or one per session.
            explain: whether to fill the attributions of each choice.
            reading: as for :meth:`fit`. [default: as the training data was read]

        Raises:
            SettingError: not fitted, ``k`` below 1, or a wrong number of prefixes.
        """
        sessions = inputs.sessions_from(queries, self._schema, reading)
        evidence = require_bool(explain, "explain")
        return Predictions(self._fitted.predict(sessions, k, evidence=evidence, prefix=prefix))

    def explain(self, queries: object, k: int = 3, **reading: Unpack[ReadingOptions]) -> list[QueryExplanation]:
        """Return, for each session, the attention weights of its words for each word of the best suggestion."""
        return self._fitted.explain(inputs.sessions_from(queries, self._schema, reading), k)

    def evaluate(self, data: object, *, protocol: str = "full", **reading: Unpack[ReadingOptions]) -> Result:
        """Return the metrics of the model and its baselines; ``protocol`` is ``full`` or ``paper``."""
        return evaluate(self._fitted, self._read(data, self._schema, reading)[0], protocol=protocol)


class PostLinker(Estimator["LinkPredictor"]):
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

    def _records(self, data: object, reading: ReadingOptions) -> Sequence[Post]:
        return inputs.post_records(data)

    def fit(  # type: ignore[override]
        self, posts: object, articles: object = None, *, valid: object = None, **options: Unpack[Training]
    ) -> Self:
        """Train the model and return the estimator.

        Args:
            posts: posts, some of them linked to articles; or a folder that holds posts and articles.
            articles: the articles.
            valid: validation posts for early stopping and model selection. [default: a tenth, by article]
            options: keywords of :meth:`Estimator.fit`.

        Raises:
            DataError: the data cannot be read, or is too little to train on.
        """
        held_out = None if valid is None else (valid, articles)
        return super().fit((posts, articles), held_out, **options)

    def predict(self, queries: object, k: int = 10, *, explain: bool = False) -> Predictions[LinkAnswer]:
        """Return the ``k`` likeliest articles of each post.

        Args:
            queries: posts: a list of texts, or a path or a frame with a column of texts.
            k: number of articles per post.
            explain: whether to find the sentence of each article that is closest to the post.

        Raises:
            SettingError: not fitted, or ``k`` below 1.
        """
        evidence = require_bool(explain, "explain")
        return Predictions(self._fitted.predict(inputs.post_records(queries), k, evidence=evidence))

    def explain(self, queries: object, k: int = 3) -> list[LinkExplanation]:
        """Return, for each post, the score drop of the best article without each word."""
        return self._fitted.explain(inputs.post_records(queries), k)

    def evaluate(self, posts: object, articles: object = None, **reading: Unpack[ReadingOptions]) -> Result:
        """Return the metrics of the model and its baselines on posts that are linked to articles."""
        return evaluate(self._fitted, self._read((posts, articles), self._schema, reading)[0])

    def update(self, posts: object, articles: object = None, **reading: Unpack[TrainingReading]) -> Self:
        """Add articles and posts about them, without training from scratch."""
        return super().update((posts, articles), **reading)


class TextClassifier(Estimator["ClassifyPredictor"]):
    """Classify texts, or pairs of texts: a scikit-learn classifier.

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
    _labels: Mapping[str, object] = {}  # text of a label -> label of the caller's type

    def _records(self, data: object, reading: ReadingOptions) -> Sequence[Text]:
        return list(inputs.unlabelled_texts_from(data, self._schema, reading).records())

    def fit(  # type: ignore[override]
        self, X: object, y: object = None, *, valid: object = None, **options: Unpack[Training]
    ) -> Self:
        """Train the model and return the estimator.

        Args:
            X: texts, or a path or a frame that holds texts and labels.
            y: (texts,) labels: texts, numbers or booleans; or, where a text may have several, a list of sets of them or
                a (texts, labels) matrix of 0 and 1, whose columns are the labels 0, 1, 2, …
            valid: validation data for early stopping and model selection. [default: a tenth of the texts]
            options: keywords of :meth:`Estimator.fit`.

        Raises:
            DataError: no labels, a single label, or a wrong number of labels.
        """
        labels = None if y is None else inputs.labels_of(y)
        super().fit(X if labels is None else (X, labels), valid, **options)
        # Reversed, so that of labels with the same text the first one is returned.
        each = [label for entry in labels or () for label in (entry if isinstance(entry, tuple) else (entry,))]
        self._labels = {str(label_text(label)): label for label in reversed(each)}
        return self

    @property
    def classes_(self) -> npt.NDArray[np.generic]:
        """(labels,) the labels, sorted; texts if the model was loaded from a folder."""
        return np.unique(np.array([self._labels.get(label, label) for label in self._fitted.labels]))

    def predict_proba(self, X: object, **reading: Unpack[ReadingOptions]) -> npt.NDArray[np.float64]:
        """Return (texts, labels) calibrated probabilities; columns as in ``classes_``.

        Raises:
            SettingError: not fitted.
        """
        predictor = self._fitted
        scores = predictor.scores(inputs.unlabelled_texts_from(X, self._schema, reading))
        # The model sorts labels as texts, and `classes_` as the caller's type: 10 comes before 9 in one of them.
        columns = [predictor.labels.index(str(label_text(label))) for label in self.classes_.tolist()]
        return np.take(scores, columns, axis=1).astype(np.float64)

    def predict(self, X: object, **reading: Unpack[ReadingOptions]) -> npt.NDArray[np.generic]:
        """Return (texts,) the likeliest label of each text; of texts with several, a (texts, labels) matrix of 0 and 1.

        Its columns are ``classes_``, as scikit-learn's multilabel classifiers return it.
        """
        if self._fitted.metadata.sets:
            columns = [self._fitted.labels.index(str(label_text(label))) for label in self.classes_.tolist()]
            thresholds = np.array(self._fitted.metadata.thresholds[self._fitted.model_name])[columns]
            return (self.predict_proba(X, **reading) >= thresholds).astype(np.int64)
        return np.take(self.classes_, self.predict_proba(X, **reading).argmax(1))

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the accuracy of :meth:`predict`; of texts with several labels, how often all are right."""
        labels = inputs.labels_of(y)
        if self._fitted.metadata.sets:
            classes = self.classes_.tolist()
            labels = [[int(label in entry) for label in classes] for entry in labels if isinstance(entry, tuple)]
        return inputs.accuracy(self.predict(X).tolist(), labels, sample_weight)

    def explain(self, X: object, k: int = 3, **reading: Unpack[ReadingOptions]) -> list[TextExplanation]:
        """Return, for each text, the weights of its words and sentences, and a deletion test."""
        return self._fitted.explain(list(inputs.unlabelled_texts_from(X, self._schema, reading).records()), k)

    def evaluate(self, X: object, y: object = None, **reading: Unpack[ReadingOptions]) -> Result:
        """Score the model next to its baselines: accuracy, macro F1 and calibration with 95 % intervals."""
        data = X if y is None else (X, inputs.labels_of(y))
        return evaluate(self._fitted, self._read(data, self._schema, reading)[0])

    def update(self, X: object, y: object = None, **reading: Unpack[TrainingReading]) -> Self:
        """Continue the training with new labelled texts, which may have new words but no new labels."""
        return super().update(X if y is None else (X, inputs.labels_of(y)), **reading)

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
"""Task -> estimator."""


def load(folder: str | Path, *, device: str | None = None) -> AnyEstimator:
    """Read a model folder as the estimator of its task.

    Args:
        folder: a folder written by :meth:`Estimator.save` or ``ensue fit``.
        device: ``cpu`` or ``cuda``. [default: the GPU if there is one]

    Raises:
        ModelFolderError: the folder is incomplete, damaged, or no model folder.

    Example:
        >>> from ensue import NextEvent, load
        >>> NextEvent("markov").fit([["a", "b"], ["a", "b"]]).save("models/tiny")
        >>> load("models/tiny")
        NextEvent('markov')
    """
    return ESTIMATORS[task_of(folder)].load(folder, device=device)
