"""The evaluator of ``next``: a protocol card, baselines next to every model, intervals by resampling sequences.

A target is an event that a model has to predict from the events before it. The protocols:

``full``: every event after the first of its sequence is a target, ranked among all values; what the sequence already
holds is ruled out if the training data never repeats a value; micro average, the mean over targets.

``last``: as ``full``, but only the last event of each sequence is a target (leave-one-out).

``macro`` (HiDAN, section 3.3): every event after the first, all values are candidates, nothing is ruled out; macro
average, the mean over a sequence's targets, then over sequences.

``sampled`` (SANSR, section IV.A): each target is ranked against 100 candidates drawn at random, nothing is ruled out;
micro average. Metrics of this kind are high for any ranker and may order models wrongly (Krichene & Rendle 2020): the
card states the level of chance, and under any protocol a warning is printed for a row that is not above it.

``paper``: the one of these that the first model's paper uses.

Unknown events are those that the training data lacks. One rule holds for every row, and the card names it:

``miss``: an unknown target is a miss, and unknown events of a sequence are no candidates; what ``predict`` answers.

``drop``: unknown targets are not scored; what most papers print.

``rank``: unknown events that a sequence holds already are candidates for its later targets, by the share of such events
that came again in the training data (:mod:`ensue.tasks.next.own_unknown`); other unknown targets are misses.

Metrics rank what the protocol ranks, as papers do, also where ``predict`` leaves out items of a sequence by default
(:class:`ensue.tasks.next.metadata.Exclusion`). The card then says so, with the metrics of the lists that are served.

Under all three a known target that follows no known event is ranked by popularity, which is what ``predict`` answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.data.rankings import Rankings, placed, tie_rule
from ensue.errors import DataError, SettingError
from ensue.evaluation.bootstrap import RESAMPLES, BootstrapResult, resample
from ensue.evaluation.entries import Entry, beside_counting
from ensue.evaluation.examples import Examples, found_of, named, ranked
from ensue.evaluation.paired_test import RULE, paired_tests
from ensue.evaluation.result import TaskResult, with_seeds
from ensue.evaluation.rows import Row, seed_notes
from ensue.lines import plural
from ensue.metrics import CUTOFFS, Floats
from ensue.tasks.next.catalogue import COUNTING
from ensue.tasks.next.metadata import Exclusion
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.training_data import fingerprints
from ensue.vocabulary import FIRST, UNKNOWN

Mask = npt.NDArray[np.bool_]
"""(events,) of a data set."""

PROTOCOLS = ("full", "last", "paper", "macro", "sampled")
PUBLISHED = {
    "full": "all items ranked after every event: GRU4Rec, NARM, STAMP and SR-GNN, whose papers drop unseen items and "
    "exclude none that the session already has",
    "last": "leave-one-out: SASRec and BERT4Rec, whose papers rank against 100 sampled items",
    "macro": "mean over cascades: HiDAN and CYAN-RNN, whose papers drop unseen users",
    "sampled": "100 sampled candidates: SANSR's own row in its paper",
}
"""Which papers use a protocol, and where they differ from it."""
PAPER_PROTOCOLS = {
    "sansr": "sampled",
    "sansr-paper": "sampled",
    "sansr-rc": "sampled",
    "gru4rec": "full",
    "narm": "full",
    "stamp": "full",
    "fpmc": "full",
    "bpr-mf": "last",
}
"""By model (``NAME-paper`` counts as ``NAME``), the protocol of its paper; ``macro`` for all others."""
UNKNOWN_RULES = {"miss": "misses", "drop": "not scored", "rank": "ranked where the session has them"}
"""Rule for targets unseen in training -> what they are."""
SAMPLED = 100
EVERY, LAST = "every event after the first", "the last event of each session"


@dataclass(frozen=True, slots=True)
class Card:
    """What the metrics of a table mean.

    Attributes:
        name: of the protocol.
        data: sequences and events.
        targets: how many are scored, how many the training data lacks, and how many follow no known event.
        unknown: the rule for events that the training data lacks, one of ``UNKNOWN_RULES``.
        candidates: what each target is ranked among.
        repeats: whether events of the sequence are ruled out.
        served: where ``predict`` rules out others by default: which, and the metrics of its lists.
        averaging: over what the mean is taken.
        published: which papers use this protocol.
        ties: how equal scores count.
        interval: what is resampled.
        leaked: how many sequences the training data holds too.
        significance: the rule of the verdict.
    """

    name: str
    data: str
    targets: str
    unknown: str
    candidates: str
    repeats: str
    averaging: str
    published: str
    served: str = ""
    ties: str = "count against the target"
    interval: str = f"95 %, {RESAMPLES} resamples of whole sessions"
    leaked: str = ""
    significance: str = RULE


class Result(TaskResult[Card]):
    """A table, its card, and whether the first rows beat counting, by MRR."""

    __slots__ = ()
    task = "next"

    @property
    def shown(self) -> list[str]:
        """MRR and hits."""
        return [name for name in self.rows[0].figures if name == "mrr" or name.startswith("hit")]


@dataclass(frozen=True, slots=True)
class Scored:
    """The ranks one model gives to every target of a data set."""

    model: str
    rank: Floats
    sequence: npt.NDArray[np.int64]
    event: npt.NDArray[np.int64]
    """(targets,) which event of the data each target is."""
    seconds: float


def evaluate(
    predictor: NextPredictor,
    data: Histories,
    protocol: str = "full",
    at: Sequence[int] = CUTOFFS,
    unknown: str = "miss",
) -> Result:
    """Score a predictor and the baselines that were fitted on the same data.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown protocol or rule.
    """
    return compare([[predictor]], data, protocol, at, unknown)


def compare(
    entries: Sequence[Sequence[NextPredictor]],
    data: Histories,
    protocol: str = "full",
    at: Sequence[int] = CUTOFFS,
    unknown: str = "miss",
    rankings: Sequence[Rankings] = (),
) -> Result:
    """Score several models, each a list of predictors that differ in their seed alone.

    Metrics are means over seeds; intervals resample sequences, and seeds where there are several.

    Args:
        entries: by model.
        data: to score.
        protocol: one of ``PROTOCOLS``.
        at: the cutoffs.
        unknown: one of ``UNKNOWN_RULES``. A target is dropped where no model's training data holds it.
        rankings: what other programs ranked, as it stands: of every event (``ID:PLACE``), or else of the last one of
            each sequence (``ID``), which then is all that is scored. ``miss`` holds for them too.

    Raises:
        DataError: the data holds nothing to score, or rankings of nothing that is scored.
        SettingError: an unknown protocol or rule, or rankings under ``sampled``.
    """
    first = entries[0][0]
    applied = resolve_protocol(protocol, first.model_name)
    is_target = _targets(data, applied)
    if rankings:
        if applied == "sampled":
            raise SettingError("rankings of all items cannot be scored under the protocol sampled")
        queries, is_ranked = _queries(data, rankings, is_target)
        if applied == "full" and not is_ranked[is_target].all():
            protocol = applied = "last"
        is_target = is_target & is_ranked
    predictors = [predictor for seeds in entries for predictor in seeds]
    is_scored = _scored(data, is_target, unknown, predictors)
    rank = partial(_rank_targets, data=data, is_scored=is_scored, protocol=applied, unknown=unknown)
    lines = beside_counting(
        (Entry.of(seeds, rank) for seeds in entries),
        first.counted_baselines,
        [first],
        lambda predictor, name: rank(predictor, counting=name),
    )
    card = _card(first, lines[0].runs[0], data, (protocol, applied, unknown), is_target, _common_vocabulary(predictors))
    if rankings:
        is_known = is_scored if unknown != "miss" else is_scored & _in_training(data, predictors)
        lines = [
            *(Entry(own.name, [_ranked(own, data, queries, is_scored, is_known)], [0]) for own in rankings),
            *lines,
        ]
    found = _resample([line.runs for line in lines], len(data), at, macro=applied == "macro")
    candidates = _candidates(first, applied)
    rows = tuple(_row(line, at, own, candidates) for line, own in zip(lines, found, strict=True))
    tests = paired_tests(("mrr",), COUNTING, [line.name for line in lines], found)
    examples = Examples(partial(_asked, data, lines[0].runs[0].event), partial(found_of, lines, _ranks))
    served = _served(entries, rank, at, applied) if not rankings else ""
    card = replace(with_seeds(card, lines), ties=f"{card.ties}{tie_rule(rankings)}", served=served)
    return Result(card, rows, tests, tuple(found), examples=examples)


def resolve_protocol(protocol: str, model_name: str) -> str:
    """Return the protocol that is applied: ``paper`` stands for the one of the model's paper.

    Raises:
        SettingError: an unknown protocol.
    """
    if protocol not in PROTOCOLS:
        raise SettingError(f"protocol {protocol!r} is not known; choose from {', '.join(PROTOCOLS)}")
    return PAPER_PROTOCOLS.get(model_name.removesuffix("-paper"), "macro") if protocol == "paper" else protocol


def evaluate_alone(
    predictor: NextPredictor,
    data: Histories,
    protocol: str,
    at: Sequence[int] = CUTOFFS,
    counting: str | None = None,
    unknown: str = "miss",
) -> tuple[Row, Card]:
    """Return one row without the others, for a study that makes its table from many runs, and its card.

    Args:
        predictor: fitted.
        data: to score.
        protocol: full, last, macro or sampled.
        at: the cutoffs.
        counting: one of the predictor's baselines instead of its model.
        unknown: one of ``UNKNOWN_RULES``.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown rule.
    """
    run = score(predictor, data, protocol, counting, unknown)
    (found,) = _resample([[run]], len(data), at, macro=protocol == "macro")
    row = _row(Entry(run.model, [run], [predictor.seed]), at, found, _candidates(predictor, protocol))
    return row, _card(predictor, run, data, (protocol, protocol, unknown), _targets(data, protocol))


def _candidates(predictor: NextPredictor, protocol: str) -> int:
    values = len(predictor.vocabulary) - FIRST
    return min(SAMPLED + 1, values) if protocol == "sampled" else values


def _row(entry: Entry[Scored], at: Sequence[int], found: BootstrapResult, candidates: int) -> Row:
    figures, interval = found.by_name(), found.interval()
    seconds = 1000 * sum(run.seconds for run in entry.runs) / max(1, sum(len(run.rank) for run in entry.runs))
    warning = _warning(entry.name, figures, interval, min(at), candidates)
    return Row(entry.name, figures, interval, seconds, seed_notes(entry.seeds, found), warning)


def _warning(
    name: str, figures: Mapping[str, float], interval: Mapping[str, tuple[float, float]], k: int, candidates: int
) -> str:
    """Says so unless the whole interval at the first cut-off lies above a random order's k / candidates."""
    level = k / candidates
    if level >= 1 or interval[f"hit@{k}"][0] > level:
        return ""
    metric = f"{name}: HR@{k} {100 * figures[f'hit@{k}']:.2f} %"
    return f"{metric} is not significantly above {100 * level:.2f} %, that of a random order"


