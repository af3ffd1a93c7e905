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
from ensue.tasks.link.corpus_ranking import EVEN, RankedCorpus
from ensue.tasks.link.cut import MIN_POSTS
from ensue.tasks.link.review.labels import NO, UNSURE, YES, Labels, labels_file
from ensue.tasks.link.review.review import review

KEYS = {"y": YES, "yes": YES, "n": NO, "no": NO, "?": UNSURE, "unsure": UNSURE}
LABELS = {YES: "yes", NO: "no", UNSURE: "unsure"}
MAX_DISAGREEMENTS = 20
"""Disagreements that are listed."""
UNDO, STOP = ("u", "undo"), ("q", "quit")
PATIENCE = 60.0
"""Seconds to wait for the labels of others; then their posts are asked about here too."""
_PAUSE = 0.2


def show(ranking: RankedCorpus, k: int) -> None:
    """Print the best posts, how often each is repeated, and what the cutoffs retrieve."""
    # A post that repeats an earlier one is counted with that one, and takes no row of its own.
    rows = ranking.order[ranking.copies[ranking.order] == ranking.order][:k]
    probabilities = ranking.probabilities
    frame = ranking.table_of(rows)
    copies = ranking.repeats()
    lines = []
    for rank, row in enumerate(rows.tolist(), 1):
        value, article, sentence, *_ = frame.row(rank - 1)
        text = display.shorten(ranking.posts.texts[row])
        if num_copies := copies.get(row, 0):
            text += f"\n(and {num_copies:,} that {'repeats' if num_copies == 1 else 'repeat'} it)"
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
            f"the best cutoff is between {cut.low:.3f} ({cut.max_posts:,}) and {cut.high:.3f} ({cut.min_posts:,})"
        )
    elif probabilities is None:
        reason = (
            f"it needs at least {MIN_POSTS} posts, scored by best, tfidf or bm25 without --encoder and --unsupervised"
        )
        display.line(f"no cutoff suggested: {reason}")
    if probabilities is not None:
        display.line(
            f"probabilities {ranking.source}; {plural(int((probabilities >= EVEN).sum()), 'post')} at P of at least .5"
        )
    if ranking.cut is not None and ranking.labels is not None:
        source = "cross-validated, " if ranking.labels.taught else ""
        if ranking.labels.learned:
            source = f"of which {ranking.labels.learned:,} of {ranking.labels.story:,} were training data, "
        display.line(f"at P = .5, with the labels of this file: {source}{display.cutoff_metrics(ranking.cut, 'post')}")


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


def review_posts(
    ranking: RankedCorpus, posts: Path, labels_path: Path | None, annotator: str, overlap: float
) -> RankedCorpus:
    """Ask for labels, post by post, until the target is reached or the annotator stops; each is stored at once.

    Args:
        ranking: the posts, with their scores.
        posts: the file that they were read from.
        labels_path: the file of labels; next to the posts unless given.
        annotator: who labels; the name of the user unless given.
        overlap: fraction of the posts that every annotator labels, also if another one has labelled them.

    Returns:
        The ranking with the labels.
    """
    labels = Labels(labels_path or labels_file(posts, ranking.articles), annotator or _user_name(), posts)
    queue = _Queue(ranking, labels, overlap)
    count = sum(map(bool, labels.given.values()))
    # Labels of an earlier review of the same posts are in the file, and are not asked for again.
    so_far = f" ({count:,} so far)" if count else ""
    display.log(f"labels: {labels.path}{so_far}, as {display.one_line(labels.reader)} (--annotator NAME for another)")
    display.log(
        "y: belongs to the story, n: does not, ?: unsure, u: undo, q: stop; run the same command again to continue"
    )
    progress = None
    start, rows = ranking.review_start()
    for progress in review(start, rows, queue.ask, shared=queue):
        display.log(progress.sentence)
    if progress is not None and not progress.reached:
        display.log("stopped before the target; run the same command again to continue")
    labelled_rows, verdicts = queue.labels()
    _show_annotators(ranking, labels)
    labels.close()
    # A post that nobody could decide says nothing about relevance, and leaves the probabilities alone.
    decided = verdicts != UNSURE
    return ranking.reviewed(start, rows, labelled_rows[decided], verdicts[decided] == YES, queue.labels_by_row())


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in containers
        return "reader"


