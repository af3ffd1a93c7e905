"""The mixture: its formula, its beginning, what it learns, the same bytes."""

from __future__ import annotations

import pytest
import torch

from ensue.tasks.next.ensembles.cascade_blend import Mixture

START = torch.tensor([0.5, -0.25, 1.0])


def data(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets drawn by a score that no line says: the second part counts where the first is high."""
    generator = torch.Generator().manual_seed(seed)
    known = torch.randn(3, rows, 12, generator=generator)
    scores = 3 * known[1] * (known[0] > 0)
    target = torch.multinomial(scores.softmax(1), 1, generator=generator)
    first = torch.arange(12).repeat(rows, 1).scatter(1, target, 0)
    first[:, 0] = target[:, 0]
    return known.gather(2, first.expand(3, -1, -1)), torch.zeros(rows, 12)


def missed(mixture: Mixture, rows: tuple[torch.Tensor, torch.Tensor]) -> float:
    scores = mixture(rows[0]) + rows[1]
    return float((scores.logsumexp(1) - scores[:, 0]).mean())


def test_begins_as_the_line() -> None:
    known, _ = data(5, 0)
    torch.testing.assert_close(Mixture(START)(known), known.permute(1, 2, 0) @ START)


def test_is_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensue.tasks.next.ensembles.cascade_blend.COLUMNS", 7)
    known, _ = data(5, 0)
    mixture = Mixture(START)
    mixture.learn(*data(64, 1))
    last = known.permute(1, 2, 0)
    bent = torch.relu((last - mixture.mean) / mixture.spread @ mixture.inner.T + mixture.bias) @ mixture.outer
    torch.testing.assert_close(mixture(known), last @ mixture.weights + bent)


def test_learns_what_no_line_says() -> None:
    train, test = data(2000, 1), data(500, 2)
    line = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.LBFGS([line], max_iter=100)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scores = train[0].permute(1, 2, 0) @ line
        own = (scores.logsumexp(1) - scores[:, 0]).mean()
        own.backward()  # type: ignore[no-untyped-call]
        return own

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    straight, bent = Mixture(line.detach()), Mixture(START)
    bent.learn(*train)
    assert missed(bent, test) < 0.9 * missed(straight, test)


def test_what_is_no_candidate_is_not_learned_from() -> None:
    known, added = data(200, 1)
    others = 2.0 + torch.randn(3, 200, 4, generator=torch.Generator().manual_seed(0))
    mixture = Mixture(START)
    mixture.learn(torch.cat([known, others], 2), torch.cat([added, torch.full((200, 4), -torch.inf)], 1))
    assert missed(mixture, (known, added)) < missed(Mixture(START), (known, added))
    assert all(bool(tensor.isfinite().all()) for tensor in mixture.state_dict().values())


def test_the_same_data_give_the_same_bytes_whatever_was_drawn_before() -> None:
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        mixture = Mixture(START)
        mixture.learn(*data(100, 3))
        found.append(mixture.state_dict())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert not any(tensor.requires_grad for tensor in found[0].values())


def test_few_targets_move_the_line_little_and_many_move_it_far() -> None:
    """One part is right by 3 nats: w begins at 0, and with n targets a prior worth ``PRIOR`` of them holds it there."""
    weights = []
    for rows in (3, 30, 1000):
        known = torch.randn(1, rows, 12, generator=torch.Generator().manual_seed(0))
        known[:, :, 0] += 3.0
        mixture = Mixture(torch.zeros(1))
        mixture.spread.copy_(known.std((1, 2)))
        mixture._learn_line(known, torch.zeros(rows, 12))
        weights.append(float(mixture.weights))
    assert 0 < weights[0] < 0.8 < weights[1] < 1.5 < weights[2]
