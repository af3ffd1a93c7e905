"""A BiLSTM, a pooling and a classifier: one network for texts, for documents and for pairs.

Gong et al., Text Information Aggregation with Centrality Attention, Science China Information Sciences 2020. Task: say
which label fits a text, from words whose weights are their centrality in a graph of who leans on whom; the other
poolings of ``ensue.nn.pooling`` take its place in the baselines.

===========================  =================================================================
section 2, Eqs. 1-3          ``Level``: vectors of words, BiLSTM, weighted sum
section 4, hierarchical      two ``Level`` of their own: words to sentences, sentences to text
Eq. 10                       ``CentralityClassifier._relate``, for pairs
Eq. 11                       ``CentralityClassifier.loss``, with the minus sign it lacks
Table 2, section 5.2         sizes, dropout and ``SCHEDULE``: SST-2; ``TABLE_2`` for the others
===========================  =================================================================

What the paper leaves open is taken from its released program: the classifier is Dense 300, dropout, tanh, Dense;
dropout stands on the vectors of words and in the classifier; the batch size halves when validation accuracy does not
improve.

**Departures.** Centrality is solved for exactly; ``centrality-paper`` takes the paper's power method, with 20 steps of
gradient, and nothing of what ``residual`` adds. Words that no file knows get vectors of their own, which are learned.
L2 leaves the vectors of words alone: through Adam it would pull at every word in every step, however seldom it occurs.
A text of more than 256 words (a document: of more than 256 sentences, or with a sentence of more than 256 words) is cut
into equal stretches; those of a sentence count as sentences, those of a text are averaged by length. Nothing is left
out: the released program read 40 sentences of 40 words. With a file of vectors the scores of the mean-vector row are
added in the end (``residual``), and those of the network are scaled by what it is worth beside them: by 0 where it is
not significantly better. With ``encoder``, a frozen model of sentences takes the place of the lower level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.errors import SettingError
from ensue.nn.autograd import is_traced
from ensue.nn.blocks import Block
from ensue.nn.dropout import Dropout
from ensue.nn.pooling import POOLINGS, Pooled, Pooling
from ensue.nn.recurrent import BiLSTM
from ensue.registry import find_class
from ensue.tasks.classify.model import Shape
from ensue.tasks.classify.models.alignment import Alignment
from ensue.tasks.classify.passages import PooledOutput, TextBatch
from ensue.tasks.classify.settings import ALIGNMENT, GRAPH_POOLINGS, TextSettings
from ensue.vocabulary import PADDING

_SPREAD = 0.1  # standard deviation that learned vectors start with


class Level(nn.Module):
    """A BiLSTM and a pooling: from the items of passages to one vector a passage.

    Args:
        settings: of the network.
        dim: width of the items.
    """

    def __init__(self, settings: TextSettings, dim: int) -> None:
        super().__init__()
        self.lstm = BiLSTM(dim, settings.hidden)
        self.pool = _pooling(settings)

    def forward(self, look: Callable[[Tensor], Tensor], blocks: Sequence[Block], rows: int) -> _Encoded:
        """All blocks, whose items ``look`` turns from (rows, length) numbers into (rows, length, dim) vectors."""
        pooled: list[Pooled] = [self.pool(self._read(look, block), block.mask) for block in blocks]
        if not pooled:
            return _Encoded(torch.zeros(rows, self.pool.width, device=next(self.parameters()).device), [])
        order = torch.cat([block.rows for block in blocks]).argsort()
        return _Encoded(torch.cat([pooling.vector for pooling in pooled])[order], pooled)

    def _read(self, look: Callable[[Tensor], Tensor], block: Block) -> Tensor:
        if torch.is_grad_enabled() or block.items.is_cuda:
            return self.lstm(look(block.items), block.mask)
        # In prediction the input projection of a word is computed once per block.
        distinct, index = torch.unique(block.items, return_inverse=True)
        return self.lstm.read(look(distinct), index, block.mask)


class _Encoded(NamedTuple):
    vectors: Tensor  # (rows, width)
    pooled: list[Pooled]


def _pooling(settings: TextSettings) -> Pooling:
    name, width = settings.pooling, 2 * settings.hidden
    if name not in POOLINGS:
        pooling: Pooling = cast(Any, find_class(name))(width)
        if not isinstance(getattr(pooling, "width", None), int):
            raise SettingError(f"pooling {name!r}: give the class a width, the number of features of a pooled text")
        return pooling
    options: dict[str, object] = {}
    if name in ("self-attention", *GRAPH_POOLINGS):
        options["score_dim"] = settings.score_dim
    if name in GRAPH_POOLINGS:
        options["method"] = settings.method
    if name == "tokenrank":
        options["damping"] = settings.damping
    return POOLINGS[name](width, **options)


class CentralityClassifier(nn.Module):
    """Scores of the labels of texts, documents or pairs.

    Args:
        settings: of the network.
        shape: what the data decides.
    """

    fixed: Tensor

    def __init__(self, settings: TextSettings, shape: Shape) -> None:
        super().__init__()
        self.paired = shape.architecture == "pair"
        self.table = nn.Embedding(shape.num_words, shape.dim, sparse=True)
        nn.init.normal_(self.table.weight, std=_SPREAD)
        nn.init.zeros_(self.table.weight[: PADDING + 2])  # padding, and words that were never seen
        self.fixed = nn.Buffer(torch.zeros(shape.num_words, dtype=torch.bool))
        self.drop = Dropout(settings.dropout)
        self.aligned: Alignment | None = None
        if settings.pooling == ALIGNMENT:
            self.aligned = Alignment(shape.dim, settings.hidden, settings.dropout, paired=self.paired)
        self.words = None if self.aligned or settings.encoder is not None else Level(settings, shape.dim)
        hierarchical = shape.architecture == "hierarchical" or (self.words is None and self.aligned is None)
        below = shape.dim if self.words is None else self.words.pool.width
        self.sentences = Level(settings, below) if hierarchical else None
        if self.aligned is not None:
            width = self.aligned.width
        else:
            width = cast(Level, self.sentences or self.words).pool.width * (4 if self.paired else 1)
        self.hidden = nn.Linear(width, settings.head)
        self.output = nn.Linear(settings.head, shape.num_labels)

    @torch.no_grad()
    def scale(self, factor: float) -> None:
        """Multiply all scores: by 0, the network adds nothing to what stands below it."""
        self.output.weight.mul_(factor)
        self.output.bias.mul_(factor)

    @torch.no_grad()
    def place(self, ids: Tensor, vectors: Tensor, *, tuned: bool) -> None:
        """Give some words the vectors of a file; those that are not ``tuned`` stay as they are, to the bit."""
        device = self.table.weight.device
        learned = self.table.weight[PADDING + 2 :]
        # Words without a vector get random ones as large as those of the file.
        learned *= vectors.std() / _SPREAD if vectors.numel() > 1 else 1.0  # others start as large as the file's
        self.table.weight[ids.to(device)] = vectors.to(device)
        self.fixed[ids.to(device)] = not tuned

    @torch.no_grad()
    def grow(self, num_words: int) -> None:
        """Rows for words that are new: at random, as spread as those before."""
        old = self.table.weight
        rows = old.new_empty(num_words - len(old), old.shape[1]).normal_(std=float(old[PADDING + 2 :].std()))
        self.table = nn.Embedding(num_words, old.shape[1], sparse=True, _weight=torch.cat([old, rows]))
        self.fixed = torch.cat([self.fixed, self.fixed.new_zeros(len(rows))])

    def forward(self, batch: TextBatch) -> PooledOutput:
        """Scores (records, labels), and what was pooled on the way."""
        if self.aligned is not None:
            related, pooled = self.aligned(self._vectors, batch)  # whose cosines say what is alike: nothing is dropped
            return PooledOutput(self._score(related, batch), pooled, [], related)
        num_rows = sum(len(block.rows) for block in batch.words)
        if self.words is None:
            lower = _Encoded(self.drop(cast(Tensor, batch.vectors)), [])
            upper = None
        else:
            lower = self.words(self._look, batch.words, num_rows)
            upper = None
        if self.sentences is not None:
            passages = lower.vectors
            upper = self.sentences(lambda items: passages[items], batch.sentences, len(batch.owners))
        vectors = lower.vectors if upper is None else upper.vectors
        # The passages of a text are averaged by length.
        parts = vectors * batch.shares[:, None].to(vectors.dtype)
        if is_traced():
            # In ONNX a text that is added to twice would keep one of both.
            owned = batch.owners == torch.arange(batch.num_texts)[:, None]
            texts = owned.to(parts.dtype) @ parts
        else:
            texts = vectors.new_zeros(batch.num_texts, vectors.shape[1]).index_add(0, batch.owners, parts)
        related = _relate(texts) if self.paired else texts
        pooled_sentences = upper.pooled if upper is not None else []
        return PooledOutput(self._score(related, batch), lower.pooled, pooled_sentences, related)

    def _score(self, related: Tensor, batch: TextBatch) -> Tensor:
        scores: Tensor = self.output(self.drop(self.hidden(related)).tanh())  # the order of the released program
        return scores if batch.below is None else scores + batch.below

    def loss(self, batch: TextBatch) -> Tensor:
        """Eq. 11: the mean negative log likelihood of the labels."""
        scores = self(batch).scores.float()
        if batch.targets.ndim == 2:  # sets of labels: a sigmoid for each, summed over the labels of a text
            targets = batch.targets.to(scores.dtype)
            return functional.binary_cross_entropy_with_logits(scores, targets, reduction="none").sum(1).mean()
        return functional.cross_entropy(scores, batch.targets)

    def _look(self, items: Tensor) -> Tensor:
        return self.drop(self._vectors(items))

    def _vectors(self, items: Tensor) -> Tensor:
        vectors: Tensor = self.table(items)
        if self.training:
            # Rows that are not tuned get no gradient.
            vectors = torch.where(self.fixed[items][..., None], vectors.detach(), vectors)
        return vectors


def _relate(texts: Tensor) -> Tensor:
    """Eq. 10: [p; h; |p - h|; p * h] of the first and the second texts."""
    # Halves by the size, for ``chunk`` is not of any size in an exported graph.
    half = texts.shape[0] // 2
    first, second = texts[:half], texts[half:]
    return torch.cat([first, second, (first - second).abs(), first * second], dim=1)
