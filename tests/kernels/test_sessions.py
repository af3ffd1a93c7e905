"""Compiled answers of CORE against torch: sessions, and scores from the table in half its size; changed weights too."""

from __future__ import annotations

import copy
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue.nn.item_head import (
    FEW_QUERIES,
    MAX_QUERIES,
    MIN_LONG_IDS,
    MIN_SHORT_IDS,
    NUM_EXACT,
    ItemHead,
    ItemLayer,
    Output,
    ShortItems,
    item_scores,
    suit_short_items,
)
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.item_filter import ItemFilter, Rules
from ensue.tasks.next.models.core import CORE, MAX_FUSED
from ensue.tasks.next.models.sansr import SANSR
from ensue.tasks.next.settings import CORESettings, SANSRSettings
from ensue.topk import Permitted, log_totals, topk
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = [needs_kernels, pytest.mark.parametrize("level", HERE)]
NUM_IDS = 200


def asked(lengths: list[int], time: int, seed: int = 0) -> Batch:
    """The last step of each session; padding behind it."""
    random = torch.Generator().manual_seed(seed)
    stops = torch.tensor(lengths)[:, None]
    mask = torch.arange(time) < stops
    ids = torch.randint(2, NUM_IDS, mask.shape, generator=random) * mask
    last = torch.arange(time) == stops - 1
    return Batch(ids, mask, torch.zeros(mask.shape, dtype=torch.float64), last, torch.empty(0, dtype=torch.int64))


def network(dim: int, heads: int, length: int) -> CORE:
    torch.manual_seed(dim)
    model = CORE(CORESettings(dim=dim, heads=heads, max_length=length), NUM_IDS).eval()
    with torch.no_grad():
        for part in model.parameters():
            part.add_(0.2 / dim**0.5 * torch.randn(part.shape))
        model.items.sampler.totals.add_(torch.arange(float(NUM_IDS)))
    return model


@torch.no_grad()
def same(model: CORE | SANSR, batch: Batch, level: str) -> Output:
    """What the compiled path says, once it is compared with torch's."""
    with using("off"):
        expected = model(batch)
    with using(level):
        output: Output = model(batch)
    torch.testing.assert_close(output.scores, expected.scores, rtol=1e-4, atol=1e-3)  # 1e-4 of 1 / temperature
    torch.testing.assert_close(output.weights[0][batch.mask], expected.weights[0][batch.mask], rtol=1e-4, atol=1e-6)
    assert torch.equal(output.scores.topk(20).indices, expected.scores.topk(20).indices)
    return output


@pytest.mark.parametrize(("dim", "heads", "length"), [(1, 1, 1), (6, 3, 2), (20, 2, 5), (64, 1, 50), (128, 2, 50)])
def test_answers_are_those_of_torch(level: str, dim: int, heads: int, length: int) -> None:
    model = network(dim, heads, length)
    for lengths in ([1], [7], [3, 9, 1], [60], [4] * MAX_FUSED, [2] * (MAX_FUSED + 1)):
        same(model, asked(lengths, max(lengths) + 2, len(lengths)), level)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize(("dim", "heads", "length"), [(1, 1, 1), (6, 3, 2), (20, 2, 5), (128, 2, 50)])
def test_answers_of_sansr_are_those_of_torch(level: str, dim: int, heads: int, length: int, residual: bool) -> None:
    torch.manual_seed(dim)
    model = SANSR(SANSRSettings(dim=dim, heads=heads, max_length=length, residual=residual), NUM_IDS).eval()
    for lengths in ([1], [7], [3, 9, 1], [60], [4] * 60, [60] * 9):
        with torch.no_grad():
            for part in model.parameters():  # changed weights are read at once
                part.add_(0.2 / dim**0.5 * torch.randn(part.shape))
        same(model, asked(lengths, max(lengths) + 2, len(lengths)), level)


