"""A task of one's own in some hundred lines: how many stars a text gives, by the mean stars of its words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ensue.data.report import ReadReport
from ensue.errors import DataError
from ensue.evaluation.rows import Row
from ensue.store.folder import described, read_file, read_model, write_folder
from ensue.tasks.base import Task
from ensue.tasks.metadata import Metadata

TASK = Task(
    name="stars",
    question="how many stars a text gives",
    record=None,  # type: ignore[arg-type]  # set below
    example={"text": "a fine film"},
    reader="tests.toy_task:read",
    catalogue="tests.toy_task",
    predictor="tests.toy_task:StarsPredictor",
    evaluator="tests.toy_task",
    update="ensue.refresh.plain:learn",
    command="ensue.cli.plain:PlainCommand",
    service="ensue.serve.tasks.plain:PlainService",
)
