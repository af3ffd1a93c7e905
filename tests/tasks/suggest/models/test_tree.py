"""A tree of texts by hand, and a decoder that reads it says what it says of each text alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ensue.tasks.suggest.batch import BEGIN, pad
from ensue.tasks.suggest.models.mtn import MTN
from ensue.tasks.suggest.models.transformers import Transformer
from ensue.tasks.suggest.models.tree import Tree
from ensue.tasks.suggest.settings import MTNSettings, TransformerSettings
from tests.tasks.suggest.checks import NUM_IDS, SESSIONS, scored, shaken

SIZES: dict[str, Any] = {"dim": 8, "embedding": 6, "wide": 10, "heads": 2, "dropout": 0.0}


def test_shared_beginnings_stand_once_by_hand() -> None:
    """2-5-6, 2-5-7 and 2-5 are 4 nodes; 2-7-5, 2-8-5 and 2 are 5, for what follows different words is not shared."""
    texts = torch.tensor([[2, 5, 6], [2, 5, 7], [2, 5, 0], [2, 7, 5], [2, 8, 5], [2, 0, 0]])
    tree = Tree.of(texts, 2)
    assert tree.ids.tolist() == [2, 5, 6, 7, 2, 7, 8, 5, 5]
    assert tree.depths.tolist() == [0, 1, 2, 2, 0, 1, 1, 2, 2]
    assert tree.nodes.tolist() == [[0, 1, 2], [0, 1, 3], [0, 1, 0], [4, 5, 7], [4, 6, 8], [4, 0, 0]]
    assert tree.rows.length == 5 and tree.rows.places is not None
    assert tree.rows.places.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    expected = torch.zeros(2, 5, 5, dtype=torch.bool)
    for node, path in enumerate([[0], [0, 1], [0, 1, 2], [0, 1, 3]]):
        expected[0, node, path] = True
    for node, path in enumerate([[0], [0, 1], [0, 2], [0, 1, 3], [0, 2, 4]]):
        expected[1, node, path] = True
    assert torch.equal(tree.seen, expected)


def test_every_path_spells_its_text() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 6, (60,), generator=generator)
    texts = torch.randint(2, 5, (60, 5), generator=generator) * (torch.arange(5) < lengths[:, None])
    tree = Tree.of(texts, 6)
    assert torch.equal(tree.ids[tree.nodes] * (texts > 0), texts)
    for source, part in enumerate(texts.view(6, 10, 5).tolist()):
        beginnings = {tuple(text[:end]) for text in part for end in range(1, 6) if text[end - 1]}
        assert int(tree.seen[source].any(1).sum()) == len(beginnings)
    one = Tree.of(torch.tensor([[BEGIN]]), 1)
    assert (one.ids.tolist(), one.rows.places, one.seen.tolist()) == ([BEGIN], None, [[[True]]])


NETWORKS: dict[str, Any] = {
    "mtn": lambda: MTN(MTNSettings(**SIZES, depth="1+1+2"), NUM_IDS),
    "mtn-copy": lambda: MTN(MTNSettings(**SIZES, depth="1+1+2", reads="all", copy=True), NUM_IDS),
    "flat-tied": lambda: Transformer(TransformerSettings(**SIZES, depth="1+2", window=9, tied=True), NUM_IDS),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_candidates_read_as_a_tree_score_as_they_do_alone(name: str) -> None:
    """The same one twice, the beginning of another, one without tokens; sources with more and with fewer nodes."""
    model = shaken(NETWORKS[name]())
    lists = [
        [[5, 6], [5, 6, 7], [5], [5, 6], [6, 5]],
        [[10, 11], [12, 1, 5], [10, 10, 10, 10]],
        [[7]],
    ]
    candidates, batch = pad(lists).words, pad(SESSIONS)
    with torch.no_grad():
        together = scored(model, batch, candidates)
    one_by_one = torch.cat([scored(model, batch, candidates[:, place : place + 1]) for place in range(5)], dim=1)
    torch.testing.assert_close(together, one_by_one.detach(), rtol=0, atol=1e-10)
    assert (together[2, 1:] == -torch.inf).all()
