"""Is ``best`` best anywhere? The sets at hand cut into what people have, ``best`` beside every floor and every rival.

For each cut ``best`` is trained with its defaults, in some seeds, and with it everything that counts; rivals are
trained on the smaller cuts. The verdict of a cut compares ``best`` with the floor that turns out best on what is
scored, on the same resampled data: a floor has the advantage of being chosen by the figures it is judged by, ``best``
has not.

Beside it, what rules that learn nothing gain by each leak that published figures rest on.

Finished cuts are kept: the same command goes on where it was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensue.data.histories import Histories
from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.comparison import AnyResult, compare
from ensue.evaluation.leaks import untrained_with_leaks
from ensue.predictor import AnyPredictor, make
from ensue.registry import models, settings_of
from ensue_studies import anywhere_page as page
from ensue_studies.anywhere_cuts import Cut, Sizes, find_cuts
from ensue_studies.cached_runs import CachedRun
from ensue_studies.papers import Paper
from ensue_studies.provenance import Study
from ensue_studies.rows import Row, Rows, Tables, Values
from ensue_studies.runner import Request, Trainings, require_rows

MEASURES, RIVALS = (Paper("anywhere").lists(name) for name in ("measures", "rivals"))
"""By task: what is shown, of which the first decides; and the models that are trained beside ``best``."""
SEEDS_UP_TO = Paper("anywhere").row("seeds_up_to")
"""By task: what a cut that is learned with several seeds has at most; above it one training takes an hour."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is trained and scored."""

    sizes: Sizes = field(default_factory=Sizes)
    rivals: Mapping[str, Sequence[str]] = field(default_factory=lambda: RIVALS)
    """By task."""
    rivals_up_to: int = 2_000
    """What a cut that rivals learn has at most."""
    seeds_up_to: Mapping[str, float] = field(default_factory=lambda: SEEDS_UP_TO)
    """By task."""


FULL = Plan()
QUICK = Plan(
    sizes=Sizes(sessions=(500,), labels=(100,), queries=(200,), posts=(50,), tested=500),
    rivals=dict.fromkeys(RIVALS, ()),
)
"""The smallest cut of each set, and no rivals."""


def run(data: Path, request: Request) -> Study:
    """Rebuild the table.

    Args:
        data: the folder that holds ``sessions``, ``cascades``, ``text``, ``queries`` and ``links``, any of them.
        request: ``models``: which rivals are trained beside ``best``; none for all, ``best`` for no rival. ``quick``:
            the smallest cut of each set, without rivals. ``seeds``: trainings of each model.

    Raises:
        DataError: no data set is there, or the file of cells is something else.
        SettingError: a model that has no row.
    """
    require_rows(request.models, ["best", *dict.fromkeys(name for names in RIVALS.values() for name in names)])
    plan = QUICK if request.quick else FULL
    cuts, absent = find_cuts(data, plan.sizes)
    trainings = request.trainings()
    tables: Tables = {"verdicts": [], "rows": [], "leaks": []}
    for cut in cuts:
        names = plan.rivals[cut.task] if cut.learned <= plan.rivals_up_to else ()
        rivals = [name for name in names if not request.models or name in request.models]
        found = _cell(trainings, cut, rivals, request.seeds if cut.learned <= plan.seeds_up_to[cut.task] else 1)
        tables["verdicts"].append(found["verdict"])
        tables["rows"] += found["rows"]
    largest = {cut.data: cut for cut in cuts if isinstance(cut.train, Histories)}  # the last of a set learns most
    for cut in largest.values():
        tables["leaks"] += _leaks(trainings, cut)
    return Study(
        "anywhere", tables, page.write(page.about(tables, absent, quick=request.quick), tables), page.draw(tables)
    )


def _cell(trainings: Trainings, cut: Cut, rivals: Sequence[str], seeds: int) -> CachedRun:
    """What was measured on one cut."""
    settings = {name: Path(value).name if name == "vectors" else value for name, value in cut.settings.items()}
    part: Values = {"task": cut.task, "data": cut.data, "part": cut.part, "fingerprint": cut.fingerprint}
    key = {**part, "settings": settings, "rivals": list(rivals), "seeds": seeds, "tested": len(cut.test)}

    def made() -> CachedRun:
        trainings.log(f"{cut.data}, {cut.part}: best{''.join(f', {name}' for name in rivals)}")
        return _Measured(trainings, cut, seeds).cell(rivals)

    return trainings.cells.get(key, made)


def _leaks(trainings: Trainings, cut: Cut) -> Rows:
    """What an untrained rule gains by each leak of a set."""
    key = {"leaks": cut.data, "part": cut.part, "fingerprint": cut.fingerprint, "tested": len(cut.test)}

    def rows() -> Rows:
        assert isinstance(cut.train, Histories) and isinstance(cut.test, Histories)
        return [{"data": cut.data, **row.to_dict()} for row in untrained_with_leaks(cut.train, cut.test)]

    return trainings.rows(key, f"{cut.data}: leaks", rows)


