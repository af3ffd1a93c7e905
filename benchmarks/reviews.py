"""Simulated reviews on labelled posts: how often a rule is right to stop, and what it reads for it.

The posts are cut into halves, by article; each half is ranked by a model that learned the other. A story is articles
drawn at random until they hold a share of the posts of a half. Stories of one half are reviewed; the earlier stories,
whose labels are known, come from the other. Half of the reviews go each way, for all stories of a half share its posts.
Every rule stops the same readings. Beside what is read stands what the same ranking needs by one who knows the truth
(``oracle``): the posts until the target is met.

================== =================================================================================================
earlier stories    ours: the posterior and the latest posts, calibrated over earlier stories (``earlier_stories``)
estimated recall   found over found and expected, above a threshold of earlier stories (split conformal prediction)
audits             ours without earlier stories: random samples of the unread; assumes nothing (``review.audit``)
quantile           posts are drawn until ``SAMPLED`` relevant ones are found; reading stops when the target's share of
                   these was met by the ranking too
QBCB               the same, certified: when the quantile's upper bound of confidence was met (quantile binomial
                   coefficient bound; Lewis, Yang & Frieder 2021)
target set         posts are drawn until 10 relevant ones are found; the ranking must meet them all (Cormack &
                   Grossman 2016)
knee               the slope of the gain curve before its knee is 156 - min(found, 150) times, or 6 times, that after it
                   (Cormack & Grossman 2016)
Chao               three rankings are read in turn; how many relevant posts none of them met is bounded by what one
                   and what two of them met, once 10 are found (Chao 1987, with its interval; Bron et al. 2024)
================== =================================================================================================

    python benchmarks/reviews.py politifact/ clickbait22/ [--reviews 1000] [--others 200] [--stories 199] [--share .1]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.data.posts.dataset import Articles, hold_out_posts
from ensue.metrics import Floats
from ensue.tasks.link.link_metrics import Calibration
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.review.review import ReviewSettings, review, start_odds
from ensue.tasks.link.scores import scores_of
from ensue.text.lexical import Lexical
from ensue.text.sparse import SparseRows
from ensue_studies.earlier_stories import Walk, conformal_threshold, simulate, stopping_rule
from ensue_studies.results import provenance

TARGETS = (0.9, 0.95)
CONFIDENCE = 0.95
SAMPLED = {0.9: 29, 0.95: 59}
SET = 10
BATCH = 10
"""Relevant posts that are drawn: the fewest that certify, .9 ** 29 and .95 ** 59 being below .05; all must be met."""
KNEE, STEEP, FEW = 156, 6, 150
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Stopped = tuple[int, int]
"""Posts read, and relevant ones among them."""


class Pool(NamedTuple):
    """Scores of posts with all articles, together and alone, what they mean, the links, TF-IDF rows and scores."""

    scores: Floats
    alone: Floats
    calibration: Calibration
    related: Mask
    rows: SparseRows
    tfidf: Floats


class Story(NamedTuple):
    """What a review starts from, and the truth."""

    start: Floats
    rows: SparseRows
    relevant: Mask
    tfidf: Floats


def pool_of(learned: Corpus, asked: Corpus) -> Pool:
    """One half of the posts, ranked by a model that learned the other."""
    predictor = LinkPredictor("best")
    lexical = Lexical("words")
    for _ in predictor.fit(learned):
        pass
    lexical.add(asked.posts.texts)
    scores, alone = (scores_of(predictor, asked.posts, alone=alone).whole() for alone in (False, True))
    rows = lexical.rows(asked.posts.texts)
    tfidf = predictor.scores(asked.posts, "tfidf").whole()
    assert predictor.calibration is not None
    return Pool(scores, alone, predictor.calibration, asked.related, rows, tfidf)


def stories(pool: Pool, share: float, seed: int) -> Iterator[Story]:
    """Stories without end."""
    random = np.random.default_rng(seed)
    while True:
        chosen: list[int] = []
        relevant = np.zeros(len(pool.scores), bool)
        for article in random.permutation(np.flatnonzero(pool.related.any(0))).tolist():
            chosen.append(article)
            relevant |= pool.related[:, article]
            if relevant.mean() >= share:
                break
        output = [pool.calibration.probabilities(own[:, chosen].max(1)) for own in (pool.scores, pool.alone)]
        yield Story(start_odds(*output), pool.rows, relevant, pool.tfidf[:, chosen].max(1))


def oracle(own: Walk, target: float) -> int:
    """Posts until the target is met, to the end of their batch of ten, as all rules read."""
    return int(own.read[~own.short(target)][0])


def first(own: Walk, enough: Mask) -> Stopped:
    """Where a rule stops that looks after every batch; at the reading's end where it never does."""
    location = int(enough.argmax()) if enough.any() else len(enough) - 1
    return int(own.read[location]), int(own.found[location])


