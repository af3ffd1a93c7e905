"""Removal of a person's records from a fitted model: the steps that several tasks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ensue.learning.state import NETWORK, AnyState
from ensue.store.pack import TABLES
from ensue.vocabulary import FIRST


@dataclass(frozen=True)
class Forgotten:
    """What was removed from a model, and what remains.

    Attributes:
        removed: (file, kind, count) of everything that came from the person.
        remains: sentences about what cannot be removed, and what to do about it.
    """

    removed: list[tuple[str, str, int]] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)

    def add(self, file: str, kind: str, count: int) -> None:
        """Note something that was removed; nothing is noted for 0."""
        if count:
            self.removed.append((file, kind, count))


def clear_rows(state: AnyState, ids: npt.NDArray[np.integer], num_rows: int) -> int:
    """Set the rows of some ids to 0 in the tables of the network and in the optimizer's moments, and count them.

    Args:
        state: a model; nothing happens without a network.
        ids: (removed,) rows.
        num_rows: number of rows of a table with a row per id.
    """
    if not isinstance(state.model, nn.Module):
        return 0
    count, rows = 0, torch.from_numpy(ids.astype(np.int64))
    for parameter in state.model.parameters():
        if parameter.dim() and len(parameter) == num_rows:
            parameter.data[rows.to(parameter.device)] = 0
            count += len(ids)
            for moment in (state.optimizer.state.get(parameter, {}) if state.optimizer else {}).values():
                if moment.dim():
                    moment[rows.to(moment.device)] = 0
    return count


def remove_hashes(
    state: Any, forgotten: Forgotten, removed: npt.NDArray[np.integer], others: npt.NDArray[np.integer], records: str
) -> bool:
    """Remove the hashes that only the person's records have.

    Args:
        state: with ``train_prints``, hashes of its training data.
        forgotten: takes a note.
        removed: hashes of the person's records.
        others: hashes of all other records.
        records: what a record is, in the plural.

    Returns:
        Whether the records include everything that the model was trained on.
    """
    former = state.train_prints.numpy()
    state.train_prints = torch.from_numpy(np.setdiff1d(former, np.setdiff1d(removed, others)))
    forgotten.add(TABLES, f"fingerprints of {records}", len(former) - len(state.train_prints))
    return bool(np.isin(former, np.concatenate([removed, others])).all())


def remove_words(state: Any, forgotten: Forgotten, ids: npt.NDArray[np.integer]) -> None:
    """Remove words that nobody else used from the tokenizer; their ids stay without a word."""
    ids, vocabulary = ids[ids >= FIRST], state.tokenizer.vocabulary
    forgotten.add(TABLES, "words that nobody else used", len(ids))
    state.tokenizer.vocabulary = vocabulary.without(ids.tolist())
    forgotten.add(NETWORK, "rows of words that nobody else used", clear_rows(state, ids, len(vocabulary)))


def note_remaining_words(forgotten: Forgotten, records: str) -> None:
    """Note that words remain, since other records that used them may be missing."""
    forgotten.remains.append(
        f"words that perhaps nobody else used ({TABLES}), for the records lack {records} that were learned: give all "
        "of them, the person's among them"
    )


def remove_examples(state: AnyState, forgotten: Forgotten, may_stay: Callable[[tuple[str, ...]], bool]) -> None:
    """Remove examples for the page.

    Args:
        state: a model.
        forgotten: takes a note.
        may_stay: returns whether an example stays, given its texts and its true answers.
    """
    examples = state.metadata.examples
    if not examples:
        return
    former = cast("list[dict[str, dict[str, list[str] | str]]]", examples["held_out"])
    remaining = []
    for example in former:
        texts = next(example["record"][field] for field in ("values", "texts", "text") if field in example["record"])
        if may_stay((*([texts] if isinstance(texts, str) else texts), *example["truth"])):
            remaining.append(example)
    if len(remaining) < len(former):
        state.metadata.examples = {**examples, "held_out": remaining} if remaining else None
    forgotten.add("settings.json", "examples for the page", len(former) - len(remaining))
