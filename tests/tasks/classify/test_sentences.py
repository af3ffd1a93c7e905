"""Encoded sentences: a stand-in encoder hashes words, so that every vector can be told beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from ensue import ModelFolderError, SettingError, Text
from ensue.data.texts import Texts
from ensue.tasks.classify.dataset import select_words
from ensue.tasks.classify.passages import SentencePassages, written
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.text.encoder import Encoder
from ensue.text.tokens import Tokenizer
from ensue.vocabulary import Vocabulary
from tests.encoders import StandIn, hashed, install, missing
from tests.folders import resum
from tests.tasks.classify import test_contract
from tests.tasks.classify.contract import FILLERS, TRAINED, planted

CPU = torch.device("cpu")
SMALL = {**TRAINED, "encoder": "stand-in", "epochs": 2}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


def fitted(records: list[Text], model: str = "centrality", **options: Any) -> ClassifyPredictor:
    made = ClassifyPredictor(model, settings={**SMALL, **options}, seed=3, device="cpu")
    for _ in made.fit(Texts.of(records)):
        pass
    return made


def documents(num: int, seed: int) -> list[Text]:
    """Five sentences, one of which holds the planted word."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(num):
        parts = [[str(word) for word in random.choice(FILLERS, 3)] for _ in range(5)]
        label = int(random.integers(2))
        parts[random.integers(5)][1] = ("bad", "good")[label]
        found.append(Text((" ".join(" ".join(part).capitalize() + "." for part in parts),), ("no", "yes")[label]))
    return found


class TestEncoded(test_contract.TestCentrality):
    options = {**TRAINED, "encoder": "stand-in", "epochs": 10}  # noqa: RUF012

    def test_explanations_are_shares(self, predictor: ClassifyPredictor) -> None:
        """Passages are sentences, and nothing is weighed inside them."""
        (found,) = predictor.explain([Text(("W1 good? Who w2. !",))], 2)
        assert [part.words for part in found.passages] == [("w1", "good", "?"), ("who", "w2", "."), ("!",)]
        for part in found.passages:
            assert part.weights == pytest.approx([1 / len(part.words)] * len(part.words)) and part.graph == ()
        assert sum(part.weight for part in found.passages) == pytest.approx(1, abs=1e-5)
        assert [len(row) for row in found.graph] == [3] * 3
        for column in zip(*found.graph, strict=True):
            assert sum(column) == pytest.approx(1, abs=1e-5)

    def test_the_deletion_test_is_the_answer_without_the_words(self, predictor: ClassifyPredictor) -> None:
        """What is taken out are sentences."""
        parts = ["w1 good w2.", "w3 w4?", "Who is w5?", "w6.", "w7 w1 bad!", "w2 w3."]

        def share(kept: list[str], label: str) -> float:
            (answer,) = predictor.predict([Text((" ".join(kept),))], evidence=False)
            return {choice.value: choice.score for choice in answer.choices}[label]

        (answer,) = predictor.predict([Text((" ".join(parts),))])
        read = [part.lower().replace(".", " .").replace("?", " ?").replace("!", " !") for part in parts]
        first = np.cumsum([0, *(len(part.split()) for part in read)]).tolist()
        best, gone = answer.choices[0], set[int]()
        for choice in answer.choices:
            for attribution in choice.attributions:
                place = read.index(attribution.value)
                assert attribution.position == first[place]
                rest = [part for other, part in enumerate(parts) if other != place]
                assert attribution.score_drop == pytest.approx(choice.score - share(rest, choice.value), abs=1e-5)
                gone.add(place)
        assert answer.deletion is not None and len(gone) == 3
        assert answer.deletion.words == sum(len(read[place].split()) for place in gone)
        rest = [part for place, part in enumerate(parts) if place not in gone]
        assert answer.deletion.score_drop == pytest.approx(best.score - share(rest, best.value), abs=1e-5)
        assert np.isfinite(answer.deletion.random)


def test_words_are_written_as_running_text() -> None:
    words = ["it", "'s", "n't", "(", "a", ")", "film", ",", "is", "N'T", "it", "?", "i", "'ll", "'semi", "w.", "d", "!"]
    assert written(pl.Series(words), np.array([9, 3, 4, 2])).to_list() == [
        "it'sn't ( a) film, is",
        "N'T it?",
        "i'll 'semi w.",
        "d!",
    ]


