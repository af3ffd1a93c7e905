"""What ``link`` does: rank the posts of a file for a story."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ensue.cli import display, show_ranked, writing
from ensue.cli.options import Reading, require_output
from ensue.cli.reviewing import review_posts
from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.data.posts.documents import is_named_as_document
from ensue.errors import DataError
from ensue.lines import plural
from ensue.tasks.link.predictor import LinkPredictor
from ensue.tasks.link.ranked import SHOWN, labels_of, rank
from ensue.tasks.link.sync import index_of, sync
from ensue.text.encoder import Encoder


def rank_posts(
    articles: Path,
    posts: Path,
    folder: Path | None,
    model: str,
    encoder: str,
    k: int,
    output: Path | None,
    review: bool,
    labels: Path | None,
    by: str,
    overlap: float,
    reading: Reading,
    *,
    unsupervised: bool,
    as_json: bool,
) -> None:
    """Rank posts, show the best ``k``, and write all of them if told where."""
    if output is not None:
        require_output(output, [articles, posts])
    try:
        corpus, understood = read_corpus(posts, articles, columns=reading.roles, **reading.opening)
    except DataError as error:
        if is_named_as_document(posts) and not is_named_as_document(articles):
            raise DataError(f"{error}; the story comes first: ensue link {posts} {articles}") from error
        raise
    for one in understood:
        display.read_report(one)
    predictor = _predictor(corpus, folder, model, encoder, unsupervised=unsupervised)
    with _encoding(predictor):
        found = rank(predictor, corpus.articles, corpus.posts, reviewed=review)
    if review:
        found = review_posts(found, posts, labels, by, overlap)
    if as_json:
        display.print_json(show_ranked.ranked_json(found, k))
    else:
        show_ranked.ranked(found, k)
    if output is not None:
        frame = found.written(flat=not writing.is_listed(output))
        writing.write(frame, output, byte_order_mark=understood[1].byte_order_mark)
        if len(found.posts) > SHOWN:
            display.log(f"sentences are written for the best {SHOWN:,} posts")
        display.log(f"wrote {output}: {plural(len(found.posts), 'post')}")


def _predictor(corpus: Corpus, folder: Path | None, model: str, encoder: str, *, unsupervised: bool) -> LinkPredictor:
    if folder is None:
        network = "bag" if unsupervised else ""
        found = LinkPredictor.untrained(corpus.articles, corpus.posts, model, encoder, network=network)
        if unsupervised:
            with display.epochs() as shown:
                for report in found.learn(corpus.posts):
                    shown(report)
        joining = encoder if model == "best" else ""
        joining = "vectors trained on these texts" if unsupervised else joining
        scores = "lexical scores" + (f" and {joining}" if joining else "")
        labels = labels_of(found, corpus.articles, corpus.posts)
        sure = (
            "no probabilities unless posts are labelled"
            if labels is None
            else (
                f"probabilities by the labels of this file: {plural(labels.story, 'post')} of the story, "
                f"{len(corpus) - labels.story:,} that count as outside it"
            )
        )
        display.log(
            f"no model folder: {encoder if model == 'sbert' else scores}, {sure}; "
            "`ensue fit link` trains weights and probabilities"
        )
        return found
    loaded = LinkPredictor.load(folder)
    if loaded.model is not None:
        with display.progress_bar("posts encoded") as count:
            synced = sync(loaded, corpus.posts, index_of(folder), count)
        counts = f"{plural(synced.new, 'post')} encoded, {synced.held:,} were there, {synced.gone:,} deleted"
        display.log(f"{index_of(folder)}: {counts}")
    return loaded


@contextmanager
def _encoding(predictor: LinkPredictor) -> Iterator[None]:
    """A bar while an encoder reads posts."""
    if not isinstance(predictor.model, Encoder):
        yield
        return
    with display.progress_bar("texts encoded") as predictor.model.follow:
        yield
    predictor.model.follow = None
