"""Lines for people: what strangers wrote cannot steer a terminal, and counts agree with their nouns."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from ensue.lines import plural, printable


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("safe\u202egpj.exe", "safe\\u202egpj.exe"),
        ("half \ud83d", "half \\ud83d"),
        ("two\r\nlines\tand\rmore", "two\nlines\tand\nmore"),
        ("👩‍👩‍👧 naïve שלום", "👩‍👩‍👧 naïve שלום"),
    ],
)
def test_what_steers_a_terminal_is_shown_as_its_escape(given: str, shown: str) -> None:
    assert printable(given) == shown


def test_no_control_and_no_change_of_direction_is_left_of_any_character() -> None:
    shown = printable("".join(map(chr, range(sys.maxunicode + 1))))
    turns = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    left = {character for character in shown if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")}
    assert left == {"\n", "\t"}
    assert not any(unicodedata.bidirectional(character) in turns for character in shown)
    assert shown.encode()


def test_counts_agree_with_their_nouns() -> None:
    assert [plural(count, "article") for count in (0, 1, 2, 1000)] == [
        "0 articles", "1 article", "2 articles", "1,000 articles",
    ]  # fmt: skip
    assert plural(1, "query", "queries") == "1 query" and plural(2, "query", "queries") == "2 queries"
