"""The recurrent rivals equal a literal loop; the hierarchical ones learn what the last query does not tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ensue import SettingError
from ensue.tasks.suggest.batch import QueryBatch, next_queries, pad
from ensue.tasks.suggest.models.recurrent import HLSTM, Seq2Seq
from ensue.tasks.suggest.settings import HLSTMSettings, Seq2SeqSettings
from tests.oracles.suggest import next_word_shares
from tests.tasks.suggest import checks
from tests.tasks.suggest.checks import NUM_IDS, SESSIONS

VARIANTS = ["seq2seq", "seq2seq-tied", "h-lstm", "m-nsrf"]


def build(name: str, **sizes: Any) -> Seq2Seq | HLSTM:
    if name.startswith("seq2seq"):
        return Seq2Seq(Seq2SeqSettings(**sizes, tied=name.endswith("tied")), NUM_IDS)
    rules: dict[str, Any] = {"pooling": "max", "entropy": 0.1} if name == "m-nsrf" else {}
    return HLSTM(HLSTMSettings(**sizes, **rules), NUM_IDS)


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> Any:
    return checks.shaken(build(request.param, dim=8, embedding=6, dropout=0.0))


def test_equals_the_loop(model: Any) -> None:
    checks.equals_the_loop(model)


@pytest.mark.parametrize("name", ["seq2seq", "h-lstm"])
def test_all_prefixes_at_once_equal_each_alone(name: str) -> None:
    checks.all_prefixes_at_once_equal_each_alone(checks.shaken(build(name, dim=8, embedding=6, dropout=0.0)))


def test_the_entropy_term_equals_the_loop() -> None:
    """In training: the mean over targets of 0.1 x sum of p log p, on top of the cross-entropy."""
    model = checks.shaken(build("m-nsrf", dim=8, embedding=6, dropout=0.0))
    plain = model.loss(pad(SESSIONS)).item()
    sums = []
    for before, target in checks.prefixes(SESSIONS):
        for shares in next_word_shares(model, before, target):
            sums.append((shares[1:] * shares[1:].log()).sum().item())
    model.train()
    assert model.loss(pad(SESSIONS)).item() == pytest.approx(plain + 0.1 * sum(sums) / len(sums), abs=1e-10)


def likelihoods(model: Any, batch: QueryBatch) -> Tensor:
    found: Tensor = model.writer.likelihood(model.remember(batch, batch.followed), *next_queries(batch))
    return found


def test_later_queries_change_nothing(model: Any) -> None:
    checks.later_queries_change_nothing(model, likelihoods)


def test_padding_and_batch_mates_are_invisible(model: Any) -> None:
    checks.padding_and_batch_mates_are_invisible(model)


def test_a_session_without_queries_is_finite(model: Any) -> None:
    checks.a_session_without_queries_is_finite(model)


def test_rows_can_be_picked_and_share_a_memory(model: Any) -> None:
    checks.rows_can_be_picked_and_share_a_memory(model)


def test_what_words_leaned_on_sums_to_one(model: Any) -> None:
    checks.what_words_leaned_on_sums_to_one(model, window=1 if isinstance(model, Seq2Seq) else None)


def test_without_attention_leaning_is_the_gradient() -> None:
    """|dl/dx . x| by differences: a word's vector a little longer, the suggested word's log-probability after that."""
    model = checks.shaken(build("h-lstm", dim=8, embedding=6, dropout=0.0))
    session, candidate, small = [[5, 6], [7], [8, 9]], [10, 11], 1e-6
    batch, candidates = pad([session]), pad([[candidate]]).words
    leaned = model.attributions(batch, candidates[:, 0])[0, 1]
    sizes = torch.zeros(3, 2, dtype=torch.float64)
    for turn, query in enumerate(session):
        for place, id in enumerate(query):
            ends = []
            for sign in (1, -1):
                kept = model.writer.words.table.weight.data[id].clone()
                model.writer.words.table.weight.data[id] *= 1 + sign * small  # no word stands twice, or is suggested
                memory = model.encode(batch)
                model.writer.words.table.weight.data[id] = kept
                read = torch.tensor([[2, 10]])
                ends.append(float(model.writer.likelihood(memory, read, torch.tensor([[10, 11]])).detach()[0, 1]))
            sizes[turn, place] = abs(ends[0] - ends[1]) / (2 * small)
    torch.testing.assert_close(leaned, sizes / sizes.sum(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["seq2seq", "h-lstm", "m-nsrf"])
def test_gradients(name: str) -> None:
    checks.gradients_are_right(checks.shaken(build(name, dim=4, embedding=3, dropout=0.0)).train())


@pytest.mark.parametrize("name", ["h-lstm", "m-nsrf"])
def test_hierarchies_learn_what_only_the_first_query_tells(name: str) -> None:
    torch.manual_seed(0)
    assert checks.share_learned(build(name, dim=24, embedding=16, dropout=0.0), 200) > 0.95


def test_the_last_query_alone_cannot() -> None:
    """Six words are equally likely: 1 in 6, and chance."""
    torch.manual_seed(0)
    assert checks.share_learned(build("seq2seq", dim=24, embedding=16, dropout=0.0), rate=0.01) < 0.4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 7}, "dim is 7; it must be even, because each direction has half of it"),
        ({"embedding": 0}, "embedding is 0; it must be at least 1"),
        ({"pooling": "mean"}, "pooling is 'mean'; choose from last, max"),
        ({"entropy": -1.0}, "entropy is -1.0; it must be 0 or more"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        HLSTMSettings(**settings)
    assert str(error.value) == message
