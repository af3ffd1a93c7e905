"""Passages and what they were cut from."""

from __future__ import annotations

import numpy as np
import torch

from ensue.tasks.link.pretrain import LONGEST, SHORTEST, Cloze
from ensue.text.tokens import Tokens
from tests.tasks.link.test_dataset import counting_up


def drawn(cloze: Cloze, index: np.ndarray[tuple[int], np.dtype[np.int64]], seed: int) -> tuple[list[set[int]], ...]:
    """The words of the rests and of the passages, an article each."""
    torch.manual_seed(seed)
    batch = cloze.batch(index)
    assert torch.equal(batch.related, torch.eye(len(index), dtype=torch.bool))
    sides: list[list[set[int]]] = []
    for blocks in (batch.articles, batch.posts):
        words: list[set[int]] = [set() for _ in index]
        for block in blocks:
            for text, ids, mask in zip(block.rows.tolist(), block.items, block.mask, strict=True):
                words[text] = set(ids[mask].tolist())
        sides.append(words)
    return tuple(sides)


def test_passages_are_cut_out_of_articles() -> None:
    articles: Tokens = counting_up(100, 60, 3, 2)  # words of their own, each once
    cloze = Cloze(articles, np.arange(4), np.zeros(4, np.int64))
    for seed in range(20):
        rests, passages = drawn(cloze, np.arange(4), seed)
        for rest, passage, first, length in zip(rests, passages, (2, 102, 162, 165), (100, 60, 3, 2), strict=True):
            own = set(range(first, first + length))
            assert passage and rest and passage | rest <= own and not passage & rest
            assert len(passage) <= LONGEST and max(passage) - min(passage) < LONGEST
            assert len(passage) >= SHORTEST / 4 or length < 2 * SHORTEST


def test_words_are_left_out_of_both_sides_and_draws_follow_the_seed() -> None:
    cloze = Cloze(counting_up(400, 400), np.arange(2), np.zeros(2, np.int64))
    one, again, other = (drawn(cloze, np.arange(2), seed) for seed in (1, 1, 2))
    assert one == again != other
    rest, passage = one[0][0], one[1][0]
    assert 0.7 < (len(rest) + len(passage)) / 400 < 0.9


def test_headlines_are_passages_too() -> None:
    cloze = Cloze(counting_up(50, 50), np.arange(2), np.array([4, 0]))
    found = [drawn(cloze, np.arange(2), seed)[1] for seed in range(40)]
    heads = [max(passage) <= 5 for passage, _ in found]  # of the words 2 to 51 the first four
    assert 2 <= sum(heads) <= 18 and not any(max(passage) <= 55 for _, passage in found)


def test_of_copies_one_is_drawn_an_epoch() -> None:
    cloze = Cloze(counting_up(9, 9, 9, 1, 9), np.array([0, 0, 2, 3, 0]), np.zeros(5, np.int64))
    plans = [cloze.plan(8, seed) for seed in range(20)]
    assert len(cloze) == 2 and all(len(batch) == 2 and 2 in batch for plan in plans for batch in plan)
    assert {int(own) for plan in plans for own in plan[0]} == {0, 1, 2, 4}  # an article of one word cannot be cut
    plan = Cloze(counting_up(*[9] * 10), np.arange(10), np.zeros(10, np.int64)).plan(4, 0)
    assert [len(batch) for batch in plan] == [4, 3, 3]
