"""Output of every model on small data: a refactoring may change none of it.

For each model of each task one line of ``tests/golden/TASK.jsonl``: digests of its evaluation, of its scores of the
whole catalogue, of its explanations and of the tensors in its folder, before an update and after it; and beside them
the figures and the first answer, so that a difference can be read. All of it goes through the command line, whose
verbs and rows stay.

    scripts/golden              compare; exit code 1, and what differs, if anything does
    scripts/golden --write      write what is said today
    scripts/golden --task link --model ast

Digests are of one machine with one thread; on another the figures and answers are compared instead (--loose). They are
of the code in torch and NumPy: compiled kernels differ in last bits, and are compared with it in ``tests/kernels``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", COLUMNS="200", CUDA_VISIBLE_DEVICES="", ENSUE_KERNELS="off")

from safetensors import SafetensorError
from safetensors.numpy import load_file

from ensue import cli
from ensue.demo.models import data_of, written
from ensue.demo.town import make_town, texts_of

PLACE = Path(__file__).parents[1] / "tests" / "golden"
TASKS = ("next", "classify", "suggest", "link")
SETTINGS = {
    "epochs": 2, "batch_size": 32, "dim": 8, "hidden": 8, "head": 8, "embedding": 8, "wide": 16, "heads": 2,
    "table_dim": 4, "negatives": 16, "depth": "1+1+1",
}  # fmt: skip
"""Small ones, each for the models that have it."""
OWN: Mapping[str, Mapping[str, object]] = {name: {"depth": "1+1"} for name in ("transformer", "flat-transformer")}
PASSING = "seconds"
"""Fields that begin so are of the moment, not of the model."""
LEFT_OUT = {"sbert", "sentences"}
"""Models that need a sentence encoder to be installed."""
LONGEST = 3
"""Members of a list that are written for people to read."""


def write_data(place: Path) -> dict[str, tuple[list[str], Path, list[str]]]:
    """Files of a made-up town; for each task what `fit` and `evaluate` read, and more options of both."""
    story = make_town(seed=7, num_posts=200, num_reads=200, num_searches=200)
    splits = data_of(story)
    posts = written(story)

    def write(name: str, lines: Iterable[str]) -> Path:
        path = place / f"{name}.jsonl"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    def records(name: str, part: Iterable[Any]) -> Path:
        return write(name, (record.to_json() for record in part))

    trained: dict[str, tuple[list[str], Path, list[str]]] = {}
    reading = splits["reading"]
    articles = records("articles", story.articles)
    trained["next"] = [str(records("reads", reading.train.records()))], records("later", reading.test.records()), []
    labelled = [records(f"texts-{name}", texts_of(part)) for name, part in (("learned", posts[0]), ("asked", posts[2]))]
    words = sorted({word for text in texts_of(posts[0]) for word in text.texts[0].lower().split() if word.isalpha()})
    rows = (" ".join(f"{math.sin(at * axis):.3f}" for axis in range(1, 9)) for at in range(len(words)))
    lines = map(" ".join, zip(words, rows, strict=True))
    (place / "vectors.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    trained["classify"] = [str(labelled[0])], labelled[1], []
    searches = [
        write(
            f"searches-{name}",
            (
                json.dumps({"user": entry.person, "query": query, "time": time, "session": f"{name}{number}"})
                for number, entry in enumerate(part)
                for query, time in zip(entry.history.values, entry.history.times, strict=True)
            ),
        )
        for name, part in (("learned", story.searching[:150]), ("asked", story.searching[150:]))
    ]
    trained["suggest"] = [str(searches[0])], searches[1], []
    linked = [
        write(f"posts-{name}", (entry.post.to_json() for entry in part if entry.post.about))
        for name, part in (("learned", posts[0]), ("asked", posts[2]))
    ]
    trained["link"] = [str(linked[0])], linked[1], ["--articles", str(articles)]
    return trained


def ensue(*arguments: object) -> str:
    """Return what the command prints; its messages too if it fails."""
    out = io.StringIO()
    err = io.StringIO()
    former = sys.argv
    sys.argv = ["ensue", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"ensue {' '.join(map(str, arguments))}: {err.getvalue()}") from end
    finally:
        sys.argv = former
    return out.getvalue()


def taken(fit: list[object]) -> set[str]:
    """The settings that a model has, as the command line names them where one is not known."""
    try:
        ensue(*fit, "--set=none=1")
    except RuntimeError as refused:
        return set(re.split(r", |\n", str(refused).partition("choose from ")[2]))
    raise AssertionError("a setting that there is not was taken")


def lasting(value: Any) -> Any:
    """Return a value without times and other fields that differ between runs."""
    if isinstance(value, dict):
        return {name: lasting(ours) for name, ours in value.items() if not name.startswith(PASSING)}
    return [lasting(ours) for ours in value] if isinstance(value, list) else value


def digest(value: bytes | str) -> str:
    """96 bits that stand for all of it."""
    data = value.encode() if isinstance(value, str) else value
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def rounded(value: Any) -> Any:
    """Return a value with numbers of four digits, for people and for comparisons on another machine."""
    if isinstance(value, dict):
        return {name: rounded(ours) for name, ours in value.items()}
    if isinstance(value, list):
        return [rounded(ours) for ours in value[:LONGEST]]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def of_model(task: str, name: str, place: Path, data: tuple[list[str], Path, list[str]]) -> dict[str, Any]:
    """The line of one model."""
    trained, queries, extra = data
    folder = place / f"{task}-{name}"
    fit = ["fit", task, *trained, *extra, "-o", folder, "--model", name, "--seed", 3, "--device", "cpu"]
    known_ids = taken(fit)
    ours = {"vectors": {"vectors": place / "vectors.txt"}, **OWN}.get(name, {})
    ensue(*fit, *(f"--set={key}={value}" for key, value in {**SETTINGS, **ours}.items() if key in known_ids))
    saved = {path.name: digest(tensors(path)) for path in sorted(folder.glob("*.safetensors"))}
    evaluation = lasting(json.loads(ensue("evaluate", folder, queries, *extra, "--json")))
    scores = ensue("predict", folder, queries, "-k", 20 if task == "suggest" else 10_000, "--json", "--no-attributions")
    explained = ensue("explain", folder, queries, "--json")
    ensue("update", folder, queries, *extra, "--no-test", "--keep-versions", 0)
    end = {f"{path.name} after an update": digest(tensors(path)) for path in sorted(folder.glob("*.safetensors"))}
    return {
        "task": task, "model": name,
        "digests": {
            "evaluation": digest(json.dumps(evaluation)), "scores": digest(scores), "explanations": digest(explained),
            **saved, **end,
        },
        "evaluation": rounded(evaluation),
        "first": rounded([json.loads(text.splitlines()[0]) for text in (scores, explained) if text]),
    }  # fmt: skip


def tensors(path: Path) -> bytes:
    """All tensors of a file by name; how they are stored does not matter."""
    try:
        result = load_file(path)
    except SafetensorError:  # a file without tensors, which this reader does not take
        return path.read_bytes()
    return b"".join(
        name.encode() + str(result[name].dtype).encode() + result[name].tobytes() for name in sorted(result)
    )


def differences(old: dict[str, Any], new: dict[str, Any], loose: bool) -> list[str]:
    """Return the names of all differences; with ``loose`` those of metrics alone."""
    differing = (
        []
        if loose
        else [f"bytes of {name}" for name in old["digests"] if old["digests"][name] != new["digests"].get(name)]
    )
    return differing + [name for name in ("evaluation", "first") if not near(old[name], new[name])]


def near(old: Any, new: Any) -> bool:
    """Equal but for the last of four digits."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(near(old[name], new[name]) for name in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(near, old, new))
    if isinstance(old, float | int) and isinstance(new, float | int):
        return abs(old - new) <= 2e-3 * max(abs(old), abs(new), 1e-3)
    return bool(old == new)


