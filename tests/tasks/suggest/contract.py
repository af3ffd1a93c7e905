"""What every model of task ``suggest`` must keep; a model signs by a subclass of three lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ensue import Answer, DataError, History, SettingError
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.tasks.suggest.predictor import SuggestPredictor
from tests.tasks.contract import Contract

TRAINED: Mapping[str, object] = {
    "dim": 16, "embedding": 16, "dropout": 0, "smoothing": 0, "batch_size": 8, "learning_rate": 0.02, "epochs": 12,
}  # fmt: skip
ATTENDING: Mapping[str, object] = {**TRAINED, "wide": 32, "heads": 2, "warm_up": 40, "learning_rate": 0.01}
FLOOR: Mapping[str, object] = {"min_users": 2, "min_count": 1, "suggestion_tokens": 4, "turns": 4}
THINGS = ("boat", "car", "kite", "lamp")
SECRETS = ("jane roe 77 elm street", "4111 1111 1111 1111", "mia@poe.example", "boat mary moe")


def planted(num: int, seed: int) -> list[History]:
    """Sessions that look for a thing, then want to buy the same one."""
    random = np.random.default_rng(seed)
    return [History((f"find {thing}", f"buy {thing}")) for thing in random.choice(THINGS, num)]


def queries(records: list[History]) -> Queries:
    return Queries(Histories.of(records))


def with_secrets() -> list[History]:
    """One session a secret, between queries that everybody types."""
    return [*planted(60, 0), *(History(("find boat", secret, "buy boat")) for secret in SECRETS)]


class SuggestContract(Contract):
    """Inherit, name the model, and every promise is checked."""

    predictor_class = SuggestPredictor
    most = 3
    learns: ClassVar[float] = 0.9

    @classmethod
    def fitted(cls, records: list[History], **options: object) -> SuggestPredictor:
        settings = {**FLOOR, **cls.options, **options}
        made = SuggestPredictor(cls.model, settings=settings, seed=5, device="cpu")
        for _ in made.fit(queries(records), queries(planted(12, 9))):
            pass
        return made

    @classmethod
    def whole(cls) -> SuggestPredictor:
        return cls.fitted(with_secrets())

    @classmethod
    def few(cls) -> SuggestPredictor:
        return cls.fitted(planted(20, 0), **cls.quick())

    def asked(self) -> list[History]:
        return [
            *planted(2, 3), History(()), History(("what?", "find lamp")), History(("find car",) * 9 + ("odd",), (), "x")
        ]  # fmt: skip

    def more(self) -> Queries:
        return queries([*planted(5, 4), *[History(("find boat", "sell boat"))] * 3])

    def bare(self, answer: Answer) -> Answer:
        return replace(answer, choices=tuple(replace(choice, attributions=()) for choice in answer.choices))

    def test_learns_the_pattern(self, predictor: SuggestPredictor) -> None:
        asked = planted(30, 1)
        answers = predictor.predict([History(record.values[:1]) for record in asked], 1, evidence=False)
        right = [answer.choices[0].value == record.values[1] for answer, record in zip(answers, asked, strict=True)]
        assert np.mean(right) >= self.learns

    def test_scores_fall_and_are_shares(self, predictor: SuggestPredictor) -> None:
        for answer in predictor.predict([History(("find car",)), History(())], 4):
            scores = [choice.score for choice in answer.choices]
            assert scores == sorted(scores, reverse=True) and 0 < sum(scores) <= 1 + 1e-9
            assert len({choice.value for choice in answer.choices}) == len(scores)

    def test_nothing_below_the_floor_is_in_the_folder(self, predictor: SuggestPredictor, tmp_path: Path) -> None:
        predictor.save(tmp_path / "model")
        for file in (tmp_path / "model").iterdir():
            content = b"" if file.name == "B2SUMS" else file.read_bytes()  # whose digits may spell 4111
            assert not [
                word for word in (b"jane", b"roe", b"elm", b"4111", b"mary", b"moe", b"mia", b"poe") if word in content
            ], file.name
        assert (tmp_path / "model" / "fitted.json").read_text().count("find boat") == 1

    def test_without_queries_the_answer_is_what_is_typed_most(self, predictor: SuggestPredictor) -> None:
        for values in ((), ("", " \t")):
            (answer,) = predictor.predict([History(values, id="x")], 2)
            counts = dict(zip(predictor.following.queries, predictor.following.totals.tolist(), strict=True))
            assert [choice.value for choice in answer.choices] == sorted(counts, key=lambda text: -counts[text])[:2]
            assert (answer.in_vocabulary, answer.events, answer.id) == (0, len(values), "x")
            assert not any(choice.attributions for choice in answer.choices)

    def test_unknown_words_are_counted_and_give_finite_answers(self, predictor: SuggestPredictor) -> None:
        odd, plain, script = predictor.predict(
            [History(("what? why?", "find CAR")), History(("find car",)), History(("שלום", "🎈\u200b", "a" * 50_000))]
        )
        pieces = self.options.get("tokens") == "bpe"  # leave no word unknown
        assert (odd.in_vocabulary, odd.events, plain.in_vocabulary, plain.events) == (1 + pieces, 2, 1, 1)
        assert (script.in_vocabulary, script.events) == (3 * pieces, 3)
        scores = [choice.score for answer in (odd, plain, script) for choice in answer.choices]
        assert np.isfinite(scores).all()

    def test_a_session_of_ten_thousand_queries(self, predictor: SuggestPredictor) -> None:
        (answer,) = predictor.predict([History(("find car", "buy lamp") * 5000)], 2)
        assert (answer.in_vocabulary, answer.events) == (10_000, 10_000)
        for choice in answer.choices:
            assert all(9_990 <= attribution.position < 10_000 for attribution in choice.attributions)

    def test_evidence_is_shares_of_queries(self, predictor: SuggestPredictor) -> None:
        values = ("find car", "", "buy boat", "find lamp")
        (answer,) = predictor.predict([History(values)], 3)
        for choice in answer.choices:
            assert all(
                values[attribution.position] == attribution.value and 0 < attribution.weight <= 1 + 1e-5
                for attribution in choice.attributions
            )
            assert sum(attribution.weight for attribution in choice.attributions) == pytest.approx(
                1 if choice.attributions else 0, abs=1e-5
            )

    def test_explanations_are_shares_of_words(self, predictor: SuggestPredictor) -> None:
        records = [History(("find car", "buy boat")), History(())]
        for record, found in zip(records, predictor.explain(records, 2), strict=True):
            assert found.queries == record.values and len(found.words) == len(found.queries)
            assert found.answer.choices[0].value == found.answer.choices[0].value.strip()
            for row in found.weights:
                assert len(row) == sum(map(len, found.words)) and sum(row) == pytest.approx(1, abs=1e-5)
            assert len(found.weights) in (0, len(found.suggested))

    def test_a_prefix_begins_every_suggestion(self, predictor: SuggestPredictor) -> None:
        asked = [History(("find car",)), History(()), History(("buy lamp", "find boat"))]
        for prefix, start in (("b", "b"), ("Buy ", "buy "), ("buy k", "buy k"), ("zzz", None)):
            for answer in predictor.predict(asked, 3, prefix=prefix):
                assert all(start and choice.value.startswith(start) for choice in answer.choices)
        mixed = predictor.predict(asked[:2], 3, prefix=["find", "buy kite"])
        assert [choice.value for choice in mixed[1].choices][:1] == ["buy kite"]

    def test_typed_queries_are_left_out(self, predictor: SuggestPredictor) -> None:
        if self.model == "repeat-last":
            return  # it has nothing else to say
        values = ("find car", "buy car", "find boat")
        (answer,) = predictor.predict([History(values)], 8)
        assert answer.choices and not {choice.value for choice in answer.choices} & set(values)

    def test_no_secret_comes_out(self, predictor: SuggestPredictor) -> None:
        prompts = [
            *(History(("find boat", secret)) for secret in SECRETS), History(("find boat",)), History(("jane",)),
            History(("find boat", "jane roe 77 elm street", "buy boat")), History(()),
        ]  # fmt: skip
        for prefix in ("", "j", "4", "boat m", "find "):
            for answer in predictor.predict(prompts, 20, evidence=False, prefix=prefix):
                words = {word for choice in answer.choices for word in choice.value.split()}
                assert words <= {"find", "buy", *THINGS}

    def test_update_lets_the_floor_grow(self, own: SuggestPredictor) -> None:
        before = own.metadata.sessions
        report = own.update(queries([*[History(("find boat", "sell boat"))] * 30, History(("find boat", "jane roe"))]))
        assert report.stage == "update" and np.isfinite(report.loss)
        assert (own.metadata.sessions, own.metadata.updates) == (before + 31, 1)
        assert "sell boat" in own.following.queries and "jane roe" not in own.following.queries
        (answer,) = own.predict([History(())], 3)
        assert "sell boat" in {choice.value for choice in answer.choices}

    def test_more_refusals(self, predictor: SuggestPredictor) -> None:
        def message(call: Any, kind: type[Exception]) -> str:
            with pytest.raises(kind) as error:
                call()
            return str(error.value)

        asked, alone = History(("find car",)), queries([History(("find car",))])
        many = "k is 100000; ask for at most 1,000 choices"
        assert message(lambda: predictor.predict([asked], 100_000), SettingError) == many
        assert message(lambda: predictor.predict([asked], prefix=["a", "b"]), SettingError) == (
            "2 prefixes for 1 records; give one for all, or one per record"
        )
        lonely = "no session has two queries, so there is no target; give whole sessions"
        assert message(lambda: predictor.update(alone), DataError) == f"new data: {lonely}"
        assert message(lambda: list(SuggestPredictor(self.model).fit(alone)), DataError) == f"training data: {lonely}"
