"""What every predictor of task ``classify`` promises, on a pattern planted in the data. One subclass a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from ensue import DataError, Text, TextAnswer
from ensue.data.texts import Texts
from ensue.tasks.classify.predictor import ClassifyPredictor
from tests.tasks.contract import Contract

FILLERS = [f"w{place}" for place in range(12)]
SIGNS = {"bad": "no", "good": "yes"}
TRAINED: Mapping[str, object] = {
    "hidden": 8,
    "dim": 8,
    "head": 8,
    "score_dim": 6,
    "dropout": 0.0,
    "learning_rate": 0.02,
    "batch_size": 16,
    "epochs": 6,
}


def planted(num: int, seed: int) -> list[Text]:
    """Words at random, among which one tells the label; two of three texts are good."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(num):
        words = list(random.choice(FILLERS, random.integers(2, 8)))
        sign = "bad" if random.random() < 1 / 3 else "good"
        words.insert(random.integers(0, len(words) + 1), sign)
        found.append(Text((" ".join(words),), SIGNS[sign]))
    return found


class ClassifyContract(Contract):
    """Inherit, name the model, and every promise is checked."""

    predictor_class = ClassifyPredictor
    learns: ClassVar[float] = 0.95

    @classmethod
    def fitted(cls, records: list[Text], **options: object) -> ClassifyPredictor:
        made = ClassifyPredictor(cls.model, settings={**cls.options, **options}, seed=5, device="cpu")
        for _ in made.fit(Texts.of(records)):
            pass
        return made

    @classmethod
    def whole(cls) -> ClassifyPredictor:
        return cls.fitted(planted(150, 0))

    @classmethod
    def few(cls) -> ClassifyPredictor:
        return cls.fitted(planted(40, 0), **cls.quick())

    def asked(self) -> list[Text]:
        return [*planted(10, 3), Text(("",)), Text(("who? why?",)), Text(("good",), "yes", "x"), Text(("w1 " * 40,))]

    def more(self) -> Texts:
        return Texts.of([*planted(10, 4), Text(("good newcomer",), "yes")])

    def bare(self, answer: TextAnswer) -> TextAnswer:
        return replace(
            answer, choices=tuple(replace(choice, attributions=()) for choice in answer.choices), deletion=None
        )

    def prior(self, predictor: ClassifyPredictor) -> dict[str, float]:
        """Shares of the labels in all that was learned: in the end counting learns the held-out tenth too."""
        found = [str(record.label) for record in planted(150, 0)]
        assert predictor.metadata.texts == 150
        return {label: found.count(label) / 150 for label in ("yes", "no")}

    def test_learns_the_pattern(self, predictor: ClassifyPredictor) -> None:
        asked = planted(60, 1)
        answers = predictor.predict(asked, 1, evidence=False)
        right = [answer.choices[0].value == record.label for answer, record in zip(answers, asked, strict=True)]
        assert np.mean(right) >= self.learns

    def test_probabilities_fall_and_sum_to_one(self, predictor: ClassifyPredictor) -> None:
        for answer in predictor.predict(planted(20, 2), 99):
            scores = [choice.score for choice in answer.choices]
            assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)
            assert sum(scores) == pytest.approx(1, abs=1e-6)
        assert all(len(answer.choices) == 1 for answer in predictor.predict(planted(3, 2), 1))

    def test_predictions_and_scores_are_the_same_numbers(self, predictor: ClassifyPredictor) -> None:
        records = [*planted(20, 3), Text(("",), "yes")]
        shares = predictor.scores(Texts.of(records))
        for row, answer in zip(shares, predictor.predict(records), strict=True):
            found = {choice.value: choice.score for choice in answer.choices}
            assert [found[label] for label in predictor.labels] == row.tolist()
        assert predictor.targets(Texts.of(records)).tolist() == [predictor.labels.index(str(r.label)) for r in records]

    def test_without_words_the_answer_is_the_shares_of_the_labels(self, predictor: ClassifyPredictor) -> None:
        for text in ("", "  \n "):
            (answer,) = predictor.predict([Text((text,), id="x")])
            assert {choice.value: choice.score for choice in answer.choices} == pytest.approx(self.prior(predictor))
            assert (answer.in_vocabulary, answer.events, answer.id, answer.deletion) == (0, 0, "x", None)
            assert not any(choice.attributions for choice in answer.choices)

    def test_unknown_words_are_counted_and_give_finite_answers(self, predictor: ClassifyPredictor) -> None:
        odd, plain = predictor.predict([Text(("who good why",)), Text(("good",))])
        assert (odd.in_vocabulary, odd.events, plain.in_vocabulary, plain.events) == (1, 3, 1, 1)
        assert all(np.isfinite(choice.score) for choice in odd.choices)

    def test_the_deletion_test_is_the_answer_without_the_words(self, predictor: ClassifyPredictor) -> None:
        records = [*planted(5, 8), Text(("good",))]

        def share(words: list[str], label: str) -> float:
            (answer,) = predictor.predict([Text((" ".join(words),))], evidence=False)
            return {choice.value: choice.score for choice in answer.choices}[label]

        for record, answer in zip(records, predictor.predict(records), strict=True):
            words = record.texts[0].split()
            for choice in answer.choices:
                for attribution in choice.attributions:
                    assert words[attribution.position] == attribution.value
                    rest = [word for place, word in enumerate(words) if place != attribution.position]
                    assert attribution.score_drop == pytest.approx(choice.score - share(rest, choice.value), abs=1e-5)
            best = answer.choices[0]
            gone = {attribution.position for attribution in best.attributions}
            if answer.deletion is None:
                assert not gone
                continue
            rest = [word for place, word in enumerate(words) if place not in gone]
            assert answer.deletion.words == len(gone) == min(3, max(1, len(words) // 2))
            assert answer.deletion.score_drop == pytest.approx(best.score - share(rest, best.value), abs=1e-5)
            assert np.isfinite(answer.deletion.random)

    def test_explanations_are_shares(self, predictor: ClassifyPredictor) -> None:
        records = [*planted(6, 7), Text(("good who? .",)), Text(("",))]
        for record, found in zip(records, predictor.explain(records, 2), strict=True):
            words = [word for passage in found.passages for word in passage.words]
            assert words == record.texts[0].replace("?", " ?").split() and found.graph == ()
            for passage in found.passages:
                assert sum(passage.weights) == pytest.approx(1, abs=1e-5) or not any(passage.weights)
                assert 0 <= passage.weight <= 1 + 1e-6 and all(0 <= weight <= 1 + 1e-6 for weight in passage.weights)
                assert len(passage.graph) in (0, len(passage.words))
                for column in zip(*passage.graph, strict=True):
                    assert sum(column) == pytest.approx(1, abs=1e-5)

    def test_update_welcomes_new_words(self, own: ClassifyPredictor) -> None:
        before = list(own.tokenizer.vocabulary.values)
        report = own.update(Texts.of([Text(("w1 newcomer",), "yes"), Text(("w2 bad",), "no")]))
        assert report.stage == "update" and np.isfinite(report.loss)
        assert list(own.tokenizer.vocabulary.values) == [*before, "newcomer"]
        (answer,) = own.predict([Text(("newcomer",))])
        assert (answer.in_vocabulary, own.metadata.texts, own.metadata.updates) == (1, 42, 1)

    def test_update_learns(self, own: ClassifyPredictor) -> None:
        if self.model == "vectors":
            return  # it has no vector for a new word
        new, question = Texts.of([Text(("newcomer",), "no")] * 40), [Text(("newcomer",))]

        def share() -> float:
            return {choice.value: choice.score for choice in own.predict(question)[0].choices}["no"]

        seen = []
        for _ in range(3):
            own.update(new)
            seen.append(share())
        assert seen[0] < seen[1] < seen[2]

    def test_a_new_label_is_refused_and_changes_nothing(self, own: ClassifyPredictor) -> None:
        before = own.scores(Texts.of(planted(5, 1)))
        with pytest.raises(DataError) as error:
            own.update(Texts.of([Text(("good",), "yes"), Text(("fresh",), "maybe")]))
        assert str(error.value) == (
            "new data: the label 'maybe' is not a label of the model (no, yes); fit again on all data"
        )
        assert (own.scores(Texts.of(planted(5, 1))) == before).all() and "fresh" not in own.tokenizer.vocabulary
        assert own.targets(Texts.of([Text(("good",), "maybe")])).tolist() == [-1]

    def test_pairs_are_refused(self, predictor: ClassifyPredictor) -> None:
        with pytest.raises(DataError) as data:
            predictor.predict([Text(("good",)), Text(("good", "bad"))])
        assert str(data.value) == "text 1: is a pair, but the model was trained on single texts; give single texts"
        with pytest.raises(DataError) as data:
            predictor.scores(Texts.of([Text(("good", "bad"))]))
        assert str(data.value) == "these are pairs, but the model was trained on single texts; give single texts"
