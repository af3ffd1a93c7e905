"""Training of a suggester: k-anonymity filter, tokens and counts, the network, then the ensemble's weights."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from ensue.data.histories import Histories
from ensue.data.queries import Queries, hold_out_queries, require_pairs
from ensue.data.queries.rules import normalise
from ensue.data.queries.tokens import SPECIAL, Kind, QueryTokenizer
from ensue.data.scripts import UNSPACED
from ensue.errors import DataError
from ensue.learning.life import train_network
from ensue.lines import plural
from ensue.metrics import Floats
from ensue.records import History
from ensue.schedule import RISING, Schedule
from ensue.tasks.held_examples import Example, keep, of_history
from ensue.tasks.suggest.catalogue import COUNTING, RERANKER
from ensue.tasks.suggest.dataset import CELLS, Sessions, prints
from ensue.tasks.suggest.ensembles.reranker import learn_counted_order, learn_order
from ensue.tasks.suggest.metadata import Metadata
from ensue.tasks.suggest.privacy import bounded, people_of, shared_steps
from ensue.tasks.suggest.state import SuggestState
from ensue.training.checkpoint import Checkpoint
from ensue.training.loop import mean_loss
from ensue.training.report import Report
from ensue.vocabulary import FIRST, Vocabulary

LEARNED_ORDER = (
    "found_in_pool", "mixture", "mix", "validation_mrr", "word_cost", "validation_bleu",
)  # fmt: skip
"""Metadata from held-out sessions that a refit on the whole log takes over."""
WANTED = 1000
"""Held-out targets that say how to order suggestions, if ..."""
LEAST_SHARE, MOST_SHARE = 0.1, 1 / 3
"""... they are no more than a third of the log; of a large log it is a tenth. All are learned in the end."""
DATED = 1e8
"""Times after this (seconds, 1973) count from 1970, so that sessions can be put in order of their start."""


def fit(state: SuggestState, data: Queries, valid: Queries | None, checkpoint: Checkpoint) -> Iterator[Report]:
    """See :meth:`ensue.tasks.suggest.predictor.SuggestPredictor.fit`."""
    require_pairs(data, "training data")
    split = _split(state, bounded(data, state.shared.min_users), valid)
    yield from _learn(state, split, valid, checkpoint)
    if split.held_out is not None and state.schedule is not None:
        held = split.held_out.histories
        keep(state, len(held), lambda at: _example(state, held.record(at)), learned=split.whole is not None)


def _example(state: SuggestState, session: History) -> Example | None:
    """Return a step that enough people made and nothing else: the last one of a session, without its times."""
    if state.shared.min_users == 1:
        return of_history(session) if state.floor.queries.issuperset(session.values) else None
    last = History(session.values[-2:])
    following, (before, after) = state.following, (state.following.vocabulary.id(query) for query in last.values)
    _, followers, _ = following.follow(np.array([before - FIRST]), np.array([len(following.queries)]))
    return of_history(last) if after - FIRST in followers else None


def _learn(state: SuggestState, split: _Split, valid: Queries | None, checkpoint: Checkpoint) -> Iterator[Report]:
    require_pairs(split.learned, "training data")
    if state.schedule is None:
        learn_words(state, split.learned)
        state.model = state.retrieval
        if state.model_name == RERANKER:
            _count_only(state, split.learned)
    else:
        assert split.held_out is not None
        require_pairs(split.held_out, "validation data")
        counted = None
        if state.chooses and state.shared.retrieved:
            every = split.learned if split.whole is None else split.whole
            learn_words(state, every)
            if not _count_only(state, every):
                if split.rule and valid is not None:
                    state.metadata.notes.append(f"validation data: {split.rule}")
                return
            counted = state.metadata
        learn_words(state, split.learned)
        yield from _train(state, split.learned, split.held_out, "fit", checkpoint)
        leader = learn_order(state, split.held_out, counted)
        if split.whole is not None:
            yield from _learn_all(state, split.whole, leader, checkpoint)
        if leader is not None:
            _settle(state, leader, counted if leader == RERANKER else None, "the network mixed with it")
    if split.rule and not state.metadata.held_out:
        state.metadata.held_out = split.rule


def _count_only(state: SuggestState, data: Queries) -> bool:
    """Learn an order without a network, and stay with what ranks best unless a network may pay.

    A network costs hundreds of times what counting does. Where not even an order learned from all sessions is
    significantly better than counting, little can be learned, and ``best`` spends no more on it.
    """
    leader, is_better = learn_counted_order(state, data)
    if is_better and state.model_name != RERANKER and len(state.windows(shared_steps(data, state.floor))):
        return True
    state.metadata.held_out = f"each fifth of {len(data):,} sessions, scored by counts of the others"
    _settle(state, leader, state.metadata if leader == RERANKER else None, "the ranking model")
    return False


def _given(data: Queries, valid: Queries, rule: str, *, refit: bool) -> _Split:
    """Validation data that was given is learned in the end if it is later, and no person can be counted twice for it.

    It is later where no session of it began before the last one of the training data; where neither has a clock, files
    stand for the order in which they were given. People in both logs would reach the k-anonymity threshold twice.
    """
    if not refit:
        return _Split(data, valid, None, rule)
    one, other = data.histories, valid.histories
    why = ""
    if len(data.users) or len(valid.users):
        why = "users in both logs cannot be detected"
    elif one.timed != other.timed or (_dated(one) and _dated(other) and _starts(other).min() < _starts(one).max()):
        why = "not later than the training data"
    begun = f"{rule}; " if rule else ""
    if why:
        return _Split(data, valid, None, f"{begun}{len(valid):,} given, not used for the final training: {why}")
    vocabulary = Vocabulary(one.vocabulary.values)
    vocabulary.add(other.vocabulary.values)
    parts = [own.encode(vocabulary) for own in (one, other)]
    offsets = np.concatenate([one.offsets, one.offsets[-1] + other.offsets[1:]])
    ids, times = (np.concatenate([getattr(own, name) for own in parts]) for name in ("ids", "times"))
    whole = Queries(Histories(ids, offsets, vocabulary, times))
    return _Split(data, valid, whole, f"{begun}{len(valid):,} given, used for the final training unless --no-refit")


def _dated(sessions: Histories) -> bool:
    """Return whether times are Unix times, so that sessions can be sorted by their start."""
    return sessions.timed and float(sessions.times.min()) > DATED


def _starts(sessions: Histories) -> Floats:
    """Return the start of each session that is not empty."""
    return sessions.times[sessions.offsets[:-1][sessions.lengths > 0]]


def _learn_all(
    state: SuggestState, whole: Queries, leader: str | None, checkpoint: Checkpoint
) -> Generator[Report, None, None]:
    """Learn what was held out as well: count anew, and train for as many epochs as were best."""
    chosen = state.metadata
    learn_words(state, whole)
    own = state.metadata
    for name in LEARNED_ORDER:
        if name in vars(chosen):
            setattr(own, name, getattr(chosen, name))
    if leader is None:
        yield from _train(state, whole, None, "refit", checkpoint.sibling(".refit"), chosen.epochs)
        own.epochs, own.validation_loss = chosen.epochs, chosen.validation_loss
    own.notes += [note for note in chosen.notes if note not in own.notes]


def _settle(state: SuggestState, leader: str, order: Metadata | None, beaten: str) -> None:
    """Become the model that ranked held-out sessions best, without a network.

    Args:
        state: counted, or trained.
        leader: its name.
        order: where its weights stand; ``None`` for a model that has none.
        beaten: what it was compared with, for people.
    """
    metadata = state.metadata
    figures = metadata.validation_mrr
    assert figures is not None
    if leader in figures:
        metadata.notes.append(
            f"this folder is {leader}: its MRR@10 on held-out sessions is {100 * figures[leader]:.2f}, that of "
            f"{beaten} {100 * figures['mixed']:.2f}"
        )
    elif state.model_name != leader:
        best = max(figures[name] for name in COUNTING)
        metadata.notes.append(
            f"this folder is {leader}, without a network: its MRR@10 on held-out sessions is "
            f"{100 * figures['mixed']:.2f}, that of the best baseline model {100 * best:.2f}"
        )
    for name in LEARNED_ORDER:
        if order is not None or name != "validation_mrr":
            setattr(metadata, name, getattr(order or Metadata, name))
    state.model_name, state.settings, state.schedule, state.optimizer = leader, None, None, None
    assert state.retrieval is not None
    if order is None:
        state.retrieval = state.retrieval.without_topics()
    state.model = state.retrieval


class _Split(NamedTuple):
    """Training and held-out parts."""

    learned: Queries
    held_out: Queries | None
    """Held-out sessions for early stopping and the order of suggestions."""
    whole: Queries | None
    """Sessions of the final refit; ``None`` for no refit."""
    rule: str
    """How the data was split, as the card states it."""


def _split(state: SuggestState, data: Queries, valid: Queries | None) -> _Split:
    """The file's own parts, or the sessions that begin last."""
    names = set(data.parts.unique()) if len(data.parts) else set()
    own = "train" in names and len(names) > 1
    part = data.part("train") if own else data
    rule = "as marked in the file: trained on the sessions of train only" if own else ""
    if state.schedule is None:
        return _Split(part, valid, None, rule)
    refit = state.schedule.refit
    if valid is not None:
        return _given(part, valid, rule, refit=refit)
    if own and "valid" in names:
        held = data.part("valid", novel=bool(data.novel[(data.parts == "valid").to_numpy()].any()))
        kind = " that the file marks as novel" if len(held) < len(data.part("valid")) else ""
        rule = f"as marked in the file: {plural(len(part), 'session')} in train, {len(held):,} in valid{kind}"
        known = data.select((data.parts == "train").to_numpy() | (data.parts == "valid").to_numpy())
        return _Split(part, held, known if refit else None, f"{rule}, used for the final training" if refit else rule)
    targets = int(np.maximum(part.histories.lengths - 1, 0).sum())
    share = min(max(LEAST_SHARE, WANTED / max(targets, 1)), MOST_SHARE if refit else LEAST_SHARE)
    learned, held, rule = hold_out_queries(part, share, absolute=_dated(part.histories))
    return _Split(learned, held, part if refit else None, rule)