def score(
    predictor: NextPredictor, data: Histories, protocol: str, counting: str | None = None, unknown: str = "miss"
) -> Scored:
    """Rank every target of the data, by the predictor's model or by one of its baselines.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown rule.
    """
    is_scored = _scored(data, _targets(data, protocol), unknown, [predictor])
    return _rank_targets(predictor, data, is_scored, protocol, unknown, counting)


def _rank_targets(
    predictor: NextPredictor, data: Histories, is_scored: Mask, protocol: str, unknown: str,
    counting: str | None = None, exclusion: Exclusion | None = None,
) -> Scored:  # fmt: skip
    """Rank the events that are scored, without what the protocol or ``exclusion`` rules out; the others are misses."""
    coded = data.encode(predictor.vocabulary, number_unknown=True)
    begun = time.perf_counter()
    rank, _, event = predictor.ranks(
        coded,
        exclusion=exclusion or _exclusion(predictor, protocol),
        sampled=min(SAMPLED, len(predictor.vocabulary) - FIRST - 1) if protocol == "sampled" else 0,
        counting=counting,
        context=np.maximum(data.lengths - 1, 0) if protocol == "last" else None,
        rank_unknown=unknown == "rank",
    )
    seconds = time.perf_counter() - begun
    ranks = np.full(len(data.ids), metrics.MISS)
    ranks[event] = rank
    events = np.flatnonzero(is_scored)
    return Scored(counting or predictor.model_name, ranks[events], data.sequence_index()[events], events, seconds)


