"""With ``min_users`` what one person alone did is nowhere: not in the answers, and in no byte of a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ensue import DataError, History, NextEvent, SettingError
from ensue.data.histories import Histories
from ensue.data.shared_runs import people_of, shared_runs
from ensue.predictor import make
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.predictor import NextPredictor

SMALL: dict[str, object] = {"dim": 8, "table_dim": 8, "epochs": 1, "batch_size": 32, "min_users": 3}
SHOPS = {"a": [f"a{number}" for number in range(4)], "b": [f"b{number}" for number in range(4)]}
"""Forty people walk among the first values, forty among the others, and nobody goes from one shop to the other."""
PLANTED = ("a0", "b0", "secret", "a1", "b1")


def walks(repeats: bool) -> list[History]:
    draw = np.random.default_rng(0)
    found = []
    for number in range(80):
        items = SHOPS["ab"[number % 2]]
        values = draw.choice(items, 6) if repeats else draw.permutation(items)
        found.append(History(tuple(map(str, values)), tuple(1e9 + 1000.0 * number + t for t in range(len(values)))))
    return found


def fitted(name: str, histories: list[History], **more: object) -> NextPredictor:
    rows = [part for row in (MODELS.values() if name == "best" else [MODELS[name]]) for part in row[1:]]
    known = {key for part in rows if part is not None for key in part.__dataclass_fields__} | {"min_users"}
    given = {**SMALL, "replay": 50, **more}
    settings = {key: value for key, value in given.items() if key in known}
    made = NextPredictor(name, settings=settings, device="cpu")
    made.keeps_examples = True
    for _ in made.fit(Histories.of(histories)):
        pass
    return made


@pytest.mark.parametrize("name", ["best", "cascade-blend", "gru4rec", "markov", "vsknn", "interpolated", "fpmc"])
def test_a_folder_is_the_same_whatever_one_person_did_in_a_row(name: str) -> None:
    """The person's steps from shop to shop are shared by nobody: they are as good as five people who did one thing."""
    time, log = 1e9 + 1000.0 * 20.5, walks(repeats=name != "cascade-blend")
    times = tuple(time + step for step in range(len(PLANTED)))
    one = fitted(name, [*log[:21], History(PLANTED, times), *log[21:]])
    singles = [History((value,), (when,)) for value, when in zip(PLANTED, times, strict=True) if value != "secret"]
    other = fitted(name, [*log[:21], *singles, *log[21:]])
    contents, expected = one.contents(), other.contents()
    assert contents.keys() == expected.keys() >= {"fitted.json", "baselines.safetensors"}
    for file in contents:
        if file not in ("settings.json", "CARD.md"):
            assert _bytes(contents[file]) == _bytes(expected[file]), file
    facts = one.summary()["facts"]
    assert "secret" not in str(one.summary()) and "secret" not in one.vocabulary
    steps = facts["min_users"]["steps"]
    assert facts["min_users"] == {"threshold": 3, "people": 81, "values": 1, "events": 1, "steps": steps} and steps >= 4
    examples = facts.get("examples", {"held_out": []})["held_out"]
    assert bool(examples) == (MODELS[one.model_name].schedule is not None)
    assert not any("times" in example["record"] for example in examples)


def _bytes(part: object) -> bytes:
    return part if isinstance(part, bytes) else b"".join(map(bytes, part))  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["markov", "rules", "cooccurrence", "own-items", "vsknn"])
def test_counts_give_away_one_person_only_without_a_threshold(name: str) -> None:
    def score(min_users: int) -> float:
        made = fitted(name, [*walks(repeats=True), History(PLANTED)], min_users=min_users)
        (answer,) = made.predict([History(("a0",))], k=20)
        scores = {choice.value: choice.score for choice in answer.choices}
        assert ("secret" in scores) == (min_users == 1)
        return scores["b0"] / scores["b3"]

    assert score(1) > 1.5
    popularity = fitted("popularity", [*walks(repeats=True), History(PLANTED)])
    shares = popularity.counting["popularity"].totals[popularity.vocabulary.ids(["b0", "b3"])].tolist()
    assert score(3) < 1.1 * max(1.0, shares[0] / shares[1])