def by_estimate(own: Walk, threshold: float) -> Stopped:
    """Found over found and expected."""
    return first(own, own.found / (own.found + own.expected) > threshold)


def sampled(story: Story, own: Walk, num: int, needed: int, random: np.random.Generator) -> Stopped:
    """Posts are drawn until so many relevant ones are found; reading stops when the ranking met ``needed`` of them."""
    drawn = random.permutation(own.posts)
    hits = np.flatnonzero(story.relevant[drawn])[:num]
    drawn = drawn[: hits[-1] + 1]
    places = np.full(own.posts, own.posts)
    places[own.order] = np.arange(len(own.order))
    last = np.sort(places[drawn[story.relevant[drawn]]])[min(needed, len(hits)) - 1]
    read = np.zeros(own.posts, bool)
    read[drawn] = read[own.order[: min(len(own.order), (last // BATCH + 1) * BATCH)]] = True
    return int(read.sum()), int(story.relevant[read].sum())


def certified(num: int, target: float) -> int:
    """The smallest j with P(fewer than j of so many relevant posts lie above the target's quantile) >= confidence."""
    shares = [math.comb(num, k) * target**k * (1 - target) ** (num - k) for k in range(num + 1)]
    below = np.cumsum([0.0, *shares])
    return int(np.flatnonzero(below[: num + 1] >= CONFIDENCE)[0])


def knee(own: Walk) -> Stopped:
    """The knee of the gain curve is where it is farthest above the line from its start to where it stands."""
    tail = np.arange(own.read[-1] + BATCH, own.posts + BATCH, BATCH).clip(max=own.posts)  # all is found: it goes flat
    read = np.concatenate([own.read, tail])
    result = np.concatenate([own.found, np.full(len(tail), own.found[-1])])
    for index in range(len(read)):
        gain = result[: index + 1]
        size = read[: index + 1]
        far = int((gain / max(gain[-1], 1) - size / size[-1]).argmax())
        before = gain[far] / size[far]
        after = (gain[-1] - gain[far] + 1) / (size[-1] - size[far] + 1)
        steep = KNEE - min(int(gain[far]), FEW)
        if size[-1] > size[far] and before / after >= max(steep, STEEP):
            return int(read[index]), int(result[index])
    return int(read[-1]), int(result[-1])


def chao(story: Story, own: Walk, target: float) -> Stopped:
    """The reading, the model's own order and TF-IDF's are read as far; what one and what two of them met is counted."""
    rest = np.setdiff1d(np.arange(own.posts), own.order)
    lists = [np.concatenate([own.order, rest]), np.argsort(-story.start[:, 0]), np.argsort(-story.tfidf)]
    met = np.zeros(own.posts, np.int64)
    for low in range(0, own.posts, BATCH):
        for order in lists:
            met[order[low : low + BATCH]] += 1
        entry, two = (int((story.relevant & (met == times)).sum()) for times in (1, 2))
        result = int(story.relevant[met > 0].sum())
        if result >= SET and result >= target * (result + chao_bound(entry, two)):
            break
    return int((met > 0).sum()), result


def chao_bound(one: int, two: int) -> float:
    """The upper end of the interval of what was never met, by three occasions; of none met twice the corrected form."""
    share = one / two if two else float(one)
    unmet = 2 / 3 * (one**2 / (2 * two) if two else one * (one - 1) / 2)
    if not unmet:
        return 0.0
    spread = max(two, 1) * (share**2 / 2 + share**3 + share**4 / 4)
    return unmet * math.exp(1.96 * math.sqrt(math.log(1 + spread / unmet**2)))


def audited(story: Story, target: float, seed: int) -> Stopped:
    """Random samples of the unread."""
    settings = ReviewSettings(seed=seed, target=target)
    *_, last = review(story.start, story.rows, lambda asked: story.relevant[asked], settings)
    return last.labelled, last.found


def whole(story: Story) -> Walk:
    """A reading until all is found."""
    return simulate(story.start, story.rows, story.relevant, ReviewSettings(target=1 - 1e-9))


def rules(walks: list[Walk], target: float) -> dict[str, Callable[[Story, Walk, int], Stopped]]:
    """By name, all rules for one target; ``walks`` are of the earlier stories."""
    own = stopping_rule(walks, target, CONFIDENCE)
    estimates = [(one.found / (one.found + one.expected))[one.short(target)].max(initial=0.0) for one in walks]
    threshold = conformal_threshold(estimates, CONFIDENCE)
    num = SAMPLED[target]
    assert own is not None and threshold is not None
    print(f"target {target}: {own}; estimated recall above {threshold:.4f}", flush=True)
    bound = certified(num, target)
    point = math.ceil(num * target)
    generator = np.random.default_rng
    return {
        "earlier stories": lambda _, one, __: first(one, own.left.chances(one, target) > own.threshold),
        "estimated recall": lambda _, one, __: by_estimate(one, threshold),
        "audits": lambda story, _, seed: audited(story, target, seed),
        "quantile": lambda story, one, seed: sampled(story, one, num, point, generator(seed)),
        "QBCB": lambda story, one, seed: sampled(story, one, num, bound, generator(seed)),
        "target set": lambda story, one, seed: sampled(story, one, SET, SET, generator(seed)),
        "knee": lambda _, one, __: knee(one),
        "Chao": lambda story, one, _: chao(story, one, target),
    }


def halves(path: Path) -> tuple[Pool, Pool]:
    """Both halves of the posts, each ranked by what learned the other."""
    corpus, _ = read_corpus(path)
    if "clickbait" in path.name:  # its titles are not there for all posts
        silent = pl.Series([""] * len(corpus.articles))
        corpus = Corpus(Articles(corpus.articles.bodies, silent, corpus.articles.ids), corpus.posts)
    posts = replace(corpus.posts, parts=None)
    entry, two = (replace(corpus, posts=half) for half in hold_out_posts(posts, 0.5)[:2])
    return pool_of(entry, two), pool_of(two, entry)


def measure(path: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row a rule and target."""
    pools = halves(path)
    runs = dict[tuple[float, str], list[dict[str, float]]]()
    for way, (new, old) in enumerate((pools, pools[::-1])):
        earlier = [whole(story) for story in islice(stories(old, given.share, 1), given.stories)]
        named = {target: rules(earlier, target) for target in TARGETS}
        for seed, story in enumerate(islice(stories(new, given.share, 2), given.reviews // 2)):
            own = whole(story)
            for target, by_name in named.items():
                kept = [name for number, name in enumerate(by_name) if number < OURS or seed < given.others // 2]
                for name in kept:
                    read, result = by_name[name](story, own, given.reviews * way + seed)
                    runs.setdefault((target, name), []).append(
                        {
                            "right": float(result >= target * own.relevant),
                            "read": read / own.posts,
                            "oracle": oracle(own, target) / own.posts,
                            "recall": result / own.relevant,
                        }
                    )
    for (target, name), some in runs.items():
        means = {key: round(float(np.mean([entry[key] for entry in some])), 4) for key in some[0]}
        over = {"over_oracle": round(means["read"] / means["oracle"], 3)}
        right = [
            round(float(np.mean([entry["right"] for entry in part])), 3) for part in np.array_split(np.array(some), 2)
        ]
        row = {"data": path.name, "target": target, "rule": name, "reviews": len(some), "posts": len(new.scores)}
        yield {**row, **means, **over, "right_each_way": right}


OURS = 2
"""Rules, the first ones, that stop all readings; those that draw or read posts of their own stop some."""


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--reviews", type=int, default=1000)
    parser.add_argument("--others", type=int, default=200)
    parser.add_argument("--stories", type=int, default=199)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for path in given.data:
        for row in measure(path, given):
            rows.append(row)
            print(row, flush=True)
    if given.json:
        given.json.write_text(json.dumps({**provenance(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
