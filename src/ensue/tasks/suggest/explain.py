"""Answers with what they attended to: the earlier queries of each suggestion, and the words of the best one.

The weights are those of the network (see ``attributions`` of each), what the model attended to and not why; so the
queries attended to most are taken out, one at a time, and ``score_drop`` is how far a suggestion's share of those shown
falls when the network does not read that query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ensue.answers import Answer, Attribution, Choice, QueryExplanation
from ensue.data.histories import Histories, Index
from ensue.errors import SettingError
from ensue.ids import as_tuple
from ensue.metrics import Floats
from ensue.records import History
from ensue.settings import require_k
from ensue.tasks.state import evaluating, require_trained
from ensue.tasks.suggest.baselines.shares import GIVEN
from ensue.tasks.suggest.batch import PADDING, UNKNOWN, Batch
from ensue.tasks.suggest.catalogue import RERANKER
from ensue.tasks.suggest.dataset import spell_out
from ensue.tasks.suggest.infer import GROUP, batch_of, clean, clean_prefix, ranked, tokens_of
from ensue.tasks.suggest.models.scoring import score
from ensue.tasks.suggest.state import SuggestState
from ensue.text.sparse import SparseRows
from ensue.vocabulary import FIRST

WIDEST = 1000
"""Suggestions that can be asked for: the search keeps as many beams, and each has states of its own."""
SHOWN = 3
"""Earlier queries that stand beside a suggestion, at most."""
TESTED = 2
"""Number of most attended queries of the best suggestion that are deleted."""


def answers(
    state: SuggestState, records: Sequence[History], k: int, prefix: str | Sequence[str] = "", *, evidence: bool = True
) -> list[Answer]:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.predict`."""
    require_k(k, WIDEST)
    require_trained(state.model)
    prefixes = [prefix] * len(records) if isinstance(prefix, str) else as_tuple(prefix, "prefix", "texts")
    if not all(isinstance(text, str) for text in prefixes):
        raise SettingError("prefix must be text; give one text for all records, or one per record")
    if len(prefixes) != len(records):
        raise SettingError(f"{len(prefixes)} prefixes for {len(records)} records; give one for all, or one per record")
    if not len(records):
        return []
    kind = state.metadata.normalisation
    typed, places = _typed(state, records)
    sessions = Histories.of(History(values) for values in typed)
    begun = [clean_prefix(str(text), kind) for text in prefixes]
    lists = list(ranked(state, sessions, k, begun))
    known = _known(state, sessions)
    attributions = _attributions(state, sessions, lists, places) if evidence else iter(())
    return [
        Answer(
            tuple(
                Choice(text, score, own)
                for (text, score), own in zip(choices, next(attributions, [()] * len(choices)), strict=True)
            ),
            in_vocabulary,
            len(record.values),
            id=record.id,
        )
        for record, choices, in_vocabulary in zip(records, lists, known, strict=True)
    ]


def _typed(state: SuggestState, records: Sequence[History]) -> tuple[list[tuple[str, ...]], list[tuple[int, ...]]]:
    """The queries of each record as they are learned, and where each stands there; blank ones are no queries."""
    flat = iter(clean([value for record in records for value in record.values], state.metadata.normalisation))
    cleaned = [[(place, next(flat)) for place in range(len(record.values))] for record in records]
    filled = [[(place, text) for place, text in own if text] for own in cleaned]
    return [tuple(text for _, text in own) for own in filled], [tuple(place for place, _ in own) for own in filled]


def _known(state: SuggestState, sessions: Histories) -> list[int]:
    """Count the queries of each session that have a known word."""
    spell = state.search_rules().spelling
    return [sum(any(id != UNKNOWN for id in ids) for ids in spell(record.values)) for record in sessions.records()]


Lists = Sequence[list[tuple[str, float]]]