class _Measured:
    """The models of one cut."""

    def __init__(self, trainings: Trainings, cut: Cut, seeds: int) -> None:
        self.trainings, self.cut, self.seeds = trainings, cut, seeds
        self.models = {one.name: one for one in models(cut.task)}

    def cell(self, rivals: Sequence[str]) -> CachedRun:
        """The rows and the verdict."""
        names = ("best", *rivals)
        fitted = {name: [self._fitted(name, seed) for seed in range(self.seeds)] for name in names}
        # Where seeds chose differently, one that chose a network gives the row its name, so that all floors have one.
        entries = [sorted((own for own, _ in fitted[name]), key=self._counts) for name in names]
        result = compare(entries, self.cut.test)
        seconds = {entries[at][0].model_name: [took for _, took in fitted[name]] for at, name in enumerate(names)}
        return {"rows": self._rows(result, seconds), "verdict": self._verdict(result, fitted["best"])}

    def _fitted(self, name: str, seed: int) -> tuple[AnyPredictor, float]:
        """A predictor and the CPU seconds that learning took."""
        has = {setting.name for setting in settings_of(self.cut.task, name)}
        settings = {name: value for name, value in self.cut.settings.items() if name in has}
        predictor, begun = make(self.cut.task, name, settings=settings, seed=seed), time.process_time()
        self.trainings.progress(predictor.fit(self.cut.train))
        return predictor, time.process_time() - begun

    def _is_floor(self, name: str) -> bool:
        return name in self.models and self.models[name].counting

    def _counts(self, predictor: AnyPredictor) -> bool:
        return self._is_floor(predictor.model_name)

    def _rows(self, result: AnyResult, seconds: Mapping[str, Sequence[float]]) -> Rows:
        """A row a model: its figures, their intervals, and what it took to learn."""
        rows = []
        for number, (row, drawn) in enumerate(zip(result.rows, result.drawn, strict=True)):
            figures, interval = drawn.by_name(), drawn.interval()
            kind = "best" if number == 0 else "floor" if self._is_floor(row.model) else "network"
            took = seconds.get(row.model, ()) if kind != "floor" else ()
            rows.append(
                {
                    **self._place(),
                    "model": row.model,
                    "kind": kind,
                    **{name: figures[name] for name in MEASURES[self.cut.task]},
                    "interval": {name: interval[name] for name in MEASURES[self.cut.task]},
                    "seconds": [round(each, 1) for each in took],
                }
            )
        return rows

    def _verdict(self, result: AnyResult, best: Sequence[tuple[AnyPredictor, float]]) -> Row:
        """``best`` against the floor that scores best."""
        measure = MEASURES[self.cut.task][0]
        drawn = {row.model: own for row, own in zip(result.rows[1:], result.drawn[1:], strict=True)}
        floors = {name: own for name, own in drawn.items() if self._is_floor(name)}
        chosen = sorted({predictor.model_name for predictor, _ in best})
        floors |= {result.rows[0].model: result.drawn[0]} if self._is_floor(result.rows[0].model) else {}
        floor = max(floors, key=lambda name: floors[name].by_name()[measure])
        seconds = sum(took for _, took in best) / len(best)
        alone = self._fitted(floor, 0)[1]
        against = result.drawn[0].against(floors[floor], measure)
        rounded = {name: round(against[name], 5) for name in ("difference", "low", "high")}
        return {
            **self._place(),
            "learned": self.cut.learned,
            "seeds": self.seeds,
            "chosen": ", ".join(chosen),
            "measure": measure,
            "best": result.drawn[0].by_name()[measure],
            "floor": floor,
            "of_the_floor": floors[floor].by_name()[measure],
            **rounded,
            "outcome": outcome(rounded["low"], rounded["high"]),
            "seconds": round(seconds, 2),
            "seconds_of_the_floor": round(alone, 2),
            **self._further(result, floors[floor]),
        }

    def _further(self, result: AnyResult, floor: BootstrapResult) -> Row:
        """How far it is ahead by the other measures."""
        own = {name: result.drawn[0].against(floor, name) for name in MEASURES[self.cut.task][1:]}
        return {name: [round(found[end], 5) for end in ("difference", "low", "high")] for name, found in own.items()}

    def _place(self) -> Row:
        return {"task": self.cut.task, "data": self.cut.data, "part": self.cut.part}


def outcome(low: float, high: float) -> str:
    """Of the 95 % of a difference: above nothing, below nothing, or neither."""
    return "leads" if low > 0 else "loses" if high < 0 else "draws"
