"""What a suggester was learned from goes into a folder and comes back as it was, in the same order."""

from __future__ import annotations

import pytest

from ensue.tasks.suggest.metadata import Metadata

FIELDS = {"queries": 9, "sessions": 3, "distinct": 4, "tokens": 5, "normalisation": "plain", "notes": []}


def test_what_was_set_comes_back_in_its_order() -> None:
    metadata = Metadata.from_dict({**FIELDS, "validation_mrr@10": {"network": 0.5}})
    assert metadata.validation_mrr == {"network": 0.5} and metadata.mix is None
    metadata.word_cost = None  # chosen, so it is written; what was never set is not
    expected = [*FIELDS.items(), ("validation_mrr@10", {"network": 0.5}), ("word_cost", None)]
    assert list(metadata.to_dict().items()) == expected


@pytest.mark.parametrize("name", FIELDS)
def test_what_every_folder_holds_must_be_there(name: str) -> None:
    with pytest.raises(ValueError, match=r"^metadata is missing in settings\.json$"):
        Metadata.from_dict({own: value for own, value in FIELDS.items() if own != name})
