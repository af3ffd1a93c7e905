"""Forget an author: remove what a model folder holds of single texts, and the words that nobody else used."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from ensue.data.texts import Texts
from ensue.store.pack import TABLES
from ensue.tasks.classify.dataset import Remembered, Sides, prints
from ensue.tasks.classify.state import ClassifyState
from ensue.tasks.state import Forgotten, clear_rows, keep_examples, module_of, without_prints
from ensue.text.tokens import rows_of_tokens
from ensue.vocabulary import FIRST


def forget_users(
    state: ClassifyState, records: tuple[Texts, Texts] | None, users: Collection[str], folder: Path
) -> Forgotten:
    """Remove some authors.

    Args:
        state: of a model folder.
        records: their texts, and all other texts that were learned.
        users: their names.
        folder: the model folder.
    """
    found = Forgotten()
    if records is None or not len(records[0]):
        return found
    mine, rest = records
    former = state.train_prints
    state.train_prints, complete = without_prints(former, prints(mine), prints(rest))
    found.add(TABLES, "fingerprints of texts", len(former) - len(state.train_prints))
    theirs = {text for column in rest.texts for text in column}
    texts = {text for column in mine.texts for text in column} - theirs
    num_examples = keep_examples(state.metadata, lambda shown: not texts.intersection(shown))
    found.add("settings.json", "examples for the page", num_examples)
    my_sides = state.encode(mine)
    if state.remembered is not None:
        sides, targets = state.remembered
        my_rows = {*_rows(my_sides)}
        stays = np.array([row not in my_rows for row in _rows(sides)], np.bool_)
        kept = Remembered(tuple(side.select(np.flatnonzero(stays)) for side in sides), targets[stays])
        state.remembered = kept if stays.any() else None
        found.add(TABLES, "remembered texts", int((~stays).sum()))
    if complete:
        others_ids = np.concatenate([side.ids for side in state.encode(rest)])
        _forget_words(state, np.setdiff1d(np.concatenate([side.ids for side in my_sides]), others_ids), found)
    else:
        found.remains.append(
            f"words that perhaps nobody else used ({TABLES}), for the records lack texts that were learned: give "
            "all of them, the person's among them"
        )
    found.remains.append("weights of words and of the network, which all texts made: fit again without the person's")
    return found


def _rows(sides: Sides) -> list[tuple[bytes, ...]]:
    """Return the ids of each text, or pair of texts."""
    return list(zip(*(rows_of_tokens(tokens) for tokens in sides), strict=True))


def _forget_words(state: ClassifyState, ids: np.ndarray[tuple[int], np.dtype[np.int32]], found: Forgotten) -> None:
    """Take words out of the vocabulary; their ids stay without a word."""
    ids = ids[ids >= FIRST]
    num_words = len(state.tokenizer.vocabulary)
    found.add(TABLES, "words that nobody else used", len(ids))
    state.tokenizer.vocabulary = state.tokenizer.vocabulary.without(ids.tolist())
    if state.schedule is not None:
        cleared = clear_rows(module_of(state.network), state.optimizer, ids, num_words)
        found.add("model.safetensors", "rows of words that nobody else used", cleared)
