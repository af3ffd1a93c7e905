"""What every predictor of every task promises; what one task promises beyond that stands in its own ``contract.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ensue import SettingError

LEARNED: dict[type, Any] = {}
"""A trained predictor a class, shared by the tests that change nothing."""
FOLDERS: dict[type, Path] = {}
"""The folder of a predictor that was trained in a moment, of which every test that teaches one more loads its own."""


def shares_of_best(answer: Any) -> object:
    """What the first choice was seen to rest on."""
    return [attribution.weight for choice in answer.choices[:1] for attribution in choice.attributions]


def close(one: Sequence[Any], other: Sequence[Any], evidence: Callable[[Any], object] = shares_of_best) -> None:
    """The same choices for the same reasons, up to rounding; ties may change places."""
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        assert (mine.in_vocabulary, mine.events, mine.id) == (theirs.in_vocabulary, theirs.events, theirs.id)
        scores = [{choice.value: choice.score for choice in answer.choices} for answer in (mine, theirs)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)
        assert evidence(mine) == pytest.approx(evidence(theirs), abs=1e-5)


def files(folder: Path) -> dict[str, bytes]:
    """All that is in a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


class Contract:
    """Inherit a task's own, name the model, and every promise is checked."""

    predictor_class: ClassVar[Any]
    model: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}
    most: ClassVar[int] = 10
    """Choices that are asked for where one answer is compared with another."""
    evidence = staticmethod(shares_of_best)

    @classmethod
    def whole(cls) -> Any:
        """Trained until it knows the pattern."""
        raise NotImplementedError

    @classmethod
    def few(cls) -> Any:
        """Trained in a moment."""
        raise NotImplementedError

    @classmethod
    def quick(cls) -> dict[str, object]:
        """The settings of a moment."""
        return {"epochs": 1} if "epochs" in cls.options else {}

    def asked(self) -> list[Any]:
        """Records, among them some without words and some unknown."""
        raise NotImplementedError

    def more(self) -> Any:
        """Data for an update, with something new in it."""
        raise NotImplementedError

    def bare(self, answer: Any) -> Any:
        """An answer without its evidence."""
        raise NotImplementedError

    @pytest.fixture
    def predictor(self) -> Any:
        """Shared by the tests that change nothing."""
        if type(self) not in LEARNED:
            LEARNED[type(self)] = self.whole()
        return LEARNED[type(self)]

    @pytest.fixture
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Where a predictor that was trained in a moment is saved."""
        if type(self) not in FOLDERS:
            folder = tmp_path_factory.mktemp("few") / "model"
            self.few().save(folder)
            FOLDERS[type(self)] = folder
        return FOLDERS[type(self)]

    @pytest.fixture
    def own(self, folder: Path) -> Any:
        """A predictor for a test that teaches it more."""
        return self.predictor_class.load(folder, device="cpu")

    def test_single_equals_batch(self, predictor: Any) -> None:
        records = self.asked()
        alone = [predictor.predict([record], self.most)[0] for record in records]
        close(predictor.predict(records, self.most), alone, self.evidence)

    def test_saved_and_loaded_gives_equal_answers(self, predictor: Any, tmp_path: Path) -> None:
        predictor.save(tmp_path / "model", "a card")
        loaded, records = self.predictor_class.load(tmp_path / "model", device="cpu"), self.asked()
        assert loaded.predict(records, self.most) == predictor.predict(records, self.most)
        assert loaded.explain(records) == predictor.explain(records)
        assert loaded.summary() == predictor.summary()
        assert (tmp_path / "model" / "CARD.md").read_text() == "a card"
        loaded.save(tmp_path / "again", "a card")
        assert files(tmp_path / "again") == files(tmp_path / "model")

    def test_same_seed_same_bytes_and_loaded_and_updated_equals_updated(
        self, folder: Path, own: Any, tmp_path: Path
    ) -> None:
        again = self.few()
        again.save(tmp_path / "again")
        assert files(tmp_path / "again") == files(folder)
        assert again.update(self.more()).loss == own.update(self.more()).loss
        assert own.predict(self.asked(), self.most) == again.predict(self.asked(), self.most)
        again.save(tmp_path / "updated")
        own.save(tmp_path / "loaded")
        assert files(tmp_path / "loaded") == files(tmp_path / "updated") != files(folder)

    def test_no_records_no_answers(self, predictor: Any) -> None:
        assert predictor.predict([]) == [] and predictor.explain([]) == []

    def test_evidence_changes_no_answer(self, predictor: Any) -> None:
        plain = predictor.predict(self.asked(), self.most, evidence=False)
        assert plain == [self.bare(answer) for answer in plain]
        assert plain == [self.bare(answer) for answer in predictor.predict(self.asked(), self.most)]

    def test_refusals(self, predictor: Any) -> None:
        record = self.asked()[0]
        with pytest.raises(SettingError) as error:
            predictor.predict([record], 0)
        assert str(error.value) == "k is 0; give at least 1"
        with pytest.raises(SettingError) as error:
            self.predictor_class(self.model, settings=self.options).predict([record])
        assert str(error.value) == "this predictor is not trained yet: loop over fit(data), or load a folder"
