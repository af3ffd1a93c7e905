"""Linking at size, without training: files of many posts ranked for a story by the command line, and single answers.

**Posts.** The words of made posts are drawn by how often the given posts hold them, each post as long as one of these;
one in ten ends with a link of random letters and one in twenty says again what an earlier one says. Articles are made
of the words of the given articles in the same way, as long as these. Each size is ranked by ``ensue link`` in a process
of its own, start-up, reading and writing all posts in: CPU seconds, and the most memory it held.

**One answer.** A post of the given ones against all given articles, without evidence and with it, untrained and, with
``--folder``, by a trained model: milliseconds of one core over posts that are asked one at a time.

    python benchmarks/linking_at_size.py politifact/ [--sizes 10000x10,100000x10] [--folder FOLDER] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.tasks.link.predictor import LinkPredictor
from ensue_studies.results import provenance

BLOCK, ASKED, WARM = 50_000, 300, 20
LINKED, AGAIN = 0.1, 0.05
RUN = """
import resource, sys
from ensue.cli import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


class Words:
    """Texts made of the words of others, as frequent as there and as many."""

    def __init__(self, texts: pl.Series, seed: int) -> None:
        lists = texts.str.extract_all(r"\S+")
        counted = lists.explode(empty_as_null=False).value_counts(sort=True)
        self.words = counted.to_series(0).to_numpy()
        self.ends = np.cumsum(counted["count"].to_numpy() / counted["count"].sum())
        self.lengths = lists.list.len().to_numpy()
        self.random = np.random.default_rng(seed)

    def texts(self, num: int) -> list[str]:
        """So many new ones."""
        lengths = self.random.choice(self.lengths, num)
        drawn = np.searchsorted(self.ends, self.random.random(lengths.sum())).clip(max=len(self.words) - 1)
        words = self.words[drawn]
        ends = np.cumsum(lengths)
        return [" ".join(words[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def posts(corpus: Corpus, num: int) -> Iterator[pl.DataFrame]:
    """Made posts, some thousands at a time."""
    words = Words(corpus.posts.texts, 1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz0123456789"))
    for low in range(0, num, BLOCK):
        texts = words.texts(min(BLOCK, num - low))
        random = words.random
        for row in np.flatnonzero(random.random(len(texts)) < LINKED).tolist():
            texts[row] += " https://t.co/" + "".join(random.choice(letters, 10))
        for row in np.flatnonzero(random.random(len(texts)) < AGAIN).tolist():
            texts[row] = texts[int(random.integers(row + 1))]
        yield pl.DataFrame({"id": [f"p{low + row}" for row in range(len(texts))], "text": texts})


def make(corpus: Corpus, num_posts: int, num_articles: int, folder: Path) -> None:
    """The files of a size."""
    with (folder / "posts.csv").open("wb") as file:
        for number, frame in enumerate(posts(corpus, num_posts)):
            frame.write_csv(file, include_header=not number)
    bodies = Words(corpus.articles.texts, 2).texts(num_articles)
    names = [f"a{row}" for row in range(num_articles)]
    pl.DataFrame({"id": names, "body": bodies}).write_csv(folder / "articles.csv")


def ranked(corpus: Corpus, num_posts: int, num_articles: int) -> dict[str, Any]:
    """What a size takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(corpus, num_posts, num_articles, folder)
        size = (folder / "posts.csv").stat().st_size
        link = [sys.executable, "-c", RUN, "link", str(folder / "articles.csv"), str(folder / "posts.csv")]
        start_time = time.perf_counter()
        output = subprocess.run(
            [*link, "-o", str(folder / "ranked.csv")], capture_output=True, text=True, env={**os.environ, **THREADS}
        )
        seconds = time.perf_counter() - start_time
        if output.returncode:
            raise SystemExit(output.stderr)
        written = pl.scan_csv(folder / "ranked.csv").select(pl.len()).collect().item()
        assert written == num_posts, f"{written} of {num_posts} posts were written"
    cpu, memory = map(float, output.stderr.split("\n")[-2].split())
    row = {
        "posts": num_posts,
        "articles": num_articles,
        "file_mb": round(size / 1e6, 1),
        "cpu_seconds": round(cpu, 1),
        "wall_seconds": round(seconds, 1),
        "memory_mb": round(memory / 1024),
    }
    print(row, flush=True)
    return row


THREADS = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}


def answers(corpus: Corpus, predictor: LinkPredictor, name: str) -> list[dict[str, Any]]:
    """Single answers, without evidence and with it."""
    asked = list(corpus.posts.select(np.arange(min(ASKED + WARM, len(corpus.posts)))).records())
    rows = []
    for evidence in (False, True):
        taken = []
        for record in asked:
            start_time = time.process_time()
            predictor.predict([record], 10, evidence=evidence)
            taken.append(1000 * (time.process_time() - start_time))
        output = {f"p{part}_ms": round(float(np.percentile(taken[WARM:], part)), 2) for part in (50, 95)}
        rows.append({"model": name, "articles": len(predictor.articles), "evidence": evidence, **output})
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sizes", default="10000x10,100000x10,1000000x10,10000x1000,100000x1000,1000000x1000")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    corpus, _ = read_corpus(options.data)
    single = answers(corpus, LinkPredictor.untrained(corpus.articles, corpus.posts), "best, untrained")
    if options.folder is not None:
        single += answers(corpus, LinkPredictor.load(options.folder), "best, trained")
    sizes = [[int(part) for part in size.split("x")] for size in options.sizes.split(",") if size]
    rows = [ranked(corpus, num_posts, num_articles) for num_posts, num_articles in sizes]
    if options.json:
        output = {**provenance(), "answers": single, "sizes": rows}
        options.json.write_text(json.dumps(output, indent=1) + "\n")


if __name__ == "__main__":
    main()