def test_histories_are_cut_into_runs_that_enough_people_share() -> None:
    log = Histories.of([History(tuple("abcd")), History(tuple("ab")), History(tuple("bce"))])
    assert [record.values for record in shared_runs(log, 2).records()] == [
        ("a", "b"),
        ("b", "c"),
        ("a", "b"),
        ("b", "c"),
    ]
    assert [record.values for record in shared_runs(log, 1).records()] == [*map(tuple, ("abcd", "ab", "bce"))]
    assert not len(shared_runs(log, 4).ids) and not len(shared_runs(Histories.of([]), 2))


def test_a_person_counts_once_however_many_sessions_there_are() -> None:
    log = Histories.of([History(("a", "b"), id=f"u#{part}") for part in (1, 2, 3)] + [History(("a", "b"), id="v")])
    assert people_of(log).tolist() == [1, 1, 1, 2]
    assert len(shared_runs(log, 3).ids) == 0 and len(shared_runs(log, 2)) == 4


def test_runs_are_those_that_counting_every_run_finds() -> None:
    draw = np.random.default_rng(3)
    log = Histories.of(
        [History(tuple(map(str, draw.integers(0, 3, draw.integers(1, 7))))) for _ in range(40)]
        + [History(()), History(("9", "0", "1"))]
    )
    people: dict[tuple[str, ...], set[int]] = {}
    for number, record in enumerate(log.records()):
        for start in range(len(record.values)):
            for stop in range(start + 1, len(record.values) + 1):
                people.setdefault(record.values[start:stop], set()).add(number)
    expected = []
    for record in log.records():
        begin = 0
        while begin < len(record.values):
            stop = begin
            while stop < len(record.values) and len(people[record.values[begin : stop + 1]]) >= 3:
                stop += 1
            if stop > begin:
                expected.append(record.values[begin:stop])
            joint = stop > begin and stop < len(record.values) and len(people[record.values[stop - 1 : stop + 1]]) >= 3
            begin = stop - 1 if joint else max(stop, begin + 1)
    assert [record.values for record in shared_runs(log, 3).records()] == expected


def test_an_update_learns_only_what_enough_people_of_it_share() -> None:
    made = fitted("markov", walks(repeats=True))
    new = [History(("a0", "fresh")) for _ in range(3)]
    made.update(Histories.of([*new, History(("a0", "b0", "mine"))]))
    assert "fresh" in made.vocabulary and "mine" not in made.vocabulary
    (answer,) = made.predict([History(("a0",))], k=20)
    scores = {choice.value: choice.score for choice in answer.choices}
    assert scores["fresh"] > 5 * scores["b0"]
    with pytest.raises(DataError, match="new data: no two consecutive events are shared by 3 users"):
        made.update(Histories.of(new[:2]))


def test_a_log_in_which_nothing_is_shared_is_refused() -> None:
    made = make("next", "markov", settings={"min_users": 5})
    with pytest.raises(DataError, match="training data: no two consecutive events are shared by 5 users"):
        list(made.fit(Histories.of([History(("a", "b", f"c{n}")) for n in range(4)])))


def test_estimators_ask_too_and_forget(tmp_path: Path) -> None:
    rows = [(f"u{n}", f"s{n}", item) for n in range(9) for item in ("p0", "p1")] + [
        ("x", "x1", "p0"),
        ("x", "x1", "me"),
    ]
    frame = pl.DataFrame(rows, schema=["user_id", "session_id", "item_id"], orient="row")
    frame.write_csv(tmp_path / "log.csv")
    for data in (frame, str(tmp_path / "log.csv")):
        with pytest.raises(SettingError, match=r"would count each session \(session_id\) as a person"):
            NextEvent("markov", min_users=3).fit(data)
    model = NextEvent("markov", min_users=3).fit(frame, columns={"session": "user_id", "item": "item_id"})
    assert model.predict([["p0"]]).values == [["p1"]]
    public = NextEvent("markov").fit(frame)
    found = public.forget(frame.filter(pl.col("user_id") == "x"))
    assert ("baselines.safetensors", "values", 1) in found.removed and public.predict([["p0"]]).values == [["p1"]]
