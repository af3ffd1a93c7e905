"""AST (Danovitch, ITCSE 2020) on the data sets at hand: posts and the articles they are about.

Tables 1 (precision by r) and 2 (AP, AUC, mRP), figures 1 (softmax and sparse weights by length), 2 (posts of the most
shared articles), 3 (trained alpha of each head) and 4 (what a threshold retrieves).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import polars as pl
import torch
from plotly.subplots import make_subplots

from ensue import figures
from ensue.data.posts.corpus import Corpus, read_corpus
from ensue.data.posts.dataset import Articles
from ensue.errors import DataError
from ensue.evaluation.bootstrap import BootstrapResult, bootstrap, resample_seeds
from ensue.evaluation.examples import statistic_of
from ensue.evaluation.link import METRICS, JudgedPosts
from ensue.nn.device import find_device
from ensue.nn.normalisers import sparsemax
from ensue.significance import LEVEL
from ensue.tasks.link.catalogue import COUNTING, MODELS
from ensue.tasks.link.link_metrics import Pool, at_cut
from ensue.tasks.link.models.star import AST
from ensue.tasks.link.predictor import LinkPredictor
from ensue.text.encoder import Encoder
from ensue_studies.datasets import DataSet, available, fingerprint, folder_of, planned
from ensue_studies.page import (
    Page,
    Row,
    Rows,
    Tables,
    Values,
    by_significance,
    distinct,
    estimate,
    listed,
    percent,
    select,
)
from ensue_studies.papers import Paper
from ensue_studies.results import Study
from ensue_studies.runner import (
    CachedRun,
    CachedRuns,
    Plan,
    Request,
    cost_of,
    extend,
    mean_of,
    paired_tests,
    require_models,
)

PAPER = Paper("ast")
FULL, QUICK = (Plan(**PAPER["plan"][name]) for name in ("full", "quick"))
NETWORKS = ("cnn", "gru", "bigru", "ast")
"""The models of the paper."""
VARIANTS: Mapping[str, Row] = PAPER["variants"]
"""Rows of AST as published, and with one change each: model and settings; one seed each."""
ENSEMBLES: Mapping[str, Row] = PAPER["ensembles"]
"""Rows of ``best``: every post without the others, and with the cosine of AST."""
ENCODED: Mapping[str, Row] = PAPER["encoded"]
"""Rows that an installed sentence encoder adds."""
TRAINED = (*NETWORKS, *VARIANTS, *ENSEMBLES)
WITH_VECTORS = ("ast-paper",)
"""Rows that read the word vectors of a file."""
TESTED = ("pooled_ap", "mrp", "mrr")
"""Metrics of the paired tests."""
HEADS = {
    "mrr": "MRR",
    "recall@10": "R@10",
    "map": "MAP",
    "article_mrr": "MRR, articles",
    "article_map": "MAP, articles",
    "pooled_ap": "AP (paper: mAP)",
    "mrp": "mRP",
    "auc": "AUC",
}
OVERALL = PAPER.rows("overall")
"""Table 2 of the paper, in percent, by model."""
PRECISION = PAPER.rows("precision")
"""Table 1 of the paper: precision of the r best pairs in percent, by r and by model."""
SCALE = 65_535
"""Largest value of the 16-bit integers that store resamples."""
MAPPED = 10
"""Articles of figure 2: those that most posts are about."""

SETS = ("politifact", "clickbait22")
UNTITLED = ("clickbait22",)
"""Sets whose titles are not read."""


def find_sets(data: Path) -> tuple[list[DataSet[Corpus]], list[str]]:
    """Read the available data sets; their corpora mark the parts.

    Args:
        data: folder with ``politifact`` and ``clickbait22``, one of them at least, or its parent.

    Returns:
        The data sets, and the names of those that are not available.

    Raises:
        DataError: neither is available, or one lacks a part.
    """
    folder = folder_of(data, "links")
    return available(data, {name: partial(_read_set, folder / name) for name in SETS}, SETS)


def _read_set(folder: Path) -> DataSet[Corpus] | None:
    if not folder.is_dir():
        return None
    corpus = read_corpus(folder)[0]
    if missing := {"train", "valid", "test"} - corpus.parts:
        raise DataError(f"{folder}: no post is of part {sorted(missing)[0]!r}; the study needs all three")
    if folder.name in UNTITLED:
        empty = pl.Series([""] * len(corpus.articles), dtype=pl.String)
        corpus = replace(corpus, articles=Articles(corpus.articles.bodies, empty, corpus.articles.ids))
    seen = fingerprint((corpus.articles.texts, corpus.posts.texts, corpus.pairs))
    about = PAPER["about"][folder.name]
    return DataSet(name=folder.name, train=corpus, test=corpus, fingerprint=seen, about=about)


def find_vectors(data: Path) -> Path | None:
    """Return the word vectors ``vectors/sgns100.npz`` of the folder, its parent or ``text``, if they exist."""
    folders = (data, data / "text", data.parent, data.parent / "text")
    return next((path for folder in folders if (path := folder / "vectors" / "sgns100.npz").is_file()), None)


def statistics(data: DataSet[Corpus]) -> Rows:
    """Return one row per part."""
    corpus = data.train
    lengths = corpus.articles.texts.str.split(" ").list.len()
    rows = []
    for name in ("train", "valid", "test"):
        part = corpus.part(name)
        articles = np.unique(part.pairs[:, 0])
        rows.append(
            {
                "data": data.name,
                "part": name,
                "posts": len(part),
                "articles": len(articles),
                "links": len(part.pairs),
                "words per post": round(float(np.mean(part.posts.texts.str.split(" ").list.len().to_numpy())), 1),
                "words per article, median": int(np.median(lengths.gather(articles).to_numpy())),
            }
        )
    return rows


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables and the plots.

    Args:
        data: see :func:`find_sets` and :func:`find_vectors`.
        request: ``models``: ``sbert=NAME``, the name or folder of an installed sentence-transformers model, adds its
            rows. ``quick``: one data set, fewer networks, few epochs, one seed, and the first words of each article.
            ``seeds``: per network.

    Raises:
        DataError: no data set is available, or the file of cached runs is something else.
        SettingError: a model that has no row, or an encoder that cannot be read.
    """
    encoders = [name.removeprefix("sbert=") for name in request.models if name.startswith("sbert=")]
    named = [name for name in request.models if not name.startswith("sbert=")]
    require_models(named, TRAINED, ", and sbert=NAME for an installed sentence-transformers model")
    for name in encoders[:1]:
        Encoder(name, find_device(None)).probe()  # an encoder that cannot be read is refused now, not after hours
    plan = QUICK if request.quick else FULL
    trainer = Trainer(plan, request.cached_runs(), find_vectors(data), "".join(encoders[:1]))
    names = ("statistics", "overall", "precision", "paired_tests", "heads", "thresholds", "map")
    tables: Tables = {name: [] for name in names}
    tables["weights"] = sparse_weights()
    found, absent = find_sets(data)
    sets, left_out = planned(found, plan.sets)
    for data_set in sets:
        models = (*named, *(ENCODED if encoders else ())) or plan.models.get(data_set.name, TRAINED)
        left_out += [] if request.models else [name for name in TRAINED if name not in models]
        corpus = data_set.train
        request.log(f"{data_set.name}: {len(corpus.posts):,} posts, {len(corpus.articles):,} articles")
        tables["statistics"] += statistics(data_set)
        extend(tables, _tables(plan, trainer, data_set, models, request.seeds))
    text = introduction(trainer, sets, absent, left_out, request)
    return Study("ast", tables, write(text, tables), draw(tables))


