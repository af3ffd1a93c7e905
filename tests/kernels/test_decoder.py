"""The compiled step of a decoder, and scores of all tokens, against torch; searches find the same lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue.nn.incremental import MAX_ROWS, IncrementalDecoder, Past
from ensue.nn.transformer import DecoderLayer
from ensue.tasks.suggest import torch_generator
from ensue.tasks.suggest.batch import FIRST, PADDING, pad, padded
from ensue.tasks.suggest.model import score
from ensue.tasks.suggest.models.mtn import MTN
from ensue.tasks.suggest.models.words import log_probabilities
from ensue.tasks.suggest.prefix import PrefixRule
from ensue.tasks.suggest.settings import MTNSettings, Search
from ensue.tasks.suggest.torch_generator import TorchGenerator
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = needs_kernels


def layers(dim: int, heads: int, wide: int) -> list[DecoderLayer]:
    torch.manual_seed(dim)
    made = [DecoderLayer(dim, heads, wide, 0.0).eval() for _ in range(2)]
    for parameter in (part for layer in made for part in layer.parameters()):
        parameter.data += 0.1 * torch.randn(parameter.shape)
    return made


def walk(level: str, made: list[DecoderLayer], sources: int, rows: int, length: int) -> list[tuple[Tensor, Tensor]]:
    """Four steps of a search whose rows change places; the first place of the memory is masked."""
    draw = torch.Generator().manual_seed(rows)
    heads, dim = made[0].own.heads, made[0].own.dim
    memory = torch.randn(sources, len(made), 2, heads, length, dim // heads, generator=draw)
    mask = (torch.arange(length)[None] >= min(1, length - 1)).expand(sources, -1)
    with using(level), torch.no_grad():
        steps = IncrementalDecoder(made)
        folded = steps.fold(memory, mask)
        past = tuple(Past.none(memory, sources * heads, dim // heads) for _ in made)
        seen, found = torch.zeros(sources, rows, 0), []
        own = torch.full((rows, rows), -torch.inf).fill_diagonal_(0.0).expand(sources, -1, -1)
        for _ in range(4):
            seen = torch.cat([seen, own], dim=2)
            items = torch.randn(sources, rows, dim, generator=draw)
            before = items.clone()
            out, past, weights = steps.step(items, folded, past, seen, weigh=True)
            assert torch.equal(items, before) and weights is not None
            found.append((out, weights))
            seen = seen[:, torch.randint(rows, (rows,), generator=draw)]
    return found


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize(("dim", "heads", "wide"), [(8, 2, 16), (20, 4, 7), (64, 8, 130), (6, 1, 3)])
def test_a_step_equals_the_reference(level: str, dim: int, heads: int, wide: int) -> None:
    made = layers(dim, heads, wide)
    sizes = [(1, rows) for rows in (1, 2, 5, 7, 8, 9, MAX_ROWS + 1)]  # of the most both go the same way
    for sources, rows in (*sizes, (3, 4)):
        for length in (1, 3, 17):
            expected, found = (walk(path, made, sources, rows, length) for path in ("off", level))
            for ours, reference in zip(found, expected, strict=True):
                for one, other in zip(ours, reference, strict=True):
                    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", HERE)
def test_scores_of_all_tokens(level: str) -> None:
    draw = torch.Generator().manual_seed(0)
    for dim, ids in ((1, 1), (5, 3), (64, 17), (130, 1000)):
        states, table = torch.randn(7, dim, generator=draw), torch.randn(dim + 1, ids, generator=draw)
        table[-1, 0] = -torch.inf if ids > 1 else 0.0
        with using(level):
            found = log_probabilities(states, table)
            alone = log_probabilities(states[3:4].contiguous(), table)
        torch.testing.assert_close(found, (states @ table[:-1] + table[-1]).log_softmax(1), rtol=1e-5, atol=1e-5)
        assert torch.equal(alone[0], found[3])
        for other in (states[:0], states.repeat(2, 1), torch.randn(dim, 7).t()):  # for torch
            with using(level):
                found = log_probabilities(other, table)
            torch.testing.assert_close(found, (other @ table[:-1] + table[-1]).log_softmax(1), rtol=1e-5, atol=1e-5)


def small_network(copy: bool, embedding: int) -> MTN:
    torch.manual_seed(1)
    network = MTN(MTNSettings(dim=32, embedding=embedding, wide=40, heads=4, depth="1+1+2", copy=copy), 60).eval()
    for parameter in network.parameters():
        parameter.data *= 1.5  # so that words differ by more than rounding
    return network


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("embedding", [24, 32])  # the first for one step at a time
def test_searches_find_the_same_lists(level: str, copy: bool, embedding: int) -> None:
    generator = TorchGenerator(small_network(copy, embedding), torch.device("cpu"))
    draw = torch.Generator().manual_seed(2)
    banned = np.arange(60) % 7 == 6
    spelled = [b"" if id < FIRST else bytes([97 + id % 3, 97 + id % 5])[: 1 + id % 2] for id in range(60)]
    choices = [
        (Search(), None, ""), (Search(beam=1, keep=1), None, ""), (Search(beam=8, keep=8, longest=4), banned, ""),
        (Search(exhaustive=True, repeats=True, exponent=1.5), banned, "aba"), (Search(beam=70, longest=2), None, "b"),
    ]  # fmt: skip
    for number in (1, 2, 3, 40):  # of sessions; more than pass the weights together
        sessions = [
            torch.randint(FIRST, 60, (1 + row % 3, 1 + row % 5), generator=draw).tolist() for row in range(number)
        ]
        queries = padded(sessions)
        for options, forbidden, prefix in choices:
            typed = PrefixRule(spelled).read([prefix, *[""] * (number - 1)]) if prefix else None
            results = []
            for path in ("off", level):
                with using(path):
                    results.append(generator.search(generator.encode(queries), queries, options, forbidden, typed))
            expected, found = results
            np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-4, atol=1e-4)
            # Ranks with a clear distance to those before and behind; what is behind the last is not known.
            with np.errstate(invalid="ignore"):
                gaps = -np.diff(expected.scores, prepend=np.inf, append=expected.scores[:, -1:])
            clear = (gaps[:, :-1] > 1e-3) & (gaps[:, 1:] > 1e-3)
            assert np.array_equal(found.tokens[clear], expected.tokens[clear])
            assert clear.any() or options.keep == 1


@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("copy", [False, True])
def test_candidates_of_sessions_get_the_same_scores(level: str, copy: bool) -> None:
    generator = TorchGenerator(small_network(copy, 32), torch.device("cpu"))
    draw = torch.Generator().manual_seed(4)
    for sessions, choices, width in (
        (1, 1, 1),
        (3, 40, 3),
        (40, 60, 5),
    ):  # the last of more nodes than are scored at once
        queries = padded(torch.randint(FIRST, 60, (sessions, 3, 4), generator=draw).tolist())
        candidates = torch.randint(FIRST, 12, (sessions, choices, width), generator=draw).numpy()
        candidates[:, ::3, width // 2 + 1 :] = PADDING
        candidates[0, choices // 2 :] = PADDING  # a session of fewer
        scores = []
        for path in ("off", level):
            with using(path):
                scores.append(generator.score(generator.encode(queries), candidates))
        np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5, atol=1e-4)
        assert (scores[1] == -np.inf).sum() == choices - choices // 2


def test_a_search_is_one_call_where_the_kernel_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = padded([[[5, 6], [7]]])
    steps: list[object] = []

    def stepped(*parts: object) -> Tensor:
        steps.append(parts)
        return torch.zeros(1, 1)

    for name in ("beam_search", "score"):
        monkeypatch.setattr(torch_generator, name, stepped)
    for embedding in (32, 24):
        generator = TorchGenerator(small_network(copy=True, embedding=embedding), torch.device("cpu"))
        generator.search(generator.encode(queries), queries, Search())
        generator.score(generator.encode(queries), np.array([[[5, 6]]]))
        assert len(steps) == 2 * (embedding == 24)


@torch.no_grad()
@pytest.mark.parametrize("level", HERE)
@pytest.mark.parametrize("copy", [False, True])
def test_texts_of_a_tree_get_the_same_scores(level: str, copy: bool) -> None:
    torch.manual_seed(3)
    network = MTN(MTNSettings(dim=32, embedding=24, wide=40, heads=4, depth="1+1+2", copy=copy), 60).eval()
    draw = torch.Generator().manual_seed(4)
    for choices, width in ((2, 1), (40, 3), (150, 7)):  # up to more nodes than the compiled step takes
        session = torch.randint(FIRST, 60, (3, 4), generator=draw).tolist()
        texts = torch.randint(FIRST, 60, (1, choices, width), generator=draw)
        texts[0, ::3, width // 2 + 1 :] = 0
        scores = []
        for path in ("off", level):
            with using(path):
                scores.append(score(network.writer, network.encode(pad([session])), texts))
        torch.testing.assert_close(scores[1], scores[0], rtol=1e-5, atol=1e-4)
