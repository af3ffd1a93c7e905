"""Whoever asks for a study, in tests: hears its lines, and counts its trainings."""

from __future__ import annotations

from collections.abc import Iterable

from ensue.training.report import Report


class Watcher:
    """What a study told, and how often it trained."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.trained = 0

    def log(self, line: str) -> None:
        self.told.append(line)

    def progress(self, reports: Iterable[Report]) -> None:
        self.trained += bool(list(reports))  # counting reports nothing
