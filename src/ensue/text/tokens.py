"""Texts into ids: flat words, with the offsets of sentences and of texts. No Python object per word.

How a text is split into words is decided text by text, so that an answer never depends on the texts beside it. In Han,
kana, Thai, Lao, Khmer and Burmese, which put no space between words, every character is a word, as in task ``link``. Of
other scripts:

1. **Already tokenised**: more of its marks ``. , ! ? ; :`` and of ``n't``, ``'s``, ``-lrb-`` and their like stand alone
   than hang on a word (full stops inside a sentence are not counted: abbreviations have them). Words are what stands
   between spaces, unchanged. Most texts of SST, TREC and SNLI are of this kind.
2. **Running text**: ``don't`` becomes ``do n't`` and ``it's`` becomes ``it 's``, as in the Penn Treebank. A word keeps
   its inner hyphens and apostrophes, a number its inner ``. , : /``; abbreviations keep their stops; brackets written
   ``-lrb-``, dots, dashes and doubled quotes stay whole; every other mark is a word of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from ensue.data.histories import Ids, Index, Mask, offsets_of, ranges
from ensue.data.scripts import CHARACTER, COMMON, UNSPACED
from ensue.errors import SettingError
from ensue.forks import require_polars
from ensue.vocabulary import UNKNOWN, Vocabulary

BREAK = "<sssss>"
"""Ends a sentence wherever it stands, as in the files of Tang et al."""
_ABBREVIATIONS = "mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\\.g|i\\.e|cf|vol|fig|inc|ltd|co|corp|gen|col|capt|lt|sgt|rev"
_CLITIC = r"(?:[nN]'[tT]|'(?:[sSmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
_ALONE = rf"(?:^|\s)(?:[.,!?;:`]|``|''|-[lr]rb-|-[LR]RB-|{_CLITIC})(?:\s|$)|\\/"
_HANGING = rf"\w(?:[,!?;:]|{_CLITIC})(?:\s|$)|\w\.\s*(?:{BREAK}|$)"
_SPLITS = ((r"[’ʼ]", "'"), (rf"(\w)({_CLITIC})\b", "$1 $2"))
_BEFORE_WORDS = (
    r"(?i:-[lr][rsc]b-)",
    r"https?://\S+",
    rf"(?i:\b(?:{_ABBREVIATIONS})\.\B)",
    r"(?:\b\p{L}\.){2,}",
    rf"{_CLITIC}\b|'(?:em|n)\b",
    r"\d+(?:[.,:/]\d+)+",
)
_MARKS = (r"\.{2,}|-{2,}|``|''", r"[^\w\s]")
_WORDS = "|".join((*_BEFORE_WORDS, r"\w+(?:['-]\w+)*", *_MARKS))
_LETTER = rf"[\w--{UNSPACED}]"
_ANY_SCRIPT = (rf"https?://[\S--{UNSPACED}]+", *_BEFORE_WORDS, CHARACTER, rf"{_LETTER}+(?:['-]{_LETTER}+)*", *_MARKS)
_WORDS_OF_ANY_SCRIPT = "|".join(_ANY_SCRIPT)
_SMALL_BYTES = 1 << 16
"""Bytes of texts that are split one by one."""
_LOOKED_UP = 1 << 10
"""Words that are looked up one by one: to hash them takes longer."""
_PLAIN = re.compile(rf"[{COMMON}ʼ]*")
_RUN, _JOINED, _WORD = (
    re.compile(pattern) for pattern in (r"\S+", _SPLITS[1][0], _WORDS.replace(r"\p{L}", r"[^\W\d_]"))
)
_PAIRED = tuple(re.compile(pattern.replace("$)", r"\Z)")) for pattern in (_ALONE, _HANGING))
# A stop after one of these, or after a capital that is no "I", ends no sentence.
_DOTTED_ABBREVIATION = rf"\b((?i:{_ABBREVIATIONS})|[A-HJ-Z])\.\s"
_PLACEHOLDER = "\ue000"
_ODD_SPACES = r"^$|^ | $|  |[^\S ]"
"""Pattern of texts that cannot be split at single spaces."""
_END = r"([.!?…]['\"”’)\]]*)\s|([。！？｡][”’」』）]*)"


@dataclass(frozen=True, eq=False)
class Words:
    """The words of many texts, before they have ids.

    Attributes:
        words: (words,) text after text.
        sentences: (sentences + 1,) sentence ``s`` is ``words[sentences[s]:sentences[s + 1]]``.
        texts: (texts + 1,) text ``t`` has the sentences ``texts[t]`` to ``texts[t + 1]``, at least one; only a text
            without words has an empty one.
    """

    words: pl.Series
    sentences: Index
    texts: Index

    def text(self, index: int) -> list[list[str]]:
        """The words of one text, sentence by sentence."""
        bounds = self.sentences[self.texts[index] : self.texts[index + 1] + 1].tolist()
        return [self.words[low:high].to_list() for low, high in pairwise(bounds)]


@dataclass(frozen=True, eq=False)
class Tokens:
    """Texts as ids.

    Attributes:
        ids: (words,) ids in the tokenizer's vocabulary, text after text.
        sentences: (sentences + 1,) sentence ``s`` is ``ids[sentences[s]:sentences[s + 1]]``.
        texts: (texts + 1,) text ``t`` has the sentences ``texts[t]`` to ``texts[t + 1]``, at least one; only a text
            without words has an empty one.
        cut_words: words left out by a cap, those of left out sentences included.
        cut_texts: texts that lost any word.
        words: (words,) the words themselves, where they were asked for.
    """

    ids: Ids
    sentences: Index
    texts: Index
    cut_words: int = 0
    cut_texts: int = 0
    words: pl.Series | None = None

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.texts) - 1

    @property
    def lengths(self) -> Index:
        """(texts,) number of words of each."""
        return np.diff(self.sentences[self.texts])

    @property
    def num_known(self) -> Index:
        """(texts,) number of words of each that are in the vocabulary."""
        # Sums over texts are differences of running sums at their ends.
        return np.diff(offsets_of(self.ids != UNKNOWN)[self.sentences[self.texts]])

    @property
    def known(self) -> float:
        """Share of the words that the vocabulary knows; 1 where there are no words."""
        return 1.0 - float((self.ids == UNKNOWN).mean()) if len(self.ids) else 1.0

    def select(self, rows: npt.NDArray[np.integer] | Mask | slice) -> Tokens:
        """The chosen texts, in the order chosen; what was cut is not counted again."""
        index = np.arange(len(self))[rows]
        num_sentences = np.diff(self.texts)[index]
        sentence_ids = ranges(self.texts[index], num_sentences)
        num_words = np.diff(self.sentences)[sentence_ids]
        # Gather the sentences of the texts, then the words of the sentences.
        positions = ranges(self.sentences[sentence_ids], num_words)
        words = None if self.words is None else self.words.gather(positions)
        return Tokens(self.ids[positions], offsets_of(num_words), offsets_of(num_sentences), words=words)


def rows_of_tokens(tokens: Tokens) -> list[bytes]:
    """Return the ids of each text as bytes, to be compared."""
    ends = tokens.sentences[tokens.texts].tolist()
    return [tokens.ids[start:end].tobytes() for start, end in pairwise(ends)]


@dataclass(eq=False)
class Tokenizer:
    """Words and their ids: padding 0, unknown 1, then the words by how often they occur.

    Attributes:
        vocabulary: the words.
        lower: whether case is dropped.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    lower: bool = True

    @classmethod
    def fit(cls, columns: Iterable[pl.Series], *, lower: bool = True, min_count: int = 1) -> Tokenizer:
        """A tokenizer that knows the words of some columns of texts.

        Args:
            columns: columns of texts, such as both of a pair.
            lower: whether case is dropped.
            min_count: how often a word must occur, in all columns together, to get an id.

        Raises:
            SettingError: a count below 1.
        """
        tokenizer = cls(lower=lower)
        tokenizer.add(columns, min_count=min_count)
        return tokenizer

    def add(self, columns: Iterable[pl.Series], *, min_count: int = 1) -> int:
        """Give ids to the new words of some columns, the most frequent first, and return how many there were.

        Raises:
            SettingError: a count below 1.
        """
        if min_count < 1:
            raise SettingError(f"min_count: {min_count} is below 1; use 1 to keep every word")
        words = [split_words(column, lower=self.lower).words.rename("word") for column in columns]
        if not words:
            return 0
        counts = pl.concat(words).to_frame().group_by("word").len()
        # Ties are broken by the alphabet, so that ids do not depend on the order of the texts.
        often = counts.filter(pl.col("len") >= min_count).sort(["len", "word"], descending=[True, False])
        return self.vocabulary.add(often["word"])

    def encode(
        self,
        column: pl.Series,
        *,
        sentences: bool = False,
        max_words: int | None = None,
        max_sentences: int | None = None,
        keep_words: bool = False,
    ) -> Tokens:
        """Ids of a column of texts.

        Args:
            column: (texts,) texts.
            sentences: whether to find the sentences of each text; otherwise each text is one.
            max_words: a cap on the words of a sentence (of a text, where sentences are not asked for); what comes
                later is cut and counted. Everything is read unless a cap is given.
            max_sentences: a cap on the sentences of a text.
            keep_words: whether to keep the words beside their ids.

        Raises:
            SettingError: a cap below 1.
        """
        for name, cap in (("max_words", max_words), ("max_sentences", max_sentences)):
            if cap is not None and cap < 1:
                raise SettingError(f"{name}: {cap} is below 1; remove it to read everything")
        split = split_words(column, lower=self.lower, sentences=sentences)
        words = split.words if keep_words else None
        tokens = Tokens(self._ids(split.words), split.sentences, split.texts, words=words)
        return tokens if max_words is None and max_sentences is None else _cut(tokens, max_words, max_sentences)

    def _ids(self, words: pl.Series) -> Ids:
        """(words,) ids."""
        return self.vocabulary.ids(words.to_list()) if len(words) <= _LOOKED_UP else self.vocabulary.ids_of(words)


