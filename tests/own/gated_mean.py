"""A model from outside for task ``classify``: a gate for each word, and the mean of the words that it lets through."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ensue.nn.pooling import Pooled
from ensue.schedule import Schedule
from ensue.tasks.classify.model import Shape
from ensue.tasks.classify.passages import PooledOutput, TextBatch
from ensue.tasks.classify.settings import TextSettings


class GatedMean(nn.Module):
    """Texts: the mean of their words, each behind a gate."""

    SETTINGS = TextSettings(architecture="flat", dim=64, hidden=32, dropout=0.2)
    SCHEDULE = Schedule(epochs=10, batch_size=32, learning_rate=5e-3, monitor="accuracy", refit=False, replay=0)

    def __init__(self, settings: TextSettings, shape: Shape) -> None:
        super().__init__()
        self.table = nn.Embedding(shape.num_words, shape.dim)
        self.gate = nn.Sequential(nn.Linear(shape.dim, settings.hidden), nn.Tanh(), nn.Linear(settings.hidden, 1))
        self.drop = nn.Dropout(settings.dropout)
        self.output = nn.Linear(shape.dim, shape.num_labels)

    def forward(self, batch: TextBatch) -> PooledOutput:
        """Scores (records, labels), and what was pooled on the way."""
        vectors = self.table.weight.new_zeros(len(batch.owners), self.table.embedding_dim)  # a text may have no word
        pooled = []
        for block in batch.words:
            words = self.drop(self.table(block.items))
            gates = self.gate(words)[..., 0].masked_fill(~block.mask, -torch.inf)
            pooled.append(Pooled((gates.softmax(-1)[:, None] @ words)[:, 0], gates.softmax(-1)))
            vectors = vectors.index_add(0, block.rows, pooled[-1].vector)
        texts = vectors.new_zeros(batch.num_texts, vectors.shape[1])
        texts = texts.index_add(0, batch.owners, vectors * batch.shares[:, None])
        return PooledOutput(self.output(texts), pooled, [])

    def loss(self, batch: TextBatch) -> Tensor:
        """The mean over the batch's texts, in nats."""
        return functional.cross_entropy(self(batch).scores, batch.targets)

    @torch.no_grad()
    def place(self, ids: Tensor, vectors: Tensor, *, tuned: bool) -> None:
        """Give some words the vectors of a file; here all of them are tuned."""
        self.table.weight[ids] = vectors

    @torch.no_grad()
    def grow(self, num_words: int) -> None:
        """Rows for words that are new."""
        table = nn.Embedding(num_words, self.table.embedding_dim)
        table.weight[: len(self.table.weight)] = self.table.weight
        self.table = table
