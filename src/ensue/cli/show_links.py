"""How posts, articles and their links look in a terminal."""

from __future__ import annotations

from ensue.answers import LinkAnswer, LinkExplanation
from ensue.cli import display
from ensue.lines import plural
from ensue.tasks.link.check import AloneFindings, LinkFindings

_WIDE = 100


def findings(found: LinkFindings) -> None:
    """The answer of ``ensue check``."""
    display.line(
        f"{plural(found.articles, 'article')}, words: median {found.median_words:,}, max {found.longest_words:,}; "
        f"{plural(found.posts, 'post')}, words: median {found.median_post_words:,}"
    )
    display.line(
        f"{plural(found.links, 'link')} between {plural(found.linked_posts, 'post')} and "
        f"{plural(found.linked_articles, 'article')}, at most {found.most_posts:,} per article"
    )
    if found.parts:
        display.line(f"parts: {', '.join(f'{name or chr(45)} {count:,}' for name, count in found.parts.items())}")
    display.line(f"near copies of an earlier post: {found.near_copies:,}; copies of a headline: {found.headlines:,}")
    rows = ((row.text, ", ".join(row.about)) for row in found.rows)
    display.table(("post", "about"), rows, wraps=("post", "about"), title="first rows")
    for name, leak in found.splits.items():
        display.line(
            f"  {name}: {plural(leak.other_posts, 'post')}, {leak.on_shared:,} about an article of both "
            f"files, {plural(leak.copies, 'near copy', 'near copies')}"
        )
    display.problems(found.warnings)


def findings_alone(found: AloneFindings) -> None:
    """The answer of ``ensue check`` for posts without articles, or the reverse."""
    display.line(
        f"{plural(found.texts, found.kind.removesuffix('s'))}, words: median {found.median_words:,}, max "
        f"{found.longest_words:,}; near copies of an earlier one: {found.near_copies:,}"
    )
    rows = ((row.text, row.id) for row in found.rows)
    display.table((found.kind.removesuffix("s"), "id"), rows, wraps=("post", "article"), title="first rows")
    display.problems(found.warnings)


def answer(found: LinkAnswer) -> None:
    """The articles for one post, best first."""
    rows = []
    for rank, choice in enumerate(found.choices, 1):
        value = choice.score if choice.probability is None else choice.probability
        rows.append((str(rank), display.one_line(choice.value), f"{value:.3f}", cut(choice.sentence)))
    if found.id:
        display.line(display.one_line(found.id))
    if not found.choices:
        display.line("no text, no answer")
        return
    heads = ("#", "article", "P" if _sure(found) else "score", "best matching sentence")
    display.table(heads, rows, wraps=("article", "best matching sentence"))
    unknown = "" if found.in_vocabulary else "; the order is arbitrary"
    display.line(f"in vocabulary: {found.in_vocabulary} of {plural(found.events, 'word')}{unknown}")


def explanation(found: LinkExplanation) -> None:
    """Each word of the post with the score drop of the best article without it, and the sentences it is closest to."""
    pairs = zip(found.words, found.score_drops, strict=False)
    words = "  ".join(f"{word} {display.drop(score_drop, 2)}" for word, score_drop in pairs)
    display.line("score drop of the best article without each word:")
    display.line(f"  {words}")
    for sentence, near in found.sentences:
        display.line(f"  {near:.2f}  {cut(sentence)}")
    answer(found.answer)


def share(value: float) -> str:
    """A share of 1, as .25."""
    return f"{value:.2f}".removeprefix("0") if value < 1 else "1.00"


def _sure(found: LinkAnswer) -> bool:
    return any(choice.probability is not None for choice in found.choices)


def cut(text: str) -> str:
    """A text on one line, as much of it as is read at a glance."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _WIDE else f"{plain[: _WIDE - 1]}…"