def split_words(column: pl.Series, *, lower: bool = True, sentences: bool = False) -> Words:
    """The words of a column of texts, and its sentences where they are asked for.

    Sentences end at ``<sssss>`` in a text that has one. In other texts they end at ``. ! ?`` and what closes a quote
    or bracket after it, if a space follows and no abbreviation or initial stands before.
    """
    if not sentences and _is_few(column):
        lists = _few_words(*_few_by_rule(column, sentences=False), lower)
        flat = pl.Series("text", list(chain.from_iterable(lists)), dtype=pl.String)
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        return Words(flat, offsets_of(lengths), np.arange(len(lists) + 1))
    column, tokenised = _by_rule(column, sentences=sentences)
    owners = np.arange(len(column))
    if sentences:
        sentence_lists = _sentences(column)
        counts = sentence_lists.list.len().to_numpy()
        owners = np.repeat(owners, counts)
        column = sentence_lists.explode()
        tokenised = tokenised.gather(owners)
    words = _words(column, tokenised, lower)
    lengths = words.list.len().to_numpy().astype(np.int64)
    if sentences:
        # Empty sentences go, but for the first of a text that has no words at all.
        # Sentences of 2 0 words and of 0 0: owners 0 0 1 1 and lengths 2 0 0 0, of which the first and the third stay.
        is_first = np.concatenate([[True], owners[1:] != owners[:-1]])[: len(owners)]
        is_empty = np.bincount(owners, lengths, minlength=1)[owners] == 0 if len(owners) else np.zeros(0, bool)
        stays = (lengths > 0) | (is_first & is_empty)
        owners = owners[stays]
        lengths = lengths[stays]
    num_texts = int(owners[-1]) + 1 if len(owners) else 0
    flat = words.explode(empty_as_null=False)
    return Words(flat, offsets_of(lengths), offsets_of(np.bincount(owners, minlength=num_texts)))


