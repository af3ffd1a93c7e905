"""Every verb from end to end on small files; what they print for machines has an exact shape."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from sys import modules
from typing import Any

import polars as pl
import pytest

from ensue import History, NextEvent, __version__, cli
from ensue_studies.results import Study
from ensue_studies.runner import Request
from tests.cli.conftest import SMALL, Ensue, Logs, listed
from tests.demo.small_demo import shrink

CLOCK = "jsonl histories; time: seconds from 0 (the convention of this record type), 0 to 1"
MEASURES = ["mrr", "hit@5", "mrr@5", "ndcg@5", "hit@10", "mrr@10", "ndcg@10"]
CARD = [
    "name", "data", "targets", "unknown", "candidates", "repeats", "averaging", "published", "lists", "ties",
    "interval", "leaked", "significance",
]  # fmt: skip
OUTCOME = ["paired_tests", "best_baseline", "beats_baselines", "winner", "p_value"]
COUNTING = [model["name"] for model in listed("next") if model["counting"]]


def records_of(path: Path) -> list[History]:
    """The records of a file of JSON Lines."""
    return [History.from_json(line) for line in path.read_text(encoding="utf-8").splitlines()]


def only_json(text: str) -> Any:
    """The one JSON value that is all of stdout, in one line, without NaN."""
    assert text.endswith("\n")
    assert text.count("\n") == 1

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


# --- the program -----------------------------------------------------------------------------------------------------


def test_version(ensue: Ensue) -> None:
    assert ensue("--version") == (0, f"ensue {__version__}\n", "")


JOBS = {
    "Data": "check prepare split",
    "Models": "fit update forget export models settings",
    "Evaluation": "evaluate compare score tune reproduce",
    "Answers": "predict explain similar vectors link spreaders",
    "Sharing": "pack unpack push pull",
    "Services": "serve stream demo",
}


def test_help_lists_the_commands_by_job(ensue: Ensue) -> None:
    ran = ensue("--help")
    assert ran.code == 0
    sections = re.findall(r"^(\w+):\n((?:  .*\n)+)", ran.out, re.MULTILINE)
    listed = {title: " ".join(re.findall(r"^  ([a-z]+) ", rows, re.MULTILINE)) for title, rows in sections}
    assert listed.pop("Options") == ""
    assert listed == JOBS


@pytest.mark.parametrize("command", " ".join(JOBS.values()).split())
def test_help_fits_two_screens_of_80_columns(
    ensue: Ensue, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.argv", ["ensue", command, "--help"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    shown, error = capsys.readouterr()
    lines = shown.splitlines()
    assert (end.value.code, error) == (0, "")
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 80
    options = re.findall(r"^  (-.*?)(?:  |\n {10,})(.*)$", shown, re.MULTILINE)
    assert options
    for name, text in options:
        assert len(re.findall(r"[A-Za-z]{2,}", text)) >= 2, f"{name} is not explained"


# --- check -----------------------------------------------------------------------------------------------------------


def test_check_tells_what_was_understood(ensue: Ensue, logs: Logs) -> None:
    ran = ensue("check", logs.train, "--compare-to", logs.test)
    assert ran.code == 0
    assert ran.cells[:4] == [
        ("sessions", "48", ""),
        ("events", "303", ""),
        ("items", "15", ""),
        ("events per session", "mean 6.3, median 5.5, max 13", ""),
    ]
    assert "warning: every session starts at time 0: a global split by time is impossible" in ran.out
    assert [line.startswith(f"{path}: {CLOCK}") for path, line in zip((logs.train, logs.test), ran.lines, strict=True)]


def test_check_as_json(ensue: Ensue, logs: Logs) -> None:
    found = only_json(ensue("check", logs.train, "--json").out)
    assert list(found) == [
        "understood",
        "sequences",
        "events",
        "distinct",
        "mean_length",
        "median_length",
        "longest",
        "single",
        "repeat_share",
        "immediate_repeat_share",
        "rows",
        "warnings",
    ]
    histories = records_of(logs.train)
    assert found["understood"]["path"] == str(logs.train)
    assert f"{found['understood']['layout']}; time: {found['understood']['time']}".startswith(CLOCK)
    assert (found["sequences"], found["events"]) == (len(histories), sum(len(own.values) for own in histories))
    first = histories[0]
    assert found["rows"][0] == {"values": list(first.values[:6]), "times": list(first.times[:6]), "id": first.id}


def test_names_that_look_like_markup_or_emoji_come_out_as_they_are(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / ":fire:[bold].csv"
    path.write_text("session,item,time\n:heart:,:smile:,1\n:heart:,[red]x[/red],2\n")
    ran = ensue("check", path, "--json")
    assert only_json(ran.out)["rows"] == [{"values": [":smile:", "[red]x[/red]"], "times": [1.0, 2.0], "id": ":heart:"}]
    assert ran.err.startswith(f"{path}: csv (session=session, item=item, time=time); ")
    shown = ensue("check", path).out
    for text in (":heart:", ":smile:", "[red]x[/red]"):
        assert text in shown


# --- fit -------------------------------------------------------------------------------------------------------------


def test_fit_writes_the_folder_and_nothing_else(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    ran = ensue("fit", "next", logs.train, "-o", tmp_path / "m", "--validation", logs.valid, "--seed=4", *SMALL[1:])
    assert (ran.code, ran.out) == (0, "")
    assert ran.lines[0].startswith(f"{logs.train}: {CLOCK}")
    assert ran.lines[1].startswith(f"{logs.valid}: {CLOCK}")
    assert ran.lines[2] == "training blend (task next), seed 4"
    stopping = "early stopping by validation (MRR|loss)"
    plan = rf"fit cascade-blend: at most 2 epochs of \d+ steps, [\d,]+ parameters on cpu, {stopping}"
    assert re.fullmatch(plan, ran.lines[3])
    best = r"best validation (MRR|loss) \d\.\d{4}"
    epoch = r"epoch 1 of at most 2, \d+ s, at most \d+ s left"
    assert re.fullmatch(rf"fit cascade-blend: {epoch}, loss \d+\.\d{{4}}, {best}", ran.lines[4])
    more = "(; best epoch was the last one; consider more epochs)?"
    done = rf"fit (cascade-)?blend: 2 epochs in \d+ s, loss \d+\.\d{{4}}; kept epoch [12]: {best}{more}"
    fitted = [line for line in ran.lines if re.fullmatch(done, line)]
    assert len(fitted) in (1, 2)  # one that leads all counting is not tried against another
    assert ran.lines[-1] == f"saved {tmp_path / 'm'}"
    assert "" not in ran.lines
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert NextEvent.load(tmp_path / "m").seed == 4
    card = (tmp_path / "m" / "CARD.md").read_text()
    assert card.startswith(f"# {NextEvent.load(tmp_path / 'm').model} for task next\n")
    assert "None yet: run `ensue evaluate FOLDER TEST`." in card


def test_fit_as_json_tells_what_it_did(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    ran = ensue("fit", "next", logs.train, "-o", tmp_path / "m", "--json", "--set", "window=7", *SMALL)
    found = only_json(ran.out)
    assert list(found) == ["folder", "task", "model", "settings", "schedule", "seed", "facts"]
    assert (found["folder"], found["task"], found["model"], found["seed"]) == (str(tmp_path / "m"), "next", "hidan", 0)
    assert (found["settings"]["window"], found["settings"]["dim"], found["schedule"]["epochs"]) == (7, 8, 2)
    assert found["facts"]["sequences"] == 48
    assert ran.lines[0].startswith(f"{logs.train}: {CLOCK}")


def test_fit_twice_gives_the_same_weights(ensue: Ensue, logs: Logs, tmp_path: Path, model: Path) -> None:
    assert ensue("fit", "next", logs.train, "-o", tmp_path / "again", *SMALL).code == 0
    for name in ("model.safetensors", "baselines.safetensors", "optimizer.safetensors", "fitted.json"):
        assert (tmp_path / "again" / name).read_bytes() == (model / name).read_bytes()


@pytest.mark.parametrize("name", COUNTING)
def test_counting_models_are_fitted_too(ensue: Ensue, logs: Logs, tmp_path: Path, name: str) -> None:
    assert ensue("fit", "next", logs.train, "-o", tmp_path / "m", "--model", name).code == 0
    assert ensue("evaluate", tmp_path / "m", logs.test, "--json").code == 0
    assert ensue("predict", tmp_path / "m", logs.test, "--json").out.count("\n") == 6


def test_resume_without_a_checkpoint_starts_anew(ensue: Ensue, logs: Logs, tmp_path: Path, model: Path) -> None:
    ran = ensue("fit", "next", logs.train, "-o", tmp_path / "m", "--resume", *SMALL)
    assert ran.code == 0
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_fit_into_the_working_folder(ensue: Ensue, logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ran = ensue("fit", "next", logs.train, "-o", ".", *SMALL)
    assert (ran.code, ran.lines[-1]) == (0, "saved .")
    assert NextEvent.load(tmp_path / "here").model == "hidan"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]


# --- evaluate and compare --------------------------------------------------------------------------------------------


def check_result(found: Any, models: list[str], *, seeds: int = 1) -> None:
    """The exact shape, and that all figures are fractions inside their intervals."""
    assert list(found) == ["task", "protocol", "rows", *OUTCOME, "verdict"]
    assert found["task"] == "next"
    assert [name for name in found["protocol"] if name != "served"] == CARD
    assert all(isinstance(text, str) and text for text in found["protocol"].values())
    assert [row["model"] for row in found["rows"]] == models
    for row in found["rows"]:
        extra = [name for name in ("seeds", "by_seed", "spread") if name in row]
        extra += ["beyond_accuracy", "by_popularity", *(["at_chance_level"] if "at_chance_level" in row else [])]
        assert sorted(row) == sorted(["model", *MEASURES, "interval", "seconds_per_1000", *extra])
        assert row.get("seeds", 1) == (1 if row["model"] in COUNTING else seeds)
        assert list(row["interval"]) == MEASURES
        for name in MEASURES:
            low, high = row["interval"][name]
            assert 0 <= low <= row[name] <= high <= 1, (row["model"], name)
        assert row["mrr@5"] <= row["mrr@10"] <= row["mrr"]
        assert row["hit@5"] <= row["hit@10"]
    assert (
        found["best_baseline"]
        == max((row for row in found["rows"] if row["model"] in COUNTING), key=lambda row: float(row["mrr"]))["model"]
    )
    assert isinstance(found["beats_baselines"], bool)
    networks = [row for row in found["rows"] if row["model"] not in COUNTING]
    assert 0 < found["p_value"] <= 1 if networks else found["p_value"] is None


def test_evaluate_as_json(ensue: Ensue, logs: Logs, model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "m")
    ran = ensue("evaluate", folder, logs.test, "--cutoffs", "10,5", "--json")
    found = only_json(ran.out)
    check_result(found, ["hidan", *COUNTING])
    assert found["protocol"]["name"] == "full"
    assert found["protocol"]["data"] == "6 sessions, 45 events"
    assert found["protocol"]["candidates"] == "all 15 items"
    assert len(ran.lines) == 1
    # The figures are those of a literal loop over the answers.
    model_of_folder = NextEvent.load(folder)
    ranks = []
    for record in records_of(logs.test):
        for cut in range(1, len(record.values)):
            (answer,) = model_of_folder.predict([History(record.values[:cut], record.times[:cut])], 15)
            ranks.append([choice.value for choice in answer.choices].index(record.values[cut]) + 1)
    (row, *_) = found["rows"]
    assert row["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
    assert row["hit@5"] == pytest.approx(sum(rank <= 5 for rank in ranks) / len(ranks))
    # And they stand in the card, x 100.
    assert f"| hidan | {100 * row['mrr']:.2f} ± " in (folder / "CARD.md").read_text()


def test_evaluate_under_the_papers_protocol(ensue: Ensue, logs: Logs, model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "m")
    found = only_json(ensue("evaluate", folder, logs.test, "--protocol=paper", "--cutoffs=5,10", "--json").out)
    check_result(found, ["hidan", *COUNTING])
    assert found["protocol"]["name"] == "paper"
    assert found["protocol"]["averaging"].startswith("macro")
    assert found["protocol"]["served"].startswith("by default predict of hidan leaves out items already in the session")


def test_evaluate_for_people_says_yes_or_no(ensue: Ensue, logs: Logs, model: Path, tmp_path: Path) -> None:
    ran = ensue("evaluate", shutil.copytree(model, tmp_path / "m"), logs.test)
    verdict = ran.out.splitlines()[-1]
    assert re.match(r"(hidan|[a-z-]+ \(best of \d baselines\)) (and|is significantly better than) ", verdict), verdict
    assert re.search(r"CI .*, p (=|<) 1?\.\d{3}\); the best are chosen on this test data$", verdict), verdict
    assert re.search(r"^│ (blend|hidan) +│ +\d+\.\d\d", ran.out, re.MULTILINE)
    assert "  ties: count against the target\n" in ran.out


def test_a_folder_that_may_only_be_read_is_scored_all_the_same(
    ensue: Ensue, logs: Logs, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (model / "CARD.md").read_bytes()

    def forbid(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ensue.store.folder._flushed", forbid)
    assert ensue("evaluate", model, logs.test, "--json").code == 0
    assert (model / "CARD.md").read_bytes() == before


def test_compare_trains_each_model_with_each_seed(ensue: Ensue, logs: Logs) -> None:
    ran = ensue(
        "compare",
        *(
            "next",
            logs.train,
            "--test",
            logs.test,
            "--models",
            "hidan, hidan-nt",
            "--seeds=2",
            "--cutoffs=5,10",
            "--json",
        ),
        *SMALL[1:-1],
    )
    check_result(only_json(ran.out), ["hidan", "hidan-nt", *COUNTING], seeds=2)
    told = [line for line in ran.lines if ", seed " in line]
    assert told == [f"{name}, seed {seed}" for name in ("hidan", "hidan-nt") for seed in (0, 1)]


def test_compare_of_a_counting_model_does_not_list_it_twice(ensue: Ensue, logs: Logs) -> None:
    ran = ensue("compare", "next", logs.train, "--test", logs.test, "--models=markov", "--cutoffs=5,10", "--json")
    check_result(only_json(ran.out), ["markov", *(name for name in COUNTING if name != "markov")])


def test_a_result_is_written_as_tables_and_by_example(ensue: Ensue, logs: Logs, model: Path, tmp_path: Path) -> None:
    folder, at = shutil.copytree(model, tmp_path / "m"), "--cutoffs=5,10"
    for name in ("t.tex", "t.csv", "t.md", "t.json"):
        ran = ensue("evaluate", folder, logs.test, at, "-o", tmp_path / name)
        assert ran.code == 0 and ran.lines[-1] == f"wrote {tmp_path / name}"
    assert r"\toprule" in (tmp_path / "t.tex").read_text() and "Protocol full" in (tmp_path / "t.md").read_text()
    check_result(json.loads((tmp_path / "t.json").read_text()), ["hidan", *COUNTING])
    table = pl.read_csv(tmp_path / "t.csv")
    rows = tmp_path / "rows.parquet"
    ran = ensue("evaluate", folder, logs.test, at, "--per-example", rows, "--pairwise", "--json")
    found = only_json(ran.out)
    again = pl.read_parquet(rows).group_by("model").agg((1 / pl.col("rank")).fill_null(0).mean().alias("mrr"))
    both = table.join(again, on="model", validate="1:1")
    assert both["mrr"].to_list() == pytest.approx(both["mrr_right"].to_list())
    num = len(table)
    assert len(found["verdicts"]) == num * (num - 1) // 2
    first = found["verdicts"][0]
    assert [*first] == ["measure", "model", "other", "difference", "low", "high", "p_value", "corrected", "sure"]
    ran = ensue("evaluate", folder, logs.test, at, "--pairwise")
    sure = sum(pair["sure"] for pair in found["verdicts"])
    assert ran.out.endswith(
        f"{len(found['verdicts']) - sure} of {len(found['verdicts'])} pairs do not differ significantly\n"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-o", "t.pdf"), "ensue: -o t.pdf: the name must end in .csv, .md, .tex, .json"),
        (("--per-example", "t.tex"), "ensue: --per-example t.tex: the name must end in .csv, .tsv, .jsonl"),
        (("-o", "no/t.md"), "ensue: -o no/t.md: there is no folder no"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    ensue: Ensue, logs: Logs, model: Path, given: tuple[str, str], said: str
) -> None:
    ran = ensue("evaluate", model, logs.test, *given)
    assert ran.code == 2 and ran.err.startswith(said)
    assert not ran.out


# --- predict and explain ---------------------------------------------------------------------------------------------

KNOWN = '{"values": ["u001", "nobody", "u002"], "times": [0, 60, 7200], "id": "one"}\n'
STRANGE = '{"values": ["nobody", "else"]}\n'
HARDLY_KNOWN = "warning: the model knows the item of 0 of 2 events only: it knows items such as 'u"


def test_predict_from_a_pipe_welcomes_unknown_values(ensue: Ensue, model: Path) -> None:
    ran = ensue("predict", model, "-k3", "--json", stdin=KNOWN + "\n" + STRANGE + '{"values": []}\n')
    assert ran.code == 0 and ran.err.startswith(HARDLY_KNOWN) and len(ran.err.splitlines()) == 1
    one, strange, nothing = map(json.loads, ran.out.splitlines())
    assert list(one) == ["id", "choices", "in_vocabulary", "events"]
    assert (one["in_vocabulary"], one["events"], one["id"]) == (2, 3, "one")
    assert len(one["choices"]) == 3
    scores = [choice["score"] for choice in one["choices"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)
    assert not {"u001", "u002"} & {choice["value"] for choice in one["choices"]}
    attributions = one["choices"][0]["attributions"]
    assert [list(attribution) for attribution in attributions] == [["value", "position", "weight", "score_drop"]] * 2
    assert {(attribution["value"], attribution["position"]) for attribution in attributions} == {
        ("u001", 0),
        ("u002", 2),
    }
    assert sum(attribution["weight"] for attribution in attributions) == pytest.approx(1, abs=1e-5)
    assert (strange["in_vocabulary"], strange["events"]) == (0, 2)
    assert strange["choices"] == nothing["choices"]  # nothing known: popularity
    assert strange["choices"][0]["attributions"] == []


def test_predict_leaves_out_what_is_excluded_and_keeps_to_what_is_allowed(
    ensue: Ensue, model: Path, tmp_path: Path
) -> None:
    def values(*words: object) -> list[str]:
        ran = ensue("predict", model, "-", "-k", "50", "--json", *words, stdin=KNOWN)
        assert ran.code == 0, ran.err
        return [choice["value"] for choice in json.loads(ran.out)["choices"]]

    every, listed, empty = values(), tmp_path / "listed.txt", tmp_path / "empty.txt"
    listed.write_text(f"{every[0]}\n\n  {every[2]}  \nnobody knows this\n")
    empty.write_text("\n")
    assert sorted(values("--exclude", listed)) == sorted(set(every) - {every[0], every[2]})
    assert values("--allow", listed) == [every[0], every[2]]
    for words, line in (
        (["--allow", empty], "holds no items; write one per line"),
        (["--exclude", tmp_path / "none.txt"], "none.txt: no such file"),
        (["--exclude", listed, "--steps", "2"], "--steps ranks all items; remove"),
    ):
        ran = ensue("predict", model, "-", *words, stdin=KNOWN)
        assert (ran.code, ran.out) == (2, "")
        assert line in ran.err


def test_predict_for_people(ensue: Ensue, model: Path) -> None:
    ran = ensue("predict", model, "-", "-k", "2", stdin=KNOWN + STRANGE)
    assert ran.out.startswith("one\n")
    assert "in vocabulary: 2 of 3 events\n" in ran.out
    assert ran.out.endswith("in vocabulary: 0 of 2 events; items are ranked by popularity\n")
    assert re.search(r"│ 1 │ u\d{3} │ 0\.\d{3} │ u00[12] 0\.\d\d \(-?0\.\d{3}\)   u00[12] 0\.\d\d ", ran.out)


def test_predict_from_a_file_is_predict_from_a_pipe(ensue: Ensue, model: Path, logs: Logs) -> None:
    from_file = ensue("predict", model, logs.test, "--json")
    from_pipe = ensue("predict", model, "--json", stdin=logs.test.read_bytes())
    assert from_file.out == from_pipe.out
    assert from_file.out.count("\n") == 6
    assert len(from_file.lines) == 1
    assert from_pipe.err == ""


def test_predict_some_steps_ahead(ensue: Ensue, model: Path) -> None:
    ran = ensue("predict", model, "--steps", "3", "-k", "2", "--json", stdin=KNOWN)
    found = json.loads(ran.out)
    assert list(found) == ["id", "steps", "in_vocabulary", "events"] and len(found["steps"]) == 3
    path = [step["choices"][0]["value"] for step in found["steps"]]
    assert len(set(path)) == 3 and not {"u001", "u002"} & set(path)
    for step in found["steps"]:
        assert list(step) == ["choices", "stop", "after"] and 0 < step["stop"] < 1 and len(step["choices"]) == 2
        assert 0 <= step["after"][0] <= step["after"][1] <= step["after"][2]
    shown = ensue("predict", model, "-", "--steps", "2", stdin=KNOWN)
    assert shown.out.startswith("one\n") and "P(end)" in shown.out and path[0] in shown.out
    wrong = ensue("predict", model, "--steps", "0", stdin=KNOWN)
    assert (wrong.code, wrong.out) == (2, "") and "give at least 1" in wrong.err


def test_predict_of_nothing_is_nothing(ensue: Ensue, model: Path) -> None:
    assert ensue("predict", model, "--json", stdin="") == (0, "", "")
    assert ensue("predict", model, "-", "--json", stdin="\n\n") == (0, "", "")


def test_predict_without_evidence(ensue: Ensue, model: Path) -> None:
    with_, without = (
        json.loads(ensue("predict", model, "--json", *flags, stdin=KNOWN).out) for flags in ((), ("--no-attributions",))
    )
    assert [choice["value"] for choice in with_["choices"]] == [choice["value"] for choice in without["choices"]]
    assert all(choice["attributions"] == [] for choice in without["choices"])


def test_k_beyond_the_catalogue_gives_all_there_is(ensue: Ensue, model: Path) -> None:
    found = json.loads(ensue("predict", model, "-k", "1000", "--json", stdin=KNOWN).out)
    assert len(found["choices"]) == 13  # 15 values, of which the history holds two


def test_explain_as_json(ensue: Ensue, model: Path) -> None:
    ran = ensue("explain", model, "-", "--json", stdin=KNOWN + STRANGE)
    one, strange = map(json.loads, ran.out.splitlines())
    assert list(one) == ["values", "times", "dependency", "influence", "answer"]
    assert (one["values"], one["times"]) == (["u001", "u002"], [0.0, 7200.0])
    assert one["dependency"] == [[0.0, 0.0], [1.0, 0.0]]  # the second can only lean on the first
    assert sum(one["influence"]) == pytest.approx(1)
    assert len(one["answer"]["choices"]) == 3
    assert (strange["values"], strange["dependency"], strange["influence"]) == ([], [], [])


class Page(HTMLParser):
    """What a page fetches."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "data")]


