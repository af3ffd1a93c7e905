"""Files that are one text each: plain text, or a web page as a browser saves it; and folders of such files.

Of a page the article is read: the longest ``article`` element, else ``main``, else all that is no menu, form or script.
Its title is the one that the page states for others (``og:title``), else the first ``h1``, else the window's.

The texts (``.txt``, ``.md``), web pages (``.html``) and JSON (``.json``, ``.jsonl``, ``.ndjson``, one object or many a
file) of a folder or a pattern are read at any depth, in the order of their names. The name of a file is the id of its
text. Where all texts are in folders of one level, at least two of them, the name of the folder is the label of a text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl

from ensue.arguments import require_path
from ensue.data.file_bytes import ending, files_in, is_several
from ensue.data.files import Content
from ensue.data.markup import BREAKING, join_lines
from ensue.data.posts.formats import ARTICLE_ROLES, collection_of
from ensue.data.posts.platforms import is_json, objects
from ensue.data.schema import Roles
from ensue.data.table import ReadOptions, Table
from ensue.errors import DataError
from ensue.lines import plural

_PROSE = (".txt", ".text", ".md")
_PAGES = (".html", ".htm", ".xhtml")
_OPENING = re.compile(r"(?is)\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b")
_CHARSET = re.compile(r"""(?i)<meta[^>]+charset\s*=\s*["']?([\w.:-]+)""")
_TITLE = 200
"""Characters of a first line, with an empty one after it, that is a title."""
_NO_TEXT = "script style noscript svg template nav footer aside form button select iframe"
_SILENT = frozenset(_NO_TEXT.split())
_MIN_WORD_SHARE = 0.2
"""Share of a page's words that its longest ``article`` must hold to be the one: others are teasers."""


def is_named_as_document(path: Path) -> bool:
    """Return whether a file has the ending of a plain text or a web page."""
    return ending(path) in (*_PROSE, *_PAGES)


def is_page(content: Content) -> bool:
    """Return whether a file is a web page, by its first element or its name."""
    if content.parquet or content.json:
        return False
    return ending(content.path) in _PAGES or _OPENING.match("\n".join(content.head(20))) is not None


def read_document(content: Content, options: ReadOptions, roles: Roles) -> Table | None:
    """The one article of a file as a table of one row; ``None`` where the file is a table already.

    Args:
        content: the file.
        options: as it was opened; with columns that were stated, a text is a table.
        roles: those of articles.

    Raises:
        DataError: bytes that are no text.
        SettingError: a page names an encoding that is not known.
    """
    if is_page(content):
        # Browsers save a page in the encoding it states, so that is taken unless an option or UTF-8 speaks against it.
        charset = _CHARSET.search("\n".join(content.head(50)))
        if charset is not None and not options.encoding and charset[1].lower() not in ("utf-8", "utf8"):
            content = replace(options, encoding=charset[1]).open(content.path)
        page = _Page()
        page.feed(_text(content))
        page.close()
        return _table(content, "web page", page.title, page.body)
    if ending(content.path) not in _PROSE or options.columns or not _is_prose(content, roles):
        return None
    lines = _text(content).strip().split("\n")
    # A short first line with an empty one under it is a title, as in Markdown.
    titled = len(lines) > 2 and not lines[1].strip() and len(lines[0]) <= _TITLE
    title = lines[0].lstrip("# ").strip() if titled else ""
    return _table(content, "plain text", title, "\n".join(lines[2:] if titled else lines))


def _is_prose(content: Content, roles: Roles) -> bool:
    """Return whether a text is none of the tables that may stand under such a name."""
    if content.parquet or is_json(content) or collection_of(content, roles):
        return False
    names_known = {word for words in roles.known.values() for word in words}
    # A table may be called .txt: then a name of its header is known.
    names = content.head(1)[0].split(content.separator)
    return not names_known & {roles.plain(name) for name in names}


def _text(content: Content) -> str:
    return "".join(line.replace("\r\n", "\n") for _, line in content.lines())


