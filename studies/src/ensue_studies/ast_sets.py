"""The data sets of AST's study: posts about articles, split by article."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from ensue.data.posts import Articles, Corpus, read_corpus
from ensue.errors import DataError
from ensue_studies.rows import Rows
from ensue_studies.sets import fingerprint

SETS = ("politifact", "clickbait22")
ABOUT = {
    "politifact": "posts and the fact checks that they are about, by title, claim and body; a post ranks all 467",
    "clickbait22": "posts and the articles they link to, nearly one to one; by body alone, for only some have titles",
}
BODIES = ("clickbait22",)
"""Sets whose titles are not read."""


@dataclass(frozen=True, eq=False)
class LinkSet:
    """One data set: articles and posts in parts ``train``, ``valid`` and ``test``."""

    name: str
    data: Corpus

    @property
    def fingerprint(self) -> str:
        """Of all texts and links."""
        return fingerprint((self.data.articles.texts, self.data.posts.texts, self.data.pairs))

    def statistics(self) -> Rows:
        """A row a part."""
        lengths = self.data.articles.texts.str.split(" ").list.len()
        rows = []
        for name in ("train", "valid", "test"):
            part = self.data.part(name)
            asked = np.unique(part.pairs[:, 0])
            rows.append(
                {
                    "data": self.name,
                    "part": name,
                    "posts": len(part),
                    "articles": len(asked),
                    "links": len(part.pairs),
                    "words a post": round(float(np.mean(part.posts.texts.str.split(" ").list.len().to_numpy())), 1),
                    "words an article, median": int(np.median(lengths.gather(asked).to_numpy())),
                }
            )
        return rows


def find_sets(data: Path) -> tuple[list[LinkSet], list[str]]:
    """The sets at hand, and the names of those that are not.

    Args:
        data: the folder that holds ``politifact`` and ``clickbait22``, or the folder above it.

    Raises:
        DataError: neither is there, or one has no parts.
    """
    folder = data / "links" if (data / "links").is_dir() else data
    found, absent = [], []
    for name in SETS:
        if not (folder / name).is_dir():
            absent.append(name)
            continue
        corpus = read_corpus(folder / name)[0]
        missing = {"train", "valid", "test"} - corpus.parts
        if missing:
            raise DataError(f"{folder / name}: no post is of part {sorted(missing)[0]!r}; the study needs all three")
        if name in BODIES:
            silent = pl.Series([""] * len(corpus.articles), dtype=pl.String)
            corpus = replace(corpus, articles=Articles(corpus.articles.bodies, silent, corpus.articles.ids))
        found.append(LinkSet(name, corpus))
    if not found:
        raise DataError(f"{data}: neither {' nor '.join(SETS)} is there; name the folder that holds them")
    return found, absent


def find_vectors(data: Path) -> Path | None:
    """The word vectors beside the sets, where they are: ``vectors/sgns100.npz`` here, above, or under ``text``."""
    folders = (data, data / "text", data.parent, data.parent / "text")
    return next((path for folder in folders if (path := folder / "vectors" / "sgns100.npz").is_file()), None)
