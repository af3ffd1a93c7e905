"""What callers in Python pass: ids of any type are the ids of a file, and a wrong type is one line."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

import ensue
from ensue import Article, EnsueError, History, Post, Text, predictor
from ensue.client import Client
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.queries import read_queries
from ensue.data.sequences import read
from ensue.data.texts import Texts, read_texts
from ensue.evaluation import comparison
from ensue.predictor import make

untyped: Any = ensue
untyped_evaluation: Any = comparison
untyped_predictor: Any = predictor
"""For calls that a type checker refuses."""

LOG = "session_id,item_id,timestamp\n" + "".join(
    f"{session},{110 + (session + step) % 6},{1_700_000_000 + 60 * session + step}\n"
    for session in range(20)
    for step in range(4)
)


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose ids are numbers."""
    path = tmp_path_factory.mktemp("clicks") / "clicks.csv"
    path.write_text(LOG)
    return path


@pytest.fixture(scope="module")
def markov(clicks: Path) -> Any:
    """Fitted on it."""
    return fitted(make("next", "markov"), read(clicks)[0])


@pytest.fixture(scope="module")
def tfidf() -> Any:
    """Fitted on texts."""
    return fitted(make("classify", "tfidf"), Texts.of([Text(("good film",), "yes"), Text(("bad film",), "no")] * 10))


@pytest.fixture(scope="module")
def links() -> Any:
    """Fitted on posts."""
    articles = [Article(f"the {noun} story", noun) for noun in ("ferry", "bridge", "harbour")]
    posts = [Post(f"about the {article.id}", about=(article.id,)) for article in articles] * 4
    return fitted(make("link", "tfidf"), Corpus(Articles.of(articles), Posts.of(posts)))


def fitted(predictor: Any, data: Any) -> Any:
    """The same, once the loop is over."""
    for _ in predictor.fit(data):
        pass
    return predictor


@pytest.mark.parametrize(
    "values",
    [
        (110, 111),
        [110, 111],
        (110.0, 111.0),
        (np.int64(110), np.int32(111)),
        np.array([110, 111]),
        np.array([110.0, 111.0]),
        pl.Series([110, 111]),
        (Decimal(110), "111"),
    ],
)
def test_ids_of_any_type_are_those_of_the_file(markov: Any, values: Any) -> None:
    (expected,) = markov.predict([History(("110", "111"))], 3)
    assert (expected.in_vocabulary, expected.choices[0].value) == (2, "112")
    record = History(values)
    assert record.values == ("110", "111") and record == History.from_json('{"values": [110, 111.0]}')
    assert markov.predict([record], 3) == [expected]


@pytest.mark.parametrize(
    "lists", [{"exclude": [112, "113"]}, {"exclude": np.array([112, 113])}, {"exclude": {112, 113}}]
)
def test_ids_of_lists_are_those_of_the_file(markov: Any, lists: Any) -> None:
    record = untyped.History((110, 111))
    expected = markov.predict([record], 6, exclude=("112", "113"))
    assert "112" not in {choice.value for choice in expected[0].choices}
    assert markov.predict([record], 6, **lists) == expected
    assert [choice.value for choice in markov.predict([record], 6, allow=[114.0])[0].choices] == ["114"]


def test_ids_of_posts_and_labels_may_be_numbers() -> None:
    assert untyped.Post("a", 7, (110, np.int64(3))) == untyped.Post("a", "7", ("110", "3"))
    assert untyped.Article("a", 7.0) == untyped.Article("a", "7")
    assert untyped.Text(["a"], np.int64(4), None) == untyped.Text(("a",), "4")
    assert untyped.History((), [1, np.float32(2)][:0], 5).id == "5"
    assert untyped.History(("a", "b"), [1, np.int64(2)]).times == (1.0, 2.0)


