"""The floor: what may be suggested to others because enough people typed it, and what must never be.

A text may be shown if at least ``min_users`` users typed it, or at least so many typed each of its words; k-anonymity
in the sense of Samarati & Sweeney (1998), applied to queries. Whatever the counts, a text that looks personal is never
shown (:mod:`ensue.data.queries.personal`), and the words of a query that does count for nothing: half a hundred
addresses at one host would else make every name beside it a frequent word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.queries import Queries
from ensue.data.queries.personal import is_harmless, looks_personal
from ensue.data.queries.rows import RUNS, count_words, runs_of
from ensue.data.queries.rules import normalise, normalise_ascii, normalised
from ensue.data.queries.tokens import SPECIAL, QueryTokenizer
from ensue.errors import DataError, SettingError
from ensue.vocabulary import FIRST

Mask = npt.NDArray[np.bool_]
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Floor:
    """What has been typed by enough people; made by :meth:`of` or :meth:`from_json`.

    Attributes:
        min_users: how many are enough.
        counted: ``users``, or ``sessions`` where the log knows no users.
        queries: the normalised queries that reach the floor and do not look personal.
        words: the words that reach it.
        left_out: how many distinct queries were below the floor, and how many looked personal.
    """

    min_users: int
    counted: str
    queries: frozenset[str]
    words: frozenset[str]
    left_out: Mapping[str, int]

    @classmethod
    def of(cls, queries: Queries, min_users: int = 5) -> Floor:
        """The floor of a log; its sessions stand in for users where it has none.

        Args:
            queries: the sessions to learn from; users are counted over the whole file they were read from.
            min_users: how many people must have typed what is shown; 1 shows whatever was typed and is not personal.

        Raises:
            SettingError: below 1.
        """
        if min_users < 1:
            raise SettingError(f"min_users: {min_users} is below 1; 1 shows whatever was typed and is not personal")
        histories = queries.histories
        values, ids = pl.Series(histories.vocabulary.values, dtype=pl.String), histories.ids.astype(np.int64) - FIRST
        if len(queries.users):
            counts, words, word_counts = queries.users, queries.words, queries.word_users
        else:
            pairs = pl.DataFrame({"id": ids, "session": histories.sequence_index()}).unique()
            counts = np.bincount(pairs["id"].to_numpy(), minlength=len(values))
            named = looks_personal(values)[ids]
            words, word_counts = count_words(values, ids[~named], histories.sequence_index()[~named])
        typed = np.bincount(ids, minlength=len(values)) > 0
        often, enough = values.filter(typed & (counts >= min_users)), words.filter(word_counts >= min_users)
        personal = looks_personal(often)
        return cls(
            min_users,
            "users" if len(queries.users) else "sessions",
            frozenset(often.filter(~personal)),
            frozenset(enough.filter(~looks_personal(enough))),
            {"below": int(typed.sum()) - len(often), "personal": int(personal.sum())},
        )

    @property
    def rule(self) -> str:
        """What may be shown, in words."""
        stand_in = "" if self.counted == "users" else "; sessions stand in for users, whom the log does not know"
        return f"typed by at least {self.min_users} {self.counted}, or made of words that were{stand_in}"

    @property
    def facts(self) -> dict[str, Any]:
        """What to say of it, for cards and folders."""
        return {
            "min_users": self.min_users,
            "counted": self.counted,
            "queries": len(self.queries),
            "words": len(self.words),
            **self.left_out,
            "rule": self.rule,
        }

    def allowed(self, candidates: Sequence[str] | pl.Series) -> Mask:
        """(candidates,) whether each may be shown.

        Args:
            candidates: texts; they are normalised first, so that no odd spelling slips through.
        """
        texts = pl.Series("text", candidates, dtype=pl.String).to_frame()
        table = texts.select(plain=normalised(pl.col("text"))).with_columns(words=pl.col("plain").str.extract_all(RUNS))
        often = [
            text in self.queries or (len(words) > 0 and self.words.issuperset(words))
            for text, words in table.iter_rows()
        ]
        return np.array(often, np.bool_) & ~looks_personal(table["plain"])

    def shows(self, texts: Iterable[str]) -> set[str]:
        """Those of a few texts that may be shown and are spelled as queries are: models write capitals and odd marks.

        Args:
            texts: any; that they be few is a matter of speed alone.
        """
        shown, doubtful = set(), []
        for text in set(texts):
            if text in self.queries:  # was looked through when it was counted
                shown.add(text)
            elif not is_harmless(text):
                doubtful.append(text)
            elif text and self.words.issuperset(runs_of(text)) and normalise_ascii(text) == text:
                shown.add(text)
        if doubtful:
            series = pl.Series("query", doubtful, dtype=pl.String)
            fine = self.allowed(series) & (normalise(series) == series).to_numpy()
            shown.update(text for text, own in zip(doubtful, fine.tolist(), strict=True) if own)
        return shown

    def kept(self, values: Sequence[str] | pl.Series) -> Mask:
        """(values,) whether each was itself typed by enough people: only those may be stored with a model.

        A query made of frequent words may be shown if a model makes it up, but that somebody typed it is
        nobody else's affair.
        """
        return np.array([value in self.queries for value in values], np.bool_)

    def common(self, texts: pl.Series) -> pl.Series:
        """The texts without the words below the floor: what a vocabulary may be learned from, for it is stored too.

        Args:
            texts: (texts,) normalised queries.
        """
        lists = texts.str.split(" ")
        words = lists.explode().unique()
        rare = words.filter(~self._reached(words)).to_list()
        kept = lists.to_frame("words").select(pl.col("words").list.filter(~pl.element().is_in(rare)).list.join(" "))
        return kept.to_series().rename(texts.name)

    def word_ids_allowed(self, tokenizer: QueryTokenizer) -> Mask:
        """(tokens,) whether a text with this token can be allowed at all, so that a beam need not try it.

        A word is ruled out unless its parts reach the floor or a query that does has it. Pieces of words rule nothing
        out, and neither do the tokens that begin and end a query.
        """
        tokens = pl.Series(tokenizer.tokens, dtype=pl.String)
        if tokenizer.kind == "bpe":
            return np.ones(len(tokens), np.bool_)
        reached = self._reached(tokens)
        reached[: len(SPECIAL)] = True
        return reached

    def _reached(self, words: pl.Series) -> Mask:
        """(words,) whether each word, by the spaces between them, may be part of what is shown."""
        shown = {word for query in self.queries for word in query.split(" ")}
        parts = words.str.extract_all(RUNS)
        fine = [word in shown or self.words.issuperset(own) for word, own in zip(words, parts, strict=True)]
        return np.array(fine, np.bool_) & ~looks_personal(words)

    def to_json(self) -> str:
        """All of it, in order of the alphabet; nothing below the floor is in it. Read back by :meth:`from_json`."""
        kept = {
            "format": FORMAT,
            "min_users": self.min_users,
            "counted": self.counted,
            "left_out": dict(self.left_out),
            "queries": sorted(self.queries),
            "words": sorted(self.words),
        }
        return json.dumps(kept, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str = "floor.json") -> Floor:
        """Read what :meth:`to_json` wrote.

        Raises:
            DataError: naming ``where`` (a file) and what is wrong.
        """
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not JSON ({error}); save the model again") from error
        if not isinstance(fields, dict) or fields.get("format") != FORMAT:
            raise DataError(f"{where}: is no floor of format {FORMAT}; save the model again with this version")
        lists = [fields.get(name) for name in ("queries", "words")]
        texts = all(isinstance(kept, list) and all(isinstance(text, str) for text in kept) for kept in lists)
        low, left_out = fields.get("min_users"), fields.get("left_out")
        if not texts or not isinstance(low, int) or low < 1 or fields.get("counted") not in ("users", "sessions"):
            raise DataError(
                f'{where}: expected lists of texts "queries" and "words", "min_users" of 1 or more, and "counted"; '
                "save the model again"
            )
        left_out = {str(reason): int(count) for reason, count in left_out.items()} if left_out else {}
        return cls(low, fields["counted"], frozenset(fields["queries"]), frozenset(fields["words"]), left_out)
