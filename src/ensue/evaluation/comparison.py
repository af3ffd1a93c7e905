"""Scoring of predictors of any task: one, several models with their seeds, or rankings of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias, cast, overload

from ensue.arguments import require_text
from ensue.errors import SettingError
from ensue.evaluation.evaluator import evaluator_of
from ensue.evaluation.leaks import reads_others, refusal
from ensue.ids import as_tuple
from ensue.registry import names_of
from ensue.settings import require_integer
from ensue.tasks.saved import SavedPredictor

if TYPE_CHECKING:  # only the task that is scored is imported
    from ensue.data.histories import Histories
    from ensue.data.posts.corpus import Corpus
    from ensue.data.queries import Queries
    from ensue.data.rankings import Rankings
    from ensue.data.texts import Texts
    from ensue.evaluation.classify import TextResult
    from ensue.evaluation.link import LinkResult
    from ensue.evaluation.next_event import Result
    from ensue.evaluation.suggest import SuggestResult
    from ensue.predictor import AnyPredictor
    from ensue.tasks.classify.predictor import ClassifyPredictor
    from ensue.tasks.link.predictor import LinkPredictor
    from ensue.tasks.next.predictor import NextPredictor
    from ensue.tasks.suggest.predictor import SuggestPredictor

Data: TypeAlias = "Histories | Texts | Queries | Corpus"
AnyResult: TypeAlias = "Result | TextResult | SuggestResult | LinkResult"


@overload
def evaluate(
    predictor: NextPredictor, data: Histories, protocol: str = "full", at: Sequence[int] = ..., *, unknown: str = "miss"
) -> Result: ...
@overload
def evaluate(predictor: ClassifyPredictor, data: Texts) -> TextResult: ...
@overload
def evaluate(predictor: SuggestPredictor, data: Queries, protocol: str = "full") -> SuggestResult: ...
@overload
def evaluate(predictor: LinkPredictor, data: Corpus) -> LinkResult: ...
@overload
def evaluate(
    predictor: AnyPredictor, data: Data, protocol: str = ..., at: Sequence[int] = ..., *, unknown: str = ...
) -> AnyResult: ...
def evaluate(
    predictor: AnyPredictor,
    data: Data,
    protocol: str | None = None,
    at: Sequence[int] | None = None,
    *,
    unknown: str | None = None,
) -> AnyResult:
    """Score a predictor and the counting models that were fitted on the same data.

    Args:
        predictor: fitted.
        data: histories for task ``next``, labelled texts for ``classify``, sessions of queries for ``suggest``,
            articles with posts for ``link``.
        protocol: of ``next`` full, last, paper, macro or sampled, of ``suggest`` full or paper; the others have one.
        at: of ``next``, the cut-offs.
        unknown: of ``next``, how events count that the training data lacks: ``miss`` (the default), ``drop`` or
            ``rank``, the same for every row (:mod:`ensue.evaluation.next_event`).

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
    found = _compare([[predictor]], data, protocol, at, unknown)
    how = reads_others(predictor, data)
    return replace(found, leaks=(refusal(predictor.model_name, how),)) if how else found


