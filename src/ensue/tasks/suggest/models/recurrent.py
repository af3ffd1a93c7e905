"""The recurrent rivals of MTN: Seq2Seq with attention, the hierarchical LSTM, and M-NSRF without its ranking part.

Given the queries of a session so far, write the next one. An LSTM reads words, another writes them.

==============  ================================================================================================
Seq2Seq         Luong, Pham & Manning, EMNLP 2015. Reads the last query. ``RecurrentWriter``: global attention with the
                *general* score h_t W h_s, and the attentional state tanh(W_c [c; h])
H-LSTM          Sordoni et al., CIKM 2015 (HRED-qs). An LSTM over queries; the writer starts at tanh(D s + b), and
                the output sees the word before as well, its Eq. 8: H d + E w + b
M-NSRF          Ahmad, Chang & Wang, ICLR 2018. A query's vector is the maximum over its words, and ``entropy``
                times the sum of p log p over all words is added at each target
==============  ================================================================================================

The LSTM over queries never sees a later one, so all queries that followed another are targets in one pass.

Defaults are those of the MTN paper: words 300 wide, 256 units in each direction, so 512 in all; dropout 0.1.

**Departures.** Seq2Seq's attentional state is not fed back into the LSTM, so that a whole query is read in one call;
one layer. The writer's cell starts like its state, from what was read, by a projection of its own. HRED's and M-NSRF's
outputs go through a state as wide as the writer, not through one of their own; HRED's GRUs are LSTMs that read both
ways, as in the MTN paper. M-NSRF is left without its ranking part, as there.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ensue.nn.attention import masked_softmax
from ensue.nn.dropout import Dropout
from ensue.nn.recurrent import BiLSTM, LSTMLayer
from ensue.tasks.suggest.batch import PADDING, QueryBatch, spell
from ensue.tasks.suggest.model import QueryNetwork
from ensue.tasks.suggest.models.words import TokenTable
from ensue.tasks.suggest.settings import HLSTMSettings, Seq2SeqSettings


class RecurrentMemory(NamedTuple):
    """Encoded queries so far, one row per session.

    Attributes:
        states: (rows, source, dim) what the writer attends to; source is 0 where it does not.
        mask: (rows, source) True where a word stands.
        positions: (rows, source) where in turns x width.
        start: (rows, 2, dim) the state and the cell the writer starts from.
    """

    states: Tensor
    mask: Tensor
    positions: Tensor
    start: Tensor

    def vectors(self) -> Tensor:
        """Return (rows, dim) the state that the writer starts from."""
        return self.start[:, 0]


class RecurrentState(NamedTuple):
    """Decoder state: (rows, dim) state and cell."""

    state: Tensor
    cell: Tensor

    def select(self, index: Tensor) -> RecurrentState:
        """Rows picked, repeated or put in order."""
        return RecurrentState(self.state.index_select(0, index), self.cell.index_select(0, index))

    def of_sources(self, index: Tensor, beams: int) -> RecurrentState:
        """Return the state of some of the sources, each of which has ``beams`` rows side by side."""
        return self.select((index[:, None] * beams + torch.arange(beams, device=index.device)).flatten())


class RecurrentWriter(nn.Module):
    """The LSTM that writes.

    Args:
        settings: sizes.
        num_ids: tokens, the special ones included.
        attends: whether it attends to the states of a memory (Luong), or its output sees the word before (HRED).
        entropy: weight of p log p in the loss.
    """

    def __init__(
        self, settings: Seq2SeqSettings | HLSTMSettings, num_ids: int, *, attends: bool, entropy: float = 0.0
    ) -> None:
        super().__init__()
        dim = settings.dim
        embedding = settings.embedding
        self.words = TokenTable(num_ids, embedding, dim, tied=settings.tied, smoothing=settings.smoothing)
        self.scale = embedding**0.5  # the table starts small, as an output must: an LSTM would hardly hear its words
        self.lstm = LSTMLayer(embedding, dim, batch_first=True)
        self.first = nn.Linear(dim, 2 * dim)
        self.score = nn.Linear(dim, dim, bias=False) if attends else None
        self.joined = nn.Linear(2 * dim if attends else dim + embedding, dim)
        self.drop = Dropout(settings.dropout)
        self.entropy = entropy

    def begin(self, vectors: Tensor) -> Tensor:
        """The state and the cell to start from: (rows, dim) to (rows, 2, dim)."""
        return cast(Tensor, self.first(vectors)).tanh().view(len(vectors), 2, -1)

    def look(self, ids: Tensor) -> Tensor:
        """(…) ids to (…, embedding)."""
        return cast(Tensor, self.drop(self.words(ids) * self.scale))

    def states(
        self, memory: RecurrentMemory, read: Tensor, past: RecurrentState
    ) -> tuple[Tensor, RecurrentState, Tensor]:
        """Return inputs of the output layer, (rows, length, dim), the state after them and attention weights."""
        looked = self.look(read)
        hidden, (state, cell) = self.lstm(looked, (past.state[None], past.cell[None]))
        final = RecurrentState(state[0], cell[0])
        shares = hidden.new_zeros(*read.shape, 0)
        if self.score is None:
            return self.drop(self.joined(torch.cat([hidden, looked], dim=2))), final, shares
        # All rows of a source attend to the same memory in one product.
        asking = self.score(hidden).view(len(memory.states), -1, hidden.shape[2])
        shares = masked_softmax(asking @ memory.states.mT, memory.mask[:, None])
        context = (shares @ memory.states).view(hidden.shape)
        return self.drop(self.joined(torch.cat([context, hidden], dim=2)).tanh()), final, shares.view(*read.shape, -1)

    def loss(self, memory: RecurrentMemory, read: Tensor, targets: Tensor) -> Tensor:
        """The mean over all tokens of ``targets`` that are not padding, in nats."""
        is_token = targets != PADDING
        vectors = self.states(memory, read, self.start(memory))[0][is_token]
        loss = self.words.loss(vectors, targets[is_token])
        if self.entropy and self.training:
            loss = loss + self.entropy * self.words.negative_entropy(vectors).sum() / max(1, len(vectors))
        return loss

    def likelihood(self, memory: RecurrentMemory, read: Tensor, targets: Tensor) -> Tensor:
        """(rows, length) log-probability of each token of ``targets``; 0 at padding."""
        is_token = targets != PADDING
        rows = len(targets) // max(1, len(memory.start))
        start = self.start(memory)
        # Each source's state is repeated for its candidates, which are adjacent.
        past = RecurrentState(start.state.repeat_interleave(rows, 0), start.cell.repeat_interleave(rows, 0))
        vectors = self.states(memory, read, past)[0]
        log_shares = self.words.log_likelihood(vectors[is_token], targets[is_token])
        return vectors.new_zeros(targets.shape).masked_scatter(is_token, log_shares)

    def attention(self, memory: RecurrentMemory, read: Tensor) -> Tensor:
        """(rows, length, source) attention at each token; no source where it attends to nothing."""
        return self.states(memory, read, self.start(memory))[2]

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """Nothing is written yet."""
        return RecurrentState(memory.start[:, 0].contiguous(), memory.start[:, 1].contiguous())

    def step(self, memory: RecurrentMemory, state: RecurrentState, tokens: Tensor) -> tuple[Tensor, RecurrentState]:
        """Read one token a row: (rows, ids) log-probabilities of the next, and the state after it."""
        vectors, state, _ = self.states(memory, tokens[:, None], state)
        return self.words.log_probabilities(vectors[:, 0]), state


class Seq2Seq(QueryNetwork):
    """An LSTM both ways over the last query, and one that writes with attention to its states.

    Args:
        settings: sizes.
        num_ids: tokens, the special ones included.
    """

    writer: RecurrentWriter

    def __init__(self, settings: Seq2SeqSettings, num_ids: int) -> None:
        super().__init__()
        self.writer = RecurrentWriter(settings, num_ids, attends=True)
        self.reader = BiLSTM(settings.embedding, settings.dim // 2)

    def remember(self, batch: QueryBatch, ends: Tensor) -> RecurrentMemory:
        """Return the states over the words of each end's query."""
        row, turn = ends.nonzero(as_tuple=True)
        words, mask = batch.words[row, turn], batch.mask[row, turn]
        states = self.reader(self.writer.look(words), mask)
        positions = turn[:, None] * words.shape[1] + torch.arange(words.shape[1], device=turn.device)
        start = self.writer.begin(last_states(states, batch.lengths[row, turn]))
        return RecurrentMemory(self.writer.drop(states), mask, positions, start)


