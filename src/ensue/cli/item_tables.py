"""Tables of items at the command line."""

from __future__ import annotations

from dataclasses import replace

from ensue.cli import display
from ensue.cli.options import Reading
from ensue.data.histories import Histories
from ensue.data.item_table import Items
from ensue.data.items import read_items
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.settings import parse


def with_items(data: Histories, reading: Reading, known: Items | None = None) -> Histories:
    """Return histories with the item table of the options, after logging the columns of it.

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
    display.log(f"{reading.items}: {plural(len(items), 'item')}; columns: {columns}")
    for warning in warnings:
        display.log(f"warning: {reading.items}: {warning}")
    return replace(data, items=items)
