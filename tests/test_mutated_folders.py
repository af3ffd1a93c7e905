"""A model folder from a stranger, with valid checksums, is refused with one clear error or gives ordinary answers."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from tests.mutations import run, save_families

MUTATIONS = int(os.environ.get("ENSUE_MUTATIONS", "0"))
"""Mutations per task and kernels; 0: a few of some families."""
FEW = 24
"""Mutations per task of a brief run."""
BRIEF = {
    "tests.tasks.next.mutated": ("blend", "cascade-blend", "core-items", "fpmc-index"),
    "tests.tasks.classify.mutated": ("tfidf", "blend-pairs", "vectors"),
    "tests.tasks.suggest.mutated": ("reranker", "h-lstm", "co-occurrence"),
    "tests.tasks.link.mutated": ("best", "cnn"),
}
"""By module, the families of a brief run."""


@pytest.fixture(scope="module", params=BRIEF)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[str]]:
    """Return a module of families, the folder of its models, and the names of those."""
    families = import_module(request.param).FAMILIES
    names = [*families] if MUTATIONS else [*BRIEF[request.param]]
    root = tmp_path_factory.mktemp("models")
    save_families({name: families[name] for name in names}, root)
    return request.param, root, names


@pytest.mark.parametrize("kernels", ["", "off"])
def test_mutated_folder_is_refused_or_answers(saved: tuple[str, Path, list[str]], kernels: str) -> None:
    module, root, names = saved
    # A brief run shares its seeds between the compiled kernels and their references.
    seeds = range(MUTATIONS) if MUTATIONS else range(kernels == "off", FEW, 2)
    jobs = [(names[seed // 2 % len(names)], seed) for seed in seeds]
    outcomes = [*run(root, jobs, kernels, module)]
    assert len(outcomes) == len(jobs)
    wrong = [outcome for outcome in outcomes if not outcome.allowed]
    assert not wrong, "\n".join(f"{one.family} {one.seed} {one.kind}: {one.mutation}\n{one.detail}" for one in wrong)
    assert {"refused", "answered"} <= {outcome.kind for outcome in outcomes}
