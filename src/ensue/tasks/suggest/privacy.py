"""The floor: what may be suggested to others because enough people typed it, and what must never be.

A text may be shown if at least ``min_users`` users typed it, or if at least that many typed each of its words and each
two of them in one query; k-anonymity in the sense of Samarati & Sweeney (1998), applied to queries.
Whatever the counts, a text that looks personal is never shown (:mod:`ensue.data.queries.personal`), and the words of a
query that does count for nothing: half a hundred addresses at one host would else make every name beside it a frequent
word.

Associations need as many people. What followed a query, stood near it, or came after a word is counted in people, and
left out below ``min_users`` (:mod:`.baselines.crowd`). A network learns a step from one query to the next if that many
people made it; or, where one of the two is not itself typed by that many, if that many people had each word of the one
and each word of the other in queries that followed each other. Of one person the ``MAX_SESSIONS`` latest sessions
count, the same session once. With ``min_users`` 1 none of this holds: whatever was typed and is not personal is shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from ensue.data.histories import Histories, Ids, Index, Mask, scrambled
from ensue.data.queries import Queries
from ensue.data.queries.personal import is_harmless, looks_personal
from ensue.data.queries.rows import RUNS, count_words, runs_of
from ensue.data.queries.rules import normalise, normalise_ascii, normalised
from ensue.data.queries.tokens import SPECIAL, QueryTokenizer
from ensue.errors import SettingError
from ensue.vocabulary import FIRST

MAX_SESSIONS = 50
"""Sessions of one person that count, at most."""


@dataclass(frozen=True, eq=False)
class Floor:
    """Queries and words typed by enough people; made by :meth:`of`.

    Attributes:
        min_users: how many are enough.
        counted: ``users``, or ``sessions`` where the log knows no users.
        queries: the normalised queries that reach the floor and do not look personal.
        words: the words that reach it.
        together: a word to those after it in the alphabet that enough people typed in one query with it; empty where
            ``min_users`` is 1.
        left_out: how many distinct queries were below the floor, and how many looked personal.
    """

    min_users: Annotated[int, Field(ge=1)]
    counted: Literal["users", "sessions"]
    queries: frozenset[str]
    words: frozenset[str]
    together: Mapping[str, frozenset[str]]
    left_out: Mapping[str, Annotated[int, Field(ge=0)]]

    @classmethod
    def of(cls, queries: Queries, min_users: int = 5, pair_users: int | None = None) -> Floor:
        """The floor of a log; its sessions stand in for users where it has none.

        Args:
            queries: the sessions to learn from; users are counted over the whole file they were read from.
            min_users: how many people must have typed what is shown; 1 shows whatever was typed and is not personal.
            pair_users: the same of two words of a query; as many unless stated.

        Raises:
            SettingError: below 1.
        """
        if min_users < 1:
            raise SettingError(f"min_users: {min_users} is below 1; 1 suggests all but possible personal data")
        histories = queries.histories
        values = pl.Series(histories.vocabulary.values, dtype=pl.String)
        ids = histories.ids.astype(np.int64) - FIRST
        if len(queries.users):
            counts, words, word_counts = queries.users, queries.words, queries.word_users
        else:
            # Without users a session counts once per query, as a person would.
            pairs = pl.DataFrame({"id": ids, "session": histories.sequence_index()}).unique()
            counts = np.bincount(pairs["id"].to_numpy(), minlength=len(values))
            is_personal = looks_personal(values)[ids]
            words, word_counts = count_words(values, ids[~is_personal], histories.sequence_index()[~is_personal])
        typed = np.bincount(ids, minlength=len(values)) > 0
        often = values.filter(typed & (counts >= min_users))
        enough = words.filter(word_counts >= min_users)
        personal = looks_personal(often)
        enough = enough.filter(~looks_personal(enough))
        min_pair_users = min_users if pair_users is None else pair_users
        return cls(
            min_users,
            "users" if len(queries.users) else "sessions",
            frozenset(often.filter(~personal)),
            frozenset(enough),
            _together(queries, enough.sort(), min_pair_users) if min_users > 1 else {},
            {"below": int(typed.sum()) - len(often), "personal": int(personal.sum())},
        )

    @property
    def rule(self) -> str:
        """The rule for what may be shown, in words."""
        stand_in = "" if self.counted == "users" else ("; sessions are counted, as the log has no users")
        pairs = "every two of its words typed in one query by that many" if self.min_users > 1 else "made of such words"
        return f"typed by at least {self.min_users} {self.counted}, or {pairs}{stand_in}"

    @property
    def facts(self) -> dict[str, Any]:
        """The threshold and its counts, for cards and folders."""
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
        often = [text in self.queries or self._composes(words) for text, words in table.iter_rows()]
        return np.array(often, np.bool_) & ~looks_personal(table["plain"])

    def shows(self, texts: Iterable[str]) -> set[str]:
        """Return the texts that may be shown and are spelled as queries are: models write capitals and odd marks.

        Args:
            texts: any; that they be few is a matter of speed alone.
        """
        distinct = set(texts)
        shown = distinct & self.queries
        doubtful = []
        for text in distinct - shown:
            if not is_harmless(text):
                doubtful.append(text)
            elif self._composes(runs_of(text)) and normalise_ascii(text) == text:
                shown.add(text)
        if doubtful:
            series = pl.Series("query", doubtful, dtype=pl.String)
            fine = self.allowed(series) & (normalise(series) == series).to_numpy()
            shown.update(text for text, is_shown in zip(doubtful, fine.tolist(), strict=True) if is_shown)
        return shown

    def _composes(self, words: Sequence[str]) -> bool:
        """Return whether enough people typed each of some words, and each two of them in one query."""
        if not words or not self.words.issuperset(words):
            return False
        # ``together`` holds a word's later partners in the alphabet: each pair is looked up once.
        distinct = sorted(set(words))
        nothing = frozenset[str]()
        shared = (self.together.get(word, nothing).issuperset(distinct[at + 1 :]) for at, word in enumerate(distinct))
        return self.min_users == 1 or all(shared)

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
        # Words are few next to texts: which of them are rare is decided once each.
        rare = words.filter(~self._reached(words)).to_list()
        common_words = lists.to_frame("words").select(
            pl.col("words").list.filter(~pl.element().is_in(rare)).list.join(" ")
        )
        return common_words.to_series().rename(texts.name)

    def word_ids_allowed(self, tokenizer: QueryTokenizer) -> Mask:
        """(tokens,) whether a text with this token can be allowed at all, so that a beam need not try it.

        A word is ruled out unless its parts reach the floor or a query that does has it. Pieces of words rule nothing
        out, and neither do the tokens that begin and end a query.
        """
        tokens = pl.Series(tokenizer.tokens, dtype=pl.String)
        if tokenizer.kind == "bpe":
            return np.ones(len(tokens), np.bool_)
        reached = self._reached(tokens)
        # Begin, end and the like are always written.
        reached[: len(SPECIAL)] = True
        return reached

    def _reached(self, words: pl.Series) -> Mask:
        """(words,) whether each word, by the spaces between them, may be part of what is shown."""
        shown_words = {word for query in self.queries for word in query.split(" ")}
        runs = words.str.extract_all(RUNS)
        fine = [
            word in shown_words or self.words.issuperset(word_runs) for word, word_runs in zip(words, runs, strict=True)
        ]
        return np.array(fine, np.bool_) & ~looks_personal(words)


def people_of(queries: Queries) -> Index:
    """Return the (sessions,) number of the person who typed each; sessions stand in where the log knows no users."""
    return queries.people if len(queries.people) else np.arange(len(queries))


def bounded(queries: Queries, min_users: int) -> Queries:
    """Return the sessions that count: of one person the ``MAX_SESSIONS`` latest in the log, the same session once.

    Args:
        queries: of a log.
        min_users: 1 bounds nothing.
    """
    if min_users == 1 or not len(queries.people):
        return queries
    histories = queries.histories
    people = queries.people.tolist()
    stays = np.zeros(len(queries), np.bool_)
    sessions: dict[int, set[bytes]] = {}
    # From the latest session to the first, so that a person's latest count.
    for row in range(len(queries) - 1, -1, -1):
        distinct = sessions.setdefault(people[row], set())
        session = histories.ids[histories.offsets[row] : histories.offsets[row + 1]].tobytes()
        if session not in distinct and len(distinct) < MAX_SESSIONS:
            distinct.add(session)
            stays[row] = True
    return queries.select(stays)


def shared_steps(queries: Queries, floor: Floor) -> Histories:
    """Return the sessions cut wherever a step from one query to the next is not to be learned; see the module."""
    histories = queries.histories
    owners, ids = histories.sequence_index(), histories.ids.astype(np.int64) - FIRST
    if floor.min_users == 1 or len(ids) < 2:
        return histories
    # Adjacent events of one session are a step.
    inside = owners[1:] == owners[:-1]
    columns = {"before": ids[:-1], "after": ids[1:], "person": people_of(queries)[owners[1:]]}
    steps = pl.DataFrame(columns).filter(pl.Series(inside)).unique()
    steps_by_people = steps.group_by("before", "after").len()
    values = pl.Series(histories.vocabulary.values, dtype=pl.String)
    words = _words_of(values, pl.Series(sorted(floor.words), dtype=pl.String)).unique()
    cross = steps_by_people.select("before", "after").join(
        words.rename({"text": "before", "word": "first"}), on="before"
    )
    cross = cross.join(words.rename({"text": "after", "word": "second"}), on="after")
    had = steps.join(cross, on=["before", "after"]).select("first", "second", "person").unique()
    enough = had.group_by("first", "second").len().filter(pl.col("len") >= floor.min_users)
    rare = cross.join(enough, on=["first", "second"], how="anti").select("before", "after").unique()
    frequent = pl.lit(pl.Series(floor.kept(values)))
    both_shown = frequent.gather(pl.col("before")) & frequent.gather(pl.col("after"))
    composed = (
        cross.select("before", "after").unique().join(rare, on=["before", "after"], how="anti").filter(~both_shown)
    )
    shared = pl.concat(
        [steps_by_people.filter(pl.col("len") >= floor.min_users).select("before", "after"), composed]
    ).unique()
    joined = pl.DataFrame(columns).join(
        shared.with_columns(joined=True), on=["before", "after"], how="left", maintain_order="left"
    )
    stays = joined["joined"].fill_null(False).to_numpy() & inside
    # A session is cut behind each step that does not stay: what follows begins a session of its own.
    begins = np.flatnonzero(np.concatenate([[True], ~stays]))
    return replace(histories, offsets=np.append(begins, len(ids)).astype(np.int64), names=histories.names[:0])


def _words_of(values: pl.Series, words: pl.Series) -> pl.DataFrame:
    """Return one row per occurrence of some words in texts that do not look personal: numbers of ``text``, ``word``."""
    numbers = pl.DataFrame({"run": words}).with_row_index("word")
    runs = pl.DataFrame({"text": np.arange(len(values)), "run": values.str.extract_all(RUNS)})
    runs = runs.filter(~looks_personal(values)).explode("run")
    return runs.join(numbers, on="run").select("text", "word")


def _together(queries: Queries, words: pl.Series, min_users: int) -> dict[str, frozenset[str]]:
    """Return the words that at least ``min_users`` people typed in one query that does not look personal.

    Args:
        queries: of a log.
        words: those that count, in order of the alphabet; each has those after it.
        min_users: how many people.
    """
    histories = queries.histories
    words_of_texts = _words_of(pl.Series(histories.vocabulary.values, dtype=pl.String), words).unique()
    # Two words of one text, each pair once: the first is earlier in the alphabet.
    pairs = words_of_texts.join(words_of_texts, on="text").filter(pl.col("word") < pl.col("word_right"))
    texts = histories.ids.astype(np.int64) - FIRST
    typed = pl.DataFrame({"text": texts, "person": people_of(queries)[histories.sequence_index()]}).unique()
    people = pairs.join(typed, on="text").select("word", "word_right", "person").unique()
    enough = people.group_by("word", "word_right").len().filter(pl.col("len") >= min_users)
    partners: dict[str, set[str]] = {}
    for first, second in zip(words.gather(enough["word"]), words.gather(enough["word_right"]), strict=True):
        partners.setdefault(first, set()).add(second)
    return {word: frozenset(later) for word, later in sorted(partners.items())}


def prints(sessions: Histories) -> Ids:
    """Return fingerprints of each query with the one before it, in order, (pairs,).

    They have 32 bits, so that every guess hits one of some million pairs by chance often enough to prove nothing.
    """
    values = sessions.vocabulary.values
    ids, codes = np.unique(sessions.ids, return_inverse=True)
    # Hashes of the distinct queries only; pairs combine two of them.
    digests = b"".join(hashlib.blake2b(values[id - FIRST].encode(), digest_size=8).digest() for id in ids.tolist())
    hashes = np.frombuffer(digests, np.uint64)[codes]
    owners = sessions.sequence_index()
    is_pair = owners[1:] == owners[:-1]
    pair_hashes = scrambled(scrambled(hashes[:-1][is_pair]) + hashes[1:][is_pair])
    return (pair_hashes >> np.uint64(32)).astype(np.uint32).view(np.int32)
