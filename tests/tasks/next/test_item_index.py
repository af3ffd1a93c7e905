"""The index of a large catalogue: what it says is what the whole catalogue says, and the lists of a request hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue import Answer, History, ModelFolderError
from ensue.data.histories import Histories
from ensue.learning.state import module_of
from ensue.nn.item_head import Product
from ensue.refresh import refresh
from ensue.refresh.slices import Slice
from ensue.store import pack
from ensue.tasks.next import infer, item_filter, item_index, nearest, train
from ensue.tasks.next import state as next_state
from ensue.tasks.next.infer import predict_each
from ensue.tasks.next.item_filter import Rules
from ensue.tasks.next.item_index import ItemIndex, make_index
from ensue.tasks.next.nearest import ProductScores
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.training_data import Exclusion
from ensue.vocabulary import FIRST
from tests.folders import resum

pytest.importorskip("faiss", reason="the extra ann is not there")
ITEMS, HOUR = 400, 3600.0
SMALL = {"dim": 8, "table_dim": 8, "epochs": 1, "negatives": 64, "refit": False}
MODELS = (
    "sansr",
    "core",
    "blend",
    "bpr-mf",
    "fpmc",
    "gru4rec",
    "narm",
    "stamp",
    "hidan",
    "att-rnn",
    "rmtpp",
    "cyan-rnn",
)


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred values count as large."""
    monkeypatch.setattr(next_state, "LARGE", 100)


def sessions(num: int, seed: int, *, repeats: bool = True) -> list[History]:
    """Walks along the values, an hour a step; of few values first, so that all are there."""
    random, found = np.random.default_rng(seed), []
    for at in range(num):
        start, length = (at * 4) % ITEMS, int(random.integers(4, 9))
        steps = np.cumsum(random.integers(0 if repeats else 1, 4, length))
        values = tuple(f"v{(start + step) % ITEMS}" for step in steps.tolist())
        found.append(History(values, tuple(HOUR * step for step in range(length))))
    return found


def fitted(model: str, *, repeats: bool = True, **settings: object) -> NextPredictor:
    known = NextPredictor(model).settings
    own = {key: value for key, value in SMALL.items() if hasattr(known, key) or key in ("epochs", "refit")}
    predictor = NextPredictor(model, settings={**own, **settings}, device="cpu")
    data = Histories.of(sessions(300, 0, repeats=repeats))
    list(predictor.fit(data, Histories.of(sessions(40, 1, repeats=repeats))))
    return predictor


def exact(predictor: NextPredictor, *given: object, **options: object) -> list[Answer]:
    """What it answers without its index."""
    index, predictor.index = predictor.index, None
    try:
        return predictor.predict(*given, **options)  # type: ignore[arg-type]
    finally:
        predictor.index = index


def close(found: list[Answer], wanted: list[Answer], near: float = 2e-3) -> None:
    for one, other in zip(found, wanted, strict=True):
        scores = {choice.value: choice for choice in other.choices}
        assert len(one.choices) == len(other.choices)
        assert [choice.score for choice in one.choices] == pytest.approx([c.score for c in other.choices], rel=near)
        for choice in one.choices:
            if choice.value in scores:  # of equals others may stand at the end
                assert [h.position for h in choice.attributions] == [
                    h.position for h in scores[choice.value].attributions
                ]
                drops = [attribution.score_drop for attribution in scores[choice.value].attributions]
                assert [attribution.score_drop for attribution in choice.attributions] == pytest.approx(drops, abs=1e-4)


def test_what_is_left_of_a_long_history_is_found() -> None:
    """More items are excluded than the index looks for, and all that is not excluded is an answer."""
    predictor = fitted("core")
    assert predictor.index is not None and predictor.index.facts.candidates < ITEMS
    for num_left in (40, 3):
        seen, left = predictor.vocabulary.values[num_left:], set(predictor.vocabulary.values[:num_left])
        for evidence in (True, False):
            (answer,) = predictor.predict([History(tuple(seen))], 5, exclude_seen=True, evidence=evidence)
            values = {choice.value for choice in answer.choices}
            assert values <= left and len(values) == min(5, num_left)


