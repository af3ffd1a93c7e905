"""Forget an author: remove what a model folder holds of single texts, and the words that nobody else used."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from ensue.data.texts import Texts
from ensue.learning.life import Forgotten, note_remaining_words, remove_examples, remove_hashes, remove_words
from ensue.store.pack import TABLES
from ensue.tasks.classify.dataset import RememberedTexts, Sides, text_hashes
from ensue.tasks.classify.state import ClassifyState
from ensue.text.tokens import rows_of_tokens


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
    forgotten = Forgotten()
    if records is None or not len(records[0]):
        return forgotten
    mine, other_texts = records
    complete = remove_hashes(state, forgotten, text_hashes(mine), text_hashes(other_texts), "texts")
    texts_of_others = {text for column in other_texts.texts for text in column}
    # A text that someone else wrote too is not the person's alone.
    texts = {text for column in mine.texts for text in column} - texts_of_others
    remove_examples(state, forgotten, lambda shown: not texts.intersection(shown))
    # Remembered texts are stored as ids, so ids are compared.
    my_sides = state.encode(mine)
    if state.remembered is not None:
        sides, targets = state.remembered
        my_rows = {*_rows(my_sides)}
        stays = np.array([row not in my_rows for row in _rows(sides)], np.bool_)
        remaining = RememberedTexts(tuple(side.select(np.flatnonzero(stays)) for side in sides), targets[stays])
        state.remembered = remaining if stays.any() else None
        forgotten.add(TABLES, "remembered texts", int((~stays).sum()))
    if complete:
        others_ids = np.concatenate([side.ids for side in state.encode(other_texts)])
        remove_words(state, forgotten, np.setdiff1d(np.concatenate([side.ids for side in my_sides]), others_ids))
    else:
        note_remaining_words(forgotten, "texts")
    forgotten.remains.append(
        "weights of words and of the network, which all texts made: fit again without the person's"
    )
    return forgotten


def _rows(sides: Sides) -> list[tuple[bytes, ...]]:
    """Return the ids of each text, or pair of texts."""
    return list(zip(*(rows_of_tokens(tokens) for tokens in sides), strict=True))
