"""What every network of the task must hold, called from the test of each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ensue.schedule import Schedule
from ensue.tasks.suggest.batch import BEGIN, END, FIRST_TOKEN, PADDING, QueryBatch, pad, select
from ensue.tasks.suggest.model import score
from ensue.training.optimizer import make_optimizer
from tests.oracles.suggest import target_log_likelihoods

NUM_IDS = 13
SESSIONS = [
    [[5, 6, 7], [8], [9, 5], [4, 4, 4, 4]],
    [[10, 11], [12, 1, 5]],
    [[7], [7, 8, 9], [6, 12]],
]


def shaken(model: Any) -> Any:
    """Weights that are all large enough to matter, in float64."""
    torch.manual_seed(0)
    for parameter in model.double().parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.eval()


def scored(model: Any, batch: QueryBatch, candidates: Tensor) -> Tensor:
    """(rows, choices) log-probabilities of (rows, choices, width) ids as the next query of each row."""
    return score(model.writer, model.encode(batch), candidates)


def prefixes(sessions: list[list[list[int]]]) -> list[tuple[list[list[int]], list[int]]]:
    return [(session[:turn], session[turn]) for session in sessions for turn in range(1, len(session))]


def equals_the_loop(model: Any) -> None:
    """Loss, scores and steps, against one session and one token at a time."""
    expected = [target_log_likelihoods(model, *pair) for pair in prefixes(SESSIONS)]
    every = torch.stack([value for values in expected for value in values])
    torch.testing.assert_close(model.loss(pad(SESSIONS)), -every.mean(), rtol=0, atol=1e-10)
    batch = pad([before for before, _ in prefixes(SESSIONS)])
    targets = pad([[target] for _, target in prefixes(SESSIONS)]).words
    sums = torch.stack([torch.stack(values).sum() for values in expected])
    torch.testing.assert_close(scored(model, batch, targets)[:, 0], sums, rtol=0, atol=1e-10)
    before, target = prefixes(SESSIONS)[2]
    torch.testing.assert_close(stepped(model, pad([before]), target), torch.stack(expected[2]), rtol=0, atol=1e-10)


def stepped(model: Any, batch: QueryBatch, target: list[int]) -> Tensor:
    """The log-probability of each token of a target and its end, a step at a time; each step's shares sum to 1."""
    memory = model.encode(batch)
    state, found, read = model.writer.start(memory), [], BEGIN
    for id in [*target, END]:
        log_shares, state = model.writer.step(memory, state, torch.tensor([read]))
        torch.testing.assert_close(log_shares.exp().sum(), torch.ones((), dtype=torch.float64))
        assert log_shares[0, PADDING] == -torch.inf
        found.append(log_shares[0, id])
        read = id
    return torch.stack(found)


def all_prefixes_at_once_equal_each_alone(model: Any) -> None:
    """In training mode too, where nothing is dropped."""
    model.train()
    whole, total = pad(SESSIONS), torch.zeros((), dtype=torch.float64)
    for before, target in prefixes(SESSIONS):
        alone = pad([[*before, target]])
        total = total - scored(model, pad([before]), alone.words[:, -1:]).sum()
    torch.testing.assert_close(model.loss(whole) * whole.num_targets, total, rtol=0, atol=1e-8)


def later_queries_change_nothing(model: Any, likelihoods: Any) -> None:
    """Bit for bit: the log-likelihood of the targets before them, token by token."""
    batch = pad([SESSIONS[0]])
    before = likelihoods(model, batch)
    changed = batch.words.clone()
    changed[0, 3] = torch.tensor([12, 11, 10, 9])
    after = likelihoods(model, batch._replace(words=changed))
    turn = batch.followed.nonzero()[:, 1]
    earlier = turn < 2  # their targets are queries 1 and 2
    assert torch.equal(before[earlier], after[earlier])
    assert not torch.equal(before[~earlier], after[~earlier])


def padding_and_batch_mates_are_invisible(model: Any) -> None:
    candidates = pad([[[5, 6]], [[7]], [[8, 9, 10]]]).words
    whole = scored(model, pad(SESSIONS), candidates)
    for row, session in enumerate(SESSIONS):
        torch.testing.assert_close(scored(model, pad([session]), candidates[row : row + 1])[0], whole[row])
    batch = pad(SESSIONS)
    words = nn.functional.pad(batch.words, (0, 3, 0, 2))
    wider = QueryBatch(words, nn.functional.pad(batch.lengths, (0, 2)))
    torch.testing.assert_close(scored(model, wider, nn.functional.pad(candidates, (0, 2))), whole)
    torch.testing.assert_close(model.loss(wider), model.loss(batch))


