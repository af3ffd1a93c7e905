"""The command ``link``: posts ranked for a story, and the review of the ranking at a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ensue.cli.options import Json, Reading, present, reads
from ensue.errors import SettingError
from ensue.registry import task_of
from ensue.tasks.link import TASK


@reads("columns", "encoding", "sheet", "max_unpacked", "missing")
def link(
    context: typer.Context,
    articles: Annotated[Path, typer.Argument(callback=present, help="file of the story: one or many articles")],
    posts: Annotated[Path, typer.Argument(callback=present, help="table, JSON Lines, or a collector's export")],
    folder: Annotated[Path | None, typer.Option(help="model folder [default: lexical scores]")] = None,
    model: Annotated[str, typer.Option(help="without --folder: best, tfidf, bm25 or sbert")] = "best",
    encoder: Annotated[str, typer.Option(help="sentence-transformers model to add to the scores")] = "",
    unsupervised: Annotated[
        bool, typer.Option("--unsupervised", help="first train word vectors on these texts")
    ] = False,
    k: Annotated[int, typer.Option("-k", help="posts to show")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write all posts: .csv, .tsv, .jsonl, .parquet")
    ] = None,
    review: Annotated[bool, typer.Option("--review", help="label posts until recall is 90 %")] = False,
    labels: Annotated[Path | None, typer.Option(help="review: file of labels [default: next to POSTS]")] = None,
    annotator: Annotated[str, typer.Option(help="review: name of the annotator [default: user]")] = "",
    overlap: Annotated[float, typer.Option(help="review: fraction that every annotator labels")] = 0.0,
    *,
    json: Json = False,
    **options: Any,
) -> None:
    """Rank posts by relevance to a story, with the best matching sentence of each."""
    reading = Reading(**options)
    if k < 1:
        raise SettingError(f"-k {k}: show at least 1 post")
    if review and json:
        raise SettingError("--review needs a terminal; remove --json")
    if not review and (annotator or overlap or labels is not None):
        raise SettingError("--labels, --annotator and --overlap need --review")
    if not 0 <= overlap <= 1:
        raise SettingError(f"--overlap {overlap:g}: give a fraction of the posts, from 0 to 1")
    if folder is not None and (model != "best" or encoder):
        raise SettingError("--folder holds a model and its encoder; remove --model and --encoder")
    if unsupervised and (folder is not None or model != "best" or encoder):
        raise SettingError("--unsupervised is for best without --folder or --encoder; remove them")
    if folder is not None and task_of(folder) != TASK.name:
        raise SettingError(f"{folder}: not a model of task link; give a folder written by `ensue fit link`")
    from ensue.cli.ranking import rank_posts  # imports torch

    asked = (review, labels, annotator.strip(), overlap)
    rank_posts(
        articles, posts, folder, model, encoder, k, output, *asked, reading, unsupervised=unsupervised, as_json=json
    )
