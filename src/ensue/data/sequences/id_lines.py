"""Lines of ids with spaces between them, and what the first id of a line is: a user or an item like the others.

==============  ==================================================================================================
sessions        ``item item item …``
user histories  ``user item item item …``, a user a line (S3-Rec, LightGCN)
user items      ``user item``, an event a line, the events of a user together (SASRec)
==============  ==================================================================================================
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from ensue.errors import DataError

_IDS = re.compile(r"[\w \ufffd-]+")  # what is not UTF-8 is refused by line, later
SESSION_LINES = {"item": "1-"}
"""Role -> column of lines that hold items alone."""
_MIN_LINES = 20
"""Lines from which on a layout that cannot be decided is asked for; fewer are read as sessions, and that is noted."""
_CHANCE = 1e-4
"""A layout is decided where the lines would look as they do with less than this probability otherwise."""
USER_LINES = {"session": "1", "item": "2-"}
"""Role -> column of lines that begin with a user; ``2-`` is all from the second on, as in ``cut``."""
ASK = "--columns session=1,item=2- if a line begins with its user, --columns item=1- if all its ids are items"


def is_id_lines(head: Sequence[str]) -> bool:
    """Return whether most lines are words of letters and digits, each with a digit; ``just some words`` are no ids."""
    fields = [line.split() if _IDS.fullmatch(line) else [""] for line in head]
    matching = [all(any(map(str.isdigit, word)) for word in words) for words in fields]
    return matching[0] and sum(matching) > len(matching) / 2 and max(map(len, fields)) > 1


def stated_layout(stated: Mapping[str, str]) -> str | None:
    """Return the layout that stated columns mean, ``None`` where they are those of a table."""
    return "user histories" if stated == USER_LINES else "sessions" if stated == SESSION_LINES else None


def layout_of_lines(path: Path, lines: Sequence[str]) -> str:
    """Return the layout of lines of ids.

    Args:
        path: the file, for messages.
        lines: as many of its first lines as are at hand.

    Raises:
        DataError: the lines may begin with a user or with an item, and nothing decides.
    """
    rows = [words for line in lines if (words := line.split())]
    firsts = [row[0] for row in rows]
    widths = {len(row) for row in rows}
    if widths == {2} and _is_grouped(firsts):
        return "user items"
    if widths != {1} and _are_users(firsts, [word for row in rows for word in row[1:]]):
        return "user histories"
    if len(rows) < _MIN_LINES or (len(widths) > 1 and len(set(firsts)) < len(firsts)):
        return "sessions"
    if len(widths) == 1:
        raise DataError(
            f"{path}: every line has {widths.pop()} ids, which may be a session or columns of a table; give {ASK}, or "
            "add a header"
        )
    raise DataError(f"{path}: every line begins with a different id, which may be a user or an item; give {ASK}")


def _is_grouped(firsts: Sequence[str]) -> bool:
    """Return whether equal ids stand together, as those of users do in a file of events in order of users."""
    num_runs = 1 + sum(before != after for before, after in pairwise(firsts))
    repeats = len(firsts) - num_runs
    # By chance, each repeat of an id would stand right behind it with a probability of at most one half.
    return num_runs == len(set(firsts)) > 1 and 0.5**repeats < _CHANCE


def _are_users(firsts: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether the first ids of lines are no items: they rise, or differ where items would have been repeated."""
    if len(set(firsts)) < len(firsts):
        return False
    if all(word.isdecimal() for word in firsts) and len(firsts) > 1:
        numbers = [int(word) for word in firsts]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))) and numbers[0] in (0, 1) and len(numbers) > 2:
            return True
        if numbers == sorted(numbers) and 1 / math.factorial(min(len(numbers), 20)) < _CHANCE:
            return True
    # Two items of different lines are equal with this probability; of n first ids there are n (n - 1) / 2 pairs.
    pairs = len(others) * (len(others) - 1)
    equal = sum(count * (count - 1) for count in Counter(others).values()) / pairs if pairs else 0.0
    return math.exp(-equal * len(firsts) * (len(firsts) - 1) / 2) < _CHANCE
