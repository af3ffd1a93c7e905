"""The list of networks: comparable in size, each with its paper's schedule."""

from __future__ import annotations

from ensue.tasks.suggest.catalogue import COUNTING, MODELS
from ensue.tasks.suggest.models.mtn import MTN
from ensue.tasks.suggest.settings import MTNSettings


def test_budgets_are_equal() -> None:
    """Within 5 % of MTN's at a vocabulary of 8,000, so that no rival is behind for its size."""
    sizes = {
        name: sum(parameter.numel() for parameter in row.make(row.settings, 8000).parameters())
        for name, row in MODELS.items()
        if row.schedule is not None and name != "mtn-paper"
    }
    assert {name: abs(size / sizes["mtn"] - 1) < 0.05 for name, size in sizes.items()} == dict.fromkeys(sizes, True)
    assert set(MODELS) - set(sizes) == {*COUNTING, "reranker", "mtn-paper"}


def test_the_papers_size() -> None:
    """3 + 2 encoder layers and 3 decoder layers, 512 wide with 1,024 in between, words 300 wide; here 100 words."""
    assert MTNSettings() == MTNSettings(depth="3+2+3", dim=512, embedding=300, wide=1024, heads=8, dropout=0.1)
    model = MTN(MTNSettings(), 100)
    encoder = 4 * 512 * 513 + 1024 * 513 + 512 * 1025 + 2 * 2 * 512  # attention, both feed-forward layers, two norms
    decoder = encoder + 4 * 512 * 513 + 2 * 512  # an attention and a norm more
    ends = 100 * 300 + (300 * 512 + 512) + 100 * 512 + 100  # table, widening, output
    between = 32 + 2 * 512  # the query projection, and the norm where sessions go back to the tokens
    assert sum(p.numel() for p in model.parameters()) == 5 * encoder + 3 * decoder + ends + between
