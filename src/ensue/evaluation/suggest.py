"""Evaluation of task ``suggest``: words of the first suggestion, rank of the true next query, and the card.

Every query after the first of a session is a target, to be predicted from the queries before it. The first suggestion
is compared with the target word by word: clipped n-gram precisions and BLEU-4 over all targets, precision of its words
without stop words, and how often it is the target itself. The rank of the target among ``SHOWN`` suggestions gives MRR
and recall.

``full``: all sessions, texts as they were read. ``paper`` (MTN, section 5.1): letters, digits and apostrophes alone,
queries of at most 10 words, sessions of 3 to 5 queries.

Models answer as they serve: nothing below the k-anonymity threshold, and no query of the session again unless
``repeats`` is set. ``repeat-last`` shows people their own queries, which needs no threshold. Intervals resample whole
sessions. The verdict tests the best model against the best baseline, by BLEU and by MRR.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.data.queries import Queries, prefixes
from ensue.data.queries.rules import PAPER_RULES, Normalisation, normalise
from ensue.data.rankings import Rankings, placed
from ensue.errors import DataError
from ensue.evaluation.examples import Entries, Examples, Json, Scored, fraction_of, ids_of, means_of, rank_column
from ensue.lines import plural, quoted
from ensue.metrics import STOP_WORDS, Floats
from ensue.tasks.suggest.catalogue import COUNTING
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.tasks.suggest.privacy import prints
from ensue.vocabulary import FIRST, Vocabulary

PROTOCOLS = ("full", "paper")
SHOWN = 10
METRICS = (
    "bleu",
    *(f"precision@{n}" for n in range(1, metrics.NGRAMS + 1)),
    "content@1",
    "exact",
    f"mrr@{SHOWN}",
    f"recall@{SHOWN}",
)
_LENGTHS = ("1", "2", "3", "4 and more")


@dataclass(frozen=True, slots=True, eq=False)
class ScoredSuggestions(Scored):
    """Suggestions of one model for every target.

    Attributes:
        first: (targets,) first suggestions.
        rank: (targets,) of the target among those shown, from 1; ``metrics.MISS`` where it is not shown.
        words: (targets, 10) of :func:`ensue.metrics.ngram_counts`.
        content: the same without stop words.
        seconds: of all predictions.
    """

    first: pl.Series
    rank: Floats
    words: Floats
    content: Floats
    seconds: float = 0.0

    @classmethod
    def of(cls, first: pl.Series, true: pl.Series, rank: Floats, seconds: float = 0.0) -> ScoredSuggestions:
        """Compare (targets,) first suggestions with the true queries."""
        words = metrics.ngram_counts(first, true)
        return cls(first, rank, words, metrics.ngram_counts(first, true, without=STOP_WORDS), seconds)

    def metrics(self) -> Mapping[str, Floats]:
        """Return the (targets,) metrics that are means over targets."""
        return {
            "exact": metrics.hit(self.rank, 1),
            f"mrr@{SHOWN}": metrics.reciprocal_rank(self.rank, SHOWN),
            f"recall@{SHOWN}": metrics.hit(self.rank, SHOWN),
        }

    def pooled(self, weights: Floats) -> Mapping[str, Floats]:
        """Return (draws,) BLEU and n-gram precisions over all weighted targets."""
        # n-gram counts are added up over the targets before any ratio is taken.
        words = weights @ self.words
        precision = metrics.ngram_precision(words)
        content = metrics.ngram_precision(weights @ self.content)
        return {
            "bleu": metrics.bleu(words),
            **{f"precision@{n}": precision[:, n - 1] for n in range(1, metrics.NGRAMS + 1)},
            "content@1": content[:, 0],
        }

    def answers(self) -> Mapping[str, pl.Series]:
        """Return the first suggestion for every target, and the rank of the target."""
        return {"first": self.first, "rank": rank_column(self.rank)}


class NextQueries(Examples[SuggestPredictor, ScoredSuggestions]):
    """The targets of a data set, which models suggest.

    Args:
        entries: fitted predictors by model and seed.
        data: to score; of a file with several parts the test part.
        rankings: what other programs suggest for the queries ``ID:PLACE``.
        protocol: one of ``PROTOCOLS``.

    Raises:
        DataError: nothing to score.
    """

    choices: ClassVar = {"protocol": PROTOCOLS}
    order = "units first"
    names = METRICS
    table_metrics = METRICS
    tested = ("bleu", f"mrr@{SHOWN}")
    baselines = COUNTING

    def __init__(
        self,
        entries: Entries[SuggestPredictor],
        data: Queries,
        rankings: Sequence[Rankings] = (),
        protocol: str = "full",
    ) -> None:
        self.first = entries[0][0]
        self.baseline_predictors = [self.first]
        self.protocol = protocol
        data, self.part = _scored_part(data)
        self.sessions = _by_paper(data.histories) if protocol == "paper" else data.histories
        self.histories, targets = prefixes(self.sessions, self.first.shared.turns)
        if not len(targets):
            raise DataError("nothing to score: no session has two queries")
        values = pl.Series("query", self.sessions.vocabulary.values, dtype=pl.String)
        self.true: pl.Series = values.gather(targets.astype(np.int64) - FIRST)
        self.num_units = len(self.sessions)
        # A session of n queries has n - 1 targets.
        self.units: Index = np.repeat(np.arange(self.num_units), np.maximum(self.sessions.lengths - 1, 0))
        # Targets are sorted by session: the index of a target within its session.
        self.position: Index = np.arange(len(targets)) - np.searchsorted(self.units, self.units)
        self.is_in_training = np.isin(prints(self.sessions), self.first.train_prints)

    def score(self, predictor: SuggestPredictor, component: str | None = None) -> ScoredSuggestions:
        """Suggest for every target by a predictor, or by one of its baselines."""
        # A predictor without a network is one of its own baselines.
        name = predictor.model_name if component is None and predictor.schedule is None else component
        start = time.perf_counter()
        lists = predictor.suggest(self.histories, SHOWN, name)
        seconds = time.perf_counter() - start
        texts = lists.texts
        first = lists.first
        if self.protocol == "paper":
            texts = normalise(texts, "paper")
            first = normalise(first, "paper")
        return ScoredSuggestions.of(first, self.true, metrics.text_ranks(texts, lists.offsets, self.true), seconds)

    def score_rankings(self, rankings: Rankings) -> ScoredSuggestions:
        """Return the suggestions of another program, normalised as the queries of the data are.

        ScoredSuggestions for targets that are not normalised are compared as they are.

        Raises:
            DataError: no list is for a target.
        """
        lists = rankings.best_first()
        queries = placed(self.frame())
        best_lists = lists.frame.filter(pl.col("position") <= SHOWN)
        normalisation: Normalisation = "paper" if self.protocol == "paper" else self.first.metadata.normalisation
        # Normalise foreign suggestions only if the targets are in normal form, or no comparison could match.
        if (normalise(self.true, normalisation) == self.true).all():
            best_lists = best_lists.with_columns(value=normalise(best_lists["value"], normalisation))
        first = pl.DataFrame({"query": queries}).join(
            best_lists.filter(position=1), on="query", how="left", maintain_order="left"
        )
        if not first["value"].count():
            raise DataError(
                f"{rankings.name}: has no list for a target; its first list is for "
                f"{quoted(lists.frame['query'].first() or '')}, the first target is {quoted(queries[0])}"
            )
        # Two suggestions of a list may be the same text after normalisation; the first counts.
        best = best_lists.group_by("query", "value").agg(pl.col("rank").min())
        rank = replace(lists, frame=best).ranks(queries, self.true).cast(pl.Float64).fill_null(metrics.MISS)
        return ScoredSuggestions.of(first["value"].fill_null(""), self.true, rank.to_numpy())

    def frame(self) -> pl.DataFrame:
        """Return one row per target, in the order of the data."""
        ids = ids_of(self.sessions.names, self.units, self.num_units)
        return pl.DataFrame({"id": ids, "unit": self.units, "place": self.position + 1, "target": self.true})

    def notes(self, runs: Sequence[ScoredSuggestions]) -> Json:
        """Return the metrics by length of the session and by presence of the pair of queries in training."""
        # The last group holds all longer sessions.
        length = np.minimum(self.position, len(_LENGTHS) - 1)
        by_length = {label: length == number for number, label in enumerate(_LENGTHS)}
        return {
            "by_length": {label: means_of(runs, mask, METRICS) for label, mask in by_length.items() if mask.any()},
            "by_pair": {
                "seen": means_of(runs, self.is_in_training, METRICS),
                "unseen": means_of(runs, ~self.is_in_training, METRICS),
            },
        }

    def card(self, run: ScoredSuggestions) -> dict[str, str]:
        """Return what the metrics mean."""
        num_targets = len(self.true)
        threshold = self.first.floor
        passing = int(threshold.allowed(self.true).sum())
        stored = int(np.isin(self.true.to_list(), self.first.following.queries.to_list()).sum())
        repeats = "may be suggested again" if self.first.shared.repeats else "are not suggested again"
        rules = ", sessions of 3 to 5 queries of at most 10 words" if self.protocol == "paper" else ""
        queries = plural(len(self.sessions.ids), "query", "queries")
        return {
            "name": self.protocol,
            "data": f"{plural(self.num_units, 'session')}, {queries}{rules}{self.part}",
            "targets": f"{num_targets:,}: every query after the first of its session; "
            f"{fraction_of(stored, num_targets)} are queries of the training data, {fraction_of(passing, num_targets)} "
            "reach the k-anonymity threshold",
            "words": "the first suggestion is compared with the target word by word; n-grams are pooled over all "
            "targets, also those without a suggestion; content words exclude stop words",
            "ranks": f"rank of the target among {SHOWN} suggestions; queries of the session {repeats}",
            "threshold": f"k-anonymity: a query is suggested if {threshold.rule}",
            "baselines": "repeat-last ignores the threshold: it shows users their own queries; the others add popular "
            "queries",
            "leaked": f"{fraction_of(int(self.is_in_training.sum()), num_targets)} of the targets follow the same "
            "query in the training data",
            "interval": "whole sessions",
            "ties": "count against the target; suggestions of one model have no ties",
        }


def _scored_part(data: Queries) -> tuple[Queries, str]:
    """Return the test part of a file with several parts, of which only the sessions that the file marks as novel."""
    names = set(data.parts.unique()) if len(data.parts) else set()
    if "test" not in names or len(names) == 1:
        return data, ""
    test = data.part("test")
    if not len(data.novel) or not test.novel.any():
        return test, "; the part test of the file"
    return data.part("test", novel=True), f"; of the part test ({len(test):,}) those that the file marks as novel"


def _by_paper(sessions: Histories) -> Histories:
    """Return sessions under the paper's rules, whatever rules they were read with."""
    values = normalise(pl.Series("query", sessions.vocabulary.values, dtype=pl.String), "paper")
    vocabulary = Vocabulary(values)
    # Map old ids to new ones: look up each normalised query once, then gather by event.
    ids = vocabulary.ids(values)[sessions.ids.astype(np.int64) - FIRST]
    recoded = replace(sessions, ids=ids, vocabulary=vocabulary)
    # Number of words = number of spaces + 1.
    is_short = (values.str.count_matches(" ", literal=True) + 1 <= (PAPER_RULES.max_words or 0)) & (values != "")
    filtered = recoded.keep(is_short.to_numpy()[sessions.ids.astype(np.int64) - FIRST])
    owners = filtered.sequence_index()
    is_repeated = np.zeros(len(filtered.ids), np.bool_)
    # An event repeats its predecessor if both the query and the session are equal.
    is_repeated[1:] = (filtered.ids[1:] == filtered.ids[:-1]) & (owners[1:] == owners[:-1])
    filtered = filtered.keep(~is_repeated)
    is_valid = (filtered.lengths >= PAPER_RULES.min_queries) & (filtered.lengths <= (PAPER_RULES.max_queries or np.inf))
    return filtered.select(is_valid)
