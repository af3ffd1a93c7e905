"""The evaluator of ``suggest``: words of the first suggestion, rank of the true next query, counting beside each model.

Every query after the first of a session is a target; what stood before it in the session is what was typed. The first
suggestion is compared with the target word by word: clipped n-gram precisions and BLEU-4 over all targets, precision
of its words without stop words, and how often it is the target itself. The target's place among ``SHOWN`` suggestions
gives MRR and recall.

``full``: all sessions, texts as they were read. ``paper`` (MTN, section 5.1): letters, digits and apostrophes alone,
queries of at most 10 words, sessions of 3 to 5 queries.

Models answer as they serve: nothing below the privacy floor, and no query of the session again unless ``repeats`` is
set. ``repeat-last`` shows people their own queries, which needs no floor. Intervals resample whole sessions. The
verdict is two-sided and paired: the best network against the best counting row, by BLEU and by MRR.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.data.queries import Queries, prefixes
from ensue.data.queries.rules import PAPER_RULES, Normalisation, normalise
from ensue.data.rankings import Rankings, placed, tie_rule
from ensue.errors import DataError, SettingError
from ensue.evaluation.bootstrap import RESAMPLES, BootstrapResult, resample
from ensue.evaluation.entries import Entry, beside_counting
from ensue.evaluation.examples import Examples, found_of, named, ranked
from ensue.evaluation.paired_test import RULE, paired_tests
from ensue.evaluation.result import TaskResult, with_seeds
from ensue.evaluation.rows import Row, seed_notes, share_of
from ensue.lines import plural, quoted
from ensue.metrics import STOP_WORDS, Floats
from ensue.tasks.suggest.catalogue import COUNTING
from ensue.tasks.suggest.dataset import prints
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue.vocabulary import FIRST, Vocabulary

Mask = npt.NDArray[np.bool_]

PROTOCOLS = ("full", "paper")
SHOWN = 10
MEASURES = (
    "bleu",
    *(f"precision@{n}" for n in range(1, metrics.NGRAMS + 1)),
    "content@1",
    "exact",
    f"mrr@{SHOWN}",
    f"recall@{SHOWN}",
)
RIVAL = ("bleu", f"mrr@{SHOWN}")
"""What the verdict goes by."""
_GRAMS = 2 * metrics.NGRAMS + 2
_LENGTHS = ("1", "2", "3", "4 and more")


@dataclass(frozen=True, slots=True)
class SuggestCard:
    """What the figures mean: stands beside every table."""

    name: str
    data: str
    targets: str
    words: str
    ranks: str
    threshold: str
    baselines: str
    leaked: str
    interval: str
    ties: str
    significance: str = RULE


class SuggestResult(TaskResult[SuggestCard]):
    """A table, its card, and whether a model or counting wins, by each measure of ``RIVAL``."""

    __slots__ = ()
    task = "suggest"


@dataclass(frozen=True, slots=True, eq=False)
class SuggestScored:
    """What one model says of every target.

    Attributes:
        model: its name.
        counts: (targets, 2 x 10 + 3) see :func:`metrics.ngram_counts`, with and without stop words; exact, reciprocal
            rank, whether it is among those shown. They add up.
        seconds: for all targets.
        first: (targets,) first suggestions.
        rank: (targets,) the place of what came, from 1; ``metrics.MISS`` where it is not shown.
    """

    model: str
    counts: Floats
    seconds: float
    first: pl.Series
    rank: Floats


class _Asked:
    """The targets of a data set."""

    def __init__(self, data: Queries, protocol: str, turns: int) -> None:
        sessions = _by_paper(data.histories) if protocol == "paper" else data.histories
        self.paper = protocol == "paper"
        self.before, targets = prefixes(sessions, turns)
        if not len(targets):
            raise DataError("nothing to score: no session has two queries")
        values = pl.Series("query", sessions.vocabulary.values, dtype=pl.String)
        self.true: pl.Series = values.gather(targets.astype(np.int64) - FIRST)
        self.owners: Index = np.repeat(np.arange(len(sessions)), np.maximum(sessions.lengths - 1, 0))
        place = np.arange(len(targets)) - np.searchsorted(self.owners, self.owners)
        self.typed: Index = np.minimum(place, len(_LENGTHS) - 1)
        self.place: Index = place + 1
        self.sessions, self.num_sessions, self.prints = sessions, len(sessions), prints(sessions)

    def to_frame(self) -> pl.DataFrame:
        """A row a target, in the order of the data."""
        ids = named(self.sessions.names, self.owners, self.num_sessions)
        return pl.DataFrame({"id": ids, "unit": self.owners, "place": self.place, "target": self.true})


def compare(
    entries: Sequence[Sequence[SuggestPredictor]],
    data: Queries,
    protocol: str = "full",
    rankings: Sequence[Rankings] = (),
) -> SuggestResult:
    """Score several models, each a list of predictors that differ in their seed alone.

    Args:
        entries: by model.
        data: to score.
        protocol: one of ``PROTOCOLS``.
        rankings: what other programs suggest for the queries ``ID:PLACE``.

    Raises:
        DataError: nothing to score.
        SettingError: an unknown protocol.
    """
    if protocol not in PROTOCOLS:
        raise SettingError(f"protocol {protocol!r} is not known for task suggest; choose from {', '.join(PROTOCOLS)}")
    first = entries[0][0]
    data, part = _scored_part(data)
    asked = _Asked(data, protocol, first.shared.turns)

    def scored(predictor: SuggestPredictor) -> SuggestScored:
        return _score(predictor, asked, predictor.model_name if predictor.schedule is None else None)

    lines = beside_counting(
        (Entry.of(seeds, scored) for seeds in entries), COUNTING, [first], lambda own, name: _score(own, asked, name)
    )
    normalisation: Normalisation = "paper" if asked.paper else first.metadata.normalisation
    lines = [*(Entry(own.name, [_suggested(own, asked, normalisation)], [0]) for own in rankings), *lines]
    counts = [[run.counts for run in line.runs] for line in lines]
    found = resampled(counts, asked.owners, asked.num_sessions, RESAMPLES)
    seen = np.isin(asked.prints, first.train_prints.numpy())
    rows = tuple(_row(line, asked, seen, own) for line, own in zip(lines, found, strict=True))
    tests = paired_tests(RIVAL, COUNTING, [line.name for line in lines], found)
    card = with_seeds(_card(first, asked, protocol, seen, part, rankings), lines)
    examples = Examples(asked.to_frame, partial(found_of, lines, _shown))
    return SuggestResult(card, rows, tests, tuple(found), examples=examples)


def _shown(run: SuggestScored) -> dict[str, pl.Series]:
    """The first suggestion for every target, and the place of what came."""
    return {"first": run.first, "rank": ranked(run.rank)}


def _scored_part(data: Queries) -> tuple[Queries, str]:
    """Of a file with several parts its test, and of that what the file marks as sharing nothing with the others."""
    parts = set(data.parts.unique()) if len(data.parts) else set()
    if "test" not in parts or len(parts) == 1:
        return data, ""
    whole = data.part("test")
    if not len(data.novel) or not whole.novel.any():
        return whole, "; the part test of the file"
    return data.part("test", novel=True), f"; of the part test ({len(whole):,}) those that the file marks as novel"


def _by_paper(sessions: Histories) -> Histories:
    """Sessions under the paper's rules, whatever they were read by."""
    values = normalise(pl.Series("query", sessions.vocabulary.values, dtype=pl.String), "paper")
    vocabulary = Vocabulary(values)
    ids = vocabulary.ids(values)[sessions.ids.astype(np.int64) - FIRST]
    recoded = replace(sessions, ids=ids, vocabulary=vocabulary)
    short = (values.str.count_matches(" ", literal=True) + 1 <= (PAPER_RULES.max_words or 0)) & (values != "")
    kept = recoded.keep(short.to_numpy()[sessions.ids.astype(np.int64) - FIRST])
    owners = kept.sequence_index()
    again = np.zeros(len(kept.ids), np.bool_)
    again[1:] = (kept.ids[1:] == kept.ids[:-1]) & (owners[1:] == owners[:-1])
    kept = kept.keep(~again)
    is_short = kept.lengths <= (PAPER_RULES.max_queries or np.inf)
    return kept.select((kept.lengths >= PAPER_RULES.min_queries) & is_short)


