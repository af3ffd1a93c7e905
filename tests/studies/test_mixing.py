"""How fast word graphs mix: planted eigenvalues, bounds, and steps by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ensue.data.texts import Texts
from ensue.nn.centrality import connections, damped
from ensue_studies.mixing import dobrushin, mixing_of, second_eigenvalue, steps_to_converge
from tests.nn.test_centrality import RAGGED, graph, planted, random, whole
from tests.oracles import text as text_oracles
from tests.tasks.classify.contract import planted as texts
from tests.tasks.classify.test_predictor import documents, fitted


def test_two_words_by_hand() -> None:
    # Trace 1.4, so lambda_2 = .4; half of |.9 - .5| + |.1 - .5| is .4.
    matrix = torch.tensor([[[0.9, 0.5], [0.1, 0.5]]], dtype=torch.float64)
    assert second_eigenvalue(matrix, whole(1, 2)).item() == pytest.approx(0.4, abs=1e-6)
    assert dobrushin(matrix, whole(1, 2)).item() == pytest.approx(0.4, abs=1e-6)


def test_scores_that_are_sums_mix_in_one_step() -> None:
    own, other = random(2, 9, seed=2), 5 * random(2, 9, seed=3)
    matrix = connections(own[:, :, None] + other[:, None], whole(2, 9))
    assert (second_eigenvalue(matrix, whole(2, 9)) < 1e-14).all() and (dobrushin(matrix, whole(2, 9)) < 1e-14).all()


def test_damping_slows_no_walk_down() -> None:
    for mixing in (0.3, 0.95):
        matrix = damped(planted(mixing), whole(1, 6), 0.9)
        assert second_eigenvalue(matrix, whole(1, 6)).item() == pytest.approx(0.9 * mixing, abs=1e-12)


@pytest.mark.parametrize("mixing", [0.0, 0.3, 0.95])
def test_a_planted_second_eigenvalue_is_found(mixing: float) -> None:
    assert second_eigenvalue(planted(mixing), whole(1, 6)).item() == pytest.approx(mixing, abs=1e-12)


def test_dobrushin_bounds_the_second_eigenvalue_and_padding_does_not_count() -> None:
    matrix = connections(4 * random(4, 5, 5, seed=11), RAGGED)
    bounds, eigenvalues = dobrushin(matrix, RAGGED), second_eigenvalue(matrix, RAGGED)
    for bound, eigenvalue, own, mask in zip(bounds[:2], eigenvalues, matrix, RAGGED, strict=False):
        real = own[mask][:, mask]
        assert bound.item() == pytest.approx(text_oracles.dobrushin(real), abs=1e-15)
        second = torch.linalg.eigvals(real).abs().sort().values[-2]
        assert eigenvalue.item() == pytest.approx(second.item(), abs=1e-12)
        assert 0.1 < eigenvalue <= bound
    # One word, or none, has no second eigenvalue.
    assert bounds[2:].tolist() == [0, 0] and eigenvalues[2:].abs().max() < 1e-15


def test_steps_to_converge_by_hand() -> None:
    # A - p 1' is e C on differences, and C keeps their L1 length: step k moves p by e^(k-1) times what step 1 moved it.
    # p = (1..6)/21 and 1/6 differ by (5, 3, 1, 1, 3, 5)/42, together 18/42; step 1 covers (1 - e) of that.
    mixing, tolerance = 0.9, 1e-6
    steps = 1 + math.ceil(math.log(tolerance / ((1 - mixing) * 18 / 42)) / math.log(mixing))
    batch = torch.cat([planted(mixing), planted(0.0), planted(mixing)])
    mask = torch.stack([whole(6), whole(6), ~whole(6)])
    # With e = 0 one step arrives and one sees it; a text without a word takes none, and keeps nobody waiting.
    assert steps_to_converge(batch, mask, tolerance).tolist() == [steps, 2, 0]
    assert steps_to_converge(batch, mask, tolerance, cap=7).tolist() == [7, 2, 0]


def test_the_default_tolerance_is_reached_in_float32() -> None:
    matrix = graph(200, 3.0).float()
    tolerance = 32 * torch.finfo(torch.float32).eps
    assert 3 < steps_to_converge(matrix, whole(1, 200), tolerance, cap=1000).item() < 100


def test_mixing_is_the_mean_over_the_graphs_of_texts() -> None:
    valid = texts(20, 1)
    made = fitted(texts(60, 0), valid=valid, epochs=1)
    row = mixing_of(made, made.passages(made.encode(Texts.of(valid))))
    values = []
    for found in made.explain(valid):
        one = torch.tensor(found.passages[0].graph)[None]
        values.append(float(second_eigenvalue(one, torch.ones(1, one.shape[1], dtype=torch.bool))))
    assert row["second_eigenvalue"] == pytest.approx(np.mean(values), abs=1e-4)
    made = fitted(documents(40, 0))
    rows = mixing_of(made, made.passages(made.encode(Texts.of(documents(5, 1)))))
    assert {"second_eigenvalue", "sentences_second_eigenvalue"} <= set(rows)
