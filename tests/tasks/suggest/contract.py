"""What every model of task ``suggest`` must keep; a model signs by a subclass of three lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ensue.answers import Answer
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.errors import DataError, SettingError
from ensue.records import History
from ensue.tasks.suggest.predictor import SuggestPredictor

TRAINED: Mapping[str, object] = {
    "dim": 16, "embedding": 16, "dropout": 0, "smoothing": 0, "batch_size": 8, "learning_rate": 0.02, "epochs": 12,
}  # fmt: skip
ATTENDING: Mapping[str, object] = {**TRAINED, "wide": 32, "heads": 2, "warm_up": 40, "learning_rate": 0.01}
FLOOR: Mapping[str, object] = {"min_users": 2, "min_count": 1, "suggestion_tokens": 4, "turns": 4}
THINGS = ("boat", "car", "kite", "lamp")
SECRETS = ("jane roe 77 elm street", "4111 1111 1111 1111", "mia@poe.example", "boat mary moe")
LEARNED: dict[str, SuggestPredictor] = {}


def planted(num: int, seed: int) -> list[History]:
    """Sessions that look for a thing, then want to buy the same one."""
    random = np.random.default_rng(seed)
    return [History((f"find {thing}", f"buy {thing}")) for thing in random.choice(THINGS, num)]


def queries(records: list[History]) -> Queries:
    return Queries(Histories.of(records))


def with_secrets() -> list[History]:
    """One session a secret, between queries that everybody types."""
    return [*planted(60, 0), *(History(("find boat", secret, "buy boat")) for secret in SECRETS)]


def close(one: list[Answer], other: list[Answer]) -> None:
    """The same suggestions for the same reasons, up to rounding."""
    for mine, theirs in zip(one, other, strict=True):
        assert (mine.known, mine.given, mine.id) == (theirs.known, theirs.given, theirs.id)
        assert {c.value: c.score for c in mine.choices} == pytest.approx(
            {c.value: c.score for c in theirs.choices}, abs=1e-5
        )
        shares = [[heed.share for choice in own.choices[:1] for heed in choice.heeded] for own in (mine, theirs)]
        assert shares[0] == pytest.approx(shares[1], abs=1e-5)


class SuggestContract:
    """Inherit, name the model, and every promise is checked."""

    model: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}
    learns: ClassVar[float] = 0.9

    @classmethod
    def fitted(cls, records: list[History], **options: object) -> SuggestPredictor:
        settings = {**FLOOR, **cls.options, **options}
        made = SuggestPredictor(cls.model, settings=settings, seed=5, device="cpu")
        for _ in made.fit(queries(records), queries(planted(12, 9))):
            pass
        return made

    @pytest.fixture
    def predictor(self) -> SuggestPredictor:
        """Shared by the tests that change nothing."""
        name = type(self).__name__
        if name not in LEARNED:
            LEARNED[name] = self.fitted(with_secrets())
        return LEARNED[name]

    @pytest.fixture
    def own(self) -> SuggestPredictor:
        """A predictor for a test that teaches it more."""
        return self.fitted(planted(20, 0), **({"epochs": 1} if "epochs" in self.options else {}))

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

    def test_single_equals_batch(self, predictor: SuggestPredictor) -> None:
        records = [
            *planted(2, 3), History(()), History(("what?", "find lamp")), History(("find car",) * 9 + ("odd",), (), "x")
        ]  # fmt: skip
        close(predictor.predict(records, 3), [predictor.predict([record], 3)[0] for record in records])

    def test_saved_and_loaded_gives_equal_answers(self, predictor: SuggestPredictor, tmp_path: Path) -> None:
        predictor.save(tmp_path / "model", "a card")
        loaded = SuggestPredictor.load(tmp_path / "model", device="cpu")
        records = [*planted(3, 3), History(()), History(("what?",))]
        assert loaded.predict(records) == predictor.predict(records)
        assert loaded.explain(records) == predictor.explain(records)
        assert loaded.summary() == predictor.summary()
        loaded.save(tmp_path / "again", "a card")
        for file in sorted((tmp_path / "model").iterdir()):
            assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name

    def test_nothing_below_the_floor_is_in_the_folder(self, predictor: SuggestPredictor, tmp_path: Path) -> None:
        predictor.save(tmp_path / "model")
        for file in (tmp_path / "model").iterdir():
            content = file.read_bytes()
            assert not [
                word for word in (b"jane", b"roe", b"elm", b"4111", b"mary", b"moe", b"mia", b"poe") if word in content
            ], file.name
        assert (tmp_path / "model" / "floor.json").read_text().count("find boat") == 1

    def test_loaded_and_updated_equals_updated(self, own: SuggestPredictor, tmp_path: Path) -> None:
        own.save(tmp_path / "model")
        loaded = SuggestPredictor.load(tmp_path / "model", device="cpu")
        more = queries([*planted(5, 4), *[History(("find boat", "sell boat"))] * 3])
        assert own.update(more).loss == loaded.update(more).loss
        assert loaded.predict(planted(3, 5)) == own.predict(planted(3, 5))
        own.save(tmp_path / "own")
        loaded.save(tmp_path / "loaded")
        for file in sorted((tmp_path / "own").iterdir()):
            assert (tmp_path / "loaded" / file.name).read_bytes() == file.read_bytes(), file.name

    def test_same_seed_same_bytes(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            options = {"epochs": 1} if "epochs" in self.options else {}
            self.fitted(planted(12, 0), **options).save(tmp_path / name)
        files = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two")]
        assert files[0] == files[1]

    def test_without_queries_the_answer_is_what_is_typed_most(self, predictor: SuggestPredictor) -> None:
        for values in ((), ("", " \t")):
            (answer,) = predictor.predict([History(values, id="x")], 2)
            counts = dict(zip(predictor.following.queries, predictor.following.totals.tolist(), strict=True))
            assert [choice.value for choice in answer.choices] == sorted(counts, key=lambda text: -counts[text])[:2]
            assert (answer.known, answer.given, answer.id) == (0, len(values), "x")
            assert not any(choice.heeded for choice in answer.choices)

    def test_unknown_words_are_counted_and_give_finite_answers(self, predictor: SuggestPredictor) -> None:
        odd, plain, script = predictor.predict(
            [History(("what? why?", "find CAR")), History(("find car",)), History(("שלום", "🎈\u200b", "a" * 50_000))]
        )
        pieces = self.options.get("tokens") == "bpe"  # leave no word unknown
        assert (odd.known, odd.given, plain.known, plain.given) == (1 + pieces, 2, 1, 1)
        assert (script.known, script.given) == (3 * pieces, 3)
        scores = [choice.score for answer in (odd, plain, script) for choice in answer.choices]
        assert np.isfinite(scores).all()

    def test_a_session_of_ten_thousand_queries(self, predictor: SuggestPredictor) -> None:
        (answer,) = predictor.predict([History(("find car", "buy lamp") * 5000)], 2)
        assert (answer.known, answer.given) == (10_000, 10_000)
        for choice in answer.choices:
            assert all(9_990 <= heed.position < 10_000 for heed in choice.heeded)

    def test_no_records_no_answers(self, predictor: SuggestPredictor) -> None:
        assert predictor.predict([]) == [] and predictor.explain([]) == []

    def test_evidence_changes_no_answer(self, predictor: SuggestPredictor) -> None:
        records = [History(("find car", "buy boat")), History(())]
        plain = predictor.predict(records, 3, evidence=False)
        assert not any(choice.heeded for answer in plain for choice in answer.choices)
        stripped = [
            replace(answer, choices=tuple(replace(choice, heeded=()) for choice in answer.choices))
            for answer in predictor.predict(records, 3)
        ]
        assert stripped == plain

    def test_evidence_is_shares_of_queries(self, predictor: SuggestPredictor) -> None:
        values = ("find car", "", "buy boat", "find lamp")
        (answer,) = predictor.predict([History(values)], 3)
        for choice in answer.choices:
            assert all(values[heed.position] == heed.value and 0 < heed.share <= 1 + 1e-5 for heed in choice.heeded)
            assert sum(heed.share for heed in choice.heeded) == pytest.approx(1 if choice.heeded else 0, abs=1e-5)

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

    def test_refusals(self, predictor: SuggestPredictor) -> None:
        def message(call: Any, kind: type[Exception]) -> str:
            with pytest.raises(kind) as error:
                call()
            return str(error.value)

        asked, alone = History(("find car",)), queries([History(("find car",))])
        assert message(lambda: predictor.predict([asked], 0), SettingError) == "k is 0; ask for at least 1 choice"
        many = "k is 100000; ask for at most 1,000 choices"
        assert message(lambda: predictor.predict([asked], 100_000), SettingError) == many
        assert message(lambda: predictor.predict([asked], prefix=["a", "b"]), SettingError) == (
            "2 prefixes for 1 records; give one for all, or one each"
        )
        assert message(lambda: SuggestPredictor(self.model).predict([asked]), SettingError) == (
            "this predictor is not trained yet: loop over fit(data), or load a folder"
        )
        lonely = "no session has two queries, so nothing follows anything; give whole sessions"
        assert message(lambda: predictor.update(alone), DataError) == f"new data: {lonely}"
        assert message(lambda: list(SuggestPredictor(self.model).fit(alone)), DataError) == f"training data: {lonely}"
