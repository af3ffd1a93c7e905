"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from shutil import disk_usage
from stat import S_ISFIFO
from typing import Annotated, Any, get_type_hints

import typer

from ensue.data.file_bytes import open_input
from ensue.data.packed import Opening, is_pattern, memory_at_hand
from ensue.data.schema import NO_SCHEMA, DataSchema
from ensue.data.temporary import TEMPORARY, temporary_folder
from ensue.errors import DataError, SettingError
from ensue.registry import require_task
from ensue.settings import parse
from ensue.store.schema import schema_of
from ensue.tasks.own import add_named

_STEP = 2**20


def present(path: Path | None) -> Path | None:
    """What a file's name is asked first, before anything is imported that could read it.

    Returns:
        The path; of a pipe, which can be read but once, that of a temporary file with all that came out of it.

    Raises:
        DataError: there is no such file or folder, or a pipe without a writer or an end.
    """
    try:
        if path is not None and S_ISFIFO(path.stat().st_mode):
            return _drained(path)
    except FileNotFoundError:
        if path is not None and not is_pattern(path):
            open_input(path)  # says why it is not there
        return path
    except (OSError, ValueError):  # the reader says what is wrong
        return path
    return path


def _drained(pipe: Path) -> Path:
    """What comes out of a pipe, in a file that goes when the program ends."""
    with open_input(pipe) as stream:
        folder = TEMPORARY.enter_context(temporary_folder())
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
    """See :func:`present`."""
    return [found for path in paths or () if (found := present(path))] or None


def input_present(source: str) -> str:
    """See :func:`present`; ``-`` is stdin."""
    return source if source == "-" else str(present(Path(source)))


def _add_own(reference: str) -> str:
    """Make ``FILE.py:CLASS`` a model before a folder is read that was made of it.

    Raises:
        SettingError: it is no file and class, or the class is no model.
    """
    if reference and add_named(reference) == reference:
        raise SettingError(f"--model {reference}: the folder knows its model; only FILE.py:CLASS is named again")
    return reference


def _add_all_own(references: list[str] | None) -> list[str] | None:
    for reference in references or ():
        _add_own(reference)
    return references


Own = Annotated[
    str, typer.Option("--model", callback=_add_own, help="of a model of your own, where it is from: FILE.py:CLASS")
]
OwnModels = Annotated[
    list[str] | None,
    typer.Option("--model", callback=_add_all_own, help="of a model of your own, where it is from: FILE.py:CLASS"),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object")]
Folder = Annotated[Path, typer.Argument(help="a model folder made by `ensue fit`")]


Data = Annotated[
    Path | None,
    typer.Argument(
        callback=present,
        help="a log, queries or labelled texts: CSV, TSV, Excel, JSON Lines, Parquet, or a layout known by its "
        "shape; of next also a folder of such logs, a pattern in quotes ('logs/*.parquet'), or what `ensue prepare` "
        "wrote; of link left out where --queries and --qrels name all there is",
        show_default=False,
    ),
]
Validation = Annotated[
    Path | None, typer.Option(callback=present, help="data for early stopping; else a tenth is held out")
]
Task = Annotated[str, typer.Argument(callback=require_task, help="the question: next, classify, suggest or link")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="key=value: change a setting of the model or its schedule")
]
Seed = Annotated[int, typer.Option(help="the same seed gives the same model")]


MinUsers = Annotated[
    int | None,
    typer.Option(
        help="next, suggest: how many people must share what is learned; unless stated 1 for next, 5 for suggest"
    ),
]
_PANEL = "How files are read"