def test_explain_draws_a_page_that_needs_nothing_else(ensue: Ensue, model: Path, tmp_path: Path) -> None:
    ran = ensue("explain", model, "-", "--html", tmp_path / "page.html", stdin=KNOWN + STRANGE)
    warning, wrote = ran.lines
    assert (ran.code, wrote) == (0, f"wrote {tmp_path / 'page.html'}") and warning.startswith(HARDLY_KNOWN)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.fetched == []
    assert "u002 attends to u001" in text
    assert "attention weights (not causes)" in ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_explain_holds_weights_against_the_true_edges(ensue: Ensue, model: Path, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("follower,followed\nu003,u002\n")
    known = '{"values": ["u001", "u002", "u003"], "times": [0, 7200, 9000]}\n'
    with_edges = ("explain", model, "-", "--edges", tmp_path / "edges.csv")
    ran = ensue(*with_edges, "--html", tmp_path / "page.html", stdin=known)
    assert "true edge" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(
        r"true edges: [01] of 1 event attended most .*; random earlier user 50.0 %, latest user 100.0 %", ran.err
    )
    (line,) = ensue(*with_edges, "--json", stdin=known).out.splitlines()
    found = json.loads(line)
    weights = found["dependency"][2]
    hit = int(weights[1] > weights[0])
    assert found["true_edges"] == {"steps": 1, "strongest": hit, "chance": 0.5, "latest": 1, "edges": [[1, 2]]}


def test_one_verb_reads_what_another_wrote(ensue: Ensue, logs: Logs, model: Path) -> None:
    """A file's line, a pipe's line: the same JSON."""
    line = logs.test.read_text().splitlines()[0]
    (record, *_) = records_of(logs.test)
    assert json.loads(line)["values"] == list(record.values)
    found = json.loads(ensue("predict", model, "-k1", "--json", stdin=line).out)
    assert found["id"] == record.id
    assert found == json.loads(NextEvent.load(model).predict([record], 1, explain=True)[0].to_json())


# --- demo and reproduce ----------------------------------------------------------------------------------------------


def test_demo_tells_the_truth_beside_the_weights(ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    ran = ensue("demo", "--json", "--no-serve", "--output", tmp_path / "demo", "--html", tmp_path / "page.html")
    found = only_json(ran.out)
    assert list(found)[-2:] == ["explanation", "recovery"]
    assert all(0 <= rates["strongest"] <= rates["steps"] for rates in found["recovery"].values())
    assert "true edge" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["logs", "models", "story.json"]


def test_demo_says_what_its_page_lacks_before_it_trains(
    ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ensue.cli.demo.find_spec", lambda name: None if name == "uvicorn" else object())
    ran = ensue("demo", "--serve", "--output", tmp_path / "demo")
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines == [
        "ensue: the page needs uvicorn; install it with: pip install 'ensue[serve]', or train without it: "
        "ensue demo --no-serve"
    ]
    assert not (tmp_path / "demo").exists()


def test_reproduce_refuses_what_it_does_not_know(ensue: Ensue, tmp_path: Path) -> None:
    ran = ensue("reproduce", "nonsense", "--data", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines == [
        "ensue: paper 'nonsense' is not known; choose from ast, centrality, hidan, mtn, sansr, anywhere"
    ]


def test_reproduce_without_the_studies_says_what_to_install(
    ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(modules, "ensue_studies", None)
    ran = ensue("reproduce", "hidan", "--data", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.lines == [
        "ensue: the studies are a package of their own; install it with: pip install ensue-studies "
        "(in a checkout: pip install ./studies)"
    ]


def test_reproduce_caches_runs_next_to_its_json(ensue: Ensue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def study(data: Path, options: Request) -> Study:
        asked.append(options)
        return Study("sansr", {"overall": [{"hit@10": 0.5}]}, "# a page")

    monkeypatch.setattr("ensue_studies.sansr.run", study)
    ran = ensue("reproduce", "sansr", "--data", tmp_path, "--models=narm,sansr", "--json", tmp_path / "out.json")
    assert ran.code == 0 and "# a page" in ran.out
    assert asked[0].cache == tmp_path / "out.runs.json" and asked[0].models == ["narm", "sansr"]
    found = json.loads((tmp_path / "out.json").read_text())
    assert list(found) == ["paper", "command", "commit", "machine", "tables"]
    assert (tmp_path / "out.md").read_text() == "# a page" and not (tmp_path / "out.html").exists()
    ensue("reproduce", "sansr", "--data", tmp_path)
    assert asked[1].cache is None


def test_a_name_with_brackets_is_that_file_and_no_other(ensue: Ensue, tmp_path: Path) -> None:
    (tmp_path / "x1.csv").write_text("session,item\n1,other\n1,file\n")
    (tmp_path / "x[1].csv").write_text("session,item\n1,this\n1,file\n")
    found = only_json(ensue("check", tmp_path / "x[1].csv", "--json").out)
    assert found["rows"][0]["values"] == ["this", "file"]
