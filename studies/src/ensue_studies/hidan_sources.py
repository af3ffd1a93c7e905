"""Figure 4 of HiDAN's paper as a number: who a trained model says infected whom, where the true graph is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ensue.data.histories import Histories, Index, ranges
from ensue.metrics import Floats
from ensue.tasks.next.dataset import Windows
from ensue.tasks.next.model import Credits
from ensue.tasks.next.predictor import NextPredictor
from ensue_studies.cached_runs import CachedRun

GROUP = 2000
"""Target steps looked at together."""
EARLIER = 29
"""Users before a user among whom its source is looked for: HiDAN's window."""


def sources(predictor: NextPredictor, test: Histories, edges: frozenset[tuple[str, str]]) -> CachedRun:
    """How often the earlier user who stands out is one who can infect a user.

    Asked of every user from a cascade's third on some of whose true sources are among the ``EARLIER`` users before it,
    and not all of those: elsewhere any answer, or none, is right.

    Returns:
        ``steps``, and the share of right answers by way of answering: the strongest ``weight`` of the first attention;
        the largest part in the user's score (``credit``, where the score is a sum over earlier users); without whom the
        user would have been least likely (``without``); the ``latest`` user; ``chance``, one drawn at random.
    """
    known = test.encode(predictor.vocabulary, drop_unknown=True)
    network = predictor.network
    windows = Windows(known, network.reach)
    found: dict[str, list[float]] = {}
    asked: list[int] = []
    sought = []
    for index in windows.groups(GROUP):
        batch = windows.batch(index)
        tables = {"weight": predictor.scores(windows, index)[0].weights[0]}
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
                    asked.append(int(windows.starts[index[row]]) + step)
                    sought.append(true)
                    answers = {"latest": true[-1], "chance": true.mean()}
                    answers |= {name: true[int(own[row, step, low:step].argmax())] for name, own in tables.items()}
                    for name, answer in answers.items():
                        found.setdefault(name, []).append(float(answer))
    sizes = np.array([len(true) for true in sought], np.int64)
    losses = np.split(without_each(predictor, known, np.array(asked, np.int64), sizes), np.cumsum(sizes)[:-1])
    found["without"] = [float(true[own.argmin()]) for true, own in zip(sought, losses, strict=True)]
    return {"steps": len(sought), **{name: float(np.mean(own)) for name, own in found.items() if own}}


def without_each(predictor: NextPredictor, known: Histories, asked: Index, sizes: Index) -> Floats:
    """How likely some users are, in nats, if a user before them had not been there.

    Args:
        predictor: trained.
        known: cascades in its vocabulary, without unknown users.
        asked: (users,) where each stands in ``known.ids``.
        sizes: (users,) how many users before each are read, 2 at least; one after the other is left out.

    Returns:
        (sum of sizes,) log-probabilities, those of a user together, the earliest left out first.
    """
    owner, left_out = np.repeat(np.arange(len(asked)), sizes), ranges(np.zeros_like(sizes), sizes)
    begins, lengths = (asked - sizes)[owner], sizes[owner] - 1
    where = ranges(begins, lengths)
    where += where - np.repeat(begins, lengths) >= np.repeat(left_out, lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    times = known.times[where] if known.timed else known.times
    windows = Windows(
        replace(known, ids=known.ids[where], offsets=offsets, times=times, names=known.names[:0]),
        predictor.network.reach,
        last_only=True,
    )
    found = np.empty(len(owner))
    for index in windows.groups(GROUP):
        scores = predictor.scores(windows, index)[0].scores.log_softmax(1)
        targets = torch.from_numpy(known.ids[asked[owner[index]]].astype(np.int64))
        found[index] = scores.gather(1, targets[:, None])[:, 0].numpy()
    return found
