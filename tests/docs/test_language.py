"""README, docs and studies, shown outputs included, use the terms of the field: former words do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.site.blocks import ROOT, pages

FORMER = re.compile(
    r"counting (row|beside)|plain counting|\b(lean(ed|s|ings?) on|heed\w*|rivals?|duels?|foret[eo]ld?\w*)\b"
    r"|\b(nought|anew|lately)\b"
    r"|as understood|chance!|best floor|privacy floor|x 100\b|would spoil|ids known|held against"
    r"|\bby more than chance|\bwho is ahead|\bfigures? x|--(anew|beside|every|at|valid|other|gap|part|on|verdicts)\b"
    r"|chance!|below random|counting\.safetensors|floor\.json|whole sequences|most_words"
    r"|best_counting|beats_counting"
    r"|\b(not )?surely apart|\buntaught|\btaught\b|\bverbs?\b|\ba row a\b|\bcuts of\b",
    re.IGNORECASE,
)
PAGES = [*pages(), ROOT / "CONTRIBUTING.md", *sorted((ROOT / "studies" / "results").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_former_words_do_not_occur(page: Path) -> None:
    text = re.sub(r"(?<!`)`[^`\n]*`(?!`)|\*[^*\n]*\*", "", page.read_text(encoding="utf-8"))
    assert [match[0] for match in FORMER.finditer(text)] == []
