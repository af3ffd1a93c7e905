"""Plans, batches and blocks of articles and posts; vectors of whole corpora."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from ensue import DataError
from ensue.tasks.link.batches import POSTS, Links, text_blocks
from ensue.tasks.link.models import network as module
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.settings import LinkSettings
from ensue.text.tokens import Tokenizer, Tokens


def counting_up(*lengths: int) -> Tokens:
    """Texts of these numbers of words; every word has an id of its own, from 2 on."""
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    return Tokens(np.arange(2, 2 + offsets[-1], dtype=np.int32), offsets, np.arange(len(offsets), dtype=np.int64))


def made_up(seed: int = 0, articles: int = 30, posts: int = 200) -> Links:
    random = np.random.default_rng(seed)
    pairs = np.stack([random.integers(articles, size=300), random.integers(posts, size=300)], 1)
    bodies, notes = (counting_up(*random.integers(1, 50, size=size).tolist()) for size in (articles, posts))
    return Links(bodies, notes, pairs)


def test_every_pair_comes_once_and_the_same_seed_gives_the_same_plan() -> None:
    links = made_up()
    plan = links.plan(16, (3, 1))
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(links)))
    assert {len(batch) for batch in plan} <= {16, len(links) % 16}
    again, other = links.plan(16, (3, 1)), links.plan(16, (3, 2))
    assert all(np.array_equal(one, two) for one, two in zip(plan, again, strict=True))
    assert any(not np.array_equal(one, two) for one, two in zip(plan, other, strict=True))
    groups = list(links.groups(50))
    assert np.concatenate(groups).tolist() == list(range(len(links))) and max(map(len, groups)) == 50


def test_posts_of_an_article_come_together_but_not_all_of_many() -> None:
    # 20 posts of article 0 and one of each of 60 others: in batches of 20, no more than POSTS of article 0 stand
    # together, and 3 groups of it hold all.
    pairs = np.array([*((0, post) for post in range(20)), *((1 + other, 20 + other) for other in range(60))])
    links = Links(counting_up(*[5] * 61), counting_up(*[3] * 80), pairs)
    runs = 0
    for batch in links.plan(20, 1):
        own = links.pairs[batch, 0] == 0
        edges = np.flatnonzero(np.diff(np.concatenate([[0], own.astype(int), [0]])))
        runs += len(edges) // 2
        assert (edges[1::2] - edges[::2] <= 2 * POSTS).all()
    # Groups of 8, 8 and 4, of which an end of a batch may cut one.
    assert 2 <= runs <= 5


def test_batches_hold_articles_of_like_length() -> None:
    lengths = np.random.default_rng(0).permutation(np.arange(1, 401))
    links = Links(counting_up(*lengths.tolist()), counting_up(*[3] * 400), np.stack([np.arange(400)] * 2, 1))
    spreads = [np.ptp(lengths[links.pairs[batch, 0]]) for batch in links.plan(10, 5)]
    # A pool holds 16 batches of 10: sorted, one spans 400 / 16 = 25; the blur, half of 200.
    assert np.median(spreads) < 150


def test_a_batch_holds_each_text_once_with_all_relations() -> None:
    links = Links(counting_up(4, 2, 3), counting_up(1, 2, 1), np.array([[0, 0], [0, 1], [2, 1], [2, 1], [1, 2]]))
    assert len(links) == 4  # a pair given twice counts once
    batch = links.batch(np.array([0, 3]))  # (0, 0) and (2, 1): (0, 1) is a relation too
    assert links.pairs[[0, 3]].tolist() == [[0, 0], [2, 1]]
    assert batch.related.tolist() == [[True, True], [False, True]] and batch.num_targets == 3
    assert [block.rows.tolist() for block in batch.articles] == [[0, 1]]
    assert batch.articles[0].items.tolist() == [[2, 3, 4, 5], [8, 9, 10, 0]]
    assert [block.items.tolist() for block in batch.posts] == [[[3, 4]], [[2]]]
    assert torch.equal(batch.articles[0].mask, batch.articles[0].items > 0)


def test_pairs_without_words_are_left_out_and_counted() -> None:
    links = Links(counting_up(4, 0), counting_up(1, 0, 2), np.array([[0, 0], [0, 1], [1, 2], [0, 2]]))
    assert links.pairs.tolist() == [[0, 0], [0, 2]] and links.skipped == 2


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 3]], "a pair is outside the 2 articles and 3 posts; number both from 0"),
        ([[-1, 0]], "a pair is outside the 2 articles and 3 posts; number both from 0"),
        ([[1, 0]], "there is no pair of an article and a post that both have words; give at least one"),
        ([], "there is no pair of an article and a post that both have words; give at least one"),
    ],
)
def test_pairs_that_cannot_be(pairs: list[list[int]], message: str) -> None:
    with pytest.raises(DataError) as error:
        Links(counting_up(4, 0), counting_up(1, 2, 3), np.array(pairs, dtype=np.int64))
    assert str(error.value) == message


def test_blocks_are_longest_first_less_than_half_padding_and_hold_every_word_once() -> None:
    tokens = counting_up(5, 0, 100, 60, 51, 3, 50)
    blocks = text_blocks(tokens, np.array([6, 5, 4, 3, 2, 1, 0]))
    # Texts are counted as they were asked for: 2 is the one of 51 words, 4 that of 100. 50 is half of 100.
    assert [block.rows.tolist() for block in blocks] == [[4, 3, 2], [0], [6, 1]]
    assert [block.items.shape[1] for block in blocks] == [100, 50, 5]
    found = sorted(np.concatenate([block.items[block.mask].numpy() for block in blocks]).tolist())
    assert found == tokens.ids.tolist()
    assert [len(block.items) for block in text_blocks(tokens, np.arange(7), words=150)] == [1, 2, 1, 2]
    assert text_blocks(tokens, np.array([1])) == ()


def test_a_corpus_is_encoded_in_order_whatever_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pl.Series(["a b c", "", "b", "c c a b d", "d"])
    tokenizer = Tokenizer.fit([column])
    torch.manual_seed(0)
    network = Linker(LinkSettings(heads=2), len(tokenizer.vocabulary), 6).eval()
    tokens = tokenizer.encode(column)
    whole = network.vectors(tokens)
    assert np.linalg.norm(whole, axis=1).tolist() == pytest.approx([1, 0, 1, 1, 1])
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    np.testing.assert_allclose(network.vectors(tokens), whole, rtol=0, atol=1e-6)
