"""Task ``classify`` as a person runs it: every verb, and one line for every mistake."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ensue import TextClassifier
from ensue.store import versions
from tests.cli.conftest import Ensue, Logs, Ran, listed, run
from tests.cli.test_cli import only_json
from tests.test_figures import fetches

SIZES = {"hidden": 8, "dim": 8, "head": 8, "score_dim": 6, "dropout": 0, "learning_rate": 0.02, "batch_size": 16}
SMALL = [*(f"--set={name}={value}" for name, value in {**SIZES, "epochs": 4}.items()), "--device=cpu"]
COMPARED = [option for option in SMALL if not option.startswith("--device")]
FILLERS = [f"w{place}" for place in range(12)]


class Files(NamedTuple):
    """Small files of texts, and folders of models that learned them."""

    train: Path
    test: Path
    pairs: Path
    model: Path
    paired: Path


def rows(num: int, seed: int) -> list[tuple[str, str]]:
    """Words at random, among which one tells the label."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(num):
        words, sign = list(random.choice(FILLERS, random.integers(2, 6))), ("bad", "good", "good")[random.integers(3)]
        words.insert(random.integers(0, len(words) + 1), sign)
        found.append(({"bad": "no", "good": "yes"}[sign], " ".join(words)))
    return found


def write(path: Path, found: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{label}\t{text}\n" for label, text in found))
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Tests read them and leave them alone."""
    place = tmp_path_factory.mktemp("texts")
    train, test = write(place / "train.tsv", rows(100, 0)), write(place / "test.tsv", rows(40, 1))
    pairs = write(place / "pairs.tsv", [(label, f"{text}\tw1 w2 {text}") for label, text in rows(40, 2)])
    found = Files(train, test, pairs, place / "m", place / "paired")
    with pytest.MonkeyPatch.context() as patch:
        for data, folder, *options in (
            (train, found.model, *SMALL, "--model=blend"),
            (pairs, found.paired, "--model=tfidf"),
        ):
            ran = run(patch, "fit", "classify", data, "-o", folder, *options)
            assert ran.code == 0, ran.err
    return found


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.evaluation.bootstrap.RESAMPLES", 50)


def check_refused(ran: Ran, message: str, *, before: int = 0) -> None:
    """Exit code 2, nothing on stdout, one line after ``before`` remarks."""
    assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1 + before), ran.err
    assert ran.lines[-1] == f"ensue: {message}"


# --- check -----------------------------------------------------------------------------------------------------------


def test_check_knows_texts_by_their_shape(ensue: Ensue, files: Files) -> None:
    ran = ensue("check", files.train, "--compare-to", files.test)
    assert ran.code == 0, ran.err
    assert ran.lines == [f"{path}: labelled lines (text=text, label=label)" for path in (files.train, files.test)]
    labels = [label for label, _ in rows(100, 0)]
    counts = f"yes {labels.count('yes')}, no {labels.count('no')}"
    assert ran.cells[:2] == [("texts", "100", ""), ("labels", "2", counts)]
    told = (line.removeprefix("warning: the word ") for line in ran.out.splitlines()[-2:])
    assert sorted(line.partition(" is in ")[0] for line in told) == ["'bad'", "'good'"], "they hold their label"


def test_check_reports_duplicates_across_splits(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    (_, text), *_ = rows(100, 0)
    test = write(tmp_path / "test.tsv", [("maybe", text.upper()), ("yes", "something new")])
    found = only_json(ensue("check", files.train, "--compare-to", test, "--json").out)
    assert list(found) == [
        *("understood", "texts", "paired", "labels", "mean_words", "median_words", "longest_words", "mean_sentences"),
        *("longest_sentences", "silent", "rows", "splits", "warnings"),
    ]
    assert found["splits"][str(test)]["shared"] == found["splits"][str(test)]["shared_disagree"] == 1
    assert found["warnings"][2:] == [
        f"1 of 2 (50.0 %) texts of {test} is here too, such as {text!r}",
        f"1 of 2 (50.0 %) texts of {test} is here with another label",
        f"1 of 2 (50.0 %) texts of {test} has a label unseen here ('maybe')",
    ]


def test_check_still_knows_a_log(ensue: Ensue, logs: Logs) -> None:
    assert "sequences" in only_json(ensue("check", logs.train, "--json").out)


# --- fit, evaluate, compare ------------------------------------------------------------------------------------------


def test_fit_tells_how_right_and_how_sure_it_is(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    options = ("--model=mean", f"--validation={files.test}", "--seed=3", "--set=epochs=1", "--json")
    ran = ensue("fit", "classify", files.train, "-o", tmp_path / "m", *SMALL, *options)
    found = only_json(ran.out)
    assert (found["task"], found["model"], found["seed"], found["settings"]["hidden"]) == ("classify", "mean", 3, 8)
    assert found["facts"]["texts"] == 100 and "held_out" not in found["facts"]
    assert any(line.startswith("fit: 1 epoch in ") for line in ran.lines)
    right, off = found["facts"]["validation_accuracy"], found["facts"]["calibration_error"]
    (told,) = [line for line in ran.lines if line.startswith("validation accuracy: ")]
    assert f"mean {100 * right['mean']:.1f} % (ECE {100 * off['mean']:.1f} %)" in told and "tfidf" in told
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m" / "CARD.md").read_text().startswith("# mean for task classify\n")


def test_columns_are_stated_by_role(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("words,mood\n" + "".join(f"{text},{label}\n" for label, text in rows(60, 0)))
    ran = ensue("fit", "classify", path, "-o", tmp_path / "m", "--model=tfidf", "--columns=text=words,label=mood")
    assert ran.code == 0 and ran.lines[0] == f"{path}: csv (text=words, label=mood)"
    assert TextClassifier.load(tmp_path / "m").classes_.tolist() == ["no", "yes"]


def test_phrases_of_trees(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text("(3 (4 fine) (2 film))\n(1 (0 dull) (2 play))\n" * 3)
    ran = ensue("fit", "classify", path, "-o", tmp_path / "m", "--model=tfidf", "--phrases", "--validation", path)
    assert ran.code == 0, ran.err
    assert TextClassifier.load(tmp_path / "m").classes_.tolist() == ["0", "1", "2", "3", "4"]
    found = only_json(ensue("check", path, "--phrases", "--json").out)
    assert found["texts"] == 6


def test_evaluate_as_json(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    folder = shutil.copytree(files.model, tmp_path / "m")
    found = only_json(ensue("evaluate", folder, files.test, "--json").out)
    assert [row["model"] for row in found["rows"]] == ["blend", "network", "tfidf", "majority"]
    row = found["rows"][0]
    assert list(row)[:5] == ["model", "accuracy", "macro_f1", "calibration_error", "log_loss"]
    assert set(row["labels"]) == {"no", "yes"}
    asked = rows(40, 1)
    answers = ensue("predict", folder, files.test, "--json", "--no-attributions").out.splitlines()
    given = [json.loads(line)["choices"][0]["value"] for line in answers]
    right = [answer == label for answer, (label, _) in zip(given, asked, strict=True)]
    assert row["accuracy"] == np.mean(right)
    assert f"| blend | {100 * np.mean(right):.2f} ± " in (folder / "CARD.md").read_text()


def test_evaluate_for_people_ends_in_the_verdict(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    ran = ensue("evaluate", shutil.copytree(files.model, tmp_path / "m"), files.test)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1].startswith("blend (best of 2 models) and ")
    assert "  leaked: " in ran.out and "  unknown: " in ran.out and "macro-F1" in ran.out


def test_a_label_never_seen_in_training_counts_as_wrong(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    test = write(tmp_path / "test.tsv", [("never", "good w1"), ("yes", "good w2")])
    folder = shutil.copytree(files.model, tmp_path / "m")
    found = only_json(ensue("evaluate", folder, test, "--json").out)
    assert found["rows"][0]["accuracy"] == 0.5
    assert "1 (50.0 %) have a label unseen in training and count as wrong" in found["protocol"]["labels"]
    assert found["rows"][0]["labels"]["never"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "texts": 1}


def test_compare_trains_each_model_with_each_seed(ensue: Ensue, files: Files) -> None:
    options = (f"--test={files.test}", "--models=mean, max", "--seeds=2", "--set=epochs=1", "--json")
    ran = ensue("compare", "classify", files.train, *COMPARED, *options)
    found = only_json(ran.out)
    assert [row["model"] for row in found["rows"]] == ["mean", "max", "tfidf", "majority"]
    assert [row.get("seeds") for row in found["rows"]] == [2, 2, 2, 2]
    told = [line for line in ran.lines if ", seed " in line]
    assert told == [f"{name}, seed {seed}" for name in ("mean", "max") for seed in (0, 1)]


# --- predict and explain ---------------------------------------------------------------------------------------------


def test_predict_takes_a_text_a_line_and_answers_empty_ones(ensue: Ensue, files: Files) -> None:
    ran = ensue("predict", files.model, "--json", stdin="\nw1 good w3\n\n{curly} bad\n")
    assert (ran.code, ran.err) == (0, "")
    answers = list(map(json.loads, ran.out.splitlines()))
    assert [answer["events"] for answer in answers] == [0, 3, 0, 4]
    assert list(answers[1]) == ["id", "choices", "in_vocabulary", "events", "deletion", "labels"]
    assert answers[0]["choices"] == answers[2]["choices"] == []
    assert answers[1]["choices"][0]["value"] == "yes" and answers[3]["choices"][0]["value"] == "no"
    shown = ensue("predict", files.model, stdin="\n").out
    assert shown == "no words, no answer\n"


def test_predict_takes_records_tables_and_plain_files_alike(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    texts = [text for _, text in rows(40, 1)]
    (tmp_path / "plain").write_text("\n".join(texts))
    (tmp_path / "csv").write_text("text\n" + "\n".join(texts))
    lines = "".join(json.dumps({"texts": [text], "label": "ignored"}) + "\n" for text in texts)
    (tmp_path / "jsonl").write_text(lines)
    told = [ensue("predict", files.model, tmp_path / name, "--json") for name in ("plain", "csv", "jsonl")]
    told += [ensue("predict", files.model, files.test, "--json"), ensue("predict", files.model, "--json", stdin=lines)]
    assert all(ran.out == told[0].out for ran in told[:4]) and told[0].out.count("\n") == 40
    every, unnamed = ([json.loads(line) for line in told[place].out.splitlines()] for place in (0, 4))
    assert [answer.pop("id") for answer in every] == [str(number) for number in range(1, 41)]
    assert every == [{name: value for name, value in answer.items() if name != "id"} for answer in unnamed]
    assert told[0].lines == [f"{tmp_path / 'plain'}: one text a line"]


def test_pairs_stand_between_tabs(ensue: Ensue, files: Files) -> None:
    ran = ensue("predict", files.paired, "-k1", "--json", stdin="good w1\tw2 good\n\n")
    one, nothing = map(json.loads, ran.out.splitlines())
    assert (one["choices"][0]["value"], one["events"], nothing["events"]) == ("yes", 4, 0)
    check_refused(
        ensue("predict", files.paired, "--json", stdin="good w1\n"),
        "stdin, line 1: 1 text, the model was trained on pairs; put a tab between two texts",
    )


def test_predict_for_people_tells_the_deletion_test(ensue: Ensue, files: Files) -> None:
    (answer,) = map(json.loads, ensue("predict", files.model, "--json", stdin="w1 good w3 w4\n").out.splitlines())
    shown, test = ensue("predict", files.model, stdin="w1 good w3 w4\n").out, answer["deletion"]
    assert "in vocabulary: 4 of 4 words\n" in shown
    assert shown.endswith(
        f"deletion test of yes: score drop {test['score_drop']:.3f} without the 2 words of highest weight, "
        f"{test['random']:.3f} without 2 words at random (5 draws)\n"
    )


def test_explain_shows_each_word_and_draws_a_page(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = ensue("explain", files.model, "-", "--html", page, stdin="w1 good w3\n")
    assert (ran.code, ran.lines) == (0, [f"wrote {page}"])
    assert ran.out.startswith("attention weights (not causes); ")
    (found,) = TextClassifier.load(files.model).explain(["w1 good w3"])
    (part,) = found.passages
    line = "  ".join(f"{word} {weight:.2f}" for word, weight in zip(part.words, part.weights, strict=True))
    assert f"the text: 1.00\n  {line}\n" in ran.out
    text = page.read_text(encoding="utf-8")
    assert fetches(text) == [] and text.count('class="plotly-graph-div"') == 2
    assert json.loads(ensue("explain", files.model, "-", "--json", stdin="w1 good w3\n").out) == json.loads(
        found.to_json()
    )


def test_a_page_of_a_pair_has_a_graph_a_side_and_one_without_words_has_none(
    ensue: Ensue, files: Files, tmp_path: Path
) -> None:
    for line, figures in (("good w1\tw2 good\n", 3), ("\n", 1)):
        ran = ensue("explain", files.paired, "-", "--html", tmp_path / "page.html", stdin=line)
        assert ran.code == 0, ran.err
        assert (tmp_path / "page.html").read_text(encoding="utf-8").count('class="plotly-graph-div"') == figures


# --- update ----------------------------------------------------------------------------------------------------------


def test_an_update_is_learned_and_can_be_taken_back(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    folder = shutil.copytree(files.model, tmp_path / "m")
    before = (folder / "model.safetensors").read_bytes()
    new = write(tmp_path / "new.tsv", [("no", "dreadful w1"), ("yes", "splendid w2")])
    ran = ensue("update", folder, new)
    assert ran.code == 0
    (row,) = [line.split() for line in ran.out.splitlines() if "remembered" in line]
    assert row[1:8:2] == ["remembered", "10", "accuracy", "100.00"]
    assert ran.out.endswith("accepted: version 2 is active\n")
    assert json.loads((folder / "settings.json").read_text())["facts"]["texts"] == 102
    assert only_json(ensue("predict", folder, "--json", stdin="splendid\n").out)["in_vocabulary"] == 1
    ran = ensue("update", folder, new, "--json", "--no-test")
    found = only_json(ran.out)
    assert (found["version"], found["slices"], versions.kept(folder)) == (3, [], [1, 2])
    assert ensue("update", folder, "--rollback", "1").code == 0
    assert (folder / "model.safetensors").read_bytes() == before


def test_poisoned_labels_are_refused(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    """400 texts whose labels are rotated are one line and change nothing; ``--no-test`` must be asked for."""
    folder = shutil.copytree(files.model, tmp_path / "m")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    new = write(tmp_path / "new.tsv", [({"yes": "no", "no": "yes"}[label], text) for label, text in rows(400, 5)])
    ran = ensue("update", folder, new)
    assert ran.code == 1 and "accepted" not in ran.out
    assert ran.lines[-1].startswith(f"{folder}: refused: accuracy on the remembered slice changed by -")
    assert ran.lines[-1].endswith(" %, more than --max-drop 0.05 allows; version 1 stays active")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    ran = ensue("update", folder, new, "--no-test")
    assert (ran.code, ran.out) == (0, "accepted: version 2 is active; it was not tested\n")


def test_poisoned_labels_of_a_model_that_remembers_no_texts_are_warned_of(
    ensue: Ensue, files: Files, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    ran = ensue("fit", "classify", files.train, "-o", folder, "--model", "tfidf", "--set", "remembered=0")
    assert ran.code == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    new = write(tmp_path / "new.tsv", [({"yes": "no", "no": "yes"}[label], text) for label, text in rows(400, 5)])
    ran = ensue("update", folder, new, "--keep-versions", "0")
    assert ran.code == 0
    assert ran.lines[-1] == (
        "warning: the update was not tested: the model stores no earlier examples and may have become worse on "
        f"them; `ensue update {folder} --rollback` restores version 1"
    )
    assert ensue("update", folder, "--rollback").code == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_bad_update_changes_nothing(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    folder = shutil.copytree(files.model, tmp_path / "m")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    new = write(tmp_path / "new.tsv", [("yes", "w2"), ("maybe", "w1")])
    check_refused(
        ensue("update", folder, new),
        "new data: the label 'maybe' is not a label of the model (no, yes); fit again on all data",
        before=1,
    )
    check_refused(
        ensue("update", folder, files.pairs),
        f"{files.pairs}: holds pairs, but the model was trained on single texts; give single texts",
        before=1,
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# --- bad input -------------------------------------------------------------------------------------------------------

DATA: dict[str, tuple[str, str]] = {
    "one class only": (
        "yes\tw1\nyes\tw2\n",
        "{}: every text has the label 'yes'; give texts of at least two labels",
    ),
    "no label column": (
        "text\ngood\nbad\n",
        "{}: the texts have no labels; name their column with --columns label=…",
    ),
    "too many columns": (
        "text,label\ngood,yes\nbad,no,perhaps\n",
        "{}, line 3: 3 fields, but the header has 2; is a quote missing?",
    ),
    "too few fields": ("yes\tw1\nno\n", "{}, line 2: 1 field, but the file begins with 2: label TAB text"),
    "an unknown header": (
        "colour,size\nred,1\n",
        "{}: no column is recognised as the text; the columns are 'colour', 'size'; name them with --columns "
        "text=…,label=…",
    ),
}


def test_a_partly_coded_sheet_is_learned_by_what_is_coded(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    coded = [line.split("\t", 1) for line in files.train.read_text().splitlines()]
    rows = [f"{label if number % 3 else ' '}\t{text}\n" for number, (label, text) in enumerate(coded)]
    path = tmp_path / "sheet"
    path.write_text("".join(rows))
    empty = -(-len(rows) // 3)
    note = f"  note: {empty:,} of {len(rows):,} rows have no label: left out"
    for command in (
        ["check", path],
        ["fit", "classify", path, "-o", tmp_path / "m", *SMALL],
        ["evaluate", files.model, path],
    ):
        ran = ensue(*command)
        assert ran.code == 0, ran.err
        assert note in ran.lines
    found = json.loads(ensue("check", path, "--json").out)
    assert found["texts"] == len(rows) - empty


@pytest.mark.parametrize("name", DATA)
def test_a_bad_file_of_texts(ensue: Ensue, tmp_path: Path, name: str) -> None:
    content, message = DATA[name]
    path = tmp_path / "data"
    path.write_text(content)
    ran = ensue("fit", "classify", path, "-o", tmp_path / "m", *SMALL)
    read = name in ("one class only", "no label column")
    check_refused(ran, message.format(path), before=int(read))
    assert [entry.name for entry in tmp_path.iterdir()] == ["data"]


def test_texts_that_cannot_be_scored(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("text\ngood\nbad\n")
    message = f"{tmp_path / 'data'}: the texts have no labels; name their column with --columns label=…"
    check_refused(ensue("evaluate", files.model, tmp_path / "data"), message, before=1)
    ran = ensue("compare", "classify", files.train, f"--test={tmp_path / 'data'}", *COMPARED)
    check_refused(ran, message, before=2)


@pytest.mark.parametrize("verb", ["predict", "explain", "evaluate"])
def test_pairs_for_a_model_of_single_texts_and_the_reverse(ensue: Ensue, files: Files, verb: str) -> None:
    for folder, data, kinds in (
        (files.model, files.pairs, ("pairs", "single texts")),
        (files.paired, files.test, ("single texts", "pairs")),
    ):
        message = f"{data}: holds {kinds[0]}, but the model was trained on {kinds[1]}; give {kinds[1]}"
        check_refused(ensue(verb, folder, data), message, before=1)


def test_a_pair_on_a_pipe(ensue: Ensue, files: Files) -> None:
    ran = ensue("predict", files.model, "--json", stdin='{"texts": ["a"]}\n{"texts": ["a", "b"]}\n')
    check_refused(ran, "stdin, line 2: 2 texts, but the model was trained on single texts")
    ran = ensue("predict", files.model, "--json", stdin='{"texts": ["a"]}\nplain\n')
    assert ran.lines[0].startswith("ensue: stdin, line 2: not JSON (") and ran.code == 2
    ran = ensue("predict", files.model, "--json", stdin=b"good\n\xff\n")
    assert ran.lines[0].startswith("ensue: -: not UTF-8 (") and ran.code == 2


def test_a_megabyte_of_text_is_read_whole(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    text = f"w1 bad {'x' * 40} " * 2**15  # 1.6 MB in one field
    (tmp_path / "long.csv").write_text(f"text,label\n{text},no\n")
    ran = ensue("predict", files.model, tmp_path / "long.csv", "--json", "--no-attributions")
    found = only_json(ran.out)
    assert (found["events"], found["in_vocabulary"]) == (3 * 2**15, 2**16)
    assert only_json(ensue("check", tmp_path / "long.csv", "--json").out)["longest_words"] == 3 * 2**15


def test_vectors_of_another_width(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} 0.1 0.2 0.3\n" for word in ("good", "bad", "w1")))
    options = [option for option in SMALL if option != "--set=dim=8"]
    ran = ensue(
        "fit", "classify", files.train, "-o", tmp_path / "m", *options, f"--set=vectors={vectors}", "--set=dim=8"
    )
    message = f"dim is 8, but the vectors of {vectors} have 3 numbers; remove dim"
    check_refused(ran, message, before=2)
    ran = ensue("fit", "classify", files.train, "-o", tmp_path / "m", *options, f"--set=vectors={vectors}")
    assert ran.code == 0, ran.err
    scored = only_json(ensue("evaluate", tmp_path / "m", files.test, "--json").out)["rows"]
    assert {row["model"] for row in scored} >= {"tfidf", "vectors", "majority"}


MODELS = ", ".join(model["name"] for model in listed("classify"))
FOREIGN: dict[str, tuple[list[str], str]] = {
    "gap": (
        ["fit", "classify", "TRAIN", "-o", "NEW", "--session-gap=3"],
        "--session-gap means nothing to task classify; leave it out",
    ),
    "time unit": (["predict", "MODEL", "--time-unit=s"], "--time-unit means nothing to task classify; leave it out"),
    "sort": (["check", "TRAIN", "--sort"], "--sort means nothing to task classify; leave it out"),
    "protocol, though it is the default": (
        ["evaluate", "MODEL", "TEST", "--protocol=full"],
        "--protocol means nothing to task classify; leave it out",
    ),
    "at": (
        ["compare", "classify", "TRAIN", "--test=TEST", "--cutoffs=10"],
        "--cutoffs means nothing to task classify; leave it out",
    ),
    "phrases of a log": (
        ["fit", "next", "LOG", "-o", "NEW", "--phrases"],
        "--phrases means nothing to task next; leave it out",
    ),
    "a stream": (["stream", "MODEL", "LOG"], "MODEL: is of task classify; only task next can be trained on a stream"),
    "model": (
        ["fit", "classify", "TRAIN", "-o", "NEW", "--model=hidan"],
        f"model 'hidan' is not known for task classify; choose from best, {MODELS}",
    ),
    "task": (
        ["fit", "label", "TRAIN", "-o", "NEW"],
        "task 'label' is not known; choose from next, classify, suggest, link",
    ),
    "columns on a pipe": (
        ["predict", "MODEL", "-", "--columns=text=x"],
        "--columns and --phrases are for files; on stdin give a text a line, or JSON Lines",
    ),
    "phrases of no trees": (
        ["check", "TRAIN", "--phrases"],
        "TRAIN: only trees have labelled phrases; leave phrases out",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_an_option_without_meaning(ensue: Ensue, files: Files, logs: Logs, tmp_path: Path, name: str) -> None:
    arguments, message = FOREIGN[name]
    places = {
        "TRAIN": str(files.train),
        "TEST": str(files.test),
        "MODEL": str(files.model),
        "LOG": str(logs.train),
        "NEW": str(tmp_path / "new"),
    }
    for place, path in places.items():
        message = message.replace(place, path)
    ran = ensue(*(places.get(argument, argument.replace("=TEST", f"={files.test}")) for argument in arguments))
    check_refused(ran, message)
    assert list(tmp_path.iterdir()) == []


def test_a_metric_to_choose_by_is_kept_and_names_the_verdict(ensue: Ensue, files: Files, tmp_path: Path) -> None:
    fitted = ensue("fit", "classify", files.train, "-o", tmp_path / "m", "--metric=macro-f1", *SMALL)
    assert fitted.code == 0, fitted.err
    assert json.loads((tmp_path / "m" / "settings.json").read_text())["settings"]["metric"] == "macro-f1"
    found = json.loads(ensue("evaluate", tmp_path / "m", files.test, "--json").out)
    assert [duel["measure"] for duel in found["paired_tests"]] == ["macro_f1", "accuracy"]
    check_refused(
        ensue("fit", "classify", files.train, "-o", tmp_path / "n", "--metric=f2"),
        "metric is 'f2'; choose from accuracy, macro-f1",
    )
    check_refused(
        ensue("fit", "next", files.train, "-o", tmp_path / "n", "--metric=macro-f1"),
        "--metric means nothing to task next; leave it out",
    )