class _Queue:
    """The posts of a ranking, and the labels of all annotators."""

    def __init__(self, ranking: RankedCorpus, labels: Labels, overlap: float) -> None:
        self._ranking, self._labels, self._overlap = ranking, labels, overlap
        self._rows = {name: row for row, name in enumerate(ranking.posts.ids)}

    @property
    def looks(self) -> int:
        self._labels.refresh()
        return self._labels.looks

    def look(self) -> int:
        return self._labels.look()

    def labels(self) -> tuple[Index, npt.NDArray[np.int8]]:
        """Return the rows of the labelled posts, and their labels."""
        self._labels.refresh()
        verdicts = {
            row: verdict
            for name in self._labels.given
            if (row := self._rows.get(name)) is not None and (verdict := self._labels.verdict(name)) is not None
        }
        return np.array([*verdicts], np.int64), np.array([*verdicts.values()], np.int8)

    def labels_by_row(self) -> dict[int, dict[str, int]]:
        """Return, for each labelled row, the label of each annotator."""
        return {self._rows[name]: votes for name, votes in self._labels.given.items() if votes and name in self._rows}

    def ask(self, rows: Index) -> npt.NDArray[np.int8]:
        """Return the labels of some posts, by others meanwhile or by this annotator, until they stop."""
        answers: dict[int, int] = {}
        for row, is_second in self._turns(rows.tolist()):
            label = self._answer(row)
            if label is None:
                break
            if not is_second:
                answers[row] = label
        # Posts that others have labelled meanwhile come back with their labels, up to the first without any.
        labels = [answers[row] if row in answers else self._verdict(row) for row in rows.tolist()]
        num_labelled = next((index for index, label in enumerate(labels) if label is None), len(labels))
        return np.array(labels[:num_labelled], np.int8)

    def _turns(self, rows: list[int]) -> Iterator[tuple[int, bool]]:
        """Yield (row, is second label) of posts to ask about; each is claimed while it is asked about.

        Posts of the overlap that others have labelled come first.
        """
        # Second labels measure the agreement of annotators; they are asked for first.
        for row in self._second():
            if self._labels.claim(self._ranking.posts.ids[row]):
                yield row, True
                self._labels.release(self._ranking.posts.ids[row])
        logged, since = False, time.monotonic()
        while rows:
            postponed = []
            for row in rows:
                name = self._ranking.posts.ids[row]
                if self._verdict(row) is not None:
                    continue
                patient = time.monotonic() - since <= PATIENCE
                if not self._labels.claim(name) and patient:
                    postponed.append(row)
                    continue
                if self._verdict(row) is None:  # another annotator may have labelled it just before the claim
                    yield row, False
                    logged, since = False, time.monotonic()
                self._labels.release(name)
            if postponed and not logged:
                display.log(f"{plural(len(postponed), 'post')} are being labelled by others; waiting")
                logged = True
            if postponed:
                time.sleep(_PAUSE)
            # What others were labelling is looked at again, until they are done or patience is over.
            rows = postponed

    def _verdict(self, row: int) -> int | None:
        self._labels.refresh()
        return self._labels.verdict(self._ranking.posts.ids[row])

    def _second(self) -> list[int]:
        """Return the posts of the overlap that others have labelled and this annotator has not."""
        if not self._overlap:
            return []
        return [
            self._rows[name]
            for name, votes in self._labels.given.items()
            if votes and self._labels.reader not in votes and name in self._rows and _hash(name) < self._overlap
        ]

    def _answer(self, row: int) -> int | None:
        """Return the label that this annotator gives a post, or ``None`` to stop; after "undo" it is asked again."""
        name = self._ranking.posts.ids[row]
        _show_counter(self._labels, len(self._ranking.posts))
        _show_post(self._ranking, row)
        while (word := (sys.stdin.readline() or "q").strip().lower()) not in KEYS:
            if word in STOP:
                return None
            if word not in UNDO:
                _prompt("  y, n, ? (unsure), u (undo) or q? ")
                continue
            former = self._labels.undo()
            if former is None or former not in self._rows:
                _prompt("  nothing left to undo; y, n, ?, q? ")
                continue
            # The former post is asked about again, then the current one.
            if self._answer(self._rows[former]) is None:
                return None
            _show_post(self._ranking, row)
        self._labels.add(name, KEYS[word])
        votes = self._labels.given[name]
        if len(votes) > 1:
            _show_others(KEYS[word], {other: votes[other] for other in votes if other != self._labels.reader})
        return KEYS[word]


def _hash(name: str) -> float:
    """Return a number in [0, 1) that depends on the id of a post alone."""
    # A hash of the id: every annotator draws the same posts without knowing of the others.
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


def _show_others(label: int, votes: Mapping[str, int]) -> None:
    """Print the labels of others, once the post is labelled."""
    texts = ", ".join(f"{_name(annotator)}: {LABELS[other]}" for annotator, other in votes.items())
    # Only yes against no is a disagreement; unsure agrees with everybody.
    disagrees = any({label, other} == {YES, NO} for other in votes.values())
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
