"""Decomposable attention against a literal loop, and what it makes of padding and of empty texts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from ensue.tasks.classify.dataset import Sides
from ensue.tasks.classify.model import Shape
from ensue.tasks.classify.models.alignment import Alignment
from ensue.tasks.classify.models.centrality import CentralityClassifier
from ensue.tasks.classify.passages import PassageBatches
from ensue.tasks.classify.settings import ALIGNMENT, TextSettings
from ensue.text.tokens import Tokenizer

FIRST, SECOND = ["a b c", "d", "", "a a b"], ["b d", "a b c d", "c", ""]


def sides() -> tuple[Tokenizer, Sides]:
    tokenizer = Tokenizer.fit([pl.Series(FIRST), pl.Series(SECOND)])
    return tokenizer, tuple(tokenizer.encode(pl.Series(column)) for column in (FIRST, SECOND))


def literal(layer: Alignment, first: Tensor, second: Tensor | None = None) -> Tensor:
    """Eqs. 1-4, word by word."""
    found: list[Tensor] = []
    for own, other in ((first, first),) if second is None else ((first, second), (second, first)):
        compared, directions = [], [layer.attend(one) / layer.attend(one).norm() for one in other]
        for word in own:
            aligned, nearest = torch.zeros_like(word), torch.tensor([-1.0])
            if len(other):
                cosines = torch.stack([layer.attend(word) @ one / layer.attend(word).norm() for one in directions])
                shares, nearest = (layer.sharpness * cosines).softmax(0), cosines.max()[None]
                aligned = sum((share * one for share, one in zip(shares, other, strict=True)), aligned)
            compared.append(layer.compare(torch.cat([word, aligned, word - aligned, word * aligned, nearest])))
        rows = torch.stack(compared) if compared else torch.zeros(1, layer.width // 4)
        found += [rows.mean(0), rows.max(0).values]
    normal: Tensor = layer.after(torch.cat(found))
    return normal


def test_pairs_are_those_of_a_loop_and_padding_is_invisible() -> None:
    torch.manual_seed(0)
    tokenizer, encoded = sides()
    table, layer = torch.randn(len(tokenizer.vocabulary), 5), Alignment(5, 4, 0.0, paired=True).eval()
    data = PassageBatches(encoded)
    together, pooled = layer(lambda items: table[items], data.batch(np.arange(4)))
    for record in range(4):
        ids = [side.select(slice(record, record + 1)).ids.astype(np.int64) for side in encoded]
        words = [layer.before(table[torch.from_numpy(own)]) for own in ids]
        expected = literal(layer, *words)
        alone, _ = layer(lambda items: table[items], data.batch(np.array([record])))
        assert torch.allclose(together[record], expected, atol=1e-6) and torch.allclose(alone[0], expected, atol=1e-6)
    for block, part in zip(data.batch(np.arange(4)).words, pooled, strict=True):
        sums = part.weights.sum(1)
        assert (part.weights[~block.mask] == 0).all() and ((sums - 1).abs() < 1e-5).logical_or(sums == 0).all()


@torch.no_grad()
def test_words_are_aligned_with_themselves_before_anything_is_learned() -> None:
    torch.manual_seed(0)
    tokenizer = Tokenizer.fit([pl.Series(["a b c d"])])
    encoded = tuple(tokenizer.encode(pl.Series([text])) for text in ("a b c", "c"))
    network = CentralityClassifier(
        TextSettings(pooling=ALIGNMENT), Shape(len(tokenizer.vocabulary), 50, 2, "pair")
    ).eval()
    first = network(PassageBatches(encoded).batch(np.arange(1))).words[0]
    assert float(first.weights[0, 2]) > 0.9, "of a b c the last, which the other text holds"


@torch.no_grad()
def test_a_text_of_many_passages_is_aligned_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PassageBatches, "max_words", 16)
    torch.manual_seed(0)
    long = [" ".join(f"w{place % 7}" for place in range(40))]
    tokenizer = Tokenizer.fit([pl.Series(long)])
    settings = TextSettings(pooling=ALIGNMENT, hidden=4, head=4, dropout=0.0)
    network = CentralityClassifier(settings, Shape(len(tokenizer.vocabulary), 5, 2, "flat")).eval()
    encoded = tokenizer.encode(pl.Series(long))
    batch = PassageBatches((encoded,)).batch(np.arange(1))
    assert len(batch.owners) == 3 and network.aligned is not None
    output = network(batch)
    words = network.table.weight[torch.from_numpy(encoded.ids.astype(np.int64))]
    expected = literal(network.aligned, network.aligned.before(words))
    assert torch.allclose(output.scores[0], network.output(network.hidden(expected).tanh()), atol=1e-5)
