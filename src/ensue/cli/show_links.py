"""How posts, articles and their links look in a terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ensue.answers import LinkAnswer
from ensue.cli import show
from ensue.lines import plural
from ensue.tasks.link.check import AloneFindings, LinkFindings

if TYPE_CHECKING:
    from ensue.answers import LinkExplanation
    from ensue.evaluation.link import LinkResult
    from ensue.tasks.link.measures import AtCut
    from ensue.tasks.link.ranked import RankedCorpus

_MEASURES = {
    "mrr": "MRR",
    "recall@10": "recall@10",
    "map": "MAP",
    "article_mrr": "by article: MRR",
    "article_map": "MAP",
    "pooled_ap": "pooled AP",
    "mrp": "mRP",
    "auc": "AUC",
}
_WIDE = 100


def findings(found: LinkFindings) -> None:
    """The answer of ``ensue check``."""
    show.line(
        f"{plural(found.articles, 'article')}, words median {found.median_words:,}, longest {found.longest_words:,}; "
        f"{plural(found.posts, 'post')}, words median {found.median_post_words:,}"
    )
    show.line(
        f"{plural(found.links, 'link')} between {plural(found.linked_posts, 'post')} and "
        f"{plural(found.linked_articles, 'article')}, at most {found.most_posts:,} about one"
    )
    if found.parts:
        show.line(f"parts: {', '.join(f'{name or chr(45)} {count:,}' for name, count in found.parts.items())}")
    show.line(f"near copies of an earlier post: {found.near_copies:,}; copies of a headline: {found.headlines:,}")
    rows = ((row.text, ", ".join(row.about)) for row in found.rows)
    show.table(("post", "about"), rows, wraps=("post", "about"), title="the first three, as understood")
    for name, leak in found.splits.items():
        show.line(
            f"  {name}: {plural(leak.other_posts, 'post')}, {leak.on_shared:,} about an article that stands on both "
            f"sides, {plural(leak.copies, 'near copy', 'near copies')}"
        )
    show.spoiling(found.warnings)


def findings_alone(found: AloneFindings) -> None:
    """The answer of ``ensue check`` for posts without articles, or the reverse."""
    show.line(
        f"{plural(found.texts, found.kind.removesuffix('s'))}, words median {found.median_words:,}, longest "
        f"{found.longest_words:,}; near copies of an earlier one: {found.near_copies:,}"
    )
    rows = ((row.text, row.id) for row in found.rows)
    show.table(
        (found.kind.removesuffix("s"), "id"), rows, wraps=("post", "article"), title="the first three, as understood"
    )
    show.spoiling(found.warnings)


def result(found: LinkResult) -> None:
    """The table, what the even cut catches, the card and the verdict."""
    from ensue.evaluation.link import even

    show.figures(found.rows, _MEASURES, "figures x 100, ± 95 %")
    for row in found.rows:
        if (caught := even(row)) is not None:
            show.line(f"  {row.model}, P at least .5: {cut_in_words(caught, 'pairs')}")
    for name in ("data", "candidates", "pool", "together", "averaging", "leaked", "headlines", "interval"):
        show.line(f"  {name}: {getattr(found.protocol, name)}")
    show.line(found.verdict)


def cut_in_words(found: AtCut, what: str) -> str:
    """What a threshold catches, with both intervals."""
    return (
        f"{plural(found.retrieved, what)}, precision {_share(found.precision)} [{_share(found.precision_interval[0])}, "
        f"{_share(found.precision_interval[1])}], recall {_share(found.recall)} [{_share(found.recall_interval[0])}, "
        f"{_share(found.recall_interval[1])}]"
    )


def answer(found: LinkAnswer) -> None:
    """The articles for one post, best first."""
    rows = []
    for rank, choice in enumerate(found.choices, 1):
        value = choice.score if choice.probability is None else choice.probability
        rows.append((str(rank), show.one_line(choice.value), f"{value:.3f}", _cut(choice.sentence)))
    if found.id:
        show.line(show.one_line(found.id))
    if not found.choices:
        show.line("no text: nothing to answer from")
        return
    heads = ("#", "article", "P" if _sure(found) else "score", "closest sentence")
    show.table(heads, rows, wraps=("article", "closest sentence"))
    nothing = "" if found.known else ": nothing known, so the order says nothing"
    show.line(f"{found.known} of {plural(found.given, 'word')} known{nothing}")


def explanation(found: LinkExplanation) -> None:
    """Each word of the post with what the best article loses without it, and the sentences it is closest to."""
    words = "  ".join(f"{word} {-lost:+.2f}" for word, lost in zip(found.words, found.lost, strict=False))
    show.line("score of the best article when a word of the post is taken out:")
    show.line(f"  {words}")
    for sentence, near in found.sentences:
        show.line(f"  {near:.2f}  {_cut(sentence)}")
    answer(found.answer)


def ranked(found: RankedCorpus, k: int) -> None:
    """The best posts of a story, what repeats them below them, and what the even cut catches."""
    rows = found.order[found.copies[found.order] == found.order][:k]
    sure = found.probabilities
    frame = found.table_of(rows)
    copies = found.repeats()
    lines = []
    for rank, row in enumerate(rows.tolist(), 1):
        value, article, sentence, _ = frame.row(rank - 1)
        text = _cut(found.posts.texts[row])
        if more := copies.get(row, 0):
            text += f"\n(and {more:,} that {'repeats' if more == 1 else 'repeat'} it)"
        lines.append((str(rank), f"{value:.3f}", text, show.one_line(article), _cut(sentence)))
    texts = ("post", "article", "closest sentence")
    show.table(("#", "score" if sure is None else "P", *texts), lines, wraps=texts, title="posts")
    show.line(
        f"{plural(len(found.posts), 'post')}, {plural(len(found.articles), 'article')}; copies of another post: "
        f"{sum(copies.values()):,}"
    )
    if sure is not None:
        show.line(f"probabilities {found.source}; {plural(int((sure >= 0.5).sum()), 'post')} at P of at least .5")
    if found.cut is not None:
        show.line(f"at P = .5, by the labels of this file: {cut_in_words(found.cut, 'post')}")


def ranked_json(found: RankedCorpus, k: int) -> dict[str, Any]:
    """The JSON object of ``ensue link --json``."""
    rows = found.order[found.copies[found.order] == found.order][:k]
    copies = found.repeats()
    best = [
        {"id": found.posts.ids[row], "text": found.posts.texts[row], **own, "repeated_by": copies.get(row, 0)}
        for row, own in zip(rows.tolist(), found.table_of(rows).drop("copy_of").to_dicts(), strict=True)
    ]
    return {
        "task": "link",
        "posts": len(found.posts),
        "articles": len(found.articles),
        "repeat_another": sum(copies.values()),
        "probabilities": found.source or None,
        "cut": asdict(found.cut) if found.cut is not None else None,
        "best": best,
    }


def asked(found: RankedCorpus, row: int) -> None:
    """One post of a review, with the article that suits it best."""
    import numpy as np

    frame = found.table_of(np.array([row]))
    show.line("")
    show.line(found.posts.texts[row])
    value, article, sentence, _ = frame.row(0)
    title = found.articles.titles[int(found.columns[row])]
    show.line(
        f"  {value:.3f}  {article}{f' ({_cut(title)})' if title else ''}{f': {_cut(sentence)}' if sentence else ''}"
    )
    show.out.print("  y/n/q? ", end="", markup=False, highlight=False)


def again() -> None:
    """Asked for another answer."""
    show.out.print("  y, n or q? ", end="", markup=False, highlight=False)


def _share(value: float) -> str:
    return f"{value:.2f}".removeprefix("0") if value < 1 else "1.00"


def _sure(found: LinkAnswer) -> bool:
    return any(choice.probability is not None for choice in found.choices)


def _cut(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _WIDE else f"{plain[: _WIDE - 1]}…"
