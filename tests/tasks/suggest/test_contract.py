"""The contract suite over every model of task ``suggest``: three lines a model."""

from __future__ import annotations

import pytest

from ensue import SettingError
from ensue.tasks.suggest.catalogue import MODELS
from ensue.tasks.suggest.predictor import SuggestPredictor
from tests.tasks.suggest.contract import ATTENDING, TRAINED, SuggestContract


class TestMTN(SuggestContract):
    model = "mtn"
    options = {**ATTENDING, "depth": "1+1+1"}  # noqa: RUF012


class TestBest(SuggestContract):
    """Copying, all queries read, the log looked up and mixed in, and pieces of words."""

    model = "best"
    options = {**ATTENDING, "depth": "1+1+1", "retrieved": 5, "tokens": "bpe", "vocabulary_size": 300}  # noqa: RUF012


class TestTransformer(SuggestContract):
    model = "transformer"
    options = {**ATTENDING, "depth": "1+1"}  # noqa: RUF012


class TestFlatTransformer(SuggestContract):
    model = "flat-transformer"
    options = {**ATTENDING, "depth": "1+1"}  # noqa: RUF012


class TestSeq2Seq(SuggestContract):
    model = "seq2seq"
    options = TRAINED


class TestHLSTM(SuggestContract):
    model = "h-lstm"
    options = {**TRAINED, "learning_rate": 0.01, "epochs": 20, "patience": 6}  # noqa: RUF012


class TestMNSRF(SuggestContract):
    model = "m-nsrf"
    options = {**TRAINED, "learning_rate": 0.01, "epochs": 24, "patience": 6}  # noqa: RUF012


class TestReranker(SuggestContract):
    model = "reranker"


class TestMostFrequentNext(SuggestContract):
    model = "most-frequent-next"


class TestPopular(SuggestContract):
    model = "popular"
    learns = 0.0


class TestCoOccurrence(SuggestContract):
    model = "co-occurrence"


class TestAfterWords(SuggestContract):
    model = "after-words"


class TestRepeatLast(SuggestContract):
    model = "repeat-last"
    learns = 0.0


def test_every_model_signs_the_contract() -> None:
    signed = {contract.model for contract in SuggestContract.__subclasses__()}
    assert signed == {*MODELS, "best"} - {"mtn-paper"}  # tests/tasks/test_papers.py


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(SettingError) as error:
        SuggestPredictor("mtm")
    assert str(error.value) == f"model 'mtm' is not known for task suggest; choose from best, {', '.join(MODELS)}"
