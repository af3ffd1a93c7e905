"""What ``update`` does for texts, queries and links: learn on top of a folder, and show what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from ensue.lines import plural


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
    from ensue.cli import show
    from ensue.refresh import refresh
    from ensue.store.versions import current, kept

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
            f"`ensue update {folder} --rollback` puts version {standing} back" if standing in there else "none is kept"
        )
        parts = ", ".join(plural(count, name.replace("_", " ").removesuffix("s")) for name, count in told.items())
        show.remark(f"{folder}: learned {parts}; version {found.version} stands, {back}")
        if not found.slices:
            why = "as told" if max_drop is None else "the folder keeps no examples; fit anew to have some"
            show.remark(f"note: it was not tested ({why}); `ensue evaluate` tells what it is worth")
