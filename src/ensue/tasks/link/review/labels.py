"""Labels of a review in a file that grows: a line a label and whose it is, so that a review may stop and go on.

Several people may label into one file at the same time, each in a process of their own. A line is written under a lock;
a post that somebody looks at is claimed by a lock on its own place in ``.NAME.lock``, which ends with the process at
the latest, so that nobody else is shown it. What somebody said last counts; of several people the majority.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from ensue.data.file_bytes import require_regular
from ensue.data.posts.dataset import Articles
from ensue.errors import DataError
from ensue.store.access import ensure_file, sibling_access

YES, NO, UNSURE = 1, 0, -1
"""Labels of a post; in the file ``true``, ``false`` and ``null``."""
_EXAMPLE = '{"id": "p1", "relevant": true}'
_LABELS = {True: YES, False: NO, None: UNSURE}
_WRITTEN_LABELS = {label: written for written, label in _LABELS.items()}


def labels_file(posts: Path, articles: Articles) -> Path:
    """Return the default path of a story's labels: next to the posts, named by the story's texts."""
    key = blake2b("\0".join(sorted(articles.texts)).encode(), digest_size=4).hexdigest()
    return posts.with_name(f"{posts.name}.review-{key}.jsonl")


class Labels:
    """The file of a review.

    Args:
        path: read if it is there, and written to its end.
        reader: who labels.
        posts: the file of the posts; nobody who cannot read it may read a new file of labels.

    Raises:
        DataError: a line that is no label, or a place that cannot be written.
    """

    def __init__(self, path: Path, reader: str = "", posts: Path | None = None) -> None:
        self.path = path
        self.reader = reader
        self._posts = posts
        self.given: dict[str, dict[str, int]] = {}
        """Id -> reader -> what they said last."""
        self.mine: list[str] = []
        """Ids that this reader labelled, in the order they did."""
        self.looks = 0
        """Looks at audits that anybody took, which used up part of the review's chance of error."""
        self._end = self._number = 0
        try:
            lock_path = path.with_name(f".{path.name}.lock")
            # One descriptor for all: closing another one of the same file would let go of every claim.
            self._lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._unwritable(error) from error
        if path.exists():
            require_regular(path)
        with self._locked():
            if path.exists() and (content := self._bytes()) and not content.endswith(b"\n"):
                os.truncate(path, content.rfind(b"\n") + 1)  # a line that a kill cut short has no end
        self.refresh()

    def refresh(self) -> None:
        """Take in what was written since.

        Raises:
            DataError: a line that is no label.
        """
        if not self.path.exists():
            return
        new = self._bytes(self._end)
        new = new[: new.rfind(b"\n") + 1]
        self._end += len(new)
        try:
            lines = new.decode("utf-8").split("\n")[:-1]
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path}: cannot be read ({error}); name another file with --labels") from error
        for line in lines:
            self._number += 1
            if line.strip():
                self._take(line, f"{self.path}, line {self._number}")

    def verdict(self, name: str) -> int | None:
        """Return the label of a post: that of the majority of sure readers, ``UNSURE`` in a tie.

        ``None`` where nobody labelled it, and where this reader may still settle what others left open.
        """
        votes = self.given.get(name)
        if not votes:
            return None
        counts = Counter(votes.values())
        if counts[YES] != counts[NO]:
            return YES if counts[YES] > counts[NO] else NO
        return UNSURE if self.reader in votes else None

    def add(self, name: str, said: int) -> None:
        """Keep a label; it is on the disk when this returns.

        Raises:
            DataError: the file cannot be written.
        """
        self._append({"id": name, "relevant": _WRITTEN_LABELS[said], "by": self.reader})

    def undo(self) -> str | None:
        """Take the latest label of this reader back; the id of the post, or ``None`` where there is none.

        Raises:
            DataError: the file cannot be written.
        """
        if not self.mine:
            return None
        name = self.mine[-1]
        self._append({"id": name, "undo": True, "by": self.reader})
        return name

    def look(self) -> int:
        """Note a look at an audit; how many anybody had taken before.

        Raises:
            DataError: the file cannot be written.
        """
        with self._locked():
            self.refresh()
            looks = self.looks
            self._write({"look": looks + 1})
        return looks

    def claim(self, name: str) -> bool:
        """Claim a post for this reader until :meth:`release`; return False if another reader holds it."""
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(name))
        except OSError:
            return False
        return True

    def release(self, name: str) -> None:
        """Let others be shown the post."""
        fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, _place(name))

    def close(self) -> None:
        """Let go of all claims."""
        os.close(self._lock)

    def counts(self) -> dict[str, Counter[int]]:
        """Reader -> how often they said what."""
        counts: dict[str, Counter[int]] = {}
        for votes in self.given.values():
            for reader, label in votes.items():
                counts.setdefault(reader, Counter())[label] += 1
        return counts

    def disagreements(self) -> dict[str, dict[str, int]]:
        """Posts of which somebody says yes and somebody no: id -> reader -> what they said."""
        return {name: votes for name, votes in self.given.items() if {YES, NO} <= set(votes.values())}

    def agreement(self) -> tuple[int, int, float | None]:
        """Posts of which two or more people are sure, how many of them they see alike, and Krippendorff's alpha.

        Nominal, over yes and no (Krippendorff 2004, chapter 11): 1 less the observed over the expected disagreement;
        ``None`` where all say the same of all.
        """
        units = [(list(votes.values()).count(YES), list(votes.values()).count(NO)) for votes in self.given.values()]
        units = [unit for unit in units if sum(unit) > 1]
        yes, no = (sum(unit[side] for unit in units) for side in (0, 1))
        seen = sum(2 * y * n / (y + n - 1) for y, n in units)
        expected = 2 * yes * no / (yes + no - 1) if units else 0.0
        return len(units), sum(not (y and n) for y, n in units), 1 - seen / expected if expected else None

    def _append(self, row: dict[str, object]) -> None:
        with self._locked():
            self._write(row)
        self.refresh()

    def _write(self, row: dict[str, object]) -> None:
        try:
            ensure_file(self.path, sibling_access(self._posts) if self._posts else None)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error

    def _bytes(self, start: int = 0) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return file.read()
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error}); name another file with --labels") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(f"{self.path}: cannot be written ({error.strerror}); name another file with --labels")

    def _take(self, line: str, where: str) -> None:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}); expected {_EXAMPLE}") from error
        fields = row if isinstance(row, dict) else {}
        name = fields.get("id")
        reader = fields.get("by", "")
        relevant = fields.get("relevant", "")
        if isinstance(fields.get("look"), int):
            self.looks = max(self.looks, fields["look"])
        elif isinstance(name, str) and isinstance(reader, str) and fields.get("undo") is True:
            self.given.get(name, {}).pop(reader, None)
            if reader == self.reader and name in self.mine:
                self.mine.remove(name)
        elif isinstance(name, str) and isinstance(reader, str) and (relevant is None or isinstance(relevant, bool)):
            self.given.setdefault(name, {})[reader] = _LABELS[relevant]
            if reader == self.reader:
                self.mine = [*(labelled for labelled in self.mine if labelled != name), name]
        else:
            raise DataError(f"{where}: is not a label; expected {_EXAMPLE}")


def _place(name: str) -> int:
    """Return the byte of the lock file that stands for a post."""
    return int.from_bytes(blake2b(name.encode(), digest_size=7).digest()) >> 1
