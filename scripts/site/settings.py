"""The pages of settings: every setting of every model with its default, unit, meaning and source."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from inspect import getdoc
from typing import Any

from ensue import registry
from ensue.schedule import Schedule
from ensue.settings import meanings
from ensue.tasks import TASKS

UNITS: dict[str, str] = {
    **dict.fromkeys(("batch_size",), "histories, texts or posts"),
    **dict.fromkeys(("epochs", "max_epochs", "check_every"), "epochs"),
    **dict.fromkeys(("decay_steps", "warm_up", "min_steps", "max_steps"), "steps"),
    **dict.fromkeys(("max_hours",), "hours"),
    **dict.fromkeys(("intervals",), "intervals"),
    **dict.fromkeys(
        ("dim", "table_dim", "score_dim", "embedding", "wide", "hidden", "head", "filters", "bag", "coverage"),
        "numbers",
    ),
    **dict.fromkeys(("dropout", "dropout_items", "dropout_session", "dropout_state", "mask_fraction"), "share, 0 to 1"),
    **dict.fromkeys(("smoothing", "beta2", "damping", "decay_rate"), "share, 0 to 1"),
    **dict.fromkeys(("max_length", "window"), "events, or queries"),
    **dict.fromkeys(("sample", "neighbours"), "past histories"),
    **dict.fromkeys(("heads",), "heads"),
    **dict.fromkeys(("num_layers", "cycles"), "layers"),
    **dict.fromkeys(("steps",), "steps of propagation"),
    **dict.fromkeys(("depth",), "layers, as text"),
    **dict.fromkeys(("patience",), "checks"),
    **dict.fromkeys(("smallest_batch", "largest_batch"), "histories, texts or posts"),
    **dict.fromkeys(("learning_rate",), "step size"),
    **dict.fromkeys(("weight_decay", "regularisation", "entropy", "time_weight", "popularity", "idf"), "weight"),
    **dict.fromkeys(("temperature", "margin", "epsilon"), "cosine, or squared distance"),
    **dict.fromkeys(("power", "exponent", "logq"), "exponent or factor"),
    **dict.fromkeys(("strength",), "inverse of the penalty's weight"),
    **dict.fromkeys(("negatives",), "items"),
    **dict.fromkeys(("keep", "retrieved"), "values or queries"),
    **dict.fromkeys(("beam",), "open beams"),
    **dict.fromkeys(("turns",), "queries"),
    **dict.fromkeys(("query_tokens", "suggestion_tokens"), "tokens"),
    **dict.fromkeys(("max_words", "extra_words", "longest"), "words"),
    **dict.fromkeys(("max_sentences",), "sentences"),
    **dict.fromkeys(("min_count",), "occurrences"),
    **dict.fromkeys(("min_users",), "users"),
    **dict.fromkeys(("vocabulary_size",), "pieces"),
    **dict.fromkeys(("replay", "remembered"), "histories, texts or posts"),
    **dict.fromkeys(("vectors",), "path"),
    **dict.fromkeys(("encoder",), "name or path"),
    **dict.fromkeys(
        ("architecture", "cell", "decay", "first", "loss", "method", "metric", "network", "pooling", "precision",
         "pretrain", "projection", "reads", "scale", "tokens", "monitor"),
        "one of the names in the meaning",
    ),
}  # fmt: skip
"""By name; a setting that is true or false has the unit "yes or no", whatever its name."""

SHARED_TRAINING = "`Schedule`, for every model"


@dataclass(frozen=True)
class Line:
    """One setting of one model."""

    name: str
    default: str
    unit: str
    meaning: str
    source: str


def lines_of(task: str, model: registry.Model) -> list[Line]:
    """The settings of a model, its own first, then those of its training, then those of its task.

    Raises:
        KeyError: a setting without a unit.
    """
    package = TASKS[task].module("catalogue")
    results: dict[str, Line] = {}
    for group in (*package.MODELS[model.name][1:], package.SHARED):
        for line in _lines(group, model.paper):
            results.setdefault(line.name, line)
    return list(results.values())


def _lines(part: Any, paper: str = "") -> list[Line]:
    if not is_dataclass(part) or isinstance(part, type):
        return []
    meant = meanings(part)
    lines = []
    for field in fields(part):
        default = getattr(part, field.name)
        unit = "yes or no" if isinstance(default, bool) else UNITS[field.name]
        lines.append(
            Line(field.name, _shown(default), unit, meant[field.name], _source(part, paper, field.default == default))
        )
    return lines


def _source(part: Any, paper: str, untouched: bool) -> str:
    """Return the source of a default: the docstring of its class, and the paper of the model."""
    kind = type(part)
    if kind is Schedule:
        return SHARED_TRAINING if untouched else "set for this model"
    output = re.search(r"the defaults are (.*?)\.$", (getdoc(kind) or "").split("\n")[0])
    text = f"`{kind.__name__}`: {output[1] if output else 'ours'}"
    return f"{text}{f' ({paper})' if output and paper else ''}"


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if default is None or default == "":
        return "none"
    return f"{default:,}" if isinstance(default, int) else str(default)


def page() -> str:
    """The page that leads to those of the tasks, with what all training shares."""
    text = [
        "# Settings",
        "",
        "Change a setting with `--set NAME=VALUE` at the command line, in Python with",
        "`make(task, model, settings={name: value})`. `ensue settings MODEL` prints those of a model. A setting",
        "that is *yes or no* is given as `true` or `false`; *none* stands for what is not set. *Source* names the",
        "dataclass that holds a setting, and where its default comes from: a paper, the authors' program, or us.",
        "",
        "```{toctree}",
        ":maxdepth: 1",
        *(f"settings_{task}" for task in TASKS),
        "```",
        "",
        "(training)=",
        "## Training",
        "",
        "Every model that is trained knows these too; the pages of the tasks list those whose default differs.",
        "",
        *_table(_lines(Schedule())),
    ]
    return "\n".join(map(_plain, text)) + "\n"


def page_of(task: str) -> str:
    """The page of a task, a section for each group of models that share their settings."""
    package = TASKS[task].module("catalogue")
    text = [f"# Settings of task {task}", ""]
    shared = _lines(package.SHARED)
    if shared:
        text += ["## Of every model", "", *_table(shared), ""]
    names = {line.name for line in shared}
    groups: dict[tuple[Line, ...], list[registry.Model]] = {}
    for model in registry.models(task):
        own_lines = [entry for entry in lines_of(task, model) if entry.source != SHARED_TRAINING]
        groups.setdefault(
            tuple(entry for entry in own_lines if entry.name not in names or entry not in shared), []
        ).append(model)
    for lines, models in groups.items():
        text += [f"## {', '.join(model.name for model in models)}", ""]
        for model in models:
            text += [f"- `{model.name}`: {model.about}{f' ({model.paper})' if model.paper else ''}"]
        trained = any(package.MODELS[model.name][-1] is not None for model in models)
        text += ["", *(_table(list(lines)) if lines else ["No settings of its own."]), ""]
        text += ["And all of [Training](settings.md#training)." if trained else "Counted, not trained.", ""]
    return "\n".join(map(_plain, text)) + "\n"


def _table(lines: list[Line]) -> list[str]:
    rows = ["| setting | default | unit | meaning | source |", "|---|---|---|---|---|"]
    for line in lines:
        cells = (f"`{line.name}`", line.default, line.unit, line.meaning.replace("|", "\\|"), line.source)
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _plain(line: str) -> str:
    """References of docstrings as code."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", line)
