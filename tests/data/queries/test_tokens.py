"""Tokens of queries: by hand, there and back over every script, the same for the same data, and read from a file."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensue import SettingError
from ensue.data.queries.rules import normalise
from ensue.data.queries.tokens import SMALLEST, SPECIAL, QueryTokenizer
from ensue.store.pack import pack, unpack
from ensue.vocabulary import UNKNOWN

TEXTS = pl.Series(["red shoes", "red hats", "hats", "the red hats of rome"])
SCRIPTS = pl.Series(
    [
        "привет мир",
        "مرحبا بالعالم",
        "שלום",
        "東京 天気",
        "नमस्ते",
        "می\u200cخواهم",
        "👨\u200d👩\u200d👧 🏳️\u200d🌈",
        "naïve c++ & c#",
        "",
    ]
)


def lists(tokenizer: QueryTokenizer, *texts: str) -> list[list[int]]:
    ids, offsets = tokenizer.encode(pl.Series(texts, dtype=pl.String))
    return [ids[low:high].tolist() for low, high in pairwise(offsets)]


def test_words_by_hand() -> None:
    # With counts 1, 1, 3, 1: hats 1 + 3 + 1, red 3, then of, rome, shoes, the once each, in order of the alphabet.
    tokenizer = QueryTokenizer.fit(TEXTS, np.array([1, 1, 3, 1]))
    assert list(tokenizer.tokens) == [*SPECIAL, "hats", "red", "of", "rome", "shoes", "the"]
    assert lists(tokenizer, "red hats", "", "blue hats", "RED") == [[5, 4], [], [1, 4], [1]]
    assert (tokenizer.decode([2, 5, 4, 3, 0, 0]), tokenizer.decode([1, 4])) == ("red hats", "⁇ hats")
    assert (len(tokenizer), tokenizer.kind) == (10, "words")
    often = QueryTokenizer.fit(TEXTS, np.array([1, 1, 3, 1]), min_count=3)
    assert list(often.tokens[4:]) == ["hats", "red"]


def test_pairs_by_hand() -> None:
    # "ab" four times over: a and b come together as often as the space before them and a, and the first pair wins;
    # then the whole of " ab" is one token. Bytes stand first, in order of their letters: ! is the first.
    tokenizer = QueryTokenizer.fit(pl.Series(["ab ab", "ab ab"]), kind="bpe", size=SMALLEST + 2)
    assert tokenizer.tokens[4] == "!" and len(tokenizer) == SMALLEST + 2
    assert set(tokenizer.tokens[-2:]) == {"ab", "Ġab"}
    whole = tokenizer.tokens.index("Ġab")
    assert lists(tokenizer, "ab", "ab ab") == [[whole], [whole, whole]]
    assert tokenizer.decode([2, whole, whole, 3]) == "ab ab"


def test_no_text_is_taken_for_a_special_token() -> None:
    texts = pl.Series([*SPECIAL, "< end", "end >", "[PAD] </s>"])
    words = QueryTokenizer.fit(texts)
    pairs = QueryTokenizer.fit(texts, kind="bpe", size=SMALLEST)
    for tokenizer in (words, pairs):
        ids, _ = tokenizer.encode(texts)
        assert ids.min() >= len(SPECIAL)
        assert [tokenizer.decode(own) for own in lists(tokenizer, *texts)] == texts.to_list()


@pytest.mark.parametrize("size", [SMALLEST, SMALLEST + 40])
@settings(max_examples=60)
@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_pairs_there_and_back(size: int, texts: list[str]) -> None:
    tokenizer = QueryTokenizer.fit(SCRIPTS, kind="bpe", size=size)
    assert [tokenizer.decode(own) for own in lists(tokenizer, *SCRIPTS)] == SCRIPTS.to_list()
    spaced = ["  two  spaces ", " ", *texts]
    for asked in (spaced, normalise(pl.Series(spaced, dtype=pl.String)).to_list()):
        found = lists(tokenizer, *asked)
        assert [tokenizer.decode(own) for own in found] == asked
        assert all(id >= len(SPECIAL) for own in found for id in own)


def test_words_there_and_back() -> None:
    tokenizer = QueryTokenizer.fit(SCRIPTS)
    assert [tokenizer.decode(own) for own in lists(tokenizer, *SCRIPTS)] == SCRIPTS.to_list()


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_many_at_once_equal_one_by_one(kind: str) -> None:
    random.seed(1)
    texts = [" ".join(random.choices(["red", "re", "hats", "rome", "zz"], k=random.randint(0, 5))) for _ in range(50)]
    tokenizer = QueryTokenizer.fit(pl.Series(texts), kind=kind, size=300)  # type: ignore[arg-type]
    # The library, asked for a whole query at a time, without our look-up of words.
    ids = {token: id for id, token in enumerate(tokenizer.tokens)}
    expected = [
        [ids.get(word, UNKNOWN) for word in text.split()] if kind == "words" else tokenizer.backend.encode(text).ids
        for text in texts
    ]
    assert lists(tokenizer, *texts) == expected
    assert lists(tokenizer, *texts) == [lists(tokenizer, text)[0] for text in texts]


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_the_same_queries_give_the_same_tokens(kind: str) -> None:
    random.seed(2)
    texts = [" ".join("".join(random.choices("abcdefgh", k=4)) for _ in range(4)) for _ in range(400)]
    counts = [random.randint(1, 5) for _ in texts]
    code = (
        "import json, sys, numpy as np, polars as pl\n"
        "from ensue.data.queries.tokens import QueryTokenizer\n"
        "texts, counts = json.load(sys.stdin)\n"
        f"print(QueryTokenizer.fit(pl.Series(texts), np.array(counts), kind={kind!r}, size=600).tokens)"
    )
    order = random.sample(range(len(texts)), len(texts))
    shuffled = json.dumps([[texts[i] for i in order], [counts[i] for i in order]])
    other = subprocess.run([sys.executable, "-c", code], input=shuffled, capture_output=True, text=True, check=True)
    own = QueryTokenizer.fit(pl.Series(texts), np.array(counts), kind=kind, size=600)  # type: ignore[arg-type]
    assert str(own.tokens) == other.stdout.strip()
    repeated = pl.Series([text for text, count in zip(texts, counts, strict=True) for _ in range(count)])
    again = QueryTokenizer.fit(repeated, kind=kind, size=600)  # type: ignore[arg-type]
    assert (again.tokens, again.merges) == (own.tokens, own.merges)


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_packed_and_back(kind: str) -> None:
    tokenizer = QueryTokenizer.fit(pl.concat([TEXTS, SCRIPTS]), kind=kind, size=300)  # type: ignore[arg-type]
    again = unpack(QueryTokenizer, *pack(tokenizer))
    assert lists(again, *TEXTS, *SCRIPTS) == lists(tokenizer, *TEXTS, *SCRIPTS)


def test_tokens_that_do_not_belong_together() -> None:
    words, pairs = QueryTokenizer.fit(TEXTS), QueryTokenizer.fit(pl.Series(["aa"]), kind="bpe", size=SMALLEST + 1)
    no_byte = tuple(token for token in pairs.tokens if token != "~")
    for kind, tokens, merges, message in [
        ("words", (*words.tokens, "hats"), (), "a token is missing or occurs twice"),
        ("words", words.tokens[1:], (), "a token is missing or occurs twice"),
        ("bpe", pairs.tokens, (("a", "x"),), "a merge makes a token that has no id"),
        ("bpe", no_byte, (), "a byte has no token"),
    ]:
        with pytest.raises(ValueError, match=message):
            QueryTokenizer(kind, tokens, merges)  # type: ignore[arg-type]


def test_bad_settings() -> None:
    for named, message in [
        ({"kind": "letters"}, "kind: 'letters' is not known; choose words or bpe"),
        ({"min_count": 0}, "min_count: 0 is below 1; use 1 to keep every word"),
        ({"kind": "bpe", "size": 259}, "size: 259 is too small; every byte needs a token, so give at least 260"),
    ]:
        with pytest.raises(SettingError, match=re.escape(message)):
            QueryTokenizer.fit(TEXTS, **named)  # type: ignore[arg-type]


def test_twenty_thousand_queries() -> None:
    random.seed(3)
    texts = pl.Series([" ".join(random.choices(["red", "hats", "rome", "zz"], k=5)) for _ in range(200)] * 100)
    tokenizer = QueryTokenizer.fit(texts, kind="bpe", size=280)
    ids, offsets = tokenizer.encode(texts)
    assert len(offsets) == 20_001 and ids.dtype == np.int32 and offsets.dtype == np.int64
    alone, _ = tokenizer.encode(texts[:200])
    np.testing.assert_array_equal(ids, np.tile(alone, 100))
