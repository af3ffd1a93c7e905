"""Beam search: caches change nothing, a beam of 1 is greedy, a wide one is exhaustive; nothing forbidden comes out."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from ensue import SettingError
from ensue.nn.transformer import PackedRows
from ensue.tasks.suggest.batch import BEGIN, END, FIRST_TOKEN, PADDING, UNKNOWN, PaddedQueries, QueryBatch, pad
from ensue.tasks.suggest.models.mtn import MTN
from ensue.tasks.suggest.models.recurrent import HLSTM, Seq2Seq
from ensue.tasks.suggest.models.transformers import Transformer
from ensue.tasks.suggest.models.writer import QueryWriter
from ensue.tasks.suggest.prefix import PrefixRule
from ensue.tasks.suggest.settings import HLSTMSettings, MTNSettings, Search, Seq2SeqSettings, TransformerSettings
from ensue.tasks.suggest.torch_generator import TorchGenerator
from tests.tasks.suggest.checks import scored, shaken

NUM_IDS = 16
SIZES: dict[str, Any] = {"dim": 8, "embedding": 6, "wide": 10, "heads": 2, "dropout": 0.0}
LSTM: dict[str, Any] = {"dim": 8, "embedding": 6, "dropout": 0.0}


def build(name: str, num_ids: int = NUM_IDS) -> Any:
    made: dict[str, Callable[[], Any]] = {
        "mtn": lambda: MTN(MTNSettings(**SIZES, depth="1+1+2"), num_ids),
        "mtn-copy": lambda: MTN(MTNSettings(**SIZES, depth="1+1+1", reads="all", copy=True), num_ids),
        "flat": lambda: Transformer(TransformerSettings(**SIZES, depth="1+2", window=9), num_ids),
        "seq2seq": lambda: Seq2Seq(Seq2SeqSettings(**LSTM), num_ids),
        "h-lstm": lambda: HLSTM(HLSTMSettings(**LSTM), num_ids),
    }
    return shaken(made[name]())


NAMES = ["mtn", "mtn-copy", "flat", "seq2seq", "h-lstm"]


def sessions(count: int, seed: int = 0, num_ids: int = NUM_IDS) -> list[list[list[int]]]:
    draw = random.Random(seed)
    return [
        [[draw.randrange(FIRST_TOKEN, num_ids) for _ in range(draw.randint(1, 4))] for _ in range(draw.randint(1, 4))]
        for _ in range(count)
    ]


class Found(NamedTuple):
    """Suggestions as tensors."""

    tokens: Tensor
    scores: Tensor
    sums: Tensor


def search_from(network: Any, memory: object, batch: QueryBatch, search: Search, **rules: Any) -> Found:
    queries = PaddedQueries(batch.words.numpy(), batch.lengths.numpy())
    found = TorchGenerator(network, torch.device("cpu")).search(memory, queries, search, **rules)
    return Found(*map(torch.from_numpy, found))


def suggest(model: Any, batch: QueryBatch, search: Search, **rules: Any) -> Found:
    with torch.no_grad():
        return search_from(model, model.encode(batch), batch, search, **rules)


def spelled(found: Found, row: int) -> list[list[int]]:
    """The suggestions of a row without padding."""
    count = int((found.scores[row] > -math.inf).sum())
    return [[id for id in found.tokens[row, place].tolist() if id != PADDING] for place in range(count)]


# --- against the likelihood of whole queries, made in one pass without caches ----------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_with_caches_equals_without_token_for_token(name: str) -> None:
    """200 sessions: every suggestion's sum is its score made anew; and no cheaper end or word was at hand (greedy)."""
    model, batch = build(name), pad(sessions(200))
    found = suggest(model, batch, Search(beam=5, keep=5, longest=5, exponent=1.0))
    with torch.no_grad():
        again = scored(model, batch, found.tokens)
    torch.testing.assert_close(found.sums, again, rtol=0, atol=1e-9)
    lengths = (found.tokens > 0).sum(2) + 1
    torch.testing.assert_close(found.scores, found.sums / lengths)
    assert (found.scores.diff(dim=1) <= 0).all()

    narrow = suggest(model, batch, Search(beam=1, keep=1, longest=5, repeats=True))
    uncached = greedy_without_caches(model, batch, longest=5)
    assert torch.equal(narrow.tokens[:, 0], uncached)


