"""The Star-Transformer against literal loops, and a planted pattern that is learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from ensue import SettingError
from ensue.learning.state import module_of
from ensue.tasks.link.batches import DistinctWords, Links
from ensue.tasks.link.catalogue import MODELS
from ensue.tasks.link.models.network import Linker
from ensue.tasks.link.models.star import AST
from ensue.tasks.link.settings import SCHEDULE, LinkSettings, Name
from ensue.tasks.link.state import LinkState
from ensue.text.tokens import Tokens
from ensue.training.loop import train
from ensue.training.optimizer import make_optimizer
from tests.oracles import link as link_oracles
from tests.tasks.link.test_dataset import counting_up

LENGTHS = (9, 5, 1, 0, 2)
ENCODERS: list[Name] = ["ast", "cnn", "gru", "bigru"]


def network(encoder: Name = "ast", **changes: object) -> Linker:
    torch.manual_seed(1)
    settings = LinkSettings(encoder=encoder, hidden=6, filters=5, **({"heads": 3, "bag": 0} | changes))  # type: ignore[arg-type]
    made = Linker(settings, 40, 12).double().eval()
    for name, parameter in made.named_parameters():
        if "raw" in name:  # alphas that differ
            parameter.data = torch.linspace(-3, 3, len(parameter), dtype=torch.float64)
        elif "norm" in name or (made.settings.residual and name.startswith("encoder")):  # of the latter some start at 0
            parameter.data += 0.3 * torch.randn_like(parameter)
    with torch.no_grad():
        made.table.weight.normal_()
    return made


def texts(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> tuple[Tensor, Tensor]:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randint(2, 40, mask.shape, generator=torch.Generator().manual_seed(seed)) * mask, mask


# --- the star-transformer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cycles", [1, 3])
@pytest.mark.parametrize("neighbours", [1, 2, 7])
@pytest.mark.parametrize("scale", ["fixed", "asentmax"])
def test_ring_and_star_equal_the_loop(cycles: int, neighbours: int, scale: str) -> None:
    net = network(cycles=cycles, neighbours=neighbours, residual=False, scale=scale)
    weights = {name.removeprefix("encoder."): tensor for name, tensor in net.state_dict().items()}
    ids, mask = texts()
    found = net.encode(ids, mask)
    for row, own, length in zip(found, ids, LENGTHS, strict=True):
        if length:
            embeddings = list(net.table.weight.detach()[own[:length]])
            expected = link_oracles.star_transformer(weights, embeddings, cycles, neighbours)
            torch.testing.assert_close(row, expected, rtol=0, atol=1e-9)


def test_by_hand_a_text_of_one_word() -> None:
    # Keys of the ring: the normalised word, the word itself and the relay, which is the word too. With W_K = 0 the
    # weights are 1/3 each; W_V = 1 makes the node n = (norm + 2 e) / 3, and the relay's (e + n) / 2 of itself and n.
    torch.manual_seed(0)
    ast = AST(2, heads=1).double()
    for step in (ast.rings[0], ast.stars[0]):
        step.inward.weight.data = torch.tensor([[0, 0], [0, 0], [0, 0], [0, 0], [1, 0], [0, 1]]).double()  # type: ignore[union-attr]
    words = DistinctWords(torch.tensor([[3.0, 1.0]]).double(), torch.tensor([[0]]), torch.tensor([[True]]))
    # norm of (3, 1) is (1, -1): n = (7/3, 1/3), s = (8/3, 2/3), and (n + s) / 2 = (2.5, 0.5).
    assert ast(words)[0].tolist() == pytest.approx([2.5, 0.5], abs=1e-5)


def test_nothing_is_as_large_as_the_square_of_a_length() -> None:
    net, sizes = network(), []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        net.encode(*texts((400,)))
    # No more than five keys 12 wide of each of 400 words.
    assert 400 * 12 <= max(sizes) <= 400 * 5 * 12


def test_alphas_are_told_by_step_and_cycle() -> None:
    net = network(cycles=2)
    assert isinstance(net.encoder, AST)
    found = net.encoder.alphas()
    assert list(found) == ["ring 1", "ring 2", "star 1", "star 2"]
    # 1 + 1 / (1 + e^3), 1.5, 1 + 1 / (1 + e^-3)
    assert found["star 2"] == pytest.approx([1.0474, 1.5, 1.9526], abs=1e-4)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(("sparse", "relay"), [(False, True), (True, False), (False, False)])
def test_without_sparse_attention_or_without_a_relay(sparse: bool, relay: bool, residual: bool) -> None:
    net, (ids, mask) = network(residual=residual, sparse=sparse, relay=relay, cycles=2), texts()
    assert isinstance(net.encoder, AST)
    assert len(net.encoder.alphas()) == (2 * (1 + relay) if sparse else 0)
    found = net.encode(ids, mask)
    wide = functional.pad(ids, (0, 3), value=39)
    torch.testing.assert_close(net.encode(wide, functional.pad(mask, (0, 3))), found, rtol=0, atol=1e-12)
    # A relay lets the last word of a text reach the node of the first.
    first, other = (first_node(net, row[None], mask[:1]) for row in (ids[0], ids[0].index_fill(0, torch.tensor(8), 2)))
    assert bool((first != other).any()) == relay


def first_node(net: Linker, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the node of the first word after all cycles."""
    assert isinstance(net.encoder, AST)
    words = net._look(ids, mask)
    nodes: Tensor | None = None
    relay = words.mean()
    for ring, star in zip(net.encoder.rings, net.encoder.stars, strict=True):
        nodes = ring(words, nodes, relay)
        relay = star(nodes, relay, mask)
    assert nodes is not None
    return nodes[0, 0]


