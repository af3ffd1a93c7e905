"""The mixture: its formula, its beginning, what it learns, the same bytes."""

from __future__ import annotations

import torch

from ensue.next_event.mixture import Mixture

START = torch.tensor([0.5, -0.25, 1.0])


def data(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Targets drawn by a score that no line says: the second part counts where the first is high."""
    generator = torch.Generator().manual_seed(seed)
    known = torch.randn(rows, 12, 3, generator=generator)
    before = torch.randint(1, 40, (rows,), generator=generator).float()
    scores = 3 * known[..., 1] * (known[..., 0] > 0)
    target = torch.multinomial(scores.softmax(1), 1, generator=generator)
    first = torch.arange(12).repeat(rows, 1).scatter(1, target, 0)
    first[:, 0] = target[:, 0]
    return known.gather(1, first[:, :, None].expand(-1, -1, 3)), before, torch.zeros(rows, 12)


def missed(mixture: Mixture, rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> float:
    scores = mixture(*rows[:2]) + rows[2]
    return float((scores.logsumexp(1) - scores[:, 0]).mean())


def test_begins_as_the_line() -> None:
    known, before, _ = data(5, 0)
    torch.testing.assert_close(Mixture(START)(known, before), known @ START)


def test_is_the_formula() -> None:
    known, before, _ = data(5, 0)
    mixture = Mixture(START)
    mixture.learn(*data(64, 1))
    standard = (known - mixture.mean) / mixture.spread
    inside = torch.cat([standard, before.log1p()[:, None, None].expand(-1, 12, 1)], 2)
    bent = torch.relu(inside @ mixture.inner.T + mixture.bias) @ mixture.outer
    torch.testing.assert_close(mixture(known, before), known @ mixture.weights + bent)


def test_learns_what_no_line_says() -> None:
    train, test = data(2000, 1), data(500, 2)
    line = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.LBFGS([line], max_iter=100)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scores = train[0] @ line
        own = (scores.logsumexp(1) - scores[:, 0]).mean()
        own.backward()  # type: ignore[no-untyped-call]
        return own

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    straight, bent = Mixture(line.detach()), Mixture(START)
    bent.learn(*train)
    assert missed(bent, test) < 0.9 * missed(straight, test)


def test_what_is_no_candidate_is_not_learned_from() -> None:
    known, before, added = data(200, 1)
    wider = torch.cat([known, torch.full((200, 4, 3), 2.0)], 1)
    wider[:, 12:] += torch.randn(200, 4, 3, generator=torch.Generator().manual_seed(0))
    mixture = Mixture(START)
    mixture.learn(wider, before, torch.cat([added, torch.full((200, 4), -torch.inf)], 1))
    assert missed(mixture, (known, before, added)) < missed(Mixture(START), (known, before, added))
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
