"""The model card ``CARD.md``: its text, and the latest metrics read from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ensue.errors import ModelFolderError
from ensue.store.checksums import opened
from ensue.version import __version__

Scores: TypeAlias = dict[str, Any]
"""Metrics, verdict and protocol of a card, as JSON."""
STORED = "## Stored data"
"""The heading of what a folder stores of its training data."""
SCORES = "## Test metrics"
"""The heading of the metrics."""
WEIGHTS = "Attention weights are not causes: a deletion test shows how much each one matters."
"""The last line."""
LONGEST = 200_000
"""Bytes of a card that are read."""


def card_text(summary: Mapping[str, Any], stored_data: Sequence[str], scores: str = "") -> str:
    """Return the text of ``CARD.md``: training data, settings, and the latest metrics with those of the baselines.

    Args:
        summary: settings and metadata of a model.
        stored_data: what its folder stores of the training data, as lines of a list.
        scores: :meth:`ensue.evaluation.result.Result.card_text`; empty where the model was not scored yet.
    """
    examples = "- up to six held-out records, verbatim, in `settings.json`; `ensue fit --no-examples` stores none."
    lines = [
        f"# {summary['model']} for task {summary['task']}",
        "",
        f"Written by ensue {__version__}. Same seed, data and machine give the same bytes on the CPU.",
        "",
        "## Training data",
        *(f"- {name}: {value}" for name, value in _metadata_lines(summary["facts"])),
        "",
        STORED,
        *stored_data,
        *([examples] if "examples" in summary["facts"] else []),
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
            # A few numbers of a long vector are enough to compare two cards.
            yield name, f"recognised by {', '.join(f'{number:.4f}' for number in value[:3])}, …"
        elif value:
            yield name, ("; " if name == "notes" else ", ").join(map(str, value))


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in values.items()
    )


def scores_of(card: str) -> Scores | None:
    """Return the latest metrics, verdict and protocol of a card; ``None`` before the first evaluation.

    ``figures`` are metrics of the model (x 100, with the half-width of their interval).
    """
    # Scores are read from the table that people see, so that the two cannot differ.
    lines = card.partition(f"\n{SCORES}\n")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    # Heads, the line below them, and the model: fewer rows are no scores.
    if len(rows) < 3:
        return None
    heads, _, model_row = rows[:3]
    sentences = [line for line in lines if line and not line.startswith(("|", "- ", "Warning: ")) and line != WEIGHTS]
    return {
        "figures": dict(zip(heads[1:], model_row[1:], strict=False)),
        "verdict": sentences[0] if sentences else "",
        "protocol": dict(line[2:].split(": ", 1) for line in lines if line.startswith("- ") and ": " in line),
    }


def read_card(folder: Path) -> str:
    """Return the card of a model folder; empty without one that can be read."""
    try:
        with opened(folder, "CARD.md") as card:
            return card.read(LONGEST).decode(errors="replace")
    except (ModelFolderError, OSError):
        return ""


def read_scores(folder: Path) -> Scores | None:
    """Return the latest scores in a model folder's card; ``None`` without a card that can be read and has some."""
    return scores_of(read_card(folder))


def stored_lines(folder: Path) -> list[str]:
    """Return what a model folder stores of its training data, by its card: lines of a list."""
    section = read_card(folder).partition(f"\n{STORED}\n")[2].partition("\n#")[0]
    return [line for line in section.splitlines() if line.strip()]
