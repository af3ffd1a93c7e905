"""HiDAN (Wang & Li, IJCAI 2019) on the data sets at hand, and what later papers report on theirs.

Table 1 (data), table 2 (every model under the protocol of the paper and under full ranking), table 3 (cost of training)
and figure 4 as a number: how often the largest attention weight is a true edge.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import torch

from ensue import figures, metrics
from ensue.data.edges import read_edges
from ensue.data.histories import Histories, Index, dated, ranges
from ensue.data.sequences import read
from ensue.errors import DataError
from ensue.evaluation.bootstrap import BootstrapResult, Statistic, bootstrap
from ensue.evaluation.next_event import SessionTargets
from ensue.metrics import Floats
from ensue.tasks.next.catalogue import COUNTING
from ensue.tasks.next.dataset import Windows, hide_seen
from ensue.tasks.next.model import Credits
from ensue.tasks.next.predictor import NextPredictor
from ensue.tasks.next.training_data import fingerprints
from ensue_studies.datasets import DataSet, available, columns_of, fingerprint, folder_of, planned
from ensue_studies.page import Page, Row, Rows, Tables, Values, distinct, estimate, listed, percent, select
from ensue_studies.papers import Paper
from ensue_studies.results import Study
from ensue_studies.runner import CachedRun, CachedRuns, Plan, Request, extend, metrics_of, require_models

PAPER = Paper("hidan")
FULL, QUICK = (Plan(**PAPER["plan"][name]) for name in ("full", "quick"))
ENSEMBLE = "cascade-blend"
COMPARED = ("lstm", "att-lstm", "rmtpp")
"""Models that HiDAN is tested against under the protocol of the paper."""
TRAINED = (
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
    ENSEMBLE,
)
HEADS = {"mrr": "MRR", "hit@10": "A@10", "hit@50": "A@50", "hit@100": "A@100", "mrr@100": "MAP@100"}
METRICS = tuple(HEADS)
PAPER_METRICS = METRICS[:4]
CUTOFFS = (10, 50, 100)
PROTOCOLS = ("macro", "full")
END = "end"
"""As full, but the end of a cascade is a target too."""
GROUP = 2000
"""Target steps per batch."""
EARLIER = 29
"""Users before a user among whom its source is searched: HiDAN's window."""
OUTPUT = ("users", "output")
"""Parameters that Table 3 does not count: the user table and the output layer."""

OWN = {"memes": "meme", "weibo": "weibo", "twitter": "twitter"}
LATER = {"forest-twitter": "twitter", "memetracker": "memetracker"}
GRAPH = "hc-exp"
MAX_EVENTS = 200
"""Events per cascade in the sets of later papers, as in those papers; the rest is cut off."""
COPIED = 0.5
"""Fraction of events at the same second as in training data that makes a near copy."""

Cascades = DataSet[Histories]


def find_sets(data: Path) -> tuple[list[Cascades], list[str]]:
    """Read the available data sets, in the order of the tables.

    Args:
        data: folder with ``hidan``, ``twitter``, ``memetracker`` and ``hc-exp``, any of them, or its parent. HiDAN's
            files may also be in the folder itself.

    Returns:
        The data sets, and the names of those that are not available.

    Raises:
        DataError: none is available, or a part of one is missing.
    """
    folder = folder_of(data, "cascades")
    own = folder_of(folder, "hidan")
    files = {name: [own / f"{stem}-cascades-time-{part}.gz" for part in ("val", "test")] for name, stem in OWN.items()}
    for name, place in LATER.items():
        files[name] = [folder / place / f"cascade{part}.txt.gz" for part in ("", "valid", "test")]
    files[GRAPH] = [folder / GRAPH / f"hc-exp-cascades-{part}.gz" for part in ("train", "val", "test")]
    readers = {name: partial(_read_set, name, paths) for name, paths in files.items()}
    return available(data, readers, readers)


