"""Reading posts in the order a model suggests, and saying when enough is found: the statistics behind ``--review``.

The reader labels ten posts at a time, best first; after each ten, logistic regression over TF-IDF rows re-ranks the
rest (``reranker``). It starts from what the model said of each post, so that the first labels move it and nothing else.

Audits say when the target is reached, and are right in all but 1 - confidence of reviews:

**Audits** assume nothing. When so many posts in a row held nothing relevant that the rest, if it is like them, holds no
more than the target lets be missed (and ``patience`` in a row at least), a simple random sample of all posts that
nobody has read is labelled. If x of its m posts are relevant, the number K of relevant ones among the N unread is,
with confidence 1 - alpha, no larger than the largest K with P(X <= x | N, K, m) > alpha (hypergeometric, exact; the
bound of Clopper & Pearson 1934 without replacement). Recall is then at least (found + x) / (found + K). A sample is as
large as it must be to reach the target if it holds nothing; if it holds x, it grows to what x allows, up to
``MAX_LOOKS`` times, and then reading goes on. Each look may be wrong with ``ALPHA_FRACTION`` of what is left of 1 -
confidence (a union bound over looks), so that a statement is wrong at most once in 20 times, whatever the model, the
posts and the order.
What this costs is set by how many are found: with F, the first sample takes 1 - alpha ** (1 / (F / 9 + 1)) of the
unread, which is .43 at 50, .26 at 100, .06 at 500 and .03 at 1,000; no rule that assumes nothing can do with less, for
F / 9 + 1 relevant posts may hide anywhere.

Earlier stories can say it sooner where this story is like them, as the studies measure. Stories of another
corpus are not exchangeable with this one, so the command line, which cannot know, uses audits.

Bound on the relevant posts left, from a random sample of unread posts; see ``review``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.lines import plural
from ensue.metrics import Floats
from ensue.settings import Settings, Size, must_be
from ensue.tasks.link.review.reranker import ReviewReranker
from ensue.text.sparse import SparseRows

ROUNDED = 1 + 1e-9
"""By how much a probability must exceed alpha: where the two are equal, rounding shall not decide."""


def most_relevant(posts: int, sampled: int, hits: int, alpha: float) -> int:
    """The largest number of relevant posts among all that a sample with so few hits leaves possible.

    Args:
        posts: posts that the sample was drawn from.
        sampled: posts in the sample.
        hits: relevant ones among them.
        alpha: how improbable so few hits must be for a number to be ruled out.

    Returns:
        The largest K with P(X <= hits | posts, K, sampled) > alpha.
    """
    low, high = hits, posts - sampled + hits
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _at_most(posts, middle, sampled, hits) > alpha * ROUNDED else (low, middle - 1)
    return low


def audit_size(posts: int, found: int, hits: int, target: float, alpha: float) -> int:
    """Posts of a sample that shows the target to be reached if it holds so few relevant ones; all, where none does.

    Args:
        posts: posts that the sample is drawn from.
        found: relevant posts found before it.
        hits: relevant ones in the sample, which are found with it.
        target: the recall to reach.
        alpha: as in :func:`most_relevant`.
    """
    allowed = hits + allowed_misses(found + hits, target)
    low, high = min(hits, posts), posts
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if most_relevant(posts, middle, hits, alpha) <= allowed else (middle + 1, high)
    return low


def allowed_misses(found: int, target: float) -> int:
    """Relevant posts that may be missing beside so many."""
    return math.floor(found / target - found + 1e-9)


def _at_most(posts: int, relevant: int, sampled: int, hits: int) -> float:
    """P(X <= hits) of the hypergeometric distribution."""
    log_total = log_choose(posts, sampled)
    fewest = max(0, sampled - (posts - relevant))
    terms = (
        log_choose(relevant, x) + log_choose(posts - relevant, sampled - x) - log_total for x in range(fewest, hits + 1)
    )
    return math.fsum(math.exp(term) for term in terms)


def log_choose(n: int, k: int) -> float:
    """The logarithm of a binomial coefficient."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) if 0 <= k <= n else -math.inf


ALPHA_FRACTION = 0.5
"""Part of the remaining chance of error that a look at an audit may use."""
MAX_LOOKS = 4
"""Times that a sample is made larger before reading goes on."""
_MIN_PROBABILITY = 1e-9
Answers = npt.NDArray[np.int8] | npt.NDArray[np.bool_]
"""1 for a relevant post, 0 for another one, -1 where the reader is unsure."""
Ask = Callable[[Index], Answers]
"""Shows posts by their numbers and returns what was said of each; fewer answers than posts end the review."""
Probability = Annotated[float, must_be("between 0 and 1", lambda value: 0 < value < 1)]


