"""The court: models that read other rows or later events are refused, and untrained rules profit from each leak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ensue.answers import Answer, Choice, LinkAnswer, TextAnswer
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.queries import Queries
from ensue.data.texts import Texts
from ensue.demo.world import make_world
from ensue.errors import SettingError
from ensue.evaluation import comparison
from ensue.evaluation.comparison import compare, evaluate
from ensue.evaluation.leaks import Recorded, reads_others, untrained_with_leaks
from ensue.evaluation.result import describe
from ensue.records import Article, History, Post, Text
from ensue.tasks.next.predictor import NextPredictor

SESSIONS = [History(tuple(f"v{(n * 7 + step) % 11}" for step in range(2 + n % 4))) for n in range(20)]
DATA: dict[str, Recorded] = {
    "next": Histories.of(SESSIONS),
    "suggest": Queries(Histories.of(SESSIONS)),
    "classify": Texts.of([Text((f"a text {n}",), "ab"[n % 2]) for n in range(20)]),
    "link": Corpus(Articles.of([Article("body", "x")]), Posts.of([Post(f"post {n}", str(n)) for n in range(20)])),
}
KINDS = {"next": Answer, "suggest": Answer, "classify": TextAnswer, "link": LinkAnswer}


class Stub:
    """A predictor whose scores rest on a record's own text, and on ``leak`` of what else is in the batch."""

    def __init__(self, task: str, leak: float) -> None:
        self.kind, self.leak, self.model_name = KINDS[task], leak, "stub"

    def predict(self, records: Sequence[object], k: int, *, evidence: bool) -> list[Answer | TextAnswer | LinkAnswer]:
        sums = [1 + sum(map(ord, str(record))) * 7919 % 101 for record in records]
        mean = sum(sums) / len(sums)
        scores = [own + self.leak * (mean - own) for own in sums]
        return [self.kind((Choice("a", own), Choice("b", own / 2))) for own in scores]


@pytest.mark.parametrize("task", DATA)
def test_a_predictor_that_reads_its_batch_is_found(task: str) -> None:
    assert reads_others(Stub(task, 0.0), DATA[task]) == ""  # type: ignore[arg-type]
    found = reads_others(Stub(task, 0.5), DATA[task])  # type: ignore[arg-type]
    assert found.endswith("of 8 records are answered differently next to other records than alone")
    assert reads_others(Stub(task, 1e-6), DATA[task]) == "", "rounding is none"  # type: ignore[arg-type]


def test_a_predictor_that_reads_later_events_is_found() -> None:
    world = make_world(seed=3, num_cascades=200)
    made = NextPredictor("markov")
    list(made.fit(world.train))
    assert reads_others(made, world.test) == ""

    class Foreseeing(NextPredictor):
        def ranks(self, data: Histories, **options: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            found, owners, places = super().ranks(data)
            last = np.append(owners[1:] != owners[:-1], True)
            return np.where(last, found, 1.0), owners, places  # all but the last stand in the next prefix

    other = Foreseeing("markov")
    list(other.fit(world.train))
    assert reads_others(other, world.test).endswith(
        "steps are ranked differently when later events or other rows are in the batch"
    )


def test_compare_refuses_and_the_card_of_evaluate_names(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(seed=3, num_cascades=200)
    made = NextPredictor("markov")
    list(made.fit(world.train))
    clean = evaluate(made, world.test)
    assert clean.leaks == () and "leaks" not in clean.to_dict() and "- leaks" not in describe(made, clean)
    monkeypatch.setattr(comparison, "reads_others", lambda *_: "7 of 8 records are answered differently")
    with pytest.raises(SettingError, match=r"^markov: its scores depend on other rows: 7 of 8 .* independently$"):
        compare([[made]], world.test)
    found = evaluate(made, world.test)
    assert found.to_dict()["leaks"] == [*found.leaks] and "7 of 8" in found.leaks[0]
    assert "- leaks: markov: its scores depend on other rows" in describe(made, found)


def test_an_untrained_rule_with_and_without_each_leak_by_hand() -> None:
    train = Histories.of([History(tuple("ab")), History(tuple("ac")), History(tuple("ab")), History(tuple("xyz"))])
    test = Histories.of([History(tuple("acb")), History(tuple("xyz"))])
    rows = {row.leak: row for row in untrained_with_leaks(train, test)}
    near = rows["adjacent prefixes in one batch"]
    # Targets: c after a (b, b and c followed it: rank 2), b after c (nothing did), y after x and z after y (rank 1).
    assert (near.targets, near.share) == (4, 0.5)
    assert near.without == {"hit@20": 3 / 4, "mrr": (1 / 2 + 0 + 1 + 1) / 4}
    # The prefix a c, whose target is b, holds the pair a c beside the prefix a: rank 1.
    assert near.with_leak == {"hit@20": 3 / 4, "mrr": (1 + 0 + 1 + 1) / 4}
    copies = rows["copies of training sessions"]
    # x y z stands in training; without it a c b is left.
    assert copies.share == 0.5 and copies.without == {"hit@20": 1 / 2, "mrr": (1 / 2) / 2}
    assert copies.with_leak == {"hit@20": 3 / 4, "mrr": (1 / 2 + 0 + 1 + 1) / 4}
    assert "later training data" not in rows


def test_batches_end_where_they_end() -> None:
    train, test = Histories.of([History(tuple("zz"))]), Histories.of([History(tuple("abcd"))])
    # Prefixes a, ab, abc: in one batch the answers of the first two stand beside them; in batches of two (a, ab) and
    # (abc) that of the first alone; one by one none does.
    for batch, found in ((100, 2 / 3), (2, 1 / 3), (1, 0.0)):
        (row,) = untrained_with_leaks(train, test, batch)
        assert row.with_leak["hit@20"] == pytest.approx(found) and row.without["hit@20"] == 0.0


def test_later_training_data_is_left_out() -> None:
    late = 1.5e9
    train = Histories.of([History(tuple("ab"), (late, late + 1)), History(tuple("ac"), (late + 50, late + 51))])
    test = Histories.of([History(tuple("ac"), (late + 20, late + 21))])
    rows = {row.leak: row for row in untrained_with_leaks(train, test)}
    later = rows["later training data"]
    assert later.share == 1.0
    assert (later.with_leak["mrr"], later.without["mrr"]) == (1 / 2, 0.0)  # b and c tie, against the target


def test_rows_go_into_json() -> None:
    world = make_world(seed=3, num_cascades=200)
    rows = [row.to_dict() for row in untrained_with_leaks(world.train, world.test)]
    assert rows[0]["with_leak"]["mrr"] > rows[0]["without"]["mrr"]  # type: ignore[index]
