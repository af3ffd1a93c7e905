"""Results of split and interleaved tests: what people clicked on the lists that each variant showed.

The input is one line of JSON per list, as ``ensue serve --shown`` writes it, and a log of clicks. A list counts for the
clicks of its session from its time on until the next list of the session.

============  ==========================================================================================================
CTR           fraction of lists of which an item was clicked
HR@k, MRR@k   fraction of lists whose next click is among the first k items, and mean of 1 / its rank there, else 0
============  ==========================================================================================================

Every list counts, whether a click follows or not: a variant may change that too. Sessions (or users: whatever was
assigned) are independent of each other and lists of one session are not, so variances are those of ratios of sums over
sessions (delta method; Deng, Knoblich & Lu, KDD 2018, equation 3). An interleaved test compares two models within each
session: the one with more clicks on its own items wins it, and the wins are tested by a sign test.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ensue.data.files import answering, open_file
from ensue.data.histories import Histories
from ensue.errors import DataError
from ensue.experiments import INTERLEAVED, NAME, pseudonym
from ensue.metrics import Floats
from ensue.records import normal_id
from ensue.significance import beta_probability, beta_quantile, chi_square_p_value, normal_p_value, p_value_text

MISMATCH = 0.001
"""P-value of the chi-square test below which the sizes of the variants are called wrong."""
MISSING_SHARE = 0.001
"""Fraction of the sessions below which shares sum to 1 but for rounding."""
_NORMAL = 1.959964
"""97.5 % quantile of the normal distribution."""
_EXAMPLE = '{"time": "2026-03-12T10:00:00Z", "experiment": "home", "id": "s1", "variant": "a", "ranking": ["i1", "i2"]}'


class ShownList(NamedTuple):
    """A list that was shown.

    Attributes:
        time: seconds since 1970.
        unit: pseudonym of the session or user.
        variant: that chose the list, or ``interleave``.
        ranking: items, best first.
        sources: the model of each item of an interleaved list.
        share: fraction of the sessions that the variant was meant for; ``None`` where the line does not say.
    """

    time: float
    unit: str
    variant: str
    ranking: tuple[str, ...]
    sources: tuple[str, ...]
    share: float | None


@dataclass(frozen=True)
class Variant:
    """What was shown by one variant, and its metrics by name."""

    name: str
    units: int
    lists: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Difference:
    """Difference of a metric between a variant and the first one, with its 95 % interval."""

    variant: str
    reference: str
    metric: str
    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Preference:
    """Sessions in which the items of one model of an interleaved test got more clicks than those of the other.

    ``share`` is the fraction of ``wins`` in wins and losses, ``low`` and ``high`` its exact 95 % interval.
    """

    variant: str
    reference: str
    wins: int
    losses: int
    ties: int
    share: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class ExperimentResult:
    """Result of one experiment.

    Attributes:
        name: of the experiment.
        variants: of a split test, in the order of their names; of an interleaved test the two models.
        differences: of a split test, to the first variant; p-values are multiplied by the number of other variants.
        preference: of an interleaved test, else ``None``.
        warnings: why the numbers may be wrong.
    """

    name: str
    variants: tuple[Variant, ...]
    differences: tuple[Difference, ...] = ()
    preference: Preference | None = None
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the result as JSON takes it."""
        return asdict(self)


def read_shown(paths: Sequence[Path]) -> dict[str, list[ShownList]]:
    """Return the shown lists of each experiment, in the order of their times.

    Raises:
        DataError: naming the file, the line and the field.
    """
    experiments: dict[str, list[ShownList]] = {}
    for path in paths:
        with answering(path):
            for number, line in open_file(path).filled():
                name, shown_list = _read_line(line, f"{path}, line {number}")
                experiments.setdefault(name, []).append(shown_list)
    if not experiments:
        raise DataError(f"{paths[0]}: holds no list; `ensue serve --shown FILE` writes lines such as {_EXAMPLE}")
    for lists in experiments.values():
        lists.sort(key=lambda shown_list: shown_list.time)
    return experiments


