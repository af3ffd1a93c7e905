"""Both sides of scores that are products: the histories' queries, and the vectors of some ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ensue.nn.item_head import Product
from ensue.vocabulary import FIRST


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What scores are computed from.

    Attributes:
        product: of the histories that hold anything.
        rows: (histories,) each one's row in it; -1 for a history without events, which gets plain popularity.
        counts: (ids,) how often each occurs, which is popularity.
        seen: (histories, events) ids that are no answer, filled up with padding.
        base: (targets,) the estimated log total of the product alone, where something is mixed with it.
    """

    product: Product
    rows: Tensor
    counts: Tensor
    seen: Tensor
    base: Tensor | None = None

    @property
    def num_ids(self) -> int:
        """Size of the catalogue, padding and unknown included."""
        return len(self.counts)

    @cached_property
    def whole(self) -> bool:
        """Whether all histories hold something."""
        return bool((self.rows >= 0).all())

    def popular(self, ids: Tensor) -> Tensor:
        """The logarithm of each one's share."""
        return (self.counts[ids] / self.counts.sum().clamp(min=1)).log()

    @torch.no_grad()
    def score(self, ids: Tensor, vectors: Tensor | None = None) -> Tensor:
        """(histories, k) scores of (histories, k) ids, or of (k,) rising ones for all, whose vectors may be at hand.

        They are -inf for padding, for unknown, and for what was seen.
        """
        if self.whole:
            scores = self._products(ids, vectors)
        else:
            filled = self.rows >= 0
            scores = self.popular(ids).expand(len(filled), -1).clone()
            scores[filled] = self._products(ids if ids.dim() == 1 else ids[filled], vectors)
        scores = scores.masked_fill(ids < FIRST, -torch.inf)
        if not self.seen.shape[1] or not len(ids):
            return scores
        if ids.dim() > 1:
            return scores.masked_fill((ids[..., None] == self.seen[:, None]).any(2), -torch.inf)
        return hide_(scores, ids, self.seen)

    def of(self, rows: Tensor) -> Sides:
        """Those of some histories."""
        targets = self.rows[rows]
        filled = targets >= 0
        kept, numbers = targets[filled], torch.full_like(targets, -1)
        numbers[filled] = torch.arange(len(kept))
        product, cells = self.product, self.product.cells
        if cells is not None:
            bounds = torch.searchsorted(cells[0], torch.stack([kept, kept + 1]) * self.num_ids).T.tolist()
            moved = [cells[0][low:high] % self.num_ids + at * self.num_ids for at, (low, high) in enumerate(bounds)]
            added = [cells[1][low:high] for low, high in bounds]
            cells = torch.cat([cells[0][:0], *moved]), torch.cat([cells[1][:0], *added])
        product = product._replace(queries=product.queries[kept], cells=cells)
        base = None if self.base is None else self.base[kept]
        return replace(self, product=product, rows=numbers, seen=self.seen[rows], base=base)

    @torch.no_grad()
    def tail(self, sample: Tensor, rows: Tensor) -> Tensor:
        """(histories, sample) scores of the same ids for each, with these vectors, without what is added to few."""
        product = self.product
        scores = product.queries @ rows.T
        if product.bias is not None:
            scores = scores + product.bias[sample]
        scores = self._mixed(scores, sample)
        if len(scores) == len(self.rows):
            return scores
        found = self.popular(sample).repeat(len(self.rows), 1)
        found[self.rows >= 0] = scores
        return found

    def _products(self, ids: Tensor, vectors: Tensor | None) -> Tensor:
        product = self.product
        if ids.dim() == 1:
            scores = product.queries @ (product.rows(ids) if vectors is None else vectors).T
        else:
            scores = (product.rows(ids) @ product.queries[:, :, None])[..., 0]
        if product.bias is not None:
            scores = scores + product.bias[ids]
        if product.cells is not None and len(product.cells[0]):
            cells, added = product.cells
            wanted = torch.arange(len(scores))[:, None] * self.num_ids + ids
            place = torch.searchsorted(cells, wanted).clamp(max=len(cells) - 1)
            scores = scores + torch.where(cells[place] == wanted, added[place], 0.0)
        return self._mixed(scores, ids)

    def _mixed(self, scores: Tensor, ids: Tensor) -> Tensor:
        if self.base is None or self.product.lately is None:
            return scores
        shares, kept = self.product.lately
        return torch.logaddexp(scores - self.base[:, None] + kept, shares[ids])


def hide_(scores: Tensor, ids: Tensor, hidden: Tensor) -> Tensor:
    """Scores (rows, ids) of rising ids, in place at -inf where they are among each row's hidden ones (rows, many)."""
    place = torch.searchsorted(ids, hidden).clamp(max=len(ids) - 1)
    row, column = (ids[place] == hidden).nonzero(as_tuple=True)
    scores[row, place[row, column]] = -torch.inf
    return scores
