"""Lines for people: what strangers wrote cannot steer a terminal, and counts agree with their nouns."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from ensue.lines import part_of, plural, printable


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


@pytest.mark.parametrize(
    ("count", "whole", "found"),
    [
        (1, 48, "1 of 48 rows has"),
        (2, 2000, "2 of 2,000 rows have"),
        (1, 1, "1 of 1 row has"),
    ],
)
def test_the_verb_goes_with_the_part_and_the_noun_with_the_whole(count: int, whole: int, found: str) -> None:
    assert part_of(count, whole, "row", "has", "have") == found


def test_a_part_of_another_file_and_its_share() -> None:
    found = part_of(1, 4, "row", "stands", "stand", of="test.csv", percent=True)
    assert found == "1 of 4 (25.0 %) rows of test.csv stands"