def _targets(data: Histories, protocol: str) -> Mask:
    """(events,) whether an event is a target: all but the first of each sequence, or the last of two and more."""
    targets = np.ones(len(data.ids), np.bool_)
    targets[data.offsets[:-1][data.lengths > 0]] = False
    return targets & _last(data) if protocol == "last" else targets


def _last(data: Histories) -> Mask:
    """(events,) whether an event is the last of its sequence."""
    last = np.zeros(len(data.ids), np.bool_)
    last[data.offsets[1:][data.lengths > 0] - 1] = True
    return last


def _scored(data: Histories, is_target: Mask, unknown: str, predictors: Sequence[NextPredictor]) -> Mask:
    """(events,) which targets are scored: all, or those that the training data of any predictor holds.

    Raises:
        DataError: none.
        SettingError: an unknown rule.
    """
    if unknown not in UNKNOWN_RULES:
        raise SettingError(f"unknown {unknown!r} is not a rule; choose from {', '.join(UNKNOWN_RULES)}")
    if not is_target.any():
        raise DataError("nothing to score: no session has two events")
    if unknown != "drop":
        return is_target
    is_scored = is_target & _in_training(data, predictors)
    if not is_scored.any():
        raise DataError(
            f"nothing to score: the training data has none of the {plural(int(is_target.sum()), 'target')}; "
            "--unknown miss counts them as misses"
        )
    return is_scored


