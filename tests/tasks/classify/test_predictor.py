"""What a predictor does with documents, pairs and vectors, and with data it cannot learn from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from ensue import DataError, ModelFolderError, SettingError, Text
from ensue.data.texts import Texts
from ensue.tasks.classify.baselines.tfidf import Tfidf
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.classify.settings import TextSettings
from ensue.text.vectors import fit_tokenizer
from tests.folders import resum
from tests.tasks.classify.contract import TRAINED, planted

SMALL = {**TRAINED, "epochs": 2}


def fitted(records: list[Text], model: str = "centrality", valid: list[Text] | None = None, **options: Any) -> Any:
    settings = options if model == "tfidf" else {**SMALL, **options}
    made = ClassifyPredictor(model, settings=settings, seed=3, device="cpu")
    for _ in made.fit(Texts.of(records), None if valid is None else Texts.of(valid)):
        pass
    return made


def pairs(num: int, seed: int) -> list[Text]:
    """The second text repeats a word of the first, or it does not."""
    random = np.random.default_rng(seed)
    found = []
    for place in range(num):
        words = random.permutation([f"w{i}" for i in range(8)]).tolist()
        second = words[1] if place % 2 else words[5]
        found.append(Text((" ".join(words[:3]), f"{second} x"), "same" if place % 2 else "other"))
    return found


def documents(num: int, seed: int) -> list[Text]:
    """Four sentences of seventeen words, one of which holds the planted word."""
    random = np.random.default_rng(seed)
    found = []
    for record in planted(num, seed):
        sentences = [" ".join(random.choice(["the", "a", "of", "it"], 17)) + "." for _ in range(4)]
        sentences[int(random.integers(4))] += f" {record.texts[0]}."
        found.append(Text((" ".join(sentences),), record.label))
    return found


def test_pairs_are_told_from_single_texts() -> None:
    made = fitted(pairs(60, 0))
    assert (made.architecture, made.metadata.paired) == ("pair", True)
    assert (made.settings.score_dim, made.schedule.smallest_batch, made.schedule.decay_steps) == (6, 16, 20_000)
    (found,) = made.explain([Text(("w1 w2 w3", "w1 x"))])
    assert [(passage.side, passage.words) for passage in found.passages] == [(0, ("w1", "w2", "w3")), (1, ("w1", "x"))]
    attributions = found.answer.choices[0].attributions
    words = ["w1", "w2", "w3", "w1", "x"]
    assert (
        all(words[attribution.position] == attribution.value for attribution in attributions)
        and sum(attribution.weight for attribution in attributions) <= 1
    )
    one, both = made.predict([Text(("w1 w2", ""))]), made.predict([Text(("w1 w2", "")), Text(("w1 w2 w3", "w1 x"))])
    assert one[0].choices[0].score == pytest.approx(both[0].choices[0].score, abs=1e-5)
    with pytest.raises(DataError) as error:
        made.predict([Text(("w1",))])
    assert str(error.value) == "text 0: is a single text, but the model was trained on pairs; give pairs"


def test_counting_reads_documents_too() -> None:
    record = Text(("One two three. Four five. Six w1 w2 good.",))
    cases: list[tuple[dict[str, Any], list[str]]] = [({}, ["good", "."]), ({"max_sentences": 2}, ["five", "."])]
    for settings, kept in cases:
        made = fitted(documents(40, 0), "tfidf", **settings)
        made.metadata.architecture = "hierarchical"  # as when ``best`` gives way to counting
        (found,) = made.explain([record])
        assert [*found.passages[-1].words[-2:]] == kept
        assert found.answer.choices[0].score == made.predict([record])[0].choices[0].score


def test_documents_are_read_sentence_by_sentence() -> None:
    made = fitted(documents(40, 0))
    assert made.architecture == "hierarchical"
    assert (made.schedule.learning_rate, made.schedule.decay_rate, made.schedule.smallest_batch) == (0.02, 1.0, 16)
    record = Text(("One two three. Four five. Six w1 w2 good.",))
    (found,) = made.explain([record])
    assert [len(passage.words) for passage in found.passages] == [4, 3, 5]
    assert sum(passage.weight for passage in found.passages) == pytest.approx(1, abs=1e-5)
    assert len(found.graph) == 3
    for column in zip(*found.graph, strict=True):
        assert sum(column) == pytest.approx(1, abs=1e-5)
    alone, beside = made.predict([record]), made.predict([record, *documents(5, 1), Text(("",))])
    assert alone[0].choices[0].score == pytest.approx(beside[0].choices[0].score, abs=1e-5)
    assert fitted(documents(40, 0), architecture="flat", epochs=1).architecture == "flat"


def test_the_default_schedule_is_that_of_table_2() -> None:
    flat = ClassifyPredictor("centrality", device="cpu")
    assert isinstance(flat.settings, TextSettings)
    assert (flat.settings.hidden, flat.settings.score_dim, flat.settings.dropout) == (300, 50, 0.6)
    rates = flat.schedule
    assert rates is not None
    assert (rates.learning_rate, rates.decay_rate, rates.decay_steps, rates.weight_decay) == (3e-4, 0.95, 500, 1e-6)
    assert (rates.batch_size, rates.smallest_batch) == (128, 16)
    assert [rates.batch(halvings) for halvings in range(5)] == [128, 64, 32, 16, 16]
    assert rates.rate(500, 10**6) == pytest.approx(3e-4 * 0.95) and rates.rate(1000, 1) == pytest.approx(3e-4 * 0.9025)


def test_a_run_that_was_cut_while_it_got_better_says_so() -> None:
    cut = "the validation metric was still improving after 2 epochs; consider more epochs"
    made = fitted(planted(150, 0), valid=planted(60, 1), learning_rate=0.005, decay=False)
    assert cut in made.metadata.notes
    assert cut not in fitted(planted(150, 0), valid=planted(60, 1), learning_rate=1e-9).metadata.notes


def test_the_batch_halves_when_validation_does_not_improve() -> None:
    random = np.random.default_rng(0)
    noise = [Text((f"w{random.integers(9)}",), str(random.integers(2))) for _ in range(64)]
    made = ClassifyPredictor("mean", settings={**SMALL, "epochs": 9, "smallest_batch": 4, "patience": 9}, device="cpu")
    steps, better, best = [], [], -1.0
    for report in made.fit(Texts.of(noise), Texts.of(noise[:5])):
        if report.valid is not None:
            steps.append(report.steps)
            better.append(report.valid > best)
            best = max(best, report.valid)
    expected = [max(16 >> better[:epoch].count(False), 4) for epoch in range(9)]
    assert steps == [64 // size for size in expected] and steps[-1] > steps[0]


def test_a_megabyte_in_one_field_is_read_whole() -> None:
    made = fitted(planted(40, 0), epochs=1, hidden=4)
    text = Text(("w1 w2 w3 w4 " * 90_000 + "good",))
    (answer,) = made.predict([text], evidence=False)
    assert len(text.texts[0]) > 1_000_000 and answer.in_vocabulary == answer.events == 360_001
    assert sum(choice.score for choice in answer.choices) == pytest.approx(1, abs=1e-6)


def test_caps_are_kept_and_announced() -> None:
    made = fitted([*planted(40, 0), Text(("w1 " * 30,), "yes")], valid=planted(5, 1), epochs=1, max_words=12)
    assert [note for note in made.metadata.notes if "length limits" in note] == [
        "the length limits removed 18 words from 1 training text"
    ]
    (found,) = made.explain([Text(("w1 " * 30 + "good",))])
    assert found.answer.events == 12 and found.passages[0].words == ("w1",) * 12


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("good 1 0 0\nbad 0 1 0\nsuperb 0.9 0.1 0\nBad 0 0 9\n")
    return path


def test_vectors_stay_or_are_tuned_and_reach_words_that_training_lacks(vectors: Path) -> None:
    options: dict[str, Any] = {**SMALL, "vectors": str(vectors), "dim": 3}
    for tuned in (False, True):
        made = fitted(planted(60, 0), **{**options, "tuned": tuned})
        words = made.tokenizer.vocabulary
        rows = made.network.table.weight.detach()[[words.id("good"), words.id("superb")]]
        assert torch.equal(rows[1], torch.tensor([0.9, 0.1, 0.0])) and made.metadata.known_vectors == 3
        assert torch.equal(rows[0], torch.tensor([1.0, 0.0, 0.0])) != tuned
        assert "Bad" not in words and {"tfidf", "vectors", "majority"} == set(made.counting)
    assert "superb" not in fitted(planted(60, 0), **{**options, "extra_words": 0}).tokenizer.vocabulary


@pytest.mark.parametrize("paired", [False, True])
def test_a_network_that_learns_nothing_is_the_mean_vector_row(vectors: Path, tmp_path: Path, paired: bool) -> None:
    def records(seed: int) -> list[Text]:
        found = planted(60, seed)
        return [Text((*one.texts, "good bad"), one.label) for one in found] if paired else found

    made = fitted(records(0), "mean", vectors=str(vectors), dim=3, learning_rate=1e-9, epochs=1)
    asked = Texts.of(records(2))
    network, sides = made.scores(asked), made.encode(asked)
    row = made.raw_scores(sides, "vectors") / made.metadata.temperature["vectors"]
    assert made.metadata.residual and np.allclose(made.raw_scores(sides), row, atol=1e-3)
    (found,) = made.explain([Text(("w1 good w2", "good bad")[: 1 + paired])])
    assert found.passages[0].weights == pytest.approx((0, 1, 0), abs=1e-2)  # as the row's, not the network's
    made.save(tmp_path / "m")
    assert (ClassifyPredictor.load(tmp_path / "m", device="cpu").scores(asked) == network).all()
    alone = fitted(records(0), "mean", vectors=str(vectors), dim=3, learning_rate=1e-9, epochs=1, residual=False)
    assert not alone.metadata.residual and np.ptp(alone.scores(asked)[:, 0]) < np.ptp(network[:, 0])


def test_a_network_that_knows_more_than_the_row_is_added_to_it(tmp_path: Path) -> None:
    path = tmp_path / "fillers.txt"  # no vector tells the label
    path.write_text("w1 1 0 0\nw2 0 1 0\n")
    made = fitted(planted(150, 0), "mean", planted(60, 1), vectors=str(path), dim=3, epochs=6)
    accuracy = made.metadata.validation_accuracy
    assert made.metadata.residual and not any("adds nothing" in note for note in made.metadata.notes)
    assert accuracy["mean"] > 0.9 > accuracy["vectors"]
    made.save(tmp_path / "m")
    asked = Texts.of(planted(30, 2))
    assert (ClassifyPredictor.load(tmp_path / "m", device="cpu").scores(asked) == made.scores(asked)).all()


def test_pairs_of_a_blend_are_aligned_where_that_is_set() -> None:
    made = fitted(pairs(60, 0), "blend", epochs=1, pooling="alignment")
    assert made.architecture == "pair" and made.network.aligned is not None


def test_words_of_npz_and_text_files_are_listed_alike(tmp_path: Path, vectors: Path) -> None:
    np.savez(tmp_path / "v.npz", vectors=np.zeros((3, 3)), words=np.array("good\nbad\nsuperb"))
    for path in (vectors, tmp_path / "v.npz"):
        made = fit_tokenizer([pl.Series(["bad x"])], lower=True, min_count=1, vectors=str(path), extra_words=9)
        assert list(made.vocabulary.values) == ["bad", "x", "good", "superb"]


def test_vectors_of_another_width_are_refused(vectors: Path) -> None:
    with pytest.raises(SettingError) as error:
        fitted(planted(20, 0), vectors=str(vectors), dim=5)
    assert str(error.value) == f"dim is 5, but the vectors of {vectors} have 3 numbers; remove dim"
    with pytest.raises(SettingError, match=r"vectors is 'none\.txt'; no such file"):
        fitted(planted(20, 0), vectors="none.txt")


A, B = Text(("good",), "yes"), Text(("bad",), "no")


@pytest.mark.parametrize(("data", "valid", "message"), [
    ([], None, "training data: there are no texts"),
    ([A, A], None, "training data: every text has the label 'yes'; give texts of at least two labels"),
    ([Text(("good",)), Text(("bad",))], None,
     "training data: the texts have no labels; name the column, such as label=COLUMN"),
    ([A, B], [], "validation data: there are no texts"),
    ([A, B], [Text(("good",))], "validation data: the texts have no labels; name the column, such as label=COLUMN"),
    ([A, B], [Text(("good", "bad"), "yes")],
     "validation data: these are pairs, but the training data holds single texts"),
])  # fmt: skip
@pytest.mark.parametrize("model", ["centrality", "tfidf"])
def test_data_that_teaches_nothing_is_refused(
    model: str, data: list[Text], valid: list[Text] | None, message: str
) -> None:
    with pytest.raises(DataError) as error:
        held = None if valid is None else Texts.of(valid)
        list(ClassifyPredictor(model, device="cpu").fit(Texts.of(data), held))
    assert str(error.value) == message


def test_a_label_that_only_validation_has_counts_as_wrong_and_is_noted() -> None:
    made = fitted(planted(40, 0), "tfidf", [*planted(9, 1), Text(("good",), "maybe")])
    assert made.metadata.notes == ["validation texts whose label is not in the training data (counted as wrong): 1"]
    assert made.metadata.validation_accuracy["tfidf"] <= 0.9


@pytest.mark.parametrize(("options", "message"), [
    ({"monitor": "loss"}, "monitor is 'loss'; task classify allows only 'accuracy'"),
    ({"refit": True}, "refit is True; task classify allows only False"),
    ({"replay": 5}, "replay is 5; task classify allows only 0"),
    ({"architecture": "pair"}, "architecture is 'pair', but the training data holds single texts; use auto"),
])  # fmt: skip
def test_settings_that_mean_nothing_here_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        fitted(planted(20, 0), **options)
    assert str(error.value) == message


def test_best_gives_way_to_counting_that_is_right_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = "ensue.tasks.classify.ensembles.blend.choose_weights"
    monkeypatch.setattr(alone, lambda scores, targets, prior=None: {name: float(name == "network") for name in scores})
    slow = fitted(planted(150, 0), "best", planted(60, 1), epochs=1, learning_rate=1e-6)
    assert slow.model_name == "tfidf" and slow.schedule is None and slow.optimizer is None
    found = slow.metadata.validation_accuracy
    assert found["tfidf"] > found["blend"] and slow.metadata.notes[-1].startswith(
        "tfidf alone is used: no combination beats it on the validation texts, with a log loss of 0."
    )
    records = planted(5, 2)
    assert (slow.scores(Texts.of(records)) == slow.scores(Texts.of(records), "tfidf")).all()
    monkeypatch.undo()
    monkeypatch.setattr(Tfidf, "scores", lambda self, sides: np.zeros((len(sides[0]), 2)))  # learns nothing
    quick = fitted(planted(150, 0), "best", planted(60, 1), epochs=8)
    assert quick.model_name == "blend" and quick.metadata.blend["network"] > 0


def test_labels_that_are_numbers_stand_by_size() -> None:
    assert fitted([Text((f"w{n}",), str(n)) for n in (10, 9, -1) for _ in range(4)], "tfidf").labels == [
        "-1",
        "9",
        "10",
    ]


def test_a_killed_run_goes_on_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ensue.training.loop import train

    assert train.__kwdefaults__ is not None
    monkeypatch.setitem(train.__kwdefaults__, "every_seconds", -1.0)
    for name, stop in (("whole", 10**6), ("killed", 7)):
        made = ClassifyPredictor("centrality", settings=SMALL, seed=3, device="cpu")
        for number, _ in enumerate(made.fit(Texts.of(planted(60, 0)), checkpoint=tmp_path / name)):
            if number == stop:
                break
        if name == "whole":
            made.save(tmp_path / "m")
    again = ClassifyPredictor("centrality", settings=SMALL, seed=3, device="cpu")
    for _ in again.fit(Texts.of(planted(60, 0)), checkpoint=tmp_path / "killed", resume=True):
        pass
    again.save(tmp_path / "n")
    for file in (tmp_path / "m").iterdir():
        assert (tmp_path / "n" / file.name).read_bytes() == file.read_bytes(), file.name


def test_what_was_trained_on_is_known_again() -> None:
    made = fitted([*planted(30, 0), Text(("Good  Grief",), "yes")], "tfidf", planted(9, 1))
    assert made.seen(Texts.of([Text((" good grief ",)), Text(("never seen",))])).tolist() == [True, False]


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    fitted(planted(20, 0), "tfidf").save(tmp_path / "m")
    file = tmp_path / "m" / "fitted.json"
    text = file.read_text()
    for change, message in [
        (('"num_labels": 2', '"num_labels": 1'), "tfidf.num_labels: Input should be greater than or equal to 2"),
        (('"num_labels": 2', '"num_labels": 3'), "tfidf: linear.weight is float64 of shape"),
        (('"majority": ', '"majorities": '), "majorities: is not known"),
    ]:
        file.write_text(text.replace(*change))
        resum(tmp_path / "m")
        with pytest.raises(ModelFolderError) as error:
            ClassifyPredictor.load(tmp_path / "m")
        assert str(error.value).startswith(f"{tmp_path / 'm'}: damaged ({message}")


@pytest.mark.parametrize(("options", "message"), [
    ({"decay_rate": 0.0}, "decay_rate is 0.0; it must be above 0 and at most 1"),
    ({"decay_steps": 0}, "decay_steps is 0; it must be at least 1"),
    ({"smallest_batch": 0}, "smallest_batch is 0; it must be at least 1"),
])  # fmt: skip
def test_schedules_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        ClassifyPredictor("centrality", settings=options)
    assert str(error.value) == message


def test_random_words_are_drawn_anew_from_the_text_alone() -> None:
    made = fitted(planted(150, 0), epochs=6)
    records = planted(20, 9)
    first, again = made.predict(records), made.predict(records[::-1])[::-1]
    pairs = [(one.deletion, two.deletion) for one, two in zip(first, again, strict=True)]
    assert all(one.random == pytest.approx(two.random, abs=1e-5) and one.draws == 5 for one, two in pairs)
    # Without the words it leans on most the planted model loses more than without as many others.
    assert np.mean([one.score_drop - one.random for one, _ in pairs]) > 0.05


def test_records_and_answers_are_json() -> None:
    made = fitted(planted(40, 0), epochs=1)
    (found,) = made.explain([Text(("w1 good",), id="x")], 1)
    read = json.loads(found.to_json())
    assert read["answer"] == json.loads(found.answer.to_json())
    assert read["passages"][0]["words"] == ["w1", "good"] and read["answer"]["id"] == "x"
    assert read["answer"]["deletion"].keys() == {"words", "score_drop", "random", "draws"}


def test_a_file_of_vectors_is_looked_for_first(tmp_path: Path) -> None:
    predictor = ClassifyPredictor(settings={"vectors": str(tmp_path / "none.txt")}, device="cpu")
    with pytest.raises(SettingError) as caught:  # before the texts, which would be refused too
        list(predictor.fit(Texts((pl.Series("text", [], dtype=pl.String),))))
    assert str(caught.value) == f"vectors is {str(tmp_path / 'none.txt')!r}; no such file"


def test_probabilities_that_are_no_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tfidf, "scores", lambda self, sides: np.full((len(sides[0]), 2), np.nan))
    with pytest.raises(
        SettingError, match=r"^the probabilities of tfidf are not finite numbers; fit it again with settings closer"
    ):
        fitted(planted(40, 0), "tfidf", strength=1.0)