def learn_words(state: SuggestState, data: Queries) -> None:
    """Take the floor, the tokens, the counts and the metadata from the training data."""
    own, histories = state.shared, data.histories
    values = pl.Series("query", histories.vocabulary.values, dtype=pl.String)
    state.count(data, own.min_users)
    floor = state.floor
    common = floor.common(values)
    nothing = "no query was" if floor.words else "no query and no word was"
    if not floor.queries and (state.schedule is None or not (common != "").any()):
        raise DataError(
            f"training data: {nothing} typed by {own.min_users} {floor.counted}, so nothing could ever be "
            "suggested; give a larger log, or lower --min-users (min_users)"
        )
    typed = histories.ids.astype(np.int64) - FIRST
    if own.min_users > 1:  # each person counts once
        people = people_of(data)[histories.sequence_index()]
        typed = pl.DataFrame({"query": typed, "person": people}).unique()["query"].to_numpy()
    counts = np.bincount(typed, minlength=len(values))
    state.tokenizer = QueryTokenizer.fit(
        common, counts, kind=_kind(own.tokens, common), min_count=own.min_count, size=own.vocabulary_size
    )
    state.train_prints = torch.from_numpy(np.unique(prints(shared_steps(data, floor))))
    used = values.gather(np.unique(histories.ids).astype(np.int64) - FIRST)
    state.metadata = Metadata(
        sessions=len(data),
        queries=len(histories.ids),
        distinct=len(used),
        tokens=len(state.tokenizer) - len(SPECIAL),
        normalisation="paper" if (normalise(used, "paper") == used).all() else "plain",
        notes=[],
    )


