"""GRU4Rec: recurrent network for sessions (Hidasi & Karatzoglou, CIKM 2018, after Hidasi et al., ICLR 2016).

Given the clicks of a session so far, rank the next one: a GRU reads the clicks, and its state is compared with the
table the clicks were read from (one shared table for both ends).

====================  =======================================================================================
the network           ``GRU4Rec.encode``: table, dropout, GRU, dropout
shared embedding      ``GRU4Rec.forward``: scores by the table the clicks were read from, and a bias an item
additional samples    ``Sampler``: negatives for the whole batch, drawn by count to the power alpha
cross-entropy         ``GRU4Rec.loss`` with ``ce``: softmax over the target and the negatives
BPR-max               ``bpr_max``: with score regularisation, on scores through ELU
====================  =======================================================================================

Defaults are the authors' for Diginetica, from their released parameter files (bpr-max, 512 units, dropout 0.5 and 0.3,
2,048 negatives, alpha 0.3, regularisation 0.9). Theirs for Yoochoose: ``ce``, 480 units, no dropout on the table, 0.2
on the state, alpha 0.2, logq 1.

**Departures.** The authors run many sessions in parallel, one click a step, and carry states on from step to step with
gradients cut there. Here whole sessions of like length are padded and read in one pass. The states are the same (each
session starts at zero in both, and none outlives its batch here), the gradient also flows back in time, and a batch
holds all targets of its sessions instead of one each. Negatives are the drawn ones alone: the batch's other targets,
which are neighbours in the same sessions here, are none. With ``logq`` 1 a negative's score is lessened by log(its
expected draws), which makes the sum one over the catalogue; the authors' program corrects the targets of the batch too,
since they serve as negatives there. Torch's GRU has two biases and resets after the matrix product. Adam in place of
Adagrad with momentum, so the step size is ours. The table starts uniform within 1 / sqrt(dim), whatever the catalogue.
Early stopping watches the ranking of the validation data. A recurrent state weighs no events: the weights put 1 on the
latest click, the one the state moved by last.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.dropout import Dropout
from ensue.nn.item_head import ALL_IDS, ItemHead, Product, clear_padding, item_loss
from ensue.nn.recurrent import GRULayer
from ensue.tasks.next.batch import Batch
from ensue.tasks.next.network import ItemNetwork, latest_only
from ensue.tasks.next.settings import GRU4RecSettings


def bpr_max(target: Tensor, negative: Tensor, hidden: Tensor, regularisation: float) -> Tensor:
    """BPR-max: -ln sum_j s_j sigmoid(target - other_j) + regularisation * sum_j s_j other_j^2, s = softmax(others).

    Args:
        target: (targets, 1) scores of what came.
        negative: (targets, negatives) scores of what was drawn.
        hidden: (targets, negatives) True where a negative is none, for it is the target; left out.
        regularisation: weight of the squared scores.

    Returns:
        The mean over targets; one without negatives counts 0.
    """
    target, negative = functional.elu(target), functional.elu(negative)
    # A hidden negative gets the lowest finite score, because -inf would give NaN gradients.
    shares = negative.masked_fill(hidden, torch.finfo(negative.dtype).min).log_softmax(1)
    pairs = (shares + functional.logsigmoid(target - negative)).masked_fill(hidden, torch.finfo(negative.dtype).min)
    squares = (shares.exp() * negative.square()).masked_fill(hidden, 0.0).sum(1)
    return (regularisation * squares - pairs.logsumexp(1)).masked_fill(hidden.all(1), 0.0).mean()


class GRU4Rec(ItemNetwork[GRU4RecSettings]):
    """The network over ids; see the module's table for the equations.

    Args:
        settings: sizes, loss, negatives.
        num_ids: rows of the item table, padding and unknown included.
    """

    weighs_targets = False

    def __init__(self, settings: GRU4RecSettings, num_ids: int) -> None:
        super().__init__(settings)
        self.items = ItemHead(num_ids, settings.dim, negatives=settings.negatives, power=settings.power)
        self.bias = nn.Parameter(torch.zeros(num_ids))
        self.gru = GRULayer(settings.dim, settings.dim, batch_first=True)
        self.dropout_items = Dropout(settings.dropout_items)
        self.dropout_state = Dropout(settings.dropout_state)
        nn.init.uniform_(self.items.weight, -(settings.dim**-0.5), settings.dim**-0.5)
        clear_padding(self.items)

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the state after each target click, (targets, dim), and weights of 1 on it, (batch, time, time)."""
        states: Tensor = self.gru(self.dropout_items(self.items(batch.ids)))[0]
        sessions: Tensor = self.dropout_state(states[batch.target_mask])
        return sessions, latest_only(batch.mask, sessions.dtype)

    def product(self, batch: Batch) -> Product:
        """Return the scores as a product."""
        return self.items.product(*self.encode(batch))._replace(bias=self.bias)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the settings, a mean over targets; outside training ``ce`` covers the whole catalogue."""
        settings = self.settings
        targets = batch.targets
        sessions, _ = self.encode(batch)
        if settings.loss == "ce" and not self.training:
            return item_loss(sessions, self.items.rows(ALL_IDS), targets, self.bias)
        negatives = self.items.sampler.draw(settings.negatives)
        target_scores = (sessions * self.items(targets)).sum(1, keepdim=True) + self.bias[targets, None]
        # All targets of the batch share the negatives: one product gives (targets, negatives).
        negative_scores = torch.addmm(self.bias[negatives], sessions, self.items(negatives).T)
        same = negatives == targets[:, None]
        if settings.loss == "bpr-max":
            return bpr_max(target_scores, negative_scores, same, settings.regularisation)
        # logQ correction: subtract the logarithm of the expected number of draws.
        expected = settings.logq * (self.items.sampler.shares()[negatives] * settings.negatives).clamp(min=1e-30).log()
        negative_scores = (negative_scores - expected).masked_fill(same, -torch.inf)
        # The target is class 0 of a softmax over itself and the negatives.
        scores = torch.cat([target_scores, negative_scores], dim=1)
        return (scores.logsumexp(1) - target_scores[:, 0]).mean()
