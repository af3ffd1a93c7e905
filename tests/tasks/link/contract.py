"""What every model of task ``link`` must keep; a model signs by a subclass of three lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from torch import nn

from ensue import Article, DataError, LinkAnswer, Post
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.tasks.link.predictor import LinkPredictor
from tests.tasks.contract import Contract
from tests.tasks.link.checks import NAMES, article, planted, post

NETWORK: Mapping[str, object] = {
    "dim": 16, "hidden": 16, "heads": 2, "filters": 16, "epochs": 12, "learning_rate": 0.02, "batch_size": 16,
    "loss": "contrastive",
}  # fmt: skip


def quoted(answer: LinkAnswer) -> object:
    """The sentence of each article that is shown."""
    return [choice.sentence for choice in answer.choices]


class LinkContract(Contract):
    """Inherit, name the model, and every promise is checked."""

    predictor_class = LinkPredictor
    most = 4
    evidence = staticmethod(quoted)
    learns: ClassVar[float] = 0.9

    @classmethod
    def fitted(cls, **options: object) -> LinkPredictor:
        made = LinkPredictor(cls.model, settings={**cls.options, **options}, seed=5, device="cpu")
        for _ in made.fit(planted(), planted(num=2, first=20)):
            pass
        return made

    @classmethod
    def whole(cls) -> LinkPredictor:
        return cls.fitted()

    @classmethod
    def few(cls) -> LinkPredictor:
        return cls.fitted(**cls.quick())

    def asked(self) -> list[Post]:
        return [post("storm", 2), Post("", "e"), Post("what? ferry"), Post("deck " * 300, "x"), post("bakery", 3)]

    def more(self) -> Corpus:
        return planted(("ferry", "storm"), 3, first=30)

    def bare(self, answer: LinkAnswer) -> LinkAnswer:
        return replace(answer, choices=tuple(replace(choice, sentence="") for choice in answer.choices))

    def test_learns_the_pattern(self, predictor: LinkPredictor) -> None:
        asked = [post(name, 11) for name in NAMES]
        answers = predictor.predict(asked, 1, evidence=False)
        right = [answer.choices[0].value == record.about[0] for answer, record in zip(answers, asked, strict=True)]
        assert np.mean(right) >= self.learns

    def test_scores_fall_and_probabilities_with_them(self, predictor: LinkPredictor) -> None:
        for answer in predictor.predict([post("ferry", 1), Post("ferry train storm"), Post("")], 5):
            scores = [choice.score for choice in answer.choices]
            sure = [choice.probability for choice in answer.choices]
            assert scores == sorted(scores, reverse=True) and len({own.value for own in answer.choices}) == 5
            assert all(own is not None and 0 <= own <= 1 for own in sure)
            assert sure == sorted(sure, key=lambda own: -(own or 0))

    def test_the_folder_holds_articles_and_no_post(self, predictor: LinkPredictor, tmp_path: Path) -> None:
        predictor.save(tmp_path / "model")
        names = {file.name for file in (tmp_path / "model").iterdir()} - {"optimizer.safetensors"}
        files = {"settings.json", "articles.parquet", "fitted.json", "baselines.safetensors", "CARD.md", "B2SUMS"}
        assert names == files | ({"model.safetensors"} if isinstance(predictor.model, nn.Module) else set())
        kept = pl.read_parquet(tmp_path / "model" / "articles.parquet")
        assert kept["titles"][0] == "News of the ferry" and len(kept) == 12
        words = LinkPredictor.load(tmp_path / "model").tokenizer.vocabulary.values
        assert ("with" in words) == (predictor.schedule is not None)  # a word of posts alone: of networks only

    def test_unknown_words_are_counted_and_give_finite_answers(self, predictor: LinkPredictor) -> None:
        odd, plain, script, empty, picture = predictor.predict(
            [Post("xyzzy plugh ferry"), Post("ferry"), Post("שלום ნახვამდის"), Post("", "none"), Post("🎈")]
        )
        assert (odd.in_vocabulary, odd.events, plain.in_vocabulary, plain.events) == (1, 3, 1, 1)
        assert (script.in_vocabulary, empty.in_vocabulary, empty.events, empty.id) == (0, 0, 0, "none")
        scores = [choice.score for answer in (odd, plain, script, empty, picture) for choice in answer.choices]
        assert np.isfinite(scores).all()

    def test_words_of_training_posts_are_in_vocabulary(self, predictor: LinkPredictor, tmp_path: Path) -> None:
        predictor.save(tmp_path / "model")
        for own in (predictor, LinkPredictor.load(tmp_path / "model")):
            (answer,) = own.predict([post("ferry", 1)], 1)
            # A network leaves rare words out, and a bag of words is trained on articles alone.
            assert answer.in_vocabulary == answer.events or own.schedule is not None or self.model == "bag"

    def test_sentences_are_of_the_article(self, predictor: LinkPredictor) -> None:
        (answer,) = predictor.predict([Post("harbour ferry crossing")], 1)
        if answer.choices[0].value == "ferry":
            assert answer.choices[0].sentence == "harbour ferry crossing captain tide."

    def test_explanations_are_deletions(self, predictor: LinkPredictor) -> None:
        (found,) = predictor.explain([Post("ferry zzz captain")])
        assert found.words == ("ferry", "zzz", "captain")
        best = found.answer.choices[0].value
        texts = ["ferry zzz captain", "zzz captain", "ferry captain", "ferry zzz"]
        scores = [
            {own.value: own.score for own in answer.choices}[best]
            for answer in predictor.predict([Post(text) for text in texts], len(NAMES), evidence=False)
        ]
        assert found.score_drops == pytest.approx([scores[0] - own for own in scores[1:]], abs=1e-5)

    def test_update_welcomes_new_articles(self, own: LinkPredictor) -> None:
        new = Article("zebra lion giraffe keeper cage. zoo elephant monkey feeding visitors.", "zoo", "The zoo opens")
        posts = [
            Post(f"zebra lion giraffe {word}", f"z{word}", ("zoo",)) for word in ("cage", "zoo", "monkey", "keeper")
        ]
        before = own.metadata.posts
        report = own.update(Corpus(Articles.of([article("ferry"), new]), Posts.of(posts)))
        assert report.stage == "update" and np.isfinite(report.loss)
        assert (own.metadata.articles, own.metadata.posts, own.metadata.updates) == (13, before + 4, 1)
        (answer,) = own.predict([Post("zebra giraffe elephant monkey")], 13)
        assert "zoo" in {choice.value for choice in answer.choices}
        assert "zoo" in own.linked

    def test_more_articles_leave_the_predictor_as_it_is(self, predictor: LinkPredictor) -> None:
        before = predictor.predict([post("ferry", 1)])
        made, places = predictor.joined(Articles.of([article("storm"), Article("zebra lion", "zoo")]))
        assert places == [NAMES.index("storm"), 12]
        assert len(made.article_index) == 13 and len(predictor.article_index) == 12
        assert made.scores(Posts.of([post("ferry", 1)])).whole().shape == (1, 13)
        assert predictor.predict([post("ferry", 1)]) == before

    def test_data_in_which_nothing_can_be_learned_is_refused(self, predictor: LinkPredictor) -> None:
        def message(call: Callable[[], object]) -> str:
            with pytest.raises(DataError) as error:
                call()
            return str(error.value)

        alone = Corpus(Articles.of([article("ferry")]), Posts.of([post("ferry", 1)]))
        assert message(lambda: list(LinkPredictor(self.model, settings=self.options).fit(alone))) == (
            "training data: there is one article, so there is nothing to rank; give at least two"
        )
        silent = Corpus(planted().articles, Posts.of([Post("ferry")]))
        assert message(lambda: list(LinkPredictor(self.model, settings=self.options).fit(silent))) == (
            "training data: no post is about an article; name their column with --columns about=…"
        )
        strange = Corpus(planted().articles, Posts.of([Post("ferry", "p", ("nine",))]))
        assert message(lambda: list(LinkPredictor(self.model, settings=self.options).fit(strange))) == (
            "training data: no post is about a given article; the first names 'nine', the first article is "
            "'ferry': name the columns of ids with --columns about=…,article_id=…"
        )
        known = Corpus(planted().articles, Posts.of([Post("ferry")]))
        assert message(lambda: predictor.update(known)) == (
            "new data: no article is new, and no post is about a known one; there is nothing to train on"
        )
        assert pl.Series(predictor.linked).n_unique() == 12
