"""Task ``classify`` at the command line: labelled texts, and texts that want a label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from ensue.answers import TextAnswer, TextExplanation
from ensue.cli import display
from ensue.cli.display import ATTRIBUTIONS, Column
from ensue.cli.options import Reading
from ensue.cli.tasks import Records, stdin_lines
from ensue.data.files import open_file
from ensue.data.kinds import is_plain
from ensue.data.posts.platforms import beside
from ensue.data.schema import DataSchema, ReadReport
from ensue.data.table import rows_of
from ensue.data.texts import Texts, read_texts
from ensue.data.texts.labels import require_known
from ensue.errors import DataError, SettingError
from ensue.lines import plural, printable
from ensue.records import Text
from ensue.tasks.classify.dataset import require_sets

if TYPE_CHECKING:
    from ensue.tasks.classify.predictor import ClassifyPredictor

WRITES_ATTRIBUTIONS = False
NO_ANSWER = "no words, no answer"
COLUMNS: Sequence[Column] = (
    Column("label", attrgetter("value"), "prediction"),
    Column("probability", attrgetter("score"), "probability", is_number=True),
    ATTRIBUTIONS,
)


def read(path: Path, reading: Reading) -> tuple[Texts, DataSchema]:
    """Return the texts of a file and how later files of the model are to be read, after logging how it was read."""
    texts, report = _read(path, reading)
    return texts, reading.schema_for(report.columns)


def read_people(path: Path, reading: Reading, users: Sequence[str], column: str) -> tuple[Texts, Texts]:
    """Return the texts of some authors, and all others of the file."""
    texts, _ = _read(path, reading, unlabelled=True)
    mine = rows_of(texts.originals(), users, column, path)
    return texts.select(mine), texts.select(~mine)


def _read(path: Path, reading: Reading, *, unlabelled: bool = False, warn: bool = True) -> tuple[Texts, ReadReport]:
    texts, report = read_texts(
        path,
        columns=reading.roles,
        phrases=reading.phrases,
        unlabelled=unlabelled,
        part=reading.part,
        **reading.opening,
    )
    display.read_report(report, warn=warn)
    return texts, report


def require(data: Texts, path: Path, predictor: ClassifyPredictor | None = None, *, training: bool = False) -> None:
    """Refuse texts without labels, for training texts of one label, and for a model texts of another kind.

    Raises:
        DataError: naming the file.
    """
    if predictor is not None:
        _require_paired(data, path, predictor)
    if data.labels is None:
        raise DataError(f"{path}: the texts have no labels; name their column with --columns label=…")
    distinct = data.distinct_labels()
    if training and len(distinct) < 2:
        label = f"every text has the label {distinct[0]!r}" if distinct else "no text has a label"
        raise DataError(f"{path}: {label}; give texts of at least two labels")
    if predictor is not None:
        require_sets(data, predictor.metadata.sets, str(path))
        # `Good` and `good` are one label: the spelling of the training data is used.
        spelled, warnings = data.match_spellings(predictor.labels)
        require_known(spelled.flat_labels, predictor.labels, str(path))
        for sentence in warnings:
            display.log(f"warning: {path}: {sentence}")


def _require_paired(data: Texts, path: Path, predictor: ClassifyPredictor) -> None:
    if data.paired != predictor.metadata.paired:
        kinds = ("pairs", "single texts") if data.paired else ("single texts", "pairs")
        raise DataError(f"{path}: holds {kinds[0]}, but the model was trained on {kinds[1]}; give {kinds[1]}")


def read_for_check(path: Path, paths: Sequence[Path], reading: Reading) -> tuple[Texts, ReadReport, dict[str, Texts]]:
    """Return the texts of a file, how they were read, and those of other files by name."""
    texts, report = _read(path, reading, warn=False)  # they are among the findings
    return texts, report, {str(other): _read(other, reading)[0] for other in paths}


def training_summary(predictor: ClassifyPredictor) -> list[str]:
    """Return the validation accuracy and calibration error of each model, and notes."""
    accuracies, errors = predictor.metadata.validation_accuracy, predictor.metadata.calibration_error
    rows = (f"{name} {100 * accuracies[name]:.1f} % (ECE {100 * errors[name]:.1f} %)" for name in accuracies)
    return [f"validation accuracy: {', '.join(rows)}", *(f"note: {note}" for note in predictor.metadata.notes)]


def read_records(source: str, reading: Reading, predictor: ClassifyPredictor) -> Records:
    """Return the texts of a file, or of stdin: plain lines, or records as JSON Lines or a table.

    Raises:
        DataError: naming the file, the line, the field and what to do.
    """
    paired = bool(predictor.metadata.paired)
    if source == "-":
        if reading.columns or reading.phrases:
            raise SettingError("--columns and --phrases are for files; on stdin give a text a line, or JSON Lines")
        return Records(_of_lines(stdin_lines(), "stdin", paired))
    # A file of plain lines: every line is a text, an empty one too, so that answers keep their lines.
    if not reading.columns and not reading.phrases and is_plain(source, **reading.opening):
        display.log(f"{source}: one text a line")
        content = open_file(Path(source), **reading.opening)
        records = list(_of_lines(content.lines(), source, paired))
        lines = pl.DataFrame({"text": ["\t".join(record.texts) for record in records]}, schema={"text": pl.String})
        return Records(iter(records), len(records), partial(beside, lambda: lines), content.byte_order_mark)
    texts, report = _read(Path(source), reading, unlabelled=True)
    _require_paired(texts, Path(source), predictor)
    return Records(texts.records(), len(texts), partial(beside, texts.originals), report.byte_order_mark)


def _of_lines(lines: Iterable[tuple[int, str]], source: str, paired: bool) -> Iterator[Text]:
    """JSON Lines if the first line that is not empty opens a bracket; else every line is a text, an empty one too."""
    numbered = iter(lines)
    leading = []
    for number, line in numbered:
        leading.append((number, line))
        if line.strip():
            break
    is_json = bool(leading) and leading[-1][1].lstrip().startswith("{")
    for number, line in chain(leading, numbered):
        text = line.rstrip("\r\n")
        location = f"{source}, line {number}"
        if not is_json:
            yield _plain(text, location, paired)
        elif text.strip():
            record = Text.from_json(text, location)
            if (len(record.texts) == 2) != paired:
                kind = "pairs" if paired else "single texts"
                raise DataError(f"{location}: {plural(len(record.texts), 'text')}, but the model was trained on {kind}")
            yield record


def _plain(line: str, location: str, paired: bool) -> Text:
    if not paired:
        return Text((line,))
    texts = line.split("\t") if line else ["", ""]
    if len(texts) != 2:
        raise DataError(
            f"{location}: {plural(len(texts), 'text')}, the model was trained on pairs; put a tab between two texts"
        )
    return Text(tuple(texts))


def notes(answer: TextAnswer) -> list[str]:
    """Return how many words are in the vocabulary, and the deletion test of the first label."""
    lines = [f"in vocabulary: {answer.in_vocabulary} of {plural(answer.events, 'word')}"]
    if answer.labels is not None:
        lines.insert(0, f"labels: {', '.join(answer.labels) or 'none of these'}")
    if (test := answer.deletion) is not None:
        words = plural(test.words, "word")
        lines.append(
            f"deletion test of {answer.choices[0].value}: score drop {display.drop(test.score_drop)} without the "
            f"{words} of highest weight, {display.drop(test.random)} without {words} at random ({test.draws} draws)"
        )
        if test.score_drop <= test.random:
            lines.append("random words matter as much: these weights do not explain the answer")
    return lines


def show_attention(explanation: TextExplanation) -> None:
    """Print each word with its weight, passage by passage."""
    from rich.text import Text as Styled

    from ensue.figures.texts import name_of  # plotly

    display.line("attention weights (not causes); the weights of a passage sum to 1")
    for index, passage in enumerate(explanation.passages):
        display.line(f"{name_of(explanation, index)}: {passage.weight:.2f}")
        strongest = max(passage.weights, default=0.0)
        words = (
            Styled.assemble((printable(word), "bold" if weight == strongest > 0 else ""), f" {weight:.2f}")
            for word, weight in zip(passage.words, passage.weights, strict=True)
        )
        display.console().print(Styled.assemble("  ", Styled("  ").join(words)))


def read_update(path: Path, reading: Reading, predictor: ClassifyPredictor) -> Texts:
    """Return new texts that fit the model."""
    data, _ = read(path, reading)
    require(data, path, predictor)
    return data
