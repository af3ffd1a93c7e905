"""Where lists without labels stop: learns the numbers of ``ensue.tasks.link.cut`` and scores the rule on test parts.

A story is some articles of a set (1 to 64), its corpus the posts of the same part: all of them, or as many others that
10, 30 or 70 % are about the story. On the **training** parts the background, how scores of corpora are compared and the
fixed cut are chosen, the background always from the other set; the interval holds 90 % of the best cuts of each set.
On the **test** parts nothing is chosen. Figures are means over
stories: F1 at the suggested cut; at the best cut, for one who knows the labels; at one fixed score, at the largest gap,
by Otsu's method, and of the whole list. ``covered`` is the share of stories whose best cut lies in the interval.

    python benchmarks/cuts.py politifact/ clickbait22/ [--stories 112] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.data.posts.dataset import Articles
from ensue.metrics import Floats
from ensue.tasks.link.cut import BACKGROUNDS, TAILS, Background, placed, suggested_cut
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.scores import scores_of
from ensue_studies.results import provenance

NAMES = ("best", "tfidf", "bm25")
SIZES = (1, 2, 4, 8, 16, 32, 64)
SHARES = (None, 0.1, 0.3, 0.7)
SHIFTS = (0.0, 0.25, 0.5, 0.75, 1.0)
TRUSTS = (0.0, 0.5, 0.7, 0.85, 1.0)
FIXED = {"best": (0.14, 0.16, 0.18, 0.2), "tfidf": (0.1, 0.12, 0.15, 0.18), "bm25": (6.0, 8.0, 10.0, 12.0)}
Mask = npt.NDArray[np.bool_]


class Story(NamedTuple):
    """Scores of the posts of a corpus, by the name of the score, and which of them are about the story."""

    scores: dict[str, Floats]
    true: Mask
    share: float | None

    def f1(self, cut: float, name: str) -> float:
        """F1 of the posts that score at least the cut."""
        chosen = self.scores[name] >= cut
        return float(2 * (chosen & self.true).sum() / (chosen.sum() + self.true.sum()))

    def best(self, name: str) -> tuple[float, float]:
        """The cut of the highest F1, between two posts, and that F1."""
        ranked = np.argsort(-self.scores[name], kind="stable")
        own = np.maximum(self.scores[name][ranked], 1e-9)
        hits = self.true[ranked].cumsum()
        places = np.arange(1, len(own) + 1)
        figures = np.where(np.append(own[1:] < own[:-1], True), 2 * hits / (places + self.true.sum()), 0)
        last = int(figures.argmax())
        return float(np.sqrt(own[last] * own[min(last + 1, len(own) - 1)])), float(figures[last])


def stories(corpus: Corpus, num: int, seed: int) -> list[Story]:
    """Stories of the articles that some post is about."""
    random = np.random.default_rng(seed)
    related = corpus.related
    used = np.flatnonzero(related.any(0))
    results = []
    for number in range(num):
        chosen = random.permutation(used)[: SIZES[number % len(SIZES)]]
        true = related[:, chosen].any(1)
        share = SHARES[number // len(SIZES) % len(SHARES)]
        kept = np.ones(len(corpus), bool)
        if share is not None:
            others = random.permutation(np.flatnonzero(~true))
            kept[others[max(30, int(true.sum() * (1 - share) / share)) :]] = False
        part = corpus.select(kept)
        articles = corpus.articles.select(chosen)
        scores = {}
        for name in NAMES:
            predictor = LinkPredictor.untrained(articles, part.posts, name)
            scores[name] = scores_of(predictor, part.posts).best(range(len(articles)))[0]
        results.append(Story(scores, true[kept], share))
    return results


def background(known: Sequence[Story], name: str, shift: float) -> Background:
    """Of the posts that are about something else; every story counts the same."""
    own = [placed(story.scores[name], shift)[~story.true] for story in known]
    u = np.concatenate(own)
    weights = np.concatenate([np.full(len(entry), 1 / len(entry) / len(own)) for entry in own])
    order = np.argsort(u)
    above = 1 - weights[order].cumsum()
    points = tuple(float(u[order][int((above > tail).sum())]) for tail in TAILS)
    return Background(shift, tuple(round(point, 3) for point in points), 0.0, 0.0, 1.0, 1.0)


def cut_of(story: Story, name: str, known: Background) -> float:
    """By a table that is being tried."""
    before = BACKGROUNDS.get(name)
    BACKGROUNDS[name] = known
    try:
        result = suggested_cut(story.scores[name], name)
    finally:
        BACKGROUNDS.pop(name) if before is None else BACKGROUNDS.update({name: before})
    return np.inf if result is None else result.cut


def learned(sets: dict[str, list[Story]], name: str) -> Background:
    """The setting of the highest mean F1, where each set is judged by the background of the others."""

    def others(own: str) -> list[Story]:
        return [story for other, some in sets.items() if other != own for story in some]

    tables = {(own, shift): background(others(own), name, shift) for own in sets for shift in SHIFTS}

    def figure(shift: float, trust: float, fixed: float) -> float:
        parts = [
            np.mean([story.f1(cut_of(story, name, replace(table, trust=trust, fixed=fixed)), name) for story in some])
            for own, some in sets.items()
            for table in [tables[own, shift]]
        ]
        return float(np.mean(parts))

    tried = [(shift, trust, fixed) for shift, trust, fixed in product(SHIFTS, TRUSTS, FIXED[name])]
    shift, trust, fixed = max(tried, key=lambda own: figure(*own))
    every = [story for some in sets.values() for story in some]  # each set has as many
    result = replace(background(every, name, shift), trust=trust, fixed=fixed if trust else 0.0)
    spans = [
        np.quantile([story.best(name)[0] / cut_of(story, name, result) for story in some], [0.05, 0.95])
        for some in sets.values()
    ]
    low = min(own[0] for own in spans)
    high = max(own[1] for own in spans)
    return replace(result, low=round(float(low), 2), high=round(float(high), 2))


def gap(scores: Floats) -> float:
    """The post before the largest fall of the logarithm, in the upper half."""
    ranked = np.sort(scores[scores > 0])[::-1]
    upper = ranked[: len(ranked) // 2 + 1]
    return float(upper[int((-np.diff(np.log(upper))).argmax())])


def otsu(scores: Floats) -> float:
    """The cut of the largest variance between the two sides (Otsu 1979)."""
    ranked = np.sort(scores)[::-1]
    places = np.arange(1, len(ranked))
    above = ranked.cumsum()[:-1]
    between = places * (len(ranked) - places) * (above / places - (ranked.sum() - above) / places[::-1]) ** 2
    return float(ranked[int(between.argmax())])


def figures(some: Sequence[Story], name: str, known: Background) -> dict[str, float]:
    """Means over stories."""
    fixed = known.fixed or {"best": 0.18, "tfidf": 0.15, "bm25": 10.0}[name]
    rules: dict[str, Callable[[Story], float]] = {
        "suggested": lambda story: cut_of(story, name, known),
        "fixed score": lambda story: fixed,
        "largest gap": lambda story: gap(story.scores[name]),
        "otsu": lambda story: otsu(story.scores[name]),
        "whole list": lambda story: -np.inf,
    }
    results = {rule: np.mean([story.f1(cut(story), name) for story in some]) for rule, cut in rules.items()}
    cuts = [(cut_of(story, name, known), story.best(name)) for story in some]
    results["best cut"] = np.mean([figure for _, (_, figure) in cuts])
    results["covered"] = np.mean([known.low * cut <= best <= known.high * cut for cut, (best, _) in cuts])
    chosen = [(story.scores[name] >= cut, story.true) for story, (cut, _) in zip(some, cuts, strict=True)]
    results["precision"] = np.mean([(own & true).sum() / max(own.sum(), 1) for own, true in chosen])
    results["recall"] = np.mean([(own & true).sum() / true.sum() for own, true in chosen])
    return {rule: round(float(figure), 3) for rule, figure in results.items()}


def read(folder: Path, part: str) -> Corpus:
    """Posts of a part; of Clickbait22 bodies alone, for its training articles have no titles."""
    corpus, _ = read_corpus(folder)
    if folder.name == "clickbait22":
        silent = pl.Series([""] * len(corpus.articles))
        corpus = Corpus(Articles(corpus.articles.bodies, silent, corpus.articles.ids), corpus.posts)
    return corpus.part(part)


def main() -> None:
    """Learn, score, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--stories", type=int, default=112)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    known = {folder.name: stories(read(folder, "train"), args.stories, 7) for folder in args.folders}
    tables = {name: learned(known, name) for name in NAMES}
    for name, table in tables.items():
        print(f'    "{name}": {table},')
    unseen = {folder.name: stories(read(folder, "test"), args.stories, 8) for folder in args.folders}
    rows: list[dict[str, Any]] = []
    for part, sets in (("train", known), ("test", unseen)):
        for name, (own, some) in product(NAMES, sets.items()):
            rows.append(
                {"part": part, "score": name, "set": own, "stories": len(some), **figures(some, name, tables[name])}
            )
            print(rows[-1])
    if args.json:
        tables_of = {name: asdict(table) for name, table in tables.items()}
        args.json.write_text(json.dumps({**provenance(), "tables": tables_of, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
