"""How posts that were ranked for a story look in a terminal, and those that a review asks about."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ensue.cli import display
from ensue.cli.show_links import cut, share
from ensue.lines import plural
from ensue.tasks.link.cut import LEAST, SuggestedCut
from ensue.tasks.link.measures import AtCut
from ensue.tasks.link.ranked import EVEN, RankedCorpus

WITHOUT_CUT = f"it needs at least {LEAST} posts, scored by best, tfidf or bm25 without --encoder and --unsupervised"


def cut_in_words(found: AtCut, what: str) -> str:
    """What a threshold catches, with both intervals."""
    return (
        f"{plural(found.retrieved, what)}, precision {share(found.precision)} [{share(found.precision_interval[0])}, "
        f"{share(found.precision_interval[1])}], recall {share(found.recall)} [{share(found.recall_interval[0])}, "
        f"{share(found.recall_interval[1])}]"
    )


def suggested_in_words(found: SuggestedCut) -> str:
    """Where the list stops, and how sure that is."""
    return (
        f"suggested cutoff: score {found.cut:.3f} ({plural(found.posts, 'post')} above); for 90 % of labelled stories "
        f"the best cutoff is between {found.low:.3f} ({found.most:,}) and {found.high:.3f} ({found.least:,})"
    )


def ranked(found: RankedCorpus, k: int) -> None:
    """The best posts of a story, what repeats them below them, and what the even cut catches."""
    rows = found.order[found.copies[found.order] == found.order][:k]
    sure = found.probabilities
    frame = found.table_of(rows)
    copies = found.repeats()
    lines = []
    for rank, row in enumerate(rows.tolist(), 1):
        value, article, sentence, *_ = frame.row(rank - 1)
        text = cut(found.posts.texts[row])
        if more := copies.get(row, 0):
            text += f"\n(and {more:,} that {'repeats' if more == 1 else 'repeat'} it)"
        lines.append((str(rank), f"{value:.3f}", text, display.one_line(article), cut(sentence)))
    texts = ("post", "article", "best matching sentence")
    display.table(("#", "score" if sure is None else "P", *texts), lines, wraps=texts, title="posts")
    display.line(
        f"{plural(len(found.posts), 'post')}, {plural(len(found.articles), 'article')}; near copies of another post: "
        f"{sum(copies.values()):,}"
    )
    if found.suggested is not None:
        display.line(suggested_in_words(found.suggested))
    elif sure is None:
        display.line(f"no cutoff suggested: {WITHOUT_CUT}")
    if sure is not None:
        display.line(f"probabilities {found.source}; {plural(int((sure >= EVEN).sum()), 'post')} at P of at least .5")
    if found.cut is not None and found.labels is not None:
        how = "cross-validated, " if found.labels.taught else ""
        if found.labels.learned:
            how = f"of which {found.labels.learned:,} of {found.labels.story:,} were training data, "
        display.line(f"at P = .5, with the labels of this file: {how}{cut_in_words(found.cut, 'post')}")


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
        "suggested_cut": asdict(found.suggested) if found.suggested is not None else None,
        "labels": asdict(found.labels) if found.labels is not None else None,
        "best": best,
    }
