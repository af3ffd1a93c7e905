"""The Transformer on the last query and on the whole session equal a literal loop; one learns what the other cannot."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ensue import SettingError
from ensue.tasks.suggest.batch import END, QueryBatch, next_queries, pad
from ensue.tasks.suggest.models.transformers import Transformer, join
from ensue.tasks.suggest.settings import TransformerSettings
from tests.tasks.suggest import checks
from tests.tasks.suggest.checks import NUM_IDS, SESSIONS, scored

VARIANTS: dict[str, dict[str, object]] = {
    "last query": {},
    "flat": {"window": 9},
    "two queries": {"window": 2, "depth": "2+2"},
    "flat with copying": {"window": 9, "copy": True, "tied": True},
}


def network(**settings: object) -> Transformer:
    small = {"depth": "1+1", "dim": 8, "embedding": 6, "wide": 10, "heads": 2, "dropout": 0.0}
    made: Transformer = checks.shaken(Transformer(TransformerSettings(**{**small, **settings}), NUM_IDS))  # type: ignore[arg-type]
    return made


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> Transformer:
    return network(**VARIANTS[request.param])


def test_queries_are_joined_by_hand() -> None:
    batch = pad([[[5, 6], [7], [8, 9]], [[4]]])
    words, mask, places = join(batch, batch.followed, 9)
    assert words.tolist() == [[5, 6, END, 0, 0], [5, 6, END, 7, END]]
    assert places.tolist() == [[0, 1, -1, -1, -1], [0, 1, -1, 2, -1]]  # two columns a query
    assert mask.sum(1).tolist() == [3, 5]
    words, _, places = join(batch, batch.last, 2)
    assert words.tolist() == [[7, END, 8, 9, END], [4, END, 0, 0, 0]]
    assert places.tolist() == [[2, -1, 4, 5, -1], [0, -1, -1, -1, -1]]


def test_equals_the_loop(model: Transformer) -> None:
    checks.equals_the_loop(model)


def test_all_prefixes_at_once_equal_each_alone(model: Transformer) -> None:
    checks.all_prefixes_at_once_equal_each_alone(model)


def likelihoods(model: Transformer, batch: QueryBatch) -> Tensor:
    return model.writer.likelihood(model.remember(batch, batch.followed), *next_queries(batch))


def test_later_queries_change_nothing(model: Transformer) -> None:
    checks.later_queries_change_nothing(model, likelihoods)


def test_padding_and_batch_mates_are_invisible(model: Transformer) -> None:
    checks.padding_and_batch_mates_are_invisible(model)


def test_a_session_without_queries_is_finite(model: Transformer) -> None:
    checks.a_session_without_queries_is_finite(model)


def test_rows_can_be_picked_and_share_a_memory(model: Transformer) -> None:
    checks.rows_can_be_picked_and_share_a_memory(model)


def test_what_words_leaned_on_sums_to_one(model: Transformer) -> None:
    checks.what_words_leaned_on_sums_to_one(model, window=model.settings.window)


def test_only_the_window_is_read() -> None:
    model, candidates = network(window=2), pad([[[5, 6], [7]]]).words
    scores = scored(model, pad([SESSIONS[0]]), candidates)
    torch.testing.assert_close(scored(model, pad([SESSIONS[0][2:]]), candidates), scores)
    assert not torch.allclose(scored(model, pad([SESSIONS[0][3:]]), candidates), scores)


def test_gradients() -> None:
    checks.gradients_are_right(network(dim=4, embedding=3, wide=3, window=2, copy=True, smoothing=0.1))


LEARNER = {"dim": 16, "embedding": 16, "wide": 32, "heads": 2, "dropout": 0.0, "depth": "1+1"}


@pytest.mark.parametrize("copy", [False, True])
def test_flat_learns_what_only_the_first_query_tells(copy: bool) -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerSettings(**LEARNER, window=9, copy=copy), NUM_IDS)  # type: ignore[arg-type]
    assert checks.share_learned(model, 150) > 0.95


def test_the_last_query_alone_cannot() -> None:
    """Six words are equally likely: 1 in 6, and chance."""
    torch.manual_seed(0)
    assert checks.share_learned(Transformer(TransformerSettings(**LEARNER), NUM_IDS)) < 0.4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"depth": "3+2+3"},
            "depth is '3+2+3'; give the layers of encoder + decoder, such as 4+4, the last at least 1",
        ),
        ({"depth": "64+1"}, "depth is 64+1; it must be at most 64 in all"),
        ({"window": 0}, "window is 0; it must be at least 1"),
        ({"heads": 3}, "dim 512 is not a multiple of heads 3"),
        ({"smoothing": -0.1}, "smoothing is -0.1; it must be at least 0 and below 1"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as error:
        TransformerSettings(**settings)  # type: ignore[arg-type]
    assert str(error.value) == message
