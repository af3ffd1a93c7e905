"""A streamed folder from a stranger, with valid checksums, is refused with one clear error or goes on."""

from __future__ import annotations

import os
from pathlib import Path

from tests.mutations import run, save_families
from tests.stream.mutated import FAMILIES

MUTATIONS = int(os.environ.get("ENSUE_MUTATIONS", "0")) or 8


def test_mutated_commit_is_refused_or_goes_on(tmp_path: Path) -> None:
    save_families(FAMILIES, tmp_path)
    names = [*FAMILIES]
    jobs = [(names[seed % len(names)], seed) for seed in range(4, 4 + MUTATIONS)]  # 10 is answered
    outcomes = [*run(tmp_path, jobs, "", "tests.stream.mutated")]
    assert len(outcomes) == len(jobs)
    wrong = [outcome for outcome in outcomes if not outcome.allowed]
    assert not wrong, "\n".join(f"{one.family} {one.seed} {one.kind}: {one.mutation}\n{one.detail}" for one in wrong)
    assert {"refused", "answered"} <= {outcome.kind for outcome in outcomes}
