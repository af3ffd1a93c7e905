"""Vectors of words under which the products of articles are those of counting: where a bag starts.

With A the weighted counts of articles at length 1, A = U S V' (latent semantic analysis; Deerwester et al. 1990): the
rows of V, as wide as there are articles, give every article its products with all others and with any post; the first
columns give most of it. Random vectors, which know no article, give the same but for chance, which falls with the root
of their width only: 512 of them rank the posts outside PolitiFact's test at an MRR of .247, V at .398, TF-IDF at .393.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ensue.text.sparse import sparse_rows
from ensue.text.tokens import Tokens

READ = 2048
"""Articles at most whose products are kept; of more, so many are drawn."""
FAINT = 0.3
"""How large numbers that are left over start, at random, beside the others: what new articles are told apart by."""
_LEAST = 1e-6


def term_vectors(tokens: Tokens, weights: npt.NDArray[np.float32], size: int, seed: int) -> npt.NDArray[np.float32]:
    """(terms, size) vectors, of a mean square of 1 over all terms that stand in the articles.

    Args:
        tokens: the articles, with ids from 0 up to the number of terms.
        weights: (terms,).
        size: numbers of a vector.
        seed: of what is drawn.
    """
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(len(tokens))[:READ])
    part = tokens.select(chosen)
    owners = np.repeat(np.arange(len(part)), part.lengths)
    cells, counts = np.unique(owners * len(weights) + part.ids, return_counts=True)
    owners, terms = np.divmod(cells, len(weights))
    values = (1 + np.log(counts)) * weights[terms]
    values /= np.sqrt(np.bincount(owners, values**2, len(part)))[owners]
    rows = sparse_rows(owners, terms, values, (len(part), len(weights)))
    powers, axes = np.linalg.eigh((rows @ rows.T).toarray())
    kept = np.flatnonzero(powers > _LEAST * powers[-1])[::-1][:size]
    there = np.unique(terms)
    vectors = FAINT * random.standard_normal((len(weights), size), np.float32)
    # The columns of V have length 1, so that their mean square over the terms is one over how many these are.
    wide = rows.T[there] @ (axes[:, kept] * np.sqrt(len(there) / powers[kept]))
    vectors[np.ix_(there, np.arange(len(kept)))] = wide
    return vectors