def greedy_without_caches(model: Any, batch: QueryBatch, longest: int) -> Tensor:
    """Every next word by reading all words anew; all words that could come are scored as whole queries."""
    rows = len(batch.words)
    written = torch.zeros(rows, longest, dtype=torch.long)
    opened = torch.ones(rows, dtype=torch.bool)
    for step in range(longest):
        log_shares = after(model, batch, written[:, :step])
        log_shares[:, [PADDING, UNKNOWN, BEGIN]] = -math.inf
        if step == 0:
            log_shares[:, END] = -math.inf
        best = log_shares.argmax(1)
        opened &= best != END
        written[:, step] = best * opened
    return written


def after(model: Any, batch: QueryBatch, words: Tensor) -> Tensor:
    """(rows, ids) log-probabilities after some words, from the start, with a new state."""
    memory = model.encode(batch)
    state = model.writer.start(memory)
    read = torch.cat([torch.full((len(words), 1), BEGIN), words], dim=1)
    writer = model.writer
    with torch.no_grad():
        if isinstance(writer, QueryWriter) and writer.gate is None:
            states, *_ = writer.states(memory, read, PackedRows(*read.shape))
            return writer.words.log_probabilities(states.view(*read.shape, -1)[:, -1])
        for column in range(read.shape[1]):  # an LSTM has no cache to leave out
            log_shares, state = model.writer.step(memory, state, read[:, column])
        return log_shares


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("beam", "longest"), [(5, 2), (8, 3)])
def test_a_wide_beam_equals_exhaustive_search(name: str, beam: int, longest: int) -> None:
    """Of two words 2 + 4 (+ 8) queries can be made, and no more than the beam are open at once."""
    model, batch = build(name, num_ids=6), pad(sessions(20, num_ids=6))
    every = [list(words) for size in range(1, longest + 1) for words in itertools.product((4, 5), repeat=size)]
    with torch.no_grad():
        sums = scored(model, batch, pad([every]).words.expand(20, -1, -1))
    scores = sums / torch.tensor([len(words) + 1 for words in every])
    found = suggest(model, batch, Search(beam=beam, keep=5, longest=longest, exponent=1.0, repeats=True))
    for row in range(20):
        assert spelled(found, row) == [every[place] for place in scores[row].argsort(descending=True)[:5].tolist()]


@pytest.mark.parametrize("name", NAMES)
def test_batch_mates_are_invisible(name: str) -> None:
    model, rows = build(name), sessions(12, seed=3)
    whole = suggest(model, pad(rows), Search(longest=4))
    for row, session in enumerate(rows):
        alone = suggest(model, pad([session]), Search(longest=4))
        assert spelled(alone, 0) == spelled(whole, row)
        torch.testing.assert_close(alone.scores[0], whole.scores[row])


def test_stopping_early_loses_nothing() -> None:
    """The first suggestions of a search for more are those of a search for fewer, though it stops sooner."""
    model, batch = build("mtn"), pad(sessions(50, seed=4))
    for exponent in (0.0, 0.7, 1.0):
        few = suggest(model, batch, Search(beam=6, keep=2, longest=6, exponent=exponent, exhaustive=True))
        many = suggest(model, batch, Search(beam=6, keep=6, longest=6, exponent=exponent, exhaustive=True))
        assert torch.equal(few.tokens, many.tokens[:, :2])


class Counting:
    """A model that writes word 4 until it may end, and counts how often it is asked."""

    def __init__(self) -> None:
        self.steps = 0

    def start(self, memory: Tensor) -> Counting:
        return self

    def select(self, index: Tensor) -> Counting:
        return self

    def step(self, memory: Tensor, state: Counting, tokens: Tensor) -> tuple[Tensor, Counting]:
        self.steps += 1
        shares = torch.full((len(tokens), 7), 0.01)
        shares[:, END], shares[:, 4] = (0.9, 0.05) if self.steps > 1 else (0.05, 0.9)
        return shares.log(), state


