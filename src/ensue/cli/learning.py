"""What ``update`` does for texts, queries and links: learn on top of a folder, and show what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from ensue.cli import show
from ensue.cli.item_tables import with_items
from ensue.cli.options import Reading
from ensue.data.histories import Histories
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.refresh import Refreshed, refresh
from ensue.refresh import roll_back as restore
from ensue.refresh.next_event import AT
from ensue.store.versions import current, kept


def learn(
    folder: Path,
    read: Callable[[Any], Any],
    max_drop: float | None,
    keep: int,
    json: bool,
    counts: Callable[[Any, Any], dict[str, int]],
) -> None:
    """Learn texts, queries or links unless that makes the model worse.

    Args:
        folder: a model folder.
        read: what is new, for the predictor that stands.
        max_drop: the largest fall that is let pass; ``None`` for no test.
        keep: former versions kept.
        json: whether JSON is printed.
        counts: how many of what there are, of the data and the predictor that stands.

    Raises:
        Exit: with code 1, refused.
    """
    told: dict[str, int] = {}

    def look(predictor: Any) -> Any:
        data = read(predictor)
        told.update(counts(data, predictor))
        return data

    standing = current(folder)
    found = refresh(folder, look, max_drop=max_drop, keep=keep)
    there = kept(folder)
    if json:
        show.put_json({"folder": str(folder), **told, **found.to_dict(), "kept": there})
    else:
        for part in found.slices:
            figures = f"{part.before:.3f} -> {part.after:.3f} ({100 * part.change:+.1f} %)"
            show.remark(f"{part.label} on {part.targets:,} {part.name} examples: {figures}")
    if not found.accepted:
        show.remark(f"{folder}: {found.verdict}")
        raise typer.Exit(1)
    if not json:
        back = (
            f"`ensue update {folder} --rollback` restores version {standing}"
            if standing in there
            else "no former version is stored"
        )
        parts = ", ".join(plural(count, name.replace("_", " ").removesuffix("s")) for name, count in told.items())
        show.remark(f"{folder}: trained on {parts}; version {found.version} is active, {back}")
        if max_drop is None:
            show.remark("warning: the update was not tested (--no-test); score it with `ensue evaluate`")
    _warn(folder, found, standing)


def _warn(folder: Path, found: Refreshed, former: int) -> None:
    """Print what the test of an update that took place could not look at, and the way back."""
    if found.warning:
        back = f"`ensue update {folder} --rollback` restores version {former}"
        show.remark(f"warning: {found.warning}; {back}")


def learn_histories(
    folder: Path, read: Callable[[Any], Histories], max_drop: float | None, keep: int, json: bool
) -> None:
    """Learn histories unless that makes the model worse; the pass has a bar, and the test a table.

    Args:
        folder: a model folder.
        read: returns what is new, for the predictor that the folder holds.
        max_drop: the largest fall that is let pass; ``None`` for no test.
        keep: former versions kept.
        json: whether JSON is printed.

    Raises:
        Exit: with code 1, refused.
    """
    standing = current(folder)
    found = refresh(folder, read, max_drop=max_drop, keep=keep, follow=show.training)
    show.put_json({"folder": str(folder), **found.to_dict()}) if json else _show_refreshed(found)
    if not found.accepted:
        show.remark(f"{folder}: {found.verdict}")
        raise typer.Exit(1)
    _warn(folder, found, standing)


def add_items(folder: Path, reading: Reading, keep: int, json: bool) -> None:
    """Add a table of items to a model: each can be an answer at once."""

    def read(predictor: Any) -> Histories:
        known = predictor.known_items
        return with_items(Histories.of([]), reading, None if known is None else known.items)

    learn_histories(folder, read, None, keep, json)


def roll_back(folder: Path, number: str | None, json: bool) -> None:
    """Restore a former version of a model, the latest unless its number is given."""
    if number is not None and not number.isdecimal():
        raise SettingError(f"--rollback {number}: give the number of a version, or none for the latest")
    stands, replaced = restore(folder, None if number is None else int(number))
    if json:
        show.put_json({"folder": str(folder), "version": stands, "kept": kept(folder)})
    else:
        show.remark(f"{folder}: restored version {stands}; version {replaced} is still available")


def _show_refreshed(found: Refreshed) -> None:
    """Old model beside new on the slices an update was tested on."""
    rows = []
    for part in found.slices:
        hits = [f"{100 * figures[f'hit@{AT}']:.2f}" for figures in (part.old, part.new)]
        ranked = [f"{100 * figures['mrr']:.2f}" for figures in (part.old, part.new)]
        counted = f"{100 * part.counting['mrr']:.2f} ({part.best_baseline})"
        rows.append((part.name, f"{part.targets:,}", *ranked, f"{100 * part.change:+.1f} %", *hits, counted))
    heads = ("slice", "targets", "old MRR", "new MRR", "change", f"old HR@{AT}", f"new HR@{AT}", "best baseline MRR")
    if rows:
        show.table(heads, rows, title="full ranking, metrics in %")
    if found.held:
        show.line(f"newest: {found.held} of the new log, held out from training for this test")
    if found.accepted:
        show.line(found.verdict)
