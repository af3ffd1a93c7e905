"""The estimators: what people type in Python, and what they get."""

from __future__ import annotations

import json
import pickle
import sys
import types
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from ensue import (
    DataError,
    EnsueError,
    History,
    ModelFolderError,
    NextEvent,
    PostLinker,
    QuerySuggester,
    SettingError,
    TextClassifier,
    callbacks,
    compare,
    evaluate,
    load,
    split,
)

SESSIONS = [["a", "b", "c"], ["b", "c"], ["a", "b"], ["c", "a"]] * 5
TEXTS = ["a good film", "a bad film", "so good", "so bad"] * 6
LABELS = ["yes", "no", "yes", "no"] * 6
QUERIES = [["Ferry", "ferry times"], ["bus", "bus stop"]] * 6
POSTS = [("the ferry again", ["f"]), ("no bus", ["b"]), ("ferry late", ["f"]), ("bus late", ["b"])] * 3
ARTICLES = {"f": "The ferry sails at ten.", "b": "The bus stop moved to the bridge."}

AnyEstimator = NextEvent | TextClassifier | QuerySuggester | PostLinker
FITTED: dict[str, Callable[[], AnyEstimator]] = {
    "next": lambda: NextEvent("markov").fit(SESSIONS),
    "classify": lambda: TextClassifier("tfidf").fit(TEXTS, LABELS),
    "suggest": lambda: QuerySuggester("most-frequent-next").fit(QUERIES),
    "link": lambda: PostLinker("tfidf").fit(POSTS, ARTICLES),
}
"""By task: ten lines at most from data to an estimator that answers."""


@cache
def fitted_once() -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """Return fitted estimators that no test changes, and a function that fits another one, by task."""
    return {
        "next": (FITTED["next"](), lambda data: NextEvent("markov").fit(data)),
        "classify": (FITTED["classify"](), lambda data: TextClassifier("tfidf").fit(data)),
        "suggest": (FITTED["suggest"](), lambda data: QuerySuggester("most-frequent-next").fit(data)),
        "link": (FITTED["link"](), lambda data: PostLinker("tfidf").fit(data)),
    }


@pytest.fixture(params=FITTED)
def fitted(request: pytest.FixtureRequest) -> AnyEstimator:
    return FITTED[request.param]()


# Lists in, predictions out


def test_next_event_answers_lists_of_ids() -> None:
    model = NextEvent("markov").fit(SESSIONS)
    predictions = model.predict([["a"], ["b"]], k=2)
    assert predictions.values[0][0] == "b" and predictions.values[1][0] == "c"
    assert [len(row) for row in predictions.scores] == [2, 2]
    frame = predictions.to_frame()
    assert frame.columns == ["query", "rank", "value", "score"]
    assert frame["query"].to_list() == [0, 0, 1, 1] and frame["rank"].to_list() == [1, 2, 1, 2]
    assert frame["value"].to_list() == [value for row in predictions.values for value in row]
    assert len(predictions[:1]) == 1 and predictions[1].choices[0].value == "c"


def test_seen_ids_are_left_out_unless_asked_for() -> None:
    model = NextEvent("markov").fit([["a", "b"], ["a", "b"], ["b", "c"]])
    cases: list[tuple[bool | Literal["auto"], set[str]]] = [("auto", {"c"}), (True, {"c"}), (False, {"a", "b", "c"})]
    for exclude_seen, expected in cases:
        assert set(model.predict([["a", "b"]], exclude_seen=exclude_seen).values[0]) == expected


def test_times_and_excluded_ids_are_taken() -> None:
    model = NextEvent("markov").fit([(ids, [float(i) for i in range(len(ids))]) for ids in SESSIONS])
    assert model.predict([(["a"], [0.0])], k=1, exclude=["b"]).values != [["b"]]
    assert model.predict([["a"]], k=3, allow=["c"]).values == [["c"]]


def test_explanations_are_filled_where_asked() -> None:
    model = NextEvent("markov").fit(SESSIONS)
    assert model.predict([["a"]], k=1)[0].choices[0].attributions == ()
    assert model.predict([["a"]], k=1, explain=True)[0].choices[0].attributions[0].value == "a"
    assert model.explain([["a", "b"]])[0].values[-1] == "b"