MISSING = "leave out events whose id is missing"
RECORDS: list[tuple[Callable[[], object], str]] = [
    (lambda: untyped.History("ann"), "history '': values is the text 'ann'; give a list of ids, such as ['ann']"),
    (lambda: untyped.History(("a", None), id="x"), f"history 'x': values[1]: None is not an id; {MISSING}"),
    (lambda: untyped.History((110.0, float("nan"))), f"history '': values[1]: NaN is not an id; {MISSING}"),
    (lambda: untyped.History((1.5,)), "history '': values[0]: 1.5 is not an id; ids are texts or whole numbers"),
    (lambda: untyped.History(None), "history '': values is of type NoneType; give a list of ids"),
    (lambda: untyped.History({"a": 1}), "history '': values is of type dict; give a list of ids"),
    (
        lambda: untyped.History({"a", "b"}),
        "history '': values is a set, which has no order; give a tuple of ids, oldest first",
    ),
    (lambda: untyped.History(("a",), ("noon",)), "history '': times[0] is 'noon'; it must be a number (seconds)"),
    (lambda: untyped.History(("a",), 5), "history '': times is of type int; give a list of seconds"),
    (lambda: untyped.Text("xy"), "text '': texts is the text 'xy'; give a list of one text or two, such as ['xy']"),
    (lambda: untyped.Text((7,)), "text '': texts[0] is of type int; it must be a text"),
    (lambda: untyped.Text(("a",), {"x": 1}), "text '': label is {'x': 1}; it must be a text, a number, true or false"),
    (
        lambda: untyped.Post("a", about="ferry"),
        "post '': about is the text 'ferry'; give a list of ids, such as ['ferry']",
    ),
    (lambda: untyped.Post(None), "post '': text is of type NoneType; it must be a text"),
    (lambda: untyped.Article("a", title=7), "article '': title is of type int; it must be a text"),
]


@pytest.mark.parametrize(("call", "message"), RECORDS)
def test_records_of_wrong_types_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EnsueError) as error:
        call()
    assert str(error.value) == message


HISTORIES = 'give a list of History records, such as [History(("a", "b"))]'
TEXTS = 'give a list of Text records, such as [Text(("a text",))]'
POSTS = 'give a list of Post records, such as [Post("a post")]'
HISTORY = History(("110",))


@pytest.mark.parametrize(
    ("model", "call", "message"),
    [
        ("markov", lambda one: one.predict(HISTORY), f"records is one History; {HISTORIES}"),
        ("markov", lambda one: one.explain(HISTORY), f"records is one History; {HISTORIES}"),
        ("markov", lambda one: one.forecast(HISTORY, 2), f"records is one History; {HISTORIES}"),
        ("markov", lambda one: one.predict([["110", "111"]]), f"records[0] is of type list; {HISTORIES}"),
        ("markov", lambda one: one.predict("110"), f"records is of type str; {HISTORIES}"),
        ("markov", lambda one: one.predict([HISTORY], k="3"), "k is '3'; it must be a whole number"),
        ("markov", lambda one: one.predict([HISTORY], k=2.5), "k is 2.5; it must be a whole number"),
        ("markov", lambda one: one.forecast([HISTORY], "2"), "steps is '2'; it must be a whole number"),
        (
            "markov",
            lambda one: one.predict([HISTORY], exclude="bob"),
            "exclude is the text 'bob'; give a list of ids, such as ['bob']",
        ),
        (
            "markov",
            lambda one: one.predict([HISTORY], allow="bob"),
            "allow is the text 'bob'; give a list of ids, such as ['bob']",
        ),
        ("markov", lambda one: one.predict([HISTORY], exclude=[None]), f"exclude[0]: None is not an id; {MISSING}"),
        (
            "markov",
            lambda one: untyped_evaluation.evaluate(one, "x.csv"),
            "data is of type str; give Histories",
        ),
        (
            "markov",
            lambda one: untyped_evaluation.evaluate(one, (Histories.of([HISTORY]), "report")),
            "data is of type tuple; give Histories",
        ),
        (
            "markov",
            lambda one: untyped_evaluation.evaluate(one, Histories.of([HISTORY]), cutoffs="10"),
            "cutoffs is the text '10'; give a list of whole numbers, such as ['10']",
        ),
        (
            "markov",
            lambda one: untyped_evaluation.compare([one], Histories.of([HISTORY])),
            "compare takes one list of predictors per model, such as [[first], [second]]",
        ),
        (
            "markov",
            lambda one: untyped_evaluation.evaluate("m", Histories.of([HISTORY])),
            "'m' is a name, not a predictor; give ensue.predictor.load(folder)",
        ),
        (
            "markov",
            lambda one: one.fit("clicks.csv"),
            "data is of type str; give Histories",
        ),
        (
            "markov",
            lambda one: one.update([HISTORY]),
            "data is of type list; give Histories",
        ),
        ("tfidf", lambda one: one.predict(["great film"]), f"records[0] is of type str; {TEXTS}"),
        ("tfidf", lambda one: one.explain("great film"), f"records is of type str; {TEXTS}"),
        ("tfidf", lambda one: one.predict([Text(("a",))], k=None), "k is None; it must be a whole number"),
        (
            "tfidf",
            lambda one: one.fit(Histories.of([HISTORY])),
            "data is of type Histories; give Texts",
        ),
        ("links", lambda one: one.predict(["about the ferry"]), f"records[0] is of type str; {POSTS}"),
    ],
)
def test_calls_with_wrong_types_are_refused(
    request: pytest.FixtureRequest, model: str, call: Callable[[Any], object], message: str
) -> None:
    predictor = request.getfixturevalue(model)
    with pytest.raises(EnsueError) as error:
        call(predictor)
    assert str(error.value) == message