def _in_training(data: Histories, predictors: Sequence[NextPredictor]) -> Mask:
    """(events,) whether the training data of any predictor holds the value."""
    vocabularies = {id(predictor.vocabulary): predictor.vocabulary for predictor in predictors}
    known = np.zeros(len(data.ids), np.bool_)
    for vocabulary in vocabularies.values():
        known |= data.encode(vocabulary).ids != UNKNOWN
    return known


def _common_vocabulary(predictors: Sequence[NextPredictor]) -> bool:
    """Whether all predictors know the same values."""
    first, *others = (predictor.vocabulary for predictor in predictors)
    return all(other == first or set(other.values) == set(first.values) for other in others)


def _queries(data: Histories, rankings: Sequence[Rankings], is_target: Mask) -> tuple[pl.Series, Mask]:
    """(events,) what rankings call each event, and whether they rank it: all targets, or the last of each sequence.

    Raises:
        DataError: rankings of nothing that is there, or answers of what follows the last event.
    """
    every = _asked(data, np.arange(len(data.ids)))
    for queries, chosen in ((placed(every), is_target), (every["id"], is_target & _last(data))):
        known = queries.filter(pl.Series(chosen)).implode()
        if any(own.frame["query"].is_in(known).any() for own in rankings):
            for own in rankings:
                _require_last(own, data)
            return queries, chosen
    raise DataError(
        f"{rankings[0].name}: ranks no scored query; its queries must be ids, such as {every['id'][0]}, or ids with "
        f"the number of earlier events, such as {every['id'][0]}:1"
    )


def _require_last(own: Rankings, data: Histories) -> None:
    """Refuse answers of ours that were made from all events of a sequence, or from too few: the last one is scored."""
    answers = own.frame.filter(pl.col("given").is_not_null()).unique("query", maintain_order=True)
    lengths = pl.DataFrame({"query": named(data.names, np.arange(len(data)), len(data)), "length": data.lengths})
    wrong = answers.join(lengths, on="query", maintain_order="left").filter(pl.col("given") != pl.col("length") - 1)
    for query, given, length in wrong.select("query", "given", "length").head(1).iter_rows():
        raise DataError(
            f"{own.name}: the answer for {query} predicts what follows {plural(given, 'event')}, but only the last "
            f"of its {length} is scored; predict for sessions without their last event"
        )


