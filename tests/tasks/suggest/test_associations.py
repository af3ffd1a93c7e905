"""What follows what, stands near what or shares a query needs as many people as a query does, and one person is one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ensue import History
from ensue.data.queries import Queries, read_queries
from ensue.data.queries.rules import QueryRules
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.tasks.suggest.privacy import MAX_SESSIONS, bounded, shared_steps
from tests.tasks.suggest.contract import ATTENDING

START, DAY = 1_400_000_000, 86_400
SESSIONS = [("tea shop", "green tea"), ("bike shop", "red bike"), ("tea cup", "tea shop"), ("bike lamp", "bike shop")]
"""What 400 people type; nobody looks for tea and for bikes."""


def log(path: Path, *planted: tuple[str, Sequence[tuple[str, ...]]]) -> Queries:
    """The sessions of 400 people, and those of some others, a day apart."""
    people = [(f"u{number}", [SESSIONS[number % 4]]) for number in range(400)]
    rows = [
        f"{user},{query},{START + day * DAY + 60 * place}"
        for user, sessions in (*people[:200], *planted, *people[200:])
        for day, session in enumerate(sessions)
        for place, query in enumerate(session)
    ]
    path.write_text("user,query,time\n" + "\n".join(rows) + "\n")
    return read_queries(path, rules=QueryRules(min_queries=1))[0]


def fitted(model: str, data: Queries, min_users: int = 5) -> SuggestPredictor:
    network = {**ATTENDING, "epochs": 2, "depth": "1+1+1"} if model == "mtn" else {}
    made = SuggestPredictor(model, settings={"min_users": min_users, **network}, seed=1, device="cpu")
    made.keeps_examples = True
    for _ in made.fit(data, data if model == "mtn" else None):
        pass
    return made


@pytest.mark.parametrize("model", ["most-frequent-next", "popular", "co-occurrence", "after-words", "mtn"])
def test_a_folder_is_the_same_whatever_one_person_searched_next(model: str, tmp_path: Path) -> None:
    """``bike lamp`` right after ``tea shop``, and again on the next day, or each alone: no byte tells."""
    together = ("x", [("tea shop", "bike lamp"), ("tea shop", "bike lamp", "bike lamp lamp")])
    apart = ("x", [("tea shop",), ("bike lamp",), ("bike lamp lamp",)])
    one, other = (log(tmp_path / f"{name}.csv", own) for name, own in (("one", together), ("other", apart)))
    if model == "mtn":  # early stopping looks at the same sessions
        contents, expected = (_network(data, one).files() for data in (one, other))
    else:
        contents, expected = (fitted(model, data).files() for data in (one, other))
    assert contents.keys() == expected.keys()
    for file in contents.keys() - {"settings.json", "CARD.md"}:
        assert contents[file] == expected[file], file


def _network(data: Queries, valid: Queries) -> SuggestPredictor:
    settings = {**ATTENDING, "epochs": 2, "depth": "1+1+1", "refit": False}
    made = SuggestPredictor("mtn", settings=settings, seed=1, device="cpu")
    for _ in made.fit(data, valid):
        pass
    return made


@pytest.mark.parametrize("model", ["most-frequent-next", "co-occurrence", "after-words"])
def test_an_association_is_shown_once_enough_people_typed_it(model: str, tmp_path: Path) -> None:
    people = [(f"x{number}", [("tea shop", "bike lamp"), ("tea shop", "bike lamp")]) for number in range(3)]
    data = log(tmp_path / "log.csv", *people)

    def lead(min_users: int) -> float:
        (answer,) = fitted(model, data, min_users).predict([History(("tea shop",))], k=8)
        scores = {choice.value: choice.score for choice in answer.choices}
        return scores["bike lamp"] / scores["red bike"]

    assert lead(3) > 1.5 * lead(4)


def test_words_that_one_person_combined_are_not_shown_together(tmp_path: Path) -> None:
    made = fitted("popular", log(tmp_path / "log.csv", ("x", [("tea bike", "tea shop")] * 9)))
    assert made.floor.allowed(["tea bike", "tea shop", "shop tea"]).tolist() == [False, True, True]
    assert "bike" not in made.floor.together.get("tea", ()) and "tea" not in made.floor.together["bike"]


def test_one_person_counts_once_and_within_bounds(tmp_path: Path) -> None:
    sessions = [("tea shop", f"diary {number}") for number in range(2 * MAX_SESSIONS)]
    data = log(tmp_path / "log.csv", ("x", [("tea shop", "green tea")] * 100 + sessions))
    few, made = bounded(data, 5), fitted("most-frequent-next", data)
    assert len(data) == 400 + 100 + 2 * MAX_SESSIONS and len(few) == 400 + MAX_SESSIONS
    assert len(bounded(data, 1)) == len(data)
    place = made.following.vocabulary.id("tea shop") - 2
    assert made.following.totals[place] == 201  # 200 others and this person
    _, _, counts = made.following.follow(np.array([place]), np.array([9]))
    assert counts.tolist() == [100]


def test_a_network_learns_steps_that_enough_people_made_or_whose_words_they_had(tmp_path: Path) -> None:
    steps = [("green tea lamp", "bike lamp"), ("tea shop", "bike lamp"), ("green tea cup", "tea shop")]
    made = fitted("popular", data := log(tmp_path / "log.csv", ("x", steps), ("y", [("tea cup", "green tea")])))
    cut = [record.values for record in shared_steps(data, made.floor).records()]
    learned = {session for session in cut if len(session) > 1}
    # tea, cup and green, each before tea shop: of "green tea cup" the words cup and tea came before it, green did not.
    assert learned == {*SESSIONS}
    assert len(cut) == 400 + 2 * 4
    more = [("z" + str(number), [("green cup", "tea shop")]) for number in range(5)]
    data = log(tmp_path / "more.csv", ("x", steps), *more)
    cut = [record.values for record in shared_steps(data, fitted("popular", data).floor).records()]
    assert ("green tea cup", "tea shop") in cut  # whose words five people had


def test_examples_of_the_page_are_steps_that_enough_people_made(tmp_path: Path) -> None:
    made = fitted("mtn", log(tmp_path / "log.csv", ("x", [("tea shop", "bike lamp")])))
    held = made.metadata.examples
    assert held is not None
    for example in held["held_out"]:  # type: ignore[attr-defined]
        assert (*example["record"]["values"], *example["truth"]) in SESSIONS and "times" not in example["record"]


def test_an_update_asks_the_same_of_the_new_log(tmp_path: Path) -> None:
    made = fitted("most-frequent-next", log(tmp_path / "log.csv"))
    many = [(f"n{number}", [("tea shop", "red bike")]) for number in range(5)]
    made.update(log(tmp_path / "new.csv", *many, ("x", [("tea shop", "bike lamp")] * 9)))
    following = made.following
    _, followers, counts = following.follow(np.array([following.vocabulary.id("tea shop") - 2]), np.array([9]))
    found = {following.queries[place]: count for place, count in zip(followers.tolist(), counts.tolist(), strict=True)}
    assert found == {"green tea": 200, "red bike": 5}
