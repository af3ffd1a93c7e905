"""Planted leaks at the command line: each is refused or named in one clear line, in JSON too."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ensue import registry
from tests.cli.conftest import Ensue, Logs, Ran

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
PLANTED = {
    "next, the batch": (
        "next",
        """
from latest import *

class Planted(Latest):
    "Whatever stands in the batch is likely."
    def forward(self, batch):
        found = super().forward(batch)
        held = torch.bincount(batch.ids.flatten(), minlength=found.scores.shape[1]).float()
        return Output(found.scores + 20 * held / held.sum(), found.weights)
""",
        "records are answered differently next to other records than alone",
    ),
    "next, later events": (
        "next",
        """
from latest import *

class Planted(Latest):
    "The event after the latest is the answer."
    def forward(self, batch):
        found = super().forward(batch)
        after = functional.pad(batch.ids[:, 1:], (0, 1))[batch.target_mask]
        return Output(found.scores + 20 * functional.one_hot(after, found.scores.shape[1]), found.weights)
""",
        "steps are ranked differently when later events or other rows are in the batch",
    ),
    "classify, the batch": (
        "classify",
        """
from gated_mean import *

class Planted(GatedMean):
    "Scores are those above the mean of the batch."
    def forward(self, batch):
        found = super().forward(batch)
        return found._replace(scores=found.scores - 0.5 * found.scores.mean(0))
