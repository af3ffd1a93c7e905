"""Labels of a review in a file that grows: a line a label, so that a review can stop anywhere and go on."""

from __future__ import annotations

import json
import os
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ensue.data.histories import Index
from ensue.data.posts import Articles, Posts
from ensue.errors import DataError

_EXAMPLE = '{"id": "p1", "relevant": true}'


def labels_file(posts: Path, articles: Articles) -> Path:
    """Where the labels of a story stand unless a place is named: beside the posts, by the story's texts."""
    key = blake2b("\0".join(sorted(articles.texts)).encode(), digest_size=4).hexdigest()
    return posts.with_name(f"{posts.name}.review-{key}.jsonl")


class Labels:
    """The file of a review.

    Args:
        path: read if it is there, and written to its end.

    Raises:
        DataError: a line that is no label.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.given: dict[str, bool] = {}
        self.looks = 0
        """Looks at audits that were taken, which used up part of the review's chance of error."""
        if not path.exists():
            return
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read ({error}); name another file with --labels") from error
        whole = lines[:-1]  # a line that a kill cut short has no end
        for number, line in enumerate(whole, 1):
            if line.strip():
                self._take(line, f"{path}:{number}")
        if lines[-1]:
            path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")

    def of(self, posts: Posts) -> tuple[Index, npt.NDArray[np.bool_]]:
        """Which of some posts are labelled, and how."""
        labelled = [(row, self.given[name]) for row, name in enumerate(posts.ids) if name in self.given]
        return np.array([row for row, _ in labelled], np.int64), np.array([own for _, own in labelled], bool)

    def add(self, name: str, relevant: bool) -> None:
        """Keep a label; it is on the disk when this returns.

        Raises:
            DataError: the file cannot be written.
        """
        self.given[name] = relevant
        self._append({"id": name, "relevant": relevant})

    def look(self) -> None:
        """Note a look at an audit.

        Raises:
            DataError: the file cannot be written.
        """
        self.looks += 1
        self._append({"look": self.looks})

    def _append(self, row: dict[str, object]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(
                f"{self.path}: cannot be written ({error.strerror}); name another file with --labels"
            ) from error

    def _take(self, line: str, where: str) -> None:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}); expected {_EXAMPLE}") from error
        if isinstance(row, dict) and isinstance(row.get("look"), int):
            self.looks = max(self.looks, row["look"])
        elif isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("relevant"), bool):
            self.given[row["id"]] = row["relevant"]
        else:
            raise DataError(f"{where}: is no label; expected {_EXAMPLE}")