def test_query_suggester_answers_sessions_of_one_query_and_prefixes() -> None:
    model = QuerySuggester("most-frequent-next").fit(QUERIES)
    assert model.predict([["FERRY"]], k=1).values == [["ferry times"]]
    assert model.predict([["ferry"]], k=1, prefix="bus").values[0][0].startswith("bus")
    frame = pl.DataFrame({"session": ["s"], "query": ["Ferry"]})
    assert model.predict(frame, k=1).values == [["ferry times"]]


def test_post_linker_answers_texts() -> None:
    model = PostLinker("tfidf").fit(POSTS, ARTICLES)
    predictions = model.predict(["ferry at ten", "the bridge"], k=1, explain=True)
    assert predictions.values == [["f"], ["b"]]
    assert predictions[0].choices[0].sentence == "The ferry sails at ten."
    assert predictions.to_frame()["query"].to_list() == [0, 1]


# Files and frames


def csv_of(frame: pl.DataFrame, path: Path) -> Path:
    frame.write_csv(path)
    return path


LOG = pl.DataFrame(
    {
        "session": [f"s{i}" for i, row in enumerate(SESSIONS) for _ in row],
        "item": [item for row in SESSIONS for item in row],
        "timestamp": pl.from_epoch(pl.arange(1_709_300_000, 1_709_300_000 + 45, eager=True)).dt.replace_time_zone(
            "UTC"
        ),
    }
)
FRAMES: dict[str, tuple[pl.DataFrame, Callable[[Any], AnyEstimator]]] = {
    "next": (LOG, lambda data: NextEvent("markov").fit(data)),
    "classify": (pl.DataFrame({"text": TEXTS, "label": LABELS}), lambda data: TextClassifier("tfidf").fit(data)),
    "suggest": (
        pl.DataFrame(
            {
                "session": [f"s{i}" for i, row in enumerate(QUERIES) for _ in row],
                "query": [query for row in QUERIES for query in row],
            }
        ),
        lambda data: QuerySuggester("most-frequent-next").fit(data),
    ),
    "link": (
        pl.DataFrame({"id": range(12), "text": [text for text, _ in POSTS], "about": [ids[0] for _, ids in POSTS]}),
        lambda data: PostLinker("tfidf").fit(data, ARTICLES),
    ),
}


def pandas_of(frame: pl.DataFrame) -> pd.DataFrame:
    """Nullable integers, categories and Python's texts."""
    table = frame.to_pandas()
    for name in table.columns:
        kind = "Int64" if frame.schema[name].is_integer() else "category" if name in ("item", "label") else None
        table[name] = table[name] if kind is None else table[name].astype(kind)
    return table


def arrow_of(frame: pl.DataFrame) -> pa.Table:
    """Large strings, and dictionaries of them."""
    table = frame.to_arrow()
    texts = [field.name for field in table.schema if field.name in ("item", "label")]
    for name in texts:
        column = table.schema.get_field_index(name)
        table = table.set_column(column, name, table[name].cast(pa.large_string()).combine_chunks().dictionary_encode())
    return table


def files_of(estimator: AnyEstimator) -> dict[str, bytes]:
    files: dict[str, bytes] = estimator.predictor_.files()
    return files


@pytest.mark.parametrize("task", FRAMES)
def test_frames_give_the_bytes_of_the_csv(task: str, tmp_path: Path) -> None:
    frame, fit = FRAMES[task]
    expected = files_of(fit(csv_of(frame, tmp_path / "data.csv")))
    for data in (frame, frame.lazy(), pandas_of(frame), arrow_of(frame)):
        assert files_of(fit(data)) == expected


def test_a_named_index_of_pandas_is_a_column() -> None:
    expected = files_of(NextEvent("markov").fit(LOG))
    assert files_of(NextEvent("markov").fit(LOG.to_pandas().set_index("session"))) == expected


def test_columns_are_named_and_remembered(tmp_path: Path) -> None:
    renamed = LOG.rename({"session": "sid", "item": "thing", "timestamp": "moment"})
    columns = {"session": "sid", "item": "thing", "time": "moment"}
    model = NextEvent("markov").fit(renamed, columns=columns)
    assert model.evaluate(renamed).rows[0].model == "markov"
    model.save(tmp_path / "model")
    assert NextEvent.load(tmp_path / "model").predict(renamed, k=1).values == model.predict(renamed, k=1).values


def test_messages_of_frames_name_the_frame() -> None:
    with pytest.raises(DataError, match=r"^the frame"):
        NextEvent("markov").fit(pl.DataFrame({"colour": ["red"], "size": [1]}))
    with pytest.raises(DataError, match=r"^the frame"):
        NextEvent("markov").fit(pl.DataFrame({"session": ["a"], "item": [object()]}))


