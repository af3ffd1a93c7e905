"""eSASRec: SASRec with LiGR blocks and a sampled softmax (Tikhonovich et al., RecSys 2025).

The task, the causal mask and the shared item table are SASRec's; what changes is the block and the loss.

=============  ==============================================================================================
LiGR block     ``LiGRBlock``: x + sigmoid(W x) * dropout(g(norm(x))) around attention and feed-forward part
               (Borisyuk et al., LiGR, 2025: gated residuals)
SwiGLU         ``SwiGLU``: W_3 (silu(W_1 x) * W_2 x) (Shazeer 2020)
loss           ``ItemHead.loss``: softmax over the target and shared negatives, less log of their expected
               draws (LogQ correction)
=============  ==============================================================================================

**Departures.** The feed-forward part is 4 x 2 / 3 times as wide as the vectors, which makes its size that of a ReLU
layer four times as wide; the authors' is 4 times as wide. As in SASRec, item vectors are scaled by sqrt(dim), and a
layer norm follows the last block; the authors have neither. They draw 256 negatives per target uniformly and do not
correct for that; here negatives are drawn by the square root of the counts and shared by the batch. Their setting for
MovieLens is a dropout rate of 0.1 and one head; the default rate of 0.4 had a better validation MRR than 0.2 on
Diginetica's sessions and on MovieLens 100k.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.dropout import Dropout
from ensue.nn.transformer import Attention, PackedRows
from ensue.tasks.next.models.sasrec import SASRec, self_attention
from ensue.tasks.next.settings import SASRecSettings


class SwiGLU(nn.Module):
    """Feed-forward part W_3 (silu(W_1 x) * W_2 x).

    Args:
        dim: input and output dimension.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        # Three matrices of this width have as many parameters as two of the usual 4 * dim.
        hidden = 8 * dim // 3
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.linear = nn.Linear(dim, hidden, bias=False)
        self.output = nn.Linear(hidden, dim, bias=False)

    def forward(self, events: Tensor) -> Tensor:
        """(…, dim) to (…, dim)."""
        return self.output(functional.silu(self.gate(events)) * self.linear(events))


class LiGRBlock(nn.Module):
    """Causal self-attention and SwiGLU, each behind a layer norm and added through a gate of the block's input.

    Args:
        settings: sizes and dropout rate.
    """

    def __init__(self, settings: SASRecSettings) -> None:
        super().__init__()
        dim = settings.dim
        self.attention = Attention(dim, settings.heads)
        self.feed_forward = SwiGLU(dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.gate1 = nn.Linear(dim, dim)
        self.gate2 = nn.Linear(dim, dim)
        self.dropout = Dropout(settings.dropout)

    def forward(self, events: Tensor, rows: PackedRows, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return (events, dim) vectors and (rows, length, length) weights; see :class:`SASRecBlock`."""
        attended, weights = self_attention(self.attention, self.norm1(events), rows, mask)
        events = events + self.gate1(events).sigmoid() * self.dropout(attended)
        fed = self.dropout(self.feed_forward(self.norm2(events)))
        return events + self.gate2(events).sigmoid() * fed, weights


class ESASRec(SASRec):
    """The network over ids; see the module's table.

    Args:
        settings: sizes, loss.
        num_ids: rows of the item table, padding and unknown included.
    """

    block = LiGRBlock
