"""The court: models that read other rows or later events are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ensue import Answer, Article, Choice, History, LinkAnswer, Post, SettingError, Text, TextAnswer
from ensue.data.histories import Histories
from ensue.data.posts.corpus import Corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.queries import Queries
from ensue.data.texts import Texts
from ensue.demo.cascades import make_cascades
from ensue.evaluation import comparison
from ensue.evaluation.comparison import compare, evaluate
from ensue.evaluation.leaks import Recorded, reads_others
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
    world = make_cascades(seed=3, num_cascades=200)
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
    world = make_cascades(seed=3, num_cascades=200)
    made = NextPredictor("markov")
    list(made.fit(world.train))
    clean = evaluate(made, world.test)
    assert clean.leaks == () and "leaks" not in clean.to_dict() and "- leaks" not in made.card(clean.card_text())
    monkeypatch.setattr(comparison, "reads_others", lambda *_: "7 of 8 records are answered differently")
    with pytest.raises(SettingError, match=r"^markov: its scores depend on other rows: 7 of 8 .* independently$"):
        compare([[made]], world.test)
    found = evaluate(made, world.test)
    assert found.to_dict()["leaks"] == [*found.leaks] and "7 of 8" in found.leaks[0]
    assert "- leaks: markov: its scores depend on other rows" in made.card(found.card_text())
