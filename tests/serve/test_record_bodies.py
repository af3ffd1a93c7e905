"""Records of a request are read within its limits; what is wrong with one is said with its place."""

from __future__ import annotations

import pytest

from ensue import DataError
from ensue.serve.bodies import Limits, Predict, limited, read
from ensue.serve.settings import ServeSettings
from ensue.serve.tasks import service_of

LIMITS = ServeSettings(records=2, words=3, characters=20, max_k=5)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"records": [3]}, 'records[0]: must be an object such as {"text": "a post"}'),
        ({"records": [{"word": "a"}]}, 'records[0]: field "text" is missing; expected {"text": "a post"}'),
        ({"records": [{"text": 3}]}, 'records[0]: field "text" must be a text'),
        ({"records": [{"text": "a b c d"}]}, "records[0]: 4 words are more than the 3 of a record"),
        ({"records": [{"text": "a" * 21}]}, "records[0]: 21 characters are more than the 20 of a record"),
        ({"records": [{"text": "a"}] * 3}, "3 records exceed the limit of 2 per request"),
        ({"records": [], "choice": 1}, "field 'choice' is not known; a body has records, k, evidence"),
        ({"records": [], "k": 6}, 'field "k" must be a whole number from 1 to 5'),
        ({"records": [], "k": 2.0}, 'field "k" must be a whole number from 1 to 5'),
    ],
)
def test_what_is_wrong_is_said(fields: object, error: str) -> None:
    service = service_of("link")
    with pytest.raises(DataError) as caught:
        read(limited("Body", Predict, Limits(LIMITS, service.task.record, service.read)), fields)
    assert str(caught.value).startswith(error)