def _score(predictor: SuggestPredictor, asked: _Asked, counting: str | None) -> SuggestScored:
    """Suggest for every target, by the predictor's model or by one of its counting models."""
    begun = time.perf_counter()
    found = predictor.suggest(asked.before, SHOWN, counting)
    seconds = time.perf_counter() - begun
    texts, first = (normalise(own, "paper") if asked.paper else own for own in (found.texts, found.first))
    rank = metrics.text_ranks(texts, found.offsets, asked.true)
    return SuggestScored(counting or predictor.model_name, counted(first, asked.true, rank), seconds, first, rank)


def _suggested(rankings: Rankings, asked: _Asked, normalisation: Normalisation) -> SuggestScored:
    """Return the suggestions of another program, normalised as the queries of the data are.

    Args:
        rankings: lists of suggestions.
        asked: the targets.
        normalisation: of the queries; suggestions for targets that are not normalised are compared as they are.

    Raises:
        DataError: no list is for a target.
    """
    lists = rankings.best_first()
    queries = placed(asked.to_frame())
    shown = lists.frame.filter(pl.col("position") <= SHOWN)
    if (normalise(asked.true, normalisation) == asked.true).all():
        shown = shown.with_columns(value=normalise(shown["value"], normalisation))
    first = pl.DataFrame({"query": queries}).join(
        shown.filter(position=1), on="query", how="left", maintain_order="left"
    )
    if not first["value"].count():
        raise DataError(
            f"{rankings.name}: has no list for a target; its first list is for "
            f"{quoted(lists.frame['query'].first() or '')}, the first target is {quoted(queries[0])}"
        )
    # Two suggestions of a list may be one after normalisation; the first counts.
    best = shown.group_by("query", "value").agg(pl.col("rank").min())
    rank = replace(lists, frame=best).ranks(queries, asked.true).cast(pl.Float64).fill_null(metrics.MISS).to_numpy()
    texts = first["value"].fill_null("")
    return SuggestScored(rankings.name, counted(texts, asked.true, rank), 0.0, texts, rank)


