"""The commands of a task that brings none of its own: its reader's report, its evaluator's table, answers as JSON."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ensue.cli import show, stdin
from ensue.cli.asked import Asked
from ensue.cli.options import Reading
from ensue.data.report import ReadReport
from ensue.data.schema import DataSchema
from ensue.errors import DataError, SettingError
from ensue.tasks.base import Task, named


class PlainCommand:
    """See :class:`ensue.cli.command.Command`.

    Args:
        task: whose ``reader`` is called with a path, ``columns`` by role and how files are opened
            (:class:`ensue.data.packed.Opening`); it returns the data, which has a length and ``records()``, and a
            :class:`~ensue.data.report.ReadReport`.
    """

    WRITES_EVIDENCE = False

    def __init__(self, task: Task) -> None:
        self.task = task

    def read(self, path: Path, reading: Reading) -> Any:
        """The data of a file, after showing what was understood of it."""
        return self._read(path, reading)[0]

    def read_for_training(self, path: Path, reading: Reading) -> tuple[object, DataSchema]:
        """As :meth:`read`, and how later files of the model are to be read."""
        data, report = self._read(path, reading)
        return data, reading.schema_for(report.columns)

    def _read(self, path: Path, reading: Reading) -> tuple[Any, ReadReport]:
        data, report = named(self.task.reader)(path, columns=reading.roles, **reading.opening)
        show.read_report(report)
        return data, report

    def require(self, data: Any, path: Path, *, learn: bool) -> None:
        """Refuse a file that holds nothing.

        Raises:
            DataError: naming the file.
        """
        if not len(data):
            raise DataError(f"{path}: holds nothing that could be {'learned' if learn else 'scored'}")

    def require_like(self, data: Any, path: Path, predictor: object) -> None:
        """Refuse a file that holds nothing.

        Raises:
            DataError: naming the file.
        """
        self.require(data, path, learn=False)

    def check(self, path: Path, others: Sequence[Path], reading: Reading, json: bool) -> None:
        """Show how a file was read, and how much is in it."""
        for place in (path, *others):
            data, report = self._read(place, reading)
            found = {**asdict(report), "records": len(data)}
            show.put_json(found) if json else show.line(f"{place}: {len(data):,} records")

    def leaks(self, train: object, other: object, name: str) -> Sequence[str]:
        """Nothing is known of what two parts share."""
        return ()

    def told(self, predictor: object) -> list[str]:
        """Nothing but what the summary says."""
        return []

    def scoring(self, protocol: str, unknown: str, cutoffs: str) -> dict[str, Any]:
        """There is one protocol, and no cut-off."""
        return {}

    def show_result(self, found: Any, scoring: Mapping[str, Any]) -> None:
        """The table of the evaluator's figures, and its verdict."""
        from ensue.cli import show_results  # the evaluator

        show_results.metrics(found.rows, list(found.rows[0].figures), "metrics in % ± 95 % CI")
        show.line(found.verdict)

    def records(self, source: str, reading: Reading, predictor: object) -> Asked:
        """The records of a file, or JSON Lines on stdin.

        Raises:
            DataError: naming the file, the line, the field and what to do.
        """
        if source != "-":
            data, report = self._read(Path(source), reading)
            return Asked(iter(data.records()), len(data), byte_order_mark=report.byte_order_mark)
        return Asked(self._record(line, f"stdin, line {number}") for number, line in stdin.lines() if line.strip())

    def _record(self, line: str, where: str) -> Any:
        try:
            found = json_text.loads(line)
        except ValueError as error:
            raise DataError(f"{where}: not JSON ({error})") from error
        if not isinstance(found, dict) or self.task.needed not in found:
            raise DataError(f"{where}: must be an object such as {json_text.dumps(self.task.example)}")
        return self.task.record.from_fields(found, where)

    def show_answer(self, found: Any) -> None:
        """One answer, as JSON."""
        show.put_json_line(found.to_json())

    def show_explanation(self, found: Any) -> None:
        """One explanation, as JSON."""
        show.put_json_line(found.to_json())

    def draw(self, explanation: Any, path: Path) -> None:
        """No figure.

        Raises:
            SettingError: always.
        """
        raise SettingError(f"--html {path}: models of task {self.task.name} draw nothing; leave it out")

    def update(self, folder: Path, new: Path, reading: Reading, max_drop: float | None, keep: int, json: bool) -> None:
        """Learn a file on top of a model, and show what came of it."""
        read = self.read(new, reading)
        self.require(read, new, learn=True)
        from ensue.cli.learning import learn  # torch

        learn(folder, lambda _: read, max_drop, keep, json, lambda data, _: {"records": len(data)})
