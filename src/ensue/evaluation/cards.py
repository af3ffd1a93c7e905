"""``CARD.md``: what a model learned from what, and its latest scores with counting beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ensue.evaluation.rows import table
from ensue.store.card import SCORES, WEIGHTS
from ensue.version import __version__

if TYPE_CHECKING:
    from ensue.evaluation.result import Card, TaskResult
    from ensue.evaluation.rows import Json
    from ensue.predictor import AnyPredictor
    from ensue.tasks.metadata import Metadata


def describe(predictor: AnyPredictor, result: TaskResult[Card] | None = None) -> str:
    """The text of ``CARD.md``: what was learned from what, and the latest scores with counting beside them."""
    summary = predictor.summary()
    lines = [
        f"# {summary['model']} for task {summary['task']}",
        "",
        f"Written by ensue {__version__}. Same seed, data and machine give the same bytes on the CPU.",
        "",
        "## Training data",
        *(f"- {name}: {value}" for name, value in _facts(summary["facts"])),
        "",
        "## Stored data",
        *predictor.stored_data(),
        *_examples(predictor.metadata),
        "",
        "## Settings",
        f"- seed: {summary['seed']}",
        *(f"- {name}: {value}" for name, value in {**summary["settings"], **(summary["schedule"] or {})}.items()),
        "",
        SCORES,
    ]
    if result is None:
        return "\n".join([*lines, "None yet: run `ensue evaluate FOLDER TEST`.", ""])
    card = [f"- {name}: {value}" for name, value in result.card.items()]
    card += [f"- leaks: {'; '.join(result.leaks)}"] if result.leaks else []
    return "\n".join([*lines, table(result, result.shown), "", result.verdict, "", *card, "", WEIGHTS, ""])


def _examples(metadata: Metadata) -> Iterator[str]:
    """That some held-out records stand in the folder as they are."""
    if metadata.examples is not None:
        yield "- up to six held-out records, verbatim, in `settings.json`; `ensue fit --no-examples` stores none."


def _facts(facts: Json) -> Iterator[tuple[str, object]]:
    """Facts as lines: lists joined, figures by model in a row, the log of training a line an epoch."""
    for name, value in facts.items():
        rows = value if name == "log" else ()
        for row in rows:
            yield f"epoch {row['epoch']}", _figures({key: own for key, own in row.items() if key != "epoch"})
        if name == "examples":
            continue  # they stand under what it keeps
        if isinstance(value, Mapping):
            yield name, _figures(value)
        elif isinstance(value, list):
            if name == "answered":
                yield name, f"{len(value)} latest updates by their Idempotency-Key"
            elif name == "encoder":
                yield name, f"recognised by {', '.join(f'{own:.4f}' for own in value[:3])}, …"
            elif value and not rows:
                yield name, "; ".join(map(str, value)) if name == "notes" else ", ".join(map(str, value))
        else:
            yield name, value


def _figures(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {own:.4g}" if isinstance(own, float) else f"{key} {own}" for key, own in values.items())
