"""``ensue link`` over many posts and many articles: seconds, and the peak of memory, by the number of posts.

Made-up posts of 12 words are ranked for a story of many made-up articles of 200 words, as ``ensue link`` does without a
model folder (``best``, nothing learned), near-copies grouped. Each number of posts has a process of its own, which
makes them first; the peak is of the whole process, and what the texts alone take is shown beside it. A table of posts x
articles is what must never be held: its size in 64-bit numbers is shown too.

    python benchmarks/ranking.py [--posts 250000,500000,1000000] [--articles 1000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.posts.dataset import Articles, Posts
from ensue.tasks.link.corpus_ranking import rank
from ensue.tasks.link.predictor import LinkPredictor
from ensue_studies.results import provenance

WORDS, POST, ARTICLE = 50_000, 12, 200
"""Words that there are, of a post, and of an article."""


def made(num: int, size: int, seed: int) -> pl.Series:
    """Texts in which few words are frequent."""
    random = np.random.default_rng(seed)
    known = np.array([f"w{number}" for number in range(WORDS)], dtype=object)
    return pl.Series([" ".join(known[(WORDS * random.random(size) ** 3).astype(np.int64)]) for _ in range(num)])


def child(num_posts: int, num_articles: int) -> dict[str, float]:
    """Make the texts and rank them, in this process."""
    titles = pl.Series([""] * num_articles)
    bodies = made(num_articles, ARTICLE, 0)
    articles = Articles(bodies, titles, pl.Series([f"a{number}" for number in range(num_articles)]))
    texts = made(num_posts, POST, 1)
    ids = pl.Series([f"p{number}" for number in range(num_posts)])
    about = pl.Series([], dtype=pl.String)
    posts = Posts(texts, ids, about, np.zeros(num_posts + 1, np.int64), rows=np.arange(num_posts))
    before = _peak()
    start_time = time.perf_counter()
    predictor = LinkPredictor.untrained(articles, posts)
    prepared = time.perf_counter() - start_time
    result = rank(predictor, articles, posts)
    assert len(result.order) == num_posts
    return {
        "posts": num_posts,
        "articles": num_articles,
        "prepare_s": round(prepared, 1),
        "rank_s": round(time.perf_counter() - start_time - prepared, 1),
        "texts_mb": round(before),
        "peak_mb": round(_peak()),
        "whole_table_mb": round(num_posts * num_articles * 8 / 2**20),
    }


def _peak() -> float:
    """Megabytes that this process has held at most (Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(*map(int, sys.argv[2:]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posts", default="250000,500000,1000000")
    parser.add_argument("--articles", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, float]] = []
    for num in map(int, args.posts.split(",")):
        command = [sys.executable, __file__, "--child", str(num), str(args.articles)]
        row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        if rows:
            more = num - rows[-1]["posts"]
            row["more_bytes_a_post"] = round((row["peak_mb"] - rows[-1]["peak_mb"]) * 2**20 / more)
        rows.append(row)
        print(row, flush=True)
        if args.json:
            args.json.write_text(json.dumps({**provenance(), "tables": {"ranking": rows}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
