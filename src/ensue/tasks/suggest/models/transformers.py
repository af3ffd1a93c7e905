"""The Transformer as it stands (Vaswani et al., NeurIPS 2017), on the last query or on the whole session.

Given the queries of a session so far, write the next one. The queries are joined, each closed by the end token, and an
encoder reads them as one text; a decoder writes. With ``window=1`` that is the paper's rival, the Transformer on the
last query; with more it is the flat Transformer (Mustar, Lamprier & Piwowarski, 2021), which is stronger on sessions.

Each prefix of a session is a row of its own in training: every token of a prefix sees every other, and those of an
earlier query see the later ones too, so no mask can serve two prefixes at once. That is exact, and it is cheap enough:
with k queries to a session the encoder reads k / 2 times as many tokens as the sessions have, the decoder no more.

**Departures.** Embeddings may be narrower than the model, and are then projected. The output is not tied to the table
unless ``tied`` is set. ``copy`` is ours.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ensue.nn.autograd import is_traced
from ensue.nn.transformer import EncoderLayer, PackedRows
from ensue.tasks.suggest.batch import END, QueryBatch, front_order
from ensue.tasks.suggest.model import QueryNetwork
from ensue.tasks.suggest.models.words import TokenTable
from ensue.tasks.suggest.models.writer import QueryWriter, WriterMemory
from ensue.tasks.suggest.settings import TransformerSettings


class Transformer(QueryNetwork):
    """The network over token ids.

    Args:
        settings: sizes and variants.
        num_ids: tokens, the special ones included.
    """

    writer: QueryWriter

    def __init__(self, settings: TransformerSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        first, last = settings.layers()
        sizes = settings.dim, settings.heads, settings.wide, settings.dropout
        words = TokenTable(num_ids, settings.embedding, settings.dim, tied=settings.tied, smoothing=settings.smoothing)
        self.writer = QueryWriter(words, *sizes, layers=last, copy=settings.copy)
        self.layers = nn.ModuleList(EncoderLayer(*sizes) for _ in range(first))

    def remember(self, batch: QueryBatch, ends: Tensor) -> WriterMemory:
        """Return the memory of the latest queries up to each end, read as one text."""
        words, mask, positions = join(batch, ends, self.settings.window)
        rows = PackedRows.of(mask)
        tokens = self.writer.look(words, rows)
        for layer in self.layers:
            tokens = layer(tokens, rows, mask[:, None])
        return WriterMemory(self.writer.remember(tokens, rows), mask, words, positions)


def join(batch: QueryBatch, ends: Tensor, window: int) -> tuple[Tensor, Tensor, Tensor]:
    """The latest queries up to each end as one text, each query closed by the end token.

    Args:
        batch: the sessions.
        ends: (batch, turns) True at queries that end a context.
        window: how many queries.

    Returns:
        (ends, longest) ids; (ends, longest) True where a token stands; (ends, longest) its place in turns x width,
        -1 for an end token.
    """
    # Queries "a b" and "c" of a width of 2: tokens [a b END c END], places [0 1 -1 2 -1].
    rows, turns, width = batch.words.shape
    lengths = batch.lengths.flatten()
    is_token = torch.arange(width + 1, device=lengths.device) <= lengths[:, None]
    is_token = is_token & (lengths > 0)[:, None]
    words = torch.cat([batch.words.view(rows * turns, width), batch.words.new_zeros(rows * turns, 1)], dim=1)
    words = words.scatter(1, lengths[:, None], END)
    row, turn = ends.nonzero(as_tuple=True)
    steps = torch.arange(turns, device=turn.device)
    read = (steps <= turn[:, None]) & (steps > turn[:, None] - window)
    mask = (is_token.view(rows, turns, -1)[row] & read[:, :, None]).flatten(1)
    longest = max(1, int(mask.sum(1).max())) if len(mask) else 1
    if is_traced():  # an exported graph keeps padding at the end, for any number of tokens
        longest = window * (width + 1)
    order = front_order(mask)[:, :longest]
    mask = mask.gather(1, order)
    tokens = words.view(rows, -1)[row].gather(1, order) * mask
    turn, offset = order // (width + 1), order % (width + 1)
    return tokens, mask, torch.where(mask & (offset < batch.lengths[row[:, None], turn]), turn * width + offset, -1)