def _read_set(name: str, files: Sequence[Path]) -> Cascades | None:
    """Read one data set; its details are the true edges, where they are known."""
    edges = files[0].parent / "hc-exp-graph"
    if not files[0].is_file() or (name == GRAPH and not edges.is_file()):
        return None
    if missing := [path for path in files if not path.is_file()]:
        raise DataError(f"{missing[0]}: does not exist; it belongs to {files[0].name}")
    parts = [read(path)[0] for path in files]
    if name in LATER:
        parts = [_first_events(part) for part in parts]
    train, *valid, test = parts
    return DataSet(
        name=name,
        train=train,
        valid=valid[0] if valid else None,
        test=test,
        fingerprint=fingerprint(columns_of(*parts, times=True)),
        about=PAPER["about"][name],
        details=read_edges(edges) if name == GRAPH else None,
    )


def _first_events(histories: Histories) -> Histories:
    starts = histories.offsets[histories.sequence_index()]
    return histories.keep(np.arange(len(histories.ids)) - starts < MAX_EVENTS)


def near_copies(data: Cascades) -> npt.NDArray[np.bool_]:
    """Return which test cascades are in training data: user for user, or half of them at the very same seconds."""
    test = data.test.encode(data.train.vocabulary)
    copies: npt.NDArray[np.bool_] = np.isin(fingerprints(test), fingerprints(data.train))
    if not test.timed or not dated(data.train):  # without a common clock, equal times are not the same moment
        return copies
    known = {_second(*event) for event in zip(data.train.ids.tolist(), data.train.times.tolist(), strict=True)}
    same = [_second(*event) in known for event in zip(test.ids.tolist(), test.times.tolist(), strict=True)]
    shared = np.bincount(test.sequence_index(), same, len(test))
    return copies | (shared >= COPIED * test.lengths)


def _second(user: int, time: float) -> tuple[int, int]:
    return user, round(time)


