"""Seconds an epoch: HiDAN beside LSTMs of the same width, as ratios in one run.

The paper (Table 3) measures HiDAN at 0.19 of an LSTM on Weibo, mean length 23. Its LSTM emits step by step; so does
``step by step`` here (``torch.nn.LSTMCell``, the loss of a step as the step is made). ``one pass`` is the best case of
an LSTM on this machine: the fused ``torch.nn.LSTM`` over whole cascades. Both read a table of the same width, and have
the same hidden width (64), dropout, optimiser and batches as HiDAN.

    python benchmarks/epoch.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.data.histories import Histories
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.catalogue import MODELS
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.models.hidan import HiDAN
from ensue.training.optimizer import make_optimizer
from ensue.vocabulary import FIRST, Vocabulary
from ensue_studies.results import provenance

CASCADES, MEAN_LENGTH, REPEATS = 1500, 24, 15


class OnePassLSTM(nn.Module):
    """All steps of a batch by the fused LSTM, then the output layer and the loss."""

    def __init__(self, num_ids: int) -> None:
        super().__init__()
        self.users = nn.Embedding(num_ids, 32)
        self.lstm = nn.LSTM(32, 64, batch_first=True)
        self.output = nn.Linear(64, num_ids)
        self.dropout = nn.Dropout(0.2)

    def loss(self, batch: Batch) -> Tensor:
        states, _ = self.lstm(self.dropout(self.users(batch.ids)))
        return functional.cross_entropy(self.output(self.dropout(states[batch.target_mask])), batch.targets)


class StepLSTM(nn.Module):
    """One step after the other, each with its output and loss."""

    def __init__(self, num_ids: int) -> None:
        super().__init__()
        self.users = nn.Embedding(num_ids, 32)
        self.cell = nn.LSTMCell(32, 64)
        self.output = nn.Linear(64, num_ids)
        self.dropout = nn.Dropout(0.2)

    def loss(self, batch: Batch) -> Tensor:
        users = self.dropout(self.users(batch.ids))
        state = None
        total = torch.zeros(())
        targets = torch.zeros_like(batch.ids).masked_scatter(batch.target_mask, batch.targets)
        for step in range(users.shape[1]):
            state = self.cell(users[:, step], state)
            asked = batch.target_mask[:, step]
            scores = self.output(self.dropout(state[0][asked]))
            total = total + functional.cross_entropy(scores, targets[asked, step], reduction="sum")
        return total / batch.num_targets


def made_up(num_users: int) -> Histories:
    """Random cascades over ``num_users``, Poisson lengths of the given mean."""
    random = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(random.poisson(MEAN_LENGTH, CASCADES).clip(2))])
    ids = random.integers(FIRST, num_users + FIRST, offsets[-1]).astype(np.int32)
    return Histories(ids, offsets, Vocabulary(map(str, range(num_users))), np.sort(random.random(offsets[-1])) * 3e5)


def seconds(models: dict[str, Any], data: Histories, repeats: int) -> dict[str, list[float]]:
    """Seconds of each epoch, data to optimiser; the models take turns, so that a busy moment meets them all."""
    schedule = MODELS["hidan"].schedule
    assert schedule is not None
    optimizers = {name: make_optimizer(model, schedule) for name, model in models.items()}
    windows = {name: Windows(data, getattr(model, "reach", None)) for name, model in models.items()}
    results: dict[str, list[float]] = {name: [] for name in models}
    for number in range(repeats + 1):
        for name, model in models.items():
            start_time = time.perf_counter()
            for index in windows[name].plan(schedule.batch_size, number):
                optimizers[name].zero_grad()
                model.loss(windows[name].batch(index).to("cpu")).backward()
                optimizers[name].step()
            results[name].append(time.perf_counter() - start_time)
    return {name: times[1:] for name, times in results.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for num_users in (1109, 8110):
        data = made_up(num_users)
        peers = {"hidan": HiDAN(MODELS["hidan"].settings, num_users + FIRST)}
        peers |= {"lstm, step by step": StepLSTM(num_users + FIRST), "lstm, one pass": OnePassLSTM(num_users + FIRST)}
        times = seconds(peers, data, REPEATS)
        for name, result in times.items():
            ratio = statistics.median(times["hidan"]) / statistics.median(result)
            row = {"users": num_users, "model": name, "seconds": round(statistics.median(result), 3)}
            rows.append(
                {**row, "spread": [round(min(result), 3), round(max(result), 3)], "hidan_over_it": round(ratio, 2)}
            )
            print(rows[-1])
    if args.json:
        args.json.write_text(
            json.dumps({**provenance(), "threads": torch.get_num_threads(), "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
