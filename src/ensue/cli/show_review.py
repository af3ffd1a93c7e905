"""How a review looks in a terminal: the post that is asked about, the counter, and what several readers said."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ensue.cli import display
from ensue.cli.show_links import cut
from ensue.lines import plural
from ensue.tasks.link.ranked import RankedCorpus
from ensue.tasks.link.review.labels import NO, UNSURE, YES, Labels

SAID = {YES: "yes", NO: "no", UNSURE: "unsure"}
_SHOWN = 20
"""Disagreements that are listed."""


def counter(kept: Labels, posts: int) -> None:
    """How many are read, what was said of them, and by whom."""
    verdicts = [kept.verdict(name) for name in kept.given]
    told = ", ".join(f"{sum(own == said for own in verdicts):,} {word}" for said, word in SAID.items())
    counts = {reader: counts.total() for reader, counts in kept.counts().items() if counts.total()}
    people = "; " + ", ".join(f"{_name(reader)} {count:,}" for reader, count in counts.items()) if counts else ""
    apart = len(kept.disagreements())
    display.line("")
    display.line(
        f"{sum(own is not None for own in verdicts):,} of {posts:,} read: {told}{people}"
        f"{f'; disagreements: {apart:,}' if apart else ''}"
    )


def asked(found: RankedCorpus, row: int) -> None:
    """One post of a review, with the article that suits it best."""
    frame = found.table_of(np.array([row]))
    display.line(found.posts.texts[row])
    value, article, sentence, *_ = frame.row(0)
    title = found.articles.titles[int(found.columns[row])]
    display.line(
        f"  {value:.3f}  {article}{f' ({cut(title)})' if title else ''}{f': {cut(sentence)}' if sentence else ''}"
    )
    _prompt("  y/n/?/u/q? ")


def again() -> None:
    """Asked for another answer."""
    _prompt("  y, n, ? (unsure), u (undo) or q? ")


def nothing_to_undo() -> None:
    """There is no label of this reader's to take back."""
    _prompt("  nothing left to undo; y, n, ?, q? ")


def compared(own: int, others: Mapping[str, int]) -> None:
    """What others said of the post, once it is labelled."""
    told = ", ".join(f"{_name(reader)}: {SAID[said]}" for reader, said in others.items())
    apart = any({own, said} == {YES, NO} for said in others.values())
    display.line(f"  {told}{': you disagree' if apart else ''}")


def readers(found: RankedCorpus, kept: Labels) -> None:
    """Who said what, how far they agree, and of which posts they do not."""
    counts = kept.counts()
    if len(counts) < 2:
        return
    rows = [
        (_name(reader), *(f"{own[said]:,}" for said in SAID), f"{own.total():,}")
        for reader, own in counts.items()
        if own.total()
    ]
    display.table(("annotator", *SAID.values(), "posts"), rows, title="labels by annotator")
    units, alike, alpha = kept.agreement()
    if units:
        degree = "" if alpha is None else f"; Krippendorff's alpha {alpha:.2f}"
        display.line(f"{plural(units, 'post')} with two or more labels, {alike:,} with the same label{degree}")
    apart = kept.disagreements()
    texts = dict(zip(found.posts.ids, found.posts.texts, strict=True)) if apart else {}
    lines = [
        (display.one_line(name), ", ".join(f"{_name(who)} {SAID[own]}" for who, own in said.items()), cut(texts[name]))
        for name, said in apart.items()
        if name in texts
    ]
    if lines:
        title = f"disagreements, {min(_SHOWN, len(lines)):,} of {len(lines):,}; other annotators are asked next"
        display.table(("post", "labels", "text"), lines[:_SHOWN], wraps=("labels", "text"), title=title)


def _name(reader: str) -> str:
    return display.one_line(reader) if reader else "somebody"


def _prompt(text: str) -> None:
    display.console().print(text, end="", markup=False, highlight=False)
