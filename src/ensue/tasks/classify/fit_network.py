"""Training of the network of a text classifier; this module needs torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ensue.learning.life import train_network
from ensue.tasks.classify.baselines.mean_vectors import MeanVectors
from ensue.tasks.classify.choice import held_out_metric
from ensue.tasks.classify.cross_fitting import FoldedTexts, Unseen
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.model import TextNetwork
from ensue.tasks.classify.models.centrality import CentralityClassifier
from ensue.tasks.classify.settings import LEARNED_DIM, TextSettings
from ensue.tasks.classify.state import ClassifyState
from ensue.training.checkpoint import Checkpoint
from ensue.training.report import Reports

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
    trained = yield from train_network(
        state,
        passages,
        lambda: held_out_metric(state, state.raw_scores(valid.sides), valid.targets),
        schedule,
        arrays=[*passages.arrays(), *valid_passages.arrays()],
        checkpoint=checkpoint,
        is_behind=is_behind,
    )
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