def word_lists(column: pl.Series) -> list[list[str]]:
    """Return the words of each text in lower case; of a few texts, without a table of them."""
    if _is_few(column):
        return _few_words(*_few_by_rule(column, sentences=False), lower=True)
    split = split_words(column)
    words = split.words.to_list()
    return [words[low:high] for low, high in pairwise(split.sentences[split.texts].tolist())]


def _by_rule(column: pl.Series, *, sentences: bool) -> tuple[pl.Series, pl.Series]:
    """(texts,) the texts, and whether their words stand apart already."""
    if _is_few(column):
        shown_texts, is_tokenised = _few_by_rule(column, sentences=sentences)
        return pl.Series("text", shown_texts, dtype=pl.String), pl.Series("tokenised", is_tokenised, dtype=pl.Boolean)
    require_polars()
    text = pl.col("text").cast(pl.String).fill_null("")
    clean_text = text if sentences else text.str.replace_all(BREAK, " ", literal=True)
    # Marks are compared only where spaces separate words at all.
    unspaced = text.str.contains(f"[{UNSPACED}]")
    tokenised = (text.str.count_matches(_ALONE) > text.str.count_matches(_HANGING)) & ~unspaced
    clean_column, flags = column.rename("text").to_frame().select(clean_text, tokenised=tokenised).get_columns()
    return clean_column, flags


