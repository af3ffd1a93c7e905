"""Ranked posts as a file: the input's columns and four beside them, in the format that the name asks for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from ensue.errors import SettingError

if TYPE_CHECKING:
    from ensue.link.story import Ranked

FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


def require_format(path: Path) -> None:
    """Find out before the work whether a name says how to write.

    Raises:
        SettingError: it does not.
    """
    if path.suffix not in FORMATS:
        raise SettingError(f"-o {path}: the name must end in {', '.join(FORMATS)}")


def write(found: Ranked, path: Path) -> list[str]:
    """Write all posts, best first, at once; returns remarks for people.

    Raises:
        ModelFolderError: the place cannot be written.
        SettingError: columns of lists in a table of texts.
    """
    from ensue.data.post_formats import JSON
    from ensue.folder import write_file
    from ensue.link.story import SHOWN

    frame, said = found.written(), []
    listed = path.suffix in (".jsonl", ".ndjson")
    if frame.columns == [JSON] and not listed:
        posts = found.posts.select(found.order)
        frame = pl.DataFrame({"id": posts.ids, "text": posts.texts}).hstack(found.table())
        said.append(f"the posts are JSON, of which {path.suffix} takes id and text; .jsonl keeps everything")
    if len(frame) > SHOWN:
        said.append(f"sentences stand beside the best {SHOWN:,} posts")
    buffer = io.BytesIO()
    if frame.columns == [JSON]:
        buffer.write("".join(f"{line}\n" for line in frame[JSON]).encode())
    elif listed:
        frame.write_ndjson(buffer)
    elif path.suffix == ".parquet":
        frame.write_parquet(buffer)
    else:
        nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
        if nested:
            raise SettingError(f"-o {path}: column {nested[0]!r} holds lists; write .parquet or .jsonl")
        frame.write_csv(buffer, separator="\t" if path.suffix == ".tsv" else ",")
    write_file(path, buffer.getvalue())
    return [*said, f"wrote {path}: {len(frame):,} posts"]
