"""What ``fit`` does: read, train or count, and write the folder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace as replaced
from pathlib import Path

import typer

from ensue.cli import show
from ensue.cli.command import command_of
from ensue.cli.options import Reading
from ensue.errors import ModelFolderError
from ensue.evaluation.cards import describe
from ensue.interruption import Interruption, signals_heard, whole_steps
from ensue.predictor import AnyPredictor
from ensue.store import versions
from ensue.store.folder import require_writable
from ensue.store.lock import only_writer
from ensue.store.swap import sweep
from ensue.tasks.base import Task
from ensue.training.distributed import ranks


def train(
    task: Task,
    predictor: AnyPredictor,
    data: Path,
    valid: Path | None,
    output: Path,
    reading: Reading,
    *,
    resume: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Let a predictor learn the file ``data``, and write its folder ``output``."""
    command = command_of(task)
    require_writable(output)
    _require_free(output, replace)
    place = output.resolve()
    checkpoint = place.with_name(f".{place.name}.checkpoint")
    with _until_stopped(checkpoint, resume), ranks() as (rank, _), only_writer(output) if rank == 0 else nullcontext():
        if rank == 0:
            sweep(output)
            _require_free(output, replace)  # another may have been saved before the lock was ours
        known, schema = command.read_for_training(data, reading)
        command.require(known, data, learn=True)
        held = command.read(valid, replaced(reading, schema=schema)) if valid else None
        show.remark(f"training {predictor.model_name} (task {task.name}), seed {predictor.seed}")
        reports = predictor.fit(known, held, checkpoint=checkpoint, resume=resume)
        with show.epochs() if rank == 0 else nullcontext(lambda report: None) as shown:
            for report in reports:
                shown(report)
        if rank == 0:
            predictor.metadata.reading = schema.to_dict()
            with whole_steps():  # a signal waits until the folder is written, and then asks for nothing more
                _save(predictor, output)
            _finish(predictor, output, checkpoint, command.told(predictor), as_json=as_json)


def _require_free(output: Path, replace: bool) -> None:
    """Refuse to train over a model, unless told to.

    Raises:
        ModelFolderError: one stands there.
    """
    if not replace and (output / "settings.json").exists():
        raise ModelFolderError(f"{output}: holds a model; --replace replaces it and keeps it as a version")


def _save(predictor: AnyPredictor, output: Path) -> None:
    """Write the folder; a model that stands there is kept beside it first."""
    if (output / "settings.json").exists():
        versions.keep(output)
        predictor.metadata.version = versions.next_number(output)
    predictor.save(output, describe(predictor))


def _kept(checkpoint: Path) -> list[Path]:
    """What a training has written to go on from."""
    return [path for path in checkpoint.parent.glob(".*") if path.name.startswith(checkpoint.name)]


@contextmanager
def _until_stopped(checkpoint: Path, resume: bool) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end the training after its step and a checkpoint; what is said of that is true."""
    begun = time.time()
    try:
        with signals_heard():
            yield
    except KeyboardInterrupt as stop:
        if os.environ.get("RANK", "0") == "0":
            whole = [path for path in _kept(checkpoint) if path.suffix != ".tmp"]
            there = any(resume or path.stat().st_mtime > begun - 1 for path in whole)
            with suppress(OSError):  # the terminal has gone
                then = "the same command with --resume continues from the last checkpoint"
                show.remark(f"stopped; {then}" if there else "stopped before the first checkpoint; nothing is stored")
        raise typer.Exit(128 + (stop.number if isinstance(stop, Interruption) else signal.SIGINT)) from None


def _finish(predictor: AnyPredictor, output: Path, checkpoint: Path, told: list[str], *, as_json: bool) -> None:
    """Checkpoints go; what was learned is told, and where it lies."""
    for done in _kept(checkpoint):
        done.unlink(missing_ok=True)
    for line in told:
        show.remark(line)
    if not as_json:
        show.remark(f"saved {output}")
        return
    summary = predictor.summary()
    summary["facts"].pop("examples", None)  # records belong in the folder, and not in what may be a log
    show.put_json({"folder": str(output), **summary})