def _attributions(
    state: SuggestState, sessions: Histories, lists: Lists, places: Sequence[tuple[int, ...]]
) -> Iterator[list[tuple[Attribution, ...]]]:
    """For each session the queries that each of its suggestions leaned on."""
    for low in range(0, len(sessions), GROUP):
        part = sessions.select(slice(low, low + GROUP))
        rows = [row for row in range(len(part)) if part.lengths[row] and lists[low + row]]
        chosen = part.select(np.array(rows, np.int64))
        own = [lists[low + row] for row in rows]
        counted = state.schedule is None
        by_session = iter(_counted(state, chosen, own) if counted else _networks(state, chosen, own))
        for row in range(len(part)):
            if row not in rows:
                yield [()] * len(lists[low + row])
                continue
            where, values = places[low + row], part.record(row).values
            yield [
                tuple(Attribution(values[turn], where[turn], share, score_drop) for turn, share, score_drop in choice)
                for choice in next(by_session)
            ]


Weighted = list[tuple[int, float, float | None]]
"""Turn, share, and the drop of the score without it."""


def _counted(state: SuggestState, sessions: Histories, lists: Lists) -> Iterator[list[Weighted]]:
    """Return each query's contribution to a suggestion's probability; popular suggestions have none."""
    following = state.following
    places = following.places(sessions)[0]
    tables = [(part, state.shares.by_query(name, sessions, places)) for name, part in _leaned_on(state).items()]
    for row, choices in enumerate(lists):
        values, low = sessions.record(row).values, int(sessions.offsets[row])
        turns = {value: turn for turn, value in enumerate(values)}
        brings = [
            (turn, [(part, _cells(rows, low + turn)) for part, rows in tables])
            for turn in range(len(values) if tables else 0)
        ]
        known = (following.vocabulary.id(text) - FIRST for text, _ in choices)
        yield [
            [(turns[text], 1.0, None)]
            if text in turns
            else _largest([(turn, sum(part * own.get(place, 0.0) for part, own in rows)) for turn, rows in brings])
            for (text, _), place in zip(choices, known, strict=True)
        ]


def _leaned_on(state: SuggestState) -> dict[str, float]:
    """By name in ``GIVEN`` how much of what a counting model expects it brings."""
    if state.model_name == RERANKER:
        return {name: part for name, part in (state.metadata.mixture or {}).items() if name in GIVEN and name != "turn"}
    name = {"most-frequent-next": "last-query"}.get(state.model_name, state.model_name)
    return {name: 1.0} if name in GIVEN else {}


def _cells(rows: SparseRows, row: int) -> dict[int, float]:
    """The filled cells of a row."""
    part = slice(rows.indptr[row], rows.indptr[row + 1])
    return dict(zip(rows.indices[part].tolist(), rows.data[part].tolist(), strict=True))


def _largest(parts: list[tuple[int, float]]) -> Weighted:
    """The turns that bring the most, with their shares of all that turns bring."""
    whole = sum(part for _, part in parts)
    best = sorted((own for own in parts if own[1] > 0), key=lambda pair: -pair[1])[:SHOWN]
    return [(turn, part / whole, None) for turn, part in best]


def _networks(state: SuggestState, sessions: Histories, lists: Lists) -> Iterator[list[Weighted]]:
    batch = batch_of(state, sessions)
    shares = by_query(state, batch, lists)
    tested = [np.argsort(-own[0], kind="stable")[:TESTED] for own in shares]
    cut = sessions.lengths - np.minimum(sessions.lengths, state.shared.turns)
    drops = _without(state, batch, lists, tested)
    for row, own in enumerate(shares):
        choices: list[Weighted] = []
        for choice, line in enumerate(own):
            best = [turn for turn in np.argsort(-line, kind="stable")[:SHOWN].tolist() if line[turn] > 0]
            falls = dict(zip(tested[row].tolist(), drops[row][:, choice].tolist(), strict=True))
            choices.append([(turn + int(cut[row]), float(line[turn]), falls.get(turn)) for turn in best])
        yield choices


def by_query(state: SuggestState, batch: Batch, lists: Lists) -> list[Floats]:
    """For each session (choices, turns) how much each suggestion leaned on each query: the mean over its tokens."""
    owners = np.repeat(np.arange(len(lists)), [len(choices) for choices in lists])
    candidates = tokens_of(state, [[text] for choices in lists for text, _ in choices])[:, 0]
    rows = torch.from_numpy(owners).to(batch.words.device)
    weights = attributions(state, Batch(batch.words[rows], batch.lengths[rows]), candidates)
    lengths = (candidates != PADDING).sum(1)[:, None].clamp(min=1)
    shares: Floats = (weights.sum(3).sum(1) / lengths).numpy()
    turns = (batch.lengths > 0).sum(1).tolist()
    return [shares[owners == row][:, : turns[row]] for row in range(len(lists))]