class HLSTM(QueryNetwork):
    """An LSTM both ways over the words of each query, one over the queries, and one that writes.

    Args:
        settings: sizes and variants.
        num_ids: tokens, the special ones included.
    """

    writer: RecurrentWriter

    def __init__(self, settings: HLSTMSettings, num_ids: int) -> None:
        super().__init__()
        self.settings = settings
        self.writer = RecurrentWriter(settings, num_ids, attends=False, entropy=settings.entropy)
        self.reader = BiLSTM(settings.embedding, settings.dim // 2)
        self.sessions = LSTMLayer(settings.dim, settings.dim, batch_first=True)

    def attributions(self, batch: QueryBatch, candidates: Tensor) -> Tensor:
        """Return attributions to earlier words, by gradients.

        The model has no attention: these are |gradient . vector|, normalised; the change of a suggested word's
        log-probability under a small change of an earlier word's vector.
        """
        read, targets = spell(candidates, (candidates != PADDING).sum(1))
        saliencies = []
        with torch.enable_grad():
            vectors = self.writer.look(batch.words).detach().requires_grad_()
            scores = self.writer.likelihood(self._sessions(batch, batch.last, vectors), read, targets)
            for step in range(targets.shape[1] - 1):
                # The gradient of one position's log-probabilities, for all rows in one pass.
                (slope,) = torch.autograd.grad(scores[:, step].sum(), vectors, retain_graph=True)
                saliencies.append((slope * vectors).sum(3).abs().detach() * batch.mask)
        sizes = (
            torch.stack(saliencies, dim=1) if saliencies else vectors.new_zeros(len(read), 0, *batch.words.shape[1:])
        )
        # Positions behind a suggestion's end have no attributions.
        sizes = sizes * (read[:, 1:, None, None] != PADDING)
        return sizes / sizes.sum((2, 3), keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)

    def remember(self, batch: QueryBatch, ends: Tensor) -> RecurrentMemory:
        """Return the state of each session after each end."""
        return self._sessions(batch, ends, self.writer.look(batch.words))

    def _sessions(self, batch: QueryBatch, ends: Tensor, vectors: Tensor) -> RecurrentMemory:
        is_read = ends.flip(1).cumsum(1).flip(1) > 0
        row, turn = is_read.nonzero(as_tuple=True)
        mask, lengths = batch.mask[row, turn], batch.lengths[row, turn]
        states = self.reader(vectors[row, turn], mask)
        if self.settings.pooling == "max":
            # Padding is -inf under the maximum; a query without tokens is 0.
            queries = states.masked_fill(~mask[..., None], -torch.inf).amax(1).masked_fill((lengths == 0)[:, None], 0.0)
        else:
            queries = last_states(states, lengths)
        # Back to (batch, turns, dim) for the LSTM over queries.
        placed = queries.new_zeros(*is_read.shape, self.settings.dim).index_put((row, turn), queries)
        start = self.writer.begin(self.writer.drop(self.sessions(placed)[0][ends]))
        empty = start.new_zeros(len(start), 0, self.settings.dim)
        nothing = ends.new_zeros(len(start), 0)
        return RecurrentMemory(empty, nothing, nothing.long(), start)


def last_states(states: Tensor, lengths: Tensor) -> Tensor:
    """The last state of each direction of a BiLSTM: (rows, length, 2 x hidden), (rows,) to (rows, 2 x hidden)."""
    forward, backward = states.chunk(2, dim=2)
    # The forward direction ends at the last token, the backward one at the first.
    last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, forward.shape[2])
    return torch.cat([forward.gather(1, last)[:, 0], backward[:, 0]], dim=1) * (lengths > 0)[:, None]