def _kind(tokens: str, queries: pl.Series) -> Kind:
    """Return what the queries are cut into: of Han, kana, Thai and the like a whole query would be one word."""
    num_unspaced = int(queries.str.contains(f"[{UNSPACED}]").sum())
    is_unspaced = 2 * num_unspaced > int((queries != "").sum())
    return "bpe" if tokens == "bpe" or (tokens == "auto" and is_unspaced) else "words"


def note_cuts(state: SuggestState, data: Sessions) -> None:
    """Say what the caps did."""
    own, notes = state.shared, state.metadata.notes
    if data.cut_sessions:
        notes.append(f"trained in windows: {plural(data.cut_sessions, 'session')} of more than {own.turns} queries")
    if data.cut_queries:
        notes.append(f"cut to {own.query_tokens} tokens: {plural(data.cut_queries, 'query', 'queries')}")


def fitted(schedule: Schedule, rows: int, targets: int) -> Schedule:
    """A schedule for so many windows and queries, in which the step size rises in a tenth of all steps at most.

    Training stops on a plateau long before the last step, and of few steps none may be left after the paper's rise.
    """
    found = schedule.fitted(rows, targets)
    if found.warm_up is None:
        return found
    steps = found.epochs * -(-rows // found.batch_size)
    return replace(found, warm_up=max(1, min(found.warm_up, steps // RISING)))


def _train(
    state: SuggestState,
    part: Queries,
    held: Queries | None,
    stage: str,
    checkpoint: Checkpoint,
    epochs: int | None = None,
) -> Generator[Report, None, None]:
    """Train the network from its beginning; it ends with its best weights, or after so many ``epochs``."""
    assert state.schedule is not None
    torch.manual_seed(state.seed)
    state.model = state.new_network()
    network = state.module
    state.optimizer = state.new_optimizer()
    data = state.windows(shared_steps(part, state.floor))
    if not len(data):
        raise DataError(
            f"training data: no step from one query to the next was made by {state.floor.min_users} "
            f"{state.floor.counted}, so a network has no training data; fit a count-based model (--model reranker), "
            "or lower --min-users (min_users)"
        )
    watched = None if held is None else state.windows(held.histories)
    note_cuts(state, data)
    schedule = fitted(state.schedule, len(data), int((data.lengths - 1).sum()))
    if epochs is not None:
        schedule = replace(schedule, epochs=epochs)
    yield from train_network(
        state,
        data,
        None if watched is None else lambda: mean_loss(network, watched, CELLS),
        schedule,
        arrays=[*data.arrays(), *(watched.arrays() if watched is not None else ())],
        checkpoint=checkpoint,
        stage=stage,
    )
    if watched is not None:
        state.metadata.validation_loss = mean_loss(network, watched, CELLS)
