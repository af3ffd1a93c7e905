"""Task ``link`` at the command line: articles, and the posts that may be about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensue.answers import LinkAnswer
from ensue.cli import display
from ensue.cli.display import Column
from ensue.cli.options import Reading
from ensue.cli.tasks import Records, stdin_lines
from ensue.data.kinds import is_articles
from ensue.data.posts.corpus import Corpus, columns_of, is_corpus, read_corpus, require_links
from ensue.data.posts.dataset import Posts, PostsReport, read_articles, read_posts
from ensue.data.schema import DataSchema
from ensue.data.table import rows_of
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.records import Post

if TYPE_CHECKING:
    from ensue.answers import LinkExplanation
    from ensue.tasks.link.predictor import LinkPredictor

WRITES_ATTRIBUTIONS = True  # the best matching sentence
NO_ANSWER = "no text, no answer"
COLUMNS: Sequence[Column] = (
    Column("article", attrgetter("value"), "prediction"),
    Column("P", attrgetter("probability"), "probability", is_number=True, optional=True),
    # Scores are shown where no labels were there to calibrate them.
    Column("score", lambda link: None if link.probability is not None else link.score, "score", True, True),
    Column("best matching sentence", lambda link: display.shorten(link.sentence)),
    Column("", attrgetter("sentence"), "sentence"),
)


def read(path: Path, reading: Reading) -> tuple[Corpus, DataSchema]:
    """Return articles and posts and how later files of the model are to be read, after logging how they were read."""
    corpus, reports = read_corpus_and_reports(path, reading)
    return corpus.part(reading.part) if reading.part else corpus, reading.schema_for(columns_of(*reports))


def read_people(path: Path, reading: Reading, users: Sequence[str], column: str) -> tuple[Posts, Posts]:
    """Return the posts of some authors, and all others of the file."""
    posts, report = read_posts(path, columns=reading.roles, every=True, **reading.opening)
    display.read_report(report)
    mine = rows_of(posts.originals()[posts.rows], users, column, path)
    return posts.select(mine), posts.select(~mine)


def read_corpus_and_reports(
    path: Path, reading: Reading, *, warn: bool = True
) -> tuple[Corpus, tuple[PostsReport, PostsReport]]:
    """Return articles and posts, and the reports on both, after logging them."""
    posts, judgements = reading.judged(path)
    corpus, reports = read_corpus(
        posts, reading.articles, judgements=judgements, columns=reading.roles, **reading.opening
    )
    for report in reports:
        display.read_report(report, warn=warn)
    return corpus, reports


def require(data: Corpus, path: Path, predictor: object = None, *, training: bool = False) -> None:
    """Refuse posts of which none is about an article that is there.

    Raises:
        DataError: naming the file.
    """
    require_links(data, str(path))


def read_for_check(path: Path, paths: Sequence[Path], reading: Reading) -> tuple[Any, ...]:
    """Return articles and posts, the reports on both, and other files by name; or a file of either alone.

    Raises:
        SettingError: other files to compare with a file of either alone.
    """
    # With articles it is a corpus; without, the file may hold either articles or posts.
    if reading.articles is not None or reading.judged(path)[1] is not None or is_corpus(path):
        corpus, reports = read_corpus_and_reports(path, reading, warn=False)  # they are among the findings
        return corpus, reports, {str(other): read_corpus_and_reports(other, reading)[0] for other in paths}
    if paths:
        raise SettingError(f"{path}: --compare-to needs the articles too; give them with --articles")
    articles = is_articles(path, reading.roles, **reading.opening)
    data, report = (read_articles if articles else read_posts)(path, columns=reading.roles, **reading.opening)
    display.read_report(report, warn=False)
    return data, report


def training_summary(predictor: LinkPredictor) -> list[str]:
    """Return lines on the metrics of held-out posts, the weights and notes."""
    metadata, lines = predictor.metadata, []
    validation = metadata.validation
    assert validation is not None
    low, high = validation.precision_interval
    lines.append(
        f"on {plural(metadata.validation_posts, 'held-out post')}: MRR {validation.mrr:.3f}; at P = .5 precision "
        f"{validation.precision:.2f} [{low:.2f}, {high:.2f}], recall {validation.recall:.2f} "
        f"[{validation.recall_interval[0]:.2f}, {validation.recall_interval[1]:.2f}]; "
        f"top-1: mean predicted probability {validation.first_said:.2f}, accuracy {validation.first_right:.2f}"
    )
    if predictor.schedule is None:
        lines.append(f"cross-validation: {metadata.held_out}; the final weights use all posts")
    if metadata.alone is not None:
        lines.append(
            f"chose the score {metadata.alone} alone: several scores are not significantly better on held-out posts"
        )
    if metadata.floors is not None:
        alone = ", ".join(f"{name} {mrr:.3f}" for name, mrr in metadata.floors.items())
        lines.append(f"MRR of each score alone: {alone}")
    if predictor.weights:
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in predictor.weights.items())
        neighbours = f", neighbour weight {predictor.neighbour_weight:g}" if predictor.neighbour_weight else ""
        prior = f"cross-post prior strength {predictor.prior_strength:g}{neighbours}"
        lines.append(f"weights fitted on held-out posts: {weights}; {prior}")
    return [*lines, *(f"note: {note}" for note in metadata.notes)]


def read_records(source: str, reading: Reading, predictor: LinkPredictor) -> Records:
    """Return the posts of all rows of a file in any layout, or of stdin: posts as lines, or JSON Lines.

    Raises:
        DataError: naming the file, the line, the field and what to do.
    """
    if source == "-":
        if reading.columns:
            raise SettingError("--columns is for files; on stdin give a post a line, or JSON Lines")
        return Records(_of_stdin())

    posts, report = read_posts(source, columns=reading.roles, every=True, **reading.opening)
    display.read_report(report)
    return Records(posts.records(), len(posts), posts.beside, report.byte_order_mark)


def _of_stdin() -> Iterator[Post]:
    listed = False
    for number, line in stdin_lines():
        text = line.rstrip("\r\n")
        if text.lstrip().startswith("{"):
            listed = True
            yield Post.from_json(text, f"stdin, line {number}")
        elif text.strip() or not listed:
            yield Post(text)


def notes(answer: LinkAnswer) -> list[str]:
    """Return how many words are in the vocabulary."""
    unknown = "" if answer.in_vocabulary else "; the order is arbitrary"
    return [f"in vocabulary: {answer.in_vocabulary} of {plural(answer.events, 'word')}{unknown}"]


def show_attention(explanation: LinkExplanation) -> None:
    """Print each word of the post with its score drop, and the sentences of the article that are closest to it."""
    pairs = zip(explanation.words, explanation.score_drops, strict=False)
    words = "  ".join(f"{word} {display.drop(score_drop, 2)}" for word, score_drop in pairs)
    display.line("score drop of the best article without each word:")
    display.line(f"  {words}")
    for sentence, cosine in explanation.sentences:
        display.line(f"  {cosine:.2f}  {display.shorten(sentence)}")


def read_update(path: Path, reading: Reading, predictor: LinkPredictor) -> Corpus:
    """Return new articles and posts."""
    return read(path, reading)[0]
