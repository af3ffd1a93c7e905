"""Words without a row as runs of their characters."""

from __future__ import annotations

import numpy as np
import polars as pl

from ensue.tasks.link.pieces import PIECES, with_pieces
from ensue.text.tokens import Tokenizer
from ensue.vocabulary import Vocabulary


def test_only_unknown_words_become_pieces_and_texts_keep_theirs() -> None:
    tokenizer = Tokenizer(Vocabulary(["the", "city"]))
    tokens = tokenizer.encode(pl.Series(["the kyiv city", "", "Kyivs", "the"]), keep_words=True)
    found = with_pieces(tokens)
    # <kyiv> has the runs <kyi kyiv yiv>, <kyivs> has <kyi kyiv yivs ivs>: of the texts 1 + 3 + 1, 0, 4 and 1 ids.
    assert found.lengths.tolist() == [5, 0, 4, 1]
    first, last = found.ids[:5], found.ids[5:9]
    assert (first[[0, 4]] == [2, 3]).all() and found.ids[9] == 2
    assert (first[1:3] == last[:2]).all() and not np.isin(last[2:], first).any()
    assert (first[1:4] < 0).all() and (last >= -PIECES).all()


def test_short_words_are_whole_and_scripts_without_spaces_share_runs() -> None:
    tokens = Tokenizer().encode(pl.Series(["q", "東京都知事選挙", "東京都の知事選挙"]), keep_words=True)
    found = with_pieces(tokens)
    assert found.lengths[0] == 1  # <q>
    one, other = found.ids[1 : 1 + found.lengths[1]], found.ids[1 + found.lengths[1] :]
    assert np.isin(one, other).sum() >= 3  # <東京都, 知事選挙, 事選挙>


def test_texts_of_known_words_stay_as_they_are() -> None:
    tokens = Tokenizer(Vocabulary(["the"])).encode(pl.Series(["the the"]), keep_words=True)
    assert with_pieces(tokens).ids.tolist() == [2, 2]
