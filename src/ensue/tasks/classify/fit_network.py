"""Training of the network of a text classifier, with a log of each epoch; this module needs torch.

The log shows whether the word graph still says more than self-attention: how fast its random walks mix.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch

from ensue.learning.life import train_network
from ensue.nn.blocks import Block
from ensue.nn.centrality import dobrushin, second_eigenvalue
from ensue.nn.pooling import Pooled
from ensue.store.folder import write_file
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.choice import held_out_metric
from ensue.tasks.classify.cross_fitting import FoldedTexts, Unseen
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.model import TextNetwork
from ensue.tasks.classify.models.centrality import CentralityClassifier
from ensue.tasks.classify.neural import run
from ensue.tasks.classify.passages import PassageBatches
from ensue.tasks.classify.settings import LEARNED_DIM, TextSettings
from ensue.tasks.classify.state import ClassifyState
from ensue.training.checkpoint import Checkpoint
from ensue.training.distributed import rank_and_size
from ensue.training.report import Reports, Trained

SAMPLE = 64
"""Number of texts whose word graphs are measured."""
_MAX_WORK = 2e7  # sum of cubed numbers of words over all graphs: the time that eigenvalues take
_MIN_WEIGHT = 0.01  # of the baseline, which scores are divided by


def fit(
    state: ClassifyState,
    data: FoldedTexts,
    valid: FoldedTexts,
    checkpoint: Checkpoint,
    is_behind: Callable[[], bool] | None,
) -> Reports[None]:
    """Train a new network; it ends with its best weights, or where it is behind.

    Args:
        state: with fitted baselines and the settings of a network.
        data: training texts.
        valid: held-out texts.
        checkpoint: a file from which a killed run continues.
        is_behind: returns whether the network adds nothing to the baselines; ``None`` to train it to the end.
    """
    schedule = state.schedule
    assert schedule is not None
    torch.manual_seed(state.seed)
    state.model = _new_network(state)
    state.optimizer = state.new_optimizer()
    passages, valid_passages = (state.passages(texts.sides, texts.targets) for texts in (data, valid))
    log = EpochLog(checkpoint)
    reports = train_network(
        state,
        passages,
        lambda: held_out_metric(state, state.raw_scores(valid.sides), valid.targets),
        schedule,
        arrays=[*passages.arrays(), *valid_passages.arrays()],
        checkpoint=checkpoint,
        is_behind=is_behind,
    )
    trained = yield from log.follow(reports, lambda: mixing(state, valid_passages))
    state.metadata.log = log.rows()
    if trained.best_epoch == schedule.epochs > 1 and not schedule.decay:
        state.metadata.notes.append(
            f"the validation metric was still improving after {schedule.epochs} epochs; consider more epochs"
        )
    _scale(state, valid)


def _new_network(state: ClassifyState) -> TextNetwork:
    """Return an untrained network that starts from the vectors of the file, if there is one."""
    if state.encoder is not None:
        return state.new_network(0, state.encoder.dim)
    num_words = len(state.tokenizer.vocabulary)
    settings = state.settings
    vectors = state.counting.get("vectors")
    if not isinstance(vectors, MeanVectors):
        return state.new_network(num_words, settings.dim or LEARNED_DIM)
    assert isinstance(settings, TextSettings)
    network = state.new_network(num_words, vectors.matrix.shape[1])
    has_vector = vectors.matrix.any(axis=1)
    ids = np.flatnonzero(has_vector)
    matrix = vectors.matrix[has_vector]
    network.place(torch.from_numpy(ids), torch.from_numpy(matrix), tuned=settings.tuned)
    return network


def _scale(state: ClassifyState, valid: FoldedTexts) -> None:
    """Weigh a network that is added to the mean-vector baseline.

    It gets weight 0 unless held-out labels are significantly likelier with it. In a blend the weights do that.
    """
    network = state.module
    baseline = state.counting.get("vectors")
    is_added = isinstance(state.settings, TextSettings) and state.settings.residual and state.model_name != "blend"
    is_added = is_added and not state.metadata.sets  # weights are learned from labels that exclude each other
    if baseline is None or not is_added or not isinstance(network, CentralityClassifier):
        return
    sides, targets = valid.sides, valid.targets
    baseline_scores = baseline.scores(sides) / state.metadata.temperature["vectors"]
    alone = Unseen(baseline_scores, targets, units=valid.units)
    network_scores = Unseen(state.raw_scores(sides, blend.NETWORK), targets)
    part_scores = {blend.NETWORK: network_scores.usable()[0], "vectors": alone.usable()[0]}
    weights = blend.choose_weights(part_scores, alone.usable()[1], {blend.NETWORK: 0.0, "vectors": 1.0})
    network.scale(weights[blend.NETWORK] / max(weights["vectors"], _MIN_WEIGHT))
    state.metadata.residual = True
    combined = Unseen(state.raw_scores(sides, blend.NETWORK), targets, units=valid.units)
    if not combined.significantly_better(alone):
        network.scale(0.0)
        state.metadata.notes.append("the network does not improve on the mean of the vectors on the validation texts")


class EpochLog:
    """Log of each epoch, stored next to the checkpoint, so that a killed run loses nothing.

    Args:
        checkpoint: of the run.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.path, resume = checkpoint.sibling("-log")
        self.epochs: dict[int, dict[str, float]] = {}
        if resume and self.path is not None and self.path.exists():
            self.epochs = {int(epoch): row for epoch, row in json.loads(self.path.read_bytes()).items()}

    def follow(self, reports: Reports[Trained], measure: Callable[[], dict[str, float]]) -> Reports[Trained]:
        """Pass reports on, and log the validation metric of each epoch and what ``measure`` returns."""
        while True:
            try:
                report = next(reports)
            except StopIteration as end:
                return end.value
            if report.valid is not None:
                self.epochs[report.epoch] = {"accuracy": report.valid, "loss": report.loss, **measure()}
                if self.path is not None and not rank_and_size()[0]:
                    write_file(self.path, json.dumps(self.epochs).encode())
            yield report

    def rows(self) -> list[dict[str, float]]:
        """Return one row per epoch, in order."""
        return [{"epoch": epoch, **self.epochs[epoch]} for epoch in sorted(self.epochs)]


