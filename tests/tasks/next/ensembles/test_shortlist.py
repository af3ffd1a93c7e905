"""Of very many users some are listed: what stands on the lists, and what becomes of those who stand on none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ensue.demo.cascades import make_cascades
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.ensembles import cascade_blend, cascade_features
from ensue.tasks.next.ensembles.cascade_blend import CascadeBlend
from ensue.tasks.next.ensembles.cascade_features import shortlists
from ensue.tasks.next.predictor import NextPredictor
from ensue.text.sparse import sparse_rows
from ensue.vocabulary import FIRST


def test_lists_hold_the_highest_of_each_and_the_most_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascade_features, "LONGEST", 2)
    monkeypatch.setattr(cascade_features, "FREQUENT", 1)
    network = np.array([[-np.inf, -np.inf, 1, 9, 8, 2, 3], [-np.inf, -np.inf, 9, 1, 2, 8, 3]], np.float32)
    memory = sparse_rows(np.array([0, 0, 0, 1]), np.array([2, 5, 6, 3]), np.array([1.0, 3, 2, 1]), (2, 7))
    users, listed = shortlists(network, (memory,), np.array([0.0, 0, 1, 1, 5, 1, 1]))
    # of the first: 3 and 4 by the network, 5 and 6 by the memory, 4 the most frequent; of the second 2, 5 and 3, and 4
    assert users.tolist() == [2, 3, 4, 5, 6]
    assert listed.tolist() == [[False, True, True, True, True], [True, True, True, True, False]]


def test_lists_as_long_as_the_catalogue_change_no_score_and_short_ones_only_the_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = make_cascades(num_cascades=80, seed=3).train
    made = NextPredictor(
        "cascade-blend", settings={"dim": 8, "table_dim": 8, "epochs": 1, "refit": False}, device="cpu"
    )
    for _ in made.fit(data):
        pass
    model = made.network
    assert isinstance(model, CascadeBlend)
    windows = Windows(data.encode(made.vocabulary), model.reach)
    with torch.no_grad():
        batch = windows.batch(np.arange(3)).to("cpu")
        whole = model(batch).scores
        monkeypatch.setattr(cascade_features, "MAX_DENSE_USERS", 5)
        torch.testing.assert_close(model(batch).scores, whole)
        monkeypatch.setattr(cascade_features, "LONGEST", 5)
        monkeypatch.setattr(cascade_features, "FREQUENT", 2)
        scores, network = model(batch).scores, model.network(batch).scores
        known = model.candidate_features.features(batch.arrays(), network.numpy())
        assert known.users is not None and len(known.users) < whole.shape[1] - FIRST
        alone = torch.cat([model(windows.batch(np.array([row])).to("cpu")).scores for row in range(3)])
    torch.testing.assert_close(scores, alone)  # whoever is beside a cascade in a batch changes no list
    held = torch.from_numpy(cascade_features.history_mask(batch.arrays(), model.reach, whole.shape[1]))
    for target in range(0, len(scores), 7):
        listed = torch.zeros(whole.shape[1], dtype=torch.bool)
        listed[known.users[known.listed[target]]] = True
        torch.testing.assert_close(scores[target, listed], whole[target, listed])
        free = held[target] == 0  # what the cascade holds is put last, listed or not
        free[:FIRST] = False
        rest = (free & ~listed).nonzero()[:, 0]
        assert float(scores[target, rest].max()) <= float(scores[target, listed & free].min())
        assert torch.equal(scores[target, rest].argsort(stable=True), network[target, rest].argsort(stable=True))
    assert bool(scores[:, :FIRST].isneginf().all()) and bool(scores[:, FIRST:].isfinite().all())


def test_a_mixture_is_learned_from_targets_that_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascade_features, "MAX_DENSE_USERS", 5)
    monkeypatch.setattr(cascade_blend, "CANDIDATES", 20)  # no more than are on a list
    data = make_cascades(num_cascades=80, seed=3).train
    made = NextPredictor(
        "cascade-blend", settings={"dim": 8, "table_dim": 8, "epochs": 1, "refit": False}, device="cpu"
    )
    for _ in made.fit(data):
        pass
    assert isinstance(made.network, CascadeBlend)
    assert float(made.network.mixed) == 1.0
    assert not torch.equal(made.network.mixture.weights, torch.tensor(cascade_blend.START))
