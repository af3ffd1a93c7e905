"""Evaluation of predictors of any task: one, several models with their seeds, or rankings of other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

from ensue.arguments import require_text
from ensue.data.histories import Histories
from ensue.data.rankings import Rankings, tie_rule
from ensue.errors import SettingError
from ensue.evaluation import bootstrap
from ensue.evaluation.bootstrap import RULE, BootstrapResult, paired_tests
from ensue.evaluation.examples import Entries, Examples, PerExample, Scored, ScoredModel
from ensue.evaluation.leaks import reads_others, refusal
from ensue.evaluation.result import Result, Row
from ensue.learning.state import State
from ensue.metrics import label
from ensue.records import as_tuple
from ensue.registry import models, names_of
from ensue.settings import require_integer
from ensue.tasks import TASKS, named

if TYPE_CHECKING:  # only the task that is scored is imported
    from ensue.data.posts.corpus import Corpus
    from ensue.data.queries import Queries
    from ensue.data.texts import Texts
    from ensue.predictor import AnyPredictor

Data: TypeAlias = "Histories | Texts | Queries | Corpus"


class EvaluationOptions(TypedDict, total=False):
    """Options of an evaluation; classify and link have none, suggest has ``protocol`` alone."""

    protocol: str
    """``full``, ``last``, ``paper``, ``macro`` or ``sampled`` for ``next``; ``full`` or ``paper`` for ``suggest``."""
    cutoffs: Sequence[int]
    """k of HR@k and NDCG@k."""
    unknown: str
    """Rule for events that the training data lacks: ``miss``, ``drop`` or ``rank``, the same for every row
    (:mod:`ensue.evaluation.next_event`)."""
    diversify: str
    """``next``: adds a row per model whose best items are re-ranked, such as ``mmr=0.3``."""
    max_per: Mapping[str, int]
    """``next``: adds such a row, with at most so many items per value of each column."""


def evaluate(predictor: AnyPredictor, data: Data, **options: Unpack[EvaluationOptions]) -> Result:
    """Score a predictor and the baselines that were fitted on the same data.

    Args:
        predictor: fitted.
        data: histories for task ``next``, labelled texts for ``classify``, sessions of queries for ``suggest``,
            articles with posts for ``link``.
        options: how it is scored.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown protocol or rule.

    Example:
        >>> from ensue.data.sequences import read
        >>> from ensue.evaluation.comparison import evaluate
        >>> from ensue.predictor import make
        >>> predictor = make("next", "markov")
        >>> for report in predictor.fit(read("clicks.csv")[0]):
        ...     pass
        >>> result = evaluate(predictor, read("last_days.csv")[0])
        >>> result.card["candidates"], result.rows[0].model
        ('all 24 items', 'markov')
    """
    _require_scorable([[predictor]], data)
    result = _compare([[predictor]], data, options)
    dependence = reads_others(predictor, data)
    return replace(result, leaks=(refusal(predictor.model_name, dependence),)) if dependence else result


def compare(entries: Entries[AnyPredictor], data: Data, **options: Unpack[EvaluationOptions]) -> Result:
    """Score several models, each a list of predictors that differ in their seed alone.

    Metrics are means over seeds; intervals resample sequences (texts), and seeds where there are several.

    Args:
        entries: fitted predictors of one task, by model.
        data: as for :func:`evaluate`.
        options: as for :func:`evaluate`.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown protocol or rule, or a model whose scores change with the other rows of the batch.

    Example:
        >>> from ensue.data.sequences import read
        >>> from ensue.evaluation.comparison import compare
        >>> from ensue.predictor import make
        >>> clicks, later = read("clicks.csv")[0], read("last_days.csv")[0]
        >>> entries = [[make("next", name)] for name in ("popularity", "markov")]
        >>> for (predictor,) in entries:
        ...     for report in predictor.fit(clicks):
        ...         pass
        >>> compare(entries, later).best_baseline
        'markov'
    """
    _require_scorable(entries, data)
    for seeds in entries:
        if dependence := reads_others(seeds[0], data):
            raise SettingError(refusal(seeds[0].model_name, dependence))
    return _compare(entries, data, options)


def training_data(task: str, names: Sequence[str], data: Data) -> list[Data]:
    """Return the data that each of several models trains on: without the item table for baselines, which read none.

    Where all models are baselines they get the table, and keep it for rules.

    Args:
        task: of the models.
        names: the models.
        data: training data.
    """
    baselines = {model.name for model in models(task) if model.counting}
    if baselines.issuperset(names) or not isinstance(data, Histories):
        return [data for _ in names]
    return [replace(data, items=None) if name in baselines else data for name in names]


def score_rankings(
    rankings: Sequence[Rankings], predictors: Sequence[AnyPredictor], data: Data, **options: Unpack[EvaluationOptions]
) -> Result:
    """Score what other programs ranked, next to predictors of ours and the baselines.

    Args:
        rankings: of :func:`ensue.data.rankings.read_rankings`.
        predictors: fitted, of one task; the baselines are those of the first.
        data: to score.
        options: as for :func:`evaluate`.

    Raises:
        DataError: the data holds nothing to score, or rankings of nothing that is scored.
        SettingError: an unknown protocol, or a name of rankings that a model has.
    """
    names = [lists.name for lists in rankings]
    for name in names:
        if name in names_of(predictors[0].task) or names.count(name) > 1:
            raise SettingError(f"rankings {name!r} have the name of another row; give --name")
    return _compare([[predictor] for predictor in predictors], data, options, rankings)


def evaluate_alone(
    predictor: AnyPredictor, data: Data, component: str | None = None, **options: Unpack[EvaluationOptions]
) -> tuple[Row, dict[str, str]]:
    """Return one row without the others, for a study that makes its table from many runs, and its card.

    Args:
        predictor: fitted.
        data: to score.
        component: a baseline of the predictor to use instead of its model.
        options: as for :func:`evaluate`.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown protocol or rule.
    """
    examples = _examples([[predictor]], data, (), options)
    line = examples.line(component or predictor.model_name, [predictor], component)
    (row,) = _rows(examples, [line], examples.bootstrap([line]))
    return row, _card(examples, line.runs[0], [line], ())


def score_alone(predictors: Sequence[AnyPredictor], data: Data) -> tuple[str, list[BootstrapResult]]:
    """Return the first metric of the verdict, and the result of each of several predictors of a model, without others.

    Args:
        predictors: fitted, of one task.
        data: to score.

    Raises:
        DataError: the data holds nothing to score.
    """
    examples = _examples([[predictor] for predictor in predictors], data, (), {})
    lines = [examples.line(predictor.model_name, [predictor]) for predictor in predictors]
    return examples.tested[0], examples.bootstrap(lines)


def _require_scorable(entries: Sequence[Sequence[object]], data: object) -> None:
    """Refuse what is no predictor, and data of another type than predictors score.

    Raises:
        DataError: the data is of another type, such as the name of a file.
        SettingError: the name of a model or of a folder instead of a predictor.
    """
    if not entries:
        raise SettingError("there is nothing to compare; give a list of predictors for each model")
    for seeds in entries:
        if not isinstance(seeds, list | tuple) or not seeds:
            raise SettingError("compare takes one list of predictors per model, such as [[first], [second]]")
        for predictor in seeds:
            if isinstance(predictor, str | PathLike):
                raise SettingError(f"{str(predictor)!r} is a name, not a predictor; give ensue.predictor.load(folder)")
            if isinstance(predictor, State):
                predictor.require_data(data)


def checked_options(task: str, options: EvaluationOptions) -> EvaluationOptions:
    """Return options with cutoffs as integers.

    Raises:
        SettingError: a value that the option lacks, or no whole numbers.
    """
    choices = named(TASKS[task].evaluator).choices
    checked = EvaluationOptions(**options)
    for name, values in choices.items():
        value = require_text(options.get(name, next(iter(values))), name)
        if value not in values:
            raise SettingError(f"{name} {value!r} is not known for task {task}; choose from {', '.join(values)}")
    if "cutoffs" in options:
        numbers = as_tuple(options["cutoffs"], "cutoffs", "whole numbers")
        checked["cutoffs"] = [require_integer("cutoffs", k) for k in numbers]
        if not numbers or min(checked["cutoffs"]) < 1:
            raise SettingError(f"cutoffs are {checked['cutoffs']}; give whole numbers, 1 or more, such as [10, 20]")
    return checked


def _compare(
    entries: Entries[AnyPredictor], data: Data, options: EvaluationOptions, rankings: Sequence[Rankings] = ()
) -> Result:
    """Score all rows, resample them together, and test the best model against the best baseline."""
    options = checked_options(entries[0][0].task, options)
    examples = _examples(entries, data, rankings, options)
    lines = [ScoredModel(lists.name, [examples.score_rankings(lists)], [0], lists) for lists in rankings]
    for predictors in entries:
        lines.append(examples.line(predictors[0].model_name, predictors))
        lines += [examples.line(name, seeds, name) for name, seeds in examples.variants(predictors)]
    # The card describes the first model of ours; rankings of other programs come before it.
    first_run = lines[len(rankings)].runs[0]
    names = {line.name for line in lines}
    # A baseline that is one of the compared models has its row already.
    baselines = [name for name in examples.baselines if name not in names]
    lines += [examples.line(name, examples.baseline_predictors, name) for name in baselines]
    results = examples.bootstrap(lines)
    task = entries[0][0].task
    all_baselines = {model.name for model in models(task) if model.counting}
    by_name = {line.name: result for line, result in zip(lines, results, strict=True)}
    # A re-ranked list is not another model, so it takes no part in the verdict.
    tested = {name: result for name, result in by_name.items() if name not in examples.derived}
    return Result(
        task,
        _card(examples, first_run, lines, rankings),
        _rows(examples, lines, results),
        paired_tests(examples.tested, all_baselines, [*tested], [*tested.values()]),
        tuple(examples.table_metrics),
        tuple(results),
        examples=PerExample(examples.frame, lines),
        prices=tuple(_price(by_name[name], by_name[other], name) for name, other in examples.derived.items()),
    )


def _price(result: BootstrapResult, model: BootstrapResult, name: str) -> str:
    """Say how far the hit rate of re-ranked lists is from that of the model."""
    # The hit rate at the first cutoff.
    metric = next(name for name in result.names if name.startswith("hit"))
    difference = result.against(model, metric)
    change, low, high = (100 * difference[key] for key in ("difference", "low", "high"))
    return f"{name}: {label(metric)} {change:+.2f} points (95 % CI {low:+.2f} to {high:+.2f})"


def _examples(
    entries: Entries[AnyPredictor], data: Data, rankings: Sequence[Rankings], options: EvaluationOptions
) -> Examples[AnyPredictor, Scored]:
    return named(TASKS[entries[0][0].task].evaluator)(entries, data, rankings, **options)


def _rows(
    examples: Examples[AnyPredictor, Scored], lines: Sequence[ScoredModel], results: Sequence[BootstrapResult]
) -> tuple[Row, ...]:
    """Return one row per model."""
    rows = []
    by_name = dict(zip((line.name for line in lines), results, strict=True))
    frame = examples.frame() if any(line.rankings for line in lines) else None
    for line, result in zip(lines, results, strict=True):
        notes = {**line.seed_notes(result), **examples.notes(line.runs)}
        # Seconds per 1,000 examples, a mean over the seeds.
        seconds: float | None = 1000 * sum(run.seconds for run in line.runs) / (len(line.runs) * len(examples.units))
        if line.rankings is not None and frame is not None:
            seconds = None
            if warnings := line.rankings.warnings(frame):
                notes["unmatched"] = "; ".join(warnings)
        interval = result.interval(centred=examples.centred)
        rows.append(
            Row(line.name, result.by_name(), interval, seconds, notes, examples.warning(line.name, result, by_name))
        )
    return tuple(rows)


def _card(
    examples: Examples[AnyPredictor, Scored], run: Scored, lines: Sequence[ScoredModel], rankings: Sequence[Rankings]
) -> dict[str, str]:
    """Return what the metrics mean, by name, without empty lines."""
    card = examples.card(run)
    resampled = "; seeds are resampled too" if any(len(line.seeds) > 1 for line in lines) else ""
    card["interval"] = f"95 %, {bootstrap.RESAMPLES} resamples of {card['interval']}{resampled}"
    card["ties"] += tie_rule(rankings)
    return {name: line for name, line in card.items() if line} | {"significance": RULE}