def mixing(state: ClassifyState, passages: PassageBatches) -> dict[str, float]:
    """Return mean |lambda_2| and Dobrushin's bound of the graphs of some texts; empty for poolings without a graph.

    Args:
        state: with a network.
        passages: texts, of which an even sample is measured.
    """
    sample = np.linspace(0, len(passages) - 1, min(SAMPLE, len(passages))).astype(np.int64)
    batch = passages.batch(sample).to(state.device)
    output = run(state.network, batch, state.device)
    levels = {"": (batch.words, output.words), "sentences_": (batch.sentences, output.sentences)}
    return {
        f"{prefix}{name}": value
        for prefix, (blocks, pooled) in levels.items()
        for name, value in _mixing(blocks, pooled)
    }


def _mixing(blocks: Iterable[Block], pooled: Iterable[Pooled]) -> Iterator[tuple[str, float]]:
    values: list[tuple[float, float]] = []
    work = 0.0
    for block, pooling in zip(blocks, pooled, strict=True):
        if pooling.graph is None:
            continue
        max_rows = max(1, int((_MAX_WORK - work) / block.mask.shape[1] ** 3))  # longest first: they mix most slowly
        rows = (block.lengths >= 2).nonzero()[:max_rows, 0].to(block.mask.device)  # a single word has no |lambda_2|
        rows = rows[pooling.graph[rows].isfinite().flatten(1).all(1)]  # diverged weights leave NaN in a graph
        graph = pooling.graph[rows].float()
        mask = block.mask[rows]
        work += len(rows) * block.mask.shape[1] ** 3
        values += zip(second_eigenvalue(graph, mask).tolist(), dobrushin(graph, mask).tolist(), strict=True)
        if work >= _MAX_WORK:
            break
    if values:
        eigenvalue, bound = torch.tensor(values, dtype=torch.float64).mean(0).tolist()
        yield from (("second_eigenvalue", eigenvalue), ("dobrushin", bound))
