"""The verb ``link``: posts ranked for a story, with a review at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ensue.cli.options import Json, Reading, present, reads
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.registry import task_of
from ensue.tasks.link import TASK

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ensue.data.posts import Corpus
    from ensue.tasks.link.predictor import LinkPredictor
    from ensue.tasks.link.ranked import RankedCorpus
    from ensue.tasks.link.review.labels import Labels


@reads("columns", "encoding", "sheet", "max_unpacked")
def link(
    context: typer.Context,
    articles: Annotated[Path, typer.Argument(callback=present, help="the story: a file of one or many articles")],
    posts: Annotated[
        Path, typer.Argument(callback=present, help="the posts: a table, JSON Lines, or what a collector wrote")
    ],
    folder: Annotated[Path | None, typer.Option(help="a model folder; without one, lexical scores")] = None,
    model: Annotated[str, typer.Option(help="without a folder: best, tfidf, bm25 or sbert")] = "best",
    encoder: Annotated[
        str, typer.Option(help="without a folder: an installed sentence-transformers model that is asked too")
    ] = "",
    k: Annotated[int, typer.Option("-k", help="posts shown")] = 10,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="write all posts here, best first: .csv, .tsv, .jsonl, .parquet"),
    ] = None,
    review: Annotated[bool, typer.Option("--review", help="ask for labels until 90 % of the posts are found")] = False,
    labels: Annotated[
        Path | None, typer.Option(help="of a review: the file of labels; beside the posts if none")
    ] = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Rank posts for a story of one or many articles, with the sentence that each matches and what repeats it."""
    if k < 1:
        raise SettingError(f"-k {k}: show at least 1 post")
    if review and json:
        raise SettingError("--review asks at the terminal; leave --json out")
    if folder is not None and (model != "best" or encoder):
        raise SettingError("--model, --encoder and --folder: the folder has its own; give the folder alone")
    if folder is not None and task_of(folder) != TASK.name:
        raise SettingError(f"{folder}: this model answers another question; name a folder made by `ensue fit link`")
    from ensue.cli import show, show_links, writing
    from ensue.data.posts import read_corpus
    from ensue.tasks.link.ranked import SHOWN, rank

    if output is not None:
        writing.require_place(output, [articles, posts])
    reading = replace(reading, articles=articles)
    corpus, understood = read_corpus(posts, reading.articles, columns=reading.roles, **reading.opening)
    for one in understood:
        show.read_report(one)
    predictor = _predictor(corpus, folder, model, encoder)
    with _encoding(predictor):
        found = rank(predictor, corpus.articles, corpus.posts)
    if review:
        found = _review(found, posts, labels)
    if json:
        show.put_json(show_links.ranked_json(found, k))
    else:
        show_links.ranked(found, k)
    if output is not None:
        frame = found.written(flat=not writing.is_listed(output))
        writing.write(frame, output, byte_order_mark=understood[1].byte_order_mark)
        if len(found.posts) > SHOWN:
            show.remark(f"sentences stand beside the best {SHOWN:,} posts")
        show.remark(f"wrote {output}: {plural(len(found.posts), 'post')}")


def _predictor(corpus: Corpus, folder: Path | None, model: str, encoder: str) -> LinkPredictor:
    from ensue.cli import show
    from ensue.tasks.link.predictor import LinkPredictor
    from ensue.tasks.link.sync import index_of, sync

    if folder is None:
        found = LinkPredictor.untrained(corpus.articles, corpus.posts, model, encoder)
        scores = "lexical scores" + (f" and {encoder}" if encoder and model == "best" else "")
        show.remark(
            f"no model folder: {encoder if model == 'sbert' else scores}, no probabilities unless posts are labelled; "
            "`ensue fit link` learns weights and probabilities"
        )
        return found
    loaded = LinkPredictor.load(folder)
    if loaded.model is not None:
        with show.counted("posts encoded") as count:
            synced = sync(loaded, corpus.posts, index_of(folder), count)
        counts = f"{plural(synced.new, 'post')} encoded, {synced.held:,} were there, {synced.gone:,} deleted"
        show.remark(f"{index_of(folder)}: {counts}")
    return loaded


@contextmanager
def _encoding(predictor: LinkPredictor) -> Iterator[None]:
    """A bar while an encoder reads posts."""
    from ensue.cli import show
    from ensue.text.encoder import Encoder

    if not isinstance(predictor.model, Encoder):
        yield
        return
    with show.counted("texts encoded") as predictor.model.follow:
        yield
    predictor.model.follow = None


def _review(found: RankedCorpus, posts: Path, place: Path | None) -> RankedCorpus:
    """Ask, a post at a time, until the target is reached or the reader stops; every answer is kept at once."""
    from ensue.cli import show
    from ensue.tasks.link.review.labels import Labels, labels_file
    from ensue.tasks.link.review.review import review

    kept = Labels(place or labels_file(posts, found.articles))
    show.remark(f"labels: {kept.path}{f' ({len(kept.given):,} so far)' if kept.given else ''}")
    show.remark("y: belongs to the story, n: does not, q: stop; the same command goes on")
    progress = None
    start, rows = found.review_start()
    for progress in review(
        start, rows, lambda asked: _ask(found, asked, kept), labels=kept.of(found.posts), looks=kept.looks
    ):
        if progress.left_at_most is not None and progress.labelled < progress.posts:
            kept.look()
        show.remark(progress.sentence)
    if progress is not None and not progress.reached:
        show.remark("stopped before the target; the same command goes on")
    return found.reviewed(start, rows, *kept.of(found.posts))


def _ask(found: RankedCorpus, asked: npt.NDArray[np.int64], kept: Labels) -> npt.NDArray[np.bool_]:
    import numpy as np

    from ensue.cli import show_links

    given: list[bool] = []
    for row in asked.tolist():
        show_links.asked(found, row)
        while (word := (sys.stdin.readline() or "q").strip().lower()) not in ("y", "yes", "n", "no", "q", "quit"):
            show_links.again()
        if word[0] == "q":
            break
        given.append(word[0] == "y")
        kept.add(found.posts.ids[row], given[-1])
    return np.array(given, bool)
