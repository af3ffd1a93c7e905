"""HiDAN's tables (Wang & Li, IJCAI 2019) on the data at hand.

The authors' training files (80 % of the cascades) are not public. Their validation file (10 %) is learned here, their
test file (10 %) is scored, and every row says so: it is the paper's protocol on an eighth of the paper's training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ensue.data.histories import Histories
from ensue.data.tables import read
from ensue.errors import DataError, SettingError
from ensue.evaluation import Result, compare, table
from ensue.next_event.predictor import NextPredictor
from ensue.studies.provenance import Follow, Study, Tell

SETS = {"memes": "meme", "weibo": "weibo", "twitter": "twitter"}
MODELS = ("hidan", "hidan-nua", "hidan-nca", "hidan-nt")
QUICK = {"epochs": 6, "refit": False}
AT = (10, 50, 100)
SHOWN = ("mrr", "hit@10", "hit@50", "hit@100")


def run(
    data: Path,
    *,
    models: Sequence[str],
    quick: bool,
    seeds: int,
    tell: Tell,
    follow: Follow,
    kept: Path | None = None,
) -> Study:
    """Rebuild Tables 1 (statistics), 2 (prediction) and 3 (parameters, seconds an epoch).

    Args:
        data: the folder with ``{meme,weibo,twitter}-cascades-time-{val,test}.gz``, or the folder above it.
        models: which of ``MODELS`` to train; none for all.
        quick: HiDAN alone and few epochs; not the paper's figures.
        seeds: trainings a model.
        tell: takes a line of progress.
        follow: shows a training.
        kept: not used; this study is not long enough to be kept in parts.

    Raises:
        DataError: a file is missing.
        SettingError: a model that has no row in the paper's table.
    """
    if unknown := [name for name in models if name not in MODELS]:
        raise SettingError(f"model {unknown[0]!r} has no row here; choose from {', '.join(MODELS)}")
    chosen = MODELS[:1] if quick else tuple(models) or MODELS
    tables: dict[str, list[dict[str, Any]]] = {"statistics": [], "prediction": [], "cost": []}
    page = ["# HiDAN: tables rebuilt", "", __doc__.split("\n\n")[1].replace("\n", " "), ""]
    if quick:
        page += [f"**Quick run**: HiDAN alone, at most {QUICK['epochs']} epochs. An impression, not a result.", ""]
    for name, stem in SETS.items():
        train, test = (_read(data, f"{stem}-cascades-time-{part}.gz") for part in ("val", "test"))
        tables["statistics"].append(_statistics(name, train, test))
        tell(f"{name}: {len(train):,} cascades to learn, {len(test):,} to score")
        entries = [_fitted(model, train, quick, seeds, tell, follow) for model in chosen]
        tables["cost"] += [_cost(name, predictors[0]) for predictors in entries]
        page += [f"## {name}", ""]
        for protocol in ("paper", "full"):
            result = compare(entries, test, protocol, AT)
            tables["prediction"] += _rows(name, result)
            page += [_section(result), ""]
    page += ["## Cost (Table 3)", "", _plain(tables["cost"]), "", "## Data (Table 1)", "", _plain(tables["statistics"])]
    return Study("hidan", tables, "\n".join([*page, ""]))


def _read(data: Path, file: str) -> Histories:
    for folder in (data, data / "hidan", data / "cascades" / "hidan"):
        if (folder / file).is_file():
            return read(folder / file)[0]
    raise DataError(f"{data}: {file} is not there; name the folder that holds HiDAN's own files")


def _fitted(model: str, train: Histories, quick: bool, seeds: int, tell: Tell, follow: Follow) -> list[NextPredictor]:
    predictors = [NextPredictor(model, settings=QUICK if quick else {}, seed=seed) for seed in range(seeds)]
    for predictor in predictors:
        tell(f"{model}, seed {predictor.seed}")
        follow(predictor.fit(train))
    return predictors


def _statistics(name: str, train: Histories, test: Histories) -> dict[str, Any]:
    users = set(train.vocabulary.values) | set(test.vocabulary.values)
    lengths = np.concatenate([train.lengths, test.lengths])
    return {
        "data": name,
        "users": len(users),
        "cascades_learned": len(train),
        "cascades_scored": len(test),
        "mean_length": round(float(lengths.mean()), 1),
    }


def _cost(name: str, predictor: NextPredictor) -> dict[str, Any]:
    counted = [p.numel() for key, p in predictor.network.named_parameters() if not key.startswith(("users", "output"))]
    return {
        "data": name,
        "model": predictor.model_name,
        "parameters": sum(counted),
        "epochs": predictor.facts["epochs"],
        "seconds_an_epoch": round(predictor.seconds_an_epoch or 0, 2),
    }


def _rows(name: str, result: Result) -> list[dict[str, Any]]:
    shared = {"data": name, "training": "10 %", "protocol": result.protocol.name}
    verdict = {"beats_counting": result.beats_counting, "best_counting": result.best_counting}
    return [{**shared, **row.to_dict(), **verdict} for row in result.rows]


def _section(result: Result) -> str:
    card = result.protocol
    about = f"Protocol {card.name}: {card.averaging}; {card.repeats}; ties {card.ties}. {card.targets}. {card.leaked}."
    return "\n\n".join([f"**10 % training.** {about}", table(result, SHOWN), f"HiDAN {result.verdict}"])


def _plain(rows: list[dict[str, Any]]) -> str:
    head = list(rows[0])
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(str(row[name]) for name in head)} |" for row in rows)])
