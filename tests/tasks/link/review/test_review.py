"""Reviews: one review by hand, and the promise kept in simulated reviews."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from ensue import SettingError
from ensue.data.histories import Index
from ensue.tasks.link.review.review import Progress, ReviewSettings, review
from ensue.text.sparse import SparseRows, sparse_rows

Mask = npt.NDArray[np.bool_]


@dataclass
class Reader:
    """Somebody whose labels are kept outside of the review."""

    truth: Mask
    read: list[int]
    looks: int = 0

    def ask(self, posts: Index) -> Mask:
        self.read += posts.tolist()
        return self.truth[posts]

    def look(self) -> int:
        self.looks += 1
        return self.looks - 1

    def labels(self) -> tuple[Index, Mask]:
        return np.array(self.read, np.int64), self.truth[self.read]


def features(truth: Mask, seed: int, noise: float) -> tuple[npt.NDArray[np.float64], SparseRows]:
    """Scores and two-column rows that know something of the truth."""
    random = np.random.default_rng(seed)
    start = truth + noise * random.normal(size=len(truth))
    angles = np.where(truth, 0.3, 1.2) + 0.3 * random.normal(size=len(truth))
    owners, columns = np.repeat(np.arange(len(truth)), 2), np.tile([0, 1], len(truth))
    values = np.stack([np.cos(angles), np.sin(angles)], axis=1).ravel()
    return start, sparse_rows(owners, columns, values, (len(truth), 2))


def test_labels_re_rank_the_rest() -> None:
    # Six posts of two words: the first two are labelled, one of each kind, then word 0 wins though word 1 began higher.
    truth = np.array([True, False, False, True, False, True])
    rows = sparse_rows(np.arange(6), np.array([0, 1, 1, 0, 1, 0]), np.ones(6), (6, 2))
    asked: list[list[int]] = []

    def ask(posts: Index) -> Mask:
        asked.append(posts.tolist())
        return truth[posts]

    start = np.array([1.0, 0.9, 0.5, 0.4, 0.3, 0.2])
    last = list(review(start, rows, ask, ReviewSettings(batch=2, patience=2)))[-1]
    # Post 3 (word 0) is next, not 2 (word 1).
    assert asked[:2] == [[0, 1], [3, 5]]
    assert last.reached and last.found == 3
    assert last.sentence.endswith("recall at least 1.00; the target is reached")


@pytest.mark.parametrize(("found", "patience", "dry"), [(60, 1, 135), (30, 1, 243), (60, 300, 300)])
def test_reading_goes_on_while_the_rest_may_hold_too_many(found: int, patience: int, dry: int) -> None:
    # 60 found let 6 be missed: 135 dry posts in a row speak for at most 6 in 810, and 805 are unread.
    truth = np.arange(1000) < found
    rows = sparse_rows(np.arange(1000), np.zeros(1000, np.int64), np.zeros(1000), (1000, 1))
    asked: list[int] = []

    def ask(posts: Index) -> Mask:
        asked.extend(posts.tolist())
        return truth[posts]

    for _ in review(-np.arange(1000.0), rows, ask, ReviewSettings(batch=1, patience=patience)):
        if asked[-1] != len(asked) - 1:  # the first post of an audit
            break
    assert next(place for place, post in enumerate(asked) if place != post) == found + dry


def test_posts_without_words_can_be_labelled() -> None:
    none = np.empty(0, np.int64)
    truth = np.arange(40) % 4 == 0
    last = list(review(truth + 0.0, sparse_rows(none, none, np.empty(0), (40, 3)), partial(np.take, truth)))[-1]
    assert last.reached and last.found == 10


def test_a_review_ends_when_the_reader_stops_and_goes_on_later() -> None:
    truth = np.arange(100) < 10
    start, rows = features(truth, 0, 0.1)
    asked: list[int] = []

    def ask(posts: Index) -> Mask:
        asked.extend(posts.tolist())
        return truth[posts][: 3 if len(asked) > 10 else None]

    last = list(review(start, rows, ask))[-1]
    assert (last.labelled, last.reached, last.recall_at_least) == (13, False, None)
    assert last.sentence == "13 of 100 posts read, 10 relevant; recall cannot be estimated yet"
    shared = Reader(truth, asked[:13])
    last = list(review(start, rows, shared.ask, shared=shared))[-1]
    assert last.reached
    assert last.labelled == len(shared.read) == len(set(shared.read)) > 13


def test_nothing_relevant_is_read_to_the_end() -> None:
    truth = np.zeros(30, bool)
    start, rows = features(truth, 0, 1.0)
    last = list(review(start, rows, partial(np.take, truth)))[-1]
    assert (last.labelled, last.found, last.reached, last.recall_at_least) == (30, 0, True, None)


def test_the_promise_is_kept_and_labels_are_saved() -> None:
    wrong, labels = 0, []
    for seed in range(30):
        truth = np.random.default_rng(seed).random(1000) < 0.1
        start, rows = features(truth, seed, 0.3)
        last = list(review(start, rows, partial(np.take, truth), ReviewSettings(seed=seed)))[-1]
        assert last.reached
        wrong += last.found < 0.9 * truth.sum()
        labels.append(last.labelled)
    # 30 x .05 = 1.5; more than 5 have a chance under half a percent.
    assert wrong <= 5
    assert np.mean(labels) < 500


def test_a_blind_ranking_does_not_break_the_promise() -> None:
    wrong = 0
    for seed in range(30):
        random = np.random.default_rng(seed)
        truth = random.random(300) < 0.2
        rows = sparse_rows(np.arange(300), random.integers(0, 5, 300), np.ones(300), (300, 5))
        settings = ReviewSettings(seed=seed, patience=10)
        last = list(review(random.random(300), rows, partial(np.take, truth), settings))[-1]
        wrong += last.found < 0.9 * truth.sum()
    assert wrong <= 5  # 30 x .05 = 1.5; more than 5 have a chance under half a percent


def test_progress_in_words() -> None:
    progress = Progress(1000, 120, 45, 1, 5, True)
    # 45 / (45 + 5)
    assert progress.recall_at_least == 0.9
    assert progress.sentence == (
        "120 of 1,000 posts read, 45 relevant, at most 5 unread: recall at least 0.90; the target is reached"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": 1.0}, "target is 1.0; it must be between 0 and 1"),
        ({"confidence": 0.0}, "confidence is 0.0; it must be between 0 and 1"),
        ({"batch": 0}, "batch is 0; it must be at least 1"),
    ],
)
def test_refused_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError) as error:
        ReviewSettings(**settings)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_looks_that_were_taken_leave_less_chance_of_error() -> None:
    truth = np.arange(400) < 30
    start, rows = features(truth, 0, 0.1)
    readers = [Reader(truth, [], looks) for looks in (0, 4)]
    labels = [list(review(start, rows, reader.ask, shared=reader))[-1].labelled for reader in readers]
    # After four looks alpha is 1/16 of what it was: the sample must be larger.
    assert labels[1] > labels[0]
