"""The equations of linking as literal loops in float64: one text, one token, one head, one triplet at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def entmax(scores: Sequence[float], alpha: float) -> list[float]:
    """max(0, (alpha - 1) z - tau) ^ (1 / (alpha - 1)), tau by bisection until floats are used up."""
    power = alpha - 1
    top = max(power * score for score in scores)
    low, high = top - 1, top
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(0.0, power * score - middle) ** (1 / power) for score in scores) >= 1:
            low = middle
        else:
            high = middle
    weights = [max(0.0, power * score - low) ** (1 / power) for score in scores]
    return [weight / sum(weights) for weight in weights]


def leaky_relu(vector: Tensor) -> Tensor:
    return torch.stack([x if x > 0 else 0.01 * x for x in vector])


def layer_norm(vector: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    apart = vector - vector.mean()
    return apart / (apart.square().mean() + 1e-5).sqrt() * gain + bias


def asentmax_scale(query: Tensor, num_keys: int, w_beta: Tensor, w_gamma: Tensor) -> float:
    """delta + beta (log n)^gamma with delta 1, n counted one higher, beta by softplus, gamma by 2 tanh."""
    beta = math.log(1 + math.exp(float(w_beta @ query)))
    gamma = 2 * math.tanh(float(w_gamma @ query))
    return float(1 + beta * math.log(num_keys + 1) ** gamma)


def attend(
    query: Tensor,
    context: Sequence[Tensor],
    projections: Tensor,
    alphas: Sequence[float],
    temperatures: Tensor | None = None,
) -> Tensor:
    """Multi-head attention of one query over its context: W_Q over W_K over W_V, the heads side by side."""
    dim = len(query)
    wide = dim // len(alphas)
    found = []
    for head, alpha in enumerate(alphas):
        rows = slice(head * wide, (head + 1) * wide)
        to_query, to_key, to_value = (part[rows] for part in projections.chunk(3))
        scores = [float((to_query @ query) @ (to_key @ one)) / math.sqrt(wide) for one in context]
        if temperatures is not None:
            w_beta, w_gamma = (part[head] for part in temperatures.chunk(2))
            scores = [score * asentmax_scale(query, len(context), w_beta, w_gamma) for score in scores]
        weights = entmax(scores, alpha)
        found.append(sum((w * (to_value @ one) for w, one in zip(weights, context, strict=True)), torch.zeros(wide)))
    return torch.cat(found)


def star_transformer(
    weights: Mapping[str, Tensor], embeddings: Sequence[Tensor], cycles: int, neighbours: int
) -> Tensor:
    """(dim,) of one text without padding; ``weights`` are the state of an ``AST``."""

    def alphas(name: str) -> list[float]:
        return [1 + 1 / (1 + math.exp(-raw)) for raw in weights[f"{name}.alphas.raw"].tolist()]

    def attended(name: str, query: Tensor, context: Sequence[Tensor]) -> Tensor:
        scales = weights.get(f"{name}.scales.projection.weight")
        return leaky_relu(attend(query, context, weights[f"{name}.inward.weight"], alphas(name), scales))

    nodes = list(embeddings)
    relay = torch.stack(nodes).mean(0)
    for cycle in range(cycles):
        ring, star = f"rings.{cycle}", f"stars.{cycle}"
        normal = [layer_norm(node, weights[f"{ring}.norm.weight"], weights[f"{ring}.norm.bias"]) for node in nodes]
        fresh = []
        for i in range(len(nodes)):
            window = [normal[j] for j in range(i - neighbours, i + neighbours + 1) if 0 <= j < len(nodes)]
            fresh.append(attended(ring, normal[i], [*window, embeddings[i], relay]))
        nodes = fresh
        relay = attended(star, relay, [relay, *nodes])
    largest = torch.stack([max(node[d] for node in nodes) for d in range(len(relay))])
    return (largest + relay) / 2


def convolution(weights: Mapping[str, Tensor], embeddings: Sequence[Tensor]) -> Tensor:
    """(width,) of one text; ``weights`` are the state of a ``CNN``."""
    nothing = torch.zeros_like(embeddings[0])
    features = []
    for number, window in enumerate((1, 2, 3, 4)):
        kernel, bias = weights[f"convolutions.{number}.weight"], weights[f"convolutions.{number}.bias"]
        for filter_, shift in zip(kernel, bias, strict=True):  # (dim, window)
            scores = []
            for start in range(len(embeddings)):
                seen = [embeddings[j] if j < len(embeddings) else nothing for j in range(start, start + window)]
                scores.append(sum(float(filter_[:, place] @ one) for place, one in enumerate(seen)) + float(shift))
            features.append(max(0.0, *scores))
    return weights["project.weight"] @ torch.tensor(features, dtype=torch.float64) + weights["project.bias"]


def gru(weights: Mapping[str, Tensor], side: int, embeddings: Sequence[Tensor]) -> Tensor:
    """(units,) the mean of the states of Cho et al. as torch writes them; ``weights`` are the state of a ``GRU``."""
    inward, recurrent, inward_bias, recurrent_bias = (
        weights[f"sides.{side}.{kind}_l0"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    state = total = torch.zeros(recurrent.shape[1], dtype=torch.float64)
    for item in embeddings:
        (r, z, n), (own_r, own_z, own_n) = (
            (inward @ item + inward_bias).chunk(3),
            (recurrent @ state + recurrent_bias).chunk(3),
        )
        update = torch.sigmoid(z + own_z)
        state = (1 - update) * torch.tanh(n + torch.sigmoid(r + own_r) * own_n) + update * state
        total = total + state
    return total / len(embeddings)


def triplets(cosines: Tensor, related: Tensor, epsilon: float) -> list[tuple[int, int, int]]:
    """(article, post, other post) of multi-similarity mining, one anchor at a time."""
    found = []
    for article, row in enumerate(cosines.tolist()):
        positives = [post for post in range(len(row)) if related[article, post]]
        negatives = [post for post in range(len(row)) if not related[article, post]]
        if not positives or not negatives:
            continue
        hardest_negative = max(row[post] for post in negatives)
        hardest_positive = min(row[post] for post in positives)
        kept = [post for post in positives if row[post] < hardest_negative + epsilon]
        others = [post for post in negatives if row[post] > hardest_positive - epsilon]
        found += [(article, post, other) for post in kept for other in others]
    return found


def triplet_loss(articles: Tensor, posts: Tensor, related: Tensor, margin: float, epsilon: float) -> float:
    """The paper's loss of unit vectors over the mined triplets, the mean of those above 0."""
    losses = []
    for article, post, other in triplets(articles @ posts.T, related, epsilon):
        anchor = articles[article]
        near, far = (anchor - posts[post]).square().sum(), (anchor - posts[other]).square().sum()
        losses.append(max(0.0, float(near - far) + margin))
    above = [loss for loss in losses if loss > 0]
    return sum(above) / len(above) if above else 0.0


def contrastive_loss(cosines: Tensor, related: Tensor, temperature: float) -> float:
    """Each related pair against its article's negatives, and against its post's."""
    powers = torch.exp(cosines / temperature).tolist()
    losses = []
    for article, post in related.nonzero().tolist():
        own = powers[article][post]
        posts = sum(powers[article][other] for other in range(related.shape[1]) if not related[article, other])
        articles = sum(powers[other][post] for other in range(related.shape[0]) if not related[other, post])
        losses += [-math.log(own / (own + posts)), -math.log(own / (own + articles))]
    return sum(losses) / len(losses) if losses else 0.0