@dataclass(frozen=True, kw_only=True)
class ReviewSettings(Settings):
    """Settings of a review and of its statement."""

    target: Probability = 0.9
    """The recall to reach."""
    confidence: Probability = 0.95
    """Confidence of the statement."""
    batch: Size = 10
    """Posts labelled before the rest is ranked anew."""
    patience: Size = 30
    """Posts in a row without a relevant one before an audit, at least."""
    seed: int = 0
    """Seed of the audits' random samples."""


class Shared(Protocol):
    """Labels that several readers give at the same time, and of which each may take some back."""

    @property
    def looks(self) -> int:
        """Looks at audits that were taken by anybody."""

    def look(self) -> int:
        """Take one; how many there were before."""

    def labels(self) -> tuple[Index, Answers]:
        """All posts that are labelled now, and what was said of each."""


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a review after a batch or an audit."""

    posts: int
    """Posts in all."""
    labelled: int
    found: int
    """Relevant posts among the labelled."""
    audits: int
    """Random samples that were read to their end."""
    left_at_most: int | None = None
    """Relevant posts still unread at most, at that confidence; ``None`` before an audit."""
    reached: bool = False
    """True where the target recall is reached, as stated."""
    estimate: float | None = None
    """Estimated recall, by the probabilities of the unread; no bound."""
    unsure: int = 0
    """Posts that nobody could decide; each counts as one that may be relevant and was not found."""

    @property
    def recall_at_least(self) -> float | None:
        """The bound on recall, or ``None`` where nothing can be said yet."""
        if self.left_at_most is None or not self.found + self.left_at_most:
            return None
        return self.found / (self.found + self.left_at_most)

    @property
    def sentence(self) -> str:
        """For people."""
        read = f"{self.labelled:,} of {plural(self.posts, 'post')} read, {self.found:,} relevant"
        read += f", {self.unsure:,} unsure" if self.unsure else ""
        if self.recall_at_least is None:
            return f"{read}; recall cannot be estimated yet"
        reached = "; the target is reached" if self.reached else ""
        return f"{read}, at most {self.left_at_most:,} unread: recall at least {self.recall_at_least:.2f}{reached}"


def review(
    start: Floats, rows: SparseRows, ask: Ask, settings: ReviewSettings | None = None, shared: Shared | None = None
) -> Iterator[Progress]:
    """Ask for labels until the target is reached, everything is read, or the reader stops.

    Args:
        start: (posts,) log-odds of relevance before any label; or (posts, ways), the first of them that; labels weigh
            the others too.
        rows: (posts, features) of length 1 each, for the re-ranking.
        ask: the reader.
        settings: how it goes.
        shared: the labels of all readers, which are not asked for again, and the looks at audits taken so far, which
            have used their part of 1 - confidence. What others find outside a sample is counted as found and, still,
            among what may be left: the statement is on the safe side.

    Yields:
        The state of the review, after every batch and every look; the last one is the answer.
    """
    settings = ReviewSettings() if settings is None else settings
    reader = ReviewQueue(start, rows, ask, shared)
    audits = 0

    def alpha(taken: int) -> float:
        return ALPHA_FRACTION * (1 - settings.confidence) * (1 - ALPHA_FRACTION) ** taken

    while len(reader.unread()):
        for _ in reader.read_on(settings):
            yield reader.progress(audits)
        if reader.stopped or not len(reader.unread()):
            break
        random = np.random.default_rng((settings.seed, reader.looks))
        num_found = reader.found
        sample = random.permutation(reader.unread())
        size = hits = 0
        audits += 1
        for _ in range(MAX_LOOKS):
            size = audit_size(len(sample), num_found, hits, settings.target, alpha(reader.looks))
            if not reader.label(sample[:size], settings.batch):  # those that are not read yet
                break
            hits = int((reader.labels[sample[:size]] != 0).sum())  # who is unsure may have seen a relevant one
            num_left = most_relevant(len(sample), size, hits, alpha(reader.look())) - hits + reader.unsure
            reached = reader.found >= settings.target * (reader.found + num_left)
            yield reader.progress(audits, num_left, reached=reached)
            if reached:
                return
        if reader.stopped:
            break
    done = not len(reader.unread())
    yield reader.progress(audits, reader.unsure if done else None, reached=done)


def start_odds(*probabilities: Floats) -> Floats:
    """(posts, ways) log-odds of (posts,) probabilities, the first of which a review starts from.

    What posts of a corpus tell of each other finds most of a story sooner, and its last posts later, than what each
    says alone; labels tell how far to trust either.
    """
    clipped = np.clip(np.stack(probabilities, axis=1), _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    return np.log(clipped / (1 - clipped))


def telling(unread: int, found: int, target: float) -> int:
    """Posts in a row without a relevant one that say: if the rest is like them, no more is left than may be missed."""
    return -(-unread // max(allowed_misses(found, target), 1))


class ReviewQueue:
    """The labels given so far, and the order of the rest; arguments as of :func:`review`."""

    def __init__(self, start: Floats, rows: SparseRows, ask: Ask, shared: Shared | None = None) -> None:
        self.reranker = ReviewReranker(start, rows)
        self.ask = ask
        self.shared = shared
        self.labels = np.zeros(len(start), np.int8)
        self.read = np.zeros(len(start), bool)
        self.stopped, self._looks = False, 0
        self._take_shared()
        self.odds = self._ranked()

    @property
    def looks(self) -> int:
        """Looks at audits that were taken."""
        return self._looks if self.shared is None else self.shared.looks

    def look(self) -> int:
        """Take one; how many there were before."""
        if self.shared is not None:
            return self.shared.look()
        self._looks += 1
        return self._looks - 1

    @property
    def found(self) -> int:
        """Relevant posts among the labelled."""
        return int((self.labels == 1).sum())

    @property
    def unsure(self) -> int:
        """Posts that nobody could decide."""
        return int((self.labels == -1).sum())

    def _take_shared(self) -> None:
        if self.shared is not None:
            posts, labels = self.shared.labels()
            self.read[:], self.labels[:] = False, 0
            self.read[posts] = True
            self.labels[posts] = labels

    def _ranked(self) -> Floats:
        decided = np.flatnonzero(self.read & (self.labels >= 0))
        return self.reranker.odds(decided, self.labels[decided] == 1)

    def unread(self) -> Index:
        """The posts that have no label."""
        return np.flatnonzero(~self.read)

    def read_on(self, settings: ReviewSettings, *, patient: bool = False) -> Iterator[None]:
        """Label the best of the rest until nothing relevant came for a while or, of the patient, to the end."""
        dry = 0
        while len(order := self.unread()):
            num_posts = max(settings.patience, telling(len(order), self.found, settings.target)) - dry
            num_posts = len(order) if patient else num_posts
            if num_posts <= 0:
                return
            best = order[np.argsort(-self.odds[order], kind="stable")][: min(settings.batch, num_posts)]
            if not self.label(best, settings.batch):
                return
            hits = np.flatnonzero(self.labels[best] == 1)
            dry = len(best) - 1 - int(hits[-1]) if len(hits) else dry + len(best)
            yield

    def label(self, posts: Index, batch: int) -> bool:
        """Ask for some posts, a batch at a time, and rank the rest anew; whether all were labelled."""
        for low in range(0, len(posts), batch):
            unread = posts[low : low + batch]
            unread = unread[~self.read[unread]]  # others may have read some
            answers = np.asarray(self.ask(unread), np.int8)
            self.read[unread[: len(answers)]] = True
            self.labels[unread[: len(answers)]] = answers
            self._take_shared()
            if len(answers) < len(unread):
                self.stopped = True
                return False
        self.odds = self._ranked()
        return True

    def expected(self) -> float:
        """Relevant posts among the unread, by their probabilities."""
        return float(self.probabilities()[~self.read].sum())

    def probabilities(self) -> Floats:
        """Return the probability that each post is relevant, (posts,)."""
        return 1 / (1 + np.exp(-np.clip(self.odds, -500, 500)))

    def estimate(self) -> float:
        """Found over found and expected."""
        return self.found / (self.found + self.expected()) if self.found else 0.0

    def progress(self, audits: int, left: int | None = None, *, reached: bool = False) -> Progress:
        """Return the state of the review."""
        return Progress(
            posts=len(self.read),
            labelled=int(self.read.sum()),
            found=self.found,
            audits=audits,
            left_at_most=left,
            reached=reached,
            estimate=self.estimate(),
            unsure=self.unsure,
        )