""",
        "records are answered differently next to other records than alone",
    ),
}


@pytest.fixture(autouse=True)
def _nobodys_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ADDED", {})
    monkeypatch.setenv(registry.VARIABLE, "")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "own"))


def labelled(path: Path, rows: int = 80) -> Path:
    lines = [f"{'ab'[at % 2]}\tword{at % 7} some film {('good', 'bad')[at % 2]} {at % 5}" for at in range(rows)]
    path.write_text("\n".join(["label\ttext", *lines, ""]))
    return path


@pytest.mark.parametrize(("task", "source", "message"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_model_is_refused_in_compare_and_named_by_evaluate(
    task: str, source: str, message: str, ensue: Ensue, logs: Logs, tmp_path: Path
) -> None:
    (tmp_path / "planted.py").write_text(source)
    reference = f"{tmp_path}/planted.py:Planted"
    data, test = (logs.train, logs.test) if task == "next" else [labelled(tmp_path / "texts.tsv")] * 2
    small = ("--set=epochs=1",)
    ran = ensue("compare", task, data, "--test", test, "--models", reference, *small)
    assert ran.code == 2 and ran.lines[-1].startswith("ensue: Planted: its scores depend on other rows: ")
    assert message in ran.lines[-1] and ran.lines[-1].endswith("so score every row independently") and not ran.out
    ran = ensue("fit", task, data, "-o", tmp_path / "m", "--model", reference, *small, "--device=cpu")
    assert ran.code == 0, ran.err
    ran = ensue("evaluate", tmp_path / "m", test, "--model", reference, "--json")
    (leak,) = json.loads(ran.out)["leaks"]
    assert ran.code == 0 and message in leak
    assert f"- leaks: {leak}" in (tmp_path / "m" / "CARD.md").read_text()
    ran = ensue("evaluate", tmp_path / "m", test, "--model", reference)
    assert message in ran.out + ran.err


def test_an_honest_model_is_compared(ensue: Ensue, logs: Logs, tmp_path: Path) -> None:
    ran = ensue(
        *("compare", "next", logs.train, "--test", logs.test),
        *("--models", f"{EXAMPLES}/latest.py:Latest", "--set=epochs=1", "--json"),
    )
    assert ran.code == 0, ran.err
    assert "Latest" in [row["model"] for row in json.loads(ran.out)["rows"]]


def clicks(path: Path, sessions: dict[str, list[str]], begin: float = 1.5e9, step: float = 1000.0) -> Path:
    rows = [
        f"{name},{item},{begin + number * step + place}"
        for number, (name, items) in enumerate(sessions.items())
        for place, item in enumerate(items)
    ]
    path.write_text("\n".join(["session,item,time", *rows, ""]))
    return path


def some(first: int, count: int) -> dict[str, list[str]]:
    return {
        f"s{n}": [f"i{(n * 7 + step * (n % 5 + 1)) % 60}" for step in range(5 + n % 3)]
        for n in range(first, first + count)
    }


def test_copies_and_later_times_between_parts(ensue: Ensue, tmp_path: Path) -> None:
    train, test = clicks(tmp_path / "train.csv", some(0, 40)), clicks(tmp_path / "test.csv", some(20, 30))
    told = ["begin before the last", "stand", "training data is later than test data"]
    ran = ensue("check", train, "--compare-to", test, "--json")
    warnings = json.loads(ran.out)["warnings"]
    assert any(told[0] in line and told[2] in line for line in warnings)
    assert any("here too, as exact duplicates" in line for line in warnings)
    ran = ensue("compare", "next", train, "--test", test, "--models=markov", "--json")
    leaks = json.loads(ran.out)["leaks"]
    assert [line for line in leaks if "are in the training data too, as exact duplicates" in line]
    assert [line for line in leaks if "begin before the last in the training data:" in line]
    other = {name: items[::-1] for name, items in some(0, 30).items()}
    clean = clicks(tmp_path / "clean.csv", other, begin=1.6e9)
    ran = ensue("compare", "next", train, "--test", clean, "--models=markov", "--json")
    assert "leaks" not in json.loads(ran.out)


def test_near_copies_between_parts(ensue: Ensue, tmp_path: Path) -> None:
    long = {f"s{n}": [f"i{(n * 13 + step * step) % 97}" for step in range(20)] for n in range(20)}
    changed = {name: [*items[:9], "new", *items[10:]] for name, items in long.items()}
    train, test = clicks(tmp_path / "train.csv", long), clicks(tmp_path / "test.csv", changed, begin=1.6e9)
    ran = ensue("check", train, "--compare-to", test, "--json")
    (line,) = [line for line in json.loads(ran.out)["warnings"] if "nearly repeat" in line]
    assert line.startswith("20 of 20 (100.0 %) sessions of ")


def test_prefixes_as_rows(ensue: Ensue, tmp_path: Path) -> None:
    sessions = some(0, 30)
    prefixes = {f"{name}-{end}": items[:end] for name, items in sessions.items() for end in range(2, len(items) + 1)}
    found = json.loads(ensue("check", clicks(tmp_path / "rows.csv", prefixes), "--json").out)
    (line,) = [line for line in found["warnings"] if "the adjacent row" in line]
    assert line.endswith("expanded prefixes contain each other's answers; give whole sessions")


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_columns_that_tell_the_next_value(ensue: Ensue, tmp_path: Path, kind: str) -> None:
    rows: list[tuple[str | int, ...]] = []
    for name, items in some(0, 60).items():
        for place, item in enumerate(items):
            then = items[place + 1] if place + 1 < len(items) else ""
            code = f"c{then[1:]}" if then else "end"
            rows.append((name, item, 1_500_000_000 + len(rows), then, code, f"p{place}", len(rows) % 7))
    names = ["session", "item", "time", "goes_to", "code", "place", "colour"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    path = tmp_path / f"log.{kind}"
    if kind == "csv":
        frame.write_csv(path)
    else:
        frame.write_json(path) if kind == "json" else frame.write_parquet(path)
    found = warnings(ensue("check", path, "--json"))
    told = [line for line in found if line.startswith("column ")]
    advice = "it is not read, and must not be used as an item or a feature"
    assert told[0] == f"column 'goes_to' holds the next item in 100.0 % of the rows: {advice}"
    assert told[1].startswith("column 'code' determines the next item in ") and told[1].endswith(advice)
    assert len(told) == 2, "neither the place nor the colour tells it"


def test_times_that_run_backwards(ensue: Ensue, tmp_path: Path) -> None:
    path = tmp_path / "back.csv"
    path.write_text("session,item,time\na,x,1500000009\na,y,1500000001\nb,x,1500000003\nb,y,1500000004\n")
    found = json.loads(ensue("check", path, "--json").out)
    assert "1 of 2 sessions had decreasing times: sorted by time" in found["warnings"]


def warnings(ran: Ran) -> list[str]:
    assert ran.code == 0, ran.err
    found: list[str] = json.loads(ran.out)["warnings"]
    return found


def test_a_text_that_holds_its_label(ensue: Ensue, tmp_path: Path) -> None:
    found = warnings(ensue("check", labelled(tmp_path / "texts.tsv"), "--json"))
    told = "the word 'bad' is in 100.0 % of the texts labelled 'b' and in 0.0 % of the others"
    assert f"{told}: does the text contain its label?" in found


def test_near_copies_of_texts_between_parts(ensue: Ensue, tmp_path: Path) -> None:
    words = [[f"w{(n * 17 + at * at) % 211}" for at in range(24)] for n in range(20)]
    train, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    train.write_text("label\ttext\n" + "".join(f"{'ab'[n % 2]}\t{' '.join(own)}\n" for n, own in enumerate(words)))
    rows = (f"{'ab'[n % 2]}\t{' '.join([*own[:11], 'changed', *own[12:]])}\n" for n, own in enumerate(words))
    test.write_text("label\ttext\n" + "".join(rows))
    found = warnings(ensue("check", train, "--compare-to", test, "--json"))
    assert f"20 of 20 (100.0 %) texts of {test} nearly repeat one here" in found
    ran = ensue("compare", "classify", train, "--test", test, "--models=tfidf", "--json")
    assert (
        "20 of 20 (100.0 %) texts of the test data nearly repeat one in the training data"
        in json.loads(ran.out)["leaks"]
    )


def test_queries_of_later_sessions(ensue: Ensue, tmp_path: Path) -> None:
    def log(name: str, begin: float) -> Path:
        rows = [f"u{n},q{n % 4} one,{begin + 9000 * n}\nu{n},q{n % 4} two,{begin + 9000 * n + 5}" for n in range(12)]
        (tmp_path / name).write_text("\n".join(["user,query,time", *rows, ""]))
        return tmp_path / name

    train, test = log("train.csv", 1.5e9), log("test.csv", 1.5e9 + 4000)
    found = warnings(ensue("check", train, "--compare-to", test, "--json"))
    assert any(line.endswith("before the last here: training data is later than test data") for line in found)
    ran = ensue(
        *("compare", "suggest", train, "--test", test, "--models=most-frequent-next", "--min-users=1", "--json")
    )
    leaks = json.loads(ran.out)["leaks"]
    assert (
        "100.0 % of the pairs of the test data are in the training data too: a model that memorises them scores well"
        in leaks
    )
    assert any("begin before the last in the training data:" in line for line in leaks)


def test_posts_that_hold_the_id_of_their_article(ensue: Ensue, tmp_path: Path) -> None:
    articles, posts = tmp_path / "articles.csv", tmp_path / "posts.csv"
    articles.write_text("id,body\narticle-17,The ferry sails at night\narticle-18,The council votes on roads\n")
    posts.write_text("id,text,about\n1,see article-17 now,article-17\n2,the roads,article-18\n")
    found = warnings(ensue("check", posts, "--articles", articles, "--json"))
    assert "1 of 2 posts holds the id of an article that it is about: matching ids finds those" in found
    ran = ensue("compare", "link", posts, "--articles", articles, "--test", posts, "--models=tfidf", "--json")
    assert any("is in both files; split by article" in line for line in json.loads(ran.out)["leaks"])


def test_prefixes_that_give_nothing_away_are_not_spoken_of(ensue: Ensue, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("session,item\n1,a\n1,b\n2,c\n2,d\n")
    assert "beside them" not in ensue("check", log).out
