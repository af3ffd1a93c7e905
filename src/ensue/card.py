"""The text of the model card ``CARD.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ensue.store.card import SCORES, WEIGHTS
from ensue.version import __version__

if TYPE_CHECKING:
    from ensue.predictor import AnyPredictor


def describe(predictor: AnyPredictor, scores: str = "") -> str:
    """Return the text of ``CARD.md``: training data, settings, and the latest metrics with those of the baselines.

    Args:
        predictor: fitted.
        scores: :meth:`ensue.evaluation.result.Result.card_text`; empty where the model was not scored yet.
    """
    summary = predictor.summary()
    examples = "- up to six held-out records, verbatim, in `settings.json`; `ensue fit --no-examples` stores none."
    lines = [
        f"# {summary['model']} for task {summary['task']}",
        "",
        f"Written by ensue {__version__}. Same seed, data and machine give the same bytes on the CPU.",
        "",
        "## Training data",
        *(f"- {name}: {value}" for name, value in _metadata_lines(summary["facts"])),
        "",
        "## Stored data",
        *predictor.stored_data(),
        *([] if predictor.metadata.examples is None else [examples]),
        "",
        "## Settings",
        f"- seed: {summary['seed']}",
        *(f"- {name}: {value}" for name, value in {**summary["settings"], **(summary["schedule"] or {})}.items()),
        "",
        SCORES,
    ]
    if not scores:
        return "\n".join([*lines, "None yet: run `ensue evaluate FOLDER TEST`.", ""])
    return "\n".join([*lines, scores, "", WEIGHTS, ""])


def _metadata_lines(metadata: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield metadata as lines: lists joined, metrics by model on one line, one line per epoch of the training log."""
    for name, value in metadata.items():
        if name == "examples":
            continue  # described under the stored data
        if name == "log":
            for row in value:
                yield f"epoch {row['epoch']}", _listed({key: number for key, number in row.items() if key != "epoch"})
        elif isinstance(value, Mapping):
            yield name, _listed(value)
        elif not isinstance(value, list):
            yield name, value
        elif name == "answered":
            yield name, f"{len(value)} latest updates by their Idempotency-Key"
        elif name == "encoder":
            yield name, f"recognised by {', '.join(f'{number:.4f}' for number in value[:3])}, …"
        elif value:
            yield name, ("; " if name == "notes" else ", ").join(map(str, value))


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in values.items()
    )
