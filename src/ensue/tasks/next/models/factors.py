"""BPR-MF (Rendle et al., UAI 2009) and FPMC (Rendle, Freudenthaler & Schmidt-Thieme, WWW 2010).

Given the clicks of a session so far, rank the next one by products of factors: of the session as a whole (BPR-MF), or
of the session and of its latest click (FPMC).

=================  =================================================================================================
BPR-MF's model     ``BPRMF.encode``: a session is the mean of its items' factors; scores are products with it
BPR-Opt            ``BPRMF.loss``: -ln sigmoid(target's score - a negative's)
FPMC's model       ``FPMC.encode``: <V_user, V_item> + <V_latest, V_item>, both as one product of width 2 x dim
FPMC's S-BPR       ``FPMC.loss``: the same criterion with negatives of its own a target, and L2 on what it touched
=================  =================================================================================================

FPMC's item table holds an item's factors towards users and towards items side by side; a basket is the latest click.

Defaults: 100 factors for BPR-MF; 32 factors, 10 negatives and L2 of 0.001 for FPMC, as session papers set them.

**Departures.** A session has no factors of its own: a new one would have none to be asked by. In both models its place
is taken by the mean of its clicks' item factors, in training as in answering, over the latest ``length`` clicks (papers
that report BPR-MF on sessions train factors a session and average only to answer). BPR-MF draws 32 negatives shared by
the batch, not one a target; negatives come by the square root of their count, not uniformly. The optimiser is Adam,
not stochastic gradient descent, with its usual step for BPR-MF and 0.01 for FPMC; early stopping watches the ranking
of the validation data.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ensue.nn.attention import band, masked_mean
from ensue.nn.item_head import ItemHead, ItemTable, start_normal
from ensue.nn.sampling import PAIRS, pairwise_loss
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork, latest_only
from ensue.tasks.next.settings import BPRMFSettings, FPMCSettings


def equal_weights(mask: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """(batch, time, time): row i spreads 1 evenly over the latest ``length`` events up to i."""
    visible = band(mask.shape[1], reach=length, own=True, device=mask.device) & mask[:, None, :]
    return masked_mean(visible, dtype)


class BPRMF(ItemNetwork[BPRMFSettings]):
    """Matrix factorisation where the session is the mean of its items.

    Args:
        settings: sizes.
        num_ids: rows of the item table, padding and unknown included.
    """

    weighs_targets = False

    def __init__(self, settings: BPRMFSettings, num_ids: int) -> None:
        super().__init__(settings, reach=settings.max_length - 1)
        self.items = ItemHead(num_ids, settings.dim, negatives=PAIRS)
        start_normal(self.items, std=0.1)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the mean factors so far at the target clicks, (targets, dim), and the weights, (batch, time, time)."""
        weights = equal_weights(batch.mask, self.settings.max_length, self.items.weight.dtype)
        return (weights @ self.items(batch.ids))[batch.target_mask], weights

    def loss(self, batch: Batch) -> Tensor:
        """Return BPR-Opt, a mean over pairs."""
        return pairwise_loss(self.encode(batch)[0], self.items.rows, batch.targets, self.items.sampler.draw(PAIRS))


class FPMC(ItemNetwork[FPMCSettings]):
    """Factorised Markov chain where the user's factors are the mean of the session's.

    Args:
        settings: sizes, negatives, L2.
        num_ids: rows of the item tables, padding and unknown included.
    """

    weighs_targets = False

    def __init__(self, settings: FPMCSettings, num_ids: int) -> None:
        super().__init__(settings, reach=settings.max_length - 1)
        self.items = ItemHead(num_ids, 2 * settings.dim, negatives=settings.negatives)
        start_normal(self.items, std=0.1)
        self.latest = ItemTable(num_ids, settings.dim, sparse=True)
        start_normal(self.latest, std=0.1)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return V_u next to V_latest at the target clicks, (targets, 2 x dim), and the weights, (batch, time, time).

        Two products are added, so half the weight lies on the latest click and half on all of them evenly.
        """
        weights = equal_weights(batch.mask, self.settings.max_length, self.items.weight.dtype)
        user = weights @ self.items(batch.ids)[..., : self.settings.dim]
        latest = self.latest(batch.ids[batch.target_mask])
        weights = (weights + latest_only(batch.mask, weights.dtype)) / 2
        return torch.cat([user[batch.target_mask], latest], dim=1), weights

    def loss(self, batch: Batch) -> Tensor:
        """Return the pairwise criterion, a mean over pairs, plus the L2 of the factors that a target touches."""
        sessions, _ = self.encode(batch)
        negative_ids = self.items.sampler.draw(len(sessions), self.settings.negatives)
        target = self.items(batch.targets)
        negatives = self.items(negative_ids)
        differences = (sessions * target).sum(1, keepdim=True) - (negatives @ sessions[:, :, None])[:, :, 0]
        # A negative that equals the target makes no pair.
        pairs = (negative_ids != batch.targets[:, None]).to(differences.dtype)
        criterion = -(functional.logsigmoid(differences) * pairs).sum() / pairs.sum().clamp(min=1)
        touched = sessions.square().sum(1) + target.square().sum(1) + negatives.square().sum(2).mean(1)
        return criterion + self.settings.regularisation / 2 * touched.mean()