def test_the_encoder_is_asked_for_each_distinct_sentence_once() -> None:
    made = fitted([*documents(30, 0), *documents(30, 0)])
    made.predict(documents(10, 0))
    asked = [text for texts in StandIn.asked for text in texts]
    assert len(asked) == len(set(asked)) > 100
    assert asked[1].endswith(".") and " ." not in asked[1]
    assert StandIn.made == [
        {
            "name": "stand-in",
            "device": "cpu",
            "trust_remote_code": False,
            "local_files_only": True,
            "model_kwargs": {"use_safetensors": True},
            "offline": "1",
        }
    ]


def test_scores_are_those_of_the_vectors_read_one_text_at_a_time() -> None:
    made = fitted(documents(40, 0))
    texts = ["W1 good. W2.", "unheard of. W1 good. unheard of.", *(record.texts[0] for record in documents(4, 1))]
    records = [Text((text,)) for text in texts]
    network: Any = made.module.eval()
    expected = []
    for record in records:
        parts = [hashed(part.strip().lower() + ".") for part in record.texts[0].split(".")[:-1]]
        with torch.no_grad():
            read = network.sentences.lstm(torch.from_numpy(np.stack(parts))[None], torch.ones(1, len(parts)).bool())
            pooled = network.sentences.pool(read, torch.ones(1, len(parts)).bool()).vector
            expected.append(network.output(network.hidden(pooled).tanh()))
    found = made.raw_scores(made.encode(Texts.of(records)))
    np.testing.assert_allclose(found, torch.cat(expected).numpy(), rtol=1e-4, atol=1e-5)


def test_a_document_is_explained_sentence_by_sentence() -> None:
    made = fitted(documents(120, 0), hidden=16, epochs=8, architecture="hierarchical")
    asked = documents(40, 1)
    answers = made.predict(asked, 1)
    right = [answer.choices[0].value == record.label for answer, record in zip(answers, asked, strict=True)]
    assert np.mean(right) >= 0.9
    (found,) = made.explain([Text(("One two. Three. W1 w2 good.",))])
    assert [part.words for part in found.passages] == [("one", "two", "."), ("three", "."), ("w1", "w2", "good", ".")]
    assert [part.graph for part in found.passages] == [(), (), ()]
    for part in found.passages:
        assert part.weights == pytest.approx([1 / len(part.words)] * len(part.words))
    assert sum(part.weight for part in found.passages) == pytest.approx(1, abs=1e-5)
    for column in zip(*found.graph, strict=True):
        assert len(column) == 3 and sum(column) == pytest.approx(1, abs=1e-5)
    heaviest = max(found.passages, key=lambda part: part.weight)
    (attribution,) = found.answer.choices[0].attributions
    assert attribution.value == " ".join(heaviest.words) and attribution.weight == pytest.approx(heaviest.weight)
    assert found.answer.deletion is not None and found.answer.deletion.words == len(heaviest.words)


def test_padding_is_invisible() -> None:
    made = fitted(documents(40, 0))
    short, long = Text(("W1 good.",)), Text((documents(1, 5)[0].texts[0] * 3,))
    together = made.predict([short, long, Text(("",))])
    for record, beside in zip([short, long, Text(("",))], together, strict=True):
        (alone,) = made.predict([record])
        for mine, theirs in zip(alone.choices, beside.choices, strict=True):
            assert mine.value == theirs.value and mine.score == pytest.approx(theirs.score, abs=1e-6)


def test_an_unknown_word_reaches_the_encoder() -> None:
    made = fitted(planted(40, 0))
    one, other = made.predict([Text(("w1 unheard",)), Text(("w1 unseen",))], evidence=False)
    assert (one.in_vocabulary, one.events) == (other.in_vocabulary, other.events) == (1, 2)
    assert StandIn.asked[-1] == ["w1 unheard", "w1 unseen"]
    assert one.choices[0].score != other.choices[0].score


