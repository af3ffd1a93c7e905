"""Experiments over HTTP: sessions get variants, lists are interleaved, and shown lists are written to a file."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from ensue.errors import DataError, SettingError
from ensue.experiments import INTERLEAVED, Experiment, interleave, pseudonym
from ensue.records import History
from ensue.registry import task_of
from ensue.serve.monitoring import ServiceLog
from ensue.tasks import NEXT

Ask = Callable[[str, Sequence[int]], Awaitable[Sequence[str]]]
"""Asks a model, by its name, about some of the records; returns a line of JSON for each."""


def require_experiments(experiments: Sequence[Experiment], folders: Mapping[str, Path]) -> dict[str, Experiment]:
    """Return experiments by name.

    Raises:
        SettingError: a name that another experiment or a model has, a variant that is no served model, or a model of
            another task than ``next``.
    """
    by_name = {experiment.name: experiment for experiment in experiments}
    for experiment in experiments:
        name = experiment.name
        if name in folders or experiment is not by_name[name]:
            raise SettingError(f"experiment {name}: another experiment or a model has this name; choose another one")
        for variant in experiment.shares:
            if variant not in folders:
                raise SettingError(
                    f"experiment {name}: no model is named {variant!r}; served are {', '.join(folders)}; add "
                    f"{variant}=FOLDER"
                )
            if task_of(folders[variant]) != NEXT.name:
                raise SettingError(
                    f"experiment {name}: model {variant} answers {task_of(folders[variant])}; experiments are for next"
                )
    return by_name


def variants_of(experiment: Experiment | None, records: Sequence[History], stated: str) -> list[str]:
    """Return the variant of each record.

    Args:
        experiment: that the request names; ``None`` where it names a model, whose variants are labels.
        records: sessions.
        stated: variant of the request; empty where the service assigns.

    Raises:
        DataError: a record without an id, or a variant that the experiment lacks.
    """
    if stated and experiment is not None:
        names = [INTERLEAVED] if experiment.interleaved else [*experiment.shares]
        if stated not in names:
            raise DataError(
                f'field "variant": experiment {experiment.name} has {", ".join(names)}; leave it out to be assigned'
            )
    for position, record in enumerate(records):
        if not record.id:
            raise DataError(
                f'records[{position}]: field "id" is missing; variants are counted by the id of the session or user'
            )
    return [stated or experiment.variant(record.id) if experiment else stated for record in records]


async def answer(
    experiment: Experiment, records: Sequence[History], variants: Sequence[str], k: int, ask: Ask
) -> list[str]:
    """Return the line of JSON that the variant of each record answers."""
    if experiment.interleaved:
        everything = range(len(records))
        by_model = [await ask(model, everything) for model in experiment.shares]
        return [
            _drafted(experiment, record, pair, k)
            for record, pair in zip(records, zip(*by_model, strict=True), strict=True)
        ]
    lines = [""] * len(records)
    for variant in dict.fromkeys(variants):
        rows = [row for row, name in enumerate(variants) if name == variant]
        for row, line in zip(rows, await ask(variant, rows), strict=True):
            lines[row] = line
    return lines


def _drafted(experiment: Experiment, record: History, lines: Sequence[str], k: int) -> str:
    """Return an answer with the interleaved choices of two."""
    answers = [json.loads(line) for line in lines]
    items = [[choice["value"] for choice in decoded["choices"]] for decoded in answers]
    # The same request is answered alike; another click in the session draws anew.
    drafted = interleave(items, k, "\0".join((experiment.name, record.id, *record.values)))
    models = [*experiment.shares]
    choices = [answers[team]["choices"][position] for team, position in drafted]
    sources = [models[team] for team, _ in drafted]
    return json.dumps({**answers[0], "choices": choices, "sources": sources}, ensure_ascii=False)


def write_shown(
    log: ServiceLog, name: str, experiment: Experiment | None, records: Sequence[History], lines: Sequence[str]
) -> None:
    """Write a line for each list: when, by which variant, to whose pseudonym, and which items.

    Args:
        log: of shown lists.
        name: that the request named.
        experiment: of that name, if it is one.
        records: of the request.
        lines: JSON of the answers, with their variants.
    """
    for record, line in zip(records, lines, strict=True):
        decoded = json.loads(line)
        share = experiment.shares.get(decoded["variant"]) if experiment else None
        log.entry(
            experiment=name,
            unit=pseudonym(name, record.id),
            variant=decoded["variant"],
            **({} if share is None else {"share": share}),
            ranking=[choice["value"] for choice in decoded["choices"]],
            **({"sources": decoded["sources"]} if "sources" in decoded else {}),
        )
