"""The contract suite over every model of task ``classify``: three lines a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from ensue import SettingError, Text
from ensue.data.texts import Texts
from ensue.tasks.classify.catalogue import MODELS
from ensue.tasks.classify.predictor import ClassifyPredictor
from tests.tasks.classify.contract import FILLERS, TRAINED, ClassifyContract


class TestCentrality(ClassifyContract):
    model = "centrality"
    options = TRAINED


class TestBilinearCentrality(ClassifyContract):
    model = "centrality-bilinear"
    options = TRAINED


class TestTokenRank(ClassifyContract):
    model = "tokenrank"
    options = TRAINED


class TestBlend(ClassifyContract):
    model = "blend"
    options = TRAINED


class TestSelfAttention(ClassifyContract):
    model = "self-attention"
    options = TRAINED


class TestMean(ClassifyContract):
    model = "mean"
    options = TRAINED


class TestMax(ClassifyContract):
    model = "max"
    options = TRAINED


class TestRouting(ClassifyContract):
    model = "routing"
    options = TRAINED


class TestReverseRouting(ClassifyContract):
    model = "reverse-routing"
    options = {**TRAINED, "learning_rate": 0.01, "batch_size": 8, "epochs": 10}  # noqa: RUF012


class TestDecomposableAttention(ClassifyContract):
    model = "decomposable-attention"
    options = TRAINED


class TestTfidf(ClassifyContract):
    model = "tfidf"


class TestVectors(ClassifyContract):
    model = "vectors"
    options: ClassVar[Mapping[str, object]] = {}

    @pytest.fixture(autouse=True)
    def file(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Vectors of every word, in which good and bad are far apart."""
        path: Path = tmp_path_factory.getbasetemp() / "vectors.txt"
        random = np.random.default_rng(0)
        rows = {word: random.normal(size=6) * 0.3 for word in FILLERS} | {"good": [2.0] * 6, "bad": [-2.0] * 6}
        path.write_text(
            "".join(f"{word} {' '.join(f'{number:.4f}' for number in row)}\n" for word, row in rows.items())
        )
        type(self).options = {"vectors": str(path)}
        return path


class TestMajority(ClassifyContract):
    model = "majority"
    learns = 0.5


def test_every_model_signs_the_contract() -> None:
    others = {"centrality-paper"}  # tests/tasks/test_papers.py
    assert {contract.model for contract in ClassifyContract.__subclasses__()} == set(MODELS) - others


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(SettingError) as error:
        ClassifyPredictor("centralty")
    assert str(error.value) == (
        "model 'centralty' is not known for task classify; did you mean 'centrality'? "
        f"choose from best, {', '.join(MODELS)}"
    )


def test_vectors_need_a_file() -> None:
    texts = Texts.of([Text(("a b",), "x"), Text(("c d",), "y"), Text(("a",), "x")])
    with pytest.raises(SettingError) as error:
        list(ClassifyPredictor("vectors").fit(texts))
    assert str(error.value) == "model vectors needs a file of word vectors; set vectors=FILE"
