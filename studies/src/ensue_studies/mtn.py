"""MTN's tables (Multiresolution Transformer Networks, 2019) on the data at hand: query logs that can be had.

Table 1 (data), table 2 (every model, at equal numbers of weights), the depths that the paper compares, by length of the
session and by whether a pair was seen, and what a step costs. It takes hours, so each finished training is kept, and
the same command goes on where it was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from ensue.evaluation.bootstrap import RESAMPLES, BootstrapResult
from ensue.evaluation.suggest import SHOWN
from ensue.metrics import Floats
from ensue.tasks.suggest.catalogue import COUNTING
from ensue.tasks.suggest.predictor import SuggestPredictor
from ensue_studies import mtn_page as page
from ensue_studies.cached_runs import CachedRun
from ensue_studies.mtn_measures import kept, pack, part, resample, step_times
from ensue_studies.mtn_paper import DEPTHS
from ensue_studies.mtn_sets import PLACES, TURNS, QuerySet, Targets, find_sets
from ensue_studies.provenance import Study
from ensue_studies.rows import Row, Rows, Tables, Values
from ensue_studies.runner import Request, Trainings, add, mean_of, means, require_rows, spent, verdicts

NETWORKS = ("seq2seq", "h-lstm", "m-nsrf", "transformer", "flat-transformer", "mtn")
"""The paper's rows, and the flat Transformer."""
TRAINED = (*NETWORKS, "best")
ATTENDING = ("transformer", "flat-transformer", "mtn", "best")
FAMILY: Mapping[str, Values] = {
    **{name: {"dim": 128, "embedding": 128, "wide": 256, "heads": 4, "tied": True} for name in ATTENDING[:-1]},
    "best": {"dim": 128, "embedding": 128, "wide": 256, "heads": 4, "tied": True, "smoothing": 0.0},
    "seq2seq": {"dim": 288, "embedding": 128, "tied": True},
    "h-lstm": {"dim": 240, "embedding": 128, "tied": True},
    "m-nsrf": {"dim": 240, "embedding": 128, "tied": True},
}
"""Sizes at which all have as many weights, 10 % up or down, with a vocabulary of some 5,000 words."""
SEARCHED = {"exhaustive": True}
"""What is compared is the models, so their searches lose nothing."""
JUDGED = ("bleu", f"mrr@{SHOWN}")
"""What MTN and best are judged by, on the same sessions."""
EXAMPLES = 6
DEPTH = {"transformer": "4+4", "flat-transformer": "4+4", "mtn": "3+2+3", "best": "3+2+3"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is trained and scored."""

    options: Values = field(default_factory=dict)
    """Of every network, after its sizes."""
    attending: Values = field(default_factory=dict)
    """Of those without recurrence."""
    sizes: Mapping[str, Values] = field(default_factory=lambda: FAMILY)
    """Of each network."""
    depths: Sequence[tuple[str, str]] = tuple(DEPTHS)
    """Models and layers of the comparison of depths."""
    depth: Mapping[str, str] = field(default_factory=lambda: DEPTH)
    """Layers of each model of table 2."""
    learned: int | None = None
    """Sessions learned at most, evenly from the file; all of them by default."""
    tested: int | None = None
    """Sessions scored at most."""
    batch: int = 32
    """Sessions of a step that is timed."""
    repeats: int = 9
    """Steps that are timed."""
    resamples: int = RESAMPLES
    """Of the test sessions."""
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What is trained on a set where no model is named; all by default."""
    once: Sequence[str] = ("sqa", *(name for name in ATTENDING if name != "mtn"))
    """Sets and networks that are trained once: MTN is judged against the recurrent ones, on the larger set."""


FULL = Plan(
    options={"min_users": 1, "dropout": 0.2, "smoothing": 0.1, "batch_size": 32, "learning_rate": 1e-3, "epochs": 20},
    attending={"warm_up": 300},
)
"""With these a small MTN has 1.2 times repeat-last's BLEU on novel validation sessions of MS MARCO within three epochs;
every network has the same, but that what may be copied is not smoothed. The paper's 4,000 steps of warm-up are all the
steps there are here."""
QUICK = Plan(
    options={**FULL.options, "dropout": 0.1, "batch_size": 16, "learning_rate": 2e-3, "epochs": 8},
    attending={"warm_up": 200},
    sizes={
        name: {**own, "dim": own["dim"] // 2, "embedding": 64, "wide": 128}
        if "wide" in own
        else {**own, "dim": own["dim"] // 2, "embedding": 64}
        for name, own in FAMILY.items()
    },
    depths=(),
    depth={"transformer": "2+2", "flat-transformer": "2+2", "mtn": "2+1+2", "best": "2+1+2"},
    learned=5000,
    batch=16,
    repeats=3,
    resamples=200,
    rows=dict.fromkeys(("msmarco", "sqa"), ("h-lstm", "mtn")),
)
"""Enough for MTN to write more than the commonest words: half the sessions at half the width, smaller steps of more."""


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables.

    Args:
        data: the folder with ``msmarco/sessions.tsv`` and ``sqa/sequences.tsv`` (plain, .gz or .xz), or the folder
            above it. One of the two is enough.
        request: ``models``: which trained models get a row; none for all, or those of ``Plan.rows``. ``quick``: a part
            of the sessions, fewer rows and epochs, small networks; not the paper's figures. ``seeds``: trainings a
            model, but for what ``Plan.once`` names.

    Raises:
        DataError: no data set is there, or half of one, or the file of cells is something else.
        SettingError: a model that has no row.
    """
    require_rows(request.models, TRAINED)
    plan, named = QUICK if request.quick else FULL, tuple(request.models)
    study = _Study(plan, request.trainings())
    names = ("statistics", "floors", "overall", "verdicts", "depths", "lengths", "pairs", "cost", "examples")
    tables: Tables = {name: [] for name in names}
    sets, absent = find_sets(data)
    for whole in sets:
        own = whole.few(plan.learned, plan.tested)
        request.log(f"{own.name}: {len(own.train):,} sessions to learn, {len(own.targets):,} pairs to score")
        tables["statistics"] += own.statistics()
        add(tables, study.tables(own, whole, named or plan.rows.get(own.name, TRAINED), request.seeds))
    tables["cost"] = study.cost(sets[0].targets, named or plan.rows.get(sets[0].name, TRAINED))
    amounts = page.Amounts(plan.learned, request.seeds)
    about = page.about([own.name for own in sets], absent, amounts, quick=request.quick)
    return Study("mtn", tables, page.write(about, tables), page.draw(tables))


class _Study:
    """The trainings, each kept as it finishes."""

    def __init__(self, plan: Plan, trainings: Trainings) -> None:
        self.plan, self.trainings = plan, trainings

    def tables(self, own: QuerySet, whole: QuerySet, models: Sequence[str], seeds: int) -> Tables:
        """All rows of one data set."""
        cells = {name: self._repeated(own, whole, name, seeds) for name in models}
        cells |= {name: [self._counted(own, whole, name)] for name in COUNTING}
        deep = {
            (name, depth): self._repeated(own, whole, name, seeds, depth)
            for name, depth in self.plan.depths
            if name in models
        }
        labels = {" ".join(key): key for key in deep}
        targets = own.targets
        runs = {name: [kept(cell, targets.true) for cell in found] for name, found in cells.items()}
        runs |= {name: [kept(cell, targets.true) for cell in deep[key]] for name, key in labels.items()}
        found = resample(runs, targets.owners, self.plan.resamples)
        return {
            "floors": self._floors(whole),
            "overall": [_row(own.name, name, cells[name], found[name], len(targets)) for name in cells],
            "verdicts": verdicts(own.name, {name: found[name] for name in cells}, ("mtn", "best"), JUDGED),
            "depths": [
                {
                    **_row(own.name, key[0], deep[key], found[name], len(targets)),
                    "depth": key[1],
                    "paper": DEPTHS.get(key),
                }
                for name, key in labels.items()
            ],
            "lengths": [row for name in cells for row in _by_length(own.name, name, runs[name], targets)],
            "pairs": [row for name in cells for row in _by_pair(own.name, name, runs[name], targets)],
            "examples": _examples(own.name, cells, targets),
        }

    def cost(self, targets: Targets, models: Sequence[str]) -> Rows:
        """The time of a training step of each network, the Transformer always among them."""
        plan = self.plan
        names = [name for name in NETWORKS if name in models or name == "transformer"]
        options = {name: self._options(name) for name in names}
        key = {"timed": options, "batch": plan.batch, "repeats": plan.repeats}
        timed = partial(step_times, options, targets, num_ids=5000, batch=plan.batch, repeats=plan.repeats)
        return self.trainings.rows(key, "the time of a step of each network", timed)

    def _options(self, model: str, depth: str = "") -> Row:
        """All settings of a training that are not the model's own."""
        own = {**self.plan.options, **(self.plan.attending if model in ATTENDING else {}), **self.plan.sizes[model]}
        layers = depth or self.plan.depth.get(model, "")
        return {**own, "depth": layers} if layers else own

    def _key(self, own: QuerySet, whole: QuerySet, model: str, options: Values, seed: int) -> Row:
        """All that decides a cell, but the program's version, which stands in the cell."""
        part = {"data": own.name, "fingerprint": whole.fingerprint, "learned": len(own.train), "tested": len(own.test)}
        return {**part, "model": model, "options": dict(options), "seed": seed}

    def _repeated(self, own: QuerySet, whole: QuerySet, model: str, seeds: int, depth: str = "") -> list[CachedRun]:
        if own.name in self.plan.once or model in self.plan.once:
            seeds = 1
        return [self._trained(own, whole, model, seed, depth) for seed in range(seeds)]

    def _trained(self, own: QuerySet, whole: QuerySet, model: str, seed: int, depth: str = "") -> CachedRun:
        options = self._options(model, depth)
        return self.trainings.get(
            self._key(own, whole, model, options, seed),
            f"{own.name}: {model} {options.get('depth', '')} seed {seed}",
            lambda: SuggestPredictor(model, settings={**options, **SEARCHED}, seed=seed),
            lambda predictor: predictor.fit(own.train, own.valid),
            lambda predictor: {**_scored(predictor, own.targets), **_about(predictor)},
        )

    def _counted(self, own: QuerySet, whole: QuerySet, name: str) -> CachedRun:
        """A row that needs no network, learned from the same sessions."""
        options = {"min_users": self.plan.options.get("min_users", 1)}
        return self.trainings.get(
            self._key(own, whole, name, options, 0),
            f"{own.name}: {name}",
            lambda: SuggestPredictor(name, settings=options),
            lambda predictor: predictor.fit(own.train),
            lambda predictor: _scored(predictor, own.targets, name),
        )

    def _floors(self, whole: QuerySet) -> Rows:
        """What counting reaches on the whole test part, without the paper's caps and under them."""
        rows = []
        for caps, test in (("none", whole.test), ("the paper's", whole.capped)):
            if test is None:
                continue
            targets = Targets.of(test.histories, whole.train.histories)
            predictor = SuggestPredictor("most-frequent-next", settings={"min_users": 1})
            self.trainings.progress(predictor.fit(whole.train))
            for name in COUNTING:
                sums = kept(pack(predictor.suggest(targets.before, SHOWN, name), targets.true), targets.true)
                rows.append({"data": whole.name, "caps": caps, "model": name, **part([sums], np.ones(len(sums), bool))})
        return rows


def _scored(predictor: SuggestPredictor, targets: Targets, counting: str | None = None) -> CachedRun:
    begun = time.perf_counter()
    found = pack(predictor.suggest(targets.before, SHOWN, counting), targets.true)
    return {**found, "seconds_to_score": round(time.perf_counter() - begun, 2)}


def _about(predictor: SuggestPredictor) -> CachedRun:
    """What a training leaves behind beside its answers."""
    metadata, facts = predictor.metadata, predictor.metadata.to_dict()
    noted = ("found_in_pool", "mix", "word_cost", "validation_mrr@10", "validation_bleu", "notes")
    return {
        "epochs": metadata.epochs,
        "seconds_an_epoch": round(predictor.seconds_an_epoch or 0.0, 2),
        "parameters": sum(parameter.numel() for parameter in predictor.network.parameters()),
        "words": metadata.tokens,
        "validation_loss": round(metadata.validation_loss, 4),
        **{name: facts[name] for name in noted if name in facts},
    }


def _row(data: str, name: str, cells: Sequence[CachedRun], found: BootstrapResult, targets: int) -> Row:
    """A row of a table: means over seeds, intervals, and what was trained."""
    row: Row = {"data": data, "model": name, "seeds": len(cells), "targets": targets}
    row |= {**means(found), "bleu_by_seed": [round(float(own[0]), 5) for own in found.by_seed]}
    if "epochs" in cells[0]:
        row |= {"parameters": cells[0]["parameters"], **spent(cells)}
    return {**row, "seconds_to_score": mean_of(cells, "seconds_to_score", 2)}


def _by_length(data: str, name: str, runs: Sequence[Floats], targets: Targets) -> Rows:
    parts = ((label, targets.typed == place) for place, label in enumerate(PLACES))
    return [{"data": data, "model": name, "typed": label, **part(runs, own)} for label, own in parts if own.any()]


def _by_pair(data: str, name: str, runs: Sequence[Floats], targets: Targets) -> Rows:
    kinds = {
        "seen in this order": targets.seen,
        "new pair of a known query": ~targets.seen & targets.known,
        "a query nobody typed": ~targets.known,
    }
    return [{"data": data, "model": name, "pair": kind, **part(runs, own)} for kind, own in kinds.items() if own.any()]


def _examples(data: str, cells: Mapping[str, Sequence[CachedRun]], targets: Targets) -> Rows:
    """Some sessions with what each model suggests, spread over the test part as they come."""
    rows = []
    for place in np.linspace(0, len(targets) - 1, EXAMPLES).astype(int).tolist():
        said = {name: own[0]["first"][place] for name, own in cells.items()}
        before = targets.before.record(place).values
        rows.append({"data": data, "typed": list(before[-TURNS:]), "came": targets.true[place], **said})
    return rows
