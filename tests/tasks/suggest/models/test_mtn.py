"""MTN equals a literal loop at every depth; all prefixes in one pass; three levels; copying; the future is unseen."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ensue import SettingError
from ensue.nn.transformer import PackedRows
from ensue.tasks.suggest.batch import QueryBatch, next_queries, pad
from ensue.tasks.suggest.models.mtn import MTN, visible
from ensue.tasks.suggest.settings import MTNSettings
from tests.oracles.suggest import target_log_likelihoods
from tests.tasks.suggest import checks
from tests.tasks.suggest.checks import NUM_IDS, SESSIONS

VARIANTS: dict[str, dict[str, object]] = {
    "plain": {},
    "all": {"reads": "all"},
    "copy": {"copy": True},
    "copy-all-tied": {"copy": True, "reads": "all", "tied": True},
    "mean": {"projection": "mean", "tied": True, "embedding": 8},
    "deep": {"depth": "2+2+2", "longest": 2},
    "no session layer": {"depth": "1+0+1"},
}


def network(**settings: object) -> MTN:
    small = {"depth": "1+1+1", "dim": 8, "embedding": 6, "wide": 10, "heads": 2, "dropout": 0.0, "smoothing": 0.0}
    made: MTN = checks.shaken(MTN(MTNSettings(**{**small, **settings}), NUM_IDS))  # type: ignore[arg-type]
    return made


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> MTN:
    return network(**VARIANTS[request.param])


def test_equals_the_loop(model: MTN) -> None:
    checks.equals_the_loop(model)


def test_all_prefixes_at_once_equal_each_alone(model: MTN) -> None:
    checks.all_prefixes_at_once_equal_each_alone(model)


def likelihoods(model: MTN, batch: QueryBatch) -> Tensor:
    return model.writer.likelihood(model.remember(batch, batch.followed), *next_queries(batch))


def test_later_queries_change_nothing(model: MTN) -> None:
    checks.later_queries_change_nothing(model, likelihoods)


def test_padding_and_batch_mates_are_invisible(model: MTN) -> None:
    checks.padding_and_batch_mates_are_invisible(model)


def test_a_session_without_queries_is_finite(model: MTN) -> None:
    checks.a_session_without_queries_is_finite(model)


def test_rows_can_be_picked_and_share_a_memory(model: MTN) -> None:
    checks.rows_can_be_picked_and_share_a_memory(model)


def test_what_words_leaned_on_sums_to_one(model: MTN) -> None:
    checks.what_words_leaned_on_sums_to_one(model)


@pytest.mark.parametrize("settings", [{}, {"copy": True, "reads": "all", "smoothing": 0.2}])
def test_gradients(settings: dict[str, object]) -> None:
    checks.gradients_are_right(network(dim=4, embedding=3, wide=3, longest=2, **settings))


def test_label_smoothing_is_torchs() -> None:
    plain, smooth = network(), network(smoothing=0.3)
    batch = pad(SESSIONS)
    read, said = next_queries(batch)
    states, *_ = plain.writer.states(plain.remember(batch, batch.followed), read, PackedRows.of(said != 0))
    scores = plain.writer.words.log_probabilities(states)[:, 1:]
    expected = nn.functional.cross_entropy(scores, said[said != 0] - 1, label_smoothing=0.3)
    torch.testing.assert_close(smooth.loss(batch), expected)


def test_what_is_smoothed_beside_copying_is_the_vocabulary_alone() -> None:
    plain, smooth = network(copy=True), network(copy=True, smoothing=0.3)
    batch = pad(SESSIONS)
    read, said = next_queries(batch)
    there, memory = said != 0, plain.remember(batch, batch.followed)
    states, _ = plain.writer.states(memory, read, PackedRows.of(there))
    spread = plain.writer.words.log_probabilities(states)[:, 1:].mean(1)  # cross-entropy against all tokens evenly
    expected = -(0.7 * plain.writer.likelihood(memory, read, said)[there] + 0.3 * spread).mean()
    torch.testing.assert_close(smooth.loss(batch), expected)


# --- three levels: user, session, query ------------------------------------------------------------------------------

# A user's seven queries in three sessions, another's three in one.
USERS = [[[5, 6], [7], [8, 9, 10], [11], [4, 5], [6], [12, 12]], [[9], [8, 7], [6, 5]]]
UNITS = [[0, 0, 1, 1, 1, 2, 2], [0, 0, 0]]


def users() -> QueryBatch:
    batch = pad(USERS)
    units = torch.zeros(2, 1, 7, dtype=torch.long)
    units[0, 0] = torch.tensor(UNITS[0])
    return batch._replace(units=units)


def test_who_sees_whom_by_hand() -> None:
    """Sessions {0, 1}, {2, 3, 4}, {5, 6}: at the user level a query sees itself and the last of each session before."""
    session, user = (mask[0].int().tolist() for mask in visible(users(), 2))
    assert session == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 1, 1],
    ]
    assert user == [
        [1, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0, 0],
        [0, 1, 0, 1, 0, 0, 0],
        [0, 1, 0, 0, 1, 0, 0],
        [0, 1, 0, 0, 1, 1, 0],
        [0, 1, 0, 0, 1, 0, 1],
    ]


@pytest.mark.parametrize("settings", [{}, {"reads": "all", "copy": True}])
@pytest.mark.parametrize("depth", ["1+1+1+1", "1+1+2+1", "1+0+1+1"])
def test_three_levels_equal_the_loop(depth: str, settings: dict[str, object]) -> None:
    model, batch = network(depth=depth, **settings), users()
    found = likelihoods(model, batch)
    row = 0
    for queries, units in zip(USERS, UNITS, strict=True):
        for turn in range(1, len(queries)):
            expected = target_log_likelihoods(model, queries[:turn], queries[turn], [units[:turn]])
            torch.testing.assert_close(found[row, : len(expected)], torch.stack(expected), rtol=0, atol=1e-10)
            row += 1
    leaned = model.attributions(batch, pad([[[5, 6]], [[7, 8]]]).words[:, 0])
    torch.testing.assert_close(leaned.sum((2, 3)), torch.ones(2, 2, dtype=torch.float64))


def test_at_three_levels_later_queries_change_nothing() -> None:
    model, batch = network(depth="1+1+1+1"), users()
    before, changed = likelihoods(model, batch), batch.words.clone()
    changed[0, 4] = torch.tensor([12, 11, 0])  # the end of the second session: what comes after it may see it
    after = likelihoods(model, batch._replace(words=changed))
    assert torch.equal(after[:3], before[:3])
    assert not torch.equal(after[5], before[5])


# --- what it learns --------------------------------------------------------------------------------------------------

LEARNER = {"dim": 16, "embedding": 16, "wide": 32, "heads": 2, "dropout": 0.0, "smoothing": 0.0, "depth": "1+1+1"}


@pytest.mark.parametrize(("settings", "steps"), [({}, 250), ({"copy": True, "reads": "all", "tied": True}, 80)])
def test_learns_what_only_the_first_query_tells(settings: dict[str, object], steps: int) -> None:
    torch.manual_seed(0)
    model = MTN(MTNSettings(**{**LEARNER, **settings}), NUM_IDS)  # type: ignore[arg-type]
    assert checks.share_learned(model, steps) > 0.95


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 7}, "dim 512 is not a multiple of heads 7"),
        ({"depth": "3+3"}, "depth is '3+3'; give the layers of query encoder + session encoder + decoder, such "
            "as 3+2+3, the last at least 1"),
        ({"depth": "3+2+0"}, "depth is '3+2+0'; give the layers of query encoder + session encoder + decoder, "
            "such as 3+2+3, the last at least 1"),
        ({"depth": "3+x+3"}, "depth is '3+x+3'; give the layers of query encoder + session encoder + decoder, "
            "such as 3+2+3, the last at least 1"),
        ({"dim": 0}, "dim is 0; it must be at least 1"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1"),
        ({"projection": "max"}, "projection is 'max'; choose from learned, mean"),
        ({"reads": "first"}, "reads is 'first'; choose from last, all"),
    ],
)  # fmt: skip
def test_settings_that_mean_nothing(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as error:
        MTNSettings(**settings)  # type: ignore[arg-type]
    assert str(error.value) == message
