"""Task ``link`` at the command line: articles, and the posts that may be about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensue.answers import LinkAnswer
from ensue.cli import display
from ensue.cli.display import Column
from ensue.cli.options import Reading
from ensue.cli.tasks import Records, stdin_lines
from ensue.data.kinds import is_articles
from ensue.data.originals import rows_of
from ensue.data.posts.corpus import Corpus, columns_of, is_corpus, read_corpus, require_links
from ensue.data.posts.dataset import Posts, PostsReport, read_articles, read_posts
from ensue.data.schema import DataSchema
from ensue.errors import SettingError
from ensue.lines import plural
from ensue.records import Post
from ensue.tasks.link.check import AloneFindings, LinkFindings, check_alone, check_links, leaks_between

if TYPE_CHECKING:
    from ensue.answers import LinkExplanation
    from ensue.tasks.link.predictor import LinkPredictor

WRITES_ATTRIBUTIONS = True  # the best matching sentence
NO_ANSWER = "no text, no answer"


def read(path: Path, reading: Reading) -> Corpus:
    """Return articles and posts, after logging how they were read."""
    corpus, _ = _read(path, reading)
    return corpus.part(reading.part) if reading.part else corpus


def read_for_training(path: Path, reading: Reading) -> tuple[Corpus, DataSchema]:
    """Return articles and posts, and how later files of the model are to be read."""
    corpus, reports = _read(path, reading)
    data = corpus.part(reading.part) if reading.part else corpus
    return data, reading.schema_for(columns_of(*reports))


def read_people(path: Path, reading: Reading, users: Sequence[str], column: str) -> tuple[Posts, Posts]:
    """Return the posts of some authors, and all others of the file."""
    posts, report = read_posts(path, columns=reading.roles, every=True, **reading.opening)
    display.read_report(report)
    mine = rows_of(posts.originals()[posts.rows], users, column, path)
    return posts.select(mine), posts.select(~mine)


def _read(path: Path, reading: Reading, *, warn: bool = True) -> tuple[Corpus, tuple[PostsReport, PostsReport]]:
    posts, judgements = reading.judged(path)
    corpus, reports = read_corpus(
        posts, reading.articles, judgements=judgements, columns=reading.roles, **reading.opening
    )
    for report in reports:
        display.read_report(report, warn=warn)
    return corpus, reports


def require(data: Corpus, path: Path, *, training: bool) -> None:
    """Refuse posts of which none is about an article that is there, and for learning a single article.

    Raises:
        DataError: naming the file.
    """
    require_links(data, str(path))


def require_like(data: Corpus, path: Path, predictor: LinkPredictor) -> None:
    """Refuse posts of which none is about an article that is there.

    Raises:
        DataError: naming the file.
    """
    require(data, path, training=False)


def check(path: Path, others: Sequence[Path], reading: Reading, json: bool) -> None:
    """Show how articles and posts were read, and warnings about them."""
    if reading.articles is None and reading.judged(path)[1] is None and not is_corpus(path):
        _check_alone(path, others, reading, json)
        return
    corpus, reports = _read(path, reading, warn=False)  # they are among the findings
    findings = check_links(corpus, reports, {str(other): _read(other, reading)[0] for other in others})
    display.print_json(asdict(findings)) if json else _show_findings(findings)


def _check_alone(path: Path, others: Sequence[Path], reading: Reading, json: bool) -> None:
    """Show how posts without articles, or articles without posts, were read."""
    if others:
        raise SettingError(f"{path}: --compare-to needs the articles too; give them with --articles")
    articles = is_articles(path, reading.roles, **reading.opening)
    data, report = (read_articles if articles else read_posts)(path, columns=reading.roles, **reading.opening)
    display.read_report(report, warn=False)
    findings = check_alone(data, report)
    display.print_json(asdict(findings)) if json else _show_findings_alone(findings)


def _show_findings(found: LinkFindings) -> None:
    display.line(
        f"{plural(found.articles, 'article')}, words: median {found.median_words:,}, max {found.longest_words:,}; "
        f"{plural(found.posts, 'post')}, words: median {found.median_post_words:,}"
    )
    display.line(
        f"{plural(found.links, 'link')} between {plural(found.linked_posts, 'post')} and "
        f"{plural(found.linked_articles, 'article')}, at most {found.most_posts:,} per article"
    )
    if found.parts:
        display.line(f"parts: {', '.join(f'{name or chr(45)} {count:,}' for name, count in found.parts.items())}")
    display.line(f"near copies of an earlier post: {found.near_copies:,}; copies of a headline: {found.headlines:,}")
    rows = ((row.text, ", ".join(row.about)) for row in found.rows)
    display.table(("post", "about"), rows, wraps=("post", "about"), title="first rows")
    for name, leak in found.splits.items():
        display.line(
            f"  {name}: {plural(leak.other_posts, 'post')}, {leak.on_shared:,} about an article of both "
            f"files, {plural(leak.copies, 'near copy', 'near copies')}"
        )
    display.problems(found.warnings)


def _show_findings_alone(found: AloneFindings) -> None:
    display.line(
        f"{plural(found.texts, found.kind.removesuffix('s'))}, words: median {found.median_words:,}, max "
        f"{found.longest_words:,}; near copies of an earlier one: {found.near_copies:,}"
    )
    rows = ((row.text, row.id) for row in found.rows)
    display.table((found.kind.removesuffix("s"), "id"), rows, wraps=("post", "article"), title="first rows")
    display.problems(found.warnings)


def leaks(train: Corpus, other: Corpus, name: str) -> Iterator[str]:
    """Return sentences on articles and near copies of both files."""
    return leaks_between(train, other, name)


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


def scoring(protocol: str, unknown: str, cutoffs: str) -> dict[str, Any]:
    """Return nothing: there is one protocol, and no cutoff."""
    return {}


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


def columns(answers: Sequence[LinkAnswer]) -> Sequence[Column]:
    """Return the columns of articles: probabilities where the model has any, else scores."""
    calibrated = any(choice.probability is not None for answer in answers for choice in answer.choices)
    score = Column("score", attrgetter("score"), "score", is_number=True)
    probability = Column("P", attrgetter("probability"), "probability", is_number=True)
    return (
        Column("article", attrgetter("value"), "prediction"),
        probability if calibrated else score,
        Column("best matching sentence", lambda choice: display.shorten(choice.sentence)),
        Column("", attrgetter("sentence"), "sentence"),
    )


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


def read_update(path: Path, reading: Reading, predictor: LinkPredictor) -> tuple[Corpus, dict[str, int]]:
    """Return new articles and posts, and their numbers."""
    data = read(path, reading)
    return data, {"new_articles": len(predictor.article_index.joined(data.articles)[2]), "posts": len(data)}