def _read_line(line: str, where: str) -> tuple[str, ShownList]:
    """Return the name of the experiment and a list."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error}); expected {_EXAMPLE}") from None
    if not isinstance(fields, dict):
        raise DataError(f"{where}: not an object; expected {_EXAMPLE}")
    names = {field: fields.get(field) for field in ("experiment", "variant")}
    for field, name in names.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise DataError(f'{where}: field "{field}" must be a name of at most 64 letters, digits, ".", "_" and "-"')
    experiment, variant = (str(name) for name in names.values())
    ranking = fields.get("ranking")
    sources = fields.get("sources", [])
    if not isinstance(ranking, list) or not isinstance(sources, list):
        raise DataError(f'{where}: fields "ranking" and "sources" must be lists')
    if (variant == INTERLEAVED) != bool(ranking and len(sources) == len(ranking)) and ranking:
        raise DataError(
            f'{where}: field "sources" must name the model of each item where lists are interleaved, only there'
        )
    if "unit" in fields:
        unit = str(fields["unit"])
    elif fields.get("id") in (None, ""):
        raise DataError(f'{where}: field "id" is missing; give the id of the session or user, as in the log of clicks')
    else:
        unit = pseudonym(experiment, normal_id(fields["id"]))
    share = fields.get("share")
    if share is not None and not (isinstance(share, float | int) and 0 < share <= 1):
        raise DataError(f'{where}: field "share" must be a fraction above 0')
    items = tuple(normal_id(item) for item in ranking)
    return experiment, ShownList(
        _seconds(fields.get("time"), where), unit, variant, items, tuple(map(str, sources)), share
    )


def _seconds(time: object, where: str) -> float:
    """Return a time of ISO 8601, or in seconds, as seconds since 1970."""
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None:
            return moment.timestamp()
    elif isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time):
        return float(time)
    raise DataError(f'{where}: field "time" must be ISO 8601 with a time zone, or seconds since 1970')


class Outcome(NamedTuple):
    """What followed a list: the rank of the next click on it, 0 for none, and the positions of all clicks on it."""

    rank: int
    clicked: tuple[int, ...]


def outcomes(name: str, lists: Sequence[ShownList], clicks: Histories) -> list[Outcome]:
    """Return what followed each list of an experiment until the next list of its session.

    Args:
        name: of the experiment.
        lists: in the order of their times.
        clicks: a log with times and the ids of sessions or users.
    """
    sessions = _sessions(name, clicks, {shown_list.unit for shown_list in lists})
    next_time: dict[str, float] = {}
    followed: list[Outcome] = []
    # From the last list on, so that the time of the next one is known.
    for shown_list in reversed(lists):
        times, items = sessions.get(shown_list.unit, ([], []))
        low = bisect_left(times, shown_list.time)
        high = bisect_left(times, next_time.get(shown_list.unit, math.inf))
        next_time[shown_list.unit] = shown_list.time
        # An item that a list holds twice was seen at its first place.
        position = {item: at for at, item in reversed([*enumerate(shown_list.ranking)])}
        events = items[low:high]
        rank = position[events[0]] + 1 if events and events[0] in position else 0
        followed.append(Outcome(rank, tuple(position[item] for item in events if item in position)))
    return followed[::-1]


def _sessions(name: str, clicks: Histories, units: set[str]) -> dict[str, tuple[list[float], list[str]]]:
    """Return the times and items of the clicks of each session that saw a list, by its pseudonym, in order."""
    if not clicks.timed or not len(clicks.names):
        raise DataError("the log of clicks needs times and ids of sessions, which say what list a click is on")
    events: dict[str, list[tuple[float, str]]] = {}
    values = clicks.vocabulary
    for history, id in enumerate(clicks.names.to_list()):
        unit = pseudonym(name, id)
        if unit in units:
            low, high = clicks.offsets[history : history + 2].tolist()
            items = map(values.value, clicks.ids[low:high].tolist())
            events.setdefault(unit, []).extend(zip(clicks.times[low:high].tolist(), items, strict=True))
    # A session that was cut at pauses has several histories. Clicks at one time keep their order.
    ordered = {unit: sorted(pairs, key=lambda pair: pair[0]) for unit, pairs in events.items()}
    return {unit: ([time for time, _ in pairs], [item for _, item in pairs]) for unit, pairs in ordered.items()}


def ratio(sums: Floats, counts: Floats) -> tuple[float, float]:
    """Return a mean over lists, and its variance when lists of one unit depend on each other.

    Args:
        sums: (units,) sum of the metric over the lists of each unit.
        counts: (units,) number of its lists.
    """
    total = counts.sum()
    mean = float(sums.sum() / total)
    num_units = len(sums)
    if num_units < 2:
        return mean, math.inf
    residuals = sums - mean * counts
    return mean, float((residuals**2).sum() * num_units / (num_units - 1) / total**2)


def evaluate_experiments(paths: Sequence[Path], clicks: Histories, cutoffs: Sequence[int]) -> list[ExperimentResult]:
    """Return the result of each experiment, in the order of their first lists.

    Args:
        paths: files of shown lists.
        clicks: a log with times and the ids of sessions or users.
        cutoffs: k of HR@k and MRR@k; those beyond the longest list say no more than that one and are left out.

    Raises:
        DataError: a line cannot be read, an experiment has one variant, or nothing was clicked.
    """
    results = []
    for name, lists in read_shown(paths).items():
        kinds = {shown_list.variant == INTERLEAVED for shown_list in lists}
        if len(kinds) > 1:
            raise DataError(f"experiment {name}: some lists are interleaved and some are not; give each its own name")
        followed = outcomes(name, lists, clicks)
        if not any(outcome.clicked for outcome in followed):
            raise DataError(
                f"experiment {name}: no click of the log is on a list of its session; are sessions, items and times "
                "those of the service?"
            )
        results.append(_interleaved(name, lists, followed) if True in kinds else _split(name, lists, followed, cutoffs))
    return results


def _split(
    name: str, lists: Sequence[ShownList], followed: Sequence[Outcome], cutoffs: Sequence[int]
) -> ExperimentResult:
    """Compare the variants of a split test."""
    variants_of: dict[str, set[str]] = {}
    for shown_list in lists:
        variants_of.setdefault(shown_list.unit, set()).add(shown_list.variant)
    mixed = {unit for unit, variants in variants_of.items() if len(variants) > 1}
    warnings = []
    if mixed:
        warnings.append(f"{len(mixed):,} of {len(variants_of):,} sessions saw more than one variant: left out")
    longest = max(len(shown_list.ranking) for shown_list in lists)
    ks = [k for k in cutoffs if k < longest] + [longest]
    names = ("ctr", *(f"{metric}@{k}" for k in ks for metric in ("hit", "mrr")))
    totals: dict[str, dict[str, Floats]] = {}
    for shown_list, outcome in zip(lists, followed, strict=True):
        if shown_list.unit not in mixed:
            hits = [0 < outcome.rank <= k for k in ks]
            pairs = [value for hit in hits for value in (hit, 1 / outcome.rank if hit else 0.0)]
            row = np.array([1.0, bool(outcome.clicked), *pairs])
            units = totals.setdefault(shown_list.variant, {})
            units[shown_list.unit] = units.get(shown_list.unit, 0.0) + row
    if len(totals) < 2:
        raise DataError(f"experiment {name}: all lists are of variant {', '.join(totals)}; there is nothing to compare")
    variants = []
    ratios: dict[str, list[tuple[float, float]]] = {}
    for variant in sorted(totals):
        # (units, 1 + metrics) the number of lists of each unit, then its sums
        sums = np.stack([*totals[variant].values()])
        ratios[variant] = [ratio(sums[:, 1 + column], sums[:, 0]) for column in range(len(names))]
        means = dict(zip(names, (mean for mean, _ in ratios[variant]), strict=True))
        variants.append(Variant(variant, len(sums), int(sums[:, 0].sum()), means))
    if mismatch := _mismatch(variants, {shown_list.variant: shown_list.share for shown_list in lists}):
        warnings.append(mismatch)
    shares = {shown_list.variant: shown_list.share for shown_list in lists if shown_list.share is not None}
    if shares.keys() == {shown_list.variant for shown_list in lists} and sum(shares.values()) < 1 - MISSING_SHARE:
        warnings.append(
            f"the shares of the variants that were shown sum to {100 * sum(shares.values()):.3g} %: a variant has no "
            "list in these files"
        )
    reference = variants[0].name
    differences = [
        _difference(variant.name, reference, metric, ratios[variant.name][at], ratios[reference][at], len(variants) - 1)
        for at, metric in enumerate(names)
        for variant in variants[1:]
    ]
    return ExperimentResult(name, tuple(variants), tuple(differences), None, tuple(warnings))


def _difference(
    variant: str, reference: str, metric: str, one: tuple[float, float], other: tuple[float, float], num_compared: int
) -> Difference:
    """Return the difference of two means of independent units, each with its variance."""
    difference = one[0] - other[0]
    error = math.sqrt(one[1] + other[1])
    # Bonferroni: each further variant is another chance of a difference by accident.
    p_value = min(1.0, num_compared * normal_p_value(difference, error))
    low, high = difference - _NORMAL * error, difference + _NORMAL * error
    return Difference(variant, reference, metric, difference, low, high, p_value)


def _mismatch(variants: Sequence[Variant], shares: Mapping[str, float | None]) -> str:
    """Return a warning where the numbers of sessions contradict the shares; empty where they fit."""
    observed = np.array([variant.units for variant in variants], np.float64)
    fractions = np.array([shares[variant.name] or 0.0 for variant in variants])
    # Without shares the variants were meant to be equally large.
    fractions = fractions / fractions.sum() if fractions.all() else np.full(len(variants), 1 / len(variants))
    p_value = mismatch_p_value(observed, fractions)
    if p_value >= MISMATCH:
        return ""
    sizes = ", ".join(f"{variant.name} {variant.units:,}" for variant in variants)
    shares_text = ", ".join(f"{100 * fraction:.3g} %" for fraction in fractions.tolist())
    return (
        f"sample ratio mismatch: sessions are {sizes}, but the shares are {shares_text} (p {p_value_text(p_value)}); "
        "the assignment or the log is broken, so do not trust the differences"
    )


def mismatch_p_value(observed: Floats, fractions: Floats) -> float:
    """Return the p-value of the chi-square test that (variants,) counts follow fractions, which sum to 1."""
    expected = fractions * observed.sum()
    statistic = ((observed - expected) ** 2 / expected).sum()
    return chi_square_p_value(float(statistic), len(observed) - 1)


def _interleaved(name: str, lists: Sequence[ShownList], followed: Sequence[Outcome]) -> ExperimentResult:
    """Compare the two models of an interleaved test."""
    models = sorted({source for shown_list in lists for source in shown_list.sources})
    if len(models) != 2:
        raise DataError(f"experiment {name}: interleaved lists are of two models, not of {', '.join(models)}")
    first, second = models
    clicks = {unit: Counter[str]() for unit in (shown_list.unit for shown_list in lists)}
    clicked_lists = Counter[str]()
    for shown_list, outcome in zip(lists, followed, strict=True):
        sources = [shown_list.sources[position] for position in outcome.clicked]
        clicks[shown_list.unit].update(sources)
        clicked_lists.update({*sources})
    leads = np.array([count[second] - count[first] for count in clicks.values()])
    variants = tuple(
        Variant(model, len(clicks), len(lists), {"ctr": clicked_lists[model] / len(lists)}) for model in models
    )
    wins, losses = int((leads > 0).sum()), int((leads < 0).sum())
    ties = len(leads) - wins - losses
    # The result names the winner first.
    result = (
        preference(second, first, wins, losses, ties)
        if wins >= losses
        else preference(first, second, losses, wins, ties)
    )
    return ExperimentResult(name, variants, (), result)


def preference(variant: str, reference: str, wins: int, losses: int, ties: int) -> Preference:
    """Return the sign test of wins and losses, and the exact interval of the probability of a win (Clopper-Pearson)."""
    decided = wins + losses
    low = beta_quantile(0.025, wins, losses + 1) if wins else 0.0
    high = beta_quantile(0.975, wins + 1, losses) if losses else 1.0
    # A sum of binomial probabilities of 1/2, up to the smaller number, is an incomplete beta function.
    p_value = min(1.0, 2 * beta_probability(0.5, max(wins, losses), min(wins, losses) + 1)) if decided else 1.0
    share = wins / decided if decided else 0.5
    return Preference(variant, reference, wins, losses, ties, share, low, high, p_value)
