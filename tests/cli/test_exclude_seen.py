"""What ``predict`` leaves out of an answer: items of the history, or the one just viewed, as measured or as asked."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ensue import History, NextEvent, SettingError, read
from tests.cli.conftest import Ensue, run
from tests.serve.conftest import running
from tests.test_client import asks

NEWS = {f"s{row}": "abcdef"[row % 3 : row % 3 + 4] for row in range(12)} | {"s12": "abca"}
SHOP = {f"s{row}": "abab" for row in range(9)} | {"s9": "bcc"}
MUSIC = {f"s{row}": "aabbcc" for row in range(9)}
LINES = {
    "news": "2.6 % of the events repeat an earlier item of their session, 0.0 % the previous item: predict leaves "
    "out items already in the session, unless --include-seen is set",
    "shop": "65.5 % of the events repeat an earlier item of their session, 3.4 % the previous item: predict leaves out "
    "the item just viewed; --exclude-seen leaves out all items of the session",
    "music": "60.0 % of the events repeat an earlier item of their session, 60.0 % the previous item: predict may "
    "answer with items already in the session; --exclude-seen leaves them out",
}
ALL = {"news": set("abcdef"), "shop": set("abc"), "music": set("abc")}
DEFAULT = {"news": set("cdef"), "shop": set("ac"), "music": set("abc")}
"""Answers to a, b."""


class Fitted(NamedTuple):
    """A log, a model of it, and what ``fit`` printed."""

    log: Path
    folder: Path
    printed: str


def write(path: Path, sessions: dict[str, str]) -> Path:
    """One event a minute."""
    rows = (
        f"{name},{item},{1.7e9 + 10_000 * number + 60 * place:.0f}"
        for number, (name, items) in enumerate(sessions.items())
        for place, item in enumerate(items)
    )
    path.write_text("session,item,time\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fitted]:
    place, found = tmp_path_factory.mktemp("seen"), dict[str, Fitted]()
    with pytest.MonkeyPatch.context() as patch:
        for name, sessions in (("news", NEWS), ("shop", SHOP), ("music", MUSIC)):
            log = write(place / f"{name}.csv", sessions)
            ran = run(patch, "fit", "next", log, "-o", place / name, "--model", "vsknn")
            assert ran.code == 0, ran.err
            found[name] = Fitted(log, place / name, ran.err)
    return found


def values(answer: Any) -> set[str]:
    """The values of an answer's JSON."""
    return {choice["value"] for choice in answer["choices"]}


@pytest.mark.parametrize("name", LINES)
def test_check_fit_card_and_settings_name_the_choice_and_its_number(
    ensue: Ensue, models: dict[str, Fitted], name: str
) -> None:
    repeats, _, rule = LINES[name].partition(": ")
    value = repeats.replace(" repeat an earlier item of their session", "")
    assert ("repeats in a session", value, rule) in ensue("check", models[name].log).cells
    assert LINES[name] in models[name].printed.splitlines()
    facts = json.loads((models[name].folder / "settings.json").read_text())["facts"]
    assert facts["exclusion"] == {"news": "seen", "shop": "last", "music": "none"}[name]
    assert f"- exclusion: {facts['exclusion']}\n" in (models[name].folder / "CARD.md").read_text()
    findings = json.loads(ensue("check", models[name].log, "--json").out)
    for share in ("repeat_share", "immediate_repeat_share"):
        assert facts[share] == findings[share] and LINES[name].count(f"{100 * facts[share]:.1f} %")


@pytest.mark.parametrize("name", LINES)
def test_the_command_line_http_and_python_leave_out_the_same(
    ensue: Ensue, models: dict[str, Fitted], name: str
) -> None:
    record, predictor = History(("a", "b")), NextEvent.load(models[name].folder).predictor_
    with running({name: models[name].folder}) as service:
        client = asks(service)
        for exclude_seen, expected in (
            (None, DEFAULT[name]),
            (True, ALL[name] - {"a", "b"}),
            (False, ALL[name]),
        ):
            options = () if exclude_seen is None else ("--exclude-seen",) if exclude_seen else ("--include-seen",)
            ran = ensue("predict", models[name].folder, "-", "--json", *options, stdin=record.to_json() + "\n")
            assert values(json.loads(ran.out)) == expected
            body = {"records": [{"values": ["a", "b"]}], "exclude_seen": exclude_seen}
            found = service.post(f"/v1/models/{name}/predict", body)
            assert values(found.json()["answers"][0]) == expected
            (answer,) = predictor.predict([record], exclude_seen=exclude_seen)
            assert client.predict(name, [record], exclude_seen=exclude_seen) == [answer]
            assert sum(choice.score for choice in answer.choices) == pytest.approx(1, abs=1e-5)
            (fewer,) = predictor.predict([record], allow=["a", "b", "c"], exclude=["c"], exclude_seen=exclude_seen)
            assert {choice.value for choice in fewer.choices} == expected & {"a", "b"}
        wrong = service.post(f"/v1/models/{name}/predict", {"records": [{"values": ["a"]}], "exclude_seen": "no"})
        assert (wrong.status_code, wrong.json()["error"]) == (422, 'field "exclude_seen" must be true or false')
    with pytest.raises(SettingError, match="exclude_seen is 'auto'; give True, False or None"):
        predictor.predict([record], exclude_seen="auto")  # type: ignore[arg-type]


