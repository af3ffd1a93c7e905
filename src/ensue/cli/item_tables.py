"""Tables of items at the command line, and the items similar to one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ensue.answers import Answer
from ensue.cli import show, show_events
from ensue.cli.options import Reading
from ensue.data.histories import Histories
from ensue.data.item_table import Items
from ensue.data.items import read_items
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.predictor import load
from ensue.settings import parse
from ensue.tasks.next.predictor import NextPredictor


def with_items(data: Histories, reading: Reading, known: Items | None = None) -> Histories:
    """Return histories with the item table of the options, after showing what was understood of it.

    Args:
        data: histories.
        reading: the options.
        known: items of the model, whose columns and types the table has too.

    Raises:
        SettingError: columns of a table that is not given.
    """
    if reading.items is None:
        if reading.item_columns:
            raise SettingError("--item-columns names columns of an item table; give --items too")
        return data
    stated = parse(reading.item_columns.split(",")) if reading.item_columns else {}
    items, warnings = read_items(reading.items, columns=stated, like=known)
    columns = ", ".join(f"{name} {kind}" for name, kind in items.kinds.items())
    show.remark(f"{reading.items}: {plural(len(items), 'item')}; columns: {columns}")
    for warning in warnings:
        show.remark(f"warning: {reading.items}: {warning}")
    return replace(data, items=items)


def show_similar(folder: Path, item: str, k: int, *, as_json: bool) -> None:
    """Show the items most similar to an item.

    Raises:
        SettingError: a model of another task or without a network, or an unknown item.
    """
    predictor = load(folder)
    if not isinstance(predictor, NextPredictor):
        raise SettingError(f"{folder}: is a model of task {predictor.task}; similar is for models of task next")
    answer = Answer(tuple(predictor.similar([item], k)[0]), in_vocabulary=1, events=1, id=item)
    if as_json:
        show.put_json_line(answer.to_json())
    else:
        show_events.ranked(answer.choices)