@pytest.mark.parametrize("residual", [False, True])
def test_gradients_of_the_temperature_of_asentmax_equal_differences(residual: bool) -> None:
    net, (ids, mask) = network(scale="asentmax", residual=residual, cycles=2), texts()
    encoder = net.encoder
    names = [name for name, _ in encoder.named_parameters() if "scales" in name]
    assert names == [f"{step}.{cycle}.scales.projection.weight" for step in ("rings", "stars") for cycle in (0, 1)]
    words = net._look(ids, mask)
    words = words._replace(vectors=words.vectors.detach())

    def encoded(*changed: Tensor) -> Tensor:
        found: Tensor = functional_call(encoder, dict(zip(names, changed, strict=True)), (words,))
        return found

    weights = [encoder.get_parameter(name).detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(encoded, weights, atol=1e-6)


def test_heads_that_do_not_divide() -> None:
    with pytest.raises(SettingError) as error:
        network(heads=5)
    assert str(error.value) == "heads is 5, which does not divide the 12 numbers of a word's vector"


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("cycles", [1, 3])
def test_every_encoder_starts_as_the_mean_and_learns_to_leave_it(encoder: Name, cycles: int) -> None:
    torch.manual_seed(0)
    net = Linker(LinkSettings(encoder=encoder, hidden=6, filters=5, heads=3, bag=0, cycles=cycles), 40, 12).double()
    ids, mask = texts()
    found = functional.normalize(net.encode(ids, mask), dim=1)
    means = functional.normalize(net.table.weight[ids].masked_fill(~mask[..., None], 0).sum(1), dim=1)
    torch.testing.assert_close(found, means, rtol=0, atol=1e-12)
    torch.autograd.backward((found @ torch.randn(12, dtype=torch.float64)).sum())
    assert any(bool(own.grad is not None and own.grad.any()) for own in net.encoder.parameters())
    paper = Linker(LinkSettings(encoder=encoder, hidden=6, filters=5, heads=3, bag=0, residual=False), 40, 12).double()
    assert (functional.normalize(paper.encode(ids, mask), dim=1).shape != means.shape) or not torch.allclose(
        functional.normalize(paper.encode(ids, mask), dim=1), means, atol=1e-3
    )


def test_an_encoder_that_starts_as_a_mean_moves_a_tenth_as_fast() -> None:
    steps = {}
    for residual in (True, False):
        state = LinkState("gru", settings={"heads": 3, "hidden": 6, "bag": 0, "residual": residual}, device="cpu")
        state.model = state.new_network(40, 12)
        network = module_of(state.network)
        state.schedule = SCHEDULE
        optimizer = state.new_optimizer()
        for group in optimizer.param_groups:
            group["lr"] = SCHEDULE.learning_rate * group.get("pace", 1.0)
        before = {name: own.detach().clone() for name, own in network.named_parameters()}
        for own in network.parameters():
            own.grad = torch.ones_like(own)
        optimizer.step()
        steps[residual] = {
            name: float((own.detach() - before[name]).abs().max()) for name, own in network.named_parameters()
        }
    assert steps[True]["table.weight"] == pytest.approx(steps[False]["table.weight"], rel=1e-3)
    name = "encoder.sides.0.weight_hh_l0"
    assert steps[True][name] == pytest.approx(steps[False][name] / 10, rel=1e-2)


# --- every encoder ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("cycles", "bag", "residual"), [(1, 0, True), (2, 0, True), (2, 0, False), (1, 8, True)])
def test_a_text_is_the_same_alone_and_in_any_batch(encoder: Name, cycles: int, bag: int, residual: bool) -> None:
    net, (ids, mask) = network(encoder, cycles=cycles, bag=bag, residual=residual), texts()
    ids = torch.where((ids == 7) & (bag > 0), -3, ids)  # a piece of a word
    found = net.encode(ids, mask)
    wide = functional.pad(ids, (0, 7)).masked_fill(~functional.pad(mask, (0, 7)), 39)
    for vectors in (
        net.encode(wide, functional.pad(mask, (0, 7))),
        net.encode(ids.flip(0), mask.flip(0)).flip(0),
    ):
        torch.testing.assert_close(vectors, found, rtol=0, atol=1e-13)
    for row, own, length in zip(found, ids, LENGTHS, strict=True):
        if length:
            alone = net.encode(own[None, :length], torch.ones(1, length, dtype=torch.bool))[0]
            torch.testing.assert_close(row, alone, rtol=0, atol=1e-13)
        else:
            assert not row.any()
    single = net.float()
    together = single.encode(ids, mask)
    for row, own, length in zip(together, ids, LENGTHS, strict=True):
        if length:
            alone = single.encode(own[None, :length], torch.ones(1, length, dtype=torch.bool))[0]
            torch.testing.assert_close(row, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("bag", [0, 8])
def test_gradients_of_padding_and_of_empty_texts_are_zero_and_finite(encoder: Name, bag: int) -> None:
    net, (ids, mask) = network(encoder, bag=bag), texts()
    ids = ids.masked_fill(~mask, 39).masked_fill((ids == 39) & mask, 38)  # 39 stands at padding alone
    net.encode(ids, mask)[:, :-1].square().sum().backward()  # type: ignore[no-untyped-call]
    assert net.table.weight.grad is not None
    grad = net.table.weight.grad.to_dense()
    assert torch.isfinite(grad).all() and not grad[39].any() and grad.any()


def test_fixed_words_and_words_not_met_stay_as_they_are_to_the_bit() -> None:
    net = network().float().train()
    vectors = torch.randn(2, 12)
    net.place(torch.tensor([2, 3]), vectors, tuned=False)
    before = net.table.weight.detach().clone()
    assert torch.equal(before[2:4], vectors)
    links = Links(counting_up(4, 3), counting_up(2, 3), np.array([[0, 0], [1, 1]]))  # words 2 to 8
    optimizer = make_optimizer(net, SCHEDULE)
    torch.autograd.backward(net.loss(links.batch(np.arange(2))))
    assert net.table.weight.grad is not None and net.table.weight.grad.is_sparse
    optimizer.step()
    moved = (net.table.weight != before).any(1).nonzero()[:, 0].tolist()
    assert moved == [4, 5, 6, 7, 8]


def test_new_words_get_rows_and_old_ones_keep_theirs() -> None:
    net = network()
    before = net.table.weight.detach().clone()
    net.grow(43)
    assert torch.equal(net.table.weight[:40], before) and net.table.weight[40:].abs().min() > 0
    assert net.table.sparse and net.fixed.tolist() == [False] * 43


@pytest.mark.parametrize("loss", ["triplet", "contrastive"])
def test_the_loss_is_that_of_the_cosines(loss: str) -> None:
    net = network(loss=loss)
    batch = Links(counting_up(4, 3, 2), counting_up(2, 3), np.array([[0, 0], [1, 1], [2, 1]])).batch(np.arange(3))
    articles = [net.encode(ids[None], torch.ones(1, len(ids), dtype=torch.bool))[0] for ids in
                (torch.arange(2, 6), torch.arange(6, 9), torch.arange(9, 11))]  # fmt: skip
    posts = [net.encode(ids[None], torch.ones(1, len(ids), dtype=torch.bool))[0] for ids in
             (torch.arange(2, 4), torch.arange(4, 7))]  # fmt: skip
    rows, columns = (torch.stack([own / own.norm() for own in vectors]).detach() for vectors in (articles, posts))
    related = torch.tensor([[True, False], [False, True], [False, True]])
    expected = (
        link_oracles.triplet_loss(rows, columns, related, 0.15, 0.1)
        if loss == "triplet"
        else link_oracles.contrastive_loss(rows @ columns.T, related, 0.05)
    )
    assert net.loss(batch).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("encoder", "bert", "encoder is 'bert'; choose from ast, cnn, gru, bigru, bag"),
    ("loss", "hinge", "loss is 'hinge'; choose from triplet, contrastive"),
    ("heads", 0, "heads is 0; it must be at least 1"),
    ("max_words", 0, "max_words is 0; it must be at least 1"),
    ("cycles", 65, "cycles is 65; it must be at most 64"),
    ("margin", -1.0, "margin is -1.0; it must be 0 or more"),
    ("temperature", 0.0, "temperature is 0.0; it must be above 0"),
])  # fmt: skip
def test_settings_are_checked(name: str, value: object, message: str) -> None:
    with pytest.raises(SettingError) as error:
        LinkSettings(**{name: value})  # type: ignore[arg-type]
    assert str(error.value) == message
    with pytest.raises(SettingError, match=r"^hidden is 7; it must be even for bigru, which halves it$"):
        LinkSettings(encoder="bigru", hidden=7)