def test_explanations_and_forecasts_leave_out_what_predict_does(models: dict[str, Fitted]) -> None:
    for name, fitted in models.items():
        predictor = NextEvent.load(fitted.folder).predictor_
        (explanation,) = predictor.explain([History(("a", "b"))], 9)
        assert {choice.value for choice in explanation.answer.choices} == DEFAULT[name]
        (forecast,) = predictor.forecast([History(("a", "b"))], 6, 9)
        walk = ["a", "b", *(step.choices[0].value for step in forecast.steps)]
        if name == "news":
            assert sorted(walk) == [*"abcdef"]  # then nothing is left
        if name == "shop":
            assert all(value != earlier for earlier, value in pairwise(walk))


def test_unknown_items_of_a_history_are_left_out_alike(models: dict[str, Fitted]) -> None:
    record = History(("x", "a", "y"))
    for name, added in (("news", set()), ("shop", {"x"}), ("music", {"x", "y"})):
        predictor = NextEvent.load(models[name].folder).predictor_
        for evidence in (True, False):
            (answer,) = predictor.predict([record], 9, rank_unknown=True, evidence=evidence)
            assert {choice.value for choice in answer.choices} & {"x", "y"} == added
        (answer,) = predictor.predict([record], 9, rank_unknown=True, exclude_seen=False)
        assert {choice.value for choice in answer.choices} & {"x", "y"} == {"x", "y"}
        with running({name: models[name].folder}) as service:
            body = {"records": [{"values": list(record.values)}], "rank_unknown": True}
            assert values(service.post(f"/v1/models/{name}/predict", body).json()["answers"][0]) & {"x", "y"} == added


@pytest.mark.parametrize("protocol", ["full", "macro"])
@pytest.mark.parametrize("name", LINES)
def test_the_card_scores_the_lists_that_are_served(models: dict[str, Fitted], name: str, protocol: str) -> None:
    predictor = NextEvent.load(models[name].folder).predictor_
    model = NextEvent.load(models[name].folder)
    served = model.evaluate(models[name].log, protocol=protocol, cutoffs=(1, 2)).card.get("served", "")
    if name == "music":
        assert not served
        return
    sums = list[list[float]]()
    for record in read(models[name].log, task="next").records():
        assert isinstance(record, History)
        ranks = []
        for place in range(1, len(record.values)):
            (answer,) = predictor.predict([History(record.values[:place], record.times[:place])], 9)
            scores = {choice.value: choice.score for choice in answer.choices}
            target = scores.get(record.values[place])
            ranks.append(math.inf if target is None else sum(score >= target * (1 - 1e-6) for score in scores.values()))
        columns = ([1 / rank for rank in ranks], *([float(rank <= k) for rank in ranks] for k in (1, 2)))
        sums.append([len(ranks), *map(sum, columns)])
    num = len(sums) if protocol == "macro" else sum(row[0] for row in sums)
    mean = [sum(row[at] / (row[0] if protocol == "macro" else 1) for row in sums) / num for at in (1, 2, 3)]
    left_out = {"news": "items already in the session", "shop": "the item just viewed"}[name]
    assert served == (
        f"by default predict of vsknn leaves out {left_out}; the metrics here do not. As served: "
        f"MRR {100 * mean[0]:.2f}, HR@1 {100 * mean[1]:.2f}, HR@2 {100 * mean[2]:.2f}"
    )


def test_options_that_contradict_each_other_are_refused(ensue: Ensue, models: dict[str, Fitted]) -> None:
    ran = ensue("predict", models["shop"].folder, "-", "--exclude-seen", "--rank-unknown", stdin='{"values": ["a"]}\n')
    assert (ran.code, ran.lines) == (
        2,
        ["ensue: --rank-unknown and --exclude-seen contradict each other; remove one"],
    )
    ran = ensue("predict", models["shop"].folder, "-", "--include-seen", "--steps", "2", stdin='{"values": ["a"]}\n')
    assert ran.code == 2 and "--include-seen" in ran.lines[0]
