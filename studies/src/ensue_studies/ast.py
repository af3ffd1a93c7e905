"""AST's tables and figures (Danovitch, ITCSE 2020) on the data at hand: posts and the articles they are about.

Tables 1 (precision by r) and 2 (AP, AUC, mRP), figures 1 (softmax and sparse weights by length), 2 (posts of the most
shared articles), 3 (learned alpha a head) and 4 (what a threshold catches). It takes hours, so each finished training
is kept, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ensue.evaluation.bootstrap import BootstrapResult
from ensue.evaluation.link import JudgedPosts, score
from ensue.nn.device import find_device
from ensue.tasks.link.catalogue import COUNTING, MODELS
from ensue.tasks.link.model import LearnsAlphas
from ensue.tasks.link.predictor import LinkPredictor
from ensue.text.encoder import Encoder
from ensue_studies import ast_page as page
from ensue_studies.ast_measures import drawn, measured, post_map, sparse_weights
from ensue_studies.ast_paper import OVERALL, PRECISION
from ensue_studies.ast_sets import LinkSet, find_sets, find_vectors
from ensue_studies.cached_runs import CachedRun
from ensue_studies.provenance import Study
from ensue_studies.rows import Row, Tables, Values
from ensue_studies.runner import Request, Trainings, add, mean_of, require_rows, spent, verdicts

NETWORKS = ("cnn", "gru", "bigru", "ast")
"""The rows of the paper."""
VARIANTS: Mapping[str, tuple[str, Values]] = {
    "ast-paper": ("ast-paper", {"learning_rate": 1e-4}),
    "ast-inductive": ("ast", {"pretrain": "inductive"}),
    "ast-no-cloze": ("ast", {"pretrain": "none"}),
    "ast-no-residual": ("ast", {"residual": False}),
    "ast-softmax": ("ast", {"sparse": False}),
    "ast-no-relay": ("ast", {"relay": False}),
    "ast-one-head": ("ast", {"heads": 1}),
}
"""Rows of AST otherwise, and their models and settings: as published, and with one thing taken away; one seed each."""
FROM_FILE = ("ast-paper",)
"""Rows that read the vectors of a file."""
WEIGHED: Mapping[str, tuple[str, Values]] = {
    "best": ("best", {}),
    "best-alone": ("best", {"together": False}),
    "best+ast": ("best", {"learned": "ast"}),
}
"""Rows of ``best``: every post without the others, and with the cosine of AST, which learned the posts of training."""
TRAINED = (*NETWORKS, *VARIANTS, *WEIGHED)
ENCODED: Mapping[str, tuple[str, Values]] = {
    "sbert": ("sbert", {}),
    "best+sbert": ("best", {}),
    "best+sbert-alone": ("best", {"together": False}),
}
"""Rows that an installed sentence encoder adds."""
VERDICTS = ("pooled_ap", "mrp", "mrr")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is trained and scored."""

    options: Values = field(default_factory=dict)
    """Of every network."""
    seeds: Mapping[str, int] = field(default_factory=dict)
    """Trainings a network at most, of the sets that take long."""


FULL = Plan(
    options={"heads": 5, "dim": 100, "hidden": 100, "filters": 100, "learning_rate": 1e-3, "epochs": 20, "patience": 4},
    seeds={"clickbait22": 1},
)
"""Every network is as wide as the vectors of words at hand, as in the paper (all 300 there); six heads do not divide
100."""
QUICK = Plan(
    options={**FULL.options, "epochs": 6, "max_words": 150},
    seeds={"clickbait22": 1, "politifact": 1},
)
"""All posts, for the networks learn hardly anything from fewer; of each article its first words."""


def run(data: Path, request: Request) -> Study:
    """Rebuild the tables and the figures.

    Args:
        data: the folder with ``politifact`` and ``clickbait22``, or the folder above it. One of the two is enough;
            word vectors are ``vectors/sgns100.npz`` there, above it, or under ``text``.
        request: ``models``: which trained models get a row; none for all. ``sbert=NAME``, the name or folder of an
            installed sentence-transformers model, adds its row and that of ``best`` with it. ``quick``: few epochs, one
            training a network, and of each article its first words; not the paper's figures. ``seeds``: trainings a
            network; of the large set one.

    Raises:
        DataError: no data set is there, or the file of cells is something else.
        SettingError: a model that has no row, or an encoder that cannot be read.
    """
    encoders = [name.removeprefix("sbert=") for name in request.models if name.startswith("sbert=")]
    named = [name for name in request.models if not name.startswith("sbert=")]
    require_rows(named, TRAINED, ", and sbert=NAME for an installed sentence-transformers model")
    for name in encoders[:1]:
        Encoder(name, find_device(None)).probe()  # what cannot be read is said now, not after hours
    plan = QUICK if request.quick else FULL
    chosen = (*named, *(ENCODED if encoders else ())) if request.models else TRAINED
    vectors = find_vectors(data)
    study = _Study(plan, request.trainings(), vectors, encoders[0] if encoders else "")
    names = ("statistics", "overall", "precision", "verdicts", "heads", "cuts", "map")
    tables: Tables = {name: [] for name in names}
    tables["weights"] = sparse_weights()
    sets, absent = find_sets(data)
    for own in sets:
        request.log(f"{own.name}: {len(own.data.posts):,} posts, {len(own.data.articles):,} articles")
        tables["statistics"] += own.statistics()
        add(tables, study.tables(own, chosen, request.seeds))
    amounts = page.Amounts(vectors is not None, Path(encoders[0]).name if encoders else "")
    about = page.about([own.name for own in sets], absent, amounts, quick=request.quick)
    return Study("ast", tables, page.write(about, tables), page.draw(tables))