INVALID_DATA: list[Any] = [
    *(None, 5, "ab", "nowhere.csv", "a\0b", "a" * 5000, b"x", {"a": 1}, object(), ["ab", 5], [["a", None]], [5]),
    *([["\ud800"]], np.array(5), np.zeros((2, 2, 2)), pa.table({"x": [1]})),
    pd.DataFrame([[1, 2]], columns=["a", "a"]),
]
INVALID_FRAMES = [
    *(pl.DataFrame(), pl.DataFrame({"colour": ["red"]}), pd.DataFrame()),
    pd.DataFrame({"session": ["a"], "item": [None]}),
]


@pytest.mark.parametrize("number", range(len(INVALID_DATA)))
def test_invalid_data_is_refused_in_one_line(number: int) -> None:
    data = INVALID_DATA[number]
    for estimator, fit in fitted_once().values():
        for call in (fit, estimator.predict, estimator.explain, estimator.evaluate, estimator.update):
            with pytest.raises(EnsueError) as error:
                call(data)
            assert "\n" not in str(error.value)


@pytest.mark.parametrize("frame", INVALID_FRAMES, ids=["empty", "no known column", "empty pandas", "no item"])
def test_invalid_frames_are_not_fitted(frame: object) -> None:
    for _, fit in fitted_once().values():
        with pytest.raises(EnsueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(frame)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": "3"}, "k is '3'; it must be a whole number"),
        ({"k": np.array([1, 2])}, "k is array([1, 2]); it must be a whole number"),
        ({"exclude": "b"}, "exclude is the text 'b'; give a list of ids, such as ['b']"),
        ({"allow": np.array(5)}, "allow is of type ndarray; give a list of ids"),
        ({"exclude_seen": "no"}, "exclude_seen is 'no'; give True, False or \"auto\""),
        ({"explain": None}, "explain is None; give True or False"),
        ({"columns": ["a"]}, 'columns is of type list; give role -> column, such as {"item": "iid"}'),
        ({"columns": {"item": 5}}, 'columns holds a non-text; give role -> column, such as {"item": "iid"}'),
        ({"day_first": "yes"}, "day_first is of type str; give True or False"),
        ({"encoding": 8}, "encoding is of type int; give a text"),
    ],
)
def test_invalid_options_of_predict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EnsueError) as error:
        NextEvent("markov").fit(SESSIONS).predict([["a"]], **options)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NextEvent("markov", seed="1").fit(SESSIONS), "seed is '1'; it must be a whole number"),  # type: ignore[arg-type]
        (lambda: NextEvent("markov", device=5).fit(SESSIONS), "device 5 is not available; choose from cpu"),  # type: ignore[arg-type]
        (lambda: NextEvent("markov").fit(SESSIONS, callbacks=5), "callbacks holds a int; give a list of functions"),  # type: ignore[arg-type]
        (lambda: NextEvent("markov").fit(SESSIONS, progress=1), 'progress is 1; give True, False or "auto"'),  # type: ignore[arg-type]
        (
            lambda: NextEvent("markov").fit(SESSIONS).evaluate(SESSIONS, cutoffs=[]),
            "cutoffs are []; give whole numbers",
        ),
        (lambda: split(SESSIONS, task="next", test=2), "test is 2; it must be a number between 0 and 1"),
        (lambda: compare(5, SESSIONS), "give a list of models"),  # type: ignore[arg-type]
        (lambda: compare(["markov"], SESSIONS, seeds=0), "seeds is 0; train each model at least once"),
        (lambda: callbacks.EarlyStop(), "EarlyStop has no bound; give patience=3 (epochs) or seconds=600"),
        (lambda: TextClassifier("tfidf").fit(TEXTS, LABELS).score(TEXTS, ["yes"]), "X has 24 texts and y 1 entries"),
        (
            lambda: TextClassifier("tfidf").fit(TEXTS, pl.DataFrame({"a": LABELS, "b": LABELS})),
            "y is a frame of 2 columns",
        ),
    ],
)
def test_invalid_options_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EnsueError) as error:
        call()
    assert str(error.value).startswith(message)


# Parameters


