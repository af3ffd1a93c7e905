"""Metadata come back as they were, fields of the task first; defaults are not written, other fields are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.state import NextMetadata
from ensue.tasks.next.training_data import Exclusion

FITTED: dict[str, Any] = {
    "sequences": 2, "events": 4, "values": 3, "repeats": False, "repeat_share": 0.0, "immediate_repeat_share": 0.0,
    "exclusion": "last", "timed": False,
}  # fmt: skip


def test_fields_come_back_as_they_were() -> None:
    metadata = NextMetadata.from_dict({"version": 3, **FITTED})
    assert (metadata.version, metadata.sequences, metadata.steps) == (3, 2, 0)
    assert metadata.exclusion is Exclusion.LAST
    metadata.updates += 1
    assert list(metadata.to_dict().items()) == [*FITTED.items(), ("updates", 1), ("version", 3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exclusion": "most"}, r"facts\.exclusion: Input should be 'none', 'last' or 'seen'"),
        ({"of a newer ensue": [1]}, r"facts\.of a newer ensue: is not known"),
        ({"to_dict": 1}, r"facts\.to_dict: is not known"),
        ({"version": 0}, r"facts\.version: Input should be greater than or equal to 1"),
        ({"events": "4"}, r"facts\.events: Input should be a valid integer"),
    ],
)
def test_other_fields_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        NextMetadata.from_dict({**FITTED, **change})


@pytest.mark.parametrize("name", FITTED)
def test_what_every_folder_holds_must_be_there(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^facts\.{name}: is missing$"):
        NextMetadata.from_dict({key: value for key, value in FITTED.items() if key != name})


def test_what_is_set_is_written() -> None:
    predictor = NextPredictor("markov")
    predictor.metadata.version = 4
    facts = predictor.summary()["facts"]
    assert (facts["version"], facts["remembered"], facts["sequences"]) == (4, 0, 0)
