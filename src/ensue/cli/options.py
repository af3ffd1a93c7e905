"""Arguments and options that several commands share."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from io import FileIO
from pathlib import Path
from shutil import disk_usage
from stat import S_ISFIFO
from typing import IO, Annotated, get_type_hints

import typer

from ensue.data.file_bytes import TEMPORARY, Opening, is_pattern, memory_at_hand, open_input, temporary_folder
from ensue.data.schema import NO_SCHEMA, DataSchema
from ensue.errors import DataError, SettingError
from ensue.registry import add_named, require_task
from ensue.settings import parse
from ensue.store.folder import schema_of
from ensue.training.report import Interruption

TABLE_FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""Endings of a file of answers."""
_STEP = 2**20


def present(path: Path | None) -> Path | None:
    """Check that a file can be read, before anything is imported that could read it.

    Returns:
        The path; of a pipe, which can be read but once, that of a temporary file with all that came out of it.

    Raises:
        DataError: there is no such file or folder, or a pipe without a writer or an end.
    """
    try:
        if path == Path("-"):
            return _stored(Path("stdin"), sys.stdin.buffer)
        # A pipe, as of `<(zcat log.gz)`, can be read once, but files are read several times.
        if path is not None and S_ISFIFO(path.stat().st_mode):
            with open_input(path) as stream:
                return _stored(path, stream)
    except FileNotFoundError:
        if path is not None and not is_pattern(path):
            open_input(path)  # says why it is not there
        return path
    except (OSError, ValueError):  # the reader says what is wrong
        return path
    return path


