"""The contract suite over every model of task ``link``: three lines a model."""

from __future__ import annotations

import pytest

from ensue.errors import SettingError
from ensue.link import MODELS
from ensue.link.predictor import LinkPredictor
from tests.link.contract import NETWORK, LinkContract


class TestBest(LinkContract):
    model = "best"


class TestBestLearned(LinkContract):
    """A network's cosine among the scores."""

    model = "best"
    options = {**NETWORK, "learned": "cnn", "epochs": 3}  # noqa: RUF012


class TestAST(LinkContract):
    model = "ast"
    options = NETWORK


class TestCNN(LinkContract):
    model = "cnn"
    options = NETWORK


class TestGRU(LinkContract):
    model = "gru"
    options = NETWORK
    learns = 0.5


class TestBiGRU(LinkContract):
    model = "bigru"
    options = NETWORK
    learns = 0.5


class TestTfidf(LinkContract):
    model = "tfidf"


class TestBM25(LinkContract):
    model = "bm25"


def test_every_model_signs_the_contract() -> None:
    assert {contract.model for contract in LinkContract.__subclasses__()} == set(MODELS)


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("astt", {}, f"model 'astt' is not known for task link; choose from {', '.join(MODELS)}"),
        ("best", {"learned": "lstm"}, "learned is 'lstm'; choose from ast, cnn, gru, bigru, or leave it out"),
        ("ast", {"learned": "cnn"}, "learned is 'cnn'; only model best weighs a learned score"),
        ("ast", {"encoder": "gru"}, "encoder is 'gru'; name the model gru instead"),
        ("ast", {"watch": "loss"}, "watch is 'loss'; task link knows only 'mrr'"),
        ("tfidf", {"heads": 3}, "setting 'heads' is not known here; choose from learned, together"),
    ],
)
def test_what_is_refused(model: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as error:
        LinkPredictor(model, settings=settings)
    assert str(error.value) == message