def test_pairs_are_encoded_side_by_side() -> None:
    records = [
        Text((one, other), "same" if one == other else "other")
        for one in ("W1. W2.", "W3.", "W4 w5.")
        for other in ("W1. W2.", "W3.", "W4 w5.")
        for _ in range(6)
    ]
    made = fitted(records, epochs=12)
    answers = made.predict(records[::6], 1)
    right = [answer.choices[0].value == record.label for answer, record in zip(answers, records[::6], strict=True)]
    assert all(right)
    (found,) = made.explain([records[0]])
    assert [(part.side, part.words) for part in found.passages] == [
        (side, (word, ".")) for side in (0, 1) for word in ("w1", "w2")
    ]


def test_a_long_sentence_is_cut_and_read_whole() -> None:
    words = [f"w{place}" for place in range(150)]
    (side,) = (Tokenizer(Vocabulary(words)).encode(pl.Series([" ".join(words), ""]), sentences=True, keep_words=True),)
    passages = SentencePassages((side,), None, Encoder("stand-in", CPU))
    (texts,) = StandIn.asked
    assert " ".join(texts) == " ".join(words) and [len(text.split()) for text in texts] == [50, 50, 50]
    batch = passages.batch(np.array([1, 0]))
    assert batch.words == () and batch.vectors is not None and batch.num_texts == 2
    assert batch.vectors.tolist() == [hashed(text).tolist() for text in texts]


def test_words_stay_beside_their_ids() -> None:
    column = pl.Series(["A b. C d e. F.", "", "g h"])
    tokenizer = Tokenizer(Vocabulary(["a", "c", "g"]))
    cut = tokenizer.encode(column, sentences=True, max_words=2, max_sentences=2, keep_words=True)
    assert cut.words is not None and cut.words.to_list() == ["a", "b", "c", "d", "g", "h"]
    chosen = cut.select(np.array([2, 1, 0]))
    assert chosen.words is not None and chosen.words.to_list() == ["g", "h", "a", "b", "c", "d"]
    kept = select_words(chosen, np.array([True, False, True, True, False, True]))
    assert kept.words is not None and kept.words.to_list() == ["g", "a", "b", "d"]
    assert tokenizer.encode(column).words is None and tokenizer.encode(column).select([0]).words is None  # type: ignore[arg-type]


def test_best_gives_way_to_counting_and_then_needs_no_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fitted(planted(60, 0), "best", epochs=1, learning_rate=1e-6)
    assert {"network", "tfidf"} <= set(made.metadata.validation_accuracy)
    made.select_model("tfidf", made.architecture)
    made.model, made.optimizer = made.counting["tfidf"], None
    made.metadata.blend = None
    made.save(tmp_path / "model")
    missing(monkeypatch)
    loaded = ClassifyPredictor.load(tmp_path / "model", device="cpu")
    assert loaded.predict(planted(3, 1)) == made.predict(planted(3, 1))


def test_without_the_package_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fitted(planted(40, 0))
    made.save(tmp_path / "model")
    assert b"encoder" not in (tmp_path / "model" / "model.safetensors").read_bytes()
    missing(monkeypatch)
    line = "encoder 'stand-in' needs the extra: pip install 'ensue[encoder]'"
    loaded = ClassifyPredictor.load(tmp_path / "model", device="cpu")
    for act in (lambda: loaded.predict(planted(1, 0)), lambda: fitted(planted(40, 0))):
        with pytest.raises(SettingError) as error:
            act()
        assert str(error.value) == line


def test_another_encoder_under_the_same_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted(planted(40, 0)).save(tmp_path / "model")
    monkeypatch.setattr(StandIn, "shift", 0.5)
    with pytest.raises(SettingError) as error:
        ClassifyPredictor.load(tmp_path / "model", device="cpu").predict(planted(1, 0))
    assert str(error.value) == ("encoder 'stand-in' is not the one this model was trained with; restore it")


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(SettingError) as error:
        ClassifyPredictor("mean", settings={"encoder": " "})
    assert str(error.value) == "encoder is empty; name a sentence-transformers model, or leave it out"


def test_a_folder_without_the_probe_is_damaged(tmp_path: Path) -> None:
    fitted(planted(40, 0), epochs=1).save(tmp_path / "model")
    path = tmp_path / "model" / "settings.json"
    found = json.loads(path.read_text())
    del found["facts"]["encoder"]
    path.write_text(json.dumps(found))
    resum(path.parent)
    with pytest.raises(ModelFolderError, match=r"damaged \(facts\.encoder: is missing\)"):
        ClassifyPredictor.load(tmp_path / "model", device="cpu")