def counted(first: pl.Series, true: pl.Series, rank: Floats) -> Floats:
    """(targets, 2 x 10 + 3) what adds up over targets, see :class:`SuggestScored`.

    Args:
        first: (targets,) first suggestions.
        true: (targets,) what came.
        rank: (targets,) its place among those shown, from 1; ``metrics.MISS`` where it is not.
    """
    words, content = (metrics.ngram_counts(first, true, without=without) for without in ((), STOP_WORDS))
    ranks = [metrics.hit(rank, 1), metrics.reciprocal_rank(rank, SHOWN), metrics.hit(rank, SHOWN)]
    return np.concatenate([words, content, np.stack(ranks, axis=1)], axis=1)


def figures_of(sums: Floats, targets: Floats) -> Floats:
    """(…, ``MEASURES``) from (…, 23) sums of :func:`counted` over so many (…) targets."""
    words, content, ranks = sums[..., :_GRAMS], sums[..., _GRAMS : 2 * _GRAMS], sums[..., 2 * _GRAMS :]
    precision = metrics.ngram_precision(words)
    parts = (
        metrics.bleu(words)[..., None],
        precision,
        metrics.ngram_precision(content)[..., :1],
        ranks / np.maximum(targets, 1)[..., None],
    )
    return np.concatenate(parts, axis=-1)