def test_names_that_there_are_not_are_refused_with_the_closest() -> None:
    with pytest.raises(SettingError, match="'sansr'"):
        NextEvent("sans")
    with pytest.raises(SettingError, match="'dim'"):
        NextEvent("sansr", dimm=16)
    with pytest.raises(SettingError, match="'dim'"):
        NextEvent("sansr").set_params(dimm=16)
    with pytest.raises(SettingError, match="columns"):
        NextEvent("markov").fit(LOG, column={"item": "item"})  # type: ignore[call-arg]


def test_parameters_are_those_of_the_constructor() -> None:
    model = NextEvent("sansr", seed=3, dim=16)
    assert model.get_params() == {"model": "sansr", "seed": 3, "device": None, "dim": 16}
    assert repr(model) == "NextEvent('sansr', dim=16, seed=3)"
    assert repr(clone(model)) == repr(model)
    assert model.set_params(dim=8, seed=0).get_params()["dim"] == 8
    assert repr(model) == "NextEvent('sansr', dim=8)"


def test_what_is_not_fitted_says_so(tmp_path: Path) -> None:
    model = NextEvent("markov")
    for use in (lambda: model.predict([["a"]]), lambda: model.save(tmp_path / "m"), lambda: model.evaluate(LOG)):
        with pytest.raises(SettingError, match="not fitted"):
            use()


# What all four do