def test_what_changed_is_read_at_once(level: str) -> None:
    model, batch = network(20, 2, 5), asked([4], 4)
    before = same(model, batch, level).scores
    with torch.no_grad():
        model.wide.bias.add_(1.0)
        model.prior.add_(0.1)
    moved = same(model, batch, level).scores
    model.observe(torch.tensor([5, 9, 9]), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    observed = same(model, batch, level).scores
    with torch.no_grad():
        model.items.weight[7] = 5.0
    written = same(model, batch, level).scores
    assert not any(torch.equal(*pair) for pair in pairwise([before, moved, observed, written]))
    assert torch.equal(same(copy.deepcopy(model), batch, level).scores, written)


@torch.no_grad()
def test_an_id_that_there_is_not_is_an_error(level: str) -> None:
    for id in (NUM_IDS, -1):
        batch = asked([3], 3)
        batch.ids[0, 1] = id
        with using(level), pytest.raises(IndexError):
            network(6, 3, 2)(batch)


def table(ids: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(ids + dim)
    return tuple(torch.randn(*shape, generator=random) for shape in ((ids, dim), (ids,), (ids,)))  # type: ignore[return-value]


@pytest.mark.parametrize("ids", [1, 2, 63, 64, 65, 1000, 4101])
@pytest.mark.parametrize("dim", [1, 7, 64, 131])
def test_the_highest_scores_are_exact(level: str, ids: int, dim: int) -> None:
    items, factors, bias = table(ids, dim)
    items[ids // 2] = 0.0
    items[: ids // 20] *= 4.0  # the highest scores stand side by side
    short = ShortItems.of(items, factors, bias)
    queries = torch.randn(11, dim, generator=torch.Generator().manual_seed(0))
    assert short is not None
    with using(level):
        scores = short.scores(queries, 2)
        alone = short.scores(queries[3:4], 2)
    exact = queries.double() @ items.double().T * factors.double() + bias.double()
    exact[:, :2] = -math.inf
    # |query| |item| is the largest possible score.
    largest = queries.norm(dim=1)[:, None] * (factors * items.norm(dim=1)).abs()
    assert bool(((scores - exact)[:, 2:].abs() <= 1e-4 * largest[:, 2:] + 1e-5).all())
    best = exact.topk(min(NUM_EXACT // 2, ids)).indices
    torch.testing.assert_close(scores.gather(1, best).double(), exact.gather(1, best), rtol=1e-5, atol=1e-5)
    assert torch.equal(alone[0], scores[3])  # whatever stands beside it


@pytest.mark.parametrize(("ids", "k"), [(1, 1), (65, 65), (1000, 20), (4101, 100)])
@pytest.mark.parametrize("rows", [1, 11])
def test_the_best_items_are_those_of_all_scores(level: str, ids: int, k: int, rows: int) -> None:
    items, factors, bias = table(ids, 33)
    items[3::7], factors[3::7], bias[3::7] = items[ids // 2].clone(), 1.0, 0.5  # a seventh of the scores are equal
    items[ids // 2 :: 3] *= 4.0  # and the best come late
    short = ShortItems.of(items, factors, bias)
    random = torch.Generator().manual_seed(1)
    queries = torch.randn(rows, 33, generator=random)
    hidden = torch.randint(0, ids, (rows, 9), generator=random).sort(dim=1).values
    assert short is not None
    with using(level):
        scores = short.scores(queries, 2).scatter(1, hidden, -math.inf)
        best = short.best(queries, Permitted(hidden.numpy()), k, 2)
        alone = short.best(queries[-1:], Permitted(hidden[-1:].numpy()), k, 2)
    expected, columns = topk(scores.numpy(), k)
    permitted = expected > -math.inf
    np.testing.assert_array_equal(best.scores, expected)
    np.testing.assert_array_equal(best.ids[permitted], columns[permitted])
    np.testing.assert_allclose(best.totals, log_totals(scores.numpy()), rtol=1e-5, atol=1e-5)
    # Whatever stands beside it.
    np.testing.assert_array_equal(alone.ids[0], best.ids[-1])
    assert alone.totals[0] == best.totals[-1]


@pytest.mark.parametrize(("ids", "k"), [(1, 1), (65, 65), (1000, 20), (4101, 100)])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.6, 1.0])
def test_the_best_permitted_items_are_those_of_all_exact_scores(level: str, ids: int, k: int, share: float) -> None:
    items, factors, bias = table(ids, 33)
    items[3::7], factors[3::7], bias[3::7] = items[ids // 2].clone(), 1.0, 0.5  # a seventh of the scores are equal
    short = ShortItems.of(items, factors, bias)
    random = np.random.default_rng(1)
    queries = torch.from_numpy(random.normal(size=(6, 33)).astype(np.float32))
    hidden = np.sort(random.integers(0, ids, (6, 9)), axis=1)
    masks = random.random((2, ids)) < share
    filters = [ItemFilter(mask, Rules()) for mask in masks]
    # The last query has no filter, and filters are shared by queries.
    filter_index = np.array([1, 0, 0, 1, 1, 2])
    assert short is not None
    with using(level):
        words = np.array([each.words for each in filters])
        best = short.best(queries, Permitted(hidden, words, filter_index), k, 2)
        unfiltered = short.best(queries, Permitted(hidden), k, 2)
        every = short.best(queries, Permitted(hidden), ids, 2)
    # All scores of the table itself, of which the best permitted ones are taken.
    scores = np.full((6, ids), -np.inf, np.float32)
    found = every.scores > -np.inf
    scores[found.nonzero()[0], every.ids[found]] = every.scores[found]
    scores[:5][~masks[filter_index[:5]]] = -np.inf
    expected, columns = topk(scores, k)
    permitted = expected > -np.inf
    np.testing.assert_array_equal(best.scores, expected)
    np.testing.assert_array_equal(best.ids[permitted], columns[permitted])
    # Rules do not change probabilities.
    np.testing.assert_array_equal(best.totals, unfiltered.totals)


def test_as_many_equal_scores_as_items_rank_by_id_and_numbers_that_are_none_have_no_total(level: str) -> None:
    short = ShortItems.of(torch.ones(4101, 4), torch.ones(4101), torch.zeros(4101))
    queries = torch.tensor([[1.0] * 4, [0.0] * 4, [math.nan] * 4, [math.inf] * 4])
    assert short is not None
    with using(level):
        best = short.best(queries, Permitted(np.full((4, 1), 3)), 5, 2)
    assert best.ids[:2].tolist() == [[2, 4, 5, 6, 7]] * 2
    np.testing.assert_allclose(best.totals[:2], math.log(4098) + np.array([4.0, 0.0]), rtol=1e-6)
    assert np.isnan(best.totals[2:]).all()


def test_what_does_not_fit_is_left_to_torch(level: str) -> None:
    items, factors, bias = table(9, 4)
    assert ShortItems.of(items.double(), factors, bias) is None and ShortItems.of(items[:0], factors, bias) is None
    assert ShortItems.of(items.T, factors, bias) is None
    short = ShortItems.of(items, factors, bias)
    assert short is not None
    with using(level):
        for num_ids, most in ((9, FEW_QUERIES), (MIN_LONG_IDS, MAX_QUERIES)):
            assert suit_short_items(torch.zeros(most, 4), num_ids) == (level != "plain")
            for queries in (torch.zeros(most + 1, 4), torch.zeros(0, 4), torch.zeros(1, 4).double()):
                assert not suit_short_items(queries, num_ids)
        assert short.scores(torch.full((1, 4), math.nan), 0).isnan().all()
    with using("off"):
        assert not suit_short_items(torch.zeros(1, 4), 9)


@pytest.mark.parametrize("cosine", [False, True])
def test_heads_of_large_catalogues_rank_few_queries_as_the_whole_product(level: str, cosine: bool) -> None:
    torch.manual_seed(3)
    table, layer = ItemHead(MIN_SHORT_IDS, 24, negatives=None), ItemLayer(24, MIN_SHORT_IDS, cosine=cosine)
    queries = torch.randn(FEW_QUERIES, 24)
    for head in (table.eval(), layer.eval()):
        with torch.no_grad(), using(level):
            for shift in (0.0, 1.0):
                head.weight[7] += shift
                product = head.product(queries)
                expected = item_scores(queries, product.rows(slice(None)), product.bias)
                scores = head.scores(product)
                assert torch.equal(scores.topk(100).indices, expected.topk(100).indices)
                torch.testing.assert_close(scores.topk(100).values, expected.topk(100).values)
                largest = queries.norm(dim=1)[:, None] * product.rows(slice(None)).norm(dim=1)
                assert bool(((scores - expected)[:, 2:].abs() <= 1e-4 * largest[:, 2:] + 1e-5).all())
