"""One thread a model: what waits is answered together, nothing is lost, and the queue has an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from ensue.errors import DataError
from ensue.serve.batching import Full, Job, Worker


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


@pytest.fixture
def gate() -> Gate:
    return Gate()


def started(gate: Gate, **options: Any) -> tuple[Worker, Job]:
    """A worker that is busy with a first job."""
    worker = Worker(gate, **{"most": 4, "room": 8, **options})
    first = Job("a", ["first"])
    worker.ask(first)
    assert gate.entered.wait(10)
    return worker, first


def test_an_idle_worker_waits_for_no_company(gate: Gate) -> None:
    gate.open.set()
    worker = Worker(gate, most=4, room=8)
    job = Job("a", [1, 2])
    worker.ask(job)
    assert job.done.result(10) == ["a:1", "a:2"]
    worker.close(5)


def test_what_waits_is_answered_together(gate: Gate) -> None:
    """Of one kind, up to 4 records, the longest waiting first; each job gets its own lines."""
    heard: list[int] = []
    worker, first = started(gate, heard=heard.append)
    jobs = [Job("a", [1]), Job("b", [2]), Job("a", [3, 4]), Job("a", [5, 6]), Job("b", [7])]
    for job in jobs:
        worker.ask(job)
    assert worker.waiting == 7
    gate.open.set()
    assert [job.done.result(10) for job in (first, *jobs)] == [
        ["a:first"],
        ["a:1"],
        ["b:2"],
        ["a:3", "a:4"],
        ["a:5", "a:6"],
        ["b:7"],
    ]
    assert gate.calls == [("a", ["first"]), ("a", [1, 3, 4]), ("b", [2, 7]), ("a", [5, 6])]
    assert heard == [1, 3, 2, 2]
    worker.close(5)


def test_a_full_queue_refuses(gate: Gate) -> None:
    worker, _ = started(gate, room=3)
    worker.ask(Job("a", [1, 2]))
    with pytest.raises(Full):
        worker.ask(Job("a", [3, 4]))
    worker.ask(Job("a", [3]))
    gate.open.set()
    worker.close(5)
    assert gate.calls[-1] == ("a", [1, 2, 3])


def test_a_bad_record_spoils_its_own_job_alone(gate: Gate) -> None:
    worker, _ = started(gate)
    jobs = [Job("a", [1]), Job("a", ["bad"]), Job("a", [2])]
    for job in jobs:
        worker.ask(job)
    gate.open.set()
    assert jobs[0].done.result(10) == ["a:1"]
    assert jobs[2].done.result(10) == ["a:2"]
    with pytest.raises(DataError, match="a bad record"):
        jobs[1].done.result(10)
    worker.close(5)


def test_a_fault_is_told_and_the_thread_lives_on(gate: Gate) -> None:
    gate.open.set()
    worker = Worker(gate, most=4, room=8)
    job, other = Job("a", ["bug"]), Job("a", [1])
    worker.ask(job)
    with pytest.raises(ZeroDivisionError):
        job.done.result(10)
    worker.ask(other)
    assert other.done.result(10) == ["a:1"]
    worker.close(5)


def test_what_nobody_waits_for_is_not_answered(gate: Gate) -> None:
    worker, _ = started(gate)
    gone, other = Job("a", ["gone"]), Job("a", [1])
    worker.ask(gone)
    worker.ask(other)
    assert gone.done.cancel()
    worker.forget(gone)
    assert worker.waiting == 1
    gate.open.set()
    assert other.done.result(10) == ["a:1"]
    assert gate.calls[-1] == ("a", [1])
    worker.close(5)


def test_closing_answers_what_waits_and_takes_no_more(gate: Gate) -> None:
    worker, first = started(gate)
    last = Job("b", [9])
    worker.ask(last)
    closing = threading.Thread(target=worker.close, args=(10,))
    closing.start()
    while worker.alive:
        time.sleep(0.01)
    with pytest.raises(Full):
        worker.ask(Job("a", [1]))
    gate.open.set()
    closing.join(10)
    assert (first.done.result(0), last.done.result(0)) == (["a:first"], ["b:9"])
