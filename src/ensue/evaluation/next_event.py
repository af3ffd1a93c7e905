"""The evaluator of ``next``: one protocol card, counting rows beside every model, intervals by resampling sequences.

Under every protocol each event after the first of its sequence is a target; models read the values they know. A value
that a model does not know is a candidate where its history holds it already and the training data repeats values
(:mod:`ensue.tasks.next.own_unknown`); elsewhere it counts as a miss, and so does a target that follows nothing known.

``full``: all values are candidates; what the sequence already holds is ruled out if the training data never repeats a
value; micro average, the mean over targets.

``paper``: what the first model's paper does, one of the next two.

``macro`` (HiDAN, section 3.3): all values are candidates, nothing is ruled out; macro average, the mean over a
sequence's targets, then over sequences.

``sampled`` (SANSR, section IV.A): each target is ranked against 100 candidates drawn at random, nothing is ruled out;
micro average. Figures of this kind are high for any ranker and may order models wrongly (Krichene & Rendle 2020): the
card states the level of chance, and under any protocol a warning stands beside a row that is not above it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories, Index
from ensue.data.rankings import Rankings, placed, tie_rule
from ensue.errors import DataError, SettingError
from ensue.evaluation.bootstrap import RESAMPLES, BootstrapResult, p_value_above, resample
from ensue.evaluation.entries import Entry, beside_counting
from ensue.evaluation.examples import Examples, found_of, named, ranked
from ensue.evaluation.paired_test import paired_tests
from ensue.evaluation.result import TaskResult, with_seeds
from ensue.evaluation.rows import Json, Row, seed_notes
from ensue.lines import plural
from ensue.metrics import Floats
from ensue.tasks.next.catalogue import BEST, COUNTING
from ensue.tasks.next.check import fingerprints
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.reservoir import LATEST
from ensue.vocabulary import FIRST, UNKNOWN

PROTOCOLS = ("full", "paper", "macro", "sampled")
SAMPLED = 100
SAMPLED_IN_PAPER = ("sansr", "sansr-rc", "bpr-mf", "fpmc", "gru4rec", "narm", "stamp")
AT = (10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class Card:
    """What the figures mean: stands beside every table."""

    name: str
    data: str
    targets: str
    candidates: str
    repeats: str
    averaging: str
    ties: str = "count against the target"
    interval: str = f"95 %, {RESAMPLES} resamples of whole sequences"
    leaked: str = ""


class Result(TaskResult[Card]):
    """A table, its card, and whether the first rows beat counting, by MRR."""

    __slots__ = ()
    task = "next"

    @property
    def verdict(self) -> str:
        """The line under the table."""
        if self.model is None:
            best = self.duels[0].figures[1]
            return f"no network among these rows; {self.best_counting} is the best counting row, MRR {100 * best:.2f}"
        word = "yes" if self.beats_counting else "no"
        rival = f"the best counting baseline ({self.best_counting}, by MRR)"
        return f"{self.model} beats {rival}: {word} (p = {self.p_value:.3f})"

    @property
    def shown(self) -> list[str]:
        """MRR and hits."""
        return [name for name in self.rows[0].figures if name == "mrr" or name.startswith("hit")]

    def outcome(self) -> Json:
        """Who wins, as JSON."""
        level = None if self.model is None else self.p_value
        return {"best_counting": self.best_counting, "beats_counting": self.beats_counting, "p_value": level}


@dataclass(frozen=True, slots=True)
class Scored:
    """The ranks one model gives to every target of a data set."""

    model: str
    rank: Floats
    sequence: npt.NDArray[np.int64]
    event: npt.NDArray[np.int64]
    """(targets,) which event of the data each target is."""
    seconds: float

    def only(self, chosen: npt.NDArray[np.bool_]) -> Scored:
        """The targets among (events,) some events."""
        kept = chosen[self.event]
        return replace(self, rank=self.rank[kept], sequence=self.sequence[kept], event=self.event[kept])


def evaluate(predictor: NextPredictor, data: Histories, protocol: str = "full", at: Sequence[int] = AT) -> Result:
    """Score a predictor and the counting models that were fitted on the same data.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown protocol.
    """
    return compare([[predictor]], data, protocol, at)


def compare(
    entries: Sequence[Sequence[NextPredictor]],
    data: Histories,
    protocol: str = "full",
    at: Sequence[int] = AT,
    rankings: Sequence[Rankings] = (),
) -> Result:
    """Score several models, each a list of predictors that differ in their seed alone.

    Figures are means over seeds; intervals resample sequences, and seeds where there are several.

    Args:
        entries: by model.
        data: to score.
        protocol: one of ``PROTOCOLS``.
        at: the cut-offs.
        rankings: what other programs ranked, as it stands: of every event (``ID:PLACE``), or else of the last one of
            each sequence (``ID``), which then is all that is scored.

    Raises:
        DataError: the data holds nothing to score, or rankings of nothing that is scored.
        SettingError: an unknown protocol, or rankings under ``sampled``.
    """
    if protocol not in PROTOCOLS:
        raise SettingError(f"protocol {protocol!r} is not known; choose from {', '.join(PROTOCOLS)}")
    first = entries[0][0]
    asked = protocol
    if protocol == "paper":
        protocol = "sampled" if first.model_name in SAMPLED_IN_PAPER else "macro"
    lines = beside_counting(
        (Entry.of(seeds, lambda predictor: score(predictor, data, protocol)) for seeds in entries),
        first.counted_baselines,
        [first],
        lambda own, name: score(own, data, protocol, counting=name),
    )
    what = "every event after the first"
    if rankings:
        if protocol == "sampled":
            raise SettingError("rankings of all values cannot be scored under the protocol sampled")
        queries, chosen = _queries(data, rankings)
        lines = [replace(line, runs=[run.only(chosen) for run in line.runs]) for line in lines]
        lines = [*(Entry(own.name, [_ranked(own, data, queries, chosen)], [0]) for own in rankings), *lines]
        what = what if (chosen == _targets(data)).all() else "the last event of each sequence"
    found = _resample([line.runs for line in lines], len(data), at, macro=protocol == "macro")
    candidates = _candidates(first, protocol)
    rows = tuple(_row(line, at, own, candidates) for line, own in zip(lines, found, strict=True))
    duels = paired_tests(("mrr",), COUNTING, [line.name for line in lines], found, p_value_above)
    card = with_seeds(_card(first, data, asked, protocol, lines[len(rankings)].runs[0], what), lines)
    card = replace(card, ties=f"{card.ties}{tie_rule(rankings)}")
    examples = Examples(partial(_asked, data, np.sort(lines[0].runs[0].event)), partial(found_of, lines, _ranks))
    return Result(card, rows, duels, tuple(found), examples=examples)


def kept(summary: Json) -> list[str]:
    """What a card says of past histories in the folder: they may be personal data."""
    sums = "how often each value occurs, what follows what, how long histories and pauses are"
    if not (summary["schedule"] or summary["settings"]).get("replay", 1):
        one = "a pair of values that one history alone holds is among them"
        return [f"- nothing of a single history: weights, and sums over all of them ({sums}); {one}."]
    num, lines = summary["facts"]["remembered"], []
    if num:
        many = plural(num, "past history", "past histories")
        what = f"{many} (ids and times, no names; of each the latest {LATEST} events)"
        lines.append(f"- {what} in `reservoir.safetensors`, for updates to learn anew.")
    lines.append(
        "- of every value the latest sessions that hold it, as sets of ids, for VS-kNN, and a 64-bit fingerprint of "
        "each history, to find test histories that were trained on, in `counting.safetensors`."
    )
    if summary["model"] in BEST:
        held = "such sessions" if summary["model"] == "blend" else "past cascades whole (ids and times, no names)"
        lines.append(f"- {held} in `model.safetensors`: the model looks them up.")
    lines.append(f"- sums over all histories: {sums}; counted in a pass or two, which costs less than an epoch.")
    if summary["model"] != "vsknn":
        lines.append("- `ensue fit --set replay=0` keeps weights and sums alone.")
    return lines


def evaluate_alone(
    predictor: NextPredictor, data: Histories, protocol: str, at: Sequence[int] = AT, counting: str | None = None
) -> tuple[Row, Card]:
    """One row without the others, for a study that puts its table together from many runs: counting stands beside.

    Args:
        predictor: fitted.
        data: to score.
        protocol: full, macro or sampled.
        at: the cut-offs.
        counting: one of the predictor's counting models in its place.

    Raises:
        DataError: the data holds nothing to score.
    """
    run = score(predictor, data, protocol, counting)
    (found,) = _resample([[run]], len(data), at, macro=protocol == "macro")
    row = _row(Entry(run.model, [run], [predictor.seed]), at, found, _candidates(predictor, protocol))
    return row, _card(predictor, data, protocol, protocol, run)


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
    found = f"{name}: HR@{k} {figures[f'hit@{k}']:.4f} is not above chance, {level:.4f}"
    return f"{found}: no better than a random order"


def score(predictor: NextPredictor, data: Histories, protocol: str, counting: str | None = None) -> Scored:
    """Rank every target of the data, by the predictor's model or by one of its counting models.

    Raises:
        DataError: the data holds nothing to score.
    """
    coded = data.encode(predictor.vocabulary, number_unknown=True)
    kept = np.flatnonzero(coded.ids != UNKNOWN)
    coded = coded.keep(coded.ids != UNKNOWN)
    sampled = min(SAMPLED, len(predictor.vocabulary) - FIRST - 1) if protocol == "sampled" else 0
    begun = time.perf_counter()
    rank, sequence, event = predictor.ranks(coded, hide=_hides(predictor, protocol), sampled=sampled, counting=counting)
    seconds = time.perf_counter() - begun
    missed = _targets(data)
    missed[kept[event]] = False
    events = np.concatenate([kept[event], np.flatnonzero(missed)])
    if not len(events):
        raise DataError("nothing to score: no sequence has two events")
    rank = np.concatenate([rank, np.full(int(missed.sum()), metrics.MISS)])
    sequence = np.concatenate([sequence, data.sequence_index()[missed]])
    return Scored(counting or predictor.model_name, rank, sequence, events, seconds)


def _targets(data: Histories) -> npt.NDArray[np.bool_]:
    """(events,) whether an event is a target: all but the first of each sequence."""
    targets = np.ones(len(data.ids), np.bool_)
    targets[data.offsets[:-1][data.lengths > 0]] = False
    return targets


def _queries(data: Histories, rankings: Sequence[Rankings]) -> tuple[pl.Series, npt.NDArray[np.bool_]]:
    """(events,) what rankings call each event, and which events are scored.

    Raises:
        DataError: rankings of nothing that is there, or answers of what follows the last event.
    """
    every = _asked(data, np.arange(len(data.ids)))
    last = np.zeros(len(data.ids), np.bool_)
    last[data.offsets[1:][data.lengths > 1] - 1] = True
    for queries, chosen in ((placed(every), _targets(data)), (every["id"], last)):
        known = queries.filter(pl.Series(chosen)).implode()
        if any(own.frame["query"].is_in(known).any() for own in rankings):
            for own in rankings:
                _require_last(own, data)
            return queries, chosen
    raise DataError(
        f"{rankings[0].name}: ranks nothing that is scored; its queries must be ids, such as {every['id'][0]}, or ids "
        f"with how many events stand before, such as {every['id'][0]}:1"
    )


def _require_last(own: Rankings, data: Histories) -> None:
    """Refuse answers of ours that were made from all events of a sequence, or from too few: the last one is scored."""
    answers = own.frame.filter(pl.col("given").is_not_null()).unique("query", maintain_order=True)
    lengths = pl.DataFrame({"query": named(data.names, np.arange(len(data)), len(data)), "length": data.lengths})
    wrong = answers.join(lengths, on="query", maintain_order="left").filter(pl.col("given") != pl.col("length") - 1)
    for query, given, length in wrong.select("query", "given", "length").head(1).iter_rows():
        raise DataError(
            f"{own.name}: the answer for {query} foretells what follows {plural(given, 'event')}, but of its {length} "
            "the last is scored; predict for sequences without their last event"
        )


def _ranked(own: Rankings, data: Histories, queries: pl.Series, chosen: npt.NDArray[np.bool_]) -> Scored:
    """What another program ranked: what its list does not hold is a miss."""
    events = np.flatnonzero(chosen)
    found = own.best_first().ranks(queries.gather(events), _asked(data, events)["target"])
    rank = found.cast(pl.Float64).fill_null(metrics.MISS).to_numpy()
    return Scored(own.name, rank, data.sequence_index()[events], events, 0.0)


def _asked(data: Histories, events: Index) -> pl.DataFrame:
    """A row an event, in the order of the data."""
    sequence = data.sequence_index()[events]
    return pl.DataFrame(
        {
            "id": named(data.names, sequence, len(data)),
            "unit": sequence,
            "place": events - data.offsets[sequence],
            "target": pl.Series(data.vocabulary.values, dtype=pl.String).gather(
                data.ids[events].astype(np.int64) - FIRST
            ),
        }
    )


def _ranks(run: Scored) -> dict[str, pl.Series]:
    """The rank of every target, in the order of the data."""
    return {"rank": ranked(run.rank[np.argsort(run.event)])}


def _hides(predictor: NextPredictor, protocol: str) -> bool:
    return protocol == "full" and not predictor.metadata.repeats


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
        found.append(BootstrapResult((*metrics.names(at),), by_seed, draws[:, :-1] / draws[:, -1:]))
    return found


def _card(
    predictor: NextPredictor,
    data: Histories,
    asked: str,
    protocol: str,
    run: Scored,
    what: str = "every event after the first",
) -> Card:
    coded = data.encode(predictor.vocabulary)
    leaked = np.isin(fingerprints(coded).view(np.int64), predictor.training_hashes.numpy())
    hide = _hides(predictor, protocol)
    twins = f"{plural(int(leaked.sum()), 'sequence')} ({100 * leaked.mean():.1f} %)"
    if not predictor.keeps_histories:
        twins = "not known: with replay=0 the model keeps no fingerprints"
    misses = f"{int(np.isinf(run.rank).sum()):,} of them unknown to the model and counted as misses"
    values = len(predictor.vocabulary) - FIRST
    return Card(
        asked,
        f"{plural(len(data), 'sequence')}, {plural(len(data.ids), 'event')}",
        f"{len(run.rank):,}: {what}, {misses}",
        chance(min(SAMPLED, values - 1)) if protocol == "sampled" else f"all {plural(values, 'value')}",
        "what the sequence already holds is ruled out"
        if hide
        else "what the sequence already holds stays in the ranking",
        "micro: over targets" if protocol != "macro" else "macro: over a sequence's targets, then over sequences",
        leaked=f"{twins} stand value for value in the training data",
    )


def chance(sampled: int) -> str:
    """What a random order scores against so many sampled candidates: any row near or below it has learned nothing."""
    ranks = np.arange(1, sampled + 2)
    hits = ", ".join(f"HR@{k} {min(k / len(ranks), 1):.3f}" for k in (10, 20))
    return f"the target and {sampled} drawn at random; chance is {hits}, MRR {(1 / ranks).mean():.3f}"