def a_session_without_queries_is_finite(model: Any) -> None:
    batch = pad([SESSIONS[0], []])
    memory = model.encode(batch)
    log_shares, _ = model.writer.step(memory, model.writer.start(memory), torch.tensor([BEGIN, BEGIN]))
    assert log_shares[:, FIRST_TOKEN:].isfinite().all()
    alone = model.encode(pad([SESSIONS[0]]))
    expected, _ = model.writer.step(alone, model.writer.start(alone), torch.tensor([BEGIN]))
    torch.testing.assert_close(log_shares[:1], expected)


def rows_can_be_picked_and_share_a_memory(model: Any) -> None:
    """Beams side by side over one memory equal beams with memories of their own."""
    memory = model.encode(pad(SESSIONS))
    index = torch.tensor([0, 0, 1, 1, 2, 2])
    own = select(memory, index)
    tokens = torch.tensor([[5, 6, 7, 8, 9, 10], [4, 4, 5, 6, 7, 12]])
    one, many = model.writer.start(memory).select(index), model.writer.start(own)
    for step in tokens:
        shared, one = model.writer.step(memory, one, step)
        alone, many = model.writer.step(own, many, step)
        torch.testing.assert_close(shared, alone)
    order = torch.tensor([1, 0, 3, 3, 4, 5])
    turned, _ = model.writer.step(memory, one.select(order), torch.full((6,), 5))
    plain, _ = model.writer.step(memory, one, torch.full((6,), 5))
    torch.testing.assert_close(turned, plain[order])
    choices = pad([[[5, 4], [6, 4]], [[7, 5], [8, 6]], [[9, 7], [10, 12]]]).words
    together = scored(model, pad(SESSIONS), choices)
    for row in range(3):
        for choice in range(2):
            single = scored(model, pad([SESSIONS[row]]), choices[row : row + 1, choice : choice + 1])
            torch.testing.assert_close(together[row, choice], single[0, 0])
    assert (scored(model, pad(SESSIONS), torch.zeros_like(choices)) == -torch.inf).all()


def gradients_are_right(model: Any) -> None:
    """Of the loss, by every parameter, numerically; and none is left out."""
    batch = pad([[[5, 6, 8], [7, 9], [8, 5]]])
    names = [name for name, _ in model.named_parameters()]

    def value(*tensors: Tensor) -> Tensor:
        state = {f"model.{name}": tensor for name, tensor in zip(names, tensors, strict=True)}
        held: Tensor = torch.func.functional_call(_Loss(model), state, (batch,))
        return held

    assert torch.autograd.gradcheck(
        value, [p.detach().clone().requires_grad_() for p in model.parameters()], fast_mode=True
    )
    model.loss(batch).backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert idle == []


class _Loss(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: QueryBatch) -> Tensor:
        loss: Tensor = self.model.loss(batch)
        return loss


def what_words_leaned_on_sums_to_one(model: Any, *, window: int | None = None) -> None:
    batch, candidates = pad(SESSIONS), pad([[[5, 6]], [[7]], [[8, 9, 10]]]).words[:, 0]
    leaned = model.attributions(batch, candidates)
    assert leaned.shape == (3, 3, 4, 4)
    torch.testing.assert_close(leaned.sum((2, 3)), (candidates > 0).double())
    assert (leaned >= 0).all() and (leaned * ~batch.mask[:, None] == 0).all()
    if window is not None:
        assert leaned[0].sum(2)[:, : len(SESSIONS[0]) - window].sum() == pytest.approx(0)
    for row, session in enumerate(SESSIONS):
        length = int((candidates[row] > 0).sum())
        alone = model.attributions(pad([session]), candidates[row : row + 1, :length])[0]
        turns, width = alone.shape[1:]
        torch.testing.assert_close(alone, leaned[row, :length, :turns, :width])


def planted(seed: int, rows: int = 32) -> list[list[list[int]]]:
    """Sessions whose third query is decided by the first; the second says nothing of it."""
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.randint(6, (rows, 2), generator=generator).tolist()
    return [
        [[FIRST_TOKEN + first, 10], [11, FIRST_TOKEN + second], [12, FIRST_TOKEN + first]] for first, second in kinds
    ]


def share_learned(model: Any, steps: int = 80, rate: float = 0.005) -> float:
    """How often the planted word comes out on top after some training."""
    torch.manual_seed(0)
    optimizer = make_optimizer(model, Schedule(learning_rate=rate, weight_decay=0.0))
    for step in range(steps):
        model.train()
        optimizer.zero_grad()
        model.loss(pad(planted(step))).backward()
        optimizer.step()
    model.eval()
    held = planted(10_000, rows=100)
    with torch.no_grad():
        memory = model.encode(pad([session[:2] for session in held]))
        _, state = model.writer.step(memory, model.writer.start(memory), torch.full((100,), BEGIN))
        log_shares, _ = model.writer.step(memory, state, torch.full((100,), 12))
    wanted = torch.tensor([session[2][1] for session in held])
    return float((log_shares.argmax(1) == wanted).double().mean())
