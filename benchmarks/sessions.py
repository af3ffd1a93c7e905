"""Seconds an epoch of next-click models on one set of sessions: SANSR beside GRU4Rec and RecBole's SASRec.

All have the same data, width (128), optimiser and batch (about 1,024 targets), and are compared at the same loss:
cross-entropy over all items (``ce``), or over the target and 2,048 shared negatives (``sampled``). An epoch is timed on
a fixed number of batches, in turns, and scaled by the number of targets. RecBole 1.2.1 needs an environment of its own
(numpy below 2); give its interpreter with ``--recbole``, or its row is left out:

    pip install recbole==1.2.1 --no-deps, then numpy==1.26.4 pandas==2.3.3 scipy==1.15.3 torch and its other needs
    python benchmarks/sessions.py TRAIN [--recbole ENV/bin/python] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import torch

from ensue.data.histories import Histories
from ensue.data.sequences import read
from ensue.schedule import Schedule
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.models.gru4rec import GRU4Rec
from ensue.tasks.next.models.sansr import SANSR
from ensue.tasks.next.settings import GRU4RecSettings, SANSRSettings
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST, Vocabulary
from ensue_studies.results import provenance

DIM, TARGETS, BATCHES, TURNS = 128, 1024, 4, 5

PEER = """
import sys, time, types
sys.modules.setdefault("ray", types.ModuleType("ray"))
for name in ("ray.tune", "ray.air"):
    sys.modules.setdefault(name, types.ModuleType(name))
import numpy as np, torch
from recbole.model.sequential_recommender.sasrec import SASRec

class Data:
    def num(self, field):
        return int(sys.argv[2])

settings = dict(n_layers=1, n_heads=2, hidden_size=128, inner_size=128, hidden_dropout_prob=0.2,
    attn_dropout_prob=0.2, hidden_act="relu", layer_norm_eps=1e-12, initializer_range=0.02, loss_type="CE",
    USER_ID_FIELD="user_id", ITEM_ID_FIELD="item_id", LIST_SUFFIX="_list", ITEM_LIST_LENGTH_FIELD="item_length",
    NEG_PREFIX="neg_", MAX_ITEM_LIST_LENGTH=50, device=torch.device("cpu"))
torch.set_num_threads(int(sys.argv[3]))
torch.manual_seed(0)
model = SASRec(settings, Data())
model.train()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
found = np.load(sys.argv[1])
ids, lengths, targets = (torch.from_numpy(found[name]) for name in ("ids", "lengths", "targets"))
print("ready", flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    for low in range(0, len(targets), 1024):
        part = slice(low, low + 1024)
        optimizer.zero_grad()
        batch = {"item_id_list": ids[part], "item_length": lengths[part], "item_id": targets[part]}
        model.calculate_loss(batch).backward()
        optimizer.step()
    print(time.perf_counter() - begun, flush=True)
"""


class Ours:
    """One of our models on a few batches of whole sessions."""

    def __init__(self, model: Any, data: Histories) -> None:
        self.model = model.train()
        self.windows = Windows(data, model.reach)
        self.optimizer = make_optimizer(model, Schedule(weight_decay=0.0))
        each = round(TARGETS * len(self.windows) / self.windows.targets)
        self.plan = self.windows.plan(each, 0)

    def turn(self, number: int) -> tuple[float, int]:
        """Seconds of the next batches, from data to optimiser, and their targets."""
        parts = [self.plan[at % len(self.plan)] for at in range(number * BATCHES, (number + 1) * BATCHES)]
        start_time = time.perf_counter()
        targets = 0
        for index in parts:
            batch = self.windows.batch(index).to("cpu")
            self.optimizer.zero_grad()
            self.model.loss(batch).backward()
            self.optimizer.step()
            targets += batch.num_targets
        return time.perf_counter() - start_time, targets


class RecBole:
    """SASRec of RecBole in its own interpreter, on random prefixes of the same sessions, 50 places each."""

    def __init__(self, python: Path, data: Histories) -> None:
        random = np.random.default_rng(0)
        steps = np.setdiff1d(np.arange(len(data.ids)), data.offsets[1:] - 1)
        chosen = random.choice(steps, TARGETS * BATCHES, replace=False)
        starts = data.offsets[np.searchsorted(data.offsets, chosen, side="right") - 1]
        lengths = np.minimum(chosen - starts + 1, 50)
        where = np.maximum(chosen - lengths + 1, 0)[:, None] + np.arange(50)
        ids = np.where(np.arange(50) < lengths[:, None], data.ids[np.minimum(where, len(data.ids) - 1)], 0)
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name) / "prefixes.npz"
        np.savez(file, ids=ids.astype(np.int64), lengths=lengths, targets=data.ids[chosen + 1].astype(np.int64))
        command = [str(python), "-c", PEER, str(file), str(len(data.vocabulary)), str(torch.get_num_threads())]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if self._line() != "ready":
            sys.exit(f"{python}: RecBole does not start; try its import there")

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def turn(self, number: int) -> tuple[float, int]:
        """Seconds of as many batches, and their targets."""
        assert self.process.stdin is not None
        print(number, file=self.process.stdin, flush=True)
        return float(self._line()), TARGETS * BATCHES


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("--recbole", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    data, _ = read(args.train)
    data = data.encode(Vocabulary(data.vocabulary.values), drop_unknown=True)
    targets = len(data.ids) - len(data)
    num_ids = len(data.vocabulary)
    torch.manual_seed(0)
    gru = GRU4RecSettings(dim=DIM, loss="ce", dropout_items=0.2, dropout_state=0.2)
    peers: dict[str, Ours | RecBole] = {
        "sansr, ce": Ours(SANSR(SANSRSettings(dim=DIM, loss="ce"), num_ids), data),
        "sansr, sampled": Ours(SANSR(SANSRSettings(dim=DIM), num_ids), data),
        "gru4rec, sampled": Ours(GRU4Rec(gru, num_ids), data),
    }
    if args.recbole:
        peers["recbole sasrec, ce"] = RecBole(args.recbole, data)
    times: dict[str, list[float]] = {name: [] for name in peers}
    for number in range(TURNS + 1):
        for name, peer in peers.items():
            seconds, done = peer.turn(number)
            times[name].append(seconds * targets / done)
    rows = []
    for name, result in times.items():
        same = f"sansr, {name.split(', ')[1]}"  # the same loss
        pairs = [ours / other for ours, other in zip(times[same][1:], result[1:], strict=True)]
        middle = statistics.median(result[1:])
        spread = [round(min(result[1:]), 1), round(max(result[1:]), 1)]
        row = {"model": name, "items": num_ids - FIRST, "targets": targets, "seconds_an_epoch": round(middle, 1)}
        rows.append({**row, "spread": spread, "sansr_over_it": round(statistics.median(pairs), 2)})
        print(rows[-1])
    if args.json:
        found_all = {**provenance(), "threads": torch.get_num_threads(), "rows": rows}
        args.json.write_text(json.dumps(found_all, indent=1) + "\n")


if __name__ == "__main__":
    main()