ASKED = [
    *sessions(6, 5),
    History(()),
    History(("nobody knows this", "v3", "nobody knows this")),
    History(("v7",), (1.0,)),
]


@pytest.mark.parametrize("model", MODELS)
def test_with_all_candidates_answers_are_those_of_the_whole_catalogue(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_index, "CANDIDATES", 2 * ITEMS)
    predictor = fitted(model, repeats=model in ("sansr", "blend", "core"))
    assert predictor.index is not None
    for k, evidence in ((5, True), (30, False)):
        close(predictor.predict(ASKED, k, evidence=evidence), exact(predictor, ASKED, k, evidence=evidence))
    close([predictor.predict([one], 5)[0] for one in ASKED], exact(predictor, ASKED, 5))
    for exclude_seen, rank_unknown in product((True, False), (True, False)):
        answers = predictor.predict(ASKED, 5, exclude_seen=exclude_seen, rank_unknown=rank_unknown)
        close(answers, exact(predictor, ASKED, 5, exclude_seen=exclude_seen, rank_unknown=rank_unknown))
    unknown = [History(("x", "v1", "v2"), (0.0, 1.0, 2.0)), History(("v1", "x", "v3", "x"), (0.0, 1.0, 2.0, 3.0))]
    data = Histories.of([*sessions(30, 8, repeats=predictor.metadata.repeats), *unknown])
    data = data.encode(predictor.vocabulary, number_unknown=True)
    for rank_unknown, exclusion in product((False, True), (predictor.metadata.ruled_out, *Exclusion)):
        found, wanted = (
            predictor.ranks(data, exclusion=exclusion, approximate=near, rank_unknown=rank_unknown)
            for near in (True, False)
        )
        order, other = (np.argsort(one[2]) for one in (found, wanted))
        assert np.array_equal(found[2][order], wanted[2][other])
        np.testing.assert_allclose(found[0][order], wanted[0][other], atol=1)