def _stored(pipe: Path, stream: IO[bytes] | FileIO) -> Path:
    """Write what comes out of a pipe to a file that is deleted when the program ends."""
    folder = TEMPORARY.enter_context(temporary_folder())
    # The reader would need as much memory again, and the disk is not for this alone.
    limit = min(disk_usage(folder).free // 2, memory_at_hand())
    with (folder / pipe.name).open("wb") as file:
        while step := stream.read(min(_STEP, limit + 1 - file.tell())):
            file.write(step)
        size = file.tell()
    if size > limit:
        raise DataError(
            f"{pipe}: does not end within {limit / 1e9:.3g} GB, the memory at hand or half of the room in "
            f"{folder.parent}; give a file"
        )
    return folder / pipe.name


def all_present(paths: list[Path] | None) -> list[Path] | None:
    """Apply :func:`present` to each path."""
    return [readable for path in paths or () if (readable := present(path))] or None


def input_present(source: str) -> str:
    """Apply :func:`present`; ``-`` is stdin."""
    return source if source == "-" else str(present(Path(source)))


def _add_model(reference: str) -> str:
    """Add the class ``FILE.py:CLASS`` before a folder is read whose model is of this class.

    Raises:
        SettingError: it is no file and class, or the class is no model.
    """
    if reference and add_named(reference) == reference:
        raise SettingError(f"--model {reference}: the folder knows its model; only FILE.py:CLASS is named again")
    return reference


def _add_models(references: list[str] | None) -> list[str] | None:
    for reference in references or ():
        _add_model(reference)
    return references


OwnModel = Annotated[str, typer.Option("--model", callback=_add_model, help="FILE.py:CLASS of the folder's own model")]
OwnModels = Annotated[
    list[str] | None, typer.Option("--model", callback=_add_models, help="FILE.py:CLASS of your own model")
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object")]
Folder = Annotated[Path, typer.Argument(help="model folder written by `ensue fit`")]
Data = Annotated[
    Path | None,
    typer.Argument(callback=present, help="file, folder, 'logs/*.parquet' or - for stdin", show_default=False),
]
Validation = Annotated[
    Path | None, typer.Option(callback=present, help="data for early stopping [default: 10 % of DATA]")
]
TaskName = Annotated[str, typer.Argument(callback=require_task, help="next, classify, suggest or link")]
Set = Annotated[list[str] | None, typer.Option("--set", help="setting=value, see `ensue settings`; repeatable")]
Seed = Annotated[int, typer.Option(help="seed of every random choice")]
MinUsers = Annotated[int | None, typer.Option(help="minimum users per item or query")]


_reading = partial(typer.Option, rich_help_panel="Reading files")
_scoring = partial(typer.Option, rich_help_panel="Scoring")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options of reading files; each field is an option, see :func:`reads`."""

    columns: Annotated[str, _reading(help="role=column: session=sid,item=iid,time=ts")] = ""
    events: Annotated[str, _reading(help="event types to read and weights: view,cart=3")] = ""
    time_unit: Annotated[str | None, _reading(help="s, ms, us, ns, h, days or iso [default: auto]")] = None
    day_first: Annotated[
        bool | None, _reading("--day-first/--month-first", help="order in dates such as 03/04/2024")
    ] = None
    sort: Annotated[bool | None, _reading("--sort/--no-sort", help="sort events by time, or refuse unsorted ones")] = (
        None
    )
    session_gap: Annotated[float | None, _reading(help="minutes of pause that end a session; 0: off")] = None
    encoding: Annotated[str, _reading(help="such as cp1252 [default: UTF-8]")] = ""
    sheet: Annotated[str, _reading(help="sheet of an Excel file [default: the first]")] = ""
    max_unpacked: Annotated[float | None, _reading(min=0, metavar="<float>", help="GB limit when unpacked")] = None
    missing: Annotated[str, _reading(help="rows without id: drop; or keep NULL, NaN as ids")] = ""
    phrases: Annotated[bool, _reading("--phrases", help="trees: read every labelled phrase")] = False
    rules: Annotated[str, _reading(help="query cleaning: paper, or max_queries=5")] = ""
    split: Annotated[str, _reading(help="part of DATA to read, or test fraction (0.2)")] = ""
    articles: Annotated[
        Path | None, _reading("--articles", "--documents", callback=present, help="articles that the posts are about")
    ] = None
    queries: Annotated[Path | None, _reading(callback=present, help="link: posts; DATA is then the qrels")] = None
    qrels: Annotated[Path | None, _reading(callback=present, help="link: query, 0, document, relevance")] = None
    items: Annotated[Path | None, _reading(callback=present, help="next: titles, categories, numbers of items")] = None
    item_columns: Annotated[str, _reading(help="item=sku,title=name,price=ignore")] = ""
    min_users: MinUsers = None
    """Least number of users that ``check`` assumes."""
    schema: DataSchema = NO_SCHEMA
    """Schema of the training data of the model; no option."""
    logged: bool = False
    """Read shown items with their propensities, for off-policy evaluation; no option."""
    session_ids: bool = False
    """Keep the ids of sessions of queries, to match them with lists of other programs; no option."""

    @property
    def opening(self) -> Opening:
        """Keywords of every reader: encoding, sheet, missing ids, order of dates, limit of unpacked bytes."""
        opening: Opening = {
            "encoding": self.encoding,
            "sheet": self.sheet,
            "missing": self.missing,
            "schema": self.schema,
        }
        if self.day_first is not None:
            opening["day_first"] = self.day_first
        return opening if self.max_unpacked is None else {**opening, "max_unpacked": self.max_unpacked}

    @property
    def test_fraction(self) -> float | None:
        """Fraction of the file that ``--split`` holds out as test data, or ``None``."""
        try:
            return float(self.split)
        except ValueError:
            return None

    @property
    def part(self) -> str:
        """Name of the part of the file that ``--split`` selects, or ``""``.

        Raises:
            SettingError: a fraction, in a command that scores nothing.
        """
        if self.test_fraction is not None:
            raise SettingError(
                f"--split {self.split}: only evaluate and compare hold out a fraction; `ensue split` writes two files"
            )
        return self.split

    @property
    def may_sort(self) -> bool:
        """Permission to sort events by time: as stated, or as for the training data."""
        return self.schema.sort if self.sort is None else self.sort

    def like(self, folder: Path) -> Reading:
        """Return these options for a file that the model of a folder predicts.

        Raises:
            ModelFolderError: the folder is damaged.
        """
        return replace(self, schema=schema_of(folder))

    def later(self, schema: DataSchema) -> Reading:
        """Return these options for validation or test data: items and users are those of the training data."""
        return replace(self, schema=schema, items=None, item_columns="", min_users=None)

    def with_people(self, role: str, column: str) -> Reading:
        """Return these options with a column in the role of the person, if it is named."""
        if not column:
            return self
        return replace(self, columns=",".join(filter(None, (self.columns, f"{role}={column}"))))

    def schema_for(self, columns: Mapping[str, str], day_first: bool | None = None, events: str = "") -> DataSchema:
        """Return what a model keeps of how its training data was read.

        Args:
            columns: role -> column, as they were read.
            day_first: the order of day and month in its dates, where there is one.
            events: the event types that were read, where they were chosen.
        """
        # Whoever names the columns of sessions has sessions already: pauses cut none of them.
        sessions = self.roles is not None and "item" in self.roles
        return DataSchema(
            columns=dict(columns),
            encoding=self.encoding,
            sheet=self.sheet,
            time_unit=self.time_unit,
            day_first=self.day_first if day_first is None else day_first,
            sort=self.may_sort,
            gap=0.0 if self.session_gap is None and sessions else self.session_gap,
            rules=self.rules,
            missing=self.missing,
            events=events,
        )

    @property
    def event_types(self) -> tuple[str, ...]:
        """Return the event types to read; empty for all."""
        return tuple(filter(None, map(str.strip, self.events.split(","))))

    @property
    def roles(self) -> dict[str, str] | None:
        """Return column names by role, or ``None``.

        Raises:
            SettingError: not of the form role=name.
        """
        return parse(self.columns.split(",")) if self.columns else None

    def data(self, path: Path | None) -> Path:
        """Return the file that a command reads; the judgements where options name all files.

        Raises:
            SettingError: no file is named.
        """
        # TREC-style files: the judgements are the data, the posts they judge are an option.
        if path is None and self.qrels is not None and self.queries is not None:
            return self.qrels
        if path is None:
            raise SettingError("no data is named: give a file, or of task link --queries, --qrels and --documents")
        return path

    def judged(self, path: Path) -> tuple[Path, Path | None]:
        """Return the files of posts and of judgements, if these have a separate file; one of them is ``path``.

        Raises:
            SettingError: no articles, or options name both files and ``path`` is a third one.
        """
        if self.queries is None and self.qrels is None:
            return path, None
        if self.articles is None:
            raise SettingError("--queries and --qrels: name the documents too, with --documents FILE")
        if self.queries is not None and self.qrels is not None and path != self.qrels:
            raise SettingError(f"{path}: with --queries the file of each part is its judgements; leave --qrels out")
        return self.queries or path, self.qrels or path


@dataclass(frozen=True, kw_only=True)
class Scoring(Reading):
    """Options of reading and scoring; each field is an option, see :func:`reads`."""

    protocol: Annotated[str, _scoring(help="full, paper; next: last, macro, sampled", show_default=False)] = "full"
    unknown: Annotated[str, _scoring(help="next: unknown items: miss, drop, rank")] = "miss"
    cutoffs: Annotated[str, _scoring(help="next: k of HR@k and NDCG@k")] = "10,20,50,100"
    diversify: Annotated[str, _scoring(help="next: also score lists re-ranked by mmr=0.3, say")] = ""
    max_per: Annotated[list[str] | None, _scoring(help="next: also score lists of 2 per brand: brand=2")] = None
    off_policy: Annotated[str, _scoring(help="next: reward on a log of shown items: softmax, top=10")] = ""
    pairwise: Annotated[bool, _scoring("--pairwise", help="test every pair of models, Holm-corrected")] = False
    output: Annotated[Path | None, _scoring("--output", "-o", help="write the table: .csv, .md, .tex or .json")] = None
    per_example: Annotated[Path | None, _scoring(help="write rank per example (.parquet, .csv)")] = None
    json: Json = False


TABLES = (
    "columns", "events", "time_unit", "day_first", "sort", "session_gap", "encoding", "sheet", "max_unpacked",
    "missing", "phrases", "rules", "split",
)  # fmt: skip
"""The options of a command that reads logs, texts or queries."""
LINKED = ("articles", "queries", "qrels")
"""Further options of a command that reads posts."""
ITEMS = ("items", "item_columns")
"""Further options of a command that trains on a log."""


SCORING = ("protocol", "unknown", "cutoffs", "diversify", "max_per", "pairwise", "output", "per_example", "json")
"""Further options of a command that scores."""


def reads(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the last parameter of a command, a :class:`Reading` or :class:`Scoring`, by options of these names."""

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        # Typer reads the signature of a command, so the last parameter is replaced by one parameter per option.
        arguments = dict(signature(command, eval_str=True).parameters)
        group_name, group = arguments.popitem()
        hints = get_type_hints(group.annotation, include_extras=True)
        options = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(group.annotation, name), annotation=hints[name])
            for name in names
        ]

        @wraps(command)
        def run(**values: object) -> None:
            # The options that Typer passes become one object again.
            values[group_name] = group.annotation(**{name: values.pop(name) for name in names})
            command(**values)

        parameters = [*(argument.replace(kind=Parameter.KEYWORD_ONLY) for argument in arguments.values()), *options]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return declare


