"""SANSR's tables and figures (Sun et al., IEEE Access 2019) on the data at hand, every row under both protocols.

Tables 1 (results), 2 (data) and 3 (heads x blocks), figures 2 (residuals), 3 (CPU seconds an epoch) and 4 (width). It
takes hours, so each finished cell is kept, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensue.data.histories import Histories
from ensue.data.sequences import read
from ensue.errors import DataError
from ensue.evaluation.next_event import evaluate_alone
from ensue.tasks.next.catalogue import COUNTING, MODELS
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies import sansr_page as page
from ensue_studies.cached_runs import CachedRun
from ensue_studies.provenance import Study
from ensue_studies.rows import Row, Rows, Tables, Values
from ensue_studies.runner import Request, Trainings, require_rows
from ensue_studies.sansr_paper import AT, DIGINETICA, STATISTICS, YOOCHOOSE, impossible
from ensue_studies.sets import columns_of, fingerprint, planned

TRAINED = ("bpr-mf", "fpmc", "gru4rec", "narm", "stamp", "sansr", "sansr-rc", "blend")
"""The paper's rows, and ours."""
PROTOCOLS = ("full", "sampled")
OPTIONS: Mapping[tuple[str, str], Values] = {
    **{(data, model): {"loss": "sampled"} for data in (DIGINETICA, YOOCHOOSE) for model in ("narm", "stamp")},
    (YOOCHOOSE, "gru4rec"): {
        "loss": "ce",
        "dim": 480,
        "dropout_items": 0.0,
        "dropout_state": 0.2,
        "power": 0.2,
        "logq": 1.0,
    },
}
"""Where a model's authors set it otherwise for one data set, and where all items would take days."""
HEADS, BLOCKS, SIZES = (1, 2, 3, 4, 5), (0, 1, 2, 3, 4), (32, 64, 128, 256, 512)
WIDTH = 120
"""The width of Table 3, which 1 to 5 heads divide."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is trained and scored."""

    options: Values
    """Of every training for Table 1."""
    sets: tuple[str, ...] = (DIGINETICA, YOOCHOOSE)
    """Of those at hand; all that are, if none of these is."""
    rows: tuple[str, ...] = TRAINED
    """What is trained where no model is named."""
    whole: int = 1
    """Table 1 learns the newest 1 / ``whole`` of the training sessions."""
    slice: int = 8
    """Table 3 and figure 4 learn the newest 1 / ``slice``."""
    sliced: Values = field(default_factory=lambda: {"epochs": 4, "batch_size": 64, "refit": False})
    """Of every training for these: a slice has too few batches of the usual size."""
    tested: int | None = None
    """Test sessions scored, the newest; all of them by default."""
    grid: Sequence[tuple[int, int]] = tuple((heads, blocks) for blocks in BLOCKS for heads in HEADS)
    sizes: Sequence[int] = SIZES


FULL = Plan(options={})
QUICK = Plan(
    sets=(YOOCHOOSE,),
    rows=("bpr-mf", "fpmc", "gru4rec", "sansr", "sansr-rc", "blend"),
    options={"epochs": 6, "batch_size": 128, "refit": False},
    whole=4,
    tested=2000,
    grid=(),
    sizes=(),
)
"""From less than a quarter, and with fewer batches, the networks learn little more than what is popular."""


