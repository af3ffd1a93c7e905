"""Metadata come back from JSON as they were, in the order in which a folder has them."""

from __future__ import annotations

import json

import pytest

from ensue.tasks.link.metadata import Metadata, Validation

LEARNED = Metadata(
    articles=3, posts=5, links=6, held_out="a tenth", validation_posts=1, epochs=2, words=9, remembered=0,
    validation=Validation(
        mrr=0.5, precision=1.0, precision_interval=(0.2, 1.0), recall=0.5, recall_interval=(0.1, 0.9)
    ),
)  # fmt: skip


def test_json_and_back() -> None:
    facts = json.loads(json.dumps(LEARNED.to_dict()))
    assert list(facts) == [
        *("articles", "posts", "links", "held_out", "validation_posts", "notes"),
        *("epochs", "words", "validation", "remembered"),
    ]
    assert facts["validation"]["precision_interval"] == [0.2, 1.0]
    again = Metadata.from_dict(facts)
    assert again.to_dict() == LEARNED.to_dict() and again.validation == LEARNED.validation


def test_the_order_of_a_folder_stays_and_what_is_new_follows() -> None:
    facts = {"version": 2, **LEARNED.to_dict()}
    again = Metadata.from_dict(facts)
    again.updates = 1
    again.version = 3
    again.answered = []
    assert again.to_dict() == {**facts, "updates": 1, "version": 3, "answered": []}
    assert list(again.to_dict()) == [*facts, "updates", "answered"]


def test_what_a_folder_must_hold() -> None:
    with pytest.raises(ValueError, match=r"^metadata is missing in settings\.json$"):
        Metadata.from_dict({"articles": 3, "posts": 5, "links": 6})
    assert not {"articles", "posts", "links", "held_out"} & set(Metadata().to_dict())