@overload
def compare(
    entries: Sequence[Sequence[NextPredictor]],
    data: Histories,
    protocol: str = "full",
    at: Sequence[int] = ...,
    *,
    unknown: str = "miss",
) -> Result: ...
@overload
def compare(entries: Sequence[Sequence[ClassifyPredictor]], data: Texts) -> TextResult: ...
@overload
def compare(entries: Sequence[Sequence[SuggestPredictor]], data: Queries, protocol: str = "full") -> SuggestResult: ...
@overload
def compare(entries: Sequence[Sequence[LinkPredictor]], data: Corpus) -> LinkResult: ...
@overload
def compare(
    entries: Sequence[Sequence[AnyPredictor]],
    data: Data,
    protocol: str = ...,
    at: Sequence[int] = ...,
    *,
    unknown: str = ...,
) -> AnyResult: ...
def compare(
    entries: Sequence[Sequence[AnyPredictor]],
    data: Data,
    protocol: str | None = None,
    at: Sequence[int] | None = None,
    *,
    unknown: str | None = None,
) -> AnyResult:
    """Score several models, each a list of predictors that differ in their seed alone.

    Figures are means over seeds; intervals resample sequences (texts), and seeds where there are several.

    Args:
        entries: fitted predictors of one task, by model.
        data: histories for task ``next``, labelled texts for ``classify``, sessions of queries for ``suggest``,
            articles with posts for ``link``.
        protocol: of ``next`` full, last, paper, macro or sampled, of ``suggest`` full or paper; the others have one.
        at: of ``next``, the cut-offs.
        unknown: of ``next``, as of :func:`evaluate`.

    Raises:
        DataError: the data holds nothing to score.
        SettingError: an unknown protocol or rule, or a model whose scores change with what else is in the batch.

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
        if how := reads_others(seeds[0], data):
            raise SettingError(refusal(seeds[0].model_name, how))
    return _compare(entries, data, protocol, at, unknown)


def score_rankings(
    rankings: Sequence[Rankings],
    predictors: Sequence[AnyPredictor],
    data: Data,
    protocol: str | None = None,
    at: Sequence[int] | None = None,
    *,
    unknown: str | None = None,
) -> AnyResult:
    """Score what other programs ranked, beside predictors of ours and all that counts.

    Args:
        rankings: of :func:`ensue.data.rankings.read_rankings`.
        predictors: fitted, of one task; the counting rows are those of the first.
        data: to score.
        protocol: as of :func:`compare`.
        at: as of :func:`compare`.
        unknown: as of :func:`evaluate`.

    Raises:
        DataError: the data holds nothing to score, or rankings of nothing that is scored.
        SettingError: an unknown protocol, or a name of rankings that a model has.
    """
    for own in rankings:
        if own.name in [*names_of(predictors[0].task), *(other.name for other in rankings if other is not own)]:
            raise SettingError(f"rankings {own.name!r} have the name of another row; give --name")
    found = _compare([[one] for one in predictors], data, protocol, at, unknown, rankings=rankings)
    assert found.examples is not None  # every evaluator of rankings gives them
    scored = found.examples.asked()
    warnings = {own.name: own.warnings(scored) for own in rankings}
    rows = tuple(
        replace(row, seconds_per_1000=None, notes={**row.notes, **_unmatched(warnings[row.model])})
        if row.model in warnings
        else row
        for row in found.rows
    )
    return replace(found, rows=rows)


def _unmatched(warnings: Sequence[str]) -> dict[str, str]:
    """Return the warnings about a row of another program as a note of that row."""
    return {"unmatched": "; ".join(warnings)} if warnings else {}


def _require_scorable(entries: Sequence[Sequence[object]], data: object) -> None:
    """Refuse what is no predictor, and data of another type than predictors score.

    Raises:
        DataError: the data is of another type, such as the name of a file.
        SettingError: a name of a model or of a folder stands in place of a predictor.
    """
    if not entries:
        raise SettingError("there is nothing to compare; give a list of predictors for each model")
    for seeds in entries:
        if not isinstance(seeds, list | tuple) or not seeds:
            raise SettingError("compare takes one list of predictors per model, such as [[first], [second]]")
        for predictor in seeds:
            if isinstance(predictor, str | PathLike):
                raise SettingError(f"{str(predictor)!r} is a name, not a predictor; give ensue.predictor.load(folder)")
            if isinstance(predictor, SavedPredictor):
                predictor.require_data(data)


def _compare(
    entries: Sequence[Sequence[AnyPredictor]],
    data: Data,
    protocol: str | None,
    at: Sequence[int] | None,
    unknown: str | None,
    **more: object,
) -> AnyResult:
    cutoffs = None if at is None else [require_integer("cutoffs", k) for k in as_tuple(at, "cutoffs", "whole numbers")]
    if cutoffs == [] or any(k < 1 for k in cutoffs or ()):
        raise SettingError(f"cutoffs are {cutoffs}; give whole numbers, 1 or more, such as [10, 20]")
    for name, value in (("protocol", protocol), ("unknown", unknown)):
        if value is not None:
            require_text(value, name)
    given: dict[str, object] = {"protocol": protocol, "at": cutoffs, "unknown": unknown}
    given = {name: value for name, value in given.items() if value is not None} | more
    return cast("AnyResult", evaluator_of(entries[0][0].task).compare(entries, data, **given))