def main() -> None:
    """Write the lines, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write what is said today")
    parser.add_argument("--loose", action="store_true", help="compare figures and answers, not bytes")
    parser.add_argument("--task", choices=TASKS)
    parser.add_argument("--model")
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        data = write_data(Path(folder))
        for task in [args.task] if args.task else TASKS:
            file = PLACE / f"{task}.jsonl"
            stored = (
                {row["model"]: row for row in map(json.loads, file.read_text().splitlines())} if file.exists() else {}
            )
            names = [
                "best",
                *(row["name"] for row in json.loads(ensue("models", task, "--json")) if row["name"] != "best"),
            ]
            for name in [args.model] if args.model else [name for name in names if name not in LEFT_OUT]:
                row = of_model(task, name, Path(folder), data[task])
                if args.write:
                    stored[name] = row
                    print(f"{task} {name}: {row['digests']['scores']}", flush=True)
                    continue
                result = (
                    differences(stored[name], row, args.loose) if name in stored else ["no line in the golden file"]
                )
                wrong += bool(result)
                print(f"{task} {name}: {', '.join(result) or 'as before'}", flush=True)
            if args.write:
                PLACE.mkdir(exist_ok=True)
                file.write_text("".join(f"{json.dumps(row)}\n" for row in stored.values()))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
