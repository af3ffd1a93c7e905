"""The command ``update``: new data for a model folder, or the way back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ensue.cli import display, tasks
from ensue.cli.options import ITEMS, TABLES, Folder, Json, Own, Reading, present, reads
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.store.versions import current, kept

if TYPE_CHECKING:
    from ensue.refresh import Refreshed


@reads(*TABLES, "articles", *ITEMS)
def update(
    context: typer.Context,
    folder: Folder,
    new: Annotated[str | None, typer.Argument(help="new data; with --rollback a version")] = None,
    max_drop: Annotated[float, typer.Option(help="largest relative drop of the tested metric")] = 0.05,
    no_test: Annotated[bool, typer.Option("--no-test", help="accept the update without a test")] = False,
    keep_versions: Annotated[int, typer.Option(help="former versions to keep in FOLDER.versions")] = 5,
    rollback: Annotated[bool, typer.Option("--rollback", help="restore the latest or the given version")] = False,
    model: Own = "",
    *,
    json: Json = False,
    reading: Reading,
) -> None:
    """Train a model further on new data, or restore an old version.

    The model is tested before and after on stored examples; a worse one is refused (exit code 1).
    """
    if rollback:
        _roll_back(folder, new, json)
        return
    if new is None and reading.items is None:
        raise SettingError("give new data, as in `ensue update FOLDER new.csv`, or --rollback")
    former = current(folder)  # a wrong folder is found before a long log is read
    source = None if new is None else present(Path(new)) or Path(new)
    command = tasks.commands_of(tasks.of_folder(folder, context))
    reading = reading.like(folder)
    from ensue import refresh  # torch

    # Filled by the reader below, which runs after the folder is locked.
    counts: dict[str, int] = {}

    def read_new(predictor: Any) -> Any:
        data, new_counts = command.read_update(source, reading, predictor)
        counts.update(new_counts)
        return data

    # Items alone are added without a test, as there are no new examples.
    tolerance = None if no_test or source is None else max_drop
    result = refresh.refresh(folder, read_new, max_drop=tolerance, keep=keep_versions, follow=display.training)
    versions = kept(folder)
    if json:
        stored = {"kept": versions} if counts else {}
        display.print_json({"folder": str(folder), **counts, **result.to_dict(), **stored})
    elif counts:
        for tested in result.slices:
            change = f"{tested.before:.3f} -> {tested.after:.3f} ({100 * tested.change:+.1f} %)"
            display.log(f"{tested.label} on {tested.targets:,} {tested.name} examples: {change}")
    else:
        _show_table(result)
    if not result.accepted:
        display.log(f"{folder}: {result.verdict}")
        raise typer.Exit(1)
    restore = f"`ensue update {folder} --rollback` restores version {former}"
    if counts and not json:
        hint = restore if former in versions else "no former version is stored"
        records = ", ".join(plural(count, name.replace("_", " ").removesuffix("s")) for name, count in counts.items())
        display.log(f"{folder}: trained on {records}; version {result.version} is active, {hint}")
        if no_test:
            display.log("warning: the update was not tested (--no-test); score it with `ensue evaluate`")
    if result.warning:
        display.log(f"warning: {result.warning}; {restore}")


def _show_table(result: Refreshed) -> None:
    """Print the metrics of the old and the new model on each slice that the update was tested on."""
    rows = []
    for tested in result.slices:
        metrics = [f"{100 * model[metric]:.2f}" for metric in ("mrr", "hit@20") for model in (tested.old, tested.new)]
        baseline = f"{100 * tested.counting['mrr']:.2f} ({tested.best_baseline})"
        rows.append(
            (tested.name, f"{tested.targets:,}", *metrics[:2], f"{100 * tested.change:+.1f} %", *metrics[2:], baseline)
        )
    heads = ("slice", "targets", "old MRR", "new MRR", "change", "old HR@20", "new HR@20", "best baseline MRR")
    if rows:
        display.table(heads, rows, title="full ranking, metrics in %")
    if result.held:
        display.line(f"newest: {result.held} of the new log, held out from training for this test")
    if result.accepted:
        display.line(result.verdict)


def _roll_back(folder: Path, number: str | None, json: bool) -> None:
    """Restore the version of this number, or the latest."""
    if number is not None and not number.isdecimal():
        raise SettingError(f"--rollback {number}: give the number of a version, or none for the latest")
    from ensue import refresh  # torch

    active, replaced = refresh.roll_back(folder, None if number is None else int(number))
    if json:
        display.print_json({"folder": str(folder), "version": active, "kept": kept(folder)})
    else:
        display.log(f"{folder}: restored version {active}; version {replaced} is still available")
