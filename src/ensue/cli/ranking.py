"""A ranking of posts in a terminal: its best posts, and its review by one or several annotators."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ensue.cli import display
from ensue.data.histories import Index
from ensue.lines import plural
from ensue.tasks.link.cut import LEAST
from ensue.tasks.link.ranked import EVEN, RankedCorpus
from ensue.tasks.link.review.labels import NO, UNSURE, YES, Labels, labels_file
from ensue.tasks.link.review.review import review

KEYS = {"y": YES, "yes": YES, "n": NO, "no": NO, "?": UNSURE, "unsure": UNSURE}
LABELS = {YES: "yes", NO: "no", UNSURE: "unsure"}
MAX_DISAGREEMENTS = 20
"""Disagreements that are listed."""
UNDO, STOP = ("u", "undo"), ("q", "quit")
PATIENCE = 60.0
"""Seconds that the last posts of ten wait for who is looking at them; then they are asked here too."""
_PAUSE = 0.2


def show(ranking: RankedCorpus, k: int) -> None:
    """Print the best posts, how often each is repeated, and what the cutoffs retrieve."""
    rows = ranking.order[ranking.copies[ranking.order] == ranking.order][:k]
    probabilities = ranking.probabilities
    frame = ranking.table_of(rows)
    copies = ranking.repeats()
    lines = []
    for rank, row in enumerate(rows.tolist(), 1):
        value, article, sentence, *_ = frame.row(rank - 1)
        text = display.shorten(ranking.posts.texts[row])
        if more := copies.get(row, 0):
            text += f"\n(and {more:,} that {'repeats' if more == 1 else 'repeat'} it)"
        lines.append((str(rank), f"{value:.3f}", text, display.one_line(article), display.shorten(sentence)))
    texts = ("post", "article", "best matching sentence")
    display.table(("#", "score" if probabilities is None else "P", *texts), lines, wraps=texts, title="posts")
    display.line(
        f"{plural(len(ranking.posts), 'post')}, {plural(len(ranking.articles), 'article')}; "
        f"near copies of another post: {sum(copies.values()):,}"
    )
    if ranking.suggested is not None:
        cut = ranking.suggested
        display.line(
            f"suggested cutoff: score {cut.cut:.3f} ({plural(cut.posts, 'post')} above); for 90 % of labelled stories "
            f"the best cutoff is between {cut.low:.3f} ({cut.most:,}) and {cut.high:.3f} ({cut.least:,})"
        )
    elif probabilities is None:
        reason = f"it needs at least {LEAST} posts, scored by best, tfidf or bm25 without --encoder and --unsupervised"
        display.line(f"no cutoff suggested: {reason}")
    if probabilities is not None:
        display.line(
            f"probabilities {ranking.source}; {plural(int((probabilities >= EVEN).sum()), 'post')} at P of at least .5"
        )
    if ranking.cut is not None and ranking.labels is not None:
        how = "cross-validated, " if ranking.labels.taught else ""
        if ranking.labels.learned:
            how = f"of which {ranking.labels.learned:,} of {ranking.labels.story:,} were training data, "
        display.line(f"at P = .5, with the labels of this file: {how}{display.cutoff_metrics(ranking.cut, 'post')}")


def ranked_json(ranking: RankedCorpus, k: int) -> dict[str, Any]:
    """Return the JSON object of ``ensue link --json``."""
    rows = ranking.order[ranking.copies[ranking.order] == ranking.order][:k]
    copies = ranking.repeats()
    best = [
        {"id": ranking.posts.ids[row], "text": ranking.posts.texts[row], **columns, "repeated_by": copies.get(row, 0)}
        for row, columns in zip(rows.tolist(), ranking.table_of(rows).drop("copy_of").to_dicts(), strict=True)
    ]
    return {
        "task": "link",
        "posts": len(ranking.posts),
        "articles": len(ranking.articles),
        "repeat_another": sum(copies.values()),
        "probabilities": ranking.source or None,
        "cut": asdict(ranking.cut) if ranking.cut is not None else None,
        "suggested_cut": asdict(ranking.suggested) if ranking.suggested is not None else None,
        "labels": asdict(ranking.labels) if ranking.labels is not None else None,
        "best": best,
    }


def review_posts(found: RankedCorpus, posts: Path, labels: Path | None, by: str, overlap: float) -> RankedCorpus:
    """Ask, a post at a time, until the target is reached or the reader stops; every answer is kept at once.

    Args:
        found: what is asked about.
        posts: the file it was read from.
        labels: the file of labels; beside the posts unless named.
        by: who labels; the name at this machine unless given.
        overlap: share of the posts that every reader is asked about, though another one has labelled them.
    """
    kept = Labels(labels or labels_file(posts, found.articles), by or _own_name(), posts)
    queue = _Queue(found, kept, overlap)
    count = sum(map(bool, kept.given.values()))
    so_far = f" ({count:,} so far)" if count else ""
    display.log(f"labels: {kept.path}{so_far}, as {display.one_line(kept.reader)} (--annotator NAME for another)")
    display.log(
        "y: belongs to the story, n: does not, ?: unsure, u: undo, q: stop; run the same command again to continue"
    )
    progress = None
    start, rows = found.review_start()
    for progress in review(start, rows, queue.ask, shared=queue):
        display.log(progress.sentence)
    if progress is not None and not progress.reached:
        display.log("stopped before the target; run the same command again to continue")
    read, said = queue.labels()
    _show_annotators(found, kept)
    kept.close()
    sure = said != UNSURE
    return found.reviewed(start, rows, read[sure], said[sure] == YES, queue.said())


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in containers
        return "reader"


class _Queue:
    """The posts, and what all readers said of them so far."""

    def __init__(self, found: RankedCorpus, kept: Labels, overlap: float) -> None:
        self._found, self._kept, self._overlap = found, kept, overlap
        self._rows = {name: row for row, name in enumerate(found.posts.ids)}

    @property
    def looks(self) -> int:
        self._kept.refresh()
        return self._kept.looks

    def look(self) -> int:
        return self._kept.look()

    def labels(self) -> tuple[Index, npt.NDArray[np.int8]]:
        self._kept.refresh()
        pairs = [
            (row, verdict)
            for name in self._kept.given
            if (row := self._rows.get(name)) is not None and (verdict := self._kept.verdict(name)) is not None
        ]
        return np.array([row for row, _ in pairs], np.int64), np.array([said for _, said in pairs], np.int8)

    def said(self) -> dict[int, dict[str, int]]:
        """Row -> reader -> what they said."""
        return {self._rows[name]: said for name, said in self._kept.given.items() if said and name in self._rows}

    def ask(self, rows: Index) -> npt.NDArray[np.int8]:
        """What is said of some posts: by others in the meantime, or by this reader, until they stop."""
        answers: dict[int, int] = {}
        for row, again in self._turns(rows.tolist()):
            said = self._answer(row)
            if said is None:
                break
            if not again:
                answers[row] = said
        given = [answers[row] if row in answers else self._known(row) for row in rows.tolist()]
        stopped = next((place for place, said in enumerate(given) if said is None), len(given))
        return np.array(given[:stopped], np.int8)

    def _turns(self, rows: list[int]) -> Iterator[tuple[int, bool]]:
        """The posts to ask about, claimed while they are asked; first those that another one labelled already."""
        for row in self._second():
            if self._kept.claim(self._found.posts.ids[row]):
                yield row, True
                self._kept.release(self._found.posts.ids[row])
        left, waited, since = rows, False, time.monotonic()
        while left:
            later = []
            for row in left:
                name = self._found.posts.ids[row]
                if self._known(row) is not None:
                    continue
                late = time.monotonic() - since > PATIENCE
                if not self._kept.claim(name) and not late:
                    later.append(row)
                    continue
                if self._known(row) is None:  # not labelled by another one just before it was claimed
                    yield row, False
                    since, waited = time.monotonic(), False
                self._kept.release(name)
            if later and not waited:
                display.log(f"{plural(len(later), 'post')} are being labelled by others; waiting")
                waited = True
            if later:
                time.sleep(_PAUSE)
            left = later

    def _known(self, row: int) -> int | None:
        self._kept.refresh()
        return self._kept.verdict(self._found.posts.ids[row])

    def _second(self) -> list[int]:
        """Posts of the overlap that others labelled and this reader did not."""
        if not self._overlap:
            return []
        return [
            self._rows[name]
            for name, said in self._kept.given.items()
            if said and self._kept.reader not in said and name in self._rows and _share(name) < self._overlap
        ]

    def _answer(self, row: int) -> int | None:
        """What this reader says of a post; ``None`` where they stop. To undo is to be asked again at once."""
        name = self._found.posts.ids[row]
        _show_counter(self._kept, len(self._found.posts))
        _show_post(self._found, row)
        while (word := (sys.stdin.readline() or "q").strip().lower()) not in KEYS:
            if word in STOP:
                return None
            if word not in UNDO:
                _prompt("  y, n, ? (unsure), u (undo) or q? ")
                continue
            before = self._kept.undo()
            if before is None or before not in self._rows:
                _prompt("  nothing left to undo; y, n, ?, q? ")
                continue
            if self._answer(self._rows[before]) is None:
                return None
            _show_post(self._found, row)
        self._kept.add(name, KEYS[word])
        if others := {reader: said for reader, said in self._kept.given[name].items() if reader != self._kept.reader}:
            _show_others(KEYS[word], others)
        return KEYS[word]


def _share(name: str) -> float:
    """A number in [0, 1) by the id of a post, the same for every reader."""
    return int.from_bytes(blake2b(name.encode(), digest_size=6, person=b"overlap").digest()) / 2**48


def _show_counter(labels: Labels, num_posts: int) -> None:
    """Print how many posts are labelled, as what, and by whom."""
    verdicts = [labels.verdict(name) for name in labels.given]
    by_label = ", ".join(f"{verdicts.count(label):,} {word}" for label, word in LABELS.items())
    counts = {annotator: count.total() for annotator, count in labels.counts().items() if count.total()}
    by_annotator = ", ".join(f"{_name(annotator)} {count:,}" for annotator, count in counts.items())
    num_disagreements = len(labels.disagreements())
    display.line("")
    display.line(
        f"{len(verdicts) - verdicts.count(None):,} of {num_posts:,} read: {by_label}"
        f"{by_annotator and f'; {by_annotator}'}"
        f"{f'; disagreements: {num_disagreements:,}' if num_disagreements else ''}"
    )


def _show_post(ranking: RankedCorpus, row: int) -> None:
    """Print one post with its best article, and ask for its label."""
    value, article, sentence, *_ = ranking.table_of(np.array([row])).row(0)
    title = display.shorten(ranking.articles.titles[int(ranking.columns[row])])
    sentence = display.shorten(sentence)
    display.line(ranking.posts.texts[row])
    display.line(f"  {value:.3f}  {article}{title and f' ({title})'}{sentence and f': {sentence}'}")
    _prompt("  y/n/?/u/q? ")


def _show_others(label: int, others: Mapping[str, int]) -> None:
    """Print the labels of others, once the post is labelled."""
    texts = ", ".join(f"{_name(annotator)}: {LABELS[other]}" for annotator, other in others.items())
    disagrees = any({label, other} == {YES, NO} for other in others.values())
    display.line(f"  {texts}{': you disagree' if disagrees else ''}")


def _show_annotators(ranking: RankedCorpus, labels: Labels) -> None:
    """Print the labels by annotator, their agreement, and the posts that they disagree on."""
    counts = labels.counts()
    if len(counts) < 2:
        return
    rows = [
        (_name(annotator), *(f"{count[label]:,}" for label in LABELS), f"{count.total():,}")
        for annotator, count in counts.items()
        if count.total()
    ]
    display.table(("annotator", *LABELS.values(), "posts"), rows, title="labels by annotator")
    num_posts, num_same, alpha = labels.agreement()
    if num_posts:
        degree = "" if alpha is None else f"; Krippendorff's alpha {alpha:.2f}"
        display.line(f"{plural(num_posts, 'post')} with two or more labels, {num_same:,} with the same label{degree}")
    texts = dict(zip(ranking.posts.ids, ranking.posts.texts, strict=True))
    lines = []
    for name, by_annotator in labels.disagreements().items():
        if name in texts:
            answers = ", ".join(f"{_name(annotator)} {LABELS[label]}" for annotator, label in by_annotator.items())
            lines.append((display.one_line(name), answers, display.shorten(texts[name])))
    if lines:
        num_listed = min(MAX_DISAGREEMENTS, len(lines))
        title = f"disagreements, {num_listed:,} of {len(lines):,}; other annotators are asked next"
        display.table(("post", "labels", "text"), lines[:num_listed], wraps=("labels", "text"), title=title)


def _name(annotator: str) -> str:
    return display.one_line(annotator) if annotator else "somebody"


def _prompt(text: str) -> None:
    display.console().print(text, end="", markup=False, highlight=False)
