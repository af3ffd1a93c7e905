"""``NAME-paper`` is the model of a paper in its printed sizes and training; ``NAME`` is ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ensue import History, Text
from ensue.data.histories import Histories
from ensue.data.queries import Queries, read_queries
from ensue.data.texts import Texts
from ensue.predictor import load, make
from ensue.tasks.classify.catalogue import MODELS as CLASSIFY
from ensue.tasks.link.catalogue import MODELS as LINK
from ensue.tasks.next.catalogue import MODELS as NEXT
from ensue.tasks.suggest.catalogue import MODELS as SUGGEST

# What each paper prints, and where it is silent, its authors' program.
HIDAN = {"dim": 64, "table_dim": 32, "window": 30, "max_hours": 120.0, "intervals": 40, "dropout": 0.2, "loss": "ce"}
HIDAN_TRAINED = {"learning_rate": 1e-3, "batch_size": 32, "weight_decay": 5e-5, "epochs": 200, "check_every": 5}
SANSR = {"dim": 128, "heads": 2, "num_layers": 1, "residual": True, "loss": "bpr_softmax"}
MTN = {"depth": "3+2+3", "dim": 512, "embedding": 300, "wide": 1024, "heads": 8, "dropout": 0.1, "reads": "last"}
CENTRALITY = {"hidden": 300, "score_dim": 50, "dropout": 0.6, "method": "power", "residual": False}
CENTRALITY_TRAINED = {"learning_rate": 3e-4, "decay_rate": 0.95, "decay_steps": 500, "weight_decay": 1e-6}
AST = {"encoder": "ast", "bag": 0, "pretrain": "none", "loss": "triplet", "residual": False, "heads": 6, "cycles": 1}


@pytest.mark.parametrize(
    ("row", "settings", "schedule"),
    [
        (NEXT["hidan-paper"], HIDAN, {**HIDAN_TRAINED, "monitor": "loss", "patience": 5, "refit": False}),
        (NEXT["sansr-paper"], SANSR, {"learning_rate": 1e-3, "decay": False, "warm_up": None}),
        (SUGGEST["mtn-paper"], MTN, {"warm_up": 4000, "beta2": 0.98, "epochs": 5}),
        (CLASSIFY["centrality-paper"], CENTRALITY, {**CENTRALITY_TRAINED, "batch_size": 128, "smallest_batch": 16}),
        (LINK["ast-paper"], AST, {"learning_rate": 1e-4, "epochs": 10}),
    ],
    ids=["hidan", "sansr", "mtn", "centrality", "ast"],
)
def test_settings_are_those_of_the_paper(row: Any, settings: Mapping[str, Any], schedule: Mapping[str, Any]) -> None:
    assert {name: getattr(row.settings, name) for name in settings} == settings
    assert {name: getattr(row.schedule, name) for name in schedule} == schedule


LABELLED = {"good film": "yes", "bad plot": "no"}


def histories(folder: Path) -> Histories:
    walks = ["abcdef"[start:] + "abcdef"[:start] for start in range(6)]
    return Histories.of([History(tuple(walk), tuple(map(float, range(6)))) for walk in walks] * 3)


def texts(folder: Path) -> Texts:
    good, bad = ([Text((f"a {words} {number}",), label) for number in range(12)] for words, label in LABELLED.items())
    return Texts.of([*good, *bad])


def queries(folder: Path) -> Queries:
    rows = [
        f"u{user}\t{word} {user % 3}\t{1_700_000_000 + 90_000 * user + 60 * step}"
        for user in range(24)
        for step, word in enumerate(("ferry", "ferry times", "ferry fares"))
    ]
    path = folder / "searches.tsv"
    path.write_text("\n".join(["user\tquery\ttime", *rows, ""]))
    return read_queries(path)[0]


SMALL: dict[str, tuple[str, dict[str, object]]] = {
    "hidan-paper": ("next", {"dim": 8, "table_dim": 4, "epochs": 5}),
    "sansr-paper": ("next", {"dim": 8, "epochs": 1}),
    "mtn-paper": ("suggest", {"dim": 8, "embedding": 8, "wide": 8, "heads": 2, "epochs": 1}),
    "centrality-paper": ("classify", {"dim": 8, "hidden": 4, "head": 4, "epochs": 1}),
}


@pytest.mark.parametrize("name", SMALL)
def test_it_is_trained_saved_loaded_and_updated(name: str, tmp_path: Path) -> None:
    task, settings = SMALL[name]
    data: Any = {"next": histories, "classify": texts, "suggest": queries}[task](tmp_path)
    records: dict[str, Any] = {
        "next": History(("a", "b")),
        "classify": Text(("a good plot",)),
        "suggest": History(("ferry",)),
    }
    record = records[task]
    predictor: Any = make(task, name, settings=settings, device="cpu")
    for _ in predictor.fit(data):
        pass
    assert predictor.model_name == name, "no baseline took its place"
    expected = predictor.predict([record], 3)
    assert expected[0].choices
    predictor.save(tmp_path / "m")
    loaded: Any = load(tmp_path / "m", device="cpu")
    assert loaded.predict([record], 3) == expected and loaded.explain([record]) == predictor.explain([record])
    loaded.update(data)