def test_folders_are_read_back(fitted: AnyEstimator, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is type(fitted) and repr(loaded) == repr(fitted)
    assert files_of(loaded) == files_of(fitted)
    assert "<" in loaded._repr_html_()
    with pytest.raises(ModelFolderError, match="holds a model of task"):
        (NextEvent if fitted.task != "next" else PostLinker).load(tmp_path / "model")


def test_fitted_estimators_are_not_pickled(fitted: AnyEstimator) -> None:
    with pytest.raises(SettingError, match="save"):
        pickle.dumps(fitted)
    assert repr(pickle.loads(pickle.dumps(clone(fitted)))) == repr(fitted)


def test_results_name_a_row_per_model() -> None:
    assert NextEvent("markov").fit(SESSIONS).evaluate(SESSIONS, cutoffs=[3], protocol="last").rows[0].model == "markov"
    assert TextClassifier("tfidf").fit(TEXTS, LABELS).evaluate(TEXTS, LABELS).rows[0].figures["accuracy"] == 1.0
    assert QuerySuggester("most-frequent-next").fit(QUERIES).evaluate(QUERIES).rows[0].model == "most-frequent-next"
    assert PostLinker("tfidf").fit(POSTS, ARTICLES).evaluate(POSTS, ARTICLES).rows[0].model == "tfidf"


def test_updates_learn_new_data() -> None:
    model = NextEvent("markov").fit(SESSIONS)
    assert model.update([["a", "z"]] * 50) is model
    assert model.predict([["a"]], k=1).values == [["z"]]
    linker = PostLinker("tfidf").fit(POSTS, ARTICLES).update(["a tram"], {"t": "The tram is new."})
    assert linker.predict(["tram"], k=1).values == [["t"]]


# scikit-learn


def test_text_classifier_is_a_classifier_of_scikit_learn() -> None:
    with pytest.warns(SkipTestWarning):  # all checks of scikit-learn's give arrays of numbers
        check_estimator(TextClassifier("tfidf"))
    assert cross_val_score(TextClassifier("tfidf"), TEXTS, LABELS, cv=3).tolist() == [1.0, 1.0, 1.0]
    pipeline = Pipeline([("lower", FunctionTransformer(_lowered)), ("label", TextClassifier("tfidf"))])
    assert pipeline.fit(TEXTS, LABELS).predict(["GOOD"]).tolist() == ["yes"]
    search = GridSearchCV(TextClassifier("tfidf"), {"seed": [0, 1]}, cv=2).fit(np.array(TEXTS, object), LABELS)
    assert search.best_score_ == 1.0


def _lowered(texts: Any) -> list[str]:
    return [text.lower() for text in texts]


@pytest.mark.parametrize("labels", [[1, 0, 1, 0], [True, False, True, False], ["b", "a", "b", "a"], [2.5, 0.5] * 2])
def test_labels_come_back_as_they_were_given(labels: list[Any]) -> None:
    model = TextClassifier("tfidf").fit(TEXTS, labels * 6)
    assert model.classes_.tolist() == sorted(set(labels)) and model.classes_.dtype == np.array(labels).dtype
    assert model.predict(["so good", "so bad"]).tolist() == labels[:2]
    probabilities = model.predict_proba(["so good"])
    assert probabilities.shape == (1, 2) and probabilities.sum() == pytest.approx(1)
    assert model.score(TEXTS, labels * 6, sample_weight=[1.0] * 24) == 1.0


@pytest.mark.parametrize("column", [np.array(TEXTS), pd.Series(TEXTS), pl.Series(TEXTS), pa.array(TEXTS)])
def test_texts_may_be_a_column_of_any_library(column: object) -> None:
    assert TextClassifier("tfidf").fit(column, LABELS).predict(column).tolist() == LABELS


def test_pairs_of_texts_are_lists_of_two() -> None:
    pairs = [(f"film {i // 2}", "it is good" if i % 2 else "it is bad") for i in range(24)]
    model = TextClassifier("tfidf").fit(pairs, ["bad", "good"] * 12)
    assert model.predict(pl.DataFrame(pairs[:2], schema=["a", "b"], orient="row")).tolist() == ["bad", "good"]


def test_texts_and_labels_are_as_many() -> None:
    with pytest.raises(DataError, match="24 texts and y 23 labels"):
        TextClassifier("tfidf").fit(TEXTS, LABELS[1:])
    with pytest.raises(DataError, match="y is missing"):
        TextClassifier("tfidf").fit(TEXTS)


# Training


def test_reports_go_to_callbacks_and_come_out_of_fit_iter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    path = tmp_path / "training.jsonl"
    model = NextEvent("sansr", dim=4, epochs=2, replay=0).fit(
        SESSIONS * 5, callbacks=[seen.append, callbacks.JSONLines(path)]
    )
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [report.step for report in seen] and len(lines) > 2
    again = NextEvent("sansr", dim=4, epochs=2, replay=0)
    reports = again.fit_iter(SESSIONS * 5)
    with pytest.raises(SettingError, match="not fitted"):
        again.predict([["a"]])
    assert [report.step for report in reports] == [report.step for report in seen]
    assert files_of(again) == files_of(model)

    logged: list[tuple[str, int]] = []
    board = types.ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = lambda folder: types.SimpleNamespace(  # type: ignore[attr-defined]
        add_scalar=lambda name, value, step=0: logged.append((name, step)),
        add_text=lambda name, text: logged.append((name, 0)),
        flush=lambda: None,
        close=lambda: None,
    )
    flow = types.ModuleType("mlflow")
    flow.log_metrics = lambda metrics, step=0: logged.extend((name, step) for name in metrics)  # type: ignore[attr-defined]
    flow.log_params = lambda settings: logged.append(("settings", 0))  # type: ignore[attr-defined]
    weights = types.ModuleType("wandb")
    weights.init = lambda **options: types.SimpleNamespace(  # type: ignore[attr-defined]
        log=lambda metrics: logged.extend((name, metrics["fit/epoch"]) for name in metrics),
        config=types.SimpleNamespace(update=lambda settings: logged.append(("settings", 0))),
        summary=types.SimpleNamespace(update=lambda metrics: logged.extend((name, 0) for name in metrics)),
        finish=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    monkeypatch.setitem(sys.modules, "mlflow", flow)
    monkeypatch.setitem(sys.modules, "wandb", weights)
    for callback in (callbacks.TensorBoard(tmp_path), callbacks.MLflow(), callbacks.WandB(project="clicks")):
        logged.clear()
        for report in seen:
            callback(report)
        assert ("fit/loss", 1) in logged and ("fit/validation_mrr", 1) in logged
        callback.finish(model.predictor_.summary())
        assert ("settings", 0) in logged and ("epochs", 0) in logged


def test_callbacks_that_are_not_installed_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    for make in (lambda: callbacks.TensorBoard(tmp_path), callbacks.MLflow, callbacks.WandB):
        with pytest.raises(SettingError, match="pip install"):
            make()


def test_bad_data_is_refused_before_the_first_report() -> None:
    with pytest.raises(DataError):
        NextEvent("sansr").fit_iter("nowhere.csv")


def test_event_types_are_chosen_in_python_as_at_the_command_line() -> None:
    log = pl.concat([LOG.with_columns(kind=pl.lit(kind)) for kind in ("view", "buy")])
    log = log.with_columns(item=pl.when(pl.col("kind") == "buy").then(pl.lit("z")).otherwise("item"))
    model = NextEvent("markov").fit(log, events=["view"])
    weights, expected = (
        {name: content for name, content in files_of(estimator).items() if name.endswith(".safetensors")}
        for estimator in (model, NextEvent("markov").fit(LOG))
    )
    assert weights == expected != {}
    assert model.evaluate(log).card["targets"] == model.evaluate(LOG).card["targets"]
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: NextEvent("markov").fit(log, events="view"), "events is the text 'view'; give a list"),
        (lambda: NextEvent("markov").fit(log, events=["sale"]), "sale: no row has this event type"),
        (lambda: NextEvent("markov").fit(SESSIONS, columns={"item": "a"}), "columns: only files and frames are read"),
        (lambda: TextClassifier("tfidf").fit(FRAMES["classify"][0], events=["view"]), "only the logs of NextEvent"),
    ]
    for call, message in refused:
        with pytest.raises(EnsueError, match=message):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NextEvent("markov").fit([{"a", "b"}]), "data[0] is of type set; give a list of histories"),
        (lambda: QuerySuggester("most-frequent-next").fit([{"a", "b"}]), "data[0] is of type set; give a list"),
        (lambda: TextClassifier("tfidf").fit(set(TEXTS), ["yes", "no"] * 2), "X is of type set; give a list"),
        (lambda: TextClassifier("tfidf").fit([b"a", b"b"] * 9, LABELS[:18]), "X[0] is of type bytes; give texts"),
        (lambda: TextClassifier("tfidf").fit(TEXTS, set(LABELS)), "y is of type set; give a list"),
        (
            lambda: TextClassifier("tfidf").fit(pd.DataFrame({"text": TEXTS, "kind": LABELS}), LABELS),
            "X: column 'kind' holds the labels; give the texts alone, such as X['text']",
        ),
        (lambda: PostLinker("tfidf").fit([("a", None)], ARTICLES), "posts[0] is of type tuple; give a list of texts"),
        (lambda: evaluate(5, SESSIONS), "model is of type int; give a fitted estimator"),  # type: ignore[arg-type]
    ],
)
def test_data_without_an_order_or_with_its_own_labels_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EnsueError) as error:
        call()
    assert str(error.value).startswith(message)


