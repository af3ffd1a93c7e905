"""The command ``similar``: the items nearest to an item."""

from __future__ import annotations

from typing import Annotated

import typer

from ensue.cli import tasks
from ensue.cli.options import Folder, Json, Own
from ensue.errors import SettingError


def similar(
    context: typer.Context,
    folder: Folder,
    item: Annotated[str, typer.Argument(help="id of an item")],
    k: Annotated[int, typer.Option("-k", min=1, help="items to show")] = 10,
    model: Own = "",
    json: Json = False,
) -> None:
    """List the items most similar to an item, by the vectors that a network learned."""
    chosen = tasks.of_folder(folder, context)
    if chosen.name != "next":
        raise SettingError(f"{folder}: is a model of task {chosen.name}; similar is for models of task next")
    from ensue.answers import Answer
    from ensue.cli import show, show_events  # rich tables
    from ensue.tasks.next.predictor import NextPredictor

    predictor = NextPredictor.load(folder)
    answer = Answer(tuple(predictor.similar([item], k)[0]), in_vocabulary=1, events=1, id=item)
    if json:
        show.put_json_line(answer.to_json())
    else:
        show_events.ranked(answer.choices)