def _is_few(column: pl.Series) -> bool:
    """Return whether these are a few texts of characters on which Python's patterns and those of polars agree."""
    if column.dtype != pl.String or column.null_count() or column.estimated_size() > _SMALL_BYTES:
        return False
    return all(map(_PLAIN.fullmatch, column))


def _few_by_rule(column: pl.Series, *, sentences: bool) -> tuple[list[str], list[bool]]:
    """:func:`_by_rule` of a few such texts."""
    texts = column.to_list()
    is_tokenised = [len(_PAIRED[0].findall(text)) > len(_PAIRED[1].findall(text)) for text in texts]
    return texts if sentences else [text.replace(BREAK, " ") for text in texts], is_tokenised


def _sentences(column: pl.Series) -> pl.Series:
    """(texts,) lists of sentences."""
    # Stops that end no sentence are hidden while sentences are split, then put back.
    protected = column.str.replace_all(_DOTTED_ABBREVIATION, f"${{1}}.{_PLACEHOLDER}")
    ended = protected.str.replace_all(_END, f"${{1}}${{2}} {BREAK} ").str.replace_all(_PLACEHOLDER, " ", literal=True)
    marked = column.str.contains(BREAK, literal=True)
    return column.zip_with(marked, ended).str.split(BREAK)


def _words(column: pl.Series, tokenised: pl.Series, lower: bool) -> pl.Series:
    """(sentences,) lists of words, by the rule of each."""
    if _is_few(column):
        return pl.Series(_few_words(column.to_list(), tokenised.to_list(), lower), dtype=pl.List(pl.String))
    frame = column.rename("text").to_frame()
    rule = pl.col("text").str.to_lowercase() if lower else pl.col("text")
    if not tokenised.any():
        return _running(frame, rule)
    plain = frame.select(rule).to_series()
    positions = np.arange(len(column))
    unsplit = (~tokenised).arg_true()
    # Only texts whose words are not separated by spaces need patterns.
    running = column.gather(unsplit)
    if _is_few(running):  # and not by expressions, which take longer to make than to find words in so few
        lists = pl.Series(_few_words(running.to_list(), [False] * len(running), lower), dtype=pl.List(pl.String))
    else:
        lists = _running(frame[unsplit], rule)
    # Put the texts back in order: others come from behind the plain ones.
    positions[unsplit.to_numpy()] = len(column) + np.arange(len(unsplit))
    spaced = pl.concat([plain, lists.list.join(" ")]).gather(positions)  # no word holds a space
    return spaced.str.extract_all(r"\S+") if spaced.str.contains(_ODD_SPACES).any() else spaced.str.split(" ")


def _running(frame: pl.DataFrame, rule: pl.Expr) -> pl.Series:
    """(texts,) lists of the words of running texts."""
    for pattern, replacement in _SPLITS:
        rule = rule.str.replace_all(pattern, replacement)
    return frame.select(rule.str.extract_all(_WORDS_OF_ANY_SCRIPT)).to_series()


def _few_words(texts: list[str], tokenised: list[bool], lower: bool) -> list[list[str]]:
    """Return the words of a few texts of common characters, with patterns that are compiled once."""
    lists = []
    for text, plain in zip(texts, tokenised, strict=True):
        text = text.lower() if lower else text
        text = text if plain else text.replace("’", "'").replace("ʼ", "'")
        lists.append(_RUN.findall(text) if plain else _WORD.findall(_JOINED.sub(r"\1 \2", text)))
    return lists


def _cut(tokens: Tokens, max_words: int | None, max_sentences: int | None) -> Tokens:
    """The first words of the first sentences, and how much that leaves out."""
    num_sentences = np.diff(tokens.texts)
    num_words = np.diff(tokens.sentences)
    num_kept = num_sentences if max_sentences is None else np.minimum(num_sentences, max_sentences)
    # The first sentences of each text, then the first words of each sentence.
    sentence_ids = ranges(tokens.texts[:-1], num_kept)
    kept_words = num_words[sentence_ids] if max_words is None else np.minimum(num_words[sentence_ids], max_words)
    positions = ranges(tokens.sentences[sentence_ids], kept_words)
    ids = tokens.ids[positions]
    shorter = Tokens(ids, offsets_of(kept_words), offsets_of(num_kept))
    return Tokens(
        ids,
        shorter.sentences,
        shorter.texts,
        cut_words=len(tokens.ids) - len(ids),
        cut_texts=int((tokens.lengths > shorter.lengths).sum()),
        words=None if tokens.words is None else tokens.words.gather(positions),
    )
