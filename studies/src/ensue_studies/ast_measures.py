"""What AST's study keeps of a trained model: figures with their draws, a map of posts; and figure 1's weights."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
import torch

from ensue.evaluation.bootstrap import BootstrapResult, seeds_apart
from ensue.evaluation.link import MEASURES, JudgedPosts, LinkScored, figures_of
from ensue.nn.normalisers import sparsemax
from ensue.tasks.link.measures import at_cut, precision_curve
from ensue.tasks.link.predictor import LinkPredictor
from ensue_studies.ast_paper import CUT
from ensue_studies.cached_runs import CachedRun
from ensue_studies.rows import Rows, Values

_FINE = 65_535
SHARED = 10
"""Articles of the map: those that most posts are about."""


def measured(scored: LinkScored, judged: JudgedPosts) -> CachedRun:
    """The figures of a model, the same on each draw, precision by r, and what two cuts catch."""
    figures, draws = figures_of(scored, judged)
    pool, true = scored.scores[:, judged.pool], judged.related[:, judged.pool]
    cuts = {"cosine": CUT} | ({"even": scored.cut} if scored.cut is not None else {})
    caught = {name: at_cut(pool, true, cut) for name, cut in cuts.items()}
    return {
        "figures": dict(zip(MEASURES, figures.tolist(), strict=True)),
        "draws": base64.b64encode(np.rint(draws * _FINE).astype("<u2").tobytes()).decode("ascii"),
        "precision_at": {str(r): value for r, value in precision_curve(pool, true).items()},
        "cuts": {
            name: {
                "cut": own.cut,
                "right": own.right,
                "wrong": own.retrieved - own.right,
                "missed": own.relevant - own.right,
                "precision": own.precision,
                "precision_interval": own.precision_interval,
                "recall": own.recall,
                "recall_interval": own.recall_interval,
            }
            for name, own in caught.items()
        },
        "seconds_to_score": round(scored.seconds, 3),
    }


def drawn(cells: Sequence[CachedRun]) -> BootstrapResult:
    """A model's figures and draws, from :func:`measured`, one a seed."""
    by_seed = np.array([[cell["figures"][name] for name in MEASURES] for cell in cells])
    packed = [np.frombuffer(base64.b64decode(cell["draws"]), "<u2") for cell in cells]
    draws = np.stack([own.reshape(-1, len(MEASURES)) / _FINE for own in packed])
    return BootstrapResult(MEASURES, by_seed, seeds_apart(draws))


def post_map(predictor: LinkPredictor, judged: JudgedPosts) -> CachedRun:
    """Figure 2: posts about the articles that most test posts are about, in two dimensions by t-SNE, and a number.

    The number is the mean silhouette in the space of the vectors themselves (cosine; Rousseeuw 1987): 1 where posts
    about one article lie close together and far from others, 0 where they are mixed.
    """
    from sklearn.manifold import TSNE  # slow to import
    from sklearn.metrics import silhouette_score

    counts = judged.related.sum(0)
    top = np.argsort(-counts, kind="stable")[:SHARED]
    rows = np.flatnonzero(judged.related[:, top].any(1))
    owners = judged.related[rows][:, top].argmax(1)
    vectors = predictor.vectors(judged.data.posts.texts.gather(rows)).numpy()
    if len(rows) <= len(np.unique(owners)) or len(np.unique(owners)) < 2:
        return {}
    near = float(max(2, min(30, (len(rows) - 1) // 3)))
    places = TSNE(perplexity=near, init="pca", metric="cosine", random_state=0).fit_transform(vectors)
    titles = judged.data.articles.titles.gather(top).to_list()
    ids = judged.data.articles.ids.gather(top).to_list()
    return {
        "silhouette": float(silhouette_score(vectors, owners, metric="cosine")),
        "x": np.round(places[:, 0].astype(float), 2).tolist(),
        "y": np.round(places[:, 1].astype(float), 2).tolist(),
        "articles": [title or ids[place] for place, title in enumerate(titles)],
        "article": owners.tolist(),
    }


def sparse_weights(lengths: Sequence[int] = (5, 25), *, dim: int = 64, seed: int = 0) -> Rows:
    """Figure 1: self-attention of random vectors, by softmax and by sparsemax; a row a normaliser and a length.

    Args:
        lengths: words.
        dim: width of the vectors; scores are their products over its root, times 4, as peaked as a trained layer's.
        seed: of the vectors.
    """
    rows = []
    for length in lengths:
        vectors = torch.randn(length, dim, generator=torch.Generator().manual_seed(seed))
        keys = torch.randn(length, dim, generator=torch.Generator().manual_seed(seed + 1))
        scores = vectors @ keys.T / dim**0.5 * 2
        for name, weights in (("softmax", scores.softmax(1)), ("sparsemax", sparsemax(scores))):
            rows.append(
                {
                    "length": length,
                    "normaliser": name,
                    "largest weight": round(float(weights.amax(1).mean()), 3),
                    "share of zeros": round(float((weights == 0).float().mean()), 3),
                    "words that share 90 %": round(float(_for_most(weights)), 1),
                    "weights": [[round(value, 4) for value in row] for row in weights.tolist()],
                }
            )
    return rows


def _for_most(weights: torch.Tensor) -> float:
    """How many words, on average, hold nine tenths of a row's weight."""
    sums = weights.sort(dim=1, descending=True).values.cumsum(1)
    return float(((sums < 0.9).sum(1) + 1).float().mean())


def lengths_line(rows: Sequence[Values]) -> str:
    """Figure 1 in words."""
    zeros = {(row["normaliser"], row["length"]): row for row in rows}
    found = []
    for name in dict.fromkeys(row["normaliser"] for row in rows):
        parts = [
            f"{zeros[name, length]['words that share 90 %']:.1f} of {length} words"
            for length in dict.fromkeys(row["length"] for row in rows)
        ]
        found.append(f"under {name} nine tenths of a word's attention go to {' and to '.join(parts)}")
    return "; ".join(found).capitalize() + "."
