"""CPU time of the hot paths in two checkouts of this project, in turn: whether what moved is slower than it was.

Each path is run by a process of its own, once in the one checkout and once in the other, ``--rounds`` times; the ratio
is that of the medians, with the least and the greatest of the pairs. A process imports first, then measures the CPU
time of one thread, so that a busy machine meets both alike. The data is made up, and the same for both.

    python benchmarks/checkouts.py BEFORE AFTER [--rounds 5] [--only epoch,reading] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ensue_studies.results import provenance

START = """
import gc, random, sys, time
import torch
torch.set_num_threads(1)
from ensue import History, Text, Post
from ensue.data.histories import Histories
from ensue.data.posts.corpus import read_corpus
from ensue.data.queries import read_queries
from ensue.data.sequences import read
from ensue.data.texts import read_texts
from ensue.predictor import make
folder = sys.argv[1]

def fitted(task, model, data, **settings):
    predictor = make(task, model, settings=settings)
    for _ in predictor.fit(data):
        pass
    return predictor

def of_large_catalogue(model):
    "Fitted on 40,000 sessions of 43,000 items, as many as Diginetica has."
    draw = random.Random(0)
    sessions = [[f"item{(5 * n + step) % 43000}" for step in range(5)] for n in range(8600)]
    sessions += [[f"item{int(draw.paretovariate(0.4)) % 43000}" for _ in range(5)] for n in range(31400)]
    asked.extend(History(tuple(session)) for session in sessions[8600:10648])
    settings = {} if model == "vsknn" else {"epochs": 1, "negatives": 16, "refit": False}
    num_sessions = 40000 if model == "vsknn" else 10000
    data = Histories.of([History(tuple(session)) for session in sessions[:num_sessions]])
    return fitted("next", model, data, **settings)

asked = []

def timed(run, times=1):
    gc.collect()  # or a collection of what was made before falls into the time of one checkout alone
    begun = time.process_time()
    for _ in range(times):
        run()
    print(time.process_time() - begun)
"""
PATHS = {
    "epoch": """
data, _ = read(folder + "/cascades.txt")
timed(lambda: fitted("next", "hidan", data, epochs=2, refit=False, batch_size=32))
""",
    "epoch of sessions": """
data, _ = read(folder + "/clicks.csv")
timed(lambda: fitted("next", "sansr", data, epochs=2, refit=False, batch_size=32))
""",
    "reading": """
timed(lambda: read(folder + "/clicks.csv"), 5)
""",
    "answers": """
data, _ = read(folder + "/clicks.csv")
predictor = fitted("next", "core", data, epochs=1, refit=False)
asked = [History((f"i{n % 900}", f"i{n % 700}", f"i{n % 300}")) for n in range(256)]
predictor.predict(asked, k=20)
timed(lambda: predictor.predict(asked, k=20), 5)
""",
    "one answer": """
data, _ = read(folder + "/clicks.csv")
predictor = fitted("next", "core", data, epochs=1, refit=False)
asked = [History(("i5", "i7", "i9"))]
predictor.predict(asked, k=20)
timed(lambda: predictor.predict(asked, k=20), 200)
""",
    "one answer of sansr": """
predictor = of_large_catalogue("sansr")
predictor.predict(asked[:1], k=20, evidence=False)
timed(lambda: [predictor.predict([one], k=20, evidence=False) for one in asked[:200]])
""",
    **{
        f"answers of {model}": f"""
predictor = of_large_catalogue("{model}")
predictor.predict(asked[:256], k=20, evidence=False)
timed(lambda: predictor.predict(asked, k=20, evidence=False))
"""
        for model in ("vsknn", "core", "sansr")
    },
    "suggestions": """
data, _ = read_queries(folder + "/queries.tsv")
predictor = fitted("suggest", "mtn", data, epochs=1)
asked = [History((f"word{n % 40} word{n % 7}", f"word{n % 13}")) for n in range(32)]
predictor.predict(asked[:1], k=5)
timed(lambda: [predictor.predict([one], k=5) for one in asked])
""",
    "texts": """
data, _ = read_texts(folder + "/texts.tsv")
predictor = fitted("classify", "centrality", data, epochs=1)
asked = [Text((" ".join(f"word{(n * step) % 900}" for step in range(1, 20)),)) for n in range(2000)]
predictor.predict(asked[:2])
timed(lambda: predictor.predict(asked))
""",
    "linking": """
