"""HiDAN's tables and figure (Wang & Li, IJCAI 2019) on the data at hand, and what later papers score on theirs.

Tables 1 (data), 2 (every model under the paper's protocol and under ours) and 3 (what a training costs), and figure 4
as a number: how often the strongest weight is a true edge. It takes hours, so each finished training is kept, and the
same command goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ensue.evaluation.bootstrap import RESAMPLES, BootstrapResult
from ensue.tasks.next.catalogue import COUNTING
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies import hidan_page as page
from ensue_studies.cached_runs import CachedRun
from ensue_studies.hidan_measures import END, PROTOCOLS, of_cells, resample, sums
from ensue_studies.hidan_paper import ELSEWHERE, PARAMETERS, printed, seconds
from ensue_studies.hidan_sets import GRAPH, LATER, CascadeSet, find_sets
from ensue_studies.hidan_sources import sources
from ensue_studies.provenance import Study
from ensue_studies.rows import Row, Rows, Tables, Values
from ensue_studies.runner import Request, Trainings, add, means, require_rows
from ensue_studies.sets import planned

OURS = "cascade-blend"
PAPER = (
    "rnn",
    "lstm",
    "rmtpp",
    "att-rnn",
    "att-lstm",
    "cyan-rnn",
    "hidan-nua",
    "hidan-nca",
    "hidan-nt",
    "hidan",
)
TRAINED = (*PAPER, OURS)
OUTPUT = ("users", "output")
"""What Table 3 does not count: the user table and the output layer."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is trained and scored."""

    options: Values = field(default_factory=dict)
    """Of every training."""
    sets: Sequence[str] = ()
    """Which of the sets at hand are looked at; all where none is named, or none of these is there."""
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What is trained on a set where no model is named; all by default."""
    learned: int | None = None
    """Cascades learned at most, evenly from the file; all of them by default."""
    tested: int | None = None
    """Cascades scored at most."""
    resamples: int = RESAMPLES
    """Of the test cascades."""
    beside: int = 1
    """Trainings at most of what HiDAN's verdicts do not need."""


FULL = Plan(
    rows={**dict.fromkeys(LATER, ("hidan", OURS)), GRAPH: ("att-lstm", "hidan", OURS)},
)
QUICK = Plan(
    options={"epochs": 16, "refit": False},
    sets=("memes", GRAPH),
    rows={**dict.fromkeys(LATER, (OURS,)), "memes": ("lstm", "att-lstm", "hidan", OURS), GRAPH: ("att-lstm", "hidan")},
    learned=4250,
    tested=1500,
    resamples=200,
)
"""All of the memes, for about as many epochs as HiDAN takes on them (13 to 24 in the full study)."""


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables and the figure.

    Args:
        data: the folder with ``hidan``, ``twitter``, ``memetracker`` and ``hc-exp``, any of them, or the folder above
            it; or the one that holds HiDAN's own files.
        request: ``models``: which trained models get a row; none for those of ``Plan.rows``. ``quick``: two sets, fewer
            rows and epochs; not the paper's figures. ``seeds``: trainings of HiDAN and of the rivals it is judged
            against; of the other models at most ``Plan.beside``.

    Raises:
        DataError: no data set is there, or half of one, or the file of cells is something else.
        SettingError: a model that has no row.
    """
    require_rows(request.models, TRAINED)
    plan = QUICK if request.quick else FULL
    study = _Study(plan, request.trainings())
    names = ("statistics", "prediction", "verdicts", "cost", "sources")
    tables: Tables = {name: [] for name in names}
    found, absent = find_sets(data)
    sets, _ = planned(found, plan.sets)
    for whole in sets:
        own = whole.few(plan.learned, plan.tested)
        request.log(f"{own.name}: {len(own.train):,} cascades to learn, {len(own.test):,} to score")
        tables["statistics"] += own.statistics()
        chosen = tuple(request.models) or plan.rows.get(own.name, TRAINED)
        add(tables, study.tables(own, whole, chosen, request.seeds))
    amounts = page.Amounts(plan.learned, plan.tested, request.seeds, min(request.seeds, plan.beside))
    about = page.about([own.name for own in sets], absent, amounts, quick=request.quick)
    return Study("hidan", tables, page.write(about, tables), page.draw(tables))


class _Study:
    """The trainings, each kept as it finishes."""

    def __init__(self, plan: Plan, trainings: Trainings) -> None:
        self.plan, self.trainings = plan, trainings

    def tables(self, own: CascadeSet, whole: CascadeSet, models: Sequence[str], seeds: int) -> Tables:
        """All rows of one data set."""
        trained = {
            name: [self._trained(own, whole, name, seed) for seed in range(self._seeds(own, name, seeds))]
            for name in models
        }
        counted = self._counted(own, whole)["rows"]
        cells = {**trained, **{name: [counted[name]] for name in COUNTING}}
        found: Tables = {
            "prediction": [],
            "verdicts": [],
            "cost": [_cost(own.name, name, own_cells) for name, own_cells in trained.items()],
            "sources": _sources(own.name, trained),
        }
        copies = own.near_copies
        for protocol in _protocols(own):
            runs = {name: of_cells(kept, protocol) for name, kept in cells.items()}
            for part, chosen in (("all", np.ones(len(own.test), np.bool_)), ("no near copies", ~copies)):
                if part != "all" and not copies.any():
                    continue
                drawn = resample(runs, protocol, chosen, self.plan.resamples)
                about = {"data": own.name, "protocol": protocol, "cascades": part}
                found["prediction"] += [_row(about, name, cells[name], drawn[name]) for name in cells]
                found["verdicts"] += _verdicts(about, drawn)
        if own.name in ELSEWHERE:
            about = {"data": own.name, "protocol": "theirs", "cascades": "all"}
            found["prediction"] += [{**about, "model": name, **row} for name, row in ELSEWHERE[own.name].items()]
        return found

    def _seeds(self, own: CascadeSet, name: str, seeds: int) -> int:
        judged = own.name not in LATER and name in ("hidan", *page.RIVALS)
        return seeds if judged else min(seeds, self.plan.beside)

    def _key(self, own: CascadeSet, whole: CascadeSet, model: str, seed: int) -> Row:
        """All that decides a cell, but the program's version, which stands in the cell."""
        part = {"data": own.name, "fingerprint": whole.fingerprint, "learned": len(own.train), "tested": len(own.test)}
        return {**part, "model": model, "options": dict(self.plan.options), "seed": seed}

    def _trained(self, own: CascadeSet, whole: CascadeSet, model: str, seed: int) -> CachedRun:
        def measured(predictor: NextPredictor) -> CachedRun:
            found = {**sums(predictor, own.test, protocols=_protocols(own)), **_about(predictor)}
            if own.edges is not None and model != OURS:
                found["sources"] = sources(predictor, own.test, own.edges)
            return found

        return self.trainings.get(
            self._key(own, whole, model, seed),
            f"{own.name}: {model} seed {seed}",
            lambda: NextPredictor(model, settings=self.plan.options, seed=seed),
            lambda predictor: predictor.fit(own.train, own.valid),
            measured,
        )

    def _counted(self, own: CascadeSet, whole: CascadeSet) -> CachedRun:
        """The rows that need no network, learned from the same cascades."""
        asked = _protocols(own)
        return self.trainings.get(
            {**self._key(own, whole, "counting", 0), "rows": list(COUNTING)},
            f"{own.name}: {', '.join(COUNTING)}",
            lambda: NextPredictor(COUNTING[0]),
            lambda predictor: predictor.fit(own.train),
            lambda predictor: {"rows": {name: sums(predictor, own.test, name, protocols=asked) for name in COUNTING}},
        )