class Trainer:
    """Trainings of one study, with the word vectors and the sentence encoder that some rows read."""

    def __init__(self, plan: Plan, runs: CachedRuns, vectors: Path | None, encoder: str) -> None:
        self.plan, self.runs, self.vectors, self.encoder = plan, runs, vectors, encoder
        self.vectors_hash = hashlib.blake2b(vectors.read_bytes(), digest_size=8).hexdigest() if vectors else ""

    def train(self, data: DataSet[Corpus], model: str, seed: int) -> CachedRun:
        """Return the measurements of one row and seed."""
        row = {**VARIANTS, **ENSEMBLES, **ENCODED}.get(model, {"model": model})
        changes = row.get("settings", {})
        is_network = model in NETWORKS or model in VARIANTS or "network" in changes
        options = {**(self.plan.options if is_network else {}), **changes}
        paths = {}
        if self.vectors and model in WITH_VECTORS:
            options.pop("dim", None)  # the file has its own
            paths["vectors"] = str(self.vectors)
        if model in ENCODED:
            options["encoder"], paths["encoder"] = Path(self.encoder).name, self.encoder
        key = {**data.key(model, options, seed), "vectors": self.vectors_hash if "vectors" in paths else ""}
        return self.runs.train(
            key,
            f"{data.name}: {model} seed {seed}",
            lambda: LinkPredictor(row["model"], settings={**options, **paths}, seed=seed),
            lambda predictor: predictor.fit(data.train),
            lambda predictor: measured(predictor, JudgedPosts([[predictor]], data.test)),
        )


