"""Held-out posts stay as numbers; an update that leads them astray is refused, whatever the model."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ensue import Article, Post, SettingError
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.refresh import refresh
from ensue.refresh.trial import link_slices
from ensue.tasks.link.encode import encode_remembered
from ensue.tasks.link.link_metrics import by_row
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.scores import LinkScores, reciprocal_ranks
from ensue.tasks.link.train import remember
from tests.tasks.link.checks import NAMES, THEMES, article
from tests.tasks.link.contract import NETWORK

LEXICAL: dict[str, dict[str, object]] = {"best": {}, "tfidf": {}}
LEARNING: dict[str, dict[str, object]] = {
    **{name: {**NETWORK} for name in ("ast", "cnn")},
    "best with ast": {**NETWORK, "network": "ast"},
}
MODELS = {**LEXICAL, **LEARNING}
FITTED: dict[str, LinkPredictor] = {}


def posts(num: int, seed: int, shift: int = 0) -> Posts:
    """Three words of an article each, linked to the one so many places on."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(num):
        place = int(random.integers(len(NAMES)))
        one, other, third = random.choice(THEMES[NAMES[place]].split(), 3, replace=False)
        about = (NAMES[(place + shift) % len(NAMES)],)
        found.append(Post(f"{one} and {other} with {third}!", f"s{seed}-{number}", about))
    return Posts.of(found)


def corpus(num: int, seed: int, shift: int = 0) -> Corpus:
    return Corpus(Articles.of(map(article, NAMES)), posts(num, seed, shift))


HELD = corpus(60, 1)


def fitted(name: str, **options: object) -> LinkPredictor:
    made = LinkPredictor(name.split()[0], settings={**MODELS[name], **options}, seed=5, device="cpu")
    for _ in made.fit(corpus(200, 0), HELD):
        pass
    return made


@pytest.fixture(params=MODELS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param not in FITTED:
        FITTED[request.param] = fitted(request.param)
    FITTED[request.param].save(tmp_path / request.param)
    return tmp_path / str(request.param)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_300_rotated_links_are_refused_or_change_no_answer(folder: Path) -> None:
    old, before = LinkPredictor.load(folder, device="cpu"), contents(folder)
    found = refresh(folder, corpus(300, 9, shift=1))
    if folder.name in LEARNING:
        assert not found.accepted and contents(folder) == before
        assert all(part.before > 0.95 for part in found.slices)
        return
    new = LinkPredictor.load(folder, device="cpu")
    assert found.accepted and [part.change for part in found.slices] == [0.0]
    np.testing.assert_array_equal(new.scores(HELD.posts).whole(), old.scores(HELD.posts).whole())


def test_articles_under_the_ids_of_others_are_refused(folder: Path) -> None:
    before = contents(folder)
    found = refresh(folder, rotated_articles())
    assert not found.accepted and found.slices[0].after < 0.7
    assert contents(folder) == before


def rotated_articles() -> Corpus:
    every = [article(name) for name in NAMES]
    stolen = [replace(own, id=other.id) for own, other in zip(every, [*every[1:], every[0]], strict=True)]
    return Corpus(Articles.of(stolen), Posts.of([]))


def test_four_honest_updates_of_four_are_accepted(folder: Path, tmp_path: Path) -> None:
    new = [Article(f"zebra lion giraffe keeper cage {number}. zoo elephant.", f"z{number}") for number in range(30)]
    for seed in range(4):
        shutil.copytree(folder, own := tmp_path / f"{folder.name}-{seed}")
        data = corpus(40, 100 + seed)
        data = replace(data, articles=Articles.of([*(article(name) for name in NAMES), *new])) if seed % 2 else data
        found = refresh(own, data)
        assert found.accepted, found.verdict


def test_an_edited_article_does_no_harm(folder: Path) -> None:
    every = [replace(article(name), body=f"{article(name).body} Corrected on Monday.") for name in NAMES]
    found = refresh(folder, Corpus(Articles.of(every), posts(40, 7)))
    assert found.accepted, found.verdict


@pytest.mark.parametrize("name", MODELS)
def test_kept_numbers_rank_as_the_texts_do(name: str, tmp_path: Path) -> None:
    if name not in FITTED:
        FITTED[name] = fitted(name)
    made = FITTED[name]
    made.save(tmp_path / "m")
    loaded = LinkPredictor.load(tmp_path / "m", device="cpu")
    assert loaded.remembered is not None and loaded.remembered.num == 60
    kept, model = loaded.remembered, loaded.model_name
    scores = LinkScores(loaded, 60, lambda chosen: encode_remembered(loaded, kept, chosen), model).whole()
    np.testing.assert_allclose(scores, made.scores(HELD.posts).whole(), atol=1e-6)
    expected = by_row(made.scores(HELD.posts).whole(), HELD.related)[:, 0]
    np.testing.assert_array_equal(reciprocal_ranks(loaded, kept, made.articles.ids), expected)
    every = b"".join(contents(tmp_path / "m").values()).decode("utf-8", "replace")
    assert not any(text in every for text in HELD.posts.texts), "no text stays"


def test_of_best_the_network_is_asked_alone_too(tmp_path: Path) -> None:
    name = "best with ast"
    (FITTED.get(name) or fitted(name)).save(tmp_path / "m")
    found = refresh(tmp_path / "m", corpus(300, 9, shift=1))
    assert [part.name for part in found.slices] == ["remembered", "network"]
    assert found.slices[0].change == 0.0 and found.slices[1].change < -0.05, "words alone still rank these posts"
    assert found.verdict.startswith("refused: MRR on the network slice changed by ")


def test_nothing_stays_where_nothing_shall(tmp_path: Path) -> None:
    made = fitted("tfidf", remembered=0)
    made.save(tmp_path / "m")
    loaded = LinkPredictor.load(tmp_path / "m", device="cpu")
    assert loaded.remembered is None and loaded.metadata.remembered == loaded.shared.remembered == 0
    found = refresh(tmp_path / "m", corpus(40, 3))
    assert [part.name for part in found.slices] == ["titles"] and found.accepted
    assert "held-out post" not in (tmp_path / "m" / "CARD.md").read_text()
    with pytest.raises(SettingError, match="remembered is -1; it must be 0 or more"):
        LinkPredictor("tfidf", settings={"remembered": -1})


def test_a_folder_that_keeps_no_posts_is_tested_on_titles(tmp_path: Path) -> None:
    fitted("tfidf", remembered=0).save(tmp_path / "m")
    assert [part.name for part in link_slices(*[LinkPredictor.load(tmp_path / "m", device="cpu")] * 2)] == ["titles"]


def test_no_more_posts_are_kept_than_told_and_none_without_a_word() -> None:
    made = fitted("tfidf", remembered=7)
    assert made.remembered is not None and made.remembered.num == 7
    assert np.unique(made.remembered.terms["words"][0]).tolist() == list(range(7)), "each has words"
    silent = Corpus(HELD.articles, Posts.of([Post("!?", f"q{number}", ("ferry",)) for number in range(5)]))
    assert remember(made, silent, 7) is None
    spoken = Posts.of([*silent.posts.records(), Post("ferry", "p", ("ferry", "storm"))])
    found = remember(made, replace(silent, posts=spoken), 7)
    assert found is not None and sorted(found.pairs.tolist()) == [[0, 0], [3, 0]]
