"""Tokens: words, sentences and ids by hand; nothing is lost, and no text depends on the texts beside it."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensue import SettingError
from ensue.store.pack import pack, unpack
from ensue.text import terms, tokens
from ensue.text.tokens import Tokenizer, Tokens, split_words

PIECES = [
    "It",
    "it's",
    "n't",
    "don't",
    ".",
    ",",
    " ",
    "  ",
    "!",
    "?",
    "...",
    '"',
    "<sssss>",
    "Mr.",
    "U.S.",
    "3.5",
    "-lrb-",
    "é",
    "\n",
    "x.y",
]
PLAIN = st.characters(max_codepoint=130) | st.sampled_from("‘’ʼ“”…–—•")
MESSY = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def words(text: str, *, lower: bool = True) -> list[str]:
    (sentence,) = split_words(pl.Series([text]), lower=lower).text(0)
    return sentence


def sentences(text: str) -> list[str]:
    return [" ".join(sentence) for sentence in split_words(pl.Series([text]), sentences=True).text(0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't like it.", "i do n't like it ."),
        ("Can't, won't; it's HIS fault!", "ca n't , wo n't ; it 's his fault !"),
        ("They’re ‘here’, we'd said", "they 're ‘ here ' , we 'd said"),
        ('"Gold" (1996) is re-imagined...', '" gold " ( 1996 ) is re-imagined ...'),
        ("It cost $10,000.50 -- at 9:30, 1/2 off", "it cost $ 10,000.50 -- at 9:30 , 1/2 off"),
        ("Mr. Smith of the U.S. met Dr. Who, e.g. here.", "mr. smith of the u.s. met dr. who , e.g. here ."),
        ("good.I loved it,really!!", "good . i loved it , really ! !"),
        ("o'clock rock 'n' roll, 'em", "o'clock rock 'n ' roll , 'em"),
        ("'sorry' is a word, here", "' sorry ' is a word , here"),
        ("see https://a.org/x?y=1 now, please", "see https://a.org/x?y=1 now , please"),
        ("crème brûlée, naïve", "crème brûlée , naïve"),
        ("one <sssss> two, three", "one two , three"),
        ("", ""),
        (" \t ", ""),
        ("Hooray", "hooray"),
    ],
)
def test_running_text(text: str, expected: str) -> None:
    assert words(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("今天天气很好!", "今 天 天 气 很 好 !"),
        ("我 喜欢 电影 , 很 好 !", "我 喜 欢 电 影 , 很 好 !"),  # no tokenised text: its words are those of task link
        ("東京タワーはiPhone15で撮った", "東 京 タ ワ ー は iphone15 で 撮 っ た"),
        ("COVID-19疫情 https://t.co/aB看", "covid-19 疫 情 https://t.co/ab 看"),
        ("ประเทศดี", "ป ร ะ เ ท ศ ดี"),
        ("ខ្ញុំ ស្រ", "ខ្ ញុំ ស្ រ"),
        ("ດີຫຼາຍ", "ດີ ຫຼ າ ຍ"),
        ("ကျွန်တော်", "ကျွ န် တော်"),
        ("한국어 문장 입니다", "한국어 문장 입니다"),
        ("Привет, мир", "привет , мир"),
    ],
)
def test_scripts_without_spaces_are_split_by_character(text: str, expected: str) -> None:
    assert words(text) == expected.split()


def test_chinese_sentences_end_without_a_space() -> None:
    assert sentences("今天很好。我们去吧！“好？”") == ["今 天 很 好 。", "我 们 去 吧 ！", "“ 好 ？ ”"]


LATIN = st.text(st.characters(codec="latin-1")) | st.text(
    st.characters(categories=["L", "N", "M", "P"], max_codepoint=0x58F)
)


@given(st.lists(LATIN, max_size=4))
def test_texts_of_other_scripts_are_split_as_by_the_plain_pattern(texts: list[str]) -> None:
    column = pl.Series("text", texts, dtype=pl.String)
    found = column.str.extract_all(tokens._WORDS_OF_ANY_SCRIPT)
    assert found.to_list() == column.str.extract_all(tokens._WORDS).to_list()


@pytest.mark.parametrize(
    "text",
    [
        "no movement , no yuks , not much of anything .",
        "a gob of drivel so sickly sweet , even mr. smith 's u.s. fans will n't ca n't -lrb- or wo n't -rrb- .",
        "`` the lord of the rings '' trilogy is so huge that it 's and\\/or",
        "what is e-coli ?",
        "it 's o'clock and the 1930s re-imagining costs 10,000 dollars",
        "effective but too-tepid biopic",
        "they do n't do !? things ... -- :-) ;",
        "it is and/or he/she , x.y , a.b 'em",
    ],
)
def test_tokenised_text_comes_through_unchanged(text: str) -> None:
    assert words(text) == text.split()
    assert words(text.title(), lower=False) == text.title().split()


def test_a_mark_that_stands_alone_does_not_make_a_text_tokenised() -> None:
    # Two marks hang on words (one of them the stop at the end) and one stands alone.
    expected = "i like it , honestly , do n't you ."
    assert words("I like it , honestly, don't you.") == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He left. She stayed! Why? Nobody knows", ["he left .", "she stayed !", "why ?", "nobody knows"]),
        ('"Stop." (He did.) Then', ['" stop . "', "( he did . )", "then"]),
        (
            "Mr. J. Smith of the U.S. army met Dr. Who. It's 3.5 miles",
            ["mr. j . smith of the u.s. army met dr. who .", "it 's 3.5 miles"],
        ),
        ("Wait... what?! No", ["wait ...", "what ? !", "no"]),
        ("So do I. Then", ["so do i .", "then"]),
        # The marks of the file are followed, and nothing else.
        ("One. Two <sssss> three.", ["one . two", "three ."]),
        (" <sssss> a <sssss> <sssss>b<sssss>", ["a", "b"]),
        ("it 's good . he said ... no .", ["it 's good .", "he said ...", "no ."]),
        ("", [""]),
        (" <sssss> ", [""]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(MESSY)
def test_no_character_is_lost(text: str) -> None:
    plain = re.sub(r"\s", "", text.lower().replace("<sssss>", ""))
    assert "".join(words(text)) == plain
    assert "".join(sentences(text)).replace(" ", "") == plain


@given(st.lists(MESSY, max_size=8), st.booleans())
def test_a_text_does_not_depend_on_the_others(many: list[str], wanted: bool) -> None:
    split = split_words(pl.Series(many, dtype=pl.String), sentences=wanted)
    alone = [split_words(pl.Series([text]), sentences=wanted).text(0) for text in many]
    assert [split.text(index) for index in range(len(many))] == alone
    assert all(len(found) == 1 or (all(found) and wanted) for found in alone)
    assert split.texts[-1] == len(split.sentences) - 1 and split.sentences[-1] == len(split.words)


def test_ids_by_hand() -> None:
    column = pl.Series(["b a . <sssss> a b !", "a c"])
    tokenizer = Tokenizer.fit([column, pl.Series(["C d ."])])
    # a 3; b, c and . twice each, in order of the words; ! and d once.
    assert list(tokenizer.vocabulary.values) == ["a", ".", "b", "c", "!", "d"]
    tokens = tokenizer.encode(pl.Series(["b a . <sssss> a zzz !", "", "d"]), sentences=True)
    assert tokens.ids.tolist() == [4, 2, 3, 2, 1, 6, 7]
    assert tokens.ids.dtype == np.int32
    assert tokens.sentences.tolist() == [0, 3, 6, 6, 7]
    assert tokens.texts.tolist() == [0, 2, 3, 4]
    assert (len(tokens), tokens.lengths.tolist(), tokens.known) == (3, [6, 0, 1], 1 - 1 / 7)
    flat = tokenizer.encode(pl.Series(["b a . <sssss> a zzz !", "", "d"]))
    assert flat.ids.tolist() == tokens.ids.tolist()
    assert (flat.sentences.tolist(), flat.texts.tolist()) == ([0, 6, 6, 7], [0, 1, 2, 3])


def test_a_floor_for_counts_and_words_that_come_later() -> None:
    tokenizer = Tokenizer.fit([pl.Series(["a b a c", "b"])], min_count=2)
    assert list(tokenizer.vocabulary.values) == ["a", "b"]
    assert tokenizer.add([pl.Series(["c c d a"])], min_count=2) == 1
    assert list(tokenizer.vocabulary.values) == ["a", "b", "c"]
    assert Tokenizer.fit([]).encode(pl.Series(["a b"])).ids.tolist() == [1, 1]
    with pytest.raises(SettingError, match="min_count: 0 is below 1; use 1 to keep every word"):
        Tokenizer.fit([pl.Series(["a"])], min_count=0)


def test_case_can_be_kept() -> None:
    column = pl.Series(["It is It's, iT"])
    assert list(Tokenizer.fit([column], lower=False).vocabulary.values) == ["It", "'s", ",", "iT", "is"]
    assert list(Tokenizer.fit([column]).vocabulary.values) == ["it", "'s", ",", "is"]


@pytest.mark.parametrize("column", [pl.Series([], dtype=pl.String), pl.Series([None, ""], dtype=pl.String)])
@pytest.mark.parametrize("wanted", [False, True])
def test_no_words_at_all(column: pl.Series, wanted: bool) -> None:
    tokens = Tokenizer.fit([column]).encode(column, sentences=wanted)
    assert (len(tokens), len(tokens.ids), tokens.known) == (len(column), 0, 1.0)
    assert tokens.texts.tolist() == list(range(len(column) + 1))


def test_caps_are_counted() -> None:
    column = pl.Series(["a b c <sssss> d e <sssss> f g h i", "a <sssss> b", "a b"])
    tokenizer = Tokenizer.fit([column])
    free = tokenizer.encode(column, sentences=True)
    assert (free.cut_words, free.cut_texts) == (0, 0)
    tokens = tokenizer.encode(column, sentences=True, max_words=2, max_sentences=2)
    # Of the first text "c" and the whole third sentence go: 1 + 4 words. The others fit.
    assert (tokens.cut_words, tokens.cut_texts) == (5, 1)
    expected = [["a", "b"], ["d", "e"], ["a"], ["b"], ["a", "b"]]
    assert tokens.ids.tolist() == [tokenizer.vocabulary.id(word) for sentence in expected for word in sentence]
    assert tokens.sentences.tolist() == [0, 2, 4, 5, 6, 8]
    assert tokens.texts.tolist() == [0, 2, 4, 5]
    flat = tokenizer.encode(column, max_words=4)
    assert (flat.lengths.tolist(), flat.cut_words, flat.cut_texts) == ([4, 2, 2], 5, 1)
    with pytest.raises(SettingError, match="max_words: 0 is below 1; remove it to read everything"):
        tokenizer.encode(column, max_words=0)
    with pytest.raises(SettingError, match="max_sentences: -1 is below 1; remove it to read everything"):
        tokenizer.encode(column, max_sentences=-1)


@given(st.lists(MESSY, min_size=1, max_size=6), st.integers(1, 4), st.integers(1, 3))
def test_caps_against_a_plain_loop(many: list[str], max_words: int, max_sentences: int) -> None:
    column = pl.Series(many)
    tokenizer = Tokenizer.fit([column])
    whole = nested(tokenizer.encode(column, sentences=True))
    tokens = tokenizer.encode(column, sentences=True, max_words=max_words, max_sentences=max_sentences)
    expected = [[sentence[:max_words] for sentence in text[:max_sentences]] for text in whole]
    assert nested(tokens) == expected
    sizes = [(sum(map(len, a)), sum(map(len, b))) for a, b in zip(whole, expected, strict=True)]
    assert tokens.cut_words == sum(a - b for a, b in sizes)
    assert tokens.cut_texts == sum(a > b for a, b in sizes)


@given(st.lists(MESSY, min_size=1, max_size=6), st.data())
def test_select_against_a_plain_loop(many: list[str], data: st.DataObject) -> None:
    column = pl.Series(many)
    tokens = Tokenizer.fit([column]).encode(column, sentences=True)
    chosen = data.draw(st.lists(st.integers(0, len(many) - 1), max_size=8))
    whole = nested(tokens)
    assert nested(tokens.select(np.array(chosen, np.int64))) == [whole[index] for index in chosen]
    assert nested(tokens.select(slice(1, None))) == whole[1:]


def nested(tokens: Tokens) -> list[list[list[int]]]:
    ends = tokens.sentences.tolist()
    return [
        [tokens.ids[ends[s] : ends[s + 1]].tolist() for s in range(tokens.texts[t], tokens.texts[t + 1])]
        for t in range(len(tokens))
    ]


@given(st.lists(MESSY, max_size=6), st.booleans())
def test_packed_and_back(many: list[str], lower: bool) -> None:
    column = pl.Series(many, dtype=pl.String)
    tokenizer = Tokenizer.fit([column], lower=lower)
    again = unpack(Tokenizer, *pack(tokenizer))
    assert (again.vocabulary, again.lower) == (tokenizer.vocabulary, lower)
    assert again.encode(column).ids.tolist() == tokenizer.encode(column).ids.tolist()


@given(st.lists(MESSY | st.text(PLAIN, max_size=12), max_size=6), st.booleans())
def test_a_few_texts_are_split_as_many_are(texts: list[str], lower: bool) -> None:
    """A few are split by patterns of Python's, and counted one by one; many by those of the columns."""
    column = pl.Series("text", texts, dtype=pl.String)
    with pytest.MonkeyPatch.context() as patch:
        few, counted = split_words(column, lower=lower), terms.word_terms(column)
        patch.setattr(tokens, "_SMALL_BYTES", -1)
        patch.setattr(terms, "_SMALL_BYTES", -1)
        many, table = split_words(column, lower=lower), terms.word_terms(column)
    assert few.words.to_list() == many.words.to_list()
    assert (few.sentences.tolist(), few.texts.tolist()) == (many.sentences.tolist(), many.texts.tolist())
    for one, other in zip(counted, table, strict=True):
        assert one.tolist() == other.tolist() and one.dtype == other.dtype


@pytest.mark.parametrize("odd", ["", " late ", "two  spaces .", "a\tb .", "full\u3000width .", "\n"])
@pytest.mark.parametrize("running", ['He said: "don\'t"!', "Über den Wolken, gleich dahinter!"])
def test_tokenised_and_running_texts_side_by_side(odd: str, running: str) -> None:
    """Whatever stands between the words, and however many of each there are."""
    texts = ["a film , it 's .", running, odd, "Not a mark ,", running, running]
    for column in (pl.Series(texts), pl.Series(texts * 40), pl.Series([texts[0], odd] * 40)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens, "_SMALL_BYTES", 1000)  # the running ones alone are few
            found = split_words(column)
        each = [split_words(pl.Series([text])).text(0)[0] for text in column]
        assert [found.text(place)[0] for place in range(len(column))] == each