class _Study:
    """The trainings, each kept as it finishes."""

    def __init__(self, plan: Plan, trainings: Trainings, vectors: Path | None, encoder: str) -> None:
        self.plan, self.trainings, self.vectors, self.encoder = plan, trainings, vectors, encoder
        self.vectors_print = hashlib.blake2b(vectors.read_bytes(), digest_size=8).hexdigest() if vectors else ""

    def tables(self, own: LinkSet, models: Sequence[str], seeds: int) -> Row:
        """All rows of one data set."""
        seeds = min(seeds, self.plan.seeds.get(own.name, seeds))
        key = {"data": own.name, "fingerprint": own.fingerprint, "posts": len(own.data.posts)}
        judged = JudgedPosts(own.data)
        cells = {
            name: [self._trained(key, own, judged, name, seed) for seed in range(seeds if name in NETWORKS else 1)]
            for name in models
        }
        cells |= {name: [self._trained(key, own, judged, name, 0)] for name in COUNTING}
        draws = {name: drawn(found) for name, found in cells.items()}
        return {
            "overall": [_row(own.name, name, cells[name], draws[name]) for name in cells],
            "precision": [_precision(own.name, name, cells[name]) for name in cells],
            "verdicts": verdicts(own.name, draws, ("ast", "best", "best+ast", "best+sbert"), VERDICTS),
            "heads": [
                {"data": own.name, "seed": seed, "step": step, "alphas": alphas}
                for seed, cell in enumerate(cells.get("ast", []))
                for step, alphas in cell["alphas"].items()
            ],
            "cuts": [
                {"data": own.name, "model": name, "at": kind, **caught}
                for name in cells
                for kind, caught in cells[name][0]["cuts"].items()
                if name in NETWORKS or kind == "even"
            ],
            "map": [{"data": own.name, "model": name, **cells[name][0]["map"]} for name in NETWORKS if name in cells],
        }

    def _trained(self, key: Values, own: LinkSet, judged: JudgedPosts, model: str, seed: int) -> CachedRun:
        name, changes = {**VARIANTS, **WEIGHED, **ENCODED}.get(model, (model, {}))
        network = model in NETWORKS or model in VARIANTS or "learned" in changes
        options = {**self.plan.options, **changes} if network else {**changes}
        if self.vectors and model in FROM_FILE:
            options.pop("dim", None)  # the file has its own
        options |= {"encoder": Path(self.encoder).name} if model in ENCODED else {}
        vectors = {"vectors": str(self.vectors)} if self.vectors and model in FROM_FILE else {}
        settings = {**options, **vectors, **({"encoder": self.encoder} if model in ENCODED else {})}
        return self.trainings.get(
            {**key, "vectors": self.vectors_print if vectors else "", "model": model, "options": options, "seed": seed},
            f"{own.name}: {model} seed {seed}",
            lambda: LinkPredictor(name, settings=settings, seed=seed),
            lambda predictor: predictor.fit(own.data),
            lambda predictor: {**measured(score(predictor, judged), judged), **_about(predictor, judged)},
        )


def _about(predictor: LinkPredictor, judged: JudgedPosts) -> CachedRun:
    """What a training leaves behind beside its figures."""
    if MODELS[predictor.model_name].schedule is None:
        return {}
    validation = predictor.metadata.validation
    assert validation is not None
    found: CachedRun = {
        "epochs": predictor.metadata.epochs,
        "seconds_an_epoch": round(predictor.seconds_an_epoch or 0.0, 2),
        "parameters": sum(part.numel() for part in predictor.network.encoder.parameters()),
        "validation_mrr": validation.mrr,
        "map": post_map(predictor, judged) if predictor.seed == 0 else {},
    }
    if isinstance(encoder := predictor.network.encoder, LearnsAlphas):
        found["alphas"] = encoder.alphas()
    return found


def _row(data: str, name: str, cells: Sequence[CachedRun], found: BootstrapResult) -> Row:
    """A row of Table 2: means over seeds, intervals, the paper's figures."""
    row: Row = {"data": data, "model": name, "seeds": len(cells), **_mean([c["figures"] for c in cells])}
    row |= {"interval": found.interval(), "paper": dict(OVERALL.get(name, {}))}
    if "epochs" in cells[0]:
        row |= {"parameters": cells[0]["parameters"], **spent(cells)}
        row["validation_mrr"] = mean_of(cells, "validation_mrr", 4)
    return row


def _precision(data: str, name: str, cells: Sequence[CachedRun]) -> Row:
    """A row of Table 1."""
    paper = {r: rows[name] for r, rows in PRECISION.items() if name in rows}
    return {"data": data, "model": name, "precision": _mean([c["precision_at"] for c in cells]), "paper": paper}


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
