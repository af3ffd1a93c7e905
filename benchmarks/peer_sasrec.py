"""SASRec of RecTools, run by the interpreter of its environment: this file does not import ensue.

    PYTHON benchmarks/peer_sasrec.py TASK.json

Trains once per seed with early stopping on validation sessions, and prints one line of JSON: the version, and the rank
of every target of the test sessions per seed, session by session; 0 where the target is not in the training data.
"""

from __future__ import annotations

import copy
import importlib.metadata
import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from pytorch_lightning import seed_everything
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import SASRecModel

ROWS = 512
"""Prefixes that are encoded at once."""


def interactions(sessions: list[list[str]]) -> Dataset:
    """Return sessions as users whose events are a second apart."""
    rows = [(user, item, 1.0, step) for user, items in enumerate(sessions) for step, item in enumerate(items)]
    frame = pd.DataFrame(rows, columns=[Columns.User, Columns.Item, Columns.Weight, "second"])
    frame[Columns.Datetime] = pd.to_datetime(frame.pop("second"), unit="s")
    return Dataset.construct(frame)


@torch.no_grad()
def ranks(model: SASRecModel, sessions: list[list[str]]) -> np.ndarray:
    """Return the rank of each event after the first; items that the session holds already are no candidates.

    Args:
        model: trained.
        sessions: of which unknown items are left out.
    """
    ids = dict(model.data_preparator.item_id_map.to_internal.items())
    length = model.session_max_len
    network = model.lightning_model.torch_model.eval()
    table = network.item_model.get_all_embeddings()
    results = []
    for session in sessions:
        known = [ids[item] for item in session if item in ids]
        # One row per prefix of the known items: its latest ``length`` events, padded on the left.
        rows = np.zeros((len(known), length), np.int64)
        for end in range(1, len(known)):
            window = known[max(0, end - length) : end]
            rows[end, length - len(window) :] = window
        place = 0
        session_ranks = []
        for item in session:
            is_ranked = item in ids and place > 0
            session_ranks.append(place if is_ranked else 0)
            place += item in ids
        scored = [place for place in session_ranks if place]
        for low in range(0, len(scored), ROWS):
            chunk = scored[low : low + ROWS]
            queries = network.encode_sessions({"x": torch.from_numpy(rows[chunk])}, table)[:, -1]
            scores = queries @ table.T
            scores[:, 0] = -torch.inf
            for row, end in enumerate(chunk):
                scores[row, known[:end]] = -torch.inf
            targets = scores.gather(1, torch.tensor([[known[end]] for end in chunk]))
            # Ties count against the target.
            scored[low : low + ROWS] = (scores >= targets).sum(1).tolist()
        ranked = iter(scored)
        results += [next(ranked) if place else 0 for place in session_ranks[1:]]
    return np.array(results)


def trained(task: dict[str, Any], seed: int) -> SASRecModel:
    """Return the model of the best check: the mean reciprocal rank of the validation sessions."""
    seed_everything(seed)
    model = SASRecModel(**task["settings"], recommend_torch_device="cpu")
    dataset = interactions(task["training"])
    best = (-1.0, {})
    failures = 0
    epochs = 0
    while epochs < task["epochs"] and failures < task["patience"]:
        model.fit_partial(dataset, min_epochs=task["check_every"], max_epochs=task["check_every"])
        epochs += task["check_every"]
        found = ranks(model, task["validation"])
        value = float((1 / found[found > 0]).mean())
        print(f"seed {seed}, epoch {epochs}: {value:.4f}", file=sys.stderr, flush=True)
        failures += 1
        if value > best[0]:
            best = (value, copy.deepcopy(model.lightning_model.torch_model.state_dict()))
            failures = 0
        model.lightning_model.torch_model.train()
    model.lightning_model.torch_model.load_state_dict(best[1])
    return model


def main() -> None:
    """Train once per seed."""
    warnings.simplefilter("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    task = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    torch.set_num_threads(1)
    runs = [ranks(trained(task, seed), task["test"]).tolist() for seed in task["seeds"]]
    print(json.dumps({"version": importlib.metadata.version("rectools"), "ranks": runs}))


if __name__ == "__main__":
    main()
