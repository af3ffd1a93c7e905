"""What every session model of a GRU, attention or graph keeps beside its equations: a class per model inherits it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from ensue.schedule import Schedule
from tests.oracles import promises
from tests.oracles import sessions as oracles
from tests.tasks.next.batches import NUM_IDS

LOSSES = pytest.mark.parametrize("loss", ["ce", "sampled"])


class SessionModelContract:
    """The promises of a session model.

    Attributes:
        tiny: settings of the model whose gradients are checked number by number.
        learning: settings of the model that learns a planted pattern.
        epochs: in which it does.
    """

    tiny: ClassVar[dict[str, Any]] = {"dim": 2}
    learning: ClassVar[dict[str, Any]] = {"dim": 16}
    epochs = 25

    def small(self, num_ids: int = NUM_IDS, **changes: Any) -> Any:
        """Return a small model."""
        raise NotImplementedError

    def test_padding_is_invisible(self) -> None:
        promises.hides_padding(oracles.ramped(self.small(max_length=3)))

    def test_the_future_changes_nothing_earlier(self) -> None:
        promises.knows_no_future(oracles.ramped(self.small(max_length=3)))

    def test_the_weights_are_distributions_over_what_came_before(self) -> None:
        oracles.weighs_what_came_before(oracles.ramped(self.small()))

    def test_loss_is_cross_entropy(self) -> None:
        oracles.loss_is_cross_entropy(oracles.ramped(self.small()))

    @LOSSES
    def test_gradients(self, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model = oracles.ramped(self.small(6, max_length=3, loss=loss, **self.tiny), size=0.5).train()
        oracles.fix_draws(model, monkeypatch)
        oracles.has_exact_gradients(model)

    @LOSSES
    def test_learns_a_planted_pattern(self, loss: str) -> None:
        schedule = Schedule(epochs=self.epochs, batch_size=8, learning_rate=0.02, weight_decay=0.0)
        assert oracles.hits(lambda num_ids: self.small(num_ids, loss=loss, **self.learning), schedule) >= 0.95

    def test_half_precision(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = self.small(loss="sampled")
        oracles.fix_draws(model, monkeypatch)
        oracles.survives_half_precision(model)

    def test_growing_changes_no_old_score(self) -> None:
        oracles.grows(oracles.ramped(self.small()))