def attributions(state: SuggestState, batch: Batch, candidates: Tensor) -> Tensor:
    """(rows, tokens, turns, width) weights on the CPU; see ``attributions`` of each network."""
    return evaluating(state.network).attributions(batch, candidates.to(state.device)).double().cpu()


def _without(state: SuggestState, batch: Batch, lists: Lists, tested: Sequence[Index]) -> list[Floats]:
    """For each session (tested, choices) what each score falls by when the network does not read that query."""
    owners = torch.tensor([row for row, turns in enumerate(tested) for _ in turns])
    gone = torch.tensor([turn for turns in tested for turn in turns.tolist()])
    candidates = tokens_of(state, [[text for text, _ in choices] for choices in lists]).to(state.device)
    words, lengths = batch.words[owners], batch.lengths[owners]
    order = torch.arange(lengths.shape[1]).expand(len(owners), -1)
    order = (order + (order >= gone[:, None]).long()).clamp(max=lengths.shape[1] - 1)
    last = torch.arange(lengths.shape[1]) == lengths.shape[1] - 1
    shorter = lengths.gather(1, order.to(lengths.device)).masked_fill(last.to(lengths.device), 0)
    moved = words.gather(1, order.to(words.device)[..., None].expand(-1, -1, words.shape[2]))
    moved = moved * (torch.arange(words.shape[2], device=words.device) < shorter[..., None])
    with torch.no_grad():
        whole = _order(state, batch, candidates)
        less = _order(state, Batch(moved, shorter), candidates[owners])
    drops, low = [], 0
    for row, choices in enumerate(lists):
        shown, turns = np.array([score for _, score in choices]), len(tested[row])
        mass, size = shown.sum(), len(choices)
        without = less[low : low + turns, :size].softmax(1).numpy()
        drops.append(mass * (whole[row : row + 1, :size].softmax(1).numpy() - without))
        low += turns
    return drops


def _order(state: SuggestState, batch: Batch, candidates: Tensor) -> Tensor:
    """(rows, choices) what the network alone would order suggestions by."""
    network, lengths = evaluating(state.network), (candidates != PADDING).sum(2) + 1
    scores = score(network.writer, network.encode(batch), candidates)
    return (scores.double() / lengths**state.shared.exponent).cpu()


def explanations(state: SuggestState, records: Sequence[History], k: int) -> list[QueryExplanation]:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.explain`."""
    pairs = zip(records, answers(state, records, k), strict=True)
    return [explanation(state, record, answer) for record, answer in pairs]


def explanation(state: SuggestState, record: History, answer: Answer) -> QueryExplanation:
    """Return the attributions of each word of the best suggestion; empty for baselines and empty sessions."""
    (typed,), _ = _typed(state, [record])
    read = typed[-state.shared.turns :]
    tokenizer, width = state.tokenizer, state.shared.query_tokens
    best = answer.choices[0].value if answer.choices else ""
    texts = pl.Series("query", [*read, best], dtype=pl.String)
    tokens, offsets = spell_out(tokenizer, texts)
    spans = [tokens[low:high].tolist() for low, high in pairwise(offsets.tolist())]
    spans[:-1] = [span[:width] for span in spans[:-1]]
    words = tuple(tuple(tokenizer.decode([id]) for id in span) for span in spans)
    weights: tuple[tuple[float, ...], ...] = ()
    if read and best and state.schedule is not None:
        batch = batch_of(state, Histories.of([History(typed)]))
        rows = attributions(state, batch, torch.tensor([spans[-1]]))[0]
        places = batch.mask[0].cpu()
        weights = tuple(tuple(row[places].tolist()) for row in rows)
    suggested = words[-1] if best else ()
    return QueryExplanation(read, words[:-1], suggested, weights, answer)