def _summary(predictor: LinkPredictor, judged: JudgedPosts) -> CachedRun:
    """Return what is saved of a trained network next to its metrics."""
    if MODELS[predictor.model_name].schedule is None:
        return {}
    validation = predictor.metadata.validation
    assert validation is not None
    encoder = predictor.network.encoder
    return {
        "epochs": predictor.metadata.epochs,
        "epoch_seconds": round(predictor.seconds_an_epoch or 0.0, 2),
        "parameters": sum(part.numel() for part in encoder.parameters()),
        "validation_mrr": validation.mrr,
        "map": post_map(predictor, judged) if predictor.seed == 0 else {},
        **({"alphas": encoder.alphas()} if isinstance(encoder, AST) else {}),
    }


def _tables(plan: Plan, trainer: Trainer, data: DataSet[Corpus], models: Sequence[str], seeds: int) -> Tables:
    """Return all rows of one data set but its statistics."""
    runs = {}
    for name in (*models, *COUNTING):
        requested = plan.seeds(seeds if name in NETWORKS else 1, data.name, name)
        runs[name] = [trainer.train(data, name, seed) for seed in requested]
    results = {name: bootstrap_of(found) for name, found in runs.items()}
    return {
        "overall": [_row(data.name, name, runs[name], results[name]) for name in runs],
        "precision": [
            {
                "data": data.name,
                "model": name,
                "precision": _means([run["precision_at"] for run in found]),
                "paper": {r: row[name] for r, row in PRECISION.items() if name in row},
            }
            for name, found in runs.items()
        ],
        "paired_tests": paired_tests(data.name, results, ("ast", "best", "best+ast", "best+sbert"), TESTED),
        "heads": [
            {"data": data.name, "seed": seed, "step": step, "alphas": alphas}
            for seed, run in enumerate(runs.get("ast", []))
            for step, alphas in run["alphas"].items()
        ],
        "thresholds": [
            {"data": data.name, "model": name, "at": kind, **threshold}
            for name, found in runs.items()
            for kind, threshold in found[0]["thresholds"].items()
            if name in NETWORKS or kind == "even"
        ],
        "map": [{"data": data.name, "model": name, **runs[name][0]["map"]} for name in NETWORKS if name in runs],
    }


def _row(data: str, name: str, runs: Sequence[CachedRun], result: BootstrapResult) -> Row:
    """Return a row of Table 2: means over seeds, intervals, the paper's metrics."""
    row: Row = {"data": data, "model": name, "seeds": len(runs), **_means([run["figures"] for run in runs])}
    row |= {"interval": result.interval(), "paper": dict(OVERALL.get(name, {}))}
    if "epochs" in runs[0]:
        row |= {"parameters": runs[0]["parameters"], **cost_of(runs)}
        row["validation_mrr"] = mean_of(runs, "validation_mrr", 4)
    return row


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


# --- metrics -----------------------------------------------------------------------------------------------------


