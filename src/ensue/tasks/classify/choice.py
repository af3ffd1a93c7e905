"""Weight of a trained network relative to the baselines, from texts that none of them was trained on.

A network is added to the mean-vector baseline with a weight fitted on held-out texts, and adds nothing unless the two
are significantly better than the baseline. (A network that was boosted, so trained on the residuals of the baseline,
ended lower: after six epochs of SST-2 at 82.2 % of its dev part, against 85.4 %.) The baselines are pooled by their
scores for all texts that they were not trained on, and the network of a blend joins that pool with what it gains on the
held-out ones. Under ``best`` the likeliest of them all is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ensue import metrics
from ensue.data.histories import Index
from ensue.metrics import Floats
from ensue.tasks.classify.cross_fitting import FOLDS, FoldedTexts, Unseen, cross_entropy
from ensue.tasks.classify.dataset import usable_texts
from ensue.tasks.classify.ensembles import blend
from ensue.tasks.classify.state import ClassifyState

_MIN_HELD_OUT = 25
"""Number of held-out texts below which a network has no part in a blend. With the ten of 100 labels it had one in 12 of
64 blends of four training sets, and 1,500 other texts of each were right less often (.482) than without it (.484); the
30 of 300 labels choose well (.558 against .555)."""


def held_out_metric(state: ClassifyState, scores: Floats, targets: Index) -> float:
    """Return the accuracy or macro F1 of (texts, labels) raw scores; a target of -1 is never right.

    Of sets of labels, return micro or macro F1 of the labels that are likelier than not.
    """
    if targets.ndim == 2:
        counts = metrics.set_counts(scores > 0, targets.astype(np.bool_))
        return metrics.micro_f1(counts) if state.shared.metric == "accuracy" else metrics.macro_f1(counts)
    predicted = scores.argmax(1)
    if state.shared.metric == "accuracy":
        return float((predicted == targets).mean())
    num_labels = len(state.labels)
    counts = metrics.label_counts(predicted, np.where(targets < 0, num_labels, targets), num_labels + 1)
    return metrics.macro_f1(counts)


def _cost(state: ClassifyState, scores: Floats, targets: Index) -> float:
    """Return the cost that models are compared by: mean nats per label, or 1 - macro F1 if that is the metric."""
    if state.shared.metric == "accuracy":
        return float(cross_entropy(scores, targets).mean())
    return 1 - held_out_metric(state, scores, targets)


def choose_blend(state: ClassifyState, valid: FoldedTexts, baselines: Mapping[str, Unseen]) -> dict[str, float]:
    """Set the weights of the parts of a blend and, where texts have sets of labels, its thresholds.

    Args:
        state: with a trained network; takes the weights.
        valid: the held-out texts.
        baselines: scores of each baseline for texts that it was not trained on: the held-out ones, and where those are
            few the texts of all folds.

    Returns:
        The cost of unseen labels by baseline and with the blend, lower is better: nats, or 1 - macro F1.
    """
    usable = {name: unseen.usable() for name, unseen in baselines.items()}
    costs = {
        name: _cost(state, scores / state.metadata.temperature.get(name, 1.0), targets)
        for name, (scores, targets) in usable.items()
        if len(targets)
    }
    if "majority" in costs and not baselines["majority"].significantly_better(baselines["tfidf"]):
        costs.pop("majority")  # one answer for all texts must be significantly likelier, for by chance it often is
    state.metadata.blend, gain = _weigh_network(state, valid, baselines)
    part_scores = {name: usable[name][0] for name in blend.PARTS if name in usable}
    targets = usable["tfidf"][1]
    if len(targets):
        pooled = _cross_fitted_pool(part_scores, targets, np.arange(len(targets)) % FOLDS, None)
        costs[state.model_name] = _cost(state, pooled, targets) - max(gain, 0.0)
        if state.metadata.sets:
            # The network has scores of the held-out texts alone, which come first.
            pooled[: len(valid.targets)] = state.raw_scores(valid.sides)
        state.choose_thresholds(state.model_name, pooled, targets)
    return costs


def adds_nothing(state: ClassifyState, valid: FoldedTexts, baselines: Mapping[str, Unseen]) -> bool:
    """Return whether the network, as it is now, does not lower the cost of held-out labels in a blend."""
    return _weigh_network(state, valid, baselines)[1] <= 0


def _weigh_network(
    state: ClassifyState, valid: FoldedTexts, baselines: Mapping[str, Unseen]
) -> tuple[dict[str, float], float]:
    """Return the weights of a blend, and by how much the network lowers the cost of held-out labels in it."""
    usable = {name: baselines[name].usable() for name in blend.PARTS if name in baselines}
    weights = blend.choose_weights({name: scores for name, (scores, _) in usable.items()}, usable["tfidf"][1])
    prior = {blend.NETWORK: 0.0, **weights}  # a network gets a weight only where held-out labels ask for it
    index = np.flatnonzero(usable_texts(valid.sides, valid.targets))
    if len(index) < _MIN_HELD_OUT:
        return prior, 0.0
    targets = valid.targets[index]
    scores = {blend.NETWORK: state.raw_scores(valid.sides, blend.NETWORK)[index]}
    scores |= {name: baselines[name].scores[index] for name in usable}
    pooled = _cross_fitted_pool(scores, targets, valid.folds[index], prior)
    gain = _cost(state, blend.pool(scores, prior, sets=state.metadata.sets), targets) - _cost(state, pooled, targets)
    weights = blend.choose_weights(scores, targets, prior)
    return (weights if gain > 0 and weights[blend.NETWORK] else prior), gain


def _cross_fitted_pool(
    scores: Mapping[str, Floats], targets: Index, folds: Index, prior: Mapping[str, float] | None
) -> Floats:
    """Return scores of the pool, (texts, labels); those of a fold use the weights that the other folds choose."""
    pooled = np.zeros(next(iter(scores.values())).shape)
    for fold in range(FOLDS):
        inside = folds == fold
        outside_scores = {name: model_scores[~inside] for name, model_scores in scores.items()}
        weights = blend.choose_weights(outside_scores, targets[~inside], prior)
        inside_scores = {name: model_scores[inside] for name, model_scores in scores.items()}
        pooled[inside] = blend.pool(inside_scores, weights, sets=targets.ndim == 2)
    return pooled


def decide(state: ClassifyState, costs: Mapping[str, float]) -> None:
    """Note which model is right most often on held-out texts; under ``best``, become the likeliest one.

    The accuracy of few held-out texts says little; the cost of their labels in nats says more.
    """
    accuracy = state.metadata.validation_accuracy
    trained_model = state.model_name
    if len(state.names) == 1:
        best = max(accuracy, key=lambda name: (accuracy[name], name == trained_model))
        if best != trained_model:
            state.metadata.notes.append(
                f"{best} is right more often than {trained_model} on the validation texts: "
                f"{accuracy[best]:.3f} against {accuracy[trained_model]:.3f}"
            )
        return
    candidates = [name for name in state.names if name in costs]
    best = min(candidates, key=lambda name: (costs[name], name != trained_model)) if candidates else trained_model
    if best != trained_model:
        evidence = f"with a log loss of {costs[best]:.3f} against {costs[trained_model]:.3f} for {trained_model}"
        if state.shared.metric != "accuracy":
            best_f1, other_f1 = (1 - costs[name] for name in (best, trained_model))
            evidence = f"where its macro F1 is {best_f1:.3f} and that of {trained_model} {other_f1:.3f}"
        state.metadata.notes.append(
            f"{best} alone is used: no combination beats it on the validation texts, {evidence}"
        )
        state.select_model(best)
        state.metadata.blend = None
