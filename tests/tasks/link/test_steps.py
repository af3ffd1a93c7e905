"""Networks of few links are trained in as many steps as those of a small corpus."""

from __future__ import annotations

from ensue.tasks.link.predictor import LinkPredictor
from tests.tasks.link.checks import planted


def fitted(links: int, **settings: object) -> tuple[int, int]:
    """Pairs a batch and epochs at most."""
    schedule = LinkPredictor("cnn", settings=settings).schedule
    assert schedule is not None
    found = schedule.fitted(links, links)
    return found.batch_size, found.epochs


def test_few_links_have_smaller_batches_and_more_epochs() -> None:
    # Of 23 steps an epoch and 10 epochs: 100 links make 4 batches of 32, so 57 epochs, of which 40 are the most;
    # 200 make 7, so 32; PolitiFact's 1,502 make 24 of 64.
    assert [fitted(num) for num in (100, 200, 1502, 35_000)] == [(32, 40), (32, 32), (64, 10), (64, 10)]


def test_what_is_set_by_hand_stays() -> None:
    assert fitted(100, epochs=3) == (32, 3)
    assert fitted(100, batch_size=64, epochs=3) == (64, 3)
    assert fitted(100, batch_size=16) == (16, 10)


def test_a_folder_says_which_schedule_was_taken() -> None:
    settings = {"dim": 8, "hidden": 8, "filters": 8, "patience": 1, "learning_rate": 0.5, "pretrain": "none", "bag": 0}
    predictor = LinkPredictor("cnn", settings=settings, device="cpu")
    list(predictor.fit(planted()))
    assert predictor.metadata.notes == ["44 links: 32 per batch and at most 40 epochs"]