def measured(predictor: LinkPredictor, judged: JudgedPosts) -> CachedRun:
    """Return the metrics of a model, the same on each resample, precision by r, and what two thresholds retrieve."""
    scored = judged.score(predictor)
    statistic = statistic_of(scored, METRICS, judged.units, judged.num_units)
    (result,) = bootstrap(METRICS, [[statistic]], judged.num_units, "multinomial")
    pool = scored.scores[:, judged.pool]
    thresholds = {"cosine": PAPER["cut"]} | ({"even": scored.cut} if scored.cut is not None else {})
    retrieved = {name: at_cut(pool, judged.true, threshold) for name, threshold in thresholds.items()}
    return {
        "figures": result.by_name(),
        "draws": base64.b64encode(np.rint(result.draws * SCALE).astype("<u2").tobytes()).decode("ascii"),
        "precision_at": {str(r): value for r, value in Pool(pool, judged.true).precision_curve().items()},
        "thresholds": {
            name: {
                "threshold": found.cut,
                "right": found.right,
                "wrong": found.retrieved - found.right,
                "missed": found.relevant - found.right,
                "precision": found.precision,
                "precision_interval": found.precision_interval,
                "recall": found.recall,
                "recall_interval": found.recall_interval,
            }
            for name, found in retrieved.items()
        },
        "seconds_to_score": round(scored.seconds, 3),
        **_summary(predictor, judged),
    }


def bootstrap_of(runs: Sequence[CachedRun]) -> BootstrapResult:
    """Return the metrics and resamples of a model, from :func:`measured` of each seed."""
    by_seed = np.array([[run["figures"][name] for name in METRICS] for run in runs])
    packed = [np.frombuffer(base64.b64decode(run["draws"]), "<u2") for run in runs]
    draws = np.stack([seed.reshape(-1, len(METRICS)) / SCALE for seed in packed])
    return BootstrapResult(METRICS, by_seed, resample_seeds(draws))


