"""Evaluation of task ``next``: protocols, ranks of the targets, and the card.

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
(:class:`ensue.tasks.next.state.Exclusion`). The card then says so, with the metrics of the lists that are served.

With ``diversify`` or ``max_per`` each model has a further row: the lists of as many items as the largest cutoff that
``predict`` answers by these rules (:mod:`ensue.tasks.next.reranking`). All other items come behind them.

Under all three a known target that follows no known event is ranked by popularity, which is what ``predict`` answers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import polars as pl

from ensue import metrics
from ensue.data.histories import Histories, Index, Mask, offsets_of
from ensue.data.rankings import Rankings, placed
from ensue.errors import DataError, SettingError
from ensue.evaluation.beyond_accuracy import RerankedItems, is_popular, list_metrics
from ensue.evaluation.bootstrap import BootstrapResult, means_over_units
from ensue.evaluation.examples import Entries, Examples, Json, Scored, ids_of, means_of, rank_column
from ensue.evaluation.new_items import NewItemBaselines
from ensue.lines import plural
from ensue.metrics import CUTOFFS, Floats
from ensue.tasks.next.item_filter import Rules
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.ranking import BestItems
from ensue.tasks.next.training_data import Exclusion, fingerprints
from ensue.vocabulary import FIRST, UNKNOWN

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
    **dict.fromkeys(("sansr", "sansr-rc"), "sampled"),
    **dict.fromkeys(("gru4rec", "narm", "stamp", "sr-gnn", "fpmc"), "full"),
    **dict.fromkeys(("bpr-mf", "sasrec", "esasrec", "bert4rec", "hstu"), "last"),
}
"""By model (``NAME-paper`` counts as ``NAME``), the protocol of its paper; ``macro`` for all others."""
UNKNOWN_RULES = {"miss": "misses", "drop": "not scored", "rank": "ranked where the session has them"}
"""Rule for targets unseen in training -> what they are."""
SAMPLED = 100
ALL_EVENTS = "every event after the first"
LAST_EVENT = "the last event of each session"


@dataclass(frozen=True, eq=False)
class TargetRanks(Scored):
    """The rank that one model gives to every target.

    Attributes:
        rank: (targets,) from 1; ``metrics.MISS`` where it has none.
        cutoffs: k of HR@k and NDCG@k.
        seconds: of all predictions.
        new_item_ranks: (targets,) ranks by each baseline that scores new items, if there are new items.
        lists: (lists, k) ids of the best items at each target that is ranked among all items.
        listed: (lists,) ids of these targets.
        predictor: whose ids these are; ``None`` for another program.
    """

    rank: Floats
    cutoffs: Sequence[int]
    seconds: float = 0.0
    new_item_ranks: Mapping[str, Floats] = field(default_factory=dict)
    lists: Index = field(default_factory=lambda: np.zeros((0, 1), np.int64))
    listed: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    predictor: NextPredictor | None = None

    def metrics(self) -> Mapping[str, Floats]:
        """Return the (targets,) of each metric."""
        return metrics.rank_metrics(self.rank, self.cutoffs)

    def answers(self) -> Mapping[str, pl.Series]:
        """Return the rank of every target."""
        return {"rank": rank_column(self.rank)}


class SessionTargets(Examples[NextPredictor, TargetRanks]):
    """The targets of a data set, which models rank.

    Args:
        entries: fitted predictors by model and seed.
        data: to score.
        rankings: what other programs ranked: of every event (``ID:PLACE``), or else of the last one of each sequence
            (``ID``), which then is all that is scored. ``miss`` holds for them too.
        protocol: one of ``PROTOCOLS``.
        cutoffs: k of HR@k and NDCG@k.
        unknown: one of ``UNKNOWN_RULES``. A target is dropped where no model's training data holds it.
        diversify: method of a further row, as for ``predict``.
        max_per: maximum number of items per value of a column in a further row, as for ``predict``.

    Raises:
        DataError: the data holds nothing to score, or rankings of nothing that is scored.
        SettingError: an unknown protocol or rule, or rankings under ``sampled``.
    """

    choices: ClassVar = {"protocol": PROTOCOLS, "unknown": UNKNOWN_RULES}
    order = "in turn"
    tested = ("mrr",)

    def __init__(
        self,
        entries: Entries[NextPredictor],
        data: Histories,
        rankings: Sequence[Rankings] = (),
        protocol: str = "full",
        cutoffs: Sequence[int] = CUTOFFS,
        unknown: str = "miss",
        diversify: str = "",
        max_per: Mapping[str, int] | None = None,
    ) -> None:
        first = entries[0][0]
        self.rules = Rules.of(diversify=diversify, max_per=max_per)
        self.rules_name = ", ".join(filter(None, (diversify, *(f"{n} per {name}" for name, n in self.rules.max_per))))
        self.entries = entries
        self.data = data
        self.cutoffs = cutoffs
        self.unknown = unknown
        self.has_rankings = bool(rankings)
        paper_protocol = PAPER_PROTOCOLS.get(first.model_name.removesuffix("-paper"), "macro")
        self.protocol = paper_protocol if protocol == "paper" else protocol
        self.is_target = self._targets()
        if rankings:
            if self.protocol == "sampled":
                raise SettingError("rankings of all items cannot be scored under the protocol sampled")
            self.queries, is_ranked = self._queries(rankings)
            if self.protocol == "full" and not is_ranked[self.is_target].all():
                protocol = self.protocol = "last"
            self.is_target = self.is_target & is_ranked
        self.protocol_name = protocol
        self.predictors = [predictor for seeds in entries for predictor in seeds]
        self.events = np.flatnonzero(self._scored())
        self.sequences: Index = data.sequence_index()[self.events]
        # Sequences without a target are never drawn.
        used, units = np.unique(self.sequences, return_inverse=True)
        self.units: Index = units.astype(np.int64)
        self.num_units = len(used)
        self.macro = self.protocol == "macro"
        self.names = list(metrics.rank_metrics(np.ones(1), cutoffs))
        self.table_metrics = [name for name in self.names if name == "mrr" or name.startswith("hit")]
        self.baselines = first.baselines
        self.baseline_predictors = [first]
        if self.rules_name:  # a wrong rule is refused before the work
            self.derived = {self._reranked(seeds[0]): seeds[0].model_name for seeds in entries}
            for predictor in self.predictors:
                predictor.filters_of([self.rules])

    def score(
        self, predictor: NextPredictor, component: str | None = None, *, exclusion: Exclusion | None = None
    ) -> TargetRanks:
        """Rank the targets by a predictor, or by one of its baselines.

        Args:
            predictor: the model.
            component: a baseline to use instead of the model.
            exclusion: items to exclude. [default: those of the protocol]
        """
        # Unknown items get ids beyond the vocabulary, so that a session's own ones can be told apart.
        coded = self.data.encode(predictor.vocabulary, number_unknown=True)
        is_reranked = component == self._reranked(predictor)
        k = min(self.cutoffs)
        best = BestItems.empty(len(coded.ids), k)
        reranked = RerankedItems(predictor, self.rules, coded, max(self.cutoffs)) if is_reranked else None
        start = time.perf_counter()
        rank, _, event = predictor.ranks(
            coded,
            exclusion=exclusion or self._exclusion(predictor),
            sampled=min(SAMPLED, len(predictor.vocabulary) - FIRST - 1) if self.protocol == "sampled" else 0,
            counting=None if is_reranked else component,
            context=np.maximum(self.data.lengths - 1, 0) if self.protocol == "last" else None,
            rank_unknown=self.unknown == "rank",
            best=best if reranked is None else reranked,
        )
        # Whatever the predictor does not rank is a miss.
        ranks = np.full(len(self.data.ids), metrics.MISS)
        ranks[event] = rank
        lists = best.ids
        if reranked is not None:
            lists = reranked.lists[:, :k]
            ranks = reranked.ranks(ranks)
        seconds = time.perf_counter() - start
        new_item_ranks: dict[str, Floats] = {}
        if component is None and exclusion is None and self.protocol != "sampled" and self._is_new(predictor).any():
            baselines = NewItemBaselines(predictor, self.data.encode(predictor.vocabulary), self._exclusion(predictor))
            by_baseline = baselines.ranks(ranks, max(self.cutoffs))
            new_item_ranks = {name: ranks[self.events] for name, ranks in by_baseline.items()}
        # Targets outside the vocabulary, and those of sampled candidates of unknown items, have no list.
        listed = self.events[lists[self.events, 0] > 0]
        return TargetRanks(
            ranks[self.events], self.cutoffs, seconds, new_item_ranks,
            lists=lists[listed], listed=coded.ids[listed].astype(np.int64), predictor=predictor,
        )  # fmt: skip

    def _reranked(self, predictor: NextPredictor) -> str:
        """Return the name of the row of a model whose best items are re-ranked."""
        return f"{predictor.model_name}, {self.rules_name}"

    def variants(self, predictors: Sequence[NextPredictor]) -> Sequence[tuple[str, Sequence[NextPredictor]]]:
        """Return the row of re-ranked items, if rules are stated."""
        return [(self._reranked(predictors[0]), predictors)] if self.rules_name else []

    def score_rankings(self, rankings: Rankings) -> TargetRanks:
        """Return the ranks of another program; a target that its list lacks is a miss, and so is an unknown one."""
        ranks = rankings.best_first().ranks(self.queries.gather(self.events), self.frame()["target"])
        rank = ranks.cast(pl.Float64).fill_null(metrics.MISS).to_numpy()
        if self.unknown == "miss":
            # Our rows cannot rank what training lacked, so other programs may not either under this rule.
            rank = np.where(self._in_training()[self.events], rank, metrics.MISS)
        return TargetRanks(rank, self.cutoffs)

    def notes(self, runs: Sequence[TargetRanks]) -> Json:
        """Return metrics of the lists beyond accuracy, and metrics of subsets of the targets.

        Subsets are popular and rare items, targets of each kind, and where a model has item features items with and
        without training events. Next to those of items without are the metrics of baselines that score such items by
        their features and counts.
        """
        first = self.predictors[0]
        popular = is_popular(self.data.encode(first.vocabulary).ids[self.events], first)
        notes: Json = {"by_popularity": self._subsets(runs, {"popular": popular, "rare": ~popular})}
        if len(runs[0].lists):
            tables = [list_metrics(run.lists, run.listed, run.predictor) for run in runs if run.predictor is not None]
            notes["beyond_accuracy"] = {name: float(np.mean([table[name] for table in tables])) for name in tables[0]}
        notes |= self._by_kind(runs)
        predictor = next((predictor for predictor in self.predictors if predictor.has_item_features), None)
        if predictor is None:
            return notes
        is_new = self._is_new(predictor)
        notes["by_item"] = self._subsets(runs, {"trained": ~is_new, "new": is_new})
        for name in runs[0].new_item_ranks:
            ranked = [TargetRanks(run.new_item_ranks[name], self.cutoffs) for run in runs]
            notes.setdefault("new_items_by", {})[name] = means_of(ranked, is_new, self.names)
        return notes

    def _by_kind(self, runs: Sequence[TargetRanks]) -> Json:
        """Return metrics of the targets of each kind, and with weights a mean of all by the weights of their events."""
        data = self.data
        notes: Json = {}
        kinds = data.kinds[self.events] if len(data.kinds) else data.kinds
        if len(set(kinds.tolist())) > 1:
            masks = {name: kinds == number for number, name in enumerate(data.kind_names)}
            notes["by_kind"] = self._subsets(runs, {name: mask for name, mask in masks.items() if mask.any()})
        if len(data.weights):
            weights = data.weights[self.events]
            means = [[np.average(run.metrics()[name], weights=weights) for name in self.names] for run in runs]
            by_name = dict(zip(self.names, np.mean(means, 0).tolist(), strict=True))
            notes["by_weight"] = {"all": {"targets": len(self.events), **by_name}}
        return notes

    def _subsets(self, runs: Sequence[TargetRanks], masks: Mapping[str, Mask]) -> Json:
        return {name: means_of(runs, mask, self.names) for name, mask in masks.items()}

    def _is_new(self, predictor: NextPredictor) -> Mask:
        """Return (targets,) whether an item is in the item table of a predictor, but not in its training data."""
        if not predictor.has_item_features:
            return np.zeros(len(self.events), np.bool_)
        ids = self.data.encode(predictor.vocabulary).ids[self.events]
        return (ids != UNKNOWN) & (predictor.counting["popularity"].totals[ids] == 0)

    def frame(self) -> pl.DataFrame:
        """Return one row per target, in the order of the data."""
        return self._frame(self.events)

    def _frame(self, events: Index) -> pl.DataFrame:
        sequence = self.data.sequence_index()[events]
        # An id that stands for no value has no text.
        values = pl.Series(self.data.ids[events].astype(np.int64) - FIRST).replace(UNKNOWN - FIRST, None)
        return pl.DataFrame(
            {
                "id": ids_of(self.data.names, sequence, len(self.data)),
                "unit": sequence,
                "place": events - self.data.offsets[sequence],
                "target": pl.Series(self.data.vocabulary.values, dtype=pl.String).gather(values),
            }
        )

    def warning(self, name: str, result: BootstrapResult, results: Mapping[str, BootstrapResult]) -> str:
        """Return a sentence unless the interval at the first cutoff is above a random order's k / candidates."""
        k = min(self.cutoffs)
        values = len(self.entries[0][0].vocabulary) - FIRST
        level = k / (min(SAMPLED + 1, values) if self.protocol == "sampled" else values)
        if level >= 1 or result.interval()[f"hit@{k}"][0] > level:
            return ""
        metric = f"{name}: HR@{k} {100 * result.by_name()[f'hit@{k}']:.2f} %"
        return f"{metric} is not significantly above {100 * level:.2f} %, that of a random order"

    def card(self, run: TargetRanks) -> dict[str, str]:
        """Return what the metrics mean.

        ``targets`` says how many are scored, how many the training data lacks, and how many follow no known event;
        ``served``, which items ``predict`` leaves out though the metrics do not; ``leaked``, how many sequences the
        training data holds too.
        """
        first = self.entries[0][0]
        coded = self.data.encode(first.vocabulary)
        leaked = np.isin(fingerprints(coded).view(np.int64), first.training_hashes)
        copies = f"{plural(int(leaked.sum()), 'session')} ({100 * leaked.mean():.1f} %)"
        if not first.keeps_histories:
            copies = "not known: with replay=0 the model keeps no fingerprints"
        is_excluded = self._exclusion(first) is Exclusion.SEEN
        values = len(first.vocabulary) - FIRST
        is_every = self.protocol != "last" and np.array_equal(self.is_target, self._targets())
        averaging = "macro: over the targets of a session, then over sessions" if self.macro else "micro: over targets"
        return {
            "name": self.protocol_name,
            "data": f"{plural(len(self.data), 'session')}, {plural(len(self.data.ids), 'event')}",
            "targets": f"{len(self.events):,}: {ALL_EVENTS if is_every else LAST_EVENT}; {self._counts(coded, run)}",
            "unknown": f"{self.unknown}: targets unseen in training are {UNKNOWN_RULES[self.unknown]}",
            "candidates": chance(min(SAMPLED, values - 1))
            if self.protocol == "sampled"
            else f"all {plural(values, 'item')}",
            "repeats": f"items already in the session {'are excluded' if is_excluded else 'stay in the ranking'}",
            "averaging": averaging,
            "published": PUBLISHED[self.protocol],
            "served": "" if self.has_rankings else self._served(),
            "lists": self._lists(run),
            "ties": "count against the target",
            "interval": "whole sessions",
            "leaked": f"{copies} are exact duplicates of training data",
        }

    def _targets(self) -> Mask:
        """Return (events,) whether an event is a target: all but the first of each sequence, or the last one."""
        targets = np.ones(len(self.data.ids), np.bool_)
        targets[self.data.offsets[:-1][self.data.lengths > 0]] = False
        return targets & self._last() if self.protocol == "last" else targets

    def _last(self) -> Mask:
        """Return (events,) whether an event is the last of its sequence."""
        last = np.zeros(len(self.data.ids), np.bool_)
        last[self.data.offsets[1:][self.data.lengths > 0] - 1] = True
        return last

    def _scored(self) -> Mask:
        """Return (events,) which targets are scored: all, or those that the training data of any predictor holds.

        Raises:
            DataError: none.
        """
        if not self.is_target.any():
            raise DataError("nothing to score: no session has two events")
        if self.unknown != "drop":
            return self.is_target
        is_scored = self.is_target & self._in_training()
        if not is_scored.any():
            raise DataError(
                f"nothing to score: the training data has none of the {plural(int(self.is_target.sum()), 'target')}; "
                "--unknown miss counts them as misses"
            )
        return is_scored

    def _in_training(self) -> Mask:
        """Return (events,) whether the training data of any predictor holds the value."""
        vocabularies = {id(predictor.vocabulary): predictor.vocabulary for predictor in self.predictors}
        is_known = np.zeros(len(self.data.ids), np.bool_)
        for vocabulary in vocabularies.values():
            is_known |= self.data.encode(vocabulary).ids != UNKNOWN
        return is_known

    def _exclusion(self, predictor: NextPredictor) -> Exclusion:
        """Return what the protocol excludes."""
        return predictor.metadata.ruled_out if self.protocol in ("full", "last") else Exclusion.NONE

    def _queries(self, rankings: Sequence[Rankings]) -> tuple[pl.Series, Mask]:
        """Return the (events,) queries of rankings, and which events they rank: all targets, or the last ones.

        Raises:
            DataError: rankings of nothing in the data, or answers of what follows the last event.
        """
        events = self._frame(np.arange(len(self.data.ids)))
        for queries, is_ranked in ((placed(events), self.is_target), (events["id"], self.is_target & self._last())):
            scored = queries.filter(pl.Series(is_ranked)).implode()
            if any(lists.frame["query"].is_in(scored).any() for lists in rankings):
                for lists in rankings:
                    self._require_last(lists)
                return queries, is_ranked
        raise DataError(
            f"{rankings[0].name}: ranks no scored query; its queries must be ids, such as {events['id'][0]}, or ids "
            f"with the number of earlier events, such as {events['id'][0]}:1"
        )

    def _require_last(self, rankings: Rankings) -> None:
        """Refuse answers of ours that were not made from all events of a sequence but the last, which is scored."""
        answers = rankings.frame.filter(pl.col("given").is_not_null()).unique("query", maintain_order=True)
        names = ids_of(self.data.names, np.arange(len(self.data)), len(self.data))
        lengths = pl.DataFrame({"query": names, "length": self.data.lengths})
        wrong = answers.join(lengths, on="query", maintain_order="left").filter(pl.col("given") != pl.col("length") - 1)
        for query, num_events, length in wrong.select("query", "given", "length").head(1).iter_rows():
            raise DataError(
                f"{rankings.name}: the answer for {query} predicts what follows {plural(num_events, 'event')}, but "
                f"only the last of its {length} is scored; predict for sessions without their last event"
            )

    def _lists(self, run: TargetRanks) -> str:
        """Say which lists have metrics beyond accuracy, and what similarity their diversity is of."""
        if run.predictor is None or not len(run.lists):
            return ""
        size = plural(run.lists.shape[1], "best item")
        source = run.predictor.item_similarity().source
        return f"the {size} at each of {plural(len(run.lists), 'target')}; diversity is 1 - similarity by {source}"

    def _served(self) -> str:
        """Say which items ``predict`` leaves out though the metrics do not, and how its lists of one model score."""
        labels = {Exclusion.SEEN: "items already in the session", Exclusion.LAST: "the item just viewed"}
        differs = []
        for predictor, *_ in self.entries:
            exclusion = predictor.metadata.exclusion
            if exclusion in labels and exclusion is not self._exclusion(predictor):
                differs.append(f"{predictor.model_name} leaves out {labels[exclusion]}")
        if not differs or self.protocol == "sampled":
            return ""
        sentence = f"by default predict of {', '.join(dict.fromkeys(differs))}; the metrics here do not"
        if len(self.entries) > 1:
            return f"{sentence}, and evaluate of one model says how its lists score"
        by_seed = []
        for predictor in self.entries[0]:
            columns = np.stack([*self.score(predictor, exclusion=predictor.metadata.exclusion).metrics().values()], 1)
            statistic = means_over_units(columns, self.units, self.num_units, macro=self.macro)
            by_seed.append(statistic(np.ones((1, self.num_units)))[0])
        scores = dict(zip(self.names, np.mean(by_seed, 0), strict=True))
        listed = {"MRR": scores["mrr"], **{f"HR@{k}": scores[f"hit@{k}"] for k in self.cutoffs}}
        return f"{sentence}. As served: {', '.join(f'{name} {100 * score:.2f}' for name, score in listed.items())}"

    def _counts(self, coded: Histories, run: TargetRanks) -> str:
        """Say how many targets the training data lacks, how they count, and how many follow no known event."""
        first, *vocabularies = (predictor.vocabulary for predictor in self.predictors)
        is_common = all(other == first or set(other.values) == set(first.values) for other in vocabularies)
        training = "the training data" if is_common else f"the training data of {self.entries[0][0].model_name}"
        is_known = coded.ids != UNKNOWN
        is_unknown = ~is_known[self.events]
        num_unknown = int(is_unknown.sum())
        num_ranked = int(np.isfinite(run.rank[is_unknown]).sum())
        # Number of known events before each event, so that a difference counts those of a range.
        num_known_before = offsets_of(is_known)
        starts = coded.offsets[:-1][self.sequences]
        after_none = ~is_unknown & (num_known_before[self.events] == num_known_before[starts])
        num_dropped = int(self.is_target.sum()) - len(self.events)
        lacking = {
            "miss": f"{num_unknown:,} not in {training} (misses)",
            "drop": f"{num_dropped:,} more in no training data (not scored)",
            "rank": f"{num_unknown:,} not in {training} ({num_ranked:,} ranked, {num_unknown - num_ranked:,} misses)",
        }
        counts = [lacking[self.unknown], f"{int(after_none.sum()):,} after unseen events only (ranked by popularity)"]
        if self.unknown == "drop" and num_unknown:  # another model's training data holds them
            counts.insert(1, lacking["miss"])
        return ", ".join(counts)


def chance(sampled: int) -> str:
    """Return what a random order scores against sampled candidates: a row near or below it is useless."""
    ranks = np.arange(1, sampled + 2)
    hits = ", ".join(f"HR@{k} {min(k / len(ranks), 1):.3f}" for k in (10, 20))
    return f"the target and {sampled} random items; a random order has {hits}, MRR {(1 / ranks).mean():.3f}"
