"""Batches of sessions of queries: both ways to make them, what is asked, and what a decoder reads and says."""

from __future__ import annotations

import numpy as np
import torch

from ensue.tasks.suggest.batch import BEGIN, END, QueryBatch, look_up, next_queries, pad, select, spell

SESSIONS = [[[5, 6, 7], [8], [9, 5]], [[10]], [], [[4, 4], [11, 12, 6]]]


def test_padded_along_both_axes() -> None:
    batch = pad(SESSIONS)
    assert batch.words.shape == (4, 3, 3)
    assert batch.words[0].tolist() == [[5, 6, 7], [8, 0, 0], [9, 5, 0]]
    assert batch.lengths.tolist() == [[3, 1, 2], [1, 0, 0], [0, 0, 0], [2, 3, 0]]
    assert torch.equal(batch.mask, batch.words > 0)
    assert pad([]).words.shape == (0, 1, 1)


def test_what_is_asked() -> None:
    batch = pad(SESSIONS)
    assert batch.followed.int().tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert batch.last.int().tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert batch.num_targets == (1 + 1) + (2 + 1) + (3 + 1)  # the words and the end of what followed


def test_what_a_decoder_reads_and_says() -> None:
    read, said = next_queries(pad(SESSIONS))
    assert read.tolist() == [[BEGIN, 8, 0, 0], [BEGIN, 9, 5, 0], [BEGIN, 11, 12, 6]]
    assert said.tolist() == [[8, END, 0, 0], [9, 5, END, 0], [11, 12, 6, END]]
    read, said = spell(torch.tensor([[5, 6, 0]]), torch.tensor([2]))
    assert (read.tolist(), said.tolist()) == ([[BEGIN, 5, 6]], [[5, 6, END]])
    read, said = spell(torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert read.shape == said.shape == (0, 1)


def test_looked_up_from_distinct_queries() -> None:
    tokens = np.array([5, 6, 7, 8, 9, 5, 4, 4, 4, 4], np.int32)
    offsets = np.array([0, 3, 4, 6, 10])  # queries 0 to 3
    numbers = np.array([[0, 1, 2], [3, -1, -1]])
    batch = look_up(tokens, offsets, numbers, most=9)
    assert torch.equal(batch.words, pad([[[5, 6, 7], [8], [9, 5]], [[4, 4, 4, 4]]]).words)
    assert batch.lengths.tolist() == [[3, 1, 2], [4, 0, 0]]
    cut = look_up(tokens, offsets, numbers, most=2)
    assert cut.words.tolist() == [[[5, 6], [8, 0], [9, 5]], [[4, 4], [0, 0], [0, 0]]]
    assert cut.lengths.tolist() == [[2, 1, 2], [2, 0, 0]]


def test_moved_and_picked() -> None:
    batch = QueryBatch(*pad(SESSIONS)[:2], torch.zeros(4, 1, 3, dtype=torch.long))
    moved = batch.to(torch.device("cpu"))
    assert all(torch.equal(a, b) for a, b in zip(moved, batch, strict=True) if a is not None and b is not None)
    picked = select(batch, torch.tensor([3, 0, 3]))
    assert isinstance(picked, QueryBatch)
    assert torch.equal(picked.words, batch.words[[3, 0, 3]])