@dataclass(frozen=True)
class Sessions:
    """One data set: its split as given, and a fingerprint of it."""

    name: str
    train: Histories
    test: Histories
    fingerprint: str

    def newest(self, share: int) -> Histories:
        """The newest 1 / ``share`` of the training sessions."""
        return self.train.select(slice(len(self.train) - len(self.train) // share, None))


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables and figures.

    Args:
        data: the folder with ``diginetica`` and ``yoochoose-1-64``, each ``{train,test}.txt.gz``, or the folder above
            it. One of the two is enough.
        request: ``models``: which trained models get a row; none for the paper's and ours. Table 3 and figure 4 come
            with ``sansr``. ``quick``: a slice of one set, few epochs and no cells; not the paper's figures. ``seeds``:
            trainings a model for Table 1.

    Raises:
        DataError: no data set is there, or the file of cells is something else.
        SettingError: a model that does not exist or is not trained.
    """
    require_rows(request.models, [name for name, (_, _, schedule) in MODELS.items() if schedule is not None])
    study = _Study(QUICK if request.quick else FULL, request.trainings())
    tables: Tables = {"overall": [], "statistics": [], "grid": [], "sizes": []}
    tables["impossible"] = impossible()
    sets, left = planned(find_sets(data), study.plan.sets)
    for sessions in sets:
        request.log(f"{sessions.name}: {len(sessions.train):,} sessions to learn, {len(sessions.test):,} to score")
        tables["statistics"] += _statistics(sessions.name, sessions.train, sessions.test)
        tables["overall"] += study.overall(sessions, tuple(request.models) or study.plan.rows, request.seeds)
        if not request.models or "sansr" in request.models:
            tables["grid"] += study.grid(sessions)
            tables["sizes"] += study.sizes(sessions)
    plan = study.plan
    left += [name for name in TRAINED if name not in plan.rows]
    about = page.about(plan.whole, plan.tested, None if request.quick else (plan.slice, plan.sliced["epochs"]), left)
    return Study("sansr", tables, page.write(about, tables), page.draw(tables))


class _Study:
    """The trainings, each kept as it finishes."""

    def __init__(self, plan: Plan, trainings: Trainings) -> None:
        self.plan, self.trainings = plan, trainings

    def overall(self, sessions: Sessions, models: Sequence[str], seeds: int) -> Rows:
        """Table 1 and figures 2 and 3: counting rows, then trained ones."""
        rows = []
        for name in COUNTING:
            rows += self._cell(sessions, name, {}, 0, self.plan.whole, name)
        for name in models:
            options = {**OPTIONS.get((sessions.name, name), {}), **self.plan.options}
            for seed in range(seeds):
                rows += self._trained(sessions, name, options, seed, self.plan.whole)
        return rows

    def grid(self, sessions: Sessions) -> Rows:
        """Table 3. Without a block there are no heads: k = 0 is one cell."""
        rows, found = [], {}
        for heads, blocks in self.plan.grid:
            heads = heads if blocks else 1
            options = {"dim": WIDTH, "heads": heads, "num_layers": blocks, **self.plan.sliced}
            if (heads, blocks) not in found:
                found[heads, blocks] = self._trained(sessions, "sansr", options, 0, self.plan.slice)
                rows += [{**row, "heads": heads, "blocks": blocks} for row in found[heads, blocks]]
        return rows

    def sizes(self, sessions: Sessions) -> Rows:
        """Figure 4."""
        rows = []
        for size in self.plan.sizes:
            options = {"dim": size, **self.plan.sliced}
            rows += [{**row, "size": size} for row in self._trained(sessions, "sansr", options, 0, self.plan.slice)]
        return rows

    def _key(self, sessions: Sessions, model: str, options: Values, seed: int, share: int) -> Row:
        """All that decides a cell, but the program's version, which stands in the cell."""
        part = {"data": sessions.name, "fingerprint": sessions.fingerprint, "newest": share, "tested": self.plan.tested}
        return {**part, "model": model, "options": dict(options), "seed": seed}

    def _trained(self, sessions: Sessions, model: str, options: Values, seed: int, share: int) -> Rows:
        words = " ".join(f"{name}={value}" for name, value in options.items())
        said = f"{model} {words} seed {seed}, newest 1/{share}"
        return self._cell(sessions, model, options, seed, share, said)

    def _cell(self, sessions: Sessions, model: str, options: Values, seed: int, share: int, said: str) -> Rows:
        key = self._key(sessions, model, options, seed, share)
        cell = self.trainings.get(
            key,
            f"{sessions.name}: {said}",
            lambda: NextPredictor(model, settings=options, seed=seed),
            lambda predictor: predictor.fit(sessions.newest(share)),
            lambda predictor: self._scored(predictor, sessions),
        )
        return _rows(key, cell)

    def _scored(self, predictor: NextPredictor, sessions: Sessions) -> CachedRun:
        """Both protocols on the same test sessions."""
        begun = time.perf_counter()
        tested = sessions.test
        if self.plan.tested is not None:
            tested = tested.select(slice(max(0, len(tested) - self.plan.tested), None))
        cell: CachedRun = {"protocols": {}}
        for protocol in PROTOCOLS:
            row, card = evaluate_alone(predictor, tested, protocol, AT)
            about = {"targets": card.targets, "candidates": card.candidates, "leaked": card.leaked}
            cell["protocols"][protocol] = {**row.to_dict(), "warning": row.warning, **about}
        if predictor.schedule is not None:
            cell["epochs"] = predictor.metadata.epochs
            cell["seconds_an_epoch"] = round(predictor.seconds_an_epoch or 0.0, 2)
            cell["parameters"] = sum(part.numel() for part in predictor.network.parameters())
        cell["seconds_to_score"] = round(time.perf_counter() - begun, 1)
        return cell


def _rows(key: Values, cell: CachedRun) -> Rows:
    """One row a protocol, with all that decided it."""
    shared = {name: value for name, value in cell.items() if name != "protocols"}
    return [{**key, "protocol": name, **row, **shared} for name, row in cell["protocols"].items()]


def _statistics(name: str, train: Histories, test: Histories) -> Rows:
    """Table 2: what is here, and what the paper prints."""
    clicks, sessions = len(train.ids) + len(test.ids), len(train) + len(test)
    found = {
        "clicks": clicks,
        "training": len(train),
        "test": len(test),
        "items": len(set(train.vocabulary.values) | set(test.vocabulary.values)),
        "mean length": round(clicks / sessions, 2),
    }
    return [{"data": name, "row": "here", **found}, {"data": name, "row": "paper", **STATISTICS[name]}]


def find_sets(data: Path) -> list[Sessions]:
    """The sets at hand.

    Raises:
        DataError: neither is there, or half of one.
    """
    found = []
    for name in (DIGINETICA, YOOCHOOSE):
        folder = next((place for place in (data / name, data / "sessions" / name) if place.is_dir()), None)
        if folder is not None:
            train, test = (_read(folder / f"{part}.txt.gz") for part in ("train", "test"))
            found.append(Sessions(name, train, test, fingerprint((*columns_of(train), *columns_of(test)))))
    if not found:
        raise DataError(f"{data}: neither {DIGINETICA} nor {YOOCHOOSE} is there; name the folder that holds them")
    return found


def _read(path: Path) -> Histories:
    if not path.is_file():
        raise DataError(f"{path}: not there; each data set needs train.txt.gz and test.txt.gz")
    return read(path)[0]