def test_stops_as_soon_as_nothing_open_can_win_by_hand() -> None:
    """After "4" and its end, 0.9 x 0.9: the best open beam has 0.9 x 0.05 = 0.045, which no further word can raise."""
    model: Any = Counting()
    found = search_from(
        SimpleNamespace(writer=model), torch.zeros(1), pad([[[5]]]), Search(beam=2, keep=1, longest=9, exponent=0.0)
    )
    assert model.steps == 2
    assert found.tokens[0, 0].tolist() == [4] + [0] * 8
    assert math.exp(found.sums[0, 0]) == pytest.approx(0.81)


class Begun(NamedTuple):
    """The only word of each session."""

    words: Tensor


class Late:
    """Writes word 4 after which 0.6 end and 0.2 go on; who went on ends at the seventh word, and then surely.

    What reads word 6 never stops before that: a row that keeps its batch going.
    """

    def __init__(self, begun: Tensor, step: int = 0) -> None:
        self.begun, self.place = begun, step

    def start(self, memory: Begun) -> Late:
        return Late(memory.words[:, None])

    def select(self, index: Tensor) -> Late:
        return Late(self.begun.flatten()[index].view(len(self.begun), -1), self.place)

    def of_sources(self, index: Tensor, _: int) -> Late:
        return Late(self.begun[index], self.place)

    def step(self, memory: Begun, state: Late, tokens: Tensor) -> tuple[Tensor, Late]:
        shares = torch.full((len(tokens), 7), 1e-9)
        end, on = {0: (1e-9, 0.9), 1: (0.6, 0.2), 7: (0.999, 1e-9)}.get(state.place, (1e-9, 0.999))
        shares[:, END], shares[:, 4] = end, on
        shares[state.begun.flatten() == 6, END] = 1e-9
        return shares.log(), Late(state.begun, state.place + 1)


def test_exhaustive_waits_for_long_ones_by_hand() -> None:
    """ln(0.9 x 0.6) / 2 = -0.31. Open: ln(0.9 x 0.2) = -1.71, -0.57 over three tokens, -0.21 over eight."""

    def found(exhaustive: bool, *begun: int) -> list[list[int]]:
        search = Search(beam=1 + 1, keep=1, longest=9, exponent=1.0, exhaustive=exhaustive)
        model: Any = Late(torch.zeros(0))
        memory = Begun(torch.tensor(begun))
        tokens = search_from(SimpleNamespace(writer=model), memory, pad([[[5]]] * len(begun)), search).tokens
        return [[id for id in row if id] for row in tokens[:, 0].tolist()]

    assert found(False, 5) == [[4]]
    assert found(True, 5) == [[4] * 7]
    assert found(False, 5, 6)[0] == [4]  # who is done stays so while the others go on


# --- what must not come out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_banned_tokens_are_never_written(name: str) -> None:
    model, batch = build(name), pad(sessions(60, seed=5))
    free = set(suggest(model, batch, Search(longest=4)).tokens.flatten().tolist()) - {PADDING}
    dropped = sorted(free)[:2]
    banned = np.zeros(NUM_IDS, np.bool_)
    banned[dropped] = True
    held = set(suggest(model, batch, Search(longest=4), banned=banned).tokens.flatten().tolist()) - {PADDING}
    assert held and not held & {*dropped, UNKNOWN, BEGIN, END}


@pytest.mark.parametrize("beam", [1, 6])
def test_what_was_typed_is_not_suggested_again(beam: int) -> None:
    """Seq2Seq reads the last query alone: queries typed before it can only be left out, and the next best move up."""
    model, rows = build("seq2seq"), sessions(30, seed=6)
    free = suggest(model, pad(rows), Search(beam=beam, longest=4, keep=6, repeats=True))
    typed = [[*spelled(free, row)[:3], session[-1]] for row, session in enumerate(rows)]
    again = suggest(model, pad(typed), Search(beam=beam, longest=4, keep=6, repeats=True))
    assert torch.equal(again.tokens, free.tokens)
    held = suggest(model, pad(typed), Search(beam=beam, longest=4, keep=3))
    for row, session in enumerate(typed):
        assert not [text for text in spelled(held, row) if text in session]
        if beam > 1:
            left = [text for text in spelled(free, row) if text not in session][:3]
            assert spelled(held, row)[: len(left)] == left


