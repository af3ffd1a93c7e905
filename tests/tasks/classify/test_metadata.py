"""What a classifier was learned from goes into a folder and comes back as it was, in the same order."""

from __future__ import annotations

import pytest

from ensue.tasks.classify.metadata import Metadata

FIELDS = {
    "labels": ["no", "yes"],
    "texts": 3,
    "paired": False,
    "architecture": "flat",
    "strength": {},
    "temperature": {"a": 2.0},
    "calibration_error": {},
    "validation_accuracy": {},
    "notes": [],
}


def test_what_was_set_comes_back_in_its_order() -> None:
    metadata = Metadata.from_dict({**FIELDS, "version": 2})
    metadata.updates = 1
    assert list(metadata.to_dict().items()) == [*FIELDS.items(), ("version", 2), ("updates", 1)]
    assert metadata.blend is None and "blend" not in metadata.to_dict()


@pytest.mark.parametrize("name", FIELDS)
def test_what_every_folder_holds_must_be_there(name: str) -> None:
    with pytest.raises(ValueError, match=r"^metadata is missing in settings\.json$"):
        Metadata.from_dict({own: value for own, value in FIELDS.items() if own != name})