def post_map(predictor: LinkPredictor, judged: JudgedPosts) -> CachedRun:
    """Return figure 2: posts about the articles that most test posts are about, in two dimensions by t-SNE.

    Its number is the mean silhouette in the space of the vectors themselves (cosine; Rousseeuw 1987): 1 if posts about
    one article are close together and far from others, 0 if they are mixed.
    """
    from sklearn.manifold import TSNE  # slow to import
    from sklearn.metrics import silhouette_score

    top = np.argsort(-judged.related.sum(0), kind="stable")[:MAPPED]
    rows = np.flatnonzero(judged.related[:, top].any(1))
    owners = judged.related[rows][:, top].argmax(1)
    vectors = predictor.vectors(judged.data.posts.texts.gather(rows))
    if len(rows) <= len(np.unique(owners)) or len(np.unique(owners)) < 2:
        return {}
    perplexity = float(max(2, min(30, (len(rows) - 1) // 3)))
    points = TSNE(perplexity=perplexity, init="pca", metric="cosine", random_state=0).fit_transform(vectors)
    titles = judged.data.articles.titles.gather(top).to_list()
    ids = judged.data.articles.ids.gather(top).to_list()
    return {
        "silhouette": float(silhouette_score(vectors, owners, metric="cosine")),
        "x": np.round(points[:, 0].astype(float), 2).tolist(),
        "y": np.round(points[:, 1].astype(float), 2).tolist(),
        "articles": [title or id for title, id in zip(titles, ids, strict=True)],
        "article": owners.tolist(),
    }


def sparse_weights(lengths: Sequence[int] = (5, 25), *, dim: int = 64, seed: int = 0) -> Rows:
    """Return figure 1: self-attention of random vectors, one row per normaliser and length.

    Args:
        lengths: words.
        dim: size of the vectors. Scores are their products over its root, times 2, as peaked as a trained layer's.
        seed: seed of the vectors.
    """
    rows = []
    for length in lengths:
        vectors = torch.randn(length, dim, generator=torch.Generator().manual_seed(seed))
        keys = torch.randn(length, dim, generator=torch.Generator().manual_seed(seed + 1))
        scores = vectors @ keys.T / dim**0.5 * 2
        for name, weights in (("softmax", scores.softmax(1)), ("sparsemax", sparsemax(scores))):
            # (length, length) sorted weights of each word, added up: how many words hold nine tenths
            sums = weights.sort(dim=1, descending=True).values.cumsum(1)
            most = ((sums < 0.9).sum(1) + 1).float().mean()
            rows.append(
                {
                    "length": length,
                    "normaliser": name,
                    "largest weight": round(float(weights.amax(1).mean()), 3),
                    "share of zeros": round(float((weights == 0).float().mean()), 3),
                    "words that share 90 %": round(float(most), 1),
                    "weights": [[round(value, 4) for value in row] for row in weights.tolist()],
                }
            )
    return rows


def weights_sentence(rows: Rows) -> str:
    """Return figure 1 in one sentence."""
    parts = []
    for name in distinct(rows, "normaliser"):
        words = [
            f"{row['words that share 90 %']:.1f} of {row['length']} words" for row in select(rows, normaliser=name)
        ]
        parts.append(f"under {name} nine tenths of a word's attention go to {' and to '.join(words)}")
    return "; ".join(parts).capitalize() + "."


# --- page --------------------------------------------------------------------------------------------------------


def introduction(
    trainer: Trainer,
    sets: Sequence[DataSet[Corpus]],
    absent: Sequence[str],
    left_out: Sequence[str],
    request: Request,
) -> str:
    """Return the text above the first table."""
    page = Page("# AST: tables and plots")
    vectors = "vectors of a file" if trainer.vectors else "trained vectors"
    if request.quick:
        page.text(PAPER["quick"], PAPER["left_out"].format(names=listed(left_out)) if left_out else "")
    page.text(PAPER["introduction"].format(vectors=vectors))
    page.text(PAPER["encoder"].format(encoder=Path(trainer.encoder).name) if trainer.encoder else "")
    page.data_sets({data.name: f"{data.about}." for data in sets}, absent)
    return str(page)


def write(text: str, tables: Mapping[str, Rows]) -> str:
    """Return the page as Markdown."""
    page = Page(text)
    page.section("The data")
    page.table(tables["statistics"])
    for data in distinct(tables["overall"], "data"):
        rows = select(tables["overall"], data=data)
        page.section(f"Table 1: precision of the r best pairs, {data}")
        page.table([_precision_line(row) for row in select(tables["precision"], data=data)])
        page.text("In brackets the number of the paper, on its own tweets.")
        page.section(f"Table 2: {data}")
        page.table([_overall_line(row) for row in rows])
        page.bullets(_sentences(rows, select(tables["paired_tests"], data=data)))
        page.text(f"Differences are paired on the same resamples; significant is p < {LEVEL}.")
        if cost := [_cost_line(row) for row in rows if "parameters" in row]:
            page.text("Parameters are those of the encoder, without word vectors.")
            page.table(cost)
    page.section("Figure 1: weights by length")
    page.text(weights_sentence(tables["weights"]))
    page.table([{name: row[name] for name in row if name != "weights"} for row in tables["weights"]])
    page.section(f"Figure 2: posts about the {MAPPED} articles that most test posts are about")
    maps = [_map_line(row) for row in tables["map"] if row.get("x")]
    page.text(PAPER["map"] if maps else "")
    page.table(maps, "No network was trained, or too few posts share an article.")
    page.section("Figure 3: trained alpha of each head")
    page.text("1 is softmax, 2 is sparsemax; every head starts at 1.5." if tables["heads"] else "")
    page.table([_head_line(row) for row in tables["heads"]], "AST was not trained.")
    page.section("Figure 4: pairs above a threshold")
    page.text(PAPER["thresholds"].format(cut=PAPER["cut"]))
    page.table([_threshold_line(row) for row in tables["thresholds"]])
    page.section("Notes for a comparison with the paper")
    page.bullets(PAPER["slips"])
    return str(page)


def draw(tables: Mapping[str, Rows]) -> tuple[go.Figure, ...]:
    """Return Table 1 as curves, and figures 1 to 4."""
    plots = [_weights_plot(tables["weights"])]
    for data in distinct(tables["overall"], "data"):
        rows = select(tables["precision"], data=data)
        ranks = list(rows[0]["precision"])
        series = {row["model"]: [100 * row["precision"][r] for r in ranks] for row in rows}
        plots.append(figures.lines(f"Table 1: precision of the r best pairs ({data})", "per cent", ranks, series))
        plots += [_map_plot(row) for row in select(tables["map"], data=data, model="ast") if row.get("x")]
        if heads := select(tables["heads"], data=data, seed=0):
            names = [f"head {number}" for number in range(1, len(heads[0]["alphas"]) + 1)]
            series = {row["step"]: row["alphas"] for row in heads}
            plots.append(figures.bars(f"Figure 3: alpha of each head ({data})", "alpha", names, series))
        thresholds = select(tables["thresholds"], data=data, at="even")
        retrieved = {kind: [row[kind] for row in thresholds] for kind in ("right", "wrong", "missed")}
        title = f"Figure 4: pairs above each model's threshold of P = .5 ({data})"
        plots.append(figures.bars(title, "", [row["model"] for row in thresholds], retrieved))
    return tuple(plots)


def _precision_line(row: Row) -> Row:
    cells = {r: f"{percent(value, 1)}{_printed(row['paper'].get(r))}" for r, value in row["precision"].items()}
    return {"model": row["model"], **cells}


def _printed(value: float | None) -> str:
    return "" if value is None else f" ({value:.1f})"


def _overall_line(row: Row) -> Row:
    cells = {HEADS[name]: f"{estimate(row, name, 1)}{_printed(row['paper'].get(name))}" for name in METRICS}
    return {"model": row["model"], "seeds": row["seeds"], **cells}


def _sentences(rows: Rows, tests: Rows) -> list[str]:
    """Return the paired tests, and the networks that are below a baseline."""
    words = ("above", "below", "not significantly different from")
    lines = []
    for name in distinct(tests, "model"):
        for metric in distinct(tests, "metric"):
            found = by_significance(select(tests, model=name, metric=metric), words, _difference)
            lines.append(f"{name}, {HEADS[metric]}: {found}.")
    scores = {row["model"]: row["mrr"] for row in rows}
    best = max((name for name in COUNTING if name in scores), key=scores.__getitem__, default=None)
    lost = [name for name in scores if best and name not in COUNTING and scores[name] < scores[best]]
    return [*lines, f"By MRR, a baseline is above {listed(lost)}: {best}."] if lost else lines


def _difference(row: Values) -> str:
    return f"{row['other']} ({100 * row['difference']:+.1f})"


def _cost_line(row: Row) -> Row:
    return {
        "model": row["model"],
        "parameters": f"{row['parameters']:,}",
        "epochs": listed(row["epochs"]),
        "CPU seconds per epoch": row["epoch_seconds"],
        "validation MRR": percent(row["validation_mrr"], 1),
    }


def _map_line(row: Row) -> Row:
    silhouette = f"{row['silhouette']:.3f}"
    return {"data": row["data"], "model": row["model"], "posts": len(row["x"]), "silhouette": silhouette}


def _head_line(row: Row) -> Row:
    alphas = {f"head {number}": f"{alpha:.2f}" for number, alpha in enumerate(row["alphas"], 1)}
    return {**{name: row[name] for name in ("data", "seed", "step")}, **alphas}


def _threshold_line(row: Row) -> Row:
    def interval(name: str) -> str:
        low, high = row[f"{name}_interval"]
        return f"{percent(row[name], 1)} ({percent(low, 1)} to {percent(high, 1)})"

    return {
        "data": row["data"],
        "model": row["model"],
        "at": f"cosine {PAPER['cut']}" if row["at"] == "cosine" else "even (P = .5)",
        **{name: row[name] for name in ("right", "wrong", "missed")},
        **{name: interval(name) for name in ("precision", "recall")},
    }


def _weights_plot(rows: Rows) -> go.Figure:
    """Return figure 1: the weights of each normaliser and length."""
    titles = [f"{row['normaliser']}, {row['length']} words" for row in rows]
    figure = make_subplots(rows=len(rows) // 2, cols=2, subplot_titles=titles, vertical_spacing=0.12)
    for index, row in enumerate(rows):
        field = go.Heatmap(z=row["weights"], zmin=0, zmax=1, colorscale="Blues", showscale=index == 0)
        figure.add_trace(field, row=index // 2 + 1, col=index % 2 + 1)
    title = {"text": "Figure 1: attention of random vectors"}
    return figure.update_layout(title=title, template="simple_white", height=700)


def _map_plot(row: Values) -> go.Figure:
    """Return figure 2."""
    figure = go.Figure()
    articles = np.array(row["article"])
    for number, title in enumerate(row["articles"]):
        x, y = (np.array(row[axis])[articles == number].tolist() for axis in ("x", "y"))
        figure.add_scatter(x=x, y=y, mode="markers", name=title[:60])
    title = f"Figure 2: test posts about the {MAPPED} most shared articles ({row['data']}, {row['model']})"
    return figure.update_layout(title={"text": title}, template="simple_white", height=520)