def _ranked(own: Rankings, data: Histories, queries: pl.Series, is_scored: Mask, is_known: Mask) -> Scored:
    """What another program ranked: a target that its list lacks is a miss, and so is one that is not known."""
    events = np.flatnonzero(is_scored)
    found = own.best_first().ranks(queries.gather(events), _asked(data, events)["target"])
    rank = np.where(is_known[events], found.cast(pl.Float64).fill_null(metrics.MISS).to_numpy(), metrics.MISS)
    return Scored(own.name, rank, data.sequence_index()[events], events, 0.0)


def _asked(data: Histories, events: Index) -> pl.DataFrame:
    """A row an event, in the order of the data."""
    sequence = data.sequence_index()[events]
    values = pl.Series(data.ids[events].astype(np.int64) - FIRST).replace(UNKNOWN - FIRST, None)  # no value, no text
    return pl.DataFrame(
        {
            "id": named(data.names, sequence, len(data)),
            "unit": sequence,
            "place": events - data.offsets[sequence],
            "target": pl.Series(data.vocabulary.values, dtype=pl.String).gather(values),
        }
    )


def _ranks(run: Scored) -> dict[str, pl.Series]:
    """The rank of every target, in the order of the data."""
    return {"rank": ranked(run.rank)}


def _exclusion(predictor: NextPredictor, protocol: str) -> Exclusion:
    """What a protocol rules out."""
    return predictor.metadata.ruled_out if protocol in ("full", "last") else Exclusion.NONE


def _served(
    entries: Sequence[Sequence[NextPredictor]], rank: Callable[..., Scored], at: Sequence[int], protocol: str
) -> str:
    """Say which items ``predict`` leaves out though the metrics do not, and how its lists of one model score."""
    predictors = [seeds[0] for seeds in entries]
    default = [predictor.metadata.exclusion for predictor in predictors]
    left_out = {Exclusion.SEEN: "items already in the session", Exclusion.LAST: "the item just viewed"}
    differs = [
        f"{predictor.model_name} leaves out {left_out[exclusion]}"
        for predictor, exclusion in zip(predictors, default, strict=True)
        if exclusion in left_out and exclusion is not _exclusion(predictor, protocol)
    ]
    if not differs or protocol == "sampled":
        return ""
    sentence = f"by default predict of {', '.join(dict.fromkeys(differs))}; the metrics here do not"
    if len(entries) > 1:
        return f"{sentence}, and evaluate of one model says how its lists score"
    averages = []
    for predictor, exclusion in zip(entries[0], [seed.metadata.exclusion for seed in entries[0]], strict=True):
        run = rank(predictor, exclusion=exclusion)
        sums, counts = metrics.per_sequence(metrics.values(run.rank, at), run.sequence, int(run.sequence.max()) + 1)
        sums, counts = sums[counts > 0], counts[counts > 0, None]
        averages.append((sums / counts).mean(0) if protocol == "macro" else sums.sum(0) / counts.sum())
    scores = dict(zip(metrics.names(at), np.mean(averages, 0), strict=True))
    shown = {"MRR": scores["mrr"], **{f"HR@{k}": scores[f"hit@{k}"] for k in at}}
    return f"{sentence}. As served: {', '.join(f'{name} {100 * score:.2f}' for name, score in shown.items())}"


def _resample(
    runs: Sequence[Sequence[Scored]], num_sequences: int, at: Sequence[int], *, macro: bool
) -> list[BootstrapResult]:
    """Figures of each model, and the same for resampled sequences."""
    table = [
        [metrics.per_sequence(metrics.values(run.rank, at), run.sequence, num_sequences) for run in seeds]
        for seeds in runs
    ]
    counts = table[0][0][1]
    used = counts > 0
    counts = np.ones(int(used.sum())) if macro else counts[used]
    models = [[(sums[used] / own[used, None] if macro else sums[used]) for sums, own in seeds] for seeds in table]

    def summed(times: Floats) -> Iterator[Floats]:
        targets = (times @ counts)[:, None]
        for seeds in models:
            yield np.stack([np.append(times @ sums, targets, axis=1) for sums in seeds])

    found = []
    drawn = resample([*map(len, models)], len(counts), summed, order="in turn", resamples=RESAMPLES)
    for seeds, draws in zip(models, drawn, strict=True):
        by_seed = np.stack([sums.sum(0) for sums in seeds]) / counts.sum()
        found.append(BootstrapResult((*metrics.names(at),), by_seed, draws[:, :-1] / draws[:, -1:], len(counts)))
    return found


