"""The evaluator of suggestions: figures by hand, intervals by whole sessions, the paper's rules, and who wins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from ensue import DataError, History, SettingError
from ensue.data.histories import Histories
from ensue.data.queries import Queries
from ensue.evaluation import bootstrap
from ensue.evaluation.bootstrap import PairedTest
from ensue.evaluation.comparison import compare, evaluate
from ensue.evaluation.result import Result
from ensue.evaluation.suggest import METRICS
from ensue.tasks.suggest.predictor import SuggestPredictor

TRAIN = [("red boat", "buy red boat")] * 3 + [("red boat", "red car")] * 2 + [("a kite", "buy a kite")] * 2
TEST = [("red boat", "red car", "what is a kite"), ("a kite", "buy a kite")]


def queries(sessions: Sequence[Sequence[str]], **columns: object) -> Queries:
    return Queries(Histories.of(History(tuple(values)) for values in sessions), **columns)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "RESAMPLES", 50)


def counted(sessions: Sequence[Sequence[str]] = TRAIN) -> SuggestPredictor:
    made = SuggestPredictor("most-frequent-next", settings={"min_users": 1})
    list(made.fit(queries(sessions)))
    return made


def figures(found: Result, model: str) -> dict[str, float]:
    return dict(next(row for row in found.rows if row.model == model).figures)


def test_figures_by_hand() -> None:
    found = evaluate(counted(), queries(TEST))
    repeat, follow = figures(found, "repeat-last"), figures(found, "most-frequent-next")
    # Targets: "red car" after red boat; "what is a kite" after red car; "buy a kite" after a kite.
    # repeat-last says "red boat" (1 of 2 words), "red car" (0 of 2), "a kite" (2 of 2; one bigram right of one).
    assert repeat["precision@1"] == pytest.approx(3 / 6) and repeat["precision@2"] == pytest.approx(1 / 3)
    assert (repeat["precision@3"], repeat["bleu"], repeat["exact"]) == (0, 0, 0)
    # Without stop words: red boat (1 of 2), red car (0 of 2), kite (1 of 1).
    assert repeat["content@1"] == pytest.approx(2 / 5)
    # most-frequent-next says "buy red boat" (red: 1 of 3), the same again, for nothing followed "red car" and only
    # "red boat", which was typed, is typed more (0 of 3), and "buy a kite" (3 of 3). The true query stands at 2,
    # nowhere, and 1.
    assert follow["precision@1"] == pytest.approx(4 / 9) and follow["exact"] == pytest.approx(1 / 3)
    assert follow["mrr@10"] == pytest.approx((1 / 2 + 0 + 1) / 3) and follow["recall@10"] == pytest.approx(2 / 3)


def test_by_length_and_by_pair() -> None:
    row, *_ = evaluate(counted(), queries(TEST)).rows
    assert {name: own["targets"] for name, own in row.notes["by_length"].items()} == {"1": 2, "2": 1}
    assert row.notes["by_length"]["1"]["mrr@10"] == pytest.approx(3 / 4)
    assert {name: own["targets"] for name, own in row.notes["by_pair"].items()} == {"seen": 2, "unseen": 1}
    assert row.notes["by_pair"]["unseen"]["mrr@10"] == 0


def test_intervals_resample_whole_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten sessions that are right and ten that are wrong: a resample's share of right ones, literally."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 1000)
    test = [("a kite", "buy a kite")] * 10 + [("red boat", "a kite")] * 10
    row, *_ = evaluate(counted(), queries(test)).rows
    random = np.random.default_rng(0)
    drawn = [np.mean(random.integers(20, size=20) < 10) for _ in range(1000)]
    assert row.interval["exact"] == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))


def test_bleu_is_that_of_sacrebleu() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    random = np.random.default_rng(1)
    test = [[" ".join(random.choice(list("abcde"), random.integers(4, 8))) for _ in range(3)] for _ in range(40)]
    found = figures(evaluate(counted(), queries(test)), "repeat-last")
    said, true = ([text for own in test for text in own[part]] for part in (slice(0, 2), slice(1, 3)))
    expected = sacrebleu.corpus_bleu(said, [true], tokenize="none", smooth_method="none", force=True)
    assert 100 * found["bleu"] == pytest.approx(expected.score)
    assert [100 * found[f"precision@{n}"] for n in range(1, 5)] == pytest.approx(expected.precisions)


def test_the_papers_rules() -> None:
    long = " ".join("abcdefghijk")
    test = [
        ("what's a?", "b!", "b", "c"),  # b comes twice once marks are gone: three queries are left
        ("a", long, "b"),  # the long query goes, two are left, the session goes
        tuple("abcdef"),  # six queries
        ("x", "y"),
    ]
    found = evaluate(counted(), queries(test), protocol="paper")
    assert found.card["data"] == "1 session, 3 queries, sessions of 3 to 5 queries of at most 10 words"
    assert found.card["targets"].startswith("2: every query after the first of its session; ")


def test_the_test_part_is_scored_and_of_it_what_is_novel() -> None:
    parts, sessions = pl.Series(["train", "test", "test"]), [("a", "b"), ("c", "d"), ("e", "f", "g")]
    whole = evaluate(counted(), queries(sessions, parts=parts))
    assert whole.card["data"] == "2 sessions, 5 queries; the part test of the file"
    novel = evaluate(counted(), queries(sessions, parts=parts, novel=np.array([False, False, True])))
    assert novel.card["data"] == "1 session, 3 queries; of the part test (2) those that the file marks as novel"


def test_the_card_counts_what_can_be_found() -> None:
    card = evaluate(counted(), queries(TEST)).card
    assert card["targets"] == (
        "3: every query after the first of its session; 2 (66.7 %) are queries of the training data, "
        "2 (66.7 %) reach the k-anonymity threshold"
    )
    assert card["leaked"] == "2 (66.7 %) of the targets follow the same query in the training data"


def test_several_seeds_are_averaged() -> None:
    found = compare([[counted(), counted([("red boat", "red car")])]], queries(TEST))
    one, other = (
        figures(evaluate(own, queries(TEST)), "most-frequent-next")
        for own in (counted(), counted([("red boat", "red car")]))
    )
    both = figures(found, "most-frequent-next")
    assert both == pytest.approx({name: (one[name] + other[name]) / 2 for name in METRICS})
    assert found.rows[0].notes["seeds"] == 2


@pytest.mark.parametrize(
    ("duel", "winner", "sentence"),
    [
        (
            ("mtn", (0.12, 0.08), 0.01),
            "mtn",
            "mtn is significantly better than c (baseline): BLEU +4.00 points (95 % CI 0.00 to 0.00, p = .010)",
        ),
        (
            ("mtn", (0.05, 0.08), 0.01),
            "c",
            "c (baseline) is significantly better than mtn: BLEU +3.00 points (95 % CI 0.00 to 0.00, p = .010)",
        ),
        (
            ("mtn", (0.09, 0.08), 0.2),
            None,
            "mtn and c (baseline) do not differ significantly: BLEU +1.00 points (95 % CI 0.00 to 0.00, p = .200)",
        ),
        ((None, (0.08, 0.08), 1.0), None, "only baselines were scored: c (baseline) has the highest BLEU (8.00 %)"),
        ((None, (0.0, 0.0), 1.0), None, "only baselines were scored: none has a BLEU above 0"),
    ],
)
def test_who_wins(duel: tuple[str | None, tuple[float, float], float], winner: str | None, sentence: str) -> None:
    made = PairedTest("bleu", duel[0], "c", duel[1], duel[2])
    assert (made.winner, made.sentence) == (winner, sentence)


def test_the_card_of_a_folder_says_what_it_keeps() -> None:
    made = counted()
    text = made.card(evaluate(made, queries(TEST)).card_text())
    assert (
        "| model | BLEU | n-gram precision@1 |" in text
        and "## Stored data" in text
        and "only baselines were scored" in text
    )
    assert "None yet: run `ensue evaluate FOLDER TEST`." in made.card()
    assert not math.isnan(evaluate(made, queries(TEST)).rows[0].figures["bleu"])


def test_refusals() -> None:
    with pytest.raises(DataError, match=r"^nothing to score: no session has two queries$"):
        evaluate(counted(), queries([("a",), ("b",)]))
    with pytest.raises(SettingError) as error:
        evaluate(counted(), queries(TEST), protocol="macro")
    assert str(error.value) == "protocol 'macro' is not known for task suggest; choose from full, paper"
