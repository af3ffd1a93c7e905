"""The contract suite over every model of task ``link``: three lines a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ensue import ModelFolderError, Post, SettingError
from ensue.data.posts.dataset import Posts
from ensue.tasks.link.catalogue import MODELS
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.sync import sync
from tests.encoders import StandIn, hashed, install, missing
from tests.folders import resum
from tests.tasks.link.checks import planted
from tests.tasks.link.contract import NETWORK, LinkContract

ENCODER = {"encoder": "stand-in"}
ALONE = {"bag": 0, "pretrain": "none"}


class TestBest(LinkContract):
    model = "best"


class TestBestLearned(LinkContract):
    """A network's cosine among the scores."""

    model = "best"
    options = {**NETWORK, "network": "cnn", "epochs": 3}  # noqa: RUF012


class TestAST(LinkContract):
    model = "ast"
    options = NETWORK


class TestASTPaper(LinkContract):
    """As it was published."""

    model = "ast-paper"
    options = NETWORK


class TestBag(LinkContract):
    """Learned of articles alone."""

    model = "bag"
    options = {"bag": 32}  # noqa: RUF012


class TestBestBag(LinkContract):
    """Its cosine among the scores."""

    model = "best"
    options = {"bag": 32, "network": "bag"}  # noqa: RUF012


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


class TestSbert(LinkContract):
    """A stand-in for an installed encoder."""

    model = "sbert"
    options = ENCODER
    learns = 0.7


class TestBestSbert(LinkContract):
    """An installed encoder's cosine among the scores."""

    model = "best"
    options = ENCODER


class TestTfidf(LinkContract):
    model = "tfidf"


class TestBM25(LinkContract):
    model = "bm25"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def test_every_model_signs_the_contract() -> None:
    assert {contract.model for contract in LinkContract.__subclasses__()} == set(MODELS)


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (
            "astt",
            {},
            f"model 'astt' is not known for task link; did you mean 'ast'? choose from {', '.join(MODELS)}",
        ),
        (
            "best",
            {"network": "lstm"},
            "network is 'lstm'; choose from ast, cnn, gru, bigru, ast-paper, bag, sbert, or remove it",
        ),
        ("ast", {"network": "cnn"}, "network is 'cnn'; only model best weights a trained network"),
        ("ast", {"encoder": "gru"}, "encoder is 'gru'; name the model gru instead"),
        ("best", {"encoder": "gru", "network": "cnn"}, "encoder is 'gru'; name the model gru instead"),
        (
            "sbert",
            {"encoder": " "},
            "sbert needs an encoder: --set encoder=NAME (of `ensue link`, --encoder NAME), a folder or a name that "
            "sentence-transformers knows",
        ),
        (
            "sbert",
            {"epochs": 2},
            "setting 'epochs' is not known; choose from cross_post_prior, encoder, network, remembered",
        ),
        ("ast", {"monitor": "loss"}, "monitor is 'loss'; task link allows only 'mrr'"),
        ("tfidf", {"heads": 3}, "setting 'heads' is not known; choose from cross_post_prior, network, remembered"),
    ],
)
def test_what_is_refused(model: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as error:
        LinkPredictor(model, settings=settings)
    assert str(error.value) == message


@pytest.mark.parametrize("loss", ["triplet", "contrastive"])
@pytest.mark.parametrize("model", ["ast", "cnn"])
def test_training_that_went_astray_is_refused(model: str, loss: str) -> None:
    settings = {**NETWORK, **ALONE, "loss": loss, "learning_rate": 1e9, "epochs": 2}
    made = LinkPredictor(model, settings=settings, seed=5, device="cpu")
    how = r"MRR of training posts fell from|the loss became nan|the weights are no longer numbers"
    with pytest.raises(
        SettingError, match=rf"({how}).*; (learning_rate is 1e\+09, )?try a smaller (learning_rate|one)$"
    ):
        list(made.fit(planted(), planted(num=2, first=20)))


def test_cosines_are_the_encoder_s() -> None:
    made = TestSbert.fitted()
    texts = ["ferry captain", "", "storm"]
    found = made.scores(Posts.of([Post(text) for text in texts])).whole()
    rows = np.stack([hashed(text) for text in made.articles.texts])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for text, scores in zip(texts, found, strict=True):
        own = hashed(text)
        assert scores == pytest.approx(rows @ own / max(float(np.linalg.norm(own)), 1e-9), abs=1e-5)


def test_a_folder_needs_the_encoder_it_was_learned_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = TestBestSbert.fitted()
    made.save(tmp_path / "model", made.card())
    card = (tmp_path / "model" / "CARD.md").read_text()
    assert "- encoder: recognised by " in card and "- encoder: stand-in\n" in card
    loaded = LinkPredictor.load(tmp_path / "model", device="cpu")
    assert loaded.shared.network == "sbert"
    with (
        monkeypatch.context() as other,
        pytest.raises(SettingError, match="is not the one"),
    ):
        other.setattr(StandIn, "shift", 0.5)
        loaded.predict([Post("ferry")])
    missing(monkeypatch)
    with pytest.raises(SettingError, match=r"needs the extra: pip install 'ensue\[encoder\]'"):
        LinkPredictor.load(tmp_path / "model", device="cpu").predict([Post("ferry")])
    path = tmp_path / "model" / "settings.json"
    found = json.loads(path.read_text())
    del found["facts"]["encoder"]
    path.write_text(json.dumps(found))
    resum(path.parent)
    with pytest.raises(ModelFolderError, match=r"damaged \(facts\.encoder: is missing\)"):
        LinkPredictor.load(tmp_path / "model", device="cpu")


def test_vectors_of_posts_are_kept_beside_the_folder(tmp_path: Path) -> None:
    """Only new texts are encoded, and another encoder encodes all anew."""
    made = TestSbert.fitted()
    posts = Posts.of([Post("ferry captain", "a"), Post("storm", "b")])
    whole = made.scores(posts).whole()
    told: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as few:
        few.setattr("ensue.tasks.link.sync.BATCH_SIZE", 1)
        few.setattr("ensue.tasks.link.sync.COMMIT_INTERVAL", 0.0)
        assert sync(made, posts, tmp_path / "m", lambda done, total: told.append((done, total))) == (2, 0, 0)
    assert told == [(1, 2), (2, 2)]
    assert made.scores(posts).whole() == pytest.approx(whole, abs=1e-3), "stored in 16 bits"
    more = Posts.of([Post("storm", "b"), Post("bakery", "c")])
    assert sync(made, more, tmp_path / "m") == (1, 1, 1)
    assert made.metadata.encoder is not None
    made.metadata.encoder = [own + 1e-9 for own in made.metadata.encoder]
    assert sync(made, more, tmp_path / "m") == (2, 0, 0)