def _card(
    predictor: NextPredictor,
    run: Scored,
    data: Histories,
    rules: tuple[str, str, str],
    is_target: Mask,
    same_vocabulary: bool = True,
) -> Card:
    """Return the card of a table.

    Args:
        predictor: the first model's.
        run: its ranks.
        data: what is scored.
        rules: the protocol by its name, the one that is applied, and the rule for unknown events.
        is_target: (events,) the targets of the protocol, dropped ones among them.
        same_vocabulary: whether the training data of all models holds the same values.
    """
    name, applied, unknown = rules
    coded = data.encode(predictor.vocabulary)
    leaked = np.isin(fingerprints(coded).view(np.int64), predictor.training_hashes.numpy())
    copies = f"{plural(int(leaked.sum()), 'session')} ({100 * leaked.mean():.1f} %)"
    if not predictor.keeps_histories:
        copies = "not known: with replay=0 the model keeps no fingerprints"
    excluded = _exclusion(predictor, applied)
    values = len(predictor.vocabulary) - FIRST
    training = "the training data" if same_vocabulary else f"the training data of {predictor.model_name}"
    every = applied != "last" and np.array_equal(is_target, _targets(data, applied))
    return Card(
        name,
        f"{plural(len(data), 'session')}, {plural(len(data.ids), 'event')}",
        f"{len(run.rank):,}: {EVERY if every else LAST}; {_counts(coded, run, is_target, unknown, training)}",
        f"{unknown}: targets unseen in training are {UNKNOWN_RULES[unknown]}",
        chance(min(SAMPLED, values - 1)) if applied == "sampled" else f"all {plural(values, 'item')}",
        f"items already in the session {'are excluded' if excluded is Exclusion.SEEN else 'stay in the ranking'}",
        "micro: over targets" if applied != "macro" else "macro: over the targets of a session, then over sessions",
        PUBLISHED[applied],
        leaked=f"{copies} are exact duplicates of training data",
    )


def _counts(coded: Histories, run: Scored, is_target: Mask, unknown: str, training: str) -> str:
    """How many targets the training data lacks and what became of them, and how many follow no known event."""
    is_known = coded.ids != UNKNOWN
    num_dropped = int(is_target.sum()) - len(run.rank)
    num_unknown = int((~is_known[run.event]).sum())
    num_ranked = int(np.isfinite(run.rank[~is_known[run.event]]).sum())
    num_known_before = np.concatenate([[0], np.cumsum(is_known)])
    starts = coded.offsets[:-1][run.sequence]
    after_none = is_known[run.event] & (num_known_before[run.event] == num_known_before[starts])
    lacking = {
        "miss": f"{num_unknown:,} not in {training} (misses)",
        "drop": f"{num_dropped:,} more in no training data (not scored)",
        "rank": f"{num_unknown:,} not in {training} ({num_ranked:,} ranked, {num_unknown - num_ranked:,} misses)",
    }
    counts = [lacking[unknown], f"{int(after_none.sum()):,} after unseen events only (ranked by popularity)"]
    if unknown == "drop" and num_unknown:  # another model's training data holds them
        counts.insert(1, lacking["miss"])
    return ", ".join(counts)


def chance(sampled: int) -> str:
    """What a random order scores against so many sampled candidates: any row near or below it has learned nothing."""
    ranks = np.arange(1, sampled + 2)
    hits = ", ".join(f"HR@{k} {min(k / len(ranks), 1):.3f}" for k in (10, 20))
    return f"the target and {sampled} random items; a random order has {hits}, MRR {(1 / ranks).mean():.3f}"
