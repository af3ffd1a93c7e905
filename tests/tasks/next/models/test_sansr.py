"""SANSR: all clicks in one pass equals a row a prefix equals a literal loop; padding and the future are invisible."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from ensue import SettingError
from ensue.nn.sampling import Sampler, sampled_cross_entropy
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.models.sansr import PAIRWISE, SANSR, SANSRBlock
from ensue.tasks.next.settings import SANSRSettings
from ensue.vocabulary import FIRST

NUM_IDS = 23


def network(seed: int = 0, **settings: object) -> SANSR:
    """A network whose weights are all large enough to matter, in float64."""
    torch.manual_seed(seed)
    made = SANSR(SANSRSettings(**{"dim": 12, "heads": 3, "max_length": 6, **settings}), NUM_IDS).double().eval()  # type: ignore[arg-type]
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def batch(*lengths: int, seed: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(FIRST, NUM_IDS, mask.shape, generator=generator) * mask
    targets = torch.randint(FIRST, NUM_IDS, (int(mask.sum()),), generator=generator)
    return Batch(ids, mask, torch.zeros(mask.shape, dtype=torch.float64), mask, targets)


def norm(vector: Tensor, layer: torch.nn.LayerNorm) -> Tensor:
    centred = vector - vector.mean()
    return layer.weight * centred / (centred.square().mean() + layer.eps).sqrt() + layer.bias


def literal(model: SANSR, clicks: list[int]) -> Tensor:
    """Eqs. 1-5 for the last click of one session, one number after the other."""
    settings, dim = model.settings, model.settings.dim
    clicks = clicks[-settings.max_length :]
    vectors = [
        math.sqrt(dim) * (model.items.weight[click] + model.positions.weight[len(clicks) - 1 - place])
        for place, click in enumerate(clicks)
    ]
    for block in model.blocks:
        assert isinstance(block, SANSRBlock)
        normed = [norm(vector, block.before) for vector in vectors]
        made = []
        for at in range(len(vectors)):
            heads = []
            for head in range(settings.heads):
                part = slice(head * dim // settings.heads, (head + 1) * dim // settings.heads)
                query = (block.query.weight @ normed[at])[part]
                scores = [query @ (block.key.weight @ other)[part] / math.sqrt(dim) for other in normed]
                exps = [torch.exp(score) for score in scores]
                values = [(block.value.weight @ other)[part] for other in normed]
                heads.append(sum(e / sum(exps) * value for e, value in zip(exps, values, strict=True)))
            attended = block.joined.weight @ torch.cat(heads)  # type: ignore[arg-type]
            inner = norm(attended + vectors[at] if settings.residual else attended, block.after)
            hidden = torch.clamp(block.wide.weight @ inner + block.wide.bias, min=0)
            fed = block.narrow.weight @ hidden + block.narrow.bias
            made.append(fed + inner if settings.residual else fed)
        vectors = made
    return vectors[-1]


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("blocks", [0, 1, 2])
@pytest.mark.parametrize("length", [1, 3, 50])
def test_equals_the_equations(blocks: int, length: int, residual: bool) -> None:
    model, asked = network(num_layers=blocks, max_length=length, residual=residual), batch(7, 1, 4)
    found, _ = model.encode(asked)
    rows = [literal(model, asked.ids[row, : step + 1].tolist()) for row, step in asked.target_mask.nonzero().tolist()]
    torch.testing.assert_close(found, torch.stack(rows), rtol=0, atol=1e-10)
    scores = model(asked).scores
    torch.testing.assert_close(scores[:, FIRST:], (torch.stack(rows) @ model.items.weight.T)[:, FIRST:])
    assert torch.isinf(scores[:, :FIRST]).all()


@pytest.mark.parametrize("length", [1, 4, 50])
def test_one_pass_equals_a_row_a_prefix(length: int) -> None:
    model, asked = network(max_length=length), batch(9, 3, 1)
    one, weights = model._one_pass(asked)
    many, same = model._prefixes(asked)
    torch.testing.assert_close(one, many, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights[asked.mask], same[asked.mask].double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(weights[asked.mask].sum(-1), torch.ones(13, dtype=torch.float64))


@pytest.mark.parametrize("blocks", [1, 2])
def test_padding_and_batch_mates_are_invisible(blocks: int) -> None:
    model, together = network(num_layers=blocks), batch(8, 2, 5)
    whole = model(together).scores.split([8, 2, 5])
    for row, length in enumerate((8, 2, 5)):
        ids, mask, times, asked = (tensor[row : row + 1, :length] for tensor in together[:4])
        alone = Batch(ids, mask, times, asked, together.targets)
        torch.testing.assert_close(model(alone).scores, whole[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("blocks", [1, 2])
def test_answers_to_long_sessions_are_those_at_their_last_steps(blocks: int) -> None:
    model, steps = network(num_layers=blocks, max_length=20), batch(12, 9)
    last = torch.zeros_like(steps.mask)
    last[[0, 1], [11, 8]] = True
    expected = model(steps)
    with torch.no_grad():
        answers = model(steps._replace(target_mask=last, targets=steps.targets[:0]))
    torch.testing.assert_close(answers.scores, expected.scores[[11, 20]], rtol=0, atol=1e-12)
    torch.testing.assert_close(
        answers.weights[0][last], expected.weights[0][last], rtol=0, atol=1e-6, check_dtype=False
    )


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_future_is_invisible(blocks: int) -> None:
    model, asked = network(num_layers=blocks), batch(8)
    before = model(asked).scores[:5]
    later = asked._replace(ids=torch.cat([asked.ids[:, :5], (asked.ids[:, 5:] - 1).clamp(min=FIRST)], 1))
    assert not torch.equal(later.ids, asked.ids)
    assert torch.equal(model(later).scores[:5], before)


@pytest.mark.parametrize("loss", ["ce"])
def test_gradients(loss: str) -> None:
    model, asked = network(dim=4, heads=2, max_length=3, loss=loss), batch(4, 2)
    names = [name for name, _ in model.named_parameters()]

    def value(*tensors: Tensor) -> Tensor:
        made = torch.func.functional_call(model, dict(zip(names, tensors, strict=True)), (asked,))
        return functional.cross_entropy(made.scores[:, FIRST:], asked.targets - FIRST)

    assert torch.autograd.gradcheck(
        value, [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    )


def test_full_softmax_is_the_cross_entropy_of_the_scores() -> None:
    model, asked = network(loss="ce"), batch(6, 3)
    expected = functional.cross_entropy(model(asked).scores[:, FIRST:], asked.targets - FIRST)
    torch.testing.assert_close(model.loss(asked), expected)


def test_the_printed_loss_is_bounded() -> None:
    """-ln sigmoid(p - q) with p, q in [0, 1] lies in [ln(1 + 1/e), ln(1 + e)] = [0.313, 1.313]."""
    for seed in range(5):
        value = network(seed, loss="bpr_softmax").loss(batch(9, 9, seed=seed)).item()
        assert math.log(1 + math.exp(-1)) <= value <= math.log(1 + math.e)


@pytest.mark.parametrize("loss", ["bpr", "bpr_softmax"])
def test_pairwise_losses_compare_each_target_with_32_items_outside_its_session(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = batch(5, 2, 7)
    seen = []

    def spied(hidden: Tensor, items: nn.Embedding, targets: Tensor, negatives: Tensor) -> Tensor:
        seen.append(negatives)
        return hidden.sum()

    monkeypatch.setitem(PAIRWISE, loss, spied)
    network(loss=loss).loss(asked)
    (negatives,) = seen
    assert negatives.shape == (14, 32) and len({*map(tuple, negatives.tolist())}) == 14
    targets = iter(asked.targets.tolist())
    sessions = [{*ids[:num].tolist()} for ids, num in zip(asked.ids, (5, 2, 7), strict=True)]
    owners = [session for session, num in zip(sessions, (5, 2, 7), strict=True) for _ in range(num)]
    for owner in owners:
        owner.add(next(targets))
    assert all({*drawn}.isdisjoint({*owner, 0, 1}) for drawn, owner in zip(negatives.tolist(), owners, strict=True))


@pytest.mark.parametrize("blocks", [1, 2])
def test_weights_of_repeated_and_early_events_are_all_kept(blocks: int) -> None:
    """Places before the first event fall on event 0, whose own weight must stand beside theirs."""
    model = network(num_layers=blocks, max_length=6)
    asked = batch(9, 3, 1)
    asked = asked._replace(ids=torch.where(asked.mask, 5, 0))
    (weights,) = model(asked).weights
    torch.testing.assert_close(weights.sum(-1)[asked.mask], torch.ones(13, dtype=weights.dtype))
    (_, prefixes) = model._prefixes(asked)
    assert torch.equal(prefixes[2, 0, :1], torch.ones(1)), "the first event attends to itself alone"
    if blocks == 1:
        torch.testing.assert_close(prefixes.to(weights)[asked.mask], weights[asked.mask], atol=1e-6, rtol=0)


def test_sampled_softmax_comes_close_to_the_full_one() -> None:
    """With many draws the corrected sum over samples estimates the full one."""
    torch.manual_seed(0)
    items, hidden, targets = nn.Embedding(402, 6), torch.randn(9, 6), torch.arange(2, 11)
    sampler = Sampler(402)
    sampler.count(torch.arange(402).float())
    full = functional.cross_entropy((hidden @ items.weight.T)[:, FIRST:], targets - FIRST)
    drawn = [sampled_cross_entropy(hidden, items, targets, sampler, 399).item() for _ in range(200)]
    assert len(set(drawn)) == 200
    assert sum(drawn) / 200 == pytest.approx(full.item(), rel=0.01)


@pytest.mark.parametrize("loss", ["sampled", "ce", *PAIRWISE])
def test_every_loss_reaches_every_parameter(loss: str) -> None:
    model = network(loss=loss).train()
    (value := model.loss(batch(9, 5, 9))).backward()  # type: ignore[no-untyped-call]
    assert math.isfinite(value.item())
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_no_tensor_of_time_by_time_by_dim() -> None:
    time, dim, largest = 48, 64, 0

    class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            made = func(*args, **(kwargs or {}))
            largest = max(
                [largest, *(t.numel() for t in (made if isinstance(made, tuple) else [made]) if isinstance(t, Tensor))]
            )
            return made

    model = network(dim=dim, heads=2, max_length=time)
    with Largest():  # type: ignore[no-untyped-call]
        model.loss(batch(time)).backward()  # type: ignore[no-untyped-call]
    assert 2 * time * time <= largest < time * time * dim / 4


def test_growing_keeps_old_answers() -> None:
    model, asked = network(), batch(5, 3)
    grown = model.grow(NUM_IDS + 4).double().eval()
    torch.testing.assert_close(grown(asked).scores[:, :NUM_IDS], model(asked).scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, "dim 128 is not a multiple of heads 5"),
        ({"num_layers": -1}, "num_layers is -1; it must be from 0 to 64"),
        ({"num_layers": 10**9}, "num_layers is 1000000000; it must be from 0 to 64"),
        ({"loss": "hinge"}, "loss 'hinge' is not known; choose from sampled, ce, bpr, bpr_softmax"),
        ({"max_length": 0}, "max_length is 0; it must be at least 1"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as error:
        SANSRSettings(**settings)  # type: ignore[arg-type]
    assert str(error.value) == message
