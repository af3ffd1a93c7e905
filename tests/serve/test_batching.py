"""The queue of a model: what waits is answered together, nothing is lost, and the queue has an end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from torch import nn

from ensue import DataError
from ensue.serve.batching import Answerer, Full, Job, Worker
from ensue.serve.models import is_own_model


class Gate:
    """Answers ``kind:record``, notes every call, and waits at the gate while it is shut."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.calls: list[tuple[Hashable, list[Any]]] = []

    def __call__(self, kind: Hashable, records: Sequence[Any]) -> Sequence[str]:
        self.calls.append((kind, list(records)))
        self.entered.set()
        assert self.open.wait(10)
        if "bad" in records:
            raise DataError("a bad record")
        if "bug" in records:
            raise ZeroDivisionError
        return [f"{kind}:{record}" for record in records]


pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def gate() -> Gate:
    return Gate()


def worker_of(answer: Answerer, **options: Any) -> Worker:
    """A small worker that counts nothing."""
    quiet: dict[str, Any] = {"begin": lambda: None, "on_batch": lambda size: None, "load": lambda record: 1}
    sizes = {"max_batch": 4, "max_waiting": 8, "interval": 0.0, "is_inline": lambda: True}
    return Worker(answer, **{**quiet, **sizes, **options})


async def started(gate: Gate, **options: Any) -> tuple[Worker, Job]:
    """A worker that is busy with a first job."""
    worker = worker_of(gate, **options)
    first = Job("a", ["first"])
    worker.ask(first)
    assert await asyncio.to_thread(gate.entered.wait, 10)
    return worker, first


async def answer(job: Job, seconds: float = 10.0) -> Sequence[str]:
    """Wait for the lines of a job."""
    return await asyncio.wait_for(asyncio.shield(job.done), seconds)


async def test_an_idle_worker_waits_for_no_company(gate: Gate) -> None:
    gate.open.set()
    worker = worker_of(gate)
    job = Job("a", [1, 2])
    worker.ask(job)
    assert await answer(job) == ["a:1", "a:2"]
    await asyncio.to_thread(worker.close, 5)


async def test_within_an_interval_requests_gather(gate: Gate) -> None:
    """The first is answered at once, what comes in the half second after it in one go."""
    gate.open.set()
    worker = worker_of(gate, interval=0.5)
    jobs = [Job("a", [number]) for number in range(3)]
    for job in jobs:
        worker.ask(job)
        if job is jobs[0]:
            assert await answer(job) == ["a:0"]
    assert [await answer(job) for job in jobs] == [["a:0"], ["a:1"], ["a:2"]]
    assert gate.calls == [("a", [0]), ("a", [1, 2])]
    await asyncio.to_thread(worker.close, 5)


async def test_what_waits_is_answered_together(gate: Gate) -> None:
    """Of one kind, up to 4 records, the longest waiting first; each job gets its own lines."""
    heard: list[int] = []
    worker, first = await started(gate, on_batch=heard.append)
    jobs = [Job("a", [1]), Job("b", [2]), Job("a", [3, 4]), Job("a", [5, 6]), Job("b", [7])]
    for job in jobs:
        worker.ask(job)
    assert worker.waiting == 7
    gate.open.set()
    assert [await answer(job) for job in (first, *jobs)] == [
        ["a:first"],
        ["a:1"],
        ["b:2"],
        ["a:3", "a:4"],
        ["a:5", "a:6"],
        ["b:7"],
    ]
    assert gate.calls == [("a", ["first"]), ("a", [1, 3, 4]), ("b", [2, 7]), ("a", [5, 6])]
    assert heard == [1, 3, 2, 2]
    await asyncio.to_thread(worker.close, 5)


async def test_a_full_queue_refuses(gate: Gate) -> None:
    worker, _ = await started(gate, max_waiting=3)
    worker.ask(Job("a", [1, 2]))
    with pytest.raises(Full):
        worker.ask(Job("a", [3, 4]))
    worker.ask(Job("a", [3]))
    gate.open.set()
    await asyncio.to_thread(worker.close, 5)
    assert gate.calls[-1] == ("a", [1, 2, 3])


async def test_a_bad_record_spoils_its_own_job_alone(gate: Gate) -> None:
    worker, _ = await started(gate)
    jobs = [Job("a", [1]), Job("a", ["bad"]), Job("a", [2])]
    for job in jobs:
        worker.ask(job)
    gate.open.set()
    assert await answer(jobs[0]) == ["a:1"]
    assert await answer(jobs[2]) == ["a:2"]
    with pytest.raises(DataError, match="a bad record"):
        await answer(jobs[1])
    await asyncio.to_thread(worker.close, 5)


async def test_a_fault_is_told_and_the_thread_lives_on(gate: Gate) -> None:
    gate.open.set()
    worker = worker_of(gate)
    job, other = Job("a", ["bug"]), Job("a", [1])
    worker.ask(job)
    with pytest.raises(ZeroDivisionError):
        await answer(job)
    worker.ask(other)
    assert await answer(other) == ["a:1"]
    await asyncio.to_thread(worker.close, 5)


