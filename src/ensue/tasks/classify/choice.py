"""Weight of a trained network relative to the baselines, from texts that none of them was trained on.

A network is added to the mean-vector row by what it is worth on held-out texts, and adds nothing unless the two are
significantly better than the row. (A network that learned what the row leaves, as a boosted one does, ended lower:
after six epochs of SST-2 at 82.2 % of its dev part, against 85.4 %.) The counting models are pooled by what they say of
all texts that they did not learn, and the network of a blend joins that pool with what it earns on the held-out ones.
Under ``best`` the likeliest of them all is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ensue import metrics
from ensue.data.histories import Index
from ensue.tasks.classify import infer
from ensue.tasks.classify.cross_fitting import FOLDS, Data, Unlearned
from ensue.tasks.classify.dataset import Sides
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.models.centrality import TextClassifier
from ensue.tasks.classify.settings import TextSettings
from ensue.tasks.classify.state import ClassifyState

_COUNTED = "counted"
_LEAST = 0.01  # of the row's weight, which scores are divided by
_EVIDENCE = 25
"""Held-out texts below which a network has no part in a blend. With the ten of 100 labels it had one in 12 of 64 blends
of four training sets, and 1,500 other texts of each were right less often (.482) than without it (.484); the 30 of 300
labels choose well (.558 against .555)."""


def usable_texts(sides: Sides, targets: Index) -> npt.NDArray[np.bool_]:
    """(texts,) those with a known label and a word at least."""
    usable: npt.NDArray[np.bool_] = (targets >= 0) & (np.sum([tokens.lengths for tokens in sides], axis=0) > 0)
    return usable


def held_out_metric(state: ClassifyState, predicted: Index, targets: Index) -> float:
    """Return the accuracy or macro F1 of (texts,) predicted codes; a target of -1 is never right."""
    if state.shared.metric == "accuracy":
        return float((predicted == targets).mean())
    num_labels = len(state.labels)
    counts = metrics.label_counts(predicted, np.where(targets < 0, num_labels, targets), num_labels + 1)
    return metrics.macro_f1(counts)


def _cost(state: ClassifyState, scores: Tensor, targets: Tensor) -> float:
    """Return what models are chosen by, lower is better: mean nats of a label, or 1 - macro F1 where that is set."""
    if state.shared.metric == "accuracy":
        return float(cross_entropy(scores, targets))
    return 1 - held_out_metric(state, scores.argmax(1).numpy(), targets.numpy())


def stand_on_row(state: ClassifyState, valid: Data) -> None:
    """Add a network to the mean-vector row; it adds nothing unless held-out labels are significantly likelier with it.

    In a blend the weights do that.

    Args:
        state: with a trained network.
        valid: the held-out texts.
    """
    sides, targets, units = valid.sides, valid.targets, valid.units
    network, row = state.module, state.counting.get("vectors")
    wanted = isinstance(state.settings, TextSettings) and state.settings.residual and state.model_name != "blend"
    if row is None or not wanted or not isinstance(network, TextClassifier):
        return
    alone = Unlearned(row.scores(sides) / state.metadata.temperature["vectors"], targets, units=units)
    scores = {
        blend.NETWORK: Unlearned(infer.raw_scores(state, sides, blend.NETWORK), targets).usable()[0],
        _COUNTED: alone.usable()[0],
    }
    weights = blend.choose_weights(scores, alone.usable()[1], {blend.NETWORK: 0.0, _COUNTED: 1.0})
    network.scale(weights[blend.NETWORK] / max(weights[_COUNTED], _LEAST))
    state.metadata.residual = True
    if not Unlearned(infer.raw_scores(state, sides, blend.NETWORK), targets, units=units).significantly_better(alone):
        network.scale(0.0)
        state.metadata.notes.append("the network does not improve on the mean of the vectors on the validation texts")


def choose_blend(state: ClassifyState, valid: Data, counted: Mapping[str, Unlearned]) -> dict[str, float]:
    """Set the weights of the parts of a blend.

    Args:
        state: with a trained network; takes the weights.
        valid: the held-out texts.
        counted: scores of each baseline for texts that it was not trained on: the held-out ones, and where those are
            few the texts of all folds.

    Returns:
        The cost of labels of texts that were not trained on, by baseline and with the blend: see :func:`_cost`.
    """
    usable = {name: own.usable() for name, own in counted.items()}
    nats = {
        name: _cost(state, own.double() / state.metadata.temperature.get(name, 1.0), targets)
        for name, (own, targets) in usable.items()
        if len(targets)
    }
    if "majority" in nats and not counted["majority"].significantly_better(counted["tfidf"]):
        nats.pop("majority")  # one answer for all texts has to be earned: by chance it is a little likelier
    state.metadata.blend, gain = _weigh_network(state, valid, counted)
    parts, targets = {name: usable[name][0] for name in blend.PARTS if name in usable}, usable["tfidf"][1]
    if len(targets):
        pooled = _without_fold(parts, targets, np.arange(len(targets)) % FOLDS, None)
        nats[state.model_name] = _cost(state, pooled, targets) - max(gain, 0.0)
    return nats


def adds_nothing(state: ClassifyState, valid: Data, counted: Mapping[str, Unlearned]) -> bool:
    """Return whether the network, as it is now, does not lower the cost of held-out labels in a blend."""
    return _weigh_network(state, valid, counted)[1] <= 0


def _weigh_network(
    state: ClassifyState, valid: Data, counted: Mapping[str, Unlearned]
) -> tuple[dict[str, float], float]:
    """Return the weights of a blend, and by how much the network lowers the cost of held-out labels in it."""
    usable = {name: counted[name].usable() for name in blend.PARTS if name in counted}
    weights = blend.choose_weights({name: scores for name, (scores, _) in usable.items()}, usable["tfidf"][1])
    prior = {blend.NETWORK: 0.0, **weights}  # a network has to earn its part
    index = np.flatnonzero(usable_texts(valid.sides, valid.targets))
    if len(index) < _EVIDENCE:
        return prior, 0.0
    targets, chosen = torch.from_numpy(valid.targets[index]), torch.from_numpy(index)
    scores = {blend.NETWORK: infer.raw_scores(state, valid.sides, blend.NETWORK)[chosen]}
    scores |= {name: counted[name].scores[chosen] for name in usable}
    mixed = _without_fold(scores, targets, valid.folds[index], prior)
    gain = _cost(state, blend.pool(scores, prior), targets) - _cost(state, mixed, targets)
    joined = blend.choose_weights(scores, targets, prior)
    return (joined if gain > 0 and joined[blend.NETWORK] else prior), gain


def _without_fold(
    scores: Mapping[str, Tensor], targets: Tensor, folds: Index, prior: Mapping[str, float] | None
) -> Tensor:
    """(texts, labels) scores of the pool in float64, of each fold with the weights that the others choose."""
    pooled = torch.zeros(next(iter(scores.values())).shape).double()
    for fold in range(FOLDS):
        inside, outside = (torch.from_numpy(np.flatnonzero(chosen)) for chosen in (folds == fold, folds != fold))
        weights = blend.choose_weights({name: own[outside] for name, own in scores.items()}, targets[outside], prior)
        pooled[inside] = blend.pool({name: own[inside] for name, own in scores.items()}, weights)
    return pooled


def decide(state: ClassifyState, nats: Mapping[str, float]) -> None:
    """Say which of the models is right most often on held-out texts; under ``best``, become the likeliest one.

    Of few held-out texts one more or less right says little; what their labels cost in nats says more.
    """
    accuracy, own = state.metadata.validation_accuracy, state.model_name
    if len(state.names) == 1:
        best = max(accuracy, key=lambda name: (accuracy[name], name == own))
        if best != own:
            state.metadata.notes.append(
                f"{best} is right more often than {own} on the validation texts: "
                f"{accuracy[best]:.3f} against {accuracy[own]:.3f}"
            )
        return
    tried = [name for name in state.names if name in nats]
    best = min(tried, key=lambda name: (nats[name], name != own)) if tried else own
    if best != own:
        costs = f"with a log loss of {nats[best]:.3f} against {nats[own]:.3f} for {own}"
        if state.shared.metric != "accuracy":
            costs = f"where its macro F1 is {1 - nats[best]:.3f} and that of {own} {1 - nats[own]:.3f}"
        state.metadata.notes.append(f"{best} alone is used: no combination beats it on the validation texts, {costs}")
        state.select_model(best)
        state.metadata.blend = None
