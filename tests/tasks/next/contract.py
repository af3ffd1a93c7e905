"""What every predictor of task ``next`` promises, on a pattern planted in the data. One subclass a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from ensue import Answer, History
from ensue.data.histories import Histories
from ensue.tasks.next.model import Baseline, Network
from ensue.tasks.next.own_unknown import without_event
from ensue.tasks.next.predictor import NextPredictor
from ensue.training.optimizer import optimizer_tensors
from ensue.vocabulary import FIRST, UNKNOWN, Vocabulary
from tests.tasks.contract import Contract, close

CYCLE = 10
HOUR = 3600.0
TRAINED: Mapping[str, object] = {"dim": 16, "table_dim": 16, "epochs": 12, "learning_rate": 0.02, "batch_size": 8}


def network_of(predictor: NextPredictor) -> Any:
    """Its network, whatever that holds."""
    return predictor.network


def walks(num: int, seed: int) -> list[History]:
    """Cascades that walk the cycle a0 -> a1 -> … -> a9 -> a0 from a random start, an hour a step; no value twice."""
    random = np.random.default_rng(seed)
    return [
        History(tuple(f"a{(start + step) % CYCLE}" for step in range(length)), tuple(HOUR * t for t in range(length)))
        for start, length in zip(random.integers(0, CYCLE, num), random.integers(3, 6, num), strict=True)
    ]


def crowds(num: int, seed: int) -> list[History]:
    """Two of many values at random, then the one that everybody ends with."""
    random = np.random.default_rng(seed)
    pairs = (random.choice(CYCLE - 1, 2, replace=False) + 1 for _ in range(num))
    return [History((f"a{one}", f"a{two}", "a0"), (0.0, HOUR, 2 * HOUR)) for one, two in pairs]


def shares(answer: Answer) -> object:
    """What each choice was seen to rest on."""
    return {
        (choice.value, attribution.position): attribution.weight
        for choice in answer.choices
        for attribution in choice.attributions
    }


def score_drops_are_removals(predictor: NextPredictor, records: list[History], **asked: Any) -> int:
    """Remove each event that has a score drop, ask again, and compare; returns how many drops were compared."""
    tested = 0
    for record, answer in zip(records, predictor.predict(records, 3, **asked), strict=True):
        for choice in answer.choices:
            for attribution in choice.attributions:
                shorter = without_event(record, attribution.position)
                (rest,) = predictor.predict([shorter], 10_000, evidence=False, **asked)
                without = {other.value: other.score for other in rest.choices}.get(choice.value, 0.0)
                assert attribution.score_drop == pytest.approx(choice.score - without, abs=1e-5), (
                    record,
                    choice,
                    attribution,
                )
                tested += 1
    return tested


class VariantContract(Contract):
    """Promises of a variant, which shares its code with a model of the full contract but for one part of the network.

    A model that reads no order sets ``crowd``.
    """

    predictor_class = NextPredictor
    evidence = staticmethod(shares)
    crowd: ClassVar[bool] = False
    short: ClassVar[Mapping[str, object]] = {"window": 2}

    @classmethod
    def data(cls, num: int, seed: int) -> list[History]:
        return (crowds if cls.crowd else walks)(num, seed)

    @classmethod
    def fitted(cls, records: list[History], **options: object) -> NextPredictor:
        made = NextPredictor(cls.model, settings={**cls.options, **options}, seed=5, device="cpu")
        for _ in made.fit(Histories.of(records)):
            pass
        return made

    @classmethod
    def whole(cls) -> NextPredictor:
        return cls.fitted(cls.data(80, 0))

    @classmethod
    def few(cls) -> NextPredictor:
        return cls.fitted(cls.data(30, 0), **({"epochs": 2} if cls.options else {}))

    def asked(self) -> list[History]:
        return [
            *self.data(12, 3),
            History(()),
            History(("who?",)),
            History(("a1", "who?", "a2"), (0.0, 1.0, 2.0)),
            History(("a3", "a4")),  # without times, among others that have them
            History(("a5",) * 40, tuple(HOUR * t for t in range(40))),
        ]

    def more(self) -> Histories:
        return Histories.of([*self.data(10, 4), History(("a1", "new"), (0.0, 9.0))])

    def bare(self, answer: Answer) -> Answer:
        return replace(answer, choices=tuple(replace(choice, attributions=()) for choice in answer.choices))

    def popular(self, predictor: NextPredictor) -> dict[str, float]:
        """Shares of the events of the training data, counted anew."""
        values = [value for record in self.data(80, 0) for value in record.values]
        return {value: values.count(value) / len(values) for value in set(values)}

    def test_learns_the_pattern(self, predictor: NextPredictor) -> None:
        questions = self.data(40, 1)
        asked = [History(record.values[:-1], record.times[:-1]) for record in questions]
        hits = [
            answer.choices[0].value == record.values[-1]
            for answer, record in zip(predictor.predict(asked, 1), questions, strict=True)
        ]
        assert np.mean(hits) >= 0.95

    def test_probabilities_fall_and_sum_to_one(self, predictor: NextPredictor) -> None:
        for answer in predictor.predict(self.data(20, 2), 99):
            scores = [choice.score for choice in answer.choices]
            assert scores == sorted(scores, reverse=True) and all(0 < score <= 1 for score in scores)
            assert sum(scores) == pytest.approx(1, abs=1e-5)
        for answer in predictor.predict(self.data(20, 2), 3):
            assert sum(choice.score for choice in answer.choices) <= 1 + 1e-5


class NextContract(VariantContract):
    """Inherit, name the model, and every promise is checked."""

    def test_is_what_the_verbs_take_it_for(self, predictor: NextPredictor) -> None:
        assert isinstance(predictor.network, Baseline if predictor.schedule is None else Network)
        assert all(isinstance(baseline, Baseline) for baseline in predictor.counting.values())

    def test_scores_of_padding_and_unknown_are_ignored(
        self, predictor: NextPredictor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records, data = self.data(6, 2), Histories.of(self.data(6, 2), predictor.vocabulary)
        expected, (ranks, *_) = predictor.predict(records, 99), predictor.ranks(data)
        kind = type(network_of(predictor))
        call = kind.__call__

        def planted(model: Any, batch: Any) -> Any:
            output = call(model, batch)
            output.scores[:, :FIRST] = 50.0
            return output

        monkeypatch.setattr(kind, "__call__", planted)
        assert predictor.predict(records, 99) == expected
        np.testing.assert_array_equal(predictor.ranks(data)[0], ranks)

    def test_no_answer_repeats_a_value_where_the_data_never_does(self, predictor: NextPredictor) -> None:
        for record, answer in zip(self.data(20, 2), predictor.predict(self.data(20, 2), 99), strict=True):
            assert {choice.value for choice in answer.choices}.isdisjoint(record.values)

    def test_answers_may_repeat_where_the_data_does(self) -> None:
        again = [History(("a", "b", "a", "b")), History(("b", "a", "b", "a")), History(("a", "a", "b"))]
        made = self.fitted(again, **({"epochs": 1} if self.options else {}))
        question = [History(("a", "b"))]
        for exclude_seen, values in ((None, {"a"}), (False, {"a", "b"}), (True, set())):
            (answer,) = made.predict(question, 9, exclude_seen=exclude_seen)
            assert {choice.value for choice in answer.choices} == values

    def test_an_unknown_value_is_counted_and_harmless(self, predictor: NextPredictor) -> None:
        plain = History(("a3", "a4", "a5"), (0.0, HOUR, 2 * HOUR), "x")
        odd = History(("who?", "a3", "a4", "why?", "a5"), (0.0, 0.0, HOUR, HOUR, 2 * HOUR), "x")
        (expected,), (found,) = predictor.predict([plain]), predictor.predict([odd])
        assert (expected.in_vocabulary, expected.events, found.in_vocabulary, found.events, found.id) == (
            3,
            3,
            3,
            5,
            "x",
        )
        assert [choice.value for choice in found.choices] == [choice.value for choice in expected.choices]
        for mine, theirs in zip(found.choices, expected.choices, strict=True):
            assert mine.score == pytest.approx(theirs.score, abs=1e-6)
            assert [attribution.value for attribution in mine.attributions] == [
                attribution.value for attribution in theirs.attributions
            ]
            assert all(odd.values[attribution.position] == attribution.value for attribution in mine.attributions)

    @pytest.mark.parametrize("record", [History(()), History(("who?", "why?")), History(("who?",), (4.0,))])
    def test_with_nothing_known_the_answer_is_popularity(self, predictor: NextPredictor, record: History) -> None:
        (answer,) = predictor.predict([record], 99)
        assert (answer.in_vocabulary, answer.events) == (0, len(record.values))
        found = {choice.value: choice.score for choice in answer.choices}
        assert found == pytest.approx(self.popular(predictor), abs=1e-6)
        assert not any(choice.attributions for choice in answer.choices)

    def test_k_may_exceed_the_catalogue(self, predictor: NextPredictor) -> None:
        record = self.data(1, 5)[0]
        (all_of_them,) = predictor.predict([record], 10_000)
        (one,) = predictor.predict([record], 1)
        assert len(all_of_them.choices) == CYCLE - len(record.values)
        assert [choice.value for choice in one.choices] == [all_of_them.choices[0].value]

    def test_times_may_be_absent(self, predictor: NextPredictor) -> None:
        timed = self.data(10, 6)
        untimed = [replace(record, times=()) for record in timed]
        zeroed = [replace(record, times=(0.0,) * len(record.values)) for record in timed]
        close(predictor.predict(untimed), predictor.predict(zeroed), shares)
        for record, found in zip(timed, predictor.explain(untimed), strict=True):
            assert found.times == () and found.values == record.values[-len(found.values) or len(record.values) :]
        without = self.fitted(
            [replace(record, times=()) for record in self.data(20, 0)], **({"epochs": 1} if self.options else {})
        )
        assert len(without.predict(timed)) == 10

    def test_only_time_apart_counts(self, predictor: NextPredictor) -> None:
        records = self.data(6, 6)
        later = [replace(record, times=tuple(1.7e9 + time for time in record.times)) for record in records]
        close(predictor.predict(later), predictor.predict(records), shares)

    def test_update_welcomes_new_values_and_keeps_old_ids(self, own: NextPredictor) -> None:
        before = list(own.vocabulary.values)
        new = Histories.of([History(("a1", "new", "newer"), (0.0, 9.0, 20.0))] * 8)
        report = own.update(new)
        assert report.stage == "update" and np.isfinite(report.loss)
        assert list(own.vocabulary.values) == [*before, "new", "newer"]
        (answer,) = own.predict([History(("a1", "new"), (0.0, 9.0))], 99)
        assert (answer.in_vocabulary, "newer" in {choice.value for choice in answer.choices}) == (2, True)
        assert own.metadata.sequences == 38 and own.metadata.updates == 1
        (nothing,) = own.predict([History(())], 99)
        assert {choice.value for choice in nothing.choices} == {*before, "new", "newer"}

    def test_update_goes_on_with_the_optimisers_moments(self, own: NextPredictor) -> None:
        if own.schedule is None:
            assert own.optimizer is None
            return

        def steps() -> set[float]:
            assert own.optimizer is not None
            tensors = optimizer_tensors(network_of(own), own.optimizer)
            return {float(tensor) for name, tensor in tensors.items() if name.endswith(".step")}

        (before,) = steps()
        own.update(Histories.of([*self.data(20, 4), History(("a1", "new"), (0.0, 9.0))]))
        assert steps() == {before + 6}  # 21 histories and as many remembered ones in batches of 8

    def test_update_learns_that_values_repeat(self, own: NextPredictor) -> None:
        question = [History(("a1", "a2"), (0.0, HOUR))]
        assert "a1" not in {choice.value for choice in own.predict(question, 99)[0].choices}
        own.update(Histories.of([History(("a1", "a2", "a1"), (0.0, HOUR, 2 * HOUR))]))
        assert own.metadata.repeats
        assert "a1" not in {choice.value for choice in own.predict(question, 99)[0].choices}  # as decided by the fit
        assert "a1" in {choice.value for choice in own.predict(question, 99, exclude_seen=False)[0].choices}

    def test_evidence_in_a_history_longer_than_the_reach_names_the_right_events(self) -> None:
        made = self.fitted(self.data(30, 0), **self.short, **({"epochs": 1} if self.options else {}))
        record = History(tuple(f"a{place}" for place in range(7)), tuple(HOUR * place for place in range(7)))
        (found,) = made.explain([record])
        size = len(found.influence)
        assert size <= 3 and found.values == record.values[7 - size :] and found.times == record.times[7 - size :]
        for choice in found.answer.choices:
            for attribution in choice.attributions:
                assert attribution.value == record.values[attribution.position] and attribution.position >= 5
                assert attribution.weight == pytest.approx(found.influence[attribution.position - 7], abs=1e-6)

    def test_update_learns(self, own: NextPredictor) -> None:
        new = Histories.of([History(("a1", "new"), (0.0, HOUR))] * 16)
        question = [History(("a1",))]

        def share() -> float:
            (answer,) = own.predict(question, 99)
            return sum(choice.score for choice in answer.choices if choice.value == "new")

        seen = []
        for _ in range(3):
            own.update(new)
            seen.append(share())
        assert 0 < seen[0] < seen[1] < seen[2], seen

    def test_explanations_are_shares(self, predictor: NextPredictor) -> None:
        records = [*self.data(10, 7), History(("a1", "who?", "a2"), (0.0, 1.0, HOUR)), History(()), History(("who?",))]
        for record, found in zip(records, predictor.explain(records, 2), strict=True):
            size = len(found.influence)
            inside = [value for value in record.values if value in predictor.vocabulary]
            assert found.values == tuple(inside[len(inside) - size :])
            assert len(found.times) == (size if record.times else 0)
            assert sum(found.influence) <= 1 + 1e-5 and all(0 <= share <= 1 for share in found.influence)
            assert len(found.dependency) in (0, size)
            for step, row in enumerate(found.dependency):
                assert len(row) == size and all(0 <= share <= 1 for share in row)
                assert sum(row) == pytest.approx(1, abs=1e-5) or sum(row) == 0
                assert not any(row[step + 1 :]), "no event leans on a later one"
            for choice in found.answer.choices:
                shares = [attribution.weight for attribution in choice.attributions]
                assert shares == sorted(shares, reverse=True) and sum(shares) <= 1 + 1e-5

    def test_a_score_drop_is_what_asking_without_the_event_changes(self, predictor: NextPredictor) -> None:
        unknown = History(("a1", "who?", "a2", "why?"), (0.0, 1.0, HOUR, HOUR))
        tested = score_drops_are_removals(predictor, [*self.data(5, 8), unknown])
        assert tested or not any(predictor.explain([unknown])[0].influence)

    def test_unknown_events_in_the_data_teach_nothing(self) -> None:
        some = Vocabulary(f"a{place}" for place in range(6))
        records = [*self.data(30, 0), History(("who?", "a1", "why?", "a2"), (0.0, 0.0, 1.0, HOUR))]
        coded = Histories.of(records, some)
        assert (coded.ids == UNKNOWN).any()
        made = NextPredictor(self.model, settings={**self.options, **({"epochs": 1} if self.options else {})})
        for _ in made.fit(coded):
            pass
        made.update(coded)
        assert set(made.vocabulary.values) == set(some.values)
        (answer,) = made.predict([History(())], 99)
        values = [value for record in records for value in record.values if value in some] * 2
        expected = {value: values.count(value) / len(values) for value in set(values)}
        assert {choice.value: choice.score for choice in answer.choices} == pytest.approx(expected, abs=1e-6)
