"""Chunks, blocks, batches, and what is taken out."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from ensue.data.histories import Index
from ensue.tasks.classify.dataset import MAX_PASSAGE, Chunks, select_words
from ensue.tasks.classify.passages import PassageBatches, TextBatch
from ensue.text.tokens import Tokenizer, Tokens


def counting_up(*texts: tuple[int, ...]) -> Tokens:
    """Texts whose sentences have these numbers of words; every word has an id of its own, from 2 on."""
    sentences = np.cumsum([0, *(size for text in texts for size in text)]).astype(np.int64)
    offsets = np.cumsum([0, *(len(text) for text in texts)]).astype(np.int64)
    return Tokens(np.arange(2, 2 + sentences[-1], dtype=np.int32), sentences, offsets)


LENGTHS = (5, 0, 1, 7, 300, 40, 2, 600)


def words_by_text(batch: TextBatch) -> dict[int, list[int]]:
    """The ids in a flat batch, text by text, put together literally."""
    passages: dict[int, list[int]] = {}
    for block in batch.words:
        for row, ids, mask in zip(block.rows.tolist(), block.items, block.mask, strict=True):
            passages[row] = ids[mask].tolist()
            assert not ids[~mask].any()
    found: dict[int, list[int]] = {text: [] for text in range(batch.num_texts)}
    for row, owner in enumerate(batch.owners.tolist()):
        found[owner] += passages[row]
    return found


@pytest.mark.parametrize("way", ["plan", "groups", "one"])
def test_every_word_is_read_once_and_in_order(way: str) -> None:
    tokens = counting_up(*((length,) for length in LENGTHS))
    passages = PassageBatches((tokens,), np.arange(8))
    alone = [np.array([number]) for number in range(8)]
    indices: list[Index] = {"plan": passages.plan(3, 0), "groups": list(passages.groups(50)), "one": alone}[way]
    assert sorted(np.concatenate(indices).tolist()) == list(range(8))
    for index in indices:
        batch = passages.batch(index)
        assert batch.targets.tolist() == index.tolist() and batch.num_targets == len(index)
        for place, ids in words_by_text(batch).items():
            span = slice(*tokens.sentences[tokens.texts[index[place] : index[place] + 2]].tolist())
            assert ids == tokens.ids[span].tolist()


def test_blocks_are_longest_first_and_less_than_half_padding() -> None:
    batch = PassageBatches((counting_up(*((length,) for length in LENGTHS)),)).batch(np.arange(8))
    assert [block.lengths.tolist() for block in batch.words] == [[200, 200, 200, 150, 150], [40], [7, 5], [2], [1]]
    for block in batch.words:
        assert torch.equal(block.mask.sum(1), block.lengths) and block.mask.double().mean() > 0.5


def test_a_long_text_is_cut_into_equal_stretches_that_share_it_by_length() -> None:
    # 600 words in ceil(600 / 256) = 3 stretches of 200; 257 in two, of 128 and 129.
    cut = Chunks(np.array([0, 600, 600, 857]))
    assert cut.starts.tolist() == [0, 200, 400, 600, 728] and cut.owners.tolist() == [0, 0, 0, 2, 2]
    assert cut.lengths.tolist() == [200, 200, 200, 128, 129] and cut.lengths.max() <= MAX_PASSAGE
    batch = PassageBatches((counting_up((257,), (3,)),)).batch(np.array([0, 1]))
    assert batch.shares.tolist() == pytest.approx([128 / 257, 129 / 257, 1])


def test_pairs_come_as_first_texts_and_then_second_ones() -> None:
    sides = counting_up((2,), (1,), (0,)), counting_up((1,), (3,), (2,))
    passages = PassageBatches(sides)
    assert passages.lengths.tolist() == [3, 4, 2]
    batch = passages.batch(np.array([1, 2]))
    assert batch.num_texts == 4
    assert words_by_text(batch) == {0: [4], 1: [], 2: [3, 4, 5], 3: [6, 7]}


def test_documents_hold_their_sentences_and_no_empty_one() -> None:
    tokens = select_words(counting_up((2, 1, 3), (1,)), np.array([True, True, False, True, True, True, True]))
    batch = PassageBatches((tokens,), documents=True).batch(np.array([1, 0]))
    (sentences,) = batch.sentences[:1]
    sizes = {
        row: size
        for block in batch.words
        for row, size in zip(block.rows.tolist(), block.lengths.tolist(), strict=True)
    }
    # Passage 0 is the second text's; 1 and 2 are what is left of the first: its sentences of 2 and of 3 words.
    assert sizes == {0: 1, 1: 2, 2: 3} and sentences.items.tolist() == [[1, 2]]
    assert batch.owners[sentences.rows].tolist() == [1] and batch.shares.tolist() == [1, 1]


def test_a_batch_without_any_word_is_a_batch() -> None:
    batch = PassageBatches((counting_up((0,), (0,)),), documents=True).batch(np.arange(2))
    assert (batch.words, batch.sentences, batch.num_texts, len(batch.owners)) == ((), (), 2, 0)


def test_words_within_caps_stay_beside_their_ids() -> None:
    column = pl.Series(["One two three. Four five! Six.", "", "Seven eight nine ten eleven."])
    tokenizer = Tokenizer.fit([column])
    for words, sentences in ((2, 2), (3, None), (None, 1), (None, None)):
        tokens = tokenizer.encode(column, sentences=True, max_words=words, max_sentences=sentences, keep_words=True)
        assert tokens.words is not None
        assert tokens.words.to_list() == [tokenizer.vocabulary.value(id) for id in tokens.ids.tolist()]