def _table(content: Content, layout: str, title: str, body: str) -> Table:
    name = content.path.name.split(".")[0] or content.path.name
    frame = pl.DataFrame({"id": [name], "title": [title], "body": [body]})
    notes = (f"one article{f', {title!r}' if title else ''}, of {len(body.split()):,} words",)
    return Table(layout, frame, lambda row: str(content.path), {}, notes)


class _Page(HTMLParser):
    """Pieces of text, each with the number of the article it stands in and whether it stands in ``main``."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[tuple[str, int, bool]] = []
        self._titles = {"og": "", "h1": "", "title": ""}
        self._open: list[str] = []
        self._articles = 0

    @property
    def title(self) -> str:
        """Return the title of the page."""
        return next((title for text in self._titles.values() if (title := " ".join(text.strip("\0").split()))), "")

    @property
    def body(self) -> str:
        """The article, a line a paragraph, without its title."""
        all_text = join_lines(text for text, _, _ in self._pieces)
        articles = [
            join_lines(text for text, at, _ in self._pieces if at == number + 1) for number in range(self._articles)
        ]
        # Teasers of other articles are short; one that holds little of the page is a teaser, too.
        longest = max(articles, key=len, default="")
        inside = join_lines(text for text, _, main in self._pieces if main)
        article = longest if len(longest) >= _MIN_WORD_SHARE * len(all_text) and longest else inside or all_text
        # Most pages repeat the title as the first line of the article.
        first, _, paragraphs = article.partition("\n")
        return paragraphs if paragraphs and first == self.title else article

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "meta":
            attributes = dict(attrs)
            if attributes.get("property") == "og:title" and not self._titles["og"]:
                self._titles["og"] = attributes.get("content") or ""
        # Comments are articles within the article: only the outermost counts.
        if tag == "article" and "article" not in self._open:
            self._articles += 1
        if tag in _SILENT or tag in ("article", "main", "h1", "title"):
            self._open.append(tag)
        if tag in BREAKING:
            self._add("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:  # and what was left open within it
            while self._open.pop() != tag:
                pass
            if tag == "h1":
                self._titles["h1"] += "\0"  # the first one is whole
        if tag in BREAKING:
            self._add("\n")

    def handle_data(self, data: str) -> None:
        data = data.replace("\n", " ")
        if "title" in self._open and "svg" not in self._open:
            self._titles["title"] += data
        elif "h1" in self._open and not self._titles["h1"].endswith("\0"):
            self._titles["h1"] += data
            self._add(data)
        elif not _SILENT & {*self._open}:
            self._add(data)

    def _add(self, text: str) -> None:
        self._pieces.append((text, self._articles if "article" in self._open else 0, "main" in self._open))


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
    source = require_path(path)
    if not is_several(source):
        return [options.open(path)]
    files = files_in(source)
    # A file of one text or web page has one object, a table none.
    rows = [(file, _objects(file, options)) for file in files]
    tables = [file for file, posts in rows if posts is None]
    if len(tables) == len(files):
        return [options.open(file) for file in files]
    if tables:
        text = next(file for file, posts in rows if posts is not None)
        raise DataError(
            f"{path}: {tables[0].name} is a table and {text.name} is none; the files of a folder or a pattern are read "
            "together where all are tables, or all are texts (.txt, .md), web pages (.html) or JSON: name one kind by "
            f"a pattern in quotes, such as '{source if source.is_dir() else source.parent}/*{ending(text)}'"
        )
    return [_together(source, [(file, row) for file, posts in rows for row in posts or ()], len(files))]


def _together(place: Path, rows: Sequence[tuple[Path, dict[str, object]]], num_files: int) -> Content:
    """Return the objects of files as one file of JSON Lines."""
    # Files of one name in two folders get their path as id.
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
        # A file with one object is called by its name, as one text is.
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
    # pos/1.txt and neg/1.txt: the folder is the label; a folder with deeper ones is no label.
    folders = [relative[0] for relative in inside]
    texts = all(is_named_as_document(file) for file in files)
    return folders if texts and all(len(relative) == 2 for relative in inside) and len(set(folders)) > 1 else []