def settings_of(pairs: list[str] | None, min_users: int | None) -> dict[str, str]:
    """Return settings by name from ``--set`` and ``--min-users``.

    Raises:
        SettingError: not of the form key=value.
    """
    return parse(pairs or []) | ({} if min_users is None else {"min_users": str(min_users)})


def limits_of(pairs: list[str]) -> dict[str, int]:
    """Return the limits of ``--max-per``, by column.

    Raises:
        SettingError: not of the form column=number.
    """
    limits = parse(pairs)
    if len(limits) < len(pairs):
        raise SettingError(f"--max-per {' --max-per '.join(pairs)}: a column appears twice; give it one limit")
    for name, number in limits.items():
        if not number.isdecimal():
            raise SettingError(f"--max-per {name}={number}: give a whole number, such as {name}=2")
    return {name: int(number) for name, number in limits.items()}


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a command that a signal has stopped."""
    return 128 + (stop.number if isinstance(stop, Interruption) else signal.SIGINT)


def names_of(text: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def require_output(
    path: Path, inputs: Iterable[Path], *, option: str = "-o", formats: Iterable[str] = TABLE_FORMATS
) -> None:
    """Refuse, before the work, a file of an unknown format, and one that is also read.

    Args:
        path: the file to write.
        inputs: the files that are read.
        option: the option that names the file.
        formats: known endings.

    Raises:
        SettingError: another ending, an input, or a folder that is missing.
    """
    if path.suffix not in formats:
        raise SettingError(f"{option} {path}: the name must end in {', '.join(formats)}")
    for read in inputs:
        # Two names may be links to one file.
        if path.resolve() == read.resolve() or (path.exists() and read.exists() and path.samefile(read)):
            raise SettingError(f"{option} {path}: is read too, and would be lost; give another name")
    if not path.resolve().parent.is_dir():
        raise SettingError(f"{option} {path}: there is no folder {path.parent}; make it, or give another name")
