"""The network against literal compositions of its parts, in float64, one text at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue import SettingError
from ensue.schedule import Schedule
from ensue.tasks.classify.model import Shape
from ensue.tasks.classify.models.centrality import CentralityClassifier, Level
from ensue.tasks.classify.passages import PassageBatches
from ensue.tasks.classify.settings import TextSettings
from ensue.training.optimizer import make_optimizer
from tests.tasks.classify.test_dataset import counting_up

SMALL = {"hidden": 3, "head": 4, "score_dim": 3, "dropout": 0.0}


def network(pooling: str, architecture: str, num_words: int = 700) -> CentralityClassifier:
    torch.manual_seed(1)
    made = CentralityClassifier(TextSettings(pooling=pooling, **SMALL), Shape(num_words, 5, 3, architecture))  # type: ignore[arg-type]
    return made.double().eval()


def pooled(level: Level | None, items: Tensor) -> Tensor:
    """One passage without padding: BiLSTM, then the pooling."""
    assert level is not None
    mask = torch.ones(1, len(items), dtype=torch.bool)
    vector: Tensor = level.pool(level.lstm(items[None], mask), mask).vector[0]
    return vector


def scored(net: CentralityClassifier, vector: Tensor) -> Tensor:
    scores: Tensor = net.output(net.hidden(vector).tanh())
    return scores


@pytest.mark.parametrize("pooling", ["centrality", "centrality-bilinear", "self-attention", "mean", "max", "routing"])
def test_flat_texts_are_pooled_alone_whatever_stands_beside_them(pooling: str) -> None:
    net, tokens = network(pooling, "flat"), counting_up((5,), (0,), (1,), (7,), (300,))
    found = net(PassageBatches((tokens,)).batch(np.arange(5))).scores
    bounds = tokens.sentences.tolist()
    for text, (low, high) in enumerate(pairwise(bounds)):
        vectors = net.table(torch.from_numpy(tokens.ids[low:high].astype(np.int64)))
        if high - low == 300:  # two stretches of 150 words
            vector = (pooled(net.words, vectors[:150]) + pooled(net.words, vectors[150:])) / 2
        else:
            vector = (
                pooled(net.words, vectors) if high > low else torch.zeros(6 if "rout" not in pooling else 30).double()
            )
        torch.testing.assert_close(found[text], scored(net, vector), rtol=1e-6, atol=1e-6)


def test_documents_are_sentences_pooled_and_pooled_again() -> None:
    net, tokens = network("centrality", "hierarchical"), counting_up((3, 1, 4), (2,), (0,))
    found = net(PassageBatches((tokens,), documents=True).batch(np.array([2, 0, 1]))).scores
    vectors = net.table(torch.from_numpy(tokens.ids.astype(np.int64)))
    sentences = [pooled(net.words, part) for part in vectors.split([3, 1, 4, 2])]
    first, second = pooled(net.sentences, torch.stack(sentences[:3])), pooled(net.sentences, torch.stack(sentences[3:]))
    torch.testing.assert_close(found[1], scored(net, first), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[2], scored(net, second), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[0], scored(net, torch.zeros(6).double()))


def test_pairs_share_the_encoder_and_are_related_by_equation_10() -> None:
    net, sides = network("max", "pair"), (counting_up((2,), (3,)), counting_up((4,), (1,)))
    found = net(PassageBatches(sides).batch(np.array([1, 0]))).scores
    for row, pair in ((0, 1), (1, 0)):
        spans = [side.ids[side.sentences[pair] : side.sentences[pair + 1]] for side in sides]
        one, two = (pooled(net.words, net.table(torch.from_numpy(ids.astype(np.int64)))) for ids in spans)
        related = torch.cat([one, two, (one - two).abs(), one * two])
        torch.testing.assert_close(found[row], scored(net, related), rtol=1e-6, atol=1e-6)


def test_the_loss_is_the_mean_negative_log_likelihood() -> None:
    net, targets = network("mean", "flat"), np.array([2, 0])
    batch = PassageBatches((counting_up((3,), (2,)),), targets).batch(np.arange(2))
    shares = net(batch).scores.softmax(1)
    expected = -(shares[0, 2].log() + shares[1, 0].log()) / 2
    assert net.loss(batch).item() == pytest.approx(expected.item(), rel=1e-6)


def test_words_that_are_fixed_or_not_met_stay_as_they_are_to_the_bit() -> None:
    torch.manual_seed(0)
    net = CentralityClassifier(TextSettings(**SMALL), Shape(12, 5, 2, "flat")).train()  # type: ignore[arg-type]
    vectors = torch.randn(2, 5)
    net.place(torch.tensor([2, 3]), vectors, tuned=False)
    assert torch.equal(net.table.weight[[2, 3]], vectors)
    before = net.table.weight.detach().clone()
    optimizer = make_optimizer(net, Schedule(learning_rate=0.1, weight_decay=0.1), undecayed=[net.table.weight])
    batch = PassageBatches((counting_up((4,), (2,)),), np.array([0, 1])).batch(np.arange(2))  # words 2 to 7
    for _ in range(3):
        optimizer.zero_grad()
        torch.autograd.backward(net.loss(batch))
        optimizer.step()
    moved = (net.table.weight != before).any(1).tolist()
    assert moved == [False] * 4 + [True] * 4 + [False] * 4


def test_words_that_a_file_lacks_start_as_large_as_those_it_has() -> None:
    torch.manual_seed(0)
    net = CentralityClassifier(TextSettings(**SMALL), Shape(4000, 5, 2, "flat"))  # type: ignore[arg-type]
    net.place(torch.arange(2, 1000), 3 * torch.randn(998, 5), tuned=True)
    assert net.table.weight[1000:].std().item() == pytest.approx(3, rel=0.05)
    assert not net.table.weight[:2].any() and not net.fixed.any()


def test_new_words_get_rows_and_old_ones_keep_theirs() -> None:
    net = network("mean", "flat", 10)
    before = net.table.weight.detach().clone()
    net.grow(13)
    assert torch.equal(net.table.weight[:10], before) and net.table.weight[10:].abs().min() > 0
    assert net.table.weight.requires_grad and net.table.sparse and net.fixed.tolist() == [False] * 13


@pytest.mark.parametrize(("name", "value", "message"), [
    ("pooling", "sum", "pooling is 'sum'; choose from max, mean, self-attention, routing, reverse-routing, centrality, "
     "centrality-bilinear, tokenrank, alignment, or give FILE.py:CLASS"),
    ("architecture", "deep", "architecture is 'deep'; choose from auto, flat, hierarchical, pair"),
    ("method", "guess", "method is 'guess'; choose from solve, power"),
    ("hidden", 0, "hidden is 0; it must be at least 1"),
    ("max_words", 0, "max_words is 0; it must be at least 1"),
    ("extra_words", -1, "extra_words is -1; it must be 0 or more"),
    ("dropout", 1.0, "dropout is 1.0; it must be at least 0 and below 1"),
])  # fmt: skip
def test_settings_are_checked(name: str, value: object, message: str) -> None:
    with pytest.raises(SettingError) as error:
        TextSettings(**{name: value})  # type: ignore[arg-type]
    assert str(error.value) == message
