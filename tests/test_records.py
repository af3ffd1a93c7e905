"""Records: round trips, and the exact words of every refusal."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensue import (
    Answer,
    Article,
    Attribution,
    Choice,
    DataError,
    Explanation,
    History,
    Link,
    LinkAnswer,
    Post,
    QueryExplanation,
    Text,
    TextAnswer,
)
from ensue.answers import choices_of

SECONDS = st.floats(-1e12, 1e12, allow_nan=False)


@st.composite
def any_history(draw: st.DrawFn) -> History:
    values = draw(st.lists(st.text(max_size=8), max_size=8))
    times = sorted(draw(st.lists(SECONDS, min_size=len(values), max_size=len(values)))) if draw(st.booleans()) else []
    return History(tuple(values), tuple(times), draw(st.text(max_size=8)))


@given(any_history())
def test_json_and_back(record: History) -> None:
    line = record.to_json()
    assert "\n" not in line
    assert History.from_json(line) == record


def test_json_by_hand() -> None:
    record = History(("a", "ü"), (1.0, 2.5), "x")
    assert record.to_json() == '{"values": ["a", "ü"], "times": [1.0, 2.5], "id": "x"}'
    assert History(("a",)).to_json() == '{"values": ["a"]}'
    assert History(()).to_json() == '{"values": []}'
    assert History.from_json('{"values": ["a", 7], "times": [1, 1], "id": 5}') == History(("a", "7"), (1.0, 1.0), "5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (("a", "b"), (1.0,), "x"),
            "history 'x': 2 values but 1 time; give one time per value, or none",
        ),
        (((), (1.0,)), "history '': 0 values but 1 time; give one time per value, or none"),
        ((("a",), (float("nan"),)), "history '': times[0] is nan; times must be finite numbers"),
        ((("a", "b"), (1.0, float("inf"))), "history '': times[1] is inf; times must be finite numbers"),
        ((("a", "b"), (5.0, 3.0), "x"), "history 'x': times[1] = 3.0 comes after 5.0; times must not decrease"),
    ],
)
def test_refused_histories(arguments: Any, message: str) -> None:
    with pytest.raises(DataError) as error:
        History(*arguments)
    assert str(error.value) == message


MISSING = 'f:3: field "values" is missing; expected {"values": ["a", "b"]}'
VALUES = 'f:3: field "values" must be a list of texts or whole numbers'
TIMES = 'f:3: field "times" must be a list of numbers (seconds)'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", 'f:3: not JSON (Expecting value: line 1 column 1 (char 0)); expected {"values": ["a", "b"]}'),
        ("[]", MISSING),
        ("7", MISSING),
        ("null", MISSING),
        ('{"value": ["a"]}', MISSING),
        ('{"values": ["a"], "time": [1]}', "f:3: field 'time' is not known; a history has values, times and id"),
        ('{"values": "ab"}', VALUES),
        ('{"values": {"a": 1}}', VALUES),
        ('{"values": null}', VALUES),
        ('{"values": [1.5]}', VALUES),
        ('{"values": [true]}', VALUES),
        ('{"values": [["a"]]}', VALUES),
        ('{"values": ["a"], "times": 3}', TIMES),
        ('{"values": ["a"], "times": ["3"]}', TIMES),
        ('{"values": ["a"], "times": [false]}', TIMES),
        (
            '{"values": ["a", "b"], "times": [2, 1], "id": "x"}',
            "f:3: history 'x': times[1] = 1.0 comes after 2.0; times must not decrease",
        ),
        ('{"values": ["a"], "times": [NaN]}', "f:3: history '': times[0] is nan; times must be finite numbers"),
        (
            '{"values": ["a"], "times": [1' + "0" * 400 + "]}",
            TIMES,
        ),
    ],
)
def test_refused_lines(line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        History.from_json(line, "f:3")
    assert str(error.value) == message


def test_a_tower_of_brackets_is_one_line_of_error() -> None:
    with pytest.raises(DataError, match=r"^record: not JSON \("):
        History.from_json("[" * 200_000)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_whatever_the_fields_hold_the_error_is_ours(junk: Any) -> None:
    for field in ("values", "times", "id"):
        found = {"values": ["a"], field: junk}
        try:
            record = History.from_json(json.dumps(found))
        except DataError as error:
            assert "\n" not in str(error)
        else:
            assert all(isinstance(value, str) for value in record.values)


ONE_OR_TWO = st.lists(st.text(max_size=8), min_size=1, max_size=2).map(tuple)


@given(st.builds(Text, ONE_OR_TWO, st.none() | st.text(min_size=1, max_size=8), st.text(max_size=8)))
def test_text_to_json_and_back(record: Text) -> None:
    line = record.to_json()
    assert "\n" not in line
    assert Text.from_json(line) == record


def test_text_json_by_hand() -> None:
    record = Text(("a", "ü"), "x", "1")
    assert record.to_json() == '{"texts": ["a", "ü"], "label": "x", "id": "1"}'
    assert Text(("",)).to_json() == '{"texts": [""]}'
    assert Text.from_json('{"texts": ["a"], "label": 4, "id": 7}') == Text(("a",), "4", "7")
    assert Text.from_json('{"texts": ["a"], "label": null}') == Text(("a",))
    assert Text.from_json('{"texts": ["a"], "label": true}') == Text(("a",), "True")
    assert Text.from_json('{"texts": ["a"], "label": 1.5}') == Text(("a",), "1.5")


def test_refused_texts() -> None:
    for texts in ((), ("a", "b", "c")):
        with pytest.raises(DataError) as error:
            Text(texts, id="x")
        assert str(error.value) == f"text 'x': {len(texts)} texts; give one text, or a pair"
    with pytest.raises(DataError) as error:
        Text(("a",), "", "x")
    assert str(error.value) == "text 'x': label is empty; name one, or leave it out"


NO_TEXTS = 'f:3: field "texts" is missing; expected {"texts": ["a text"]}'
TEXTS = 'f:3: field "texts" must be a list of one or two texts'
LABEL = 'f:3: field "label" must be a text, a number, true or false, or a list'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", 'f:3: not JSON (Expecting value: line 1 column 1 (char 0)); expected {"texts": ["a text"]}'),
        ("[]", NO_TEXTS),
        ("null", NO_TEXTS),
        ('{"text": "a"}', NO_TEXTS),
        ('{"texts": ["a"], "y": 1}', "f:3: field 'y' is not known; a text has texts, label and id"),
        ('{"texts": "a"}', TEXTS),
        ('{"texts": null}', TEXTS),
        ('{"texts": [1]}', TEXTS),
        ('{"texts": [["a"]]}', TEXTS),
        ('{"texts": []}', "f:3: text '': 0 texts; give one text, or a pair"),
        ('{"texts": ["a", "b", "c"], "id": 5}', "f:3: text '5': 3 texts; give one text, or a pair"),
        ('{"texts": ["a"], "label": {"x": 1}}', LABEL),
        ('{"texts": ["a"], "label": ""}', "f:3: text '': label is empty; name one, or leave it out"),
        (
            '{"texts": ["a\\ud800"]}',
            "f:3: a text has half of a surrogate pair (surrogates not allowed); send whole Unicode",
        ),
    ],
)
def test_refused_lines_of_texts(line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        Text.from_json(line, "f:3")
    assert str(error.value) == message


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_whatever_the_fields_of_a_text_hold_the_error_is_ours(junk: Any) -> None:
    for field in ("texts", "label", "id"):
        found = {"texts": ["a"], field: junk}
        try:
            record = Text.from_json(json.dumps(found))
        except DataError as error:
            assert "\n" not in str(error)
        else:
            labels = record.label if isinstance(record.label, tuple) else (record.label or "",)
            assert all(isinstance(text, str) for text in (*record.texts, *labels, record.id))


def test_answers_are_json() -> None:
    answer = Answer((Choice("ü", 0.5, (Attribution("a", 0, 0.75, None),)),), 1, 2, id="x")
    plain = {
        "choices": [
            {
                "value": "ü",
                "score": 0.5,
                "attributions": [{"value": "a", "position": 0, "weight": 0.75, "score_drop": None}],
            }
        ],
        "in_vocabulary": 1,
        "events": 2,
        "id": "x",
    }
    assert json.loads(answer.to_json()) == plain and "ü" in answer.to_json()
    explanation = Explanation(("a", "b"), (0.0, 1.0), ((0.0, 0.0), (1.0, 0.0)), (0.25, 0.75), answer)
    assert json.loads(explanation.to_json()) == {
        "values": ["a", "b"],
        "times": [0.0, 1.0],
        "dependency": [[0.0, 0.0], [1.0, 0.0]],
        "influence": [0.25, 0.75],
        "answer": plain,
    }


@given(st.builds(Post, st.text(max_size=8), st.text(max_size=8), st.lists(st.text(max_size=8), max_size=3).map(tuple)))
def test_post_to_json_and_back(record: Post) -> None:
    line = record.to_json()
    assert "\n" not in line
    assert Post.from_json(line) == record


@given(st.builds(Article, st.text(max_size=8), st.text(max_size=8), st.text(max_size=8)))
def test_article_to_json_and_back(record: Article) -> None:
    assert Article.from_json(record.to_json()) == record


def test_posts_and_articles_as_json_by_hand() -> None:
    assert Post("ü", "1", ("a", "b")).to_json() == '{"text": "ü", "id": "1", "about": ["a", "b"]}'
    assert Post("").to_json() == '{"text": ""}'
    assert Post.from_json('{"text": "x", "id": 7, "about": [1, "b"]}') == Post("x", "7", ("1", "b"))
    assert Article("b", "1", "t").to_json() == '{"body": "b", "id": "1", "title": "t"}'
    assert Article.from_json('{"body": "", "title": "t"}') == Article("", "", "t")


HALF = "f:3: a text has half of a surrogate pair (surrogates not allowed); send whole Unicode"


@pytest.mark.parametrize(
    ("record", "line", "message"),
    [
        (
            Post,
            "{",
            "f:3: not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)); "
            'expected {"text": "a post"}',
        ),
        (Post, '{"body": "x"}', 'f:3: field "text" is missing; expected {"text": "a post"}'),
        (Post, '{"text": 1}', 'f:3: field "text" must be a text'),
        (Post, '{"text": "x", "y": 1}', "f:3: field 'y' is not known; a post has text, id and about"),
        (Post, '{"text": "x", "about": "a"}', 'f:3: field "about" must be a list of ids of articles'),
        (Post, '{"text": "x", "about": [true]}', 'f:3: field "about" must be a list of ids of articles'),
        (Post, '{"text": "\\ud800"}', HALF),
        (Post, '{"text": "x", "about": ["\\ud800"]}', HALF),
        (Article, "[]", 'f:3: field "body" is missing; expected {"body": "an article"}'),
        (Article, '{"body": ["x"]}', 'f:3: field "body" must be a text'),
        (Article, '{"body": "x", "title": null}', 'f:3: field "title" must be a text'),
        (Article, '{"body": "x", "url": "u"}', "f:3: field 'url' is not known; an article has body, id and title"),
    ],
)
def test_refused_posts_and_articles(record: type[Post] | type[Article], line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        record.from_json(line, "f:3")
    assert str(error.value) == message


def test_answers_about_links_are_json() -> None:
    answer = LinkAnswer((Link("p1", 0.5, 0.25, "A sentence.", "p0"), Link("p2", 0.25)), 3, 4, id="a1")
    assert json.loads(answer.to_json()) == {
        "choices": [
            {"value": "p1", "score": 0.5, "probability": 0.25, "sentence": "A sentence.", "copy_of": "p0"},
            {"value": "p2", "score": 0.25, "probability": None, "sentence": "", "copy_of": ""},
        ],
        "in_vocabulary": 3,
        "events": 4,
        "id": "a1",
    }


def test_choices_of_columns_are_those_made_one_by_one() -> None:
    because = (Attribution("ann", 0, 0.9),)
    choices = choices_of(["cat", "dog"], [0.5, 0.25], [because, ()], ["A cat", ""])
    assert choices == [Choice("cat", 0.5, because, "A cat"), Choice("dog", 0.25)]
    with pytest.raises(FrozenInstanceError):
        choices[0].score = 1.0  # type: ignore[misc]


def test_an_answer_shows_itself_in_a_line_and_as_a_table() -> None:
    choices = tuple(
        Choice(value, score, (Attribution("a<b", 0, 0.75),))
        for value, score in zip("wxyz", (0.4, 0.3, 0.2, 0.1), strict=True)
    )
    answer = Answer(choices, 2, 3, id="s\x1b1")
    assert repr(answer) == "Answer(s\\x1b1, 2 of 3 in vocabulary: w 0.400, x 0.300, y 0.200, 1 more)"
    assert repr(TextAnswer(())) == "TextAnswer(0 of 0 in vocabulary: no choices)"
    page = answer._repr_html_()
    assert page.count("<tr>") == 5 and "a&lt;b 75%" in page and "a<b" not in page
    assert "<td>1</td><td>w</td><td>0.4000</td>" in page


def test_explanations_show_what_they_leaned_on() -> None:
    answer = Answer((Choice("c<", 0.5),), 2, 2, id="s1")
    one = Explanation(("a<", "b"), (), ((0.0, 0.0), (1.0, 0.0)), (0.25, 0.75), answer)
    assert repr(one) == f"Explanation(weights b 0.75, a< 0.25 of 2)\n{answer!r}"
    assert "<td>a&lt;</td><td>0.250</td>" in one._repr_html_() and "<td>c&lt;</td>" in one._repr_html_()
    asked = QueryExplanation(("a b",), (("a", "b"),), ("x", "y"), ((0.5, 0.5), (1.0, 0.0)), answer)
    assert asked.input_weights == [("a", 0.75), ("b", 0.25)]  # means over x and y