async def test_what_nobody_waits_for_is_not_answered(gate: Gate) -> None:
    worker, _ = await started(gate)
    gone, other = Job("a", ["gone"]), Job("a", [1])
    worker.ask(gone)
    worker.ask(other)
    assert gone.done.cancel()
    worker.forget(gone)
    assert worker.waiting == 1
    gate.open.set()
    assert await answer(other) == ["a:1"]
    assert gate.calls[-1] == ("a", [1])
    await asyncio.to_thread(worker.close, 5)


async def test_closing_answers_what_waits_and_takes_no_more(gate: Gate) -> None:
    worker, first = await started(gate)
    last = Job("b", [9])
    worker.ask(last)
    closing = threading.Thread(target=worker.close, args=(10,))
    closing.start()
    while worker.alive:
        await asyncio.sleep(0.01)
    with pytest.raises(Full):
        worker.ask(Job("a", [1]))
    gate.open.set()
    closing.join(10)
    assert (await answer(first), await answer(last)) == (["a:first"], ["b:9"])


async def test_a_large_job_goes_in_slices_and_others_have_their_turn(gate: Gate) -> None:
    """Loads of 300: the first slice of a kind may hold 400, so one record; then a small job, then the rest."""
    worker, _ = await started(gate, max_batch=8, load=lambda record: 300 if isinstance(record, str) else 10)
    large, small = Job("b", ["x", "y", "z"]), Job("c", [1])
    worker.ask(large)
    worker.ask(small)
    gate.open.set()
    assert await answer(large) == ["b:x", "b:y", "b:z"]
    assert await answer(small) == ["c:1"]
    assert gate.calls[1:3] == [("b", ["x"]), ("c", [1])]
    assert worker.waiting == 0
    await asyncio.to_thread(worker.close, 5)


async def test_a_job_that_is_given_up_goes_no_further(gate: Gate) -> None:
    """What nobody waits for any more ends with the slice that is under way, and the worker is free."""
    worker, _ = await started(gate, load=lambda record: 1000)
    gate.open.set()
    large = Job("b", list(range(4)))

    def give_up(size: int) -> None:
        if gate.calls and gate.calls[-1][0] == "b":
            large.done.cancel()

    worker.on_batch = give_up
    worker.ask(large)
    last = Job("c", ["last"])
    while not large.done.cancelled():
        await asyncio.sleep(0.01)
    worker.ask(last)
    assert await answer(last) == ["c:last"]
    assert len([call for call in gate.calls if call[0] == "b"]) < 4
    assert worker.waiting == 0
    await asyncio.to_thread(worker.close, 5)


async def test_how_long_a_slice_takes_is_known(gate: Gate) -> None:
    worker, first = await started(gate)
    await asyncio.sleep(0.05)
    assert worker.busy >= 0.05
    gate.open.set()
    await answer(first)
    await asyncio.to_thread(worker.close, 5)
    assert worker.busy == 0.0


async def test_a_model_of_somebody_else_never_holds_up_the_event_loop(gate: Gate) -> None:
    """It was fast, then hangs: the loop goes on. One of ours would be answered in the loop."""
    gate.open.set()
    worker = worker_of(gate, is_inline=lambda: False)
    for number in range(3):
        job = Job("a", [number])
        worker.ask(job)
        assert await answer(job) == [f"a:{number}"]
    gate.open.clear()
    hanging = Job("a", ["hangs"])
    worker.ask(hanging)
    await asyncio.sleep(0.02)
    assert worker.busy > 0 and not hanging.done.done()
    gate.open.set()
    assert await answer(hanging) == ["a:hangs"]
    await asyncio.to_thread(worker.close, 5)


@pytest.mark.parametrize(("num_records", "inline"), [(2, True), (5, False)])
async def test_only_a_few_records_are_answered_in_the_event_loop(num_records: int, inline: bool) -> None:
    threads: list[str] = []

    def fast(kind: Hashable, records: Sequence[Any]) -> Sequence[str]:
        threads.append(threading.current_thread().name)
        return ["line" for _ in records]

    worker = worker_of(fast, max_batch=256, max_waiting=256, load=lambda record: 1000)
    for records in [[1]] * 12 + [list(range(num_records))]:  # the measured pace doubles at most from job to job
        job = Job("a", records)
        worker.ask(job)
        await answer(job)
    assert (threads[-1] == "MainThread") == inline
    await asyncio.to_thread(worker.close, 5)


def test_a_layer_of_somebody_else_makes_a_model_one_of_somebody_else() -> None:
    class Layer(nn.Module):
        pass

    assert is_own_model(nn.Sequential(nn.Linear(1, 1))) and not is_own_model(nn.Sequential(Layer()))
    assert not is_own_model(Gate())