# Model selection


def test_split_cuts_by_time_and_at_random_by_task(tmp_path: Path) -> None:
    path = csv_of(LOG, tmp_path / "log.csv")
    train, test = split(path, test=0.25)
    assert len(train) == 15 and len(test) == 5
    starts, later = (
        [min(record.times) for record in part.records() if isinstance(record, History)] for part in (train, test)
    )
    assert len(later) == 5 and min(later) >= max(starts)
    assert [len(part) for part in split(LOG, test=0.25)] == [15, 5]
    assert [len(part) for part in split((TEXTS, LABELS), task="classify", test=0.5)] == [12, 12]
    with pytest.raises(SettingError, match="task="):
        split(SESSIONS)
    assert [len(part) for part in split(SESSIONS, task="next")] == [16, 4]


def test_models_are_compared_by_name_or_with_settings() -> None:
    result = compare(["markov", NextEvent("popularity")], SESSIONS, SESSIONS)
    assert [row.model for row in result.rows][:2] == ["markov", "popularity"]
    with pytest.raises(SettingError, match="no task"):
        compare(["markov", "bm25"], SESSIONS)
    with pytest.raises(SettingError, match="give task="):
        compare(["best"], SESSIONS)
    assert compare(["tfidf"], (TEXTS, LABELS), task="classify").task == "classify"


def test_models_are_compared_on_a_split_by_time_unless_test_data_is_given() -> None:
    names = ["markov", "popularity"]
    sessions = [["a", "b"]] * 15 + [["c", "d"]] * 5
    train, test = split(sessions, task="next", test=0.25)

    def mrr(**options: Any) -> float:
        return compare(names, sessions, test_size=0.25, **options).rows[0].figures["mrr"]

    assert mrr() == mrr(split="time") == compare(names, train, test).rows[0].figures["mrr"] == 0
    assert mrr(split="random") > 0
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: compare(names, train, test, split="time"), "split is 'time', but test data is given too; remove one"),
        (lambda: compare(names, sessions, split="tim"), "this data cannot be split by 'tim'; choose time or random"),
        (lambda: compare(["tfidf"], (TEXTS, LABELS), task="classify", split="time"), "by 'time'; choose random"),
        (lambda: compare(names, sessions, test_size=2), "test_size is 2; it must be a number between 0 and 1"),
    ]
    for call, message in refused:
        with pytest.raises(SettingError, match=message):
            call()
