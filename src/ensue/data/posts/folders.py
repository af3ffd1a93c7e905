"""A folder, or the files that match a pattern: tables, or an object per text, web page or JSON object as one file.

Texts (``.txt``, ``.md``), web pages (``.html``) and JSON (``.json``, ``.jsonl``, ``.ndjson``, an object or many in a
file) are read at any depth, in the order of their names. A text has the name of its file as its id. Where all texts
are in folders of one level, at least two of them, the name of the folder is the label of a text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ensue.arguments import require_path
from ensue.data.files import Content
from ensue.data.packed import ending, files_in, is_several
from ensue.data.posts.documents import is_named_as_document, is_page, read_document
from ensue.data.posts.formats import ARTICLE_ROLES
from ensue.data.posts.platforms import is_json, objects
from ensue.data.table import ReadOptions
from ensue.errors import DataError
from ensue.lines import plural

_JSON = (".json", ".jsonl", ".ndjson")


def is_document(content: Content) -> bool:
    """Return whether a file is a text or a web page, and no table."""
    return is_page(content) or (
        is_named_as_document(content.path) and read_document(content, ReadOptions(), ARTICLE_ROLES) is not None
    )


def open_texts(path: str | Path, options: ReadOptions) -> list[Content]:
    """Open a file, or the files of a folder or a pattern: tables as they are, texts and JSON as one file of JSON Lines.

    Raises:
        DataError: there is no file, or tables are among texts.
    """
    place = require_path(path)
    if not is_several(place):
        return [options.open(path)]
    files = files_in(place)
    rows = [(file, _objects(file, options)) for file in files]
    tables = [file for file, found in rows if found is None]
    if len(tables) == len(files):
        return [options.open(file) for file in files]
    if tables:
        text = next(file for file, found in rows if found is not None)
        raise DataError(
            f"{path}: {tables[0].name} is a table and {text.name} is none; the files of a folder or a pattern are read "
            "together where all are tables, or all are texts (.txt, .md), web pages (.html) or JSON: name one kind by "
            f"a pattern in quotes, such as '{place if place.is_dir() else place.parent}/*{ending(text)}'"
        )
    return [_together(place, [(file, row) for file, found in rows for row in found or ()], len(files))]


def _together(place: Path, rows: Sequence[tuple[Path, dict[str, object]]], num_files: int) -> Content:
    """Return the objects of files as one file of JSON Lines."""
    names = Counter(str(row.get("id", "")) for _, row in rows)
    labels = _labels(place, [file for file, _ in rows])
    lines = list[str]()
    for number, (file, row) in enumerate(rows):
        if names[str(row.get("id", ""))] > 1 and row.get("id") == file.name.split(".")[0]:
            row = {**row, "id": str(file.relative_to(place)) if place.is_dir() else str(file)}
        lines.append(json.dumps({**row, **({"label": labels[number]} if labels else {})}, ensure_ascii=False))
    notes = [f"{plural(num_files, 'file')} read as one: line numbers in messages are text numbers"]
    if labels:
        notes.append("the label of a text is the name of its folder")
    return Content(place, "\n".join(lines).encode("utf-8", "replace"), tuple(notes))


def _objects(file: Path, options: ReadOptions) -> list[dict[str, object]] | None:
    """Return the objects of a file of JSON, or the one of a text or web page; ``None`` for a table."""
    if ending(file) not in _JSON and not is_named_as_document(file):
        return None
    content = replace(options, columns={}).open(file)
    if is_json(content):
        posts, name = [post for _, post in objects(content)], file.name.split(".")[0]
        return [post if len(posts) > 1 or "id" in post else {**post, "id": name} for post in posts]
    table = read_document(content, replace(options, columns={}), ARTICLE_ROLES)
    if table is None:
        return None
    name, title, body = (table.frame[role][0] for role in ("id", "title", "body"))
    return [{"id": name, **({"title": title} if title else {}), "text": body}]


def _labels(place: Path, files: Sequence[Path]) -> list[str]:
    """Return the folder of each file; nothing where they are not all in folders of one level."""
    if not place.is_dir():
        return []
    inside = [file.relative_to(place).parts for file in files]
    folders = [parts[0] for parts in inside]
    texts = all(is_named_as_document(file) for file in files)
    return folders if texts and all(len(parts) == 2 for parts in inside) and len(set(folders)) > 1 else []
