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

from ensue.answers import Answer, Attribution, Choice, QueryExplanation
from ensue.data.histories import Histories, Index
from ensue.errors import SettingError
from ensue.learning.state import require_trained
from ensue.metrics import Floats
from ensue.records import History, as_tuple
from ensue.settings import require_k
from ensue.tasks.suggest.baselines.shares import CONDITIONS
from ensue.tasks.suggest.batch import PADDING, UNKNOWN, PaddedQueries, padded
from ensue.tasks.suggest.catalogue import RERANKER
from ensue.tasks.suggest.dataset import spell_out
from ensue.tasks.suggest.infer import GROUP, Rankings, clean, clean_prefix, ranked, spelled
from ensue.tasks.suggest.state import SuggestState
from ensue.text.linear import log_softmax
from ensue.vocabulary import FIRST

MAX_K = 1000
"""Suggestions that can be asked for: the search keeps as many beams, and each has states of its own."""
MAX_ATTRIBUTIONS = 3
"""Earlier queries that stand beside a suggestion, at most."""
NUM_DELETED = 2
"""Number of most attended queries of the best suggestion that are deleted."""


def answers(
    state: SuggestState, records: Sequence[History], k: int, prefix: str | Sequence[str] = "", *, evidence: bool = True
) -> list[Answer]:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.predict`."""
    require_k(k, MAX_K)
    require_trained(state.model)
    prefixes = [prefix] * len(records) if isinstance(prefix, str) else as_tuple(prefix, "prefix", "texts")
    if not all(isinstance(text, str) for text in prefixes):
        raise SettingError("prefix must be text; give one text for all records, or one per record")
    if len(prefixes) != len(records):
        raise SettingError(f"{len(prefixes)} prefixes for {len(records)} records; give one for all, or one per record")
    if not len(records):
        return []
    normalisation = state.metadata.normalisation
    typed, positions = _typed(state, records)
    sessions = Histories.of(History(values) for values in typed)
    typed_prefixes = [clean_prefix(str(text), normalisation) for text in prefixes]
    lists = ranked(state, sessions, k, typed_prefixes)
    known_counts = _known(state, sessions)
    attributions = _attributions(state, sessions, lists, positions, evidence=evidence)
    return [
        Answer(
            tuple(Choice(text, score, attribution) for (text, score), attribution in zip(choices, row, strict=True)),
            in_vocabulary,
            len(record.values),
            id=record.id,
        )
        for record, choices, in_vocabulary, row in zip(records, lists, known_counts, attributions, strict=True)
    ]


def typed_sessions(state: SuggestState, records: Sequence[History]) -> Histories:
    """Return the sessions of records, their queries normalised and blank ones left out."""
    return Histories.of(History(values) for values in _typed(state, records)[0])


def _typed(state: SuggestState, records: Sequence[History]) -> tuple[list[tuple[str, ...]], list[tuple[int, ...]]]:
    """The queries of each record as they are learned, and where each stands there; blank ones are no queries."""
    # All queries of all records are normalised in one call, and handed out again in order.
    flat = iter(clean([value for record in records for value in record.values], state.metadata.normalisation))
    cleaned = [[(position, next(flat)) for position in range(len(record.values))] for record in records]
    filled = [[(position, text) for position, text in queries if text] for queries in cleaned]
    return [tuple(text for _, text in queries) for queries in filled], [
        tuple(position for position, _ in queries) for queries in filled
    ]


def _known(state: SuggestState, sessions: Histories) -> list[int]:
    """Count the queries of each session that have a known word."""
    spell = state.search_rules().spelling
    return [sum(any(id != UNKNOWN for id in ids) for ids in spell(record.values)) for record in sessions.records()]


def _attributions(
    state: SuggestState, sessions: Histories, lists: Rankings, positions: Sequence[tuple[int, ...]], *, evidence: bool
) -> list[list[tuple[Attribution, ...]]]:
    """For each session the earlier queries that each of its suggestions is attributed to; none without ``evidence``."""
    attributions: list[list[tuple[Attribution, ...]]] = [[()] * len(choices) for choices in lists]
    explained = [row for row, choices in enumerate(lists) if evidence and sessions.lengths[row] and choices]
    weigh = _counted if state.schedule is None else _networks
    for low in range(0, len(explained), GROUP):
        rows = explained[low : low + GROUP]
        group = sessions.select(np.array(rows, np.int64))
        for row, choices in zip(rows, weigh(state, group, [lists[row] for row in rows]), strict=True):
            values = sessions.record(row).values
            attributions[row] = [
                tuple(
                    Attribution(values[turn], positions[row][turn], share, score_drop)
                    for turn, share, score_drop in weighted
                )
                for weighted in choices
            ]
    return attributions


Weighted = list[tuple[int, float, float | None]]
"""Turn, share, and the drop of the score without it."""


def _counted(state: SuggestState, sessions: Histories, lists: Rankings) -> Iterator[list[Weighted]]:
    """Return each query's contribution to a suggestion's probability; popular suggestions have none."""
    following = state.following
    query_ids = following.query_ids(sessions)[0]
    tables = [
        (weight, state.shares.given([name], sessions, query_ids, by_query=True))
        for name, weight in _weights_of(state).items()
    ]
    for row, choices in enumerate(lists):
        turns = {value: turn for turn, value in enumerate(sessions.record(row).values)}
        suggested_ids = following.vocabulary.ids(text for text, _ in choices).astype(np.int64) - FIRST
        events = np.arange(sessions.offsets[row], sessions.offsets[row + 1])
        # (turns, choices): the rows of the session's queries, of which only the suggested columns are needed.
        contributions = np.zeros((len(events), len(choices)))
        for weight, table in tables:
            contributions += weight * table.at(events[:, None], suggested_ids)
        contributions[:, suggested_ids < 0] = 0.0  # not in the log
        weights = contributions / np.maximum(contributions.sum(0), np.finfo(np.float64).tiny)
        yield [
            [(turns[text], 1.0, None)]
            if text in turns
            else [(turn, float(weights[turn, choice]), None) for turn in _largest(weights[:, choice])]
            for choice, (text, _) in enumerate(choices)
        ]


def _weights_of(state: SuggestState) -> dict[str, float]:
    """By name in ``CONDITIONS`` how much of what a counting model expects it brings."""
    if state.model_name == RERANKER:
        return {
            name: weight
            for name, weight in (state.metadata.mixture or {}).items()
            if name in CONDITIONS and name != "turn"
        }
    name = {"most-frequent-next": "last-query"}.get(state.model_name, state.model_name)
    return {name: 1.0} if name in CONDITIONS else {}


def _largest(weights: Floats) -> list[int]:
    """Return the turns with the largest weights above 0, the largest first."""
    turns = np.argsort(-weights, kind="stable")[:MAX_ATTRIBUTIONS]
    return [turn for turn in turns.tolist() if weights[turn] > 0]


def _networks(state: SuggestState, sessions: Histories, lists: Rankings) -> Iterator[list[Weighted]]:
    """Return each query's attention weight in a suggestion, and the drop of its score without the query."""
    batch = padded(spelled(state, sessions))
    weights = by_query(state, batch, lists)
    deleted_turns = [np.argsort(-session_weights[0], kind="stable")[:NUM_DELETED] for session_weights in weights]
    # Turns of the network begin at the latest queries, which are all that it reads.
    skipped = sessions.lengths - np.minimum(sessions.lengths, state.shared.turns)
    drops = _without(state, batch, lists, deleted_turns)
    for row, session_weights in enumerate(weights):
        choices: list[Weighted] = []
        for choice, choice_weights in enumerate(session_weights):
            drop_of = dict(zip(deleted_turns[row].tolist(), drops[row][:, choice].tolist(), strict=True))
            choices.append(
                [
                    (turn + int(skipped[row]), float(choice_weights[turn]), drop_of.get(turn))
                    for turn in _largest(choice_weights)
                ]
            )
        yield choices


def by_query(state: SuggestState, batch: PaddedQueries, lists: Rankings) -> list[Floats]:
    """For each session (choices, turns) how much each suggestion leaned on each query: the mean over its tokens."""
    owners = np.repeat(np.arange(len(lists)), [len(choices) for choices in lists])
    candidates = padded([state.search_rules().spelling([text for choices in lists for text, _ in choices])]).words[0]
    # One row per suggestion: its session is repeated as often as it has suggestions.
    weights = state.generator.attributions(PaddedQueries(batch.words[owners], batch.lengths[owners]), candidates)
    lengths = (candidates != PADDING).sum(1)[:, None].clip(min=1)
    # (rows, tokens, turns, width): sum over the words of each query, mean over the suggestion's tokens.
    shares: Floats = weights.sum(3).sum(1) / lengths
    turns = (batch.lengths > 0).sum(1).tolist()
    return [shares[owners == row][:, : turns[row]] for row in range(len(lists))]


def _without(
    state: SuggestState, batch: PaddedQueries, lists: Rankings, deleted_turns: Sequence[Index]
) -> list[Floats]:
    """For each session (deleted_turns, choices) what each score falls by when the network does not read that query."""
    owners = np.array([row for row, turns in enumerate(deleted_turns) for _ in turns], np.int64)
    deleted = np.array([turn for turns in deleted_turns for turn in turns.tolist()], np.int64)
    spell = state.search_rules().spelling
    candidates = padded([spell([text for text, _ in choices]) for choices in lists]).words
    words, lengths = batch.words[owners], batch.lengths[owners]
    positions = np.arange(lengths.shape[1])
    # Queries behind the deleted one move one turn to the front, and the last turn becomes empty.
    moved = np.minimum(positions + (positions >= deleted[:, None]), lengths.shape[1] - 1)
    shorter = np.where(positions == lengths.shape[1] - 1, 0, np.take_along_axis(lengths, moved, 1))
    words_without = np.take_along_axis(words, moved[..., None], 1)
    # The copy of the last turn and what was read past a query's end are padding again.
    words_without = words_without * (np.arange(words.shape[2]) < shorter[..., None])

    def score(queries: PaddedQueries, candidates: Index) -> Floats:
        scores = state.generator.score(state.generator.encode(queries), candidates).astype(np.float64)
        return scores / ((candidates != PADDING).sum(2) + 1) ** state.shared.exponent

    all_scores = score(batch, candidates)
    deleted_scores = score(PaddedQueries(words_without, shorter), candidates[owners])
    drops = []
    low = 0
    for row, choices in enumerate(lists):
        shown_scores = np.array([score for _, score in choices])
        turns = len(deleted_turns[row])
        mass = shown_scores.sum()
        size = len(choices)
        # Probabilities among the suggestions shown, scaled to what these had of all candidates.
        without = np.exp(log_softmax(deleted_scores[low : low + turns, :size]))
        drops.append(mass * (np.exp(log_softmax(all_scores[row : row + 1, :size])) - without))
        low += turns
    return drops


def explanations(state: SuggestState, records: Sequence[History], k: int) -> list[QueryExplanation]:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.explain`."""
    pairs = zip(records, answers(state, records, k), strict=True)
    return [explanation(state, record, answer) for record, answer in pairs]


def explanation(state: SuggestState, record: History, answer: Answer) -> QueryExplanation:
    """Return the attributions of each word of the best suggestion; empty for baselines and empty sessions."""
    (typed,), _ = _typed(state, [record])
    queries = typed[-state.shared.turns :]
    tokenizer = state.tokenizer
    width = state.shared.query_tokens
    best = answer.choices[0].value if answer.choices else ""
    texts = pl.Series("query", [*queries, best], dtype=pl.String)
    tokens, offsets = spell_out(tokenizer, texts)
    spans = [tokens[low:high].tolist() for low, high in pairwise(offsets.tolist())]
    # The network reads only the first tokens of a long query, but all of the suggestion.
    spans[:-1] = [span[:width] for span in spans[:-1]]
    words = tuple(tuple(tokenizer.decode([id]) for id in span) for span in spans)
    weights: tuple[tuple[float, ...], ...] = ()
    if queries and best and state.schedule is not None:
        batch = padded(spelled(state, Histories.of([History(typed)])))
        rows = state.generator.attributions(batch, np.array([spans[-1]], np.int64))[0]
        positions = np.arange(batch.words.shape[2]) < batch.lengths[0][:, None]
        weights = tuple(tuple(row[positions].tolist()) for row in rows)
    suggested = words[-1] if best else ()
    return QueryExplanation(queries, words[:-1], suggested, weights, answer)