# --- a planted pattern ------------------------------------------------------------------------------------------------


def planted(articles: int) -> tuple[Tokens, Tokens, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Articles of 30 words, of which 4 are theirs alone; 3 posts each, of 2 of these and 4 words that all use."""
    random = np.random.default_rng(0)
    own = 2 + np.arange(articles)[:, None] * 4 + np.arange(4)
    common = 2 + 4 * articles
    bodies = [random.permutation(np.concatenate([row, random.integers(common, common + 60, 26)])) for row in own]
    posts = [np.concatenate([random.choice(row, 2, replace=False), random.integers(common, common + 60, 4)])
             for row in own for _ in range(3)]  # fmt: skip

    def tokens(rows: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]) -> Tokens:
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        return Tokens(np.concatenate(rows).astype(np.int32), offsets, np.arange(len(offsets), dtype=np.int64))

    return tokens(bodies), tokens(posts), np.stack([np.repeat(np.arange(articles), 3), np.arange(3 * articles)], 1)


def reciprocal_rank(net: Linker, articles: Tokens, posts: Tokens) -> float:
    """Mean over the posts of 1 / the rank of their article."""
    net.eval()
    rows, columns = (torch.from_numpy(net.vectors(side)) for side in (articles, posts))
    cosines = columns @ rows.T
    own = cosines.gather(1, torch.arange(len(columns))[:, None] // 3)
    return float((1 / (cosines >= own).sum(1)).mean())


@pytest.mark.parametrize(("name", "loss"), [
    ("ast", "triplet"), ("ast", "contrastive"), ("cnn", "contrastive"), ("bigru", "contrastive"),
])  # fmt: skip
def test_a_planted_pattern_is_learned(name: str, loss: str) -> None:
    articles, posts, pairs = planted(12)
    _, defaults, schedule = MODELS[name]
    assert isinstance(defaults, LinkSettings) and schedule is not None
    changes = {"heads": 2, "hidden": 24, "filters": 24, "loss": loss}
    torch.manual_seed(0)
    net = Linker(LinkSettings(**(vars(defaults) | changes)), 2 + 4 * 12 + 60, 24)
    before = reciprocal_rank(net, articles, posts)
    schedule = type(schedule)(
        **(vars(schedule) | {"epochs": 12, "learning_rate": 1e-2, "batch_size": 12, "check_every": 12})
    )
    reports = train(
        net, Links(articles, posts, pairs), lambda: reciprocal_rank(net, articles, posts), schedule,
        optimizer=make_optimizer(net, schedule), seed=0,
    )  # fmt: skip
    for _ in reports:
        pass
    assert before < 0.6 and reciprocal_rank(net, articles, posts) > 0.98
