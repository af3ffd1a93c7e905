"""Metadata: nothing is written that was not set, and the order stays as it came."""

from __future__ import annotations

import pytest

from ensue.tasks.next.metadata import Exclusion, Metadata
from ensue.tasks.next.predictor import NextPredictor


def test_what_is_set_is_written_in_the_order_it_came() -> None:
    metadata = Metadata()
    assert metadata.to_dict() == {} and metadata.steps == 0
    metadata.updates, metadata.events = 1, 7
    metadata.updates += 1
    assert list(metadata.to_dict().items()) == [("updates", 2), ("events", 7)]


def test_fields_come_back_as_they_were() -> None:
    fields = {"version": 3, "sequences": 2, "repeats": False, "events": 4, "exclusion": "last", "of a newer ensue": [1]}
    metadata = Metadata.from_dict(fields)
    assert list(metadata.to_dict().items()) == list(fields.items())
    assert (metadata.version, metadata.sequences, metadata.timed) == (3, 2, False)
    assert metadata.exclusion is Exclusion.LAST
    with pytest.raises(ValueError, match=r"exclusion in settings.json: Input should be 'none', 'last' or 'seen'"):
        Metadata.from_dict({**fields, "exclusion": "most"})
    with pytest.raises(ValueError, match="metadata is missing"):
        Metadata.from_dict({"sequences": 2})


def test_what_is_set_is_written() -> None:
    predictor = NextPredictor("markov")
    predictor.metadata.version = 4
    assert predictor.summary()["facts"] == {"version": 4, "remembered": 0}