def resampled(
    runs: Sequence[Sequence[Floats]], owners: Index, num_sessions: int, resamples: int
) -> list[BootstrapResult]:
    """Figures of each model, and the same for resampled sessions.

    Args:
        runs: (targets, 23) :func:`counted` of each model, one a seed.
        owners: (targets,) the session of each.
        num_sessions: those without targets included.
        resamples: how often.
    """
    counts = np.bincount(owners, minlength=num_sessions).astype(np.float64)
    sums = [
        [np.stack([np.bincount(owners, column, num_sessions) for column in run.T], axis=1) for run in seeds]
        for seeds in runs
    ]

    def figures(times: Floats) -> Iterator[Floats]:
        for seeds in sums:
            yield np.stack([figures_of(times @ own, times @ counts) for own in seeds])

    whole = np.array(counts.sum())
    by_seed = [np.stack([figures_of(own.sum(0), whole) for own in seeds]) for seeds in sums]
    drawn = resample([*map(len, sums)], num_sessions, figures, order="units first", resamples=resamples)
    num_units = int((counts > 0).sum())
    return [BootstrapResult(MEASURES, own, draws, num_units) for own, draws in zip(by_seed, drawn, strict=True)]


def _row(entry: Entry[SuggestScored], asked: _Asked, seen: Mask, found: BootstrapResult) -> Row:
    runs, notes = entry.runs, seed_notes(entry.seeds, found)
    notes["by_length"] = {
        label: _part(runs, asked.typed == place) for place, label in enumerate(_LENGTHS) if (asked.typed == place).any()
    }
    notes["by_pair"] = {"seen": _part(runs, seen), "unseen": _part(runs, ~seen)}
    seconds = 1000 * sum(run.seconds for run in runs) / sum(len(run.counts) for run in runs)
    return Row(entry.name, found.by_name(), found.interval(), seconds, notes)


def _part(seeds: Sequence[SuggestScored], chosen: Mask) -> dict[str, float]:
    """The measures over some of the targets, and how many those are."""
    count = np.array(chosen.sum(), np.float64)
    found = np.mean([figures_of(run.counts[chosen].sum(0), count) for run in seeds], 0)
    return {"targets": int(count), **dict(zip(MEASURES, found.tolist(), strict=True))}


def _card(
    predictor: SuggestPredictor, asked: _Asked, protocol: str, seen: Mask, part: str, rankings: Sequence[Rankings] = ()
) -> SuggestCard:
    num_targets, floor = len(asked.true), predictor.floor
    passing = int(floor.allowed(asked.true).sum())
    stored = int(np.isin(asked.true.to_list(), predictor.following.queries.to_list()).sum())
    typed = "may be suggested again" if predictor.shared.repeats else "are not suggested again"
    rules = ", sessions of 3 to 5 queries of at most 10 words" if protocol == "paper" else ""
    return SuggestCard(
        protocol,
        f"{plural(asked.num_sessions, 'session')}, {plural(len(asked.sessions.ids), 'query', 'queries')}{rules}{part}",
        f"{num_targets:,}: every query after the first of its session; {share_of(stored, num_targets)} are queries "
        f"of the training data, {share_of(passing, num_targets)} reach the k-anonymity threshold",
        "the first suggestion is compared with the target word by word; n-grams are pooled over all targets, also "
        "those without a suggestion; content words exclude stop words",
        f"rank of the target among {SHOWN} suggestions; queries of the session {typed}",
        f"k-anonymity: a query is suggested if {floor.rule}",
        "repeat-last ignores the threshold: it shows users their own queries; the others add popular queries",
        f"{share_of(int(seen.sum()), num_targets)} of the targets follow the same query in the training data",
        f"95 %, {RESAMPLES} resamples of whole sessions",
        f"count against the target; suggestions of one model have no ties{tie_rule(rankings)}",
    )
