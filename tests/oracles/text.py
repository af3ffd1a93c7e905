"""The equations of pooling as literal loops in float64: one text, one word, one capsule at a time. Slow and plain."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from tests.oracles import softmax


def additive_scores(receiving: Tensor, giving: Tensor, vector: Tensor) -> Tensor:
    """(words, words): w . tanh(a_i + b_j) of one text."""
    return torch.stack([torch.stack([vector @ torch.tanh(a + b) for b in giving]) for a in receiving])


def connections(scores: Tensor) -> Tensor:
    """(words, words): each column by itself through a softmax."""
    return torch.stack([torch.stack(softmax(list(column))) for column in scores.T], dim=1)


def dominant(matrix: Tensor) -> Tensor:
    """(words,) the eigenvector of the largest eigenvalue by SciPy, of sum 1."""
    values, vectors = scipy.linalg.eig(matrix.detach().double().numpy())
    vector = np.real(vectors[:, np.argmax(values.real)])
    return torch.from_numpy(vector / vector.sum())


def power_method(matrix: Tensor, start: Tensor, stop: float) -> Tensor:
    """Algorithm 1 as printed, from ``start``; the eigenvector divided by its sum."""
    alpha = start / start.square().sum().sqrt()
    while True:
        y = matrix @ alpha
        theta = alpha @ y
        if (y - theta * alpha).square().sum().sqrt() <= stop * theta.abs():
            return alpha / alpha.sum()
        alpha = y / y.square().sum().sqrt()


def token_rank(attention: Tensor, damping: float) -> Tensor:
    """(words,) x <- T' x from uniform, T = d P + (1 - d) 11'/n, of a right-stochastic P (TokenRank)."""
    num_words = len(attention)
    transition = damping * attention + (1 - damping) * torch.ones_like(attention) / num_words
    share = torch.full((num_words,), 1 / num_words, dtype=attention.dtype)
    for _ in range(5000):
        share = transition.mT @ share
    return share


def dobrushin(matrix: Tensor) -> float:
    """Half the largest L1 distance between two columns."""
    return max(float((one - other).abs().sum()) / 2 for one in matrix.T for other in matrix.T)


def layer_norm(vector: Tensor) -> Tensor:
    """A fresh LayerNorm: no gain, no bias, eps 1e-5."""
    apart = vector - vector.mean()
    return apart / (apart.square().mean() + 1e-5).sqrt()


def squash(vector: Tensor) -> Tensor:
    norm = math.dist(vector.tolist(), [0.0] * len(vector))
    return norm**2 / (1 + norm**2) * vector / norm


def dynamic_routing(offers: Tensor, iterations: int, *, reverse: bool) -> tuple[Tensor, Tensor]:
    """Of (words, capsules, dim) offers u: the capsules side by side, and the (words, capsules) routing weights."""
    words, capsules, _ = offers.shape
    agreement = [[torch.tensor(0.0, dtype=offers.dtype)] * capsules for _ in range(words)]
    for _ in range(iterations):
        if reverse:
            columns = [softmax([agreement[i][k] for i in range(words)]) for k in range(capsules)]
            routing = [[columns[k][i] for k in range(capsules)] for i in range(words)]
        else:
            routing = [softmax(agreement[i]) for i in range(words)]
        found = [squash(sum(routing[i][k] * offers[i, k] for i in range(words))) for k in range(capsules)]  # type: ignore[arg-type]
        agreement = [[agreement[i][k] + offers[i, k] @ found[k] for k in range(capsules)] for i in range(words)]
    return torch.cat(found), torch.stack([torch.stack(row) for row in routing])