def test_where_all_is_banned_there_is_nothing() -> None:
    found = suggest(build("mtn"), pad(sessions(3)), Search(), banned=np.ones(NUM_IDS, np.bool_))
    assert (found.scores == -math.inf).all()
    assert not any(spelled(found, row) for row in range(3))


# --- what is being typed ---------------------------------------------------------------------------------------------

WORDS = [b"", b"", b"", b"", *(word + b" " for word in b"brisket bring bread how to tomato a the bri new york".split())]
PIECES = [b"", b"", b"", b"", *b"b|r|i|br|bri|ng|ing| |a|\xc3|\xa9|\xc3\xa9".split(b"|")]


def text_of(spellings: list[bytes], ids: list[int]) -> str:
    return b"".join(spellings[id] for id in ids).decode(errors="replace")


def test_which_words_can_follow_by_hand() -> None:
    typed = PrefixRule(WORDS).read(["how to bri", "", "new"])

    def words(row: int, written: int) -> set[bytes]:
        return {WORDS[id].strip() for id in typed.allowed[row, written].nonzero()[0].tolist()}

    assert words(0, 0) == {b"how"}
    assert words(0, len("how ")) == {b"to"}
    assert words(0, len("how to ")) == {b"brisket", b"bring", b"bri"}
    assert typed.allowed[0, len("how to bri")].all() and typed.allowed[1].all()
    assert words(2, 0) == {b"new"}
    assert PrefixRule(WORDS).read(["to"]).allowed[0, 0].nonzero()[0].tolist() == [8, 9]  # to, tomato
    assert PrefixRule(WORDS).read(["to "]).allowed[0, 0].nonzero()[0].tolist() == [8]


@pytest.mark.parametrize("spellings", [WORDS, PIECES], ids=["words", "pieces"])
@pytest.mark.parametrize("beam", [1, 4])
def test_every_suggestion_begins_with_what_is_typed(spellings: list[bytes], beam: int) -> None:
    model, rule = build("mtn", num_ids=len(spellings)), PrefixRule(spellings)
    prefixes = {0: ["bri", "how to b", "the ", "", "to"], 1: ["bri", "brin", "é", "", "a b"]}[spellings is PIECES]
    batch = pad(sessions(5, seed=7, num_ids=len(spellings)))
    found = suggest(model, batch, Search(beam=beam, longest=7), typed=rule.read(prefixes))
    for row, prefix in enumerate(prefixes):
        texts = [text_of(spellings, ids) for ids in spelled(found, row)]
        assert texts and all(text.startswith(prefix) for text in texts), (prefix, texts)
    free = suggest(model, batch, Search(beam=beam, longest=7))
    assert torch.equal(found.tokens[3], free.tokens[3])


def test_every_way_to_cut_a_prefix_into_pieces_is_allowed() -> None:
    typed = PrefixRule(PIECES).read(["bri"])
    following = [{PIECES[id] for id in typed.allowed[0, place].nonzero()[0].tolist()} for place in range(3)]
    assert following == [{b"b", b"br", b"bri"}, {b"r"}, {b"i", b"ing"}]


def test_a_prefix_that_nothing_spells_has_no_suggestions() -> None:
    found = suggest(build("mtn", len(WORDS)), pad([[[5]]]), Search(), typed=PrefixRule(WORDS).read(["zebra"]))
    assert (found.scores == -math.inf).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam is 0; it must be at least 1"),
        ({"keep": 0}, "keep is 0; it must be at least 1"),
        ({"longest": 0}, "longest is 0; it must be at least 1"),
        ({"exponent": -0.5}, "exponent is -0.5; it must be 0 or more"),
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        Search(**settings)
    assert str(error.value) == message
