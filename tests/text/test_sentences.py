"""Sentences end where a reader ends them, and nothing of a text is lost between them."""

from __future__ import annotations

import numpy as np
import pytest

from ensue.tasks.link.quotes import sentences


@pytest.mark.parametrize(
    "text",
    [
        "He works for the U.S. Treasury. | It rains.",
        "Troops left the U.S. in May. | Others stayed in the U.K. | They return.",
        "Mr. Smith of the U.N. came at 5 p.m. on Monday. | He left at 6 p.m. | The hall was empty.",
        "It cost 3.5 million at v2.0.1 of ensue.org. | Prices rose 0.5 percent in 2020. | In 2021 they fell.",
        '"Really?" he asked. | "Yes!" | She left.',
        "He said: “We won.” | Nobody cheered.",
        "(It was late.) | [Then it was not.] | So do I. | The rest is known.",
        "Wait... what? | He paused… and went on… | Then he left.",
        "Acme Inc. said so. | J. R. R. Tolkien wrote for Allen & Unwin Ltd. | The book sold.",
        "Sen. Warren and Gov. Brown met Prof. Lee et al. on Jan. 5. | All agreed.",
        "Use tools, e.g. Python, i.e. code. | See Fig. 3 and No. 7. | He said no. | Then yes.",
        "Yahoo! said it would. | Who? | Me!",
        "1. Vote for the bridge. | 2. Count again.",
        "天气很好。|我们去公园！|好吗？",
        "Headline without a stop\n | The body begins. | It goes on: longer than forty marks,\nover a wrapped line.",
        "One paragraph\n\n | another one",
        "No mark at all",
        "A title\n | all of this is in lower case. | it ends anyway, e.g. here. | no. 7 is the last.",
        "Planned for 3 Dr. Martin Luther King Jr. Drive. | St. Petersburg vs. Moscow.",
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str) -> None:
    parts = [part.strip() for part in text.split("|")]
    assert sentences(text.replace(" | ", " ").replace("|", "")) == parts


def test_nothing_is_lost_whatever_a_text_is_made_of() -> None:
    pieces = ["U.S.", "Mr.", "3.5", "...", "…", '"', "”", ")", "(", "\n", "\n\n", " ", "The", "the", "word", "!", "?"]
    pieces += [".", "I.", "J.", "e.g.", "No.", "7", "。", "\u2028", "\t", "é", "😀"]
    random = np.random.default_rng(0)
    for _ in range(2000):
        text = "".join(pieces[place] for place in random.integers(len(pieces), size=random.integers(0, 25)))
        found = sentences(text)
        assert all(part == part.strip() != "" for part in found)
        assert "".join("".join(found).split()) == "".join(text.split())
        at = 0
        for part in found:  # each stands in the text as it was written, in order
            at = text.index(part, at) + len(part)


def test_a_long_text_without_spaces_takes_no_time_by_the_square() -> None:
    assert sentences("." * 200_000) == ["." * 200_000]
    assert sentences("." * 200_000 + "x") == ["." * 200_000 + "x"]
    assert sentences("a." * 100_000) == ["a." * 100_000]
    assert len(sentences("U.S. The " * 20_000)) == 20_001