def statistics(data: Cascades) -> Rows:
    """Return Table 1: the data at hand, and what the paper prints."""
    parts = data.parts.values()
    cascades = sum(map(len, parts))
    counts = {
        "users": len({value for part in parts for value in part.vocabulary.values}),
        "cascades": cascades,
        "mean length": round(sum(len(part.ids) for part in parts) / max(1, cascades), 1),
        "training": len(data.train),
        "test": len(data.test),
        "near copies": f"{percent(near_copies(data).mean(), 1)} %",
    }
    printed = PAPER["statistics"].get(data.name)
    rows = [{"data": data.name, "row": "here", **counts}]
    return [*rows, {"data": data.name, "row": "paper", **printed}] if printed else rows


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables and the plots.

    Args:
        data: see :func:`find_sets`.
        request: ``quick``: two data sets, fewer models and epochs. ``seeds``: of HiDAN and the models that it is tested
            against; fewer for the others (``max_seeds`` of the plan).

    Raises:
        DataError: no data set is available, or the file of cached runs is something else.
        SettingError: a model that has no row.
    """
    require_models(request.models, TRAINED)
    plan, runs = QUICK if request.quick else FULL, request.cached_runs()
    sets, absent = find_sets(data)
    tables: Tables = {name: [] for name in ("statistics", "prediction", "paired_tests", "cost", "sources")}
    chosen, _ = planned(sets, plan.sets)
    for data_set in chosen:
        data_set = data_set.subset(plan.train_size, plan.test_size)
        request.log(f"{data_set.name}: {len(data_set.train):,} training cascades, {len(data_set.test):,} test cascades")
        tables["statistics"] += statistics(data_set)
        models = request.models or plan.models.get(data_set.name, TRAINED)
        extend(tables, _tables(plan, runs, data_set, models, request.seeds))
    text = introduction(plan, chosen, absent, request)
    return Study("hidan", tables, write(text, tables), draw(tables))


def _tables(plan: Plan, runs: CachedRuns, data: Cascades, models: Sequence[str], seeds: int) -> Tables:
    """Return all rows of one data set."""
    trained = {
        name: [_train(plan, runs, data, name, seed) for seed in plan.seeds(seeds, data.name, name)] for name in models
    }
    baselines = _baselines(plan, runs, data)["rows"]
    cells = {**trained, **{name: [baselines[name]] for name in COUNTING}}
    copies = near_copies(data)
    subsets = {"all": np.ones(len(data.test), np.bool_), **({"no near copies": ~copies} if copies.any() else {})}
    tables: Tables = {
        "prediction": [],
        "paired_tests": [],
        "cost": [_cost_row(data.name, name, found) for name, found in trained.items()],
        "sources": _source_rows(data.name, trained),
    }
    for protocol in _protocols(data):
        scores = {name: [unpack(run[protocol]) for run in found] for name, found in cells.items()}
        for subset, mask in subsets.items():
            results = resample(scores, protocol, mask, plan.resamples)
            about = {"data": data.name, "protocol": protocol, "cascades": subset}
            tables["prediction"] += [_row(about, name, len(cells[name]), results[name]) for name in cells]
            tables["paired_tests"] += _paired_tests(about, results)
    about = {"data": data.name, "protocol": "theirs", "cascades": "all"}
    reported = PAPER["elsewhere"].get(data.name, {})
    tables["prediction"] += [{**about, "model": name, **row} for name, row in reported.items()]
    return tables


def _train(plan: Plan, runs: CachedRuns, data: Cascades, model: str, seed: int) -> CachedRun:
    def measure(predictor: NextPredictor) -> CachedRun:
        parameters = predictor.module.named_parameters()
        inner = (part for name, part in parameters if name.removeprefix("network.").split(".")[0] not in OUTPUT)
        run = {
            **sums(predictor, data.test, protocols=_protocols(data)),
            "epochs": predictor.metadata.epochs,
            "epoch_seconds": round(predictor.seconds_an_epoch or 0.0, 2),
            "parameters": sum(part.numel() for part in inner),
            "held_out": predictor.metadata.held_out or "its own part",
        }
        if data.details is not None and model != ENSEMBLE:
            run["sources"] = sources(predictor, data.test, data.details)
        return run

    options = plan.settings(data.name, model)
    return runs.train(
        data.key(model, options, seed),
        f"{data.name}: {model} seed {seed}",
        lambda: NextPredictor(model, settings=options, seed=seed),
        lambda predictor: predictor.fit(data.train, data.valid),
        measure,
    )


def _baselines(plan: Plan, runs: CachedRuns, data: Cascades) -> CachedRun:
    protocols = _protocols(data)
    return runs.train(
        {**data.key("baselines", plan.options, 0), "rows": list(COUNTING)},
        f"{data.name}: {', '.join(COUNTING)}",
        lambda: NextPredictor(COUNTING[0]),
        lambda predictor: predictor.fit(data.train),
        lambda predictor: {"rows": {name: sums(predictor, data.test, name, protocols=protocols) for name in COUNTING}},
    )


def _protocols(data: Cascades) -> tuple[str, ...]:
    """Return the protocol of the paper and full ranking; with the end as a target where later papers score it."""
    return (*PROTOCOLS, END) if data.name in LATER else PROTOCOLS


def _row(about: Values, name: str, seeds: int, result: BootstrapResult) -> Row:
    """Return a row of Table 2, with the metrics of the paper as fractions."""
    printed = PRINTED.get(about["data"], {}).get(name) if about["protocol"] == "macro" else None
    paper = {"paper": {metric: value / 100 for metric, value in printed.items()}} if printed else {}
    return {**about, "model": name, "seeds": seeds, **metrics_of(result), **paper}


PRINTED = PAPER.tables("prediction")
SECONDS = PAPER.rows("seconds")


def _paired_tests(about: Values, results: Mapping[str, BootstrapResult]) -> Rows:
    """Return HiDAN against the compared models, and HiDAN and our ensemble against the best baseline by MRR."""

    def row(name: str, other: str, metric: str) -> Row:
        pair = {"model": name, "other": other, "metric": metric}
        return {**about, **pair, **results[name].against(results[other], metric)}

    rows = []
    protocol = about["protocol"]
    for name in (name for name in ("hidan", ENSEMBLE) if name in results):
        if (name, protocol, about["cascades"]) == ("hidan", "macro", "all"):
            rows += [row(name, other, "mrr") for other in COMPARED if other in results]
        if protocol == "full" or (protocol == "macro" and about["data"] not in LATER):
            best = min(COUNTING, key=lambda other: results[name].against(results[other], "mrr")["ratio"])
            rows += [row(name, best, metric) for metric in (METRICS if protocol == "full" else PAPER_METRICS)]
    return rows


def _cost_row(data: str, name: str, runs: Sequence[CachedRun]) -> Row:
    """Return a row of Table 3."""
    return {
        "data": data,
        "model": name,
        "parameters": runs[0]["parameters"],
        "paper_parameters": PAPER["parameters"].get(name),
        "epochs": [run["epochs"] for run in runs],
        "epoch_seconds": round(float(np.median([run["epoch_seconds"] for run in runs])), 2),
        "paper_seconds": SECONDS.get(name, {}).get(data),
    }


def _source_rows(data: str, trained: Mapping[str, Sequence[CachedRun]]) -> Rows:
    """Return figure 4 as numbers: one row per model and way to select a source, over seeds."""
    rows: Rows = []
    for name, runs in trained.items():
        found = [run["sources"] for run in runs if "sources" in run]
        for way in ("weight", "credit", "without"):
            if values := [source[way] for source in found if way in source]:
                shared = {key: found[0][key] for key in ("steps", "latest", "chance")}
                mean = float(np.mean(values))
                rows.append({"data": data, "model": name, "by": way, "precision": mean, "by_seed": values, **shared})
    return rows


# --- metrics -----------------------------------------------------------------------------------------------------


def sums(
    predictor: NextPredictor, test: Histories, baseline: str | None = None, *, protocols: Sequence[str] = PROTOCOLS
) -> CachedRun:
    """Return the metrics of a model under each protocol, summed per cascade and packed as text."""
    run: CachedRun = {}
    for protocol in protocols:
        if protocol == END:
            rank, sequence = with_end(predictor, test, baseline)
        else:
            examples = SessionTargets([[predictor]], test, protocol=protocol)
            rank, sequence = examples.score(predictor, baseline).rank, examples.sequences
        columns = metrics.rank_metrics(rank, CUTOFFS)
        table = [np.bincount(sequence, columns[name], len(test)) for name in METRICS]
        packed = np.stack([*table, np.bincount(sequence, minlength=len(test))], axis=1).astype("<f4")
        run[protocol] = base64.b64encode(zlib.compress(packed.tobytes())).decode("ascii")
    return run


def unpack(text: str) -> Floats:
    """Return (cascades, metrics + 1) sums of :func:`sums`; the last column is the number of targets."""
    table: Floats = np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f4").reshape(-1, len(METRICS) + 1)
    return table.astype(np.float64)


def with_end(predictor: NextPredictor, test: Histories, baseline: str | None = None) -> tuple[Floats, Index]:
    """Return ranks and cascades of all targets where the end of a cascade is one too, as some later papers score.

    The probability to stop (``length_delay``) is ranked among the probabilities of
    the users; users of the cascade are excluded. These metrics say little about who comes next: the end is nearly
    always near the top.
    """
    module = predictor.counting[baseline] if baseline else predictor.network
    known = test.encode(predictor.vocabulary, drop_unknown=True)
    owners, ranks, sequences = known.sequence_index(), [], []
    for windows, last in (
        (Windows(known, module.reach), False),
        (Windows(known.select(known.lengths > 0), module.reach, last_only=True), True),
    ):
        data = windows.histories
        names = owners if not last else np.flatnonzero(known.lengths)[data.sequence_index()]
        for index in windows.groups(GROUP):
            scored, targets = predictor.scores(windows, index, module)
            positions = windows.positions(index)
            shown = torch.from_numpy(hide_seen(scored.scores, data, positions))
            probabilities = shown.softmax(1).double()
            lengths = positions - data.offsets[data.sequence_index()[positions]] + 1
            stop = torch.from_numpy(predictor.length_delay.stop_chances(lengths))[:, None]
            users = probabilities * (1 - stop)
            target = stop if last else users.gather(1, torch.from_numpy(targets)[:, None])
            # Ties count against the target; the target itself is no competitor.
            above = (users >= target).sum(1) + (0 if last else (stop >= target)[:, 0].long() - 1)
            ranks.append((1 + above).double().numpy())
            sequences.append(names[positions])
    missed = np.maximum(test.lengths - 1, 0) - np.maximum(known.lengths - 1, 0)
    none = np.full(int(missed.sum()), metrics.MISS)
    return np.concatenate([*ranks, none]), np.concatenate([*sequences, np.repeat(np.arange(len(test)), missed)])


def resample(
    runs: Mapping[str, Sequence[Floats]], protocol: str, mask: npt.NDArray[np.bool_], resamples: int
) -> dict[str, BootstrapResult]:
    """Resample test cascades, the same for all models, and the seeds of each model.

    Args:
        runs: sums of each model, one table per seed.
        protocol: macro, the mean over a cascade's targets and then over cascades; full, the mean over targets.
        mask: (cascades,) which ones count.
        resamples: number of resamples.
    """
    valid = mask & (next(iter(runs.values()))[0][:, -1] > 0)
    statistics = [[_statistic(_weighted(table[valid], protocol)) for table in seeds] for seeds in runs.values()]
    results = bootstrap(METRICS, statistics, int(valid.sum()), "units first", resamples=resamples)
    return dict(zip(runs, results, strict=True))


def _statistic(table: Floats) -> Statistic:
    """Return the means of a (cascades, metrics + 1) table of sums, by how often each cascade is drawn."""

    def statistic(times: Floats) -> Floats:
        sums = times @ table
        means: Floats = sums[:, :-1] / sums[:, -1:]
        return means

    return statistic


def _weighted(table: Floats, protocol: str) -> Floats:
    """Return sums whose totals over cascades give the metrics: under macro, each cascade counts once."""
    return np.append(table[:, :-1] / table[:, -1:], np.ones((len(table), 1)), axis=1) if protocol == "macro" else table


def sources(predictor: NextPredictor, test: Histories, edges: frozenset[tuple[str, str]]) -> CachedRun:
    """Return how often the selected earlier user has a true edge to a user.

    Evaluated for every user from a cascade's third on some, but not all, of whose ``EARLIER`` predecessors are true
    sources: elsewhere any selection is right, or none.

    Returns:
        ``steps``, and the precision by way of selection: the largest ``weight`` of the first attention; the largest
        part of the user's score (``credit``, where the score is a sum over earlier users); the user without whom the
        next one would have been least likely (``without``); the ``latest`` user; ``chance``, a random one.
    """
    known = test.encode(predictor.vocabulary, drop_unknown=True)
    network = predictor.network
    windows = Windows(known, network.reach)
    correct: dict[str, list[float]] = {}
    positions: list[int] = []
    truths = []
    for index in windows.groups(GROUP):
        batch = windows.batch(index)
        tables = {"weight": torch.from_numpy(predictor.scores(windows, index)[0].weights[0])}
        if isinstance(network, Credits):
            with torch.no_grad():
                tables["credit"] = network.credit(batch.to(predictor.device)).cpu()
        first = (windows.target_starts - windows.starts)[index]
        for row, size in enumerate(batch.mask.sum(1).tolist()):
            users = [predictor.vocabulary.value(id) for id in batch.ids[row, :size].tolist()]
            for step in range(max(2, int(first[row])), size):
                low = max(0, step - EARLIER)
                true = np.array([(user, users[step]) in edges for user in users[low:step]])
                if true.any() and not true.all():
                    positions.append(int(windows.starts[index[row]]) + step)
                    truths.append(true)
                    answers = {"latest": true[-1], "chance": true.mean()}
                    answers |= {name: true[int(table[row, step, low:step].argmax())] for name, table in tables.items()}
                    for name, answer in answers.items():
                        correct.setdefault(name, []).append(float(answer))
    sizes = np.array([len(true) for true in truths], np.int64)
    likelihoods = without_each(predictor, known, np.array(positions, np.int64), sizes)
    parts = np.split(likelihoods, np.cumsum(sizes)[:-1])
    correct["without"] = [float(true[part.argmin()]) for true, part in zip(truths, parts, strict=True)]
    return {"steps": len(truths), **{name: float(np.mean(values)) for name, values in correct.items() if values}}


def without_each(predictor: NextPredictor, known: Histories, positions: Index, sizes: Index) -> Floats:
    """Return how likely some users are, in nats, if a user before them had not been there.

    Args:
        predictor: trained.
        known: cascades in its vocabulary, without unknown users.
        positions: (users,) positions in ``known.ids``.
        sizes: (users,) how many users before each are read, at least 2; each of them is left out in turn.

    Returns:
        (sum of sizes,) log-probabilities, grouped by user, the earliest left out first.
    """
    owner, left_out = np.repeat(np.arange(len(positions)), sizes), ranges(np.zeros_like(sizes), sizes)
    begins, lengths = (positions - sizes)[owner], sizes[owner] - 1
    where = ranges(begins, lengths)
    where += where - np.repeat(begins, lengths) >= np.repeat(left_out, lengths)  # skips the one that is left out
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    times = known.times[where] if known.timed else known.times
    windows = Windows(
        replace(known, ids=known.ids[where], offsets=offsets, times=times, names=known.names[:0]),
        predictor.network.reach,
        last_only=True,
    )
    likelihoods = np.empty(len(owner))
    for index in windows.groups(GROUP):
        scores = torch.from_numpy(predictor.scores(windows, index)[0].scores).log_softmax(1)
        targets = torch.from_numpy(known.ids[positions[owner[index]]].astype(np.int64))
        likelihoods[index] = scores.gather(1, targets[:, None])[:, 0].numpy()
    return likelihoods


# --- page --------------------------------------------------------------------------------------------------------


def introduction(plan: Plan, sets: Sequence[Cascades], absent: Sequence[str], request: Request) -> str:
    """Return the text above the first table."""
    page = Page("# HiDAN: tables rebuilt")
    if request.quick:
        page.text(PAPER["quick"].format(train=plan.train_size or 0, test=plan.test_size or 0))
    times = "once" if request.seeds == 1 else f"with {request.seeds} seeds"
    fewest = min(plan.max_seeds.values(), default=request.seeds)
    if fewest < request.seeds:
        few = "once" if fewest == 1 else f"with {fewest}"
        times += f" (HiDAN and the models it is tested against; the others, and all in the later papers' sets, {few})"
    page.text(PAPER["introduction"].format(times=times), PAPER["near_copy"])
    page.data_sets({data.name: f"{data.about}." for data in sets}, absent)
    return str(page)


def write(text: str, tables: Mapping[str, Rows]) -> str:
    """Return the page as Markdown."""
    page = Page(text)
    page.section("Table 1: the data")
    page.table(tables["statistics"])
    for data in distinct(tables["prediction"], "data"):
        page.section(f"Table 2: {data}")
        rows = select(tables["prediction"], data=data)
        for protocol in distinct(rows, "protocol"):
            for subset in distinct(select(rows, protocol=protocol), "cascades"):
                title = protocol if subset == "all" else f"{protocol}, without near copies"
                page.text(f"**{title}** ({PAPER['protocols'][protocol]}).")
                page.text("\n".join(_prediction(select(rows, protocol=protocol, cascades=subset))))
        if sentences := _sentences(select(tables["paired_tests"], data=data)):
            page.bullets(sentences)
            page.text("An asterisk: the interval of the difference holds 0.")
    page.section("Table 3: cost of training")
    page.table([_cost_line(row, tables["cost"]) for row in tables["cost"]])
    page.text("Parameters without user table and output layer, as the paper counts them.")
    if rows := tables["sources"]:
        page.section("Figure 4 as a number: who infected whom")
        page.text(PAPER["sources"].format(steps=rows[0]["steps"], data=rows[0]["data"]))
        page.table(_source_lines(rows))
    return str(page)


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Return plots of MRR per data set and protocol, of seconds per epoch, and of figure 4."""
    plots = []
    for data in distinct(tables["prediction"], "data"):
        for protocol in PROTOCOLS:
            rows = select(tables["prediction"], data=data, protocol=protocol, cascades="all")
            series = {"here": [100 * row["mrr"] for row in rows]}
            if any("paper" in row for row in rows):
                series["paper"] = [100 * row["paper"]["mrr"] if "paper" in row else 0.0 for row in rows]
            names = [row["model"] for row in rows]
            plots.append(figures.bars(f"Table 2: MRR ({data}, {protocol})", "x 100", names, series))
    for data in distinct(tables["cost"], "data"):
        rows = select(tables["cost"], data=data)
        seconds = {"": [row["epoch_seconds"] for row in rows]}
        plots.append(figures.bars(f"Table 3: an epoch ({data})", "seconds", [row["model"] for row in rows], seconds))
    if rows := tables["sources"]:
        names = [*(f"{row['model']}, {row['by']}" for row in rows), "the latest user", "a random user"]
        values = [*(100 * row["precision"] for row in rows), 100 * rows[0]["latest"], 100 * rows[0]["chance"]]
        plots.append(figures.bars("Figure 4: how often the largest weight is a true edge", "%", names, {"": values}))
    return tuple(plots)


