"""``CARD.md``: what a model learned from what, and its latest scores with counting beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ensue.evaluation.classify import TextResult
from ensue.evaluation.link import LinkResult
from ensue.evaluation.next_event import Result
from ensue.evaluation.rows import table
from ensue.evaluation.suggest import SuggestResult
from ensue.lines import plural
from ensue.predictor import AnyPredictor
from ensue.tasks.next.catalogue import BEST
from ensue.tasks.next.reservoir import LATEST
from ensue.version import __version__

_SCORES = "## Scores on data it has not seen"
_WEIGHTS = "Attention weights say what the model leaned on, not why; trust them as far as a deletion test goes."


def describe(predictor: AnyPredictor, result: Result | TextResult | SuggestResult | LinkResult | None = None) -> str:
    """The text of ``CARD.md``: what was learned from what, and the latest scores with counting beside them."""
    summary = predictor.summary()
    lines = [
        f"# {summary['model']} for task {summary['task']}",
        "",
        f"Written by ensue {__version__}. Same seed, data and machine give the same bytes on the CPU.",
        "",
        "## What it learned from",
        *(f"- {name}: {value}" for name, value in _facts(summary["facts"])),
        "",
        *_kept_things(summary),
        "## How",
        f"- seed: {summary['seed']}",
        *(f"- {name}: {value}" for name, value in {**summary["settings"], **(summary["schedule"] or {})}.items()),
        "",
        _SCORES,
    ]
    if result is None:
        return "\n".join([*lines, "None yet: run `ensue evaluate FOLDER TEST`.", ""])
    measures = [name for name in result.rows[0].figures if not isinstance(result, Result) or _is_shown(name)]
    card = [f"- {name}: {value}" for name, value in asdict(result.protocol).items()]
    return "\n".join([*lines, table(result, measures), "", result.verdict, "", *card, "", _WEIGHTS, ""])


def scores_of(card: str) -> dict[str, Any] | None:
    """What :func:`describe` wrote of the latest scores; ``None`` where there are none yet.

    ``figures`` are the model's own (x 100, with the half-width of their interval); ``verdict`` and ``protocol`` follow.
    """
    lines = card.partition(f"\n{_SCORES}\n")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    if len(rows) < 3:
        return None
    heads, _, own = rows[:3]
    said = [line for line in lines if line and not line.startswith(("|", "- ", "Warning: ")) and line != _WEIGHTS]
    return {
        "figures": dict(zip(heads[1:], own[1:], strict=False)),
        "verdict": said[0] if said else "",
        "protocol": dict(line[2:].split(": ", 1) for line in lines if line.startswith("- ") and ": " in line),
    }


def _is_shown(name: str) -> bool:
    return name == "mrr" or name.startswith("hit")


def _facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Facts as lines: lists joined, figures by model in a row, the log of training a line an epoch."""
    for name, value in facts.items():
        rows = value if name == "log" else ()
        for row in rows:
            yield f"epoch {row['epoch']}", _figures({key: own for key, own in row.items() if key != "epoch"})
        if isinstance(value, Mapping):
            yield name, _figures(value)
        elif isinstance(value, list):
            if name == "answered":
                yield name, f"{len(value)} latest updates by their Idempotency-Key"
            elif name == "encoder":
                yield name, f"known again by {', '.join(f'{own:.4f}' for own in value[:3])}, …"
            elif value and not rows:
                yield name, "; ".join(map(str, value)) if name == "notes" else ", ".join(map(str, value))
        else:
            yield name, value


def _figures(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {own:.4g}" if isinstance(own, float) else f"{key} {own}" for key, own in values.items())


def _kept_things(summary: Mapping[str, Any]) -> list[str]:
    if summary["task"] == "classify":
        return _kept_texts(int(summary["settings"].get("remembered", 0)))
    if summary["task"] == "link":
        return _kept_links(int(summary["facts"].get("remembered", 0)))
    return _kept_queries() if summary["task"] == "suggest" else _kept(summary)


def _kept(summary: Mapping[str, Any]) -> list[str]:
    """What a card says of past histories in the folder: they may be personal data."""
    title, sums = (
        "## What it keeps",
        "how often each value occurs, what follows what, how long histories and pauses are",
    )
    if not (summary["schedule"] or summary["settings"]).get("replay", 1):
        one = "a pair of values that one history alone holds is among them"
        return [title, f"- nothing of a single history: weights, and sums over all of them ({sums}); {one}.", ""]
    num, lines = summary["facts"]["remembered"], []
    if num:
        many = plural(num, "past history", "past histories")
        what = f"{many} (ids and times, no names; of each the latest {LATEST} events)"
        lines.append(f"- {what} in `reservoir.safetensors`, for updates to learn anew.")
    lines.append(
        "- of every value the latest sessions that hold it, as sets of ids, for VS-kNN, and a 64-bit fingerprint of "
        "each history, to find test histories that were trained on, in `counting.safetensors`."
    )
    if summary["model"] in BEST:
        held = "such sessions" if summary["model"] == "blend" else "past cascades whole (ids and times, no names)"
        lines.append(f"- {held} in `model.safetensors`: the model looks them up.")
    lines.append(f"- sums over all histories: {sums}.")
    if summary["model"] != "vsknn":
        lines.append("- `ensue fit --set replay=0` keeps weights and sums alone.")
    return [title, *lines, ""]


def _kept_texts(num: int) -> list[str]:
    """What a card says of the texts that were learned: single words may be personal data."""
    words = (
        "- every word of the training texts in `vocabulary.json` (`ensue fit --set min_count=5`: those seen 5 times)"
    )
    prints = "a 64-bit fingerprint of each text in `counting.safetensors`, to find test texts that were trained on"
    lines = ["## What it keeps", f"{words}, and {prints}."]
    if num:
        what = f"up to {num:,} held-out texts as numbers of those words, with their labels, in `remembered.safetensors`"
        lines.append(f"- {what}, to test updates on; `ensue fit --set remembered=0` keeps none.")
    return [*lines, ""]


def _kept_queries() -> list[str]:
    """What a card says of the queries that were learned."""
    queries = "- the queries and words that reach the privacy floor, in `floor.json`, `counting.safetensors` and"
    prints = "`tokenizer.json`; a 32-bit hash of each pair of queries that followed each other, for the evaluator"
    weights = "- what the weights hold of the words above the floor; the words below it were never shown to the network"
    return ["## What it keeps", f"{queries} {prints}.", f"{weights}.", ""]


def _kept_links(num: int) -> list[str]:
    """What a card says of the articles and posts that were learned."""
    articles = "- every article whole, in `articles.parquet`, and its terms as numbers in `counting.safetensors`"
    posts = "- of posts a 64-bit fingerprint each, and of networks every word of theirs in `vocabulary.json`; no text"
    vectors = "- beside the folder, in `NAME.posts`, vectors of the posts that `ensue link --folder` last ranked"
    lines = ["## What it keeps", f"{articles}.", f"{posts}.", f"{vectors}."]
    if num:
        what = f"{plural(num, 'held-out post')} as numbers of their words, with their articles, in"
        lines.append(f"- {what} `remembered.safetensors`, to test updates on; whoever guesses a word can look for it;")
        lines.append("  `ensue fit --set remembered=0` keeps none.")
    return [*lines, ""]
