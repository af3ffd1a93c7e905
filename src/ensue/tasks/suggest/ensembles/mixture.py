"""Mixture weights of the probabilities of the network and the count-based models.

The maximum a posteriori by expectation maximisation (Jelinek & Mercer 1980), under a Dirichlet prior of one target a
part: with few held-out targets the parts count alike, and none is ever out of the mixture.
"""

from __future__ import annotations

import numpy as np

from ensue.metrics import Floats

STEPS = 100
PRIOR = 1.0
"""Targets that each part is taken to have explained already."""


def learn_mixture(probabilities: Floats) -> Floats:
    """(parts,) the weights under which what came is likeliest; they sum to 1.

    Args:
        probabilities: (targets, parts) of what came by each; a target that no part expects says nothing.
    """
    explained = probabilities[probabilities.sum(1) > 0]
    # Start from equal weights, from which expectation maximisation cannot leave out a part.
    weights: Floats = np.full(probabilities.shape[1], 1 / probabilities.shape[1])
    for _ in range(STEPS):
        # Expectation: the part of each target that each model explains.
        owed = explained * weights
        owed /= owed.sum(1, keepdims=True)
        # Maximisation under the Dirichlet prior: pseudo-counts are added to the sums.
        weights = (owed.sum(0) + PRIOR) / (len(explained) + PRIOR * len(weights))
    return weights
