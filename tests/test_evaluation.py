"""The evaluator: both protocols by hand, intervals, the paired verdict, leaks, seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ensue import DataError, History, SettingError
from ensue.data.histories import Histories
from ensue.demo.cascades import make_cascades
from ensue.evaluation.bootstrap import RESAMPLES
from ensue.evaluation.comparison import compare, evaluate, evaluate_alone
from ensue.evaluation.next_event import SessionTargets
from ensue.learning.state import module_of
from ensue.nn.item_head import Output
from ensue.predictor import make
from ensue.tasks.next.batch import Batch, PaddedBatch
from ensue.tasks.next.catalogue import COUNTING
from ensue.tasks.next.dataset import draw_negatives
from ensue.tasks.next.predictor import NextPredictor
from ensue.vocabulary import FIRST
from tests.oracles import measures as oracles

AT = (1, 2)


def histories(*sequences: str) -> Histories:
    return Histories.of([History(tuple(values)) for values in sequences])


def fitted(data: Histories, model: str = "popularity", seed: int = 0, **settings: object) -> NextPredictor:
    predictor = NextPredictor(model, settings=settings, seed=seed, device="cpu")
    for _ in predictor.fit(data):
        pass
    return predictor


# Popularity: a 4, b 3, c 2, d 1 in both; only the second repeats a value within a sequence.
UNIQUE = ("abcd", "abc", "ab", "a")
REPEATING = ("abcd", "abc", "aba")
TEST = ("ab", "dcaX", "Xb")


def popularity_figures(train: Sequence[str], protocol: str) -> dict[str, float]:
    result = evaluate(fitted(histories(*train)), histories(*TEST), protocol=protocol, cutoffs=AT)
    assert [row.model for row in result.rows] == list(COUNTING)
    return dict(result.rows[0].figures)


def test_full_by_hand_with_the_seen_ruled_out() -> None:
    # a|b: b without a is first. d|c: a, b, then c: third. dc|a: a, b left, a first. X is unknown: a miss. X|b: b
    # follows nothing that is known, so popularity ranks it: second. Five targets.
    figures = popularity_figures(UNIQUE, "full")
    assert figures["mrr"] == pytest.approx((1 + 1 / 3 + 1 + 0 + 1 / 2) / 5)
    assert (figures["hit@1"], figures["hit@2"]) == pytest.approx((2 / 5, 3 / 5))
    assert list(figures.values()) == pytest.approx(oracles.micro([[1], [3, 1, np.inf], [2]], AT))


def test_full_by_hand_with_the_seen_kept() -> None:
    # a|b: a stands above b: second. The rest as before.
    figures = popularity_figures(REPEATING, "full")
    assert figures["mrr"] == pytest.approx((1 / 2 + 1 / 3 + 1 + 0 + 1 / 2) / 5)
    assert (figures["hit@1"], figures["hit@2"]) == pytest.approx((1 / 5, 3 / 5))


@pytest.mark.parametrize("train", [UNIQUE, REPEATING])
def test_paper_by_hand(train: Sequence[str]) -> None:
    # X is a miss; b after X alone is second by popularity: 2; 3, 1, miss; 2. (1/2 + (1/3 + 1 + 0)/3 + 1/2)/3 = 13/27,
    # where micro would be 7/15. Nothing is ruled out, whether the data repeats or not.
    figures = popularity_figures(train, "paper")
    assert figures["mrr"] == pytest.approx(13 / 27)
    assert figures["mrr"] != pytest.approx(oracles.micro([[2], [3, 1, np.inf], [2]], AT)[0])
    assert list(figures.values()) == pytest.approx(oracles.macro([[2], [3, 1, np.inf], [2]], AT))


def test_scores_name_every_target_once() -> None:
    predictor = fitted(histories(*UNIQUE))
    for protocol, first in (("full", 1), ("paper", 2)):
        targets = SessionTargets([[predictor]], histories(*TEST), protocol=protocol)
        ranks = targets.score(predictor).rank.tolist()
        expected = [(0, first), (1, 1), (1, 3), (1, np.inf), (2, 2)]
        assert sorted(zip(targets.sequences.tolist(), ranks, strict=True)) == expected


def test_cards_say_what_was_done() -> None:
    full, paper = (
        evaluate(fitted(histories(*UNIQUE)), histories(*TEST), protocol=name, cutoffs=AT).card
        for name in ("full", "paper")
    )
    assert (full["name"], full["data"]) == ("full", "3 sessions, 8 events")
    assert full["targets"] == (
        "5: every event after the first; 1 not in the training data (misses), "
        "1 after unseen events only (ranked by popularity)"
    )
    assert (full["unknown"], full["published"].partition(":")[2]) == (
        "miss: targets unseen in training are misses",
        " GRU4Rec, NARM, STAMP and SR-GNN, whose papers drop unseen items and exclude none that the session already "
        "has",
    )
    assert full["candidates"] == "all 4 items"
    assert full["repeats"] == "items already in the session are excluded"
    assert full["averaging"] == "micro: over targets"
    assert paper["targets"] == full["targets"]
    assert paper["repeats"] == "items already in the session stay in the ranking"
    assert paper["averaging"] == "macro: over the targets of a session, then over sessions"
    kept = evaluate(fitted(histories(*REPEATING)), histories(*TEST), protocol="full", cutoffs=AT).card
    assert kept["repeats"] == "items already in the session stay in the ranking"


def test_leaks_are_counted_right() -> None:
    predictor = fitted(histories("abcd", "abc", "ab", "a"))
    # Value for value in the training data: abc (twice) and ab; not its parts, its permutations, nor one with X.
    result = evaluate(
        predictor, histories("abc", "abc", "ab", "bc", "acb", "abX", "abcX", "cd"), protocol="full", cutoffs=AT
    )
    assert result.card["leaked"] == "3 sessions (37.5 %) are exact duplicates of training data"
    predictor.update(histories("cd"))
    result = evaluate(predictor, histories("abc", "cd", "bc", "acb"), protocol="full", cutoffs=AT)
    assert result.card["leaked"] == "2 sessions (50.0 %) are exact duplicates of training data"


def test_a_test_set_already_in_the_predictors_ids_scores_the_same() -> None:
    predictor = fitted(histories(*UNIQUE))
    coded = histories(*TEST).encode(predictor.vocabulary)
    for protocol in ("full", "paper"):
        own, other = (
            evaluate(predictor, data, protocol=protocol, cutoffs=AT).rows[0].figures
            for data in (coded, histories(*TEST))
        )
        assert own == other


NUM_VALUES = 26


def walk(start: int, step: int) -> str:
    return "".join(chr(97 + (start + step * i) % NUM_VALUES) for i in range(4))


def walks(num: int, step: int, seed: int) -> Histories:
    return histories(*(walk(start, step) for start in np.random.default_rng(seed).integers(0, NUM_VALUES, num)))


class Walk(nn.Module):
    """Knows that the alphabet is walked by ``step``."""

    reach: int | None = 0

    def __init__(self, predictor: NextPredictor, step: int) -> None:
        super().__init__()
        values = predictor.vocabulary.values
        after = [0, 0, *(predictor.vocabulary.id(chr(97 + (ord(v) - 97 + step) % NUM_VALUES)) for v in values)]
        self.after = torch.tensor(after)

    def grow(self, num_ids: int) -> Walk:
        raise NotImplementedError

    def forward(self, batch: Batch) -> Output:
        return Output(nn.functional.one_hot(self.after[batch.ids[batch.target_mask]], len(self.after)).float())


def planted(step: int) -> NextPredictor:
    """A "hidan" that walks by ``step``, beside counting models that have learned a walk by 5."""
    predictor = fitted(histories(*(walk(start, 5) for start in range(NUM_VALUES))), "hidan", epochs=1, dim=2)
    predictor.model = Walk(predictor, step)
    return predictor


def test_a_perfect_model_beats_counting() -> None:
    result = evaluate(planted(3), walks(60, 3, 0))
    assert result.rows[0].model == "hidan"
    assert set(result.rows[0].figures.values()) == {1.0}
    assert set(result.rows[0].interval.values()) == {(1.0, 1.0)}
    assert result.beats_baselines and result.p_value == 2 / (1 + RESAMPLES)
    assert result.verdict.startswith(
        f"hidan is significantly better than {result.best_baseline} (best of 8 baselines): MRR +"
    )
    assert result.verdict.endswith(", p = .002); the best are chosen on this test data")


def test_a_model_as_good_as_counting_does_not_beat_it() -> None:
    result = evaluate(planted(5), walks(60, 5, 0))  # both know the walk
    assert result.rows[0].figures["mrr"] == max(row.figures["mrr"] for row in result.rows[1:]) == 1
    assert not result.beats_baselines and result.p_value == 1
    assert result.verdict == (
        f"hidan and {result.best_baseline} (best of 8 baselines) do not differ significantly: MRR +0.00 points (95 % "
        "CI 0.00 to 0.00, p = 1.000); the best are chosen on this test data"
    )


def test_a_baseline_that_is_significantly_better_wins() -> None:
    result = evaluate(planted(3), walks(60, 5, 0))  # the baselines know the walk, the model walks another way
    assert result.model == "hidan" and result.winner == result.best_baseline and not result.beats_baselines
    assert result.p_value == 2 / (1 + RESAMPLES)
    assert result.verdict.startswith(
        f"{result.best_baseline} (best of 8 baselines) is significantly better than hidan: MRR +"
    )
    found = result.to_dict()
    assert (found["winner"], found["beats_baselines"]) == (result.best_baseline, False)
    assert found["paired_tests"][0]["chosen_on_test_data"] and found["paired_tests"][0]["num_baselines"] == 8
    pairs = {(pair.model, pair.other): pair for pair in result.verdicts()}
    assert pairs[result.best_baseline, "hidan"].sure


@pytest.mark.parametrize("model", COUNTING)
def test_counting_does_not_beat_itself(model: str) -> None:
    world = make_cascades(num_users=16, num_cascades=200)
    result = evaluate(fitted(world.train, model), world.test)
    assert [row.model for row in result.rows].count(model) == 1
    assert not result.beats_baselines


def test_counting_rows_are_the_predictors_own() -> None:
    world = make_cascades(num_users=16, num_cascades=200)
    counted = [fitted(world.train, name) for name in COUNTING]
    beside = evaluate(fitted(world.train, "hidan", epochs=1, dim=4), world.test).rows[1:]
    for predictor, row in zip(counted, beside, strict=True):
        assert evaluate(predictor, world.test).rows[0].figures == row.figures
        assert row.model == predictor.model_name


def test_intervals_hold_the_figure_and_shrink_with_more_data() -> None:
    world = make_cascades(num_users=16, num_cascades=400)
    predictor = fitted(world.train, "markov")
    widths = []
    for times in (1, 16):
        row = evaluate(predictor, world.test.select(np.tile(np.arange(len(world.test)), times))).rows[0]
        for name, (low, high) in row.interval.items():
            assert low <= row.figures[name] <= high
        low, high = row.interval["mrr"]
        widths.append(high - low)
    assert widths[0] / widths[1] == pytest.approx(4, rel=0.2)  # sixteen times the sequences: a quarter of the width


@pytest.mark.parametrize("protocol", ["full", "paper"])
def test_two_seeds_are_averaged(protocol: str) -> None:
    world = make_cascades(num_users=16, num_cascades=120)
    seeds = [fitted(world.train, "hidan", seed, epochs=2, dim=4) for seed in (0, 1)]
    alone = [evaluate(predictor, world.test, protocol=protocol, cutoffs=AT).rows[0].figures for predictor in seeds]
    result = compare([seeds, [fitted(world.train, "markov")]], world.test, protocol=protocol, cutoffs=AT)
    assert [row.model for row in result.rows] == ["hidan", "markov", *(name for name in COUNTING if name != "markov")]
    for name, found in result.rows[0].figures.items():
        assert found == pytest.approx((alone[0][name] + alone[1][name]) / 2)
    assert result.rows[0].notes["seeds"] == 2 and "seeds" not in result.rows[1].notes
    assert alone[0] != alone[1]


@pytest.mark.parametrize("protocol", ["full", "paper"])
def test_figures_equal_the_loop_on_random_cascades(protocol: str) -> None:
    world = make_cascades(num_users=16, num_cascades=120)
    predictor = fitted(world.train.select(slice(12)), "markov")  # so few that users of the test are unknown
    assert len(predictor.vocabulary) < len(world.test.vocabulary)
    result = evaluate(predictor, world.test, protocol=protocol, cutoffs=AT)
    ranks: list[list[float]] = []
    for record in world.test.records():
        own: list[float] = []
        for place in range(1, len(record.values)):
            known = [v for v in record.values[:place] if v in predictor.vocabulary]
            (answer,) = predictor.predict([History(tuple(known))], 99, evidence=False)
            shares = {choice.value: choice.score for choice in answer.choices}
            if protocol == "paper" and known:  # nothing ruled out: ask the model itself
                scores = np.exp(predictor.counting["markov"](_question(predictor, known)).scores[0]).tolist()
                shares = dict(zip(predictor.vocabulary.values, scores[FIRST:], strict=True))
            values = list(predictor.vocabulary.values)
            target = record.values[place]
            shown = [shares.get(v, 0.0) for v in values]
            own.append(oracles.rank(shown, values.index(target)) if target in shares else np.inf)
        ranks.append(own)
    expected = (oracles.micro if protocol == "full" else oracles.macro)(ranks, AT)
    assert list(result.rows[0].figures.values()) == pytest.approx(expected)


def _question(predictor: NextPredictor, values: Sequence[str]) -> PaddedBatch:
    ids = predictor.vocabulary.ids(values).astype(np.int64)[None]
    target_mask = np.zeros(ids.shape, np.bool_)
    target_mask[0, -1] = True
    return PaddedBatch(ids, np.ones_like(target_mask), np.zeros(ids.shape), target_mask, np.empty(0, np.int64))


def test_a_small_catalogue_does_not_make_large_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_cascades(num_users=4, num_cascades=200)
    predictor = fitted(world.train, "hidan", epochs=1, dim=2)
    whole = evaluate(predictor, world.train).rows[0].figures
    rows: list[int] = []
    module_of(predictor.network).register_forward_pre_hook(lambda module, inputs: rows.append(len(inputs[0].ids)))
    for module in ("infer", "ranking"):
        monkeypatch.setattr(f"ensue.tasks.next.{module}.CELLS", 1024 * 16)  # 16 targets, or records, at once
    parts = evaluate(predictor, world.train).rows[0].figures
    assert parts == pytest.approx(whole) and 1 < max(rows) <= 16 < sum(rows)
    rows.clear()
    predictor.predict(list(world.train.records()), evidence=False)
    assert 1 < max(rows) <= 16 < sum(rows)


def test_json_form() -> None:
    result = evaluate(fitted(histories(*UNIQUE)), histories(*TEST), protocol="full", cutoffs=AT)
    found: dict[str, Any] = json.loads(json.dumps(result.to_dict()))
    assert found["protocol"]["ties"] == "count against the target"
    assert found["best_baseline"] == result.best_baseline
    row = found["rows"][0]
    assert row["model"] == "popularity" and row["mrr"] == result.rows[0].figures["mrr"]
    assert row["interval"]["mrr"] == list(result.rows[0].interval["mrr"])
    assert row["seconds_per_1000"] >= 0


def test_the_same_question_twice_gives_the_same_table() -> None:
    predictor, data = fitted(histories(*UNIQUE)), histories(*TEST)
    one, two = (evaluate(predictor, data, protocol="full", cutoffs=AT) for _ in range(2))
    for mine, other in zip(one.rows, two.rows, strict=True):
        assert (mine.figures, mine.interval) == (other.figures, other.interval)
    assert one.p_value == two.p_value


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(SettingError) as error:
        evaluate(fitted(histories(*UNIQUE)), histories(*TEST), protocol="best")
    assert (
        str(error.value) == "protocol 'best' is not known for task next; choose from full, last, paper, macro, sampled"
    )


@pytest.mark.parametrize(("protocol", "sequences"), [("paper", ("a", "X")), ("full", ("a", "X")), ("full", ())])
def test_nothing_to_score_is_refused(protocol: str, sequences: Sequence[str]) -> None:
    with pytest.raises(DataError) as error:
        evaluate(fitted(histories(*UNIQUE)), histories(*sequences), protocol=protocol)
    assert str(error.value) == "nothing to score: no session has two events"


def test_only_unknown_targets_are_all_misses_in_full() -> None:
    result = evaluate(fitted(histories(*UNIQUE)), histories("XY", "aX"), protocol="full", cutoffs=AT)
    assert set(result.rows[0].figures.values()) == {0.0}


def test_sampled_ranks_against_a_hundred_and_names_chance() -> None:
    """A scorer that knows nothing sits at the level of chance, and one that knows everything at 1."""
    random = np.random.default_rng(0)
    noise = [History(tuple(f"v{i}" for i in random.permutation(400)[:6])) for _ in range(500)]
    predictor = fitted(Histories.of(noise), "markov")
    result = evaluate(predictor, Histories.of(noise[:250][::-1]), protocol="sampled", cutoffs=(10, 20))
    popular = next(row for row in result.rows if row.model == "popularity")
    # 1,250 targets: a share of 20 / 101 has a standard deviation of 0.011; popularity is close to noise here, and
    # its ties, which count against the target, only lower it.
    assert 0.08 < popular.figures["hit@20"] < 20 / 101 + 0.09
    assert result.card["candidates"] == (
        "the target and 100 random items; a random order has HR@10 0.099, HR@20 0.198, MRR 0.051"
    )
    assert result.rows[0].figures["hit@10"] > 0.95  # these very sequences were learned


def test_sampled_candidates_never_hold_the_target_and_are_uniform() -> None:
    targets = np.tile(np.arange(2, 12), 1000)
    drawn = draw_negatives(targets, np.arange(10_000), 12, 50)
    assert not (drawn == targets[:, None]).any() and drawn.min() == 2 and drawn.max() == 11
    # 500,000 draws over nine values each: counts of a value lie within five standard deviations of 50,000.
    assert (np.abs(np.bincount(drawn.reshape(-1))[2:] - 50_000) < 5 * 50_000**0.5).all()
    assert np.array_equal(drawn[5:9], draw_negatives(targets[5:9], np.arange(5, 9), 12, 50))


def test_paper_is_what_the_first_models_paper_does() -> None:
    data = Histories.of([History(("a", "b", "c")), History(("b", "c"))] * 3)
    found = evaluate(fitted(data, "sansr", epochs=1, dim=4, heads=1), data, protocol="paper")
    assert found.card["candidates"].startswith("the target and 2 random items")
    assert evaluate(fitted(data, "markov"), data, protocol="paper").card["averaging"].startswith("macro")


def noise(seed: int, num: int = 300) -> Histories:
    """Nothing follows from anything: 400 values in a random order, of which the training data of seed 0 holds 395."""
    random = np.random.default_rng(seed)
    return Histories.of([History(tuple(f"v{i}" for i in random.permutation(400)[:6])) for _ in range(num)])


@pytest.mark.parametrize(("protocol", "candidates"), [("sampled", 101), ("full", 395), ("macro", 395)])
def test_a_row_that_is_not_above_chance_carries_a_warning(protocol: str, candidates: int) -> None:
    result = evaluate(fitted(noise(0), "markov"), noise(3), protocol=protocol, cutoffs=(10, 20))
    for row in result.rows:
        assert row.interval["hit@10"][0] <= 10 / candidates  # no ranker can do better here
        expected = f"{row.model}: HR@10 {100 * row.figures['hit@10']:.2f} % is not significantly above "
        expected += f"{1000 / candidates:.2f} %, that of a random order"
        assert row.warning == expected
        assert row.to_dict()["at_chance_level"] is True
    lines = result.table(["mrr"]).splitlines()
    assert lines[2].startswith("| markov (at chance level) | ") and f"Warning: {result.rows[0].warning}" in lines
    assert "markov (at chance level)" in fitted(noise(0), "markov").card(result.card_text())


def test_a_row_above_chance_carries_none() -> None:
    result = evaluate(fitted(noise(0), "markov"), noise(0), protocol="sampled", cutoffs=(10, 20))  # learned by heart
    above = {row.model: row for row in result.rows}["markov"]
    assert above.interval["hit@10"][0] > 10 / 101 and above.warning == "" and "at_chance_level" not in above.to_dict()
    assert "| markov | " in result.table(["mrr"])


def test_chance_is_no_matter_where_every_candidate_is_within_the_cut_off() -> None:
    assert not any(row.warning for row in evaluate(fitted(histories(*UNIQUE)), histories(*TEST), cutoffs=(10,)).rows)


@pytest.mark.parametrize("k", [10, 20])
def test_ndcg_is_among_the_measures(k: int) -> None:
    result = evaluate(fitted(histories(*UNIQUE)), histories(*TEST), cutoffs=(10, 20))
    # Ranks by hand, see above: a|b first, d|c third, dc|a first, a miss, X|b second. log2(1 + 3) = 2.
    assert result.rows[0].figures[f"ndcg@{k}"] == pytest.approx((1 + 1 / 2 + 1 + 1 / math.log2(3)) / 5)


@pytest.mark.parametrize("protocol", ["full", "sampled"])
def test_a_row_alone_is_the_row_among_others(protocol: str) -> None:
    predictor = fitted(histories(*UNIQUE), "markov")
    whole = evaluate(predictor, histories(*TEST), protocol=protocol, cutoffs=AT)
    for among, counting in ((whole.rows[0], None), (whole.rows[1], "popularity")):
        row, card = evaluate_alone(predictor, histories(*TEST), counting, protocol=protocol, cutoffs=AT)
        assert (row.model, row.figures, row.warning) == (among.model, among.figures, among.warning)
        assert card == whole.card


def test_counting_models_alone_have_no_verdict_on_themselves() -> None:
    data = histories(*TEST)
    first, second = (fitted(histories(*UNIQUE), model) for model in ("popularity", "cooccurrence"))
    for entries in ([[first]], [[second]], [[first], [second]]):
        result = compare(entries, data)
        best = max(row.figures["mrr"] for row in result.rows)
        assert (result.model, result.beats_baselines, result.to_dict()["p_value"]) == (None, False, None)
        assert result.verdict == (
            f"only baselines were scored: {result.best_baseline} (best of 8 baselines) has the highest MRR "
            f"({100 * best:.2f} %)"
        )
        assert result.to_dict()["verdict"] == result.verdict


def test_over_seeds_each_figure_has_its_mean_and_spread() -> None:
    world = make_cascades(num_users=16, num_cascades=60, seed=1)
    small = {"dim": 4, "table_dim": 2, "epochs": 1}
    predictors = []
    for seed in (4, 7):
        predictors.append(make("next", "hidan", settings=small, seed=seed, device="cpu"))
        list(predictors[-1].fit(world.train, world.valid))
    both, *alone = (compare([part], world.test) for part in (predictors, predictors[:1], predictors[1:]))
    row = both.rows[0].to_dict()
    figures = [result.rows[0].figures for result in alone]
    assert row["seeds"] == 2 and [own["seed"] for own in row["by_seed"]] == [4, 7]
    for name in figures[0]:
        one, two = (float(own[name]) for own in figures)
        assert [own[name] for own in row["by_seed"]] == pytest.approx([one, two])
        assert row[name] == pytest.approx((one + two) / 2)
        assert row["spread"][name] == pytest.approx(abs(one - two) / 2**0.5)  # of two values about their mean
    assert "by_seed" not in both.rows[1].to_dict() and "by_seed" not in alone[0].rows[0].to_dict()
    assert both.card["interval"].endswith("; seeds are resampled too")
    assert "seeds" not in alone[0].card["interval"]
