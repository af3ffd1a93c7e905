"""The tasks, one package each; none imports another, and no other module knows one by name."""

from __future__ import annotations

from collections.abc import Mapping

from ensue.tasks.base import Task
from ensue.tasks.classify import TASK as CLASSIFY
from ensue.tasks.link import TASK as LINK
from ensue.tasks.next import TASK as NEXT
from ensue.tasks.suggest import TASK as SUGGEST

TASKS: Mapping[str, Task] = {task.name: task for task in (NEXT, CLASSIFY, SUGGEST, LINK)}
"""The tasks by name."""