@pytest.fixture(scope="module")
def few() -> Iterator[NextPredictor]:
    """A model that looks at 40 candidates of 400."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(next_state, "LARGE", 100)
        patch.setattr(item_index, "CANDIDATES", 40)
        patch.setattr(item_index, "SAMPLE", 200)
        predictor = fitted("sansr", epochs=4, learning_rate=0.02)
    assert predictor.index is not None and predictor.index.facts.candidates < ITEMS
    yield predictor


def test_few_candidates_hold_nearly_all_that_is_best(few: NextPredictor) -> None:
    asked = sessions(100, 3)
    found, wanted = few.predict(asked, 10), exact(few, asked, 10)
    both = [
        ({c.value: c.score for c in a.choices}, {c.value: c.score for c in b.choices})
        for a, b in zip(found, wanted, strict=True)
    ]
    assert np.mean([len(one.keys() & other.keys()) / 10 for one, other in both]) > 0.95
    off = [one[value] / other[value] - 1 for one, other in both for value in one.keys() & other.keys()]
    assert abs(np.mean(off)) < 0.05 and np.abs(off).max() < 0.5
    assert few.index is not None and few.metadata.index == few.index.facts
    assert few.index.facts.recall > 0.95 and "recall" in few.card()


@pytest.mark.parametrize("narrow", [20, 3])
def test_a_forbidden_value_is_never_let_through_and_k_answers_come(
    few: NextPredictor, monkeypatch: pytest.MonkeyPatch, narrow: int
) -> None:
    monkeypatch.setattr(item_filter, "MAX_SCORED", 15)
    monkeypatch.setattr(item_filter, "MIN_SHARE", narrow)
    random, values = np.random.default_rng(4), [f"v{at}" for at in range(ITEMS)]
    asked = sessions(300, 6)
    given: list[Rules] = []
    for _ in asked:
        exclude = random.choice(values, random.choice([0, 1, 20, 200, 385]), replace=False).tolist()
        size = random.choice([0, 5, 30, 390])
        allow = random.choice([*values, "new"], size, replace=False).tolist() if random.random() < 0.6 else None
        given.append(Rules.of(exclude, allow))
    lists = few.filters_of(given)
    found = predict_each(few, asked, lists, 8, evidence=False)
    index, few.index = few.index, None
    wanted = predict_each(few, asked, lists, 8, evidence=False)
    few.index = index
    shared = []
    for one, answer, other in zip(lists, found, wanted, strict=True):
        chosen = [choice.value for choice in answer.choices]
        assert one is None or all(value in one for value in chosen)
        assert len(chosen) == len(set(chosen)) == len(other.choices)
        if chosen:
            shared.append(len(set(chosen) & {choice.value for choice in other.choices}) / len(chosen))
        assert [choice.score for choice in answer.choices] == sorted((c.score for c in answer.choices), reverse=True)
    assert np.mean(shared) > 0.93


def test_of_ten_thousand_requests_with_lists_none_is_told_what_it_forbids(
    few: NextPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of all sizes, together with others and alone, some of them the same, some with values nobody knows."""
    monkeypatch.setattr(item_filter, "MAX_SCORED", 30)
    monkeypatch.setattr(item_filter, "MIN_CACHED_ITEMS", 4)
    random, values = np.random.default_rng(5), [*(f"v{at}" for at in range(ITEMS)), *(f"new {at}" for at in range(20))]
    asked = [*sessions(40, 6), History(()), History(("new 1", "v3", "new 2"))]

    def some(sizes: list[int]) -> list[str]:
        return [values[at] for at in random.permutation(len(values))[: random.choice(sizes)].tolist()]

    common, requests = [(some([30]), None), ([], some([380]))], 0
    while requests < 10_000:
        pairs = [(some([0, 1, 30, 400]), some([5, 60, 380]) if random.random() < 0.7 else None) for _ in range(20)]
        pairs += common
        rules_of = {id(pair): Rules.of(*pair) for pair in pairs}
        drawn = [pairs[at] for at in random.integers(0, len(pairs), 100).tolist()]
        lists = few.filters_of([rules_of[id(pair)] for pair in drawn])
        records = [asked[at] for at in random.integers(0, len(asked), len(drawn)).tolist()]
        for (exclude, allow), answer in zip(drawn, predict_each(few, records, lists, 5, evidence=False), strict=True):
            chosen = {choice.value for choice in answer.choices}
            assert not chosen & {*exclude} and (allow is None or chosen <= {*allow})
        requests += len(drawn)
    assert 1 < len(few.filters._cached) <= item_filter.MAX_CACHED


