"""Parts side by side: all of them run, errors come through, and torch keeps its threads."""

from collections.abc import Iterator

import pytest
import torch

from ensue.tasks.classify.neural import run_parallel


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_every_part_runs_once_on_one_thread_each(threads: int) -> None:
    found: list[tuple[int, int]] = []
    run_parallel(lambda part: found.append((part, torch.get_num_threads())), range(20))
    assert sorted(part for part, _ in found) == list(range(20))
    assert {inside for _, inside in found} == {1}
    assert torch.get_num_threads() == threads


def test_the_error_of_a_part_comes_through_and_torch_keeps_its_threads(threads: int) -> None:
    def divide(part: int) -> None:
        torch.ones(3).sum() / (1 // part)

    with pytest.raises(ZeroDivisionError):
        run_parallel(divide, [1, 1, 0, 1])
    assert torch.get_num_threads() == threads