def _prediction(rows: Rows) -> list[str]:
    """Return the lines of one table of metrics, the paper's row above ours."""
    names = [name for name in (PAPER_METRICS if rows[0]["protocol"] == "macro" else METRICS) if name in rows[0]]
    lines = [f"| model | row | {' | '.join(HEADS[name] for name in names)} |", "|---" * (2 + len(names)) + "|"]
    for row in rows:
        if paper := row.get("paper"):
            lines.append(f"| {row['model']} | paper | {' | '.join(percent(paper[name]) for name in names)} |")
        who = "reported" if "interval" not in row else "here" if row["seeds"] == 1 else f"here, {row['seeds']} seeds"
        lines.append(f"| {row['model']} | {who} | {' | '.join(estimate(row, name) for name in names)} |")
    return lines


def _sentences(tests: Rows) -> list[str]:
    """Return HiDAN against the compared models, and HiDAN and our ensemble against the best baseline."""
    sentences = []
    for row in (row for other in COMPARED for row in select(tests, other=other)):
        word = "higher" if row["low"] > 0 else "lower" if row["high"] < 0 else "no significant difference"
        difference, low, high = (f"{100 * row[name]:+.2f}" for name in ("difference", "low", "high"))
        sentences.append(
            f"HiDAN's MRR against {row['other']}'s, the paper's protocol: {word}, {difference} [{low}, {high}]."
        )
    counted = [
        row for name in ("hidan", ENSEMBLE) for row in tests if row["model"] == name and row["other"] in COUNTING
    ]
    keys = ("model", "other", "protocol", "cascades")
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in counted):
        model, other, protocol, subset = key
        ratios = listed(
            f"{HEADS[row['metric']]} x {row['ratio']:.3f}{'*' if row['low'] <= 0 <= row['high'] else ''}"
            for row in counted
            if tuple(row[name] for name in keys) == key
        )
        where = protocol if subset == "all" else f"{protocol}, {subset}"
        sentences.append(f"{model} against the best baseline by MRR ({other}), {where}: {ratios}.")
    return sentences


def _cost_line(row: Row, rows: Rows) -> Row:
    lstm = select(rows, data=row["data"], model="lstm")
    base = lstm[0]["epoch_seconds"] if lstm else 0
    return {
        "data": row["data"],
        "model": row["model"],
        "parameters": f"{row['parameters']:,}",
        "paper": row["paper_parameters"] or "",
        "epochs": listed(row["epochs"]),
        "CPU seconds per epoch": row["epoch_seconds"],
        "to LSTM": f"{row['epoch_seconds'] / base:.2f}" if base else "",
        "paper, seconds": row["paper_seconds"] or "",
    }


def _source_lines(rows: Rows) -> Rows:
    chance = rows[0]["chance"]
    lines = [
        {
            "row": row["model"],
            "by": row["by"],
            "precision": percent(row["precision"], 1),
            "ratio to random": f"{row['precision'] / chance:.2f}",
            "by seed": listed(percent(value, 1) for value in row["by_seed"]),
        }
        for row in rows
    ]
    rules = {"the latest user": rows[0]["latest"], "a random user": chance}
    return [
        *lines,
        *(
            {"row": name, "precision": percent(value, 1), "ratio to random": f"{value / chance:.2f}"}
            for name, value in rules.items()
        ),
    ]