data, _ = read_corpus(folder + "/posts.jsonl", articles=folder + "/articles.jsonl")
predictor = fitted("link", "tfidf", data)
asked = [Post(" ".join(f"word{(n * step) % 900}" for step in range(1, 12)), str(n)) for n in range(300)]
predictor.predict(asked[:2])
timed(lambda: predictor.predict(asked))
""",
    "normalisers": """
from ensue.nn.normalisers import entmax
scores, alpha = torch.randn(64, 8, 30, 30), torch.linspace(1.1, 1.9, 8).view(-1, 1, 1).requires_grad_()
def both():
    entmax(scores.detach().requires_grad_(), alpha).sum().backward()
both()
timed(both, 3)
""",
}

MADE = """
import json, random, sys
folder = sys.argv[1]
draw = random.Random(1)
word = lambda: f"word{int(draw.paretovariate(0.6)) % 900}"
with open(folder + "/cascades.txt", "w") as file:
    for _ in range(600):
        users = [f"u{(int(draw.paretovariate(0.5)) + step) % 1100}" for step in range(24)]
        times = sorted(draw.randrange(10**6) for _ in users)
        file.write(",".join(users) + ":" + ",".join(map(str, times)) + chr(10))
with open(folder + "/clicks.csv", "w") as file:
    file.write("session,item,time" + chr(10))
    for session in range(8000):
        at = int(draw.paretovariate(0.5)) % 5000
        for step in range(draw.randrange(2, 9)):
            item, time = (at + step * draw.choice((1, 1, 2))) % 5000, 1700000000 + session * 60 + step * 20
            file.write(f"s{session},i{item},{time}" + chr(10))
with open(folder + "/queries.tsv", "w") as file:
    file.write("user" + chr(9) + "query" + chr(9) + "time" + chr(10))
    for user in range(600):
        for step in range(3):
            query, time = f"word{(user + step) % 40} word{(user * step) % 7}", 1700000000 + user * 9000 + step * 60
            row = f"u{user}", query, str(time)
            file.write(chr(9).join(row) + chr(10))
with open(folder + "/texts.tsv", "w") as file:
    for number in range(1500):
        words = [word() for _ in range(19)]
        file.write(("good", "bad")[words[0] < words[1]] + chr(9) + " ".join(words) + chr(10))
with open(folder + "/articles.jsonl", "w") as articles, open(folder + "/posts.jsonl", "w") as posts:
    for number in range(400):
        body = [word() for _ in range(300)] + [f"name{number}"] * 3
        articles.write(json.dumps({"id": f"a{number}", "title": " ".join(body[:8]), "body": " ".join(body)}) + chr(10))
        text = " ".join(body[40:52] + body[-2:])
        posts.write(json.dumps({"id": f"p{number}", "text": text, "articles": [f"a{number}"]}) + chr(10))
"""


def cpu_seconds(checkout: Path, path: str, folder: str) -> float:
    """What one path takes in one checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-W", "ignore", "-c", START + PATHS[path], folder]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    if ran.returncode:
        raise SystemExit(f"{checkout}, {path}: {ran.stderr.strip().splitlines()[-1]}")
    return float(ran.stdout.split()[-1])


def measure(before: Path, after: Path, path: str, folder: str, rounds: int) -> dict[str, object]:
    """The two in turn."""
    pairs = [(cpu_seconds(before, path, folder), cpu_seconds(after, path, folder)) for _ in range(rounds)]
    first, second = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratios = sorted(round(new / old, 3) for old, new in pairs)
    row = {"path": path, "before": round(first, 3), "after": round(second, 3), "ratio": round(second / first, 3)}
    return {**row, "least": ratios[0], "greatest": ratios[-1]}


def commit_of(checkout: Path) -> str:
    """Its commit."""
    words = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Measure and print, and write where asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("before", type=Path)
    options.add_argument("after", type=Path)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", default=",".join(PATHS))
    options.add_argument("--json", type=Path)
    args = options.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", MADE, folder], check=True)
        for path in args.only.split(","):
            rows.append(measure(args.before.resolve(), args.after.resolve(), path, folder, args.rounds))
            print(rows[-1], flush=True)
    if args.json:
        about = {"before": commit_of(args.before), "after": commit_of(args.after), "rounds": args.rounds}
        args.json.write_text(json.dumps({**provenance(), **about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
