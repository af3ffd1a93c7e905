"""Held-out texts that stay in a folder, as ids of words with their labels, so that updates can be tested on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ensue.data.histories import Index
from ensue.nn.validation import require_ids, require_table
from ensue.tasks.classify.dataset import Sides
from ensue.text.tokens import Tokens, require_tokens

FILE = "remembered.safetensors"


def chosen(sides: Sides, targets: Index, num: int, seed: int) -> tuple[Sides, Index] | None:
    """At most ``num`` of the texts that have a known label and a word, drawn at random; ``None`` for none."""
    usable = np.flatnonzero((targets >= 0) & (np.sum([tokens.lengths for tokens in sides], axis=0) > 0))
    drawn = np.sort(np.random.default_rng(seed).permutation(usable)[:num])
    if not len(drawn):
        return None
    return tuple(replace(tokens.select(drawn), words=None) for tokens in sides), targets[drawn]


def tensors_of(remembered: tuple[Sides, Index]) -> dict[str, Tensor]:
    """What is kept, as tensors by name."""
    sides, targets = remembered
    tensors = {"targets": torch.from_numpy(np.ascontiguousarray(targets))}
    for side, tokens in enumerate(sides):
        for name in ("ids", "sentences", "texts"):
            tensors[f"{side}.{name}"] = torch.from_numpy(np.ascontiguousarray(getattr(tokens, name)))
    return tensors


def restored(tensors: Mapping[str, Tensor], num_sides: int, num_words: int, num_labels: int) -> tuple[Sides, Index]:
    """Return what :func:`tensors_of` was given.

    Args:
        tensors: by name.
        num_sides: 2 for pairs.
        num_words: ids of the vocabulary, padding and unknown included.
        num_labels: number of labels.

    Raises:
        ValueError: they are of other words or labels, or do not fit together.
    """
    sides, targets = [], tensors["targets"]
    require_table("targets", targets, torch.int64, [None])
    require_ids("targets", targets, num_labels)
    for side in range(num_sides):
        ids, sentences, texts = (tensors[f"{side}.{name}"].numpy() for name in ("ids", "sentences", "texts"))
        tokens = Tokens(ids, sentences, texts)
        require_tokens(str(side), tokens, num_words)
        sides.append(tokens)
    if not len(targets) or {len(tokens) for tokens in sides} != {len(targets)}:
        raise ValueError("the stored examples and their labels differ in number")
    return tuple(sides), targets.numpy()
