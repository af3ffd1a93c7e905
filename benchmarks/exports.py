"""Exported folders against the folders they were made from: scores, metrics and sizes, and what a service needs.

Every model is trained on a small part of a real data set: the question is what an export loses, not how good a model
is.

    python benchmarks/exports.py --data DATA [--models sansr,hidan] [--json FILE]
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import json
import lzma
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ensue import kernels
from ensue.data.sequences import read
from ensue.predictor import load
from ensue.tasks.next import infer
from ensue.tasks.next.training_data import Exclusion
from ensue_studies.results import provenance

TORCH = ("torch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock", "fsspec")
ONNX = ("onnxruntime", "flatbuffers", "protobuf", "packaging")
"""Packages that a service with torch and one with onnxruntime need beyond the others."""
PORT = 8953


class Case(NamedTuple):
    """A model, its data, options of ``fit`` and ``evaluate``, and its metric."""

    task: str
    model: str
    data: str
    metric: str
    options: tuple[str, ...] = ()


CASES = {
    "hidan": Case("next", "hidan", "twitter", "hit@20", ("--set=epochs=2",)),
    "cascade-blend": Case("next", "cascade-blend", "twitter", "hit@20", ("--set=epochs=2",)),
    "sansr": Case("next", "sansr", "diginetica", "hit@20", ("--set=epochs=2",)),
    "blend": Case("next", "blend", "diginetica", "hit@20", ("--set=epochs=2",)),
    "sasrec": Case("next", "sasrec", "diginetica", "hit@20", ("--set=epochs=2",)),
    "sr-gnn": Case("next", "sr-gnn", "diginetica", "hit@20", ("--set=epochs=2", "--set=loss=sampled")),
    "centrality": Case("classify", "centrality", "trec", "accuracy", ("--set=epochs=10", "--set=hidden=64")),
    "tokenrank": Case("classify", "tokenrank", "trec", "accuracy", ("--set=epochs=10", "--set=hidden=64")),
    "classify blend": Case("classify", "blend", "trec", "accuracy", ("--set=epochs=10", "--set=hidden=64")),
    "ast": Case("link", "ast", "politifact", "mrr", ("--set=epochs=2",)),
    "link best": Case("link", "best", "politifact", "mrr", ("--set=network=ast", "--set=epochs=2")),
    # Published questions without users, as in the study of MTN: nothing is below the k-anonymity threshold.
    "mtn": Case("suggest", "mtn", "msmarco", "bleu", ("--set=epochs=6", "--no-refit", "--set=min_users=1")),
    "suggest best": Case("suggest", "best", "msmarco", "mrr@10", ("--set=epochs=6", "--no-refit", "--set=min_users=1")),
}


def write_data(data: Path, place: Path) -> None:
    """Write small parts of real data sets, for training and test."""

    def head(source: str, target: str, lines: int, start: int = 0, *, prefix: str = "") -> None:
        opener = gzip.open if source.endswith("gz") else lzma.open
        with opener(data / source, "rt", encoding="utf-8") as file:
            header, *rows = file.read().splitlines(keepends=True)
        # Only the file whose rows are chosen by a prefix has a header.
        rows = [row for row in rows if row.startswith(prefix)] if prefix else [header, *rows]
        chosen = rows[start : start + lines]
        (place / target).write_text("".join([header, *chosen] if prefix else chosen), encoding="utf-8")

    head("cascades/twitter/cascade.txt.gz", "twitter.train", 1_500)
    head("cascades/twitter/cascadetest.txt.gz", "twitter.test", 350)
    # The latest sessions of the training part, and those right after them.
    head("sessions/diginetica/train.txt.gz", "diginetica.train", 3_000, 183_670)
    head("sessions/diginetica/test.txt.gz", "diginetica.test", 600)
    head("text/trec/train.tsv.xz", "trec.train", 3_000)
    head("text/trec/test.tsv.xz", "trec.test", 500)
    # Split, overlap and name of a session come before its queries; of the other test pairs 35 % are training pairs.
    for part, split, lines in (("train", "train\t-\t", 2_500), ("test", "test\tnovel\t", 200)):
        head("queries/msmarco/sessions.tsv.gz", f"msmarco.{part}", lines, prefix=split)
    for name in ("posts", "articles"):
        head(f"links/politifact/{name}.jsonl.gz", f"{name}.jsonl", 100_000)
    posts = (place / "posts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    split = {
        part: [line for line in posts if json.loads(line).get("split", "train") == part] for part in ("train", "test")
    }
    for part, lines in split.items():
        (place / f"politifact.{part}").write_text("".join(lines), encoding="utf-8")


def ensue(*words: str, python: Sequence[str] = ("-m", "ensue")) -> str:
    """Run a command and return what it prints."""
    process = subprocess.run([sys.executable, *python, *words], capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"ensue {' '.join(words)}: {process.stderr}")
    return process.stdout


def articles_of(case: Case, place: Path) -> list[str]:
    """Return the options that name the articles of task ``link``."""
    return ["--articles", str(place / "articles.jsonl")] if case.task == "link" else []


def measure(case: Case, data: Path, place: Path) -> dict[str, Any]:
    """Fit, export in both precisions, and compare."""
    folder = place / "model"
    train, test = (str(data / f"{case.data}.{part}") for part in ("train", "test"))
    more = articles_of(case, data)
    ensue("fit", case.task, train, *more, "-o", str(folder), "--model", case.model, "--seed", "0", *case.options)
    exports = {"float32": place / "float32", "int8": place / "int8"}
    reports = {
        name: json.loads(ensue("export", str(folder), "--onnx", str(path), "--json", *(["--int8"] * (name == "int8"))))
        for name, path in exports.items()
    }
    row: dict[str, Any] = {"task": case.task, "model": case.model, "data": case.data, "metric": case.metric}
    row["weights_bytes"] = reports["float32"]["network_bytes"]
    metrics = {}
    for name, path in {"torch": folder, **exports}.items():
        result = json.loads(ensue("evaluate", str(path), test, *more, "--json"))
        model = reports["float32"]["model"]  # that ``best`` chose
        metrics[name] = next(entry for entry in result["rows"] if entry["model"] == model)[case.metric]
    row["metrics"] = metrics
    for name, path in exports.items():
        row[f"{name}_bytes"] = sum(reports[name]["sizes"].values())
        row[f"{name}_difference"] = difference(case, folder, path, test, more)
    return row


def difference(case: Case, folder: Path, export: Path, test: str, more: list[str]) -> float:
    """Return the largest difference of a score on the test data; of suggestions, of those that both make."""
    if case.task == "next":
        scores = []
        for path in (folder, export):
            predictor: Any = load(path, device="cpu")
            histories = read(test)[0].encode(predictor.vocabulary)
            histories = histories.keep(histories.ids > 1).select(np.arange(300))
            scores.append(infer.catalogue_scores(predictor, Exclusion.NONE, histories)[0])
        finite = np.isfinite(scores[0])
        return float(np.abs(scores[0][finite] - scores[1][finite]).max())
    ours, theirs = (scores_of(ensue("predict", str(path), test, "--json")) for path in (folder, export))
    return max(abs(ours[key] - theirs[key]) for key in ours.keys() & theirs.keys())


def scores_of(printed: str) -> dict[tuple[int, str], float]:
    """Return the scores in printed answers, by the number of the answer and what was answered."""
    return {
        (number, choice["value"]): choice["score"]
        for number, line in enumerate(printed.splitlines())
        for choice in json.loads(line)["choices"]
    }


def service(folder: Path, *, torch: bool) -> dict[str, float]:
    """Return the memory of a service after an answer, and the seconds to it; torch can be hidden."""
    hidden = "" if torch else "sys.modules['torch'] = None; "
    program = f"import sys; {hidden}from ensue.cli import main; main()"
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", program, "serve", f"m={folder}", "--port", str(PORT)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    body = json.dumps({"records": [{"values": []}]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/models/m/predict", body, {"Content-Type": "application/json"}
    )
    try:
        while True:
            try:
                urllib.request.urlopen(request, timeout=5).read()
                break
            except OSError:
                if time.monotonic() > start + 60 or process.poll() is not None:
                    raise
                time.sleep(0.05)
        seconds = time.monotonic() - start
        status = Path(f"/proc/{process.pid}/status").read_text()
        return {"seconds": seconds, "megabytes": int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024}
    finally:
        process.terminate()
        process.wait()


def installed(names: Sequence[str]) -> float:
    """Return the megabytes of the files of some packages."""
    files = (Path(str(file.locate())) for name in names for file in importlib.metadata.files(name) or ())
    return sum(file.stat().st_size for file in files if file.exists()) / 1e6


def main() -> None:
    # Compiled kernels may store items in 16 bits, which is right for the highest scores alone.
    kernels.load("off")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", default=",".join(CASES))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    # Models that were measured before stay in the file.
    results: dict[str, Any] = {"runs": [], "rows": []}
    if args.json and args.json.is_file():
        results = json.loads(args.json.read_text(encoding="utf-8"))
    results["runs"].append(provenance())
    results["packages"] = {"torch": installed(TORCH), "onnx": installed(ONNX)}
    rows = results["rows"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_data(args.data, place)
        for name in args.models.split(","):
            rows.append(measure(CASES[name], place, place / name))
            print(name, json.dumps(rows[-1]), flush=True)
            if name == "sansr":
                results["service"] = {"torch": service(place / name / "model", torch=True)}
                results["service"]["onnx"] = service(place / name / "float32", torch=False)
            # After each model, for a run may be cut.
            if args.json:
                args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
