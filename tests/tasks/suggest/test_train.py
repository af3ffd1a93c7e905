"""What is learned when: held-out sessions first and all in the end, schedules by size, and the floor where it leads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ensue import History
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.evaluation.comparison import evaluate
from ensue.schedule import Schedule
from ensue.tasks.suggest import train
from ensue.tasks.suggest.catalogue import COUNTING, RERANKER
from ensue.tasks.suggest.ensembles.reranker import learn_counted_order
from ensue.tasks.suggest.predictor import SuggestPredictor
from tests.tasks.suggest.contract import ATTENDING, FLOOR, THINGS, planted, queries

SMALL = {**FLOOR, **ATTENDING, "depth": "1+1+1", "epochs": 2, "retrieved": 5}


def fitted(data: Queries, valid: Queries | None = None, **settings: object) -> SuggestPredictor:
    made = SuggestPredictor("best", settings={**SMALL, **settings}, seed=5, device="cpu")
    list(made.fit(data, valid))
    return made


def test_held_out_sessions_are_learned_in_the_end() -> None:
    late = [History(("find boat", "late boat"))] * 8
    data = queries([*planted(60, 0), *late])
    whole, part = fitted(data), fitted(data, refit=False)
    assert "late boat" in whole.following.queries and "late boat" not in part.following.queries
    assert (whole.metadata.sessions, part.metadata.sessions) == (68, 61)
    assert whole.metadata.mixture is not None and whole.metadata.epochs > 0
    assert whole.metadata.held_out == "the last 23 of 68 in file order" and "late" in whole.tokenizer.tokens
    assert part.metadata.held_out == "the last 7 of 68 in file order"


def timed(record: History, begun: float) -> History:
    return History(record.values, (begun, begun + 1))


@pytest.mark.parametrize(
    ("users", "begun", "rule"),
    [
        (False, 2e9, "8 given, used for the final training unless --no-refit"),
        (False, 1e9, "8 given, not used for the final training: not later than the training data"),
        (True, 2e9, "8 given, not used for the final training: users in both logs cannot be detected"),
    ],
)
def test_validation_data_that_is_later_is_learned(users: bool, begun: float, rule: str) -> None:
    data = queries([timed(record, 1.5e9) for record in planted(60, 0)])
    given = queries([timed(History(("find boat", "late boat")), begun)] * 8)
    if users:
        data = replace(data, users=np.full(len(data.histories.vocabulary.values), 9))
    made = fitted(data, given)
    learned = rule.startswith("8 given, used")
    assert (made.metadata.sessions, made.metadata.held_out) == (68 if learned else 60, rule)
    assert ("late boat" in made.following.queries) == learned
    assert fitted(data, given, refit=False).metadata.sessions == 60


def test_the_files_own_parts_are_learned_but_for_the_test() -> None:
    sessions = [*planted(40, 0), *[History(("find boat", "late boat"))] * 8, *[History(("find car", "test car"))] * 8]
    parts = pl.Series(["train"] * 40 + ["valid"] * 8 + ["test"] * 8)
    made = fitted(Queries(Histories.of(sessions), parts=parts, novel=np.zeros(56, np.bool_)))
    assert "late boat" in made.following.queries and "test car" not in made.following.queries
    assert made.metadata.held_out == (
        "as marked in the file: 40 sessions in train, 8 in valid, used for the final training"
    )


def test_where_counting_leads_the_folder_is_what_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(train, "learn_order", lead("co-occurrence"))
    made = fitted(queries(planted(60, 0)))
    assert (made.model_name, made.schedule, made.settings, made.optimizer) == ("co-occurrence", None, None, None)
    assert made.metadata.notes[-1] == (
        "this folder is co-occurrence: its MRR@10 on held-out sessions is 70.00, that of the network mixed with it "
        "60.00"
    )
    assert "mixture" not in made.summary()["facts"] and made.metadata.sessions == 60
    made.save(str(tmp_path))
    again = SuggestPredictor.load(str(tmp_path))
    asked = [History((f"find {thing}",)) for thing in THINGS]
    assert again.predict(asked, 3) == made.predict(asked, 3)
    rows = [row.model for row in evaluate(again, queries(planted(8, 1))).rows]
    assert rows[0] == "co-occurrence" and len(rows) == len({*rows})


def lead(name: str) -> object:
    def learn_order(state: SuggestPredictor, held: Queries, counted: object) -> str:
        state.metadata.mixture, state.metadata.validation_mrr = {"network": 1.0}, {name: 0.7, "mixed": 0.6}
        return name

    return learn_order


def test_the_counting_model_that_leads_is_found() -> None:
    """A network of one epoch knows nothing; but counting is in the mixture, which need not be left for it."""
    made = fitted(queries(planted(80, 0)), epochs=1)
    figures = made.metadata.validation_mrr
    assert figures is not None and made.model_name == "mtn"
    assert figures["mixed"] >= 0.9 * max(figures[name] for name in ("co-occurrence", "most-frequent-next"))
    assert figures["mixed"] > figures["network"]


def test_a_schedule_rises_in_a_tenth_of_its_steps() -> None:
    schedule = Schedule(epochs=30, batch_size=32, warm_up=300, min_steps=50, max_epochs=100)
    # 10,000 rows are 313 steps an epoch; of 200 rows a batch of 16 makes 13, and 100 epochs are 1,300.
    assert train.fitted(schedule, 10_000, 40_000) == schedule
    assert train.fitted(schedule, 200, 600) == replace(schedule, batch_size=16, epochs=100, warm_up=130)
    assert train.fitted(replace(schedule, warm_up=None), 200, 600).warm_up is None
    assert train.fitted(schedule, 1, 3) == replace(schedule, batch_size=16, epochs=100, warm_up=10)


def test_what_is_set_by_hand_stands() -> None:
    made = SuggestPredictor("mtn", settings={"epochs": 3, "batch_size": 8})
    assert made.schedule is not None and train.fitted(made.schedule, 200, 600).epochs == 3
    assert train.fitted(made.schedule, 200, 600).batch_size == 8


def test_best_does_without_a_network_unless_it_may_pay(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    data = queries(planted(80, 0))
    made = SuggestPredictor("best", settings={**FLOOR, "retrieved": 5}, device="cpu")
    assert made.chooses and not list(made.fit(data))  # nothing is trained
    assert not SuggestPredictor("best", settings={"epochs": 2}).chooses  # who sets a network wants one
    assert (made.model_name, made.schedule, made.settings) == ("reranker", None, None)
    assert made.metadata.held_out == "each fifth of 80 sessions, scored by counts of the others"
    assert made.metadata.notes[-1].startswith("this folder is reranker, without a network: its MRR@10")
    figures, mixture = made.metadata.validation_mrr, made.metadata.mixture
    assert figures is not None and figures["mixed"] >= max(figures[name] for name in COUNTING)
    assert mixture is not None and mixture["network"] == 0 and sum(mixture.values()) == pytest.approx(1, abs=1e-4)
    made.save(str(tmp_path))
    again, asked = SuggestPredictor.load(str(tmp_path)), [History((f"find {thing}",)) for thing in THINGS]
    assert again.predict(asked, 3) == made.predict(asked, 3)
    rows = [row.model for row in evaluate(again, queries(planted(8, 1))).rows]
    assert rows == ["reranker", *COUNTING]
    monkeypatch.setattr(train, "learn_counted_order", lambda *given: (learn_counted_order(*given)[0], True))
    spent = SuggestPredictor("best", settings=SMALL, seed=5, device="cpu")
    spent.chooses = True
    assert (
        list(spent.fit(data))
        and RERANKER in (spent.metadata.validation_mrr or {})
        and "network" in (spent.metadata.validation_mrr or {})
    )


def test_where_nothing_can_be_looked_up_own_queries_lead() -> None:
    """Every query is new; one of three sessions comes back to its first: only those who repeat can be right."""
    sessions = [History((f"a{n}", f"b{n}", f"a{n}" if n % 3 == 0 else f"c{n}")) for n in range(60)]
    data = Queries(Histories.of([*sessions, *[History(("x",))] * 6]))
    made = SuggestPredictor("best", device="cpu")
    assert not list(made.fit(data))
    assert made.model_name == "repeat-last" and made.metadata.mix is None
    assert not len(made.retrieval.topics if made.retrieval else [])


@pytest.mark.parametrize(
    ("nouns", "tokens", "kind"),
    [
        (("红鞋", "蓝帽", "绿车"), "auto", "bpe"),
        (("รองเท้า", "หมวก", "car"), "auto", "bpe"),
        (("红鞋", "hat", "car"), "auto", "words"),
        (("红鞋", "蓝帽", "绿车"), "words", "words"),
    ],
)
def test_queries_without_spaces_are_cut_into_pieces(nouns: tuple[str, ...], tokens: str, kind: str) -> None:
    sessions = [History((f"{noun}价" if noun > "z" else f"{noun} price", noun)) for noun in nouns] * 6
    made = SuggestPredictor("mtn", settings={**SMALL, "epochs": 1, "tokens": tokens}, device="cpu")
    list(made.fit(queries(sessions), queries(sessions[:6])))
    assert made.tokenizer.kind == kind
    assert made.predict([History(nouns[:1])], 1)[0].choices
