"""Compiled searches, scores of candidates and scores of all tokens, against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue.tasks.suggest import torch_generator
from ensue.tasks.suggest.batch import FIRST_TOKEN, PADDING, padded
from ensue.tasks.suggest.models.mtn import MTN
from ensue.tasks.suggest.models.words import log_probabilities
from ensue.tasks.suggest.prefix import PrefixRule
from ensue.tasks.suggest.settings import MTNSettings, Search
from ensue.tasks.suggest.torch_generator import TorchGenerator
from tests.kernels.paths import HERE, needs_kernels, using

pytestmark = needs_kernels


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
@pytest.mark.parametrize("embedding", [24, 32])  # the first projected
def test_searches_find_the_same_lists(level: str, copy: bool, embedding: int) -> None:
    generator = TorchGenerator(small_network(copy, embedding), torch.device("cpu"))
    draw = torch.Generator().manual_seed(2)
    banned = np.arange(60) % 7 == 6
    spelled = [b"" if id < FIRST_TOKEN else bytes([97 + id % 3, 97 + id % 5])[: 1 + id % 2] for id in range(60)]
    choices = [
        (Search(), None, ""), (Search(beam=1, keep=1), None, ""), (Search(beam=8, keep=8, longest=4), banned, ""),
        (Search(exhaustive=True, repeats=True, exponent=1.5), banned, "aba"), (Search(beam=70, longest=2), None, "b"),
    ]  # fmt: skip
    for number in (1, 2, 3, 40):  # of sessions; more than pass the weights together
        sessions = [
            torch.randint(FIRST_TOKEN, 60, (1 + row % 3, 1 + row % 5), generator=draw).tolist() for row in range(number)
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
@pytest.mark.parametrize("embedding", [24, 32])
def test_candidates_of_sessions_get_the_same_scores(level: str, copy: bool, embedding: int) -> None:
    generator = TorchGenerator(small_network(copy, embedding), torch.device("cpu"))
    draw = torch.Generator().manual_seed(4)
    for sessions, choices, width in (
        (1, 1, 1),
        (3, 40, 3),
        (40, 60, 5),
    ):  # the last of more nodes than are scored at once
        queries = padded(torch.randint(FIRST_TOKEN, 60, (sessions, 3, 4), generator=draw).tolist())
        candidates = torch.randint(FIRST_TOKEN, 12, (sessions, choices, width), generator=draw).numpy()
        candidates[:, ::3, width // 2 + 1 :] = PADDING
        candidates[0, choices // 2 :] = PADDING  # a session of fewer
        scores = []
        for path in ("off", level):
            with using(path):
                scores.append(generator.score(generator.encode(queries), candidates))
        np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5, atol=1e-4)
        assert (scores[1] == -np.inf).sum() == choices - choices // 2


def test_a_search_is_one_call_where_there_are_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = padded([[[5, 6], [7]]])
    steps: list[object] = []

    def stepped(*parts: object) -> Tensor:
        steps.append(parts)
        return torch.zeros(1, 1)

    for name in ("beam_search", "score"):
        monkeypatch.setattr(torch_generator, name, stepped)
    for level in ("off", HERE[-1]):
        with using(level):
            generator = TorchGenerator(small_network(copy=True, embedding=24), torch.device("cpu"))
            generator.search(generator.encode(queries), queries, Search())
            generator.score(generator.encode(queries), np.array([[[5, 6]]]))
    assert len(steps) == 2
