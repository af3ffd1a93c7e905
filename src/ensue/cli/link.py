"""The command ``link``: posts ranked for a story, and the review of the ranking at a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ensue.cli import display
from ensue.cli.options import Json, Reading, present, reads, require_output
from ensue.errors import DataError, SettingError
from ensue.lines import plural
from ensue.registry import task_of
from ensue.tasks import LINK

if TYPE_CHECKING:
    from ensue.data.posts.corpus import Corpus
    from ensue.data.posts.dataset import PostsReport
    from ensue.tasks.link.predictor import LinkPredictor


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
    reading: Reading,
) -> None:
    """Rank posts by relevance to a story, with the best matching sentence of each."""
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
    if folder is not None and task_of(folder) != LINK.name:
        raise SettingError(f"{folder}: not a model of task link; give a folder written by `ensue fit link`")
    if output is not None:
        require_output(output, [articles, posts])
    corpus, reports = _read(articles, posts, reading)
    from ensue.cli import ranking, writing  # torch
    from ensue.tasks.link import corpus_ranking

    predictor = _predictor(folder, corpus, model, encoder, unsupervised=unsupervised)
    with _progress(predictor):
        result = corpus_ranking.rank(predictor, corpus.articles, corpus.posts, reviewed=review)
    if review:
        result = ranking.review_posts(result, posts, labels, annotator.strip(), overlap)
    if json:
        display.print_json(ranking.ranked_json(result, k))
    else:
        ranking.show(result, k)
    if output is not None:
        frame = result.written(flat=not writing.is_listed(output))
        writing.write(frame, output, byte_order_mark=reports[1].byte_order_mark)
        if len(result.posts) > corpus_ranking.MAX_QUOTED:
            display.log(f"sentences are written for the best {corpus_ranking.MAX_QUOTED:,} posts")
        display.log(f"wrote {output}: {plural(len(result.posts), 'post')}")


def _read(articles: Path, posts: Path, reading: Reading) -> tuple[Corpus, tuple[PostsReport, PostsReport]]:
    """Return the articles and the posts, after logging how they were read."""
    from ensue.cli.tasks.link import read_corpus_and_reports  # polars
    from ensue.data.posts.documents import is_named_as_document

    try:
        return read_corpus_and_reports(posts, replace(reading, articles=articles))
    except DataError as error:
        # Two files of one kind of document are easily given in the wrong order.
        if is_named_as_document(posts) and not is_named_as_document(articles):
            raise DataError(f"{error}; the story comes first: ensue link {posts} {articles}") from error
        raise


def _predictor(folder: Path | None, corpus: Corpus, model: str, encoder: str, *, unsupervised: bool) -> LinkPredictor:
    """Return the predictor of a folder, or one of lexical scores; log what it scores with."""
    from ensue.tasks.link import corpus_ranking, sync
    from ensue.tasks.link.predictor import LinkPredictor

    if folder is not None:
        predictor = LinkPredictor.load(folder)
        if predictor.model is not None:
            with display.progress_bar("posts encoded") as progress:
                synced = sync.sync(predictor, corpus.posts, folder, progress)
            counts = f"{plural(synced.new, 'post')} encoded, {synced.stored:,} were there, {synced.deleted:,} deleted"
            display.log(f"{sync.index_of(folder)}: {counts}")
        return predictor
    network = "bag" if unsupervised else ""
    predictor = LinkPredictor.untrained(corpus.articles, corpus.posts, model, encoder, network=network)
    if unsupervised:
        display.training(predictor.learn(corpus.posts))
    # The message names every score, because there is no folder whose card could be read.
    dense = "vectors trained on these texts" if unsupervised else encoder if model == "best" else ""
    scores = encoder if model == "sbert" else "lexical scores" + (f" and {dense}" if dense else "")
    labels = corpus_ranking.labels_of(predictor, corpus.articles, corpus.posts)
    probabilities = "no probabilities unless posts are labelled"
    if labels is not None:
        probabilities = (
            f"probabilities by the labels of this file: {plural(labels.story, 'post')} of the story, "
            f"{len(corpus) - labels.story:,} that count as outside it"
        )
    hint = "`ensue fit link` trains weights and probabilities"
    display.log(f"no model folder: {scores}, {probabilities}; {hint}")
    return predictor


@contextmanager
def _progress(predictor: LinkPredictor) -> Iterator[None]:
    """Show a bar while an encoder reads posts."""
    from ensue.text.encoder import Encoder

    # Lexical scores take milliseconds, and networks show a bar of their own.
    if not isinstance(predictor.model, Encoder):
        yield
        return
    with display.progress_bar("texts encoded") as predictor.model.follow:
        yield
    predictor.model.follow = None