def _protocols(own: CascadeSet) -> tuple[str, ...]:
    """The paper's and ours; where later papers score the end of a cascade, theirs too."""
    return (*PROTOCOLS, END) if own.name in LATER else PROTOCOLS


def _about(predictor: NextPredictor) -> CachedRun:
    """What a training leaves behind beside its answers."""
    named = list(predictor.network.named_parameters())
    inner = sum(part.numel() for name, part in named if name.removeprefix("network.").split(".")[0] not in OUTPUT)
    return {
        "epochs": predictor.metadata.epochs,
        "seconds_an_epoch": round(predictor.seconds_an_epoch or 0.0, 2),
        "parameters": inner,
        "held_out": predictor.metadata.held_out or "its own part",
    }


def _row(about: Values, name: str, cells: Sequence[CachedRun], drawn: BootstrapResult) -> Row:
    """A row of Table 2: means over seeds, intervals, and the paper's figures where it has some."""
    row: Row = {**about, "model": name, "seeds": len(cells)}
    row |= means(drawn)
    paper = printed(about["data"], name) if about["protocol"] == "macro" else {}
    return {**row, "paper": paper} if paper else row


def _verdicts(about: Values, drawn: Mapping[str, BootstrapResult]) -> Rows:
    """What the page says of HiDAN and ours against the best baseline by MRR, and of HiDAN against its rivals."""

    def row(name: str, other: str, measure: str) -> Row:
        pair = {"model": name, "other": other, "measure": measure}
        return {**about, **pair, **drawn[name].against(drawn[other], measure)}

    rows = []
    for name in (name for name in ("hidan", OURS) if name in drawn):
        if (name, about["protocol"], about["cascades"]) == ("hidan", "macro", "all"):
            rows += [row(name, other, "mrr") for other in page.RIVALS if other in drawn]
        if page.is_judged(about["data"], about["protocol"]):
            best = min(COUNTING, key=lambda other: drawn[name].against(drawn[other], "mrr")["ratio"])
            rows += [row(name, best, measure) for measure in page.judged_by(about["protocol"])]
    return rows


def _cost(data: str, name: str, cells: Sequence[CachedRun]) -> Row:
    """A row of Table 3; ``parameters`` without user table and output layer."""
    spent = float(np.median([cell["seconds_an_epoch"] for cell in cells]))
    row = {"data": data, "model": name, "parameters": cells[0]["parameters"], "paper_parameters": PARAMETERS.get(name)}
    row |= {"epochs": [cell["epochs"] for cell in cells], "seconds_an_epoch": round(spent, 2)}
    row |= {"paper_seconds": seconds(data, name)}
    return {**row, **{key: [cell[key] for cell in cells] for key in ("weight", "days") if key in cells[0]}}


def _sources(data: str, trained: Mapping[str, Sequence[CachedRun]]) -> Rows:
    """Figure 4 as a number, a row a model and way of answering, each seed's; then the latest user, and chance."""
    rows: Rows = []
    for name, cells in trained.items():
        found = [cell["sources"] for cell in cells if "sources" in cell]
        for way in ("weight", "credit", "without"):
            if values := [own[way] for own in found if way in own]:
                rows.append({"data": data, "model": name, "by": way, "precision": float(np.mean(values))})
                rows[-1] |= {"by_seed": values, **{key: found[0][key] for key in ("steps", "latest", "chance")}}
    return rows