@pytest.mark.parametrize(("columns", "wanted"), [(Histories, HISTORIES), (Texts, TEXTS), (Posts, POSTS)])
def test_columns_are_of_records(columns: Any, wanted: str) -> None:
    for records, message in (("ann", "records is of type str"), ([("a", "b")], "records[0] is of type tuple")):
        with pytest.raises(EnsueError) as error:
            columns.of(records)
        assert str(error.value) == f"{message}; {wanted}"


@pytest.mark.parametrize("reader", [read, read_texts, read_queries, read_corpus])
def test_a_frame_is_not_the_name_of_a_file(reader: Callable[[Any], object]) -> None:
    with pytest.raises(EnsueError) as error:
        reader(pl.DataFrame({"a": [1]}))
    assert str(error.value) == "path is of type DataFrame; give the name of a file or a folder"


def test_a_number_is_not_the_name_of_a_folder() -> None:
    with pytest.raises(EnsueError) as error:
        untyped_predictor.load(7)
    assert str(error.value) == "folder is of type int; give the name of a file or a folder"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: untyped_predictor.make(5), "task 5 is not known; choose from next, classify, suggest, link"),
        (
            lambda: untyped_predictor.make("next", "hidan", settings=["dim=8"]),
            "settings is of type list; give a dictionary such as {'dim': 64}",
        ),
        (lambda: untyped.add_model("hidan"), "model is of type str; give a class"),
        (lambda: cast(Any, read_texts)(["a.csv"]), "path is of type list; give the name of a file or a folder"),
        (
            lambda: untyped_evaluation.compare([], Histories.of([HISTORY])),
            "there is nothing to compare; give a list of predictors for each model",
        ),
        (
            lambda: untyped_evaluation.compare([[]], Histories.of([HISTORY])),
            "compare takes one list of predictors per model, such as [[first], [second]]",
        ),
    ],
)
def test_other_functions_refuse_wrong_types(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EnsueError) as error:
        call()
    assert str(error.value) == message


def test_a_client_refuses_a_text_in_place_of_a_list() -> None:
    with pytest.raises(EnsueError) as error:
        Client("http://127.0.0.1:9").predict("m", [HISTORY], exclude="bob")
    assert str(error.value) == "exclude is the text 'bob'; give a list of ids, such as ['bob']"