def _option(*names: str, **about: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, **about)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How files are to be read: each field is an option, which :func:`reads` gives to a verb."""

    columns: Annotated[
        str,
        _option(
            help="roles to column names, or numbers from 1 where a file has no header: "
            "session=…,item=…,time=…,event=…; of "
            "texts text=…,second=…,label=…,group=…,part=…; of query logs "
            "query=…,user=…,session=…,turn=…,time=…,part=…; of posts and articles "
            "text=…,id=…,about=…,part=…,body=…,summary=…,article_id=…,article_title=…"
        ),
    ] = ""
    events: Annotated[
        str,
        _option(help="of logs with an event type a row: the types that are read, such as view,purchase"),
    ] = ""
    time_unit: Annotated[
        str | None,
        _option(help="unit of the times: s, ms, us, ns, h, days (Excel's) or iso; found out unless stated"),
    ] = None
    day_first: Annotated[
        bool | None,
        _option("--day-first/--month-first", help="how dates such as 03/04/2024 begin; found out unless stated"),
    ] = None
    sort: Annotated[
        bool | None,
        _option("--sort/--no-sort", help="sort events that are out of order and say so (default), or refuse them"),
    ] = None
    session_gap: Annotated[float | None, _option(help="minutes of pause that end a session; 0 never cuts")] = None
    encoding: Annotated[
        str,
        _option(help="how a text file writes its characters, such as cp1252; UTF-8, or by its byte-order mark"),
    ] = ""
    sheet: Annotated[str, _option(help="of Excel files: the name of the sheet; the first unless stated")] = ""
    max_unpacked: Annotated[
        float | None,
        _option(min=0, help="gigabytes that a packed file may unpack to; 64 times its size unless stated"),
    ] = None
    missing: Annotated[
        str,
        _option(
            help="rows whose id is missing: drop (empty, NULL, NaN, None, or rounded by a spreadsheet) or keep (such "
            "words are ids); unless stated words are left out with a warning and the rest is refused"
        ),
    ] = ""
    phrases: Annotated[bool, _option("--phrases", help="of trees, read every labelled phrase, not only sentences")] = (
        False
    )
    rules: Annotated[
        str,
        _option(
            help="of query logs: paper, or least=2,most=5,most_words=10,most_characters=500,repeats=false,"
            "normalisation=plain|paper"
        ),
    ] = ""
    split: Annotated[
        str,
        _option(help="only this part of the file: of posts and texts valid or the like, of query logs also test:novel"),
    ] = ""
    articles: Annotated[
        Path | None,
        _option(
            *("--articles", "--documents"),
            callback=present,
            help="of posts: the file of articles; a folder holds both files itself",
        ),
    ] = None
    queries: Annotated[
        Path | None, _option("--queries", callback=present, help="of link: the posts; DATA then is their --qrels")
    ] = None
    qrels: Annotated[
        Path | None,
        _option(
            "--qrels",
            callback=present,
            help="of link: lines of query 0 document relevance, or query document relevance",
        ),
    ] = None
    min_users: MinUsers = None
    """Of ``check``: the privacy floor that is looked at."""
    schema: DataSchema = NO_SCHEMA
    """How the training data of the model was read; no option."""
    session_ids: bool = False
    """Whether sessions of queries keep their ids, to match them with lists of other programs; no option."""

    @property
    def opening(self) -> Opening:
        """How the bytes of a file are meant: keywords of every reader."""
        found: Opening = {
            "encoding": self.encoding,
            "sheet": self.sheet,
            "missing": self.missing,
            "schema": self.schema,
        }
        if self.day_first is not None:
            found["day_first"] = self.day_first
        return found if self.max_unpacked is None else {**found, "max_unpacked": self.max_unpacked}

    @property
    def may_sort(self) -> bool:
        """Whether events may be put in order of time: as stated, or as for the training data."""
        return self.schema.sort if self.sort is None else self.sort

    def like(self, folder: Path) -> Reading:
        """Return these options for a file that the model of a folder is asked about.

        Raises:
            ModelFolderError: the folder is damaged.
        """
        return replace(self, schema=schema_of(folder))

    def schema_for(self, columns: Mapping[str, str], day_first: bool | None = None, events: str = "") -> DataSchema:
        """Return what a model keeps of how its training data was read.

        Args:
            columns: role -> column, as they were read.
            day_first: the order of day and month in its dates, where there is one.
            events: the event types that were read, where they were chosen.
        """
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
        """The event types that are read, none for all."""
        return tuple(filter(None, map(str.strip, self.events.split(","))))

    @property
    def roles(self) -> dict[str, str] | None:
        """Roles to column names, or ``None``.

        Raises:
            SettingError: not of the form role=name.
        """
        return parse(self.columns.split(",")) if self.columns else None

    def data(self, given: Path | None) -> Path:
        """The file that a verb reads; that of the judgements where the options name all there is.

        Raises:
            SettingError: none is named, or a third beside two that are all.
        """
        if given is None and self.qrels is not None and self.queries is not None:
            return self.qrels
        if given is None:
            raise SettingError("no data is named: give a file, or of task link --queries, --qrels and --documents")
        return given

    def judged(self, path: Path) -> tuple[Path, Path | None]:
        """The posts and their judgements, if these stand in a file of their own; one of them is ``path``.

        Raises:
            SettingError: no articles, or all named by options and another file beside them.
        """
        if self.queries is None and self.qrels is None:
            return path, None
        if self.articles is None:
            raise SettingError("--queries and --qrels: name the documents too, with --documents FILE")
        if self.queries is not None and self.qrels is not None and path != self.qrels:
            raise SettingError(f"{path}: with --queries the file of each part is its judgements; leave --qrels out")
        return self.queries or path, self.qrels or path


TABLES = (
    "columns", "events", "time_unit", "day_first", "sort", "session_gap", "encoding", "sheet", "max_unpacked",
    "missing", "phrases", "rules", "split",
)  # fmt: skip
"""The options of a verb that reads logs, texts or queries."""


LINKED = ("articles", "queries", "qrels")
"""Those of one that reads posts too."""


def reads(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb options of :class:`Reading`, by name, in the place of its ``**options``."""

    def declare(verb: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(Reading, include_extras=True)
        parameters = []
        for parameter in signature(verb, eval_str=True).parameters.values():
            own = [
                Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(Reading, name), annotation=hints[name])
                for name in names
            ]
            several = parameter.kind is Parameter.VAR_KEYWORD
            parameters += own if several else [parameter.replace(kind=Parameter.KEYWORD_ONLY)]
        verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        verb.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return verb

    return declare


def settings_of(pairs: list[str] | None, min_users: int | None) -> dict[str, str]:
    """Settings by name from ``--set`` and ``--min-users``.

    Raises:
        SettingError: not of the form key=value.
    """
    return parse(pairs or []) | ({} if min_users is None else {"min_users": str(min_users)})
