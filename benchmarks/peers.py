"""Count-based models of ensue next to the fastest library of each task: one thread, the same data, one run.

``next``: VS-kNN and implicit's item cosines on Diginetica, the last click of each test session, 20 answers.
``classify``: ``tfidf``, fastText and scikit-learn's ``LinearSVC`` on SST-2. ``link``: BM25 and bm25s, the article of
each post of PolitiFact, 10 answers. Raw ids and texts in, names out; CPU seconds, medians over passes. Peers run in an
environment of their own, and one that is not installed there is left out:

    python -m venv peers && peers/bin/pip install implicit fasttext-community scikit-learn bm25s
    python benchmarks/peers.py DATA --peers peers/bin/python [--json FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from peer_models import PEERS, Answer, K, measured

from ensue.data.histories import Histories
from ensue.data.posts.corpus import read_corpus
from ensue.data.posts.dataset import Articles, Posts
from ensue.data.texts import Texts, read_texts
from ensue.records import Article, History, Post, Text
from ensue.tasks.classify.predictor import ClassifyPredictor
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.results import provenance

QUERIES = 4000
"""Test sessions and posts."""


def sessions(data: Path) -> dict[str, Any]:
    """Return the clicks of Diginetica, and test sessions without their last click."""
    folder = data / "sessions" / "diginetica"
    training, test = (
        [line.split() for line in gzip.decompress((folder / f"{part}.txt.gz").read_bytes()).decode().splitlines()]
        for part in ("train", "test")
    )
    test = [session for session in test if len(session) > 1][:QUERIES]
    return {
        "training": training,
        "queries": [session[:-1] for session in test],
        "targets": [session[-1] for session in test],
    }


def texts(data: Path) -> dict[str, Any]:
    """Return the texts of SST-2 and their labels."""
    train, test = (
        list(read_texts(next((data / "text" / "sst2").glob(f"{part}*")))[0].records()) for part in ("train", "test")
    )
    return {
        "training": [(record.texts[0], record.label) for record in train],
        "queries": [record.texts[0] for record in test],
        "targets": [record.label for record in test],
    }


def posts(data: Path) -> dict[str, Any]:
    """Return the articles of PolitiFact, and posts about one of them."""
    corpus, _ = read_corpus(data / "links" / "politifact")
    about = [post for post in corpus.posts.records() if len(post.about) == 1][:QUERIES]
    return {
        "training": [(article.id, f"{article.title} {article.body}") for article in corpus.articles.records()],
        "queries": [post.text for post in about],
        "targets": [post.about[0] for post in about],
    }


def fit_vsknn(training: Sequence[Sequence[str]]) -> Answer:
    """Return VS-kNN of ensue."""
    predictor = NextPredictor("vsknn", device="cpu")
    for _ in predictor.fit(Histories.of([History(tuple(session)) for session in training])):
        pass
    return lambda queries: [
        [choice.value for choice in answer.choices]
        for answer in predictor.predict(
            [History(tuple(query)) for query in queries], K, evidence=False, exclude_seen=False
        )
    ]


def fit_tfidf(training: Sequence[Sequence[str]]) -> Answer:
    """Return the classifier ``tfidf`` of ensue."""
    predictor = ClassifyPredictor("tfidf")
    for _ in predictor.fit(Texts.of([Text((text,), label) for text, label in training])):
        pass
    return lambda queries: [
        [answer.choices[0].value]
        for answer in predictor.predict([Text((query,)) for query in queries], 1, evidence=False)
    ]


def fit_bm25(training: Sequence[Sequence[str]]) -> Answer:
    """Return BM25 of ensue over articles, each an id and a text."""
    articles = Articles.of([Article(text, name) for name, text in training])
    predictor = LinkPredictor.untrained(articles, Posts.of([]), "bm25")
    return lambda queries: [
        [choice.value for choice in answer.choices]
        for answer in predictor.predict([Post(query) for query in queries], 10, evidence=False)
    ]


OURS = {
    "next": ("vsknn", sessions, fit_vsknn),
    "classify": ("tfidf", texts, fit_tfidf),
    "link": ("bm25", posts, fit_bm25),
}
"""Our model, the data and the fit of each task."""


def run_peer(python: str, name: str, file: Path) -> dict[str, Any] | None:
    """Return the row of a peer, ``None`` where it is not installed."""
    command = [python, str(Path(__file__).with_name("peer_models.py")), name, str(file)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **threads, "PYTHONPATH": ""})
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "missing" in row:
        print(f"{name}: left out, {row['missing']} is not installed for {python}")
        return None
    return {"model": f"{name} {row.pop('version')}", **row}


def main() -> None:
    """Measure our models and their peers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--peers", default=sys.executable, help="Python of the environment of the peers")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for task, (model, read, fit) in OURS.items():
        data = read(args.data)
        ours = measured(partial(fit, data["training"]), data["queries"], data["targets"])
        rows.append({"task": task, "model": model, **ours})
        print(rows[-1], flush=True)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "task.json"
            file.write_text(json.dumps(data), encoding="utf-8")
            for name in [name for name, (of_task, *_) in PEERS.items() if of_task == task]:
                if (row := run_peer(args.peers, name, file)) is not None:
                    rows.append({"task": task, **row})
                    print(rows[-1], flush=True)
    if args.json:
        args.json.write_text(json.dumps({**provenance(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
