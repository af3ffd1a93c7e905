"""The tasks, a package each; none knows another, and nobody else knows one by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

from ensue.tasks.base import Task
from ensue.tasks.classify import TASK as CLASSIFY
from ensue.tasks.link import TASK as LINK
from ensue.tasks.next import TASK as NEXT
from ensue.tasks.suggest import TASK as SUGGEST

GROUP = "ensue.tasks"
"""Entry points under which installed packages offer tasks of their own, each a :class:`~ensue.tasks.base.Task`."""


class Tasks(Mapping[str, Task]):
    """The four, and what installed packages offer beside them, by name; those are looked for when one asks further."""

    own: ClassVar[dict[str, Task]] = {task.name: task for task in (NEXT, CLASSIFY, SUGGEST, LINK)}

    @cached_property
    def others(self) -> dict[str, Task]:
        """Those of installed packages."""
        from importlib.metadata import entry_points  # takes longer than all the rest here

        return {point.name: point.load() for point in entry_points(group=GROUP) if point.name not in self.own}

    def __getitem__(self, name: str) -> Task:
        return self.own[name] if name in self.own else self.others[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.own, **self.others})

    def __len__(self) -> int:
        return len(self.own) + len(self.others)


TASKS = Tasks()