def test_a_list_of_a_part_of_the_catalogue_is_all_scored_or_gets_more_candidates(
    few: NextPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither looks through the index again, and both tell nearly what is best of all that is allowed."""
    monkeypatch.setattr(item_filter, "MAX_SCORED", 15)
    search = ItemIndex.search

    def search_all(self: ItemIndex, *args: Any, bits: object, **options: Any) -> Tensor:
        assert bits is None
        return search(self, *args, **options)

    monkeypatch.setattr(ItemIndex, "search", search_all)
    monkeypatch.setattr(infer, "CELLS", 7 * infer.MIN_SCORED)
    random, asked = np.random.default_rng(8), [*sessions(30, 4), History(())]
    lists = [random.permutation([f"v{at}" for at in range(ITEMS)])[:160].tolist() for _ in range(3)]
    for narrow, least in ((2, 1.0), (20, 0.95)):
        monkeypatch.setattr(item_filter, "MIN_SHARE", narrow)
        for allow in [*lists, *lists]:
            found = few.predict(asked, 8, allow=allow, evidence=False)
            wanted = exact(few, asked, 8, allow=allow, evidence=False)
            both = [
                ({c.value for c in one.choices}, {c.value for c in other.choices})
                for one, other in zip(found, wanted, strict=True)
            ]
            assert all(len(one) == 8 and one <= {*allow} for one, _ in both)
            assert np.mean([len(one & other) / 8 for one, other in both]) >= least


def test_lists_of_one_request_hold_for_values_that_only_a_history_knows(few: NextPredictor) -> None:
    asked = [History(("v1", "new", "other", "new"))]
    plain = {choice.value for choice in few.predict(asked, 400, rank_unknown=True)[0].choices}
    assert {"new", "other"} <= plain
    assert "new" not in {
        choice.value for choice in few.predict(asked, 400, exclude=["new"], rank_unknown=True)[0].choices
    }
    (only,) = few.predict(asked, 400, allow=["new", "v9"], rank_unknown=True)
    assert {choice.value for choice in only.choices} == {"new", "v9"}
    many = [History(("v1", *(f"new {at}" for at in range(8)), "v2"))]
    for k in (1, 2, 3):
        (best,) = few.predict(many, k, allow=["v9", "v8", "v7"], rank_unknown=True)
        assert {choice.value for choice in best.choices} <= {"v7", "v8", "v9"} and len(best.choices) == k


def test_what_came_later_is_a_candidate_without_a_new_index(few: NextPredictor, tmp_path: Path) -> None:
    few.save(tmp_path / "m")
    grown = NextPredictor.load(tmp_path / "m")
    grown.add_values(["late one", "late two"])
    with torch.no_grad():
        query = grown.network.items.weight  # type: ignore[attr-defined]
        query[-1] = 20 * query[grown.vocabulary.id("v5")]
    (answer,) = grown.predict([History(("v5",))], 3, allow=["late two", "v9"])
    assert {choice.value for choice in answer.choices} == {"late two", "v9"}
    close(grown.predict(sessions(5, 2), 3, evidence=False), exact(grown, sessions(5, 2), 3, evidence=False), 0.1)


def test_the_folder_keeps_it_and_an_update_makes_it_anew(few: NextPredictor, tmp_path: Path) -> None:
    few.save(tmp_path / "m")
    again = NextPredictor.load(tmp_path / "m")
    assert again.index is not None and again.metadata.index == few.metadata.index
    asked = sessions(20, 9)
    assert again.predict(asked, 5) == few.predict(asked, 5)
    assert again.files("x") == few.files("x")
    again.update(Histories.of([History(("brand new", "v1", "v2"))] * 3))
    assert again.index.facts.items == few.index.facts.items + 1  # type: ignore[union-attr]


def test_an_update_with_a_test_makes_it_once_and_a_refused_one_never(
    few: NextPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(product: Product, num_ids: int, total: Callable[[ItemIndex], Tensor]) -> ItemIndex:
        made.append(num_ids)
        return make_index(product, num_ids, total)

    monkeypatch.setattr(nearest, "make_index", counted)
    few.save(tmp_path / "m")
    new = Histories.of([*sessions(30, 2), History(("brand new", "v1", "v2"), (0.0, HOUR, 2 * HOUR))])
    with monkeypatch.context() as patch:
        patch.setattr(Slice, "falls", lambda self, max_drop: True)
        assert not refresh(tmp_path / "m", new).accepted
    assert made == []
    accepted = refresh(tmp_path / "m", new, max_drop=0.99)
    assert accepted.accepted and accepted.held and len(made) == 1
    updated = NextPredictor.load(tmp_path / "m")
    assert "brand new" in updated.vocabulary and made == [len(updated.vocabulary)]
    assert updated.index is not None and updated.metadata.index == updated.index.facts
    assert refresh(tmp_path / "m", new, max_drop=None).accepted and len(made) == 2


def test_without_the_extra_answers_are_exact(
    few: NextPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few.save(tmp_path / "m")
    monkeypatch.setattr("ensue.tasks.next.predictor.has_faiss", lambda: False)
    plain = NextPredictor.load(tmp_path / "m")
    assert plain.index is None
    assert plain.predict(ASKED, 5) == exact(few, ASKED, 5)


def test_a_file_of_other_values_is_refused(few: NextPredictor, tmp_path: Path) -> None:
    few.save(tmp_path / "m")
    path = tmp_path / "m" / item_index.FILE
    whole = path.read_bytes()
    for data in (whole[:100], b"", whole[: len(whole) // 2]):
        path.write_bytes(data)
        resum(path.parent)
        with pytest.raises(ModelFolderError, match="damaged"):
            NextPredictor.load(tmp_path / "m")


def test_small_catalogues_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_state, "LARGE", ITEMS + 1)
    predictor = fitted("bpr-mf")
    assert predictor.index is None and predictor.metadata.index is None
    assert item_index.FILE not in predictor.files()


def test_a_stream_mixes_what_came_lately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_index, "CANDIDATES", 2 * ITEMS)
    predictor = fitted("core")
    ids = predictor.vocabulary.ids([f"v{at}" for at in range(50)])
    predictor.observe(ids, np.linspace(0, 500, 50))
    close(predictor.predict(ASKED, 5, evidence=False), exact(predictor, ASKED, 5, evidence=False))


@pytest.mark.parametrize("model", ["sansr", "hidan"])
def test_mapped_tensors_learn_and_grow_as_copied_ones_and_the_file_stays(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(model, repeats=False).save(tmp_path / "m")
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    found = []
    for least in (pack.MAPPED, 0):
        monkeypatch.setattr(pack, "MAPPED", least)
        predictor = NextPredictor.load(tmp_path / "m")
        predictor.add_values(["brand new"])
        learned = Histories.of(sessions(20, 7, repeats=False)).encode(predictor.vocabulary, drop_unknown=True)
        predictor.learn(learned)
        found.append(module_of(predictor.network).state_dict())
    for name, tensor in found[0].items():  # where a number stands in memory may change how sums are rounded
        torch.testing.assert_close(found[1][name], tensor)
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before


def test_of_a_very_large_catalogue_fewer_events_are_ranked_whole() -> None:
    data = Histories.of(sessions(9_000, 8))
    assert len(data.ids) > 31_000
    sizes = [len(train._evaluation_sample(data, num).ids) for num in (2, 100_000, 1_000_000, 10**9)]
    assert sizes[0] == sizes[1] and 30_000 <= sizes[0] < 30_010
    assert 3_000 <= sizes[2] < 3_010 and 1_000 <= sizes[3] < 1_010


def test_a_list_that_comes_again_is_scored_by_what_was_learned_since(few: NextPredictor, tmp_path: Path) -> None:
    few.save(tmp_path / "m")
    own, asked = NextPredictor.load(tmp_path / "m"), sessions(5, 2)
    shop = [f"v{at}" for at in range(300)]
    for _ in range(2):
        told, wanted = (ask(asked, 3, allow=shop, evidence=False) for ask in (own.predict, partial(exact, own)))
        for one, other in zip(told, wanted, strict=True):
            assert [choice.value for choice in one.choices] == [choice.value for choice in other.choices]
        with torch.no_grad():
            own.network.items.weight.mul_(-1)  # type: ignore[attr-defined]
        own.learned()


def test_scores_of_the_same_ids_are_those_of_each_and_hide_what_was_seen() -> None:
    draw = torch.Generator().manual_seed(0)
    table, queries = torch.randn(30, 4, generator=draw), torch.randn(3, 4, generator=draw)
    seen = torch.tensor([[5, 7, 0, 0], [29, 5, 6, 28], [0, 0, 0, 0], [9, 9, 2, 0]])
    product_scores = ProductScores(
        product=Product(queries, table.__getitem__, torch.randn(30, generator=draw)),
        rows=torch.tensor([0, 1, -1, 2]),
        counts=torch.arange(30) + 1.0,
        seen=seen,
    )
    for ids in (torch.tensor([0, 1, 2, 5, 6, 9, 28]), torch.arange(30), torch.tensor([], dtype=torch.int64)):
        found = product_scores.score(ids)
        torch.testing.assert_close(found, product_scores.score(ids.expand(4, -1)))
        torch.testing.assert_close(found, product_scores.score(ids, table[ids]))
        hidden = (ids < FIRST) | (ids[:, None] == seen[:, None]).any(2)
        assert torch.equal(found == -torch.inf, hidden)
