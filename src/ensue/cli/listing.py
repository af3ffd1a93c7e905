"""The verb ``models``: what there is to choose from."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ensue import registry
from ensue.cli.options import Json


def models(
    task: Annotated[str, typer.Argument(help="next, classify, suggest or link; all of them unless stated")] = "",
    json: Json = False,
) -> None:
    """List the models of each task, with what each is and where it was published; * is what best chooses from."""
    from ensue.cli import show

    found = {name: registry.models(name) for name in ([task] if task else registry.TASKS)}
    if json:
        show.put_json([asdict(model) for listed in found.values() for model in listed])
        return
    for name, listed in found.items():
        rows = (
            (f"{model.name}{' *' * model.default}", model.about, "counting" if model.counting else model.paper)
            for model in listed
        )
        show.table(("model", "what it is", "paper"), rows, wraps=("what it is", "paper"), title=f"ensue fit {name}")
    show.line("*: what `--model best` is, or chooses from on data held out")
